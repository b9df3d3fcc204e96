"""Session options: ``spark.paimon.<key>`` and ``spark.paimon.<catalog>.<database>.<table>.<key>`` (docs/options.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from paimon_spark.core.table import START_OPTIONS
from paimon_spark.errors import OptionError, did_you_mean
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.option_catalogue import find_option, known_options
from paimon_spark.spec.option_checks import validate_options
from paimon_spark.spec.support import Scope, check_dynamic, scope_of

PREFIX = "spark.paimon."
FLINK_PREFIX = "paimon."
DROP_RETRACTS = "incremental.drop-retracts"
STREAMING_SELECT = ("streaming-select.max-rows", "streaming-select.timeout")
PROGRAM_KEYS = (
    *("python", "pythonPath", "log.dir", "progress", "requiredSparkConfsCheck.enabled", DROP_RETRACTS),
    *STREAMING_SELECT,
)
"""Settings of the bridge, as opposed to table options."""
_CHOOSE_ROWS = ("scan.", "incremental-")
_CHANGE_ROWS = ("deletion-vectors.merge-on-read", "postpone.merge-on-read", "blob-as-descriptor")
_OF_ALL_READS = ("read.local-max-bytes",)
"""Options of queries that also apply to the reads of statements that change rows."""
_NAMES = 3
_ANY = "*"
_SESSION = "the session"


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The meaning of a session key: an option of all tables, or of those whose names match the pattern."""

    option: str
    pattern: tuple[str, ...] = ()

    def rank(self, names: tuple[str, str, str]) -> tuple[int, ...] | None:
        """Return how specific the pattern is for a table; None if it does not match."""
        if any(p not in (_ANY, n) for p, n in zip(self.pattern, names, strict=False)):
            return None
        exact = [int(p != _ANY) for p in self.pattern]
        return (len(self.pattern), sum(exact), *exact)


def session_key(full: str) -> SessionKey | None:
    """Return the meaning of a session key; None for keys that are not table options."""
    prefix = next((p for p in (PREFIX, FLINK_PREFIX) if full.startswith(p)), None)
    if prefix is None or full.removeprefix(prefix) in PROGRAM_KEYS:
        return None
    key = full.removeprefix(prefix)
    *names, option = key.split(".", _NAMES)
    own = key in known_options() or (find_option(option) is None and find_option(key) is not None)
    return SessionKey(key) if own or len(names) < _NAMES else SessionKey(option, tuple(names))


def canonical(full: str) -> str:
    """Return a session key in the spelling with ``spark.``."""
    return full if full.startswith(PREFIX) else PREFIX + full.removeprefix(FLINK_PREFIX)


def drops_retracts(conf: Mapping[str, str]) -> bool:
    """Return whether queries of changes leave out -U and -D, which are returned as rows by default.

    Raises:
        OptionError: the setting is neither true nor false.
    """
    value = conf.get(PREFIX + DROP_RETRACTS, "false").strip().lower()
    if value not in ("true", "false"):
        raise OptionError(
            f"The session option '{PREFIX}{DROP_RETRACTS}' holds '{value}'.", hint="Set it to true or to false."
        )
    return value == "true"


def spellings(full: str) -> list[str]:
    """Return a session key in both spellings."""
    key = canonical(full)
    return [key, FLINK_PREFIX + key.removeprefix(PREFIX)]


def session_options(
    conf: Mapping[str, str], catalog: str, identifier: Identifier, *, travel: bool = True
) -> dict[str, str]:
    """Return the options that the session sets for one table.

    Options for all tables come first, then those with a name pattern; the pattern with more exact names takes
    precedence, and among equals the one with an exact name further left. An option that determines where a read starts
    replaces weaker ones of that kind. The spelling ``spark.paimon.…`` takes precedence over ``paimon.…``.

    Args:
        conf: the session's settings.
        catalog: the catalog's name in Spark.
        identifier: the table.
        travel: whether the options of queries apply, such as those that choose a snapshot. Of these, statements that
            change rows have `_OF_ALL_READS` only.

    Raises:
        OptionError: a key is not an option, or would have no effect.
    """
    names = (catalog, identifier.database, identifier.table)
    options: dict[str, str] = {}
    for _, level in groupby(sorted(_matching(conf, names), key=lambda m: m.rank), key=lambda m: m.rank[0]):
        given = {}
        for m in level:
            _check(m.full, m.key)
            if travel or m.key in _OF_ALL_READS or scope_of(m.key) is not Scope.READ:
                given[m.key] = m.value
        if any(key in START_OPTIONS for key in given):
            options = {k: v for k, v in options.items() if k not in (*START_OPTIONS, "scan.mode")}
        options |= given
    return options


def row_options(conf: Mapping[str, str], catalog: str, identifier: Identifier) -> dict[str, str]:
    """Return the options of the session on which the rows of a query of one table depend.

    Args:
        conf: the session's settings.
        catalog: the catalog's name in Spark.
        identifier: the table.

    Raises:
        OptionError: a key is not an option, or would have no effect.
    """
    found = session_options(conf, catalog, identifier)
    options = {k: v for k, v in found.items() if k.startswith(_CHOOSE_ROWS) or k in _CHANGE_ROWS}
    return {**options, DROP_RETRACTS: "true"} if drops_retracts(conf) else options


@dataclass(frozen=True, slots=True)
class _Match:
    """One setting that applies to a table; `rank` orders settings by ascending precedence."""

    rank: tuple[tuple[int, ...], bool]
    full: str
    key: str
    value: str


def _matching(conf: Mapping[str, str], names: tuple[str, str, str]) -> Iterator[_Match]:
    for full, value in conf.items():
        key = session_key(full)
        rank = None if key is None else key.rank(names)
        if key is not None and rank is not None:
            yield _Match((rank, full.startswith(PREFIX)), full, key.option, value)


def check_setting(full: str, value: str | None = None) -> None:
    """Reject an unknown session key, and an invalid value.

    Raises:
        OptionError: the key or the value is invalid.
    """
    key = session_key(full)
    if key is None:
        return
    if "" in key.pattern:
        raise OptionError(f"The session option '{full}' contains an empty name.", hint="Write * for any name.")
    _check(full, key.option)
    if scope_of(key.option) is Scope.TABLE:
        raise OptionError(
            f"The session option '{full}' cannot be set: '{key.option}' belongs to the stored table.",
            hint="Change it with ALTER TABLE … SET TBLPROPERTIES, where that is allowed.",
        )
    if value is not None:
        validate_options({key.option: value})


def _check(full: str, key: str) -> None:
    try:
        check_dynamic(key, of=_SESSION)
    except OptionError as e:
        program = did_you_mean(full.removeprefix(PREFIX), PROGRAM_KEYS) if find_option(key) is None else ""
        raise OptionError(
            f"In the session option '{full}': {e.message[:1].lower()}{e.message[1:]}", hint=program or e.hint
        ) from None
