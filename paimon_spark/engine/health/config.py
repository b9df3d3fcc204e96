"""Options in force: of a catalog, of a session, of a table; where each comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from paimon_spark.core.table import Table
from paimon_spark.spec.option_catalogue import SPARK_PROPERTIES, find_option, known_options
from paimon_spark.spec.secrets import HIDDEN_KEYS
from paimon_spark.spec.support import REFUSED, Scope, honoured, scope_of

_SECRET = re.compile(HIDDEN_KEYS)
HIDDEN = "***"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """An option in force. `source` is session, table, catalog or default; `applies_to` who reads it."""

    key: str
    value: str | None
    source: str
    default: str | None = None
    applies_to: str | None = None


def settings(
    catalog: Mapping[str, str], session: Mapping[str, str], table: Table | None, *, defaults: bool
) -> Iterator[Setting]:
    """Yield the options in force, sorted by source and key. Secrets are hidden.

    Args:
        catalog: options of the catalog.
        session: options that the session sets for the table, or for all tables.
        table: the table, with its stored options; None for the catalog and the session only.
        defaults: options that are not set are included, with their defaults.
    """
    given: dict[str, Setting] = {}
    for key, value in session.items():
        given[key] = _setting(key, value, "session")
    stored = {} if table is None else table.schema.options
    for key, value in stored.items():
        if key not in SPARK_PROPERTIES:
            given.setdefault(key, _setting(key, value, "table"))
    yield from (given[key] for key in sorted(given, key=lambda k: (given[k].source, k)))
    yield from (_setting(key, value, "catalog") for key, value in sorted(catalog.items()))
    if defaults:
        names = {o.name for key in given if (o := find_option(key)) is not None}
        for name, option in known_options().items():
            if name not in names and option.default is not None and name in honoured() and _concerns(name, table):
                yield _setting(name, option.default, "default")


def _concerns(name: str, table: Table | None) -> bool:
    """Return whether an option that is not set is worth showing: catalog options only without a table."""
    of_catalog = honoured()[name] in (Scope.CATALOG, Scope.PROGRAM)
    return of_catalog if table is None else not of_catalog


def _setting(key: str, value: str, source: str) -> Setting:
    option = find_option(key)
    scope = scope_of(key)
    applies = str(scope) if scope is not None else None
    if applies is None and option is not None:
        applies = "refused" if option.name in REFUSED else "nothing here"
    return Setting(
        key=key,
        value=HIDDEN if _SECRET.search(key) and value else value,
        source=source,
        default=None if option is None else option.default,
        applies_to=applies,
    )
