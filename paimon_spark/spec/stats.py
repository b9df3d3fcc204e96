"""Column statistics of a data file: collection modes, truncation, and mapping to another schema.

(docs/spec/storage.md, section 9; docs/spec/semantics.md, R15)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from paimon_spark.errors import CorruptTableError, OptionError
from paimon_spark.spec.manifest import DataFileMeta, SimpleStats
from paimon_spark.spec.rows import decode_field, row_arity
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import AtomicType, DataField, DataType, TypeRoot

_TRUNCATE = re.compile(r"truncate\s*\(\s*(\d{1,9})\s*\)")
_BEFORE_BLANKS = re.compile(r"[\x00-\x1f]")
_MODES = ("none", "counts", "full")
_MAX_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_CACHED_PLANS = 64


class ColumnStats(NamedTuple):
    """Statistics of one column of a file; None is unknown.

    Bounds may be wider than the values. Those of a floating point column may exclude NaN, which some writers ignore.
    """

    min: Any = None
    max: Any = None
    null_count: int | None = None


UNKNOWN = ColumnStats()


@dataclass(frozen=True, slots=True)
class StatsMode:
    """Statistics to collect for a column: none, null counts, or also bounds, truncated to `length` if given."""

    collects: bool = True
    bounds: bool = True
    length: int | None = None

    @classmethod
    def parse(cls, text: str) -> StatsMode:
        """Parse ``none``, ``counts``, ``truncate(16)`` or ``full``, in any case.

        Raises:
            OptionError: the text is not a statistics mode.
        """
        word = text.strip().lower()
        m = _TRUNCATE.fullmatch(word)
        if m and int(m[1]) > 0:
            return cls(length=int(m[1]))
        if word not in _MODES:
            raise OptionError(
                f"'{text}' is not a statistics mode.", hint="Choose none, counts, truncate(<length>) or full."
            )
        return cls(collects=word != "none", bounds=word == "full")


def truncate_stats(stats: ColumnStats, mode: StatsMode) -> ColumnStats:
    """Return the part of exact statistics that `mode` stores."""
    if not mode.collects:
        return UNKNOWN
    if not mode.bounds:
        return ColumnStats(None, None, stats.null_count)
    if mode.length is None or not isinstance(stats.max, str | bytes):
        return stats
    high = truncate_max(stats.max, mode.length)
    low = None if high is None else truncate_min(stats.min, mode.length)
    return ColumnStats(low, high, stats.null_count)


def truncate_min(value: Any, length: int) -> Any:
    """Return a lower bound of at most `length` code points or bytes."""
    return value[:length]


def truncate_max(value: str | bytes, length: int) -> str | bytes | None:
    """Return an upper bound of at most `length` code points or bytes, or None if there is none."""
    if len(value) <= length:
        return value
    if isinstance(value, bytes):
        head = value[:length].rstrip(b"\xff")
        return head[:-1] + bytes((head[-1] + 1,)) if head else None
    for i in range(length - 1, -1, -1):
        following = ord(value[i]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= _MAX_CODE_POINT:
            return value[:i] + chr(following)
    return None


def stats_view(file: DataFileMeta, schema_of_file: TableSchema, table_schema: TableSchema) -> Mapping[str, ColumnStats]:
    """Return the value statistics of `file` by the column names of `table_schema`, decoded on access.

    A column that the file's schema lacks is all null. Columns with unusable statistics are not in the mapping.
    Malformed bounds of timestamps are unknown: pypaimon before 2.0 stores milliseconds only, also of TIMESTAMP(6).
    """
    return _StatsView(file.value_stats, file.row_count, _positions(file, schema_of_file, table_schema))


def key_stats_view(
    file: DataFileMeta, schema_of_file: TableSchema, table_schema: TableSchema
) -> Mapping[str, ColumnStats]:
    """Return the key statistics of `file` by the key columns' names in `table_schema`."""
    fields = schema_of_file.key_fields
    names = {f.id: f.name for f in table_schema.key_fields}
    places = {names[f.id]: (i, f.type, True) for i, f in enumerate(fields) if f.id in names}
    return _StatsView(file.key_stats, file.row_count, places)


_Place = tuple[int, DataType, bool]
"""Position in the statistics rows, type of the column in the file, whether its bounds are valid for the table's
type.
"""
_ABSENT = -1


class _StatsView(Mapping[str, ColumnStats]):
    """Statistics of one file, decoded column by column."""

    __slots__ = ("_places", "_rows", "_stats")

    def __init__(self, stats: SimpleStats, rows: int, places: Mapping[str, _Place]) -> None:
        self._stats = stats
        self._rows = rows
        self._places = places

    def __getitem__(self, column: str) -> ColumnStats:
        index, t, same = self._places[column]
        if index == _ABSENT:
            return ColumnStats(None, None, self._rows)
        stats = self._stats
        if not same or not isinstance(t, AtomicType) or index >= row_arity(stats.min_values):
            return UNKNOWN
        nulls = stats.null_counts[index] if index < len(stats.null_counts) else None
        try:
            low, high = decode_field(stats.min_values, index, t), decode_field(stats.max_values, index, t)
        except CorruptTableError:
            if t.root not in _STAMPS:
                raise
            return ColumnStats(None, None, nulls)
        return comparable_stats(ColumnStats(low, high, nulls), t)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def may_precede(stats: ColumnStats, first: Any, rows: int) -> bool:
    """Return whether one of `rows` values may be less than `first`, according to their statistics."""
    if stats.null_count is not None and stats.null_count >= rows:
        return False
    return stats.min is None or bool(stats.min < first)


def comparable_stats(stats: ColumnStats, t: DataType) -> ColumnStats:
    """Return statistics whose bounds are valid whether or not trailing blanks of a CHAR are stored."""
    if not isinstance(t, AtomicType) or t.root is not TypeRoot.CHAR:
        return stats
    return ColumnStats(_unpadded(stats.min), _padded(stats.max, t.length), stats.null_count)


def _unpadded(low: str | None) -> str | None:
    """Return a lower bound of a CHAR that is valid whether or not its values are padded with blanks.

    A control character sorts before the blanks, but after the end of a value without them.
    """
    return None if low is None else _BEFORE_BLANKS.split(low, maxsplit=1)[0].rstrip(" ")


def _padded(high: str | None, length: int | None) -> str | None:
    return None if high is None else high.ljust(length or 0)


class _Plan(NamedTuple):
    """Positions of one schema's columns in the statistics of files of another, for one list of kept columns."""

    file_schema: TableSchema
    table_schema: TableSchema
    places: Mapping[str, _Place]


_plans: dict[tuple[int, int, tuple[str, ...] | None, tuple[str, ...] | None], _Plan] = {}


def _positions(file: DataFileMeta, file_schema: TableSchema, table_schema: TableSchema) -> Mapping[str, _Place]:
    """Return the plan for `file`; plans are shared by all files of the same two schema objects."""
    key = (id(file_schema), id(table_schema), file.value_stats_cols, file.write_cols)
    plan = _plans.get(key)
    if plan is None or plan.file_schema is not file_schema or plan.table_schema is not table_schema:
        if len(_plans) >= _CACHED_PLANS:
            _plans.clear()
        plan = _Plan(file_schema, table_schema, _places(file, file_schema, table_schema.fields))
        _plans[key] = plan
    return plan.places


def _places(file: DataFileMeta, file_schema: TableSchema, fields: Sequence[DataField]) -> dict[str, _Place]:
    kept = file_schema.field_names if file.value_stats_cols is None else file.value_stats_cols
    if file.value_stats_cols is None and file.write_cols is not None:
        kept = file.write_cols
    at = {name: i for i, name in enumerate(kept)}
    by_id = {f.id: f for f in file_schema.fields}
    places: dict[str, _Place] = {}
    for f in fields:
        old = by_id.get(f.id)
        if old is None:
            places[f.name] = (_ABSENT, f.type, True)
        elif old.name in at:
            places[f.name] = (at[old.name], old.type, keeps_order(old.type, f.type))
    return places


_INTEGERS = {TypeRoot.TINYINT: 1, TypeRoot.SMALLINT: 2, TypeRoot.INT: 4, TypeRoot.BIGINT: 8}
_LENGTHS = (TypeRoot.VARCHAR, TypeRoot.VARBINARY)
_STAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_EXACT_IN_DOUBLE = 4


def keeps_order(old: DataType, new: DataType) -> bool:
    """Return whether bounds of `old` values are bounds of the same values read as `new`, no value lost or altered."""
    if not isinstance(old, AtomicType) or not isinstance(new, AtomicType):
        return False
    if old.root in _INTEGERS:
        width = _INTEGERS[old.root]
        if new.root in _INTEGERS:
            return width <= _INTEGERS[new.root]
        return new.root is TypeRoot.DOUBLE and width <= _EXACT_IN_DOUBLE
    if old.root is not new.root:
        return old.root is TypeRoot.FLOAT and new.root is TypeRoot.DOUBLE
    if old.root is TypeRoot.DECIMAL:
        return old.scale == new.scale and (old.precision or 0) <= (new.precision or 0)
    if old.root in _LENGTHS:
        return (old.length or 0) <= (new.length or 0)
    if old.root in _STAMPS:
        return (old.precision or 0) <= (new.precision or 0)
    return (old.length, old.precision) == (new.length, new.precision)
