"""From a location to the store that serves it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from paimon_spark.errors import ErrorKind, UnsupportedError
from paimon_spark.fs.base import FileIO
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.fs.memory import InMemoryFileIO

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):")


def scheme_of(uri: str) -> str:
    """Return the scheme of a location in lower case; a plain path has the scheme `file`."""
    found = _SCHEME.match(uri)
    return found[1].lower() if found else "file"


def file_io_for(uri: str, options: Mapping[str, str] | None = None) -> FileIO:
    """Return the FileIO for a location. `options` are the catalog's, for stores that need credentials.

    Raises:
        UnsupportedError: no store is known for the scheme.
    """
    del options
    return _build(scheme_of(uri), "default")


def file_io_from_config(config: Mapping[str, str]) -> FileIO:
    """Rebuild what `to_config` described."""
    return _build(config["scheme"], config.get("name", "default"))


def _build(scheme: str, name: str) -> FileIO:
    if scheme == "file":
        return LocalFileIO()
    if scheme == "memory":
        return _memory(name)
    raise UnsupportedError(
        f"There is no access to locations of the scheme '{scheme}:'.",
        hint="Use a local path or a file: location.",
        kind=ErrorKind.UNSUPPORTED_STORE,
    )


_HELD: dict[str, InMemoryFileIO] = {}


def _memory(name: str) -> InMemoryFileIO:
    """Return the named store and keep it alive as long as the process: a location alone would not."""
    return _HELD.setdefault(name, InMemoryFileIO.named(name))
