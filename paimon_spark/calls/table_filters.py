"""Tables chosen by regular expressions over the names of databases and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.errors import ArgumentError, did_you_mean
from paimon_spark.spec.identifier import Identifier

_GROUPS = re.compile(r"[\\()\[\]{}]")


def matching_tables(ctx: CallContext, args: Arguments) -> tuple[list[Identifier], list[str]]:
    """Return the tables that the arguments choose, and a note for each included name that matches nothing.

    The arguments are `including_databases`, `including_tables` and `excluding_tables`.

    Raises:
        ArgumentError: one of them is not a regular expression.
    """
    databases = _pattern(args, "including_databases")
    including, excluding = _pattern(args, "including_tables"), _pattern(args, "excluding_tables")
    known = ctx.catalog.list_databases()
    chosen = [d for d in known if databases is None or databases.fullmatch(d)]
    tables = [Identifier(d, table) for d in chosen for table in ctx.catalog.list_tables(d)]
    found = [
        t
        for t in tables
        if (including is None or _matches(including, t)) and not (excluding is not None and _matches(excluding, t))
    ]
    notes = [*_unmatched(databases, "database", known)]
    if chosen:
        names = [name for t in tables for name in (t.full_name, t.table)]
        notes += _unmatched(including, "table", names)
    return found, notes


def _matches(pattern: re.Pattern[str], name: Identifier) -> bool:
    return any(pattern.fullmatch(text) for text in (name.full_name, name.table))


def _unmatched(pattern: re.Pattern[str] | None, what: str, names: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each alternative of a pattern that matches no name."""
    known = list(names)
    for part in _alternatives(pattern):
        if not any(re.fullmatch(part, name) for name in known):
            near = did_you_mean(part, known)
            yield f"No {what} matches '{part}'.{f' {near}' if near else ''}"


def _alternatives(pattern: re.Pattern[str] | None) -> list[str]:
    """Return the alternatives of a pattern; the pattern itself if it has groups or escapes."""
    if pattern is None:
        return []
    return [pattern.pattern] if _GROUPS.search(pattern.pattern) else pattern.pattern.split("|")


def _pattern(args: Arguments, parameter: str) -> re.Pattern[str] | None:
    text = args.optional_text(parameter)
    try:
        return None if text is None else re.compile(text)
    except re.error as e:
        raise ArgumentError(
            f"{parameter} is '{text}', which is not a regular expression: {e}.",
            hint="Escape special characters with \\.",
        ) from None
