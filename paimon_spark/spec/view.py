"""Permanent views: the content of their files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from paimon_spark.errors import CorruptTableError, UnsupportedError
from paimon_spark.spec.stored_json import json_object, read_as

VERSION = 1


@dataclass(frozen=True, slots=True)
class View:
    """A named query of Spark.

    Args:
        query: its text.
        columns: the columns as Spark's JSON.
        context: the context of the query's resolution: current catalog and database, settings, names of the query's
            columns.
        properties: those of the user.
        comment: the comment of the view.
        version: the version of this layout.
    """

    query: str
    columns: list[dict[str, Any]]
    context: dict[str, str]
    properties: dict[str, str] = field(default_factory=dict)
    comment: str | None = None
    version: int = VERSION

    def to_json(self) -> str:
        """Return the content of the file."""
        return json.dumps({k: v for k, v in asdict(self).items() if v is not None}, indent=2)


def parse_view(data: bytes, path: str) -> View:
    """Parse the file of a view.

    Raises:
        CorruptTableError: it is malformed.
        UnsupportedError: it is of a later version.
    """
    try:
        view = read_as(View, json_object(data))
    except ValueError as e:
        raise CorruptTableError(
            f"The file {path} of a view is malformed: {e}.", hint="Create the view again with CREATE OR REPLACE VIEW."
        ) from e
    if view.version != VERSION:
        raise UnsupportedError(
            f"The file {path} of a view has version {view.version}; this release reads version {VERSION}.",
            hint="Use the release that wrote it, or create the view again with CREATE OR REPLACE VIEW.",
        )
    return view


def view_of(described: Mapping[str, Any]) -> View:
    """Return the view that the JVM describes."""
    return View(
        described["query"],
        described["columns"],
        dict(described["context"]),
        dict(described["properties"]),
        described.get("comment"),
    )
