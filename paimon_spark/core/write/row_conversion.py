"""Conversion of input batches for writing: types, null checks, defaults, row kinds, and grouping by bucket."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.core.arrow import arrow_scalar, one_chunk, values_of
from paimon_spark.core.casts.times import UTC, instant_millis
from paimon_spark.core.char_values import is_char, padded
from paimon_spark.core.columns import ROW_KIND, SHUFFLE_BUCKET, SHUFFLE_HASH
from paimon_spark.core.table import Table
from paimon_spark.errors import ArgumentError, ErrorKind
from paimon_spark.format.arrays import I64, Mask
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.format.registry import for_name
from paimon_spark.format.time_fractions import without_fractions
from paimon_spark.spec.defaults import parse_default
from paimon_spark.spec.kinds import RowKind
from paimon_spark.spec.merge_rules import RefusedRows, refused_rows
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    children,
    type_text,
)

_RECODE_FROM = 1 << 40


@dataclass(frozen=True, slots=True)
class WriteRules:
    """Rules for the conversion of input rows of one table."""

    name: str
    fields: tuple[DataField, ...]
    accepts_retracts: bool
    kind_column: str | None
    dropped_kinds: tuple[RowKind, ...]
    formats: tuple[str, ...] = ()
    """The file formats that the values must be representable in."""
    refused_rows: tuple[RefusedRows, ...] = ()
    """The rows that the merge engine cannot merge."""
    zone: str = UTC
    """The time zone of defaults."""
    padded: frozenset[str] = frozenset()
    """The key columns of which values are written with the blanks that fill their length."""

    @classmethod
    def of(cls, table: Table) -> WriteRules:
        """Return the rules of a table."""
        options = table.options
        dropped = (RowKind.UPDATE_BEFORE, RowKind.DELETE) if options.ignore_delete else ()
        if options.ignore_update_before:
            dropped = (*dropped, RowKind.UPDATE_BEFORE)
        refused = tuple(r for r in refused_rows(table.schema, options) if r.kind not in dropped)
        keyed, formats = table.is_primary_key_table, options.file_formats
        kind = options.rowkind_field
        chars = frozenset(f.name for f in (*table.key_fields, *table.bucket_key_fields) if is_char(f.type))
        return cls(table.name, table.schema.fields, keyed, kind, dropped, formats, refused, table.zone, chars)

    def without_defaults(self) -> WriteRules:
        """Return the rules for rows of the table: their nulls are intended, and they carry their kinds."""
        fields = tuple(replace(f, default_value=None) for f in self.fields)
        return replace(self, fields=fields, kind_column=None)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows with their kinds, and buckets or key hashes if they were computed upstream."""

    columns: pa.Table
    kinds: npt.NDArray[np.int8]
    buckets: npt.NDArray[np.int32] | None = None
    hashes: npt.NDArray[np.int32] | None = None

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return len(self.kinds)

    def take(self, positions: I64) -> Rows:
        """Return the rows at `positions`, without buckets and hashes."""
        return Rows(self.columns.take(pa.array(positions)), self.kinds[positions])

    def slice(self, start: int, n: int) -> Rows:
        """Return `n` rows from `start`, without buckets and hashes."""
        return Rows(self.columns.slice(start, n), self.kinds[start : start + n])


def prepare_batch(batch: pa.RecordBatch | pa.Table, rules: WriteRules) -> Rows:
    """Return the rows of a batch to write, converted to the table's types.

    Raises:
        ArgumentError: columns or values do not fit the table.
    """
    names = batch.schema.names
    columns = [_fit(_column(batch, names, i, rules), f, rules) for i, f in enumerate(rules.fields)]
    table = pa.Table.from_arrays(columns, names=[f.name for f in rules.fields])
    kinds = _kinds(batch, table, rules)
    extras = [
        values_of(one_chunk(batch.column(c)).cast(pa.int32())) if c in names else None
        for c in (SHUFFLE_BUCKET, SHUFFLE_HASH)
    ]
    dropped = np.isin(kinds, rules.dropped_kinds) if rules.dropped_kinds else np.zeros(0, dtype=np.bool_)
    if dropped.any():
        keep = ~dropped
        table = table.filter(pa.array(keep))
        kinds, extras = kinds[keep], [None if e is None else e[keep] for e in extras]
    return Rows(table, kinds, *extras)


def _column(batch: pa.RecordBatch | pa.Table, names: Sequence[str], i: int, rules: WriteRules) -> pa.ChunkedArray:
    f = rules.fields[i]
    at = i if i < len(names) and names[i] == f.name else next((n for n, c in enumerate(names) if c == f.name), -1)
    if at < 0:
        raise ArgumentError(
            f"The rows for table {rules.name} lack the column '{f.name}'.",
            hint=f"Give all columns: {', '.join(c.name for c in rules.fields)}.",
            kind=ErrorKind.COLUMN_NOT_FOUND,
        )
    column = batch.column(at)
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


def _fit(column: pa.ChunkedArray, f: DataField, rules: WriteRules) -> pa.ChunkedArray:
    """Return a column in the table's type, with nulls checked or replaced by the default value."""
    if not f.type.nullable and column.null_count:
        raise missing_values(f.name, column.null_count, rules.name)
    arrow = to_arrow_type(f.type)
    if column.type != arrow:
        try:
            column = without_fractions(column, arrow).cast(arrow)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
            raise misfit(f, rules.name, str(e)) from e
    if _has_required(f.type):
        _check_members(one_chunk(column), f.type, f.name, rules)
    if f.default_value is not None and column.null_count:
        column = pc.fill_null(column, _default(f, rules.zone))
    if f.name in rules.padded:
        column = pa.chunked_array([padded(c, f.type) for c in column.chunks], arrow)
    for name in rules.formats:
        for_name(name).check_values(f.name, column)
    return column


def misfit(f: DataField, table: str, why: str) -> ArgumentError:
    """Return the error for values that do not fit the type of a column."""
    return ArgumentError(
        f"Values for column '{f.name}' of table {table} do not fit its type {type_text(f.type)}: {why}.",
        hint="Round or cast them before writing.",
        kind=ErrorKind.TYPE_MISMATCH,
    )


def missing_values(path: str, count: int, table: str) -> ArgumentError:
    """Return the error for rows without a value of a column that is NOT NULL."""
    return ArgumentError(
        f"Column '{path}' of table {table} is NOT NULL, but {count} rows have no value for it.",
        hint="Give a value in every row.",
        kind=ErrorKind.NOT_NULL_VIOLATION,
    )


def _has_required(t: DataType) -> bool:
    """Return whether parts of a column's values are NOT NULL or counted; the keys of maps, never null, do not count."""
    if isinstance(t, MultisetType):
        return False
    if isinstance(t, ArrayType) and t.length is not None:
        return True
    parts = [t.value] if isinstance(t, MapType) else children(t)
    return any(not p.nullable or _has_required(p) for p in parts)


def _check_members(column: pa.Array, t: DataType, path: str, rules: WriteRules) -> None:
    """Reject nulls in parts of values that are NOT NULL."""
    parts: list[tuple[str, pa.Array, DataType, int]] = []
    if isinstance(t, RowType):
        # a member is null in every null row
        parts = [
            (f"{path}.{m.name}", pc.struct_field(column, [i]), m.type, column.null_count)
            for i, m in enumerate(t.fields)
        ]
    elif isinstance(t, ArrayType):
        _check_vectors(column, t, path, rules)
        parts = [(f"{path}.element", pc.list_flatten(column), t.element, 0)]
    elif isinstance(t, MapType):
        whole = pa.concat_arrays([column.slice(0, 0), column]) if column.offset else column
        parts = [(f"{path}.value", whole.items, t.value, 0)]
    for name, part, inner, expected in parts:
        if not inner.nullable and part.null_count > expected:
            raise missing_values(name, part.null_count - expected, rules.name)
        _check_members(part, inner, name, rules)


def _check_vectors(column: pa.Array, t: ArrayType, path: str, rules: WriteRules) -> None:
    if t.length is None:
        return
    sizes = pc.list_value_length(column)
    if pc.any(pc.not_equal(sizes, t.length)).as_py() or pc.list_flatten(column).null_count:
        found = pc.unique(sizes.drop_null()).to_pylist()
        given = "a null element" if found in ([t.length], []) else f"{next(n for n in found if n != t.length)} elements"
        raise ArgumentError(
            f"A value of the column '{path}' of table {rules.name} has {given}; each needs {t.length} without nulls.",
            hint="Give every vector all of its elements, or NULL instead of it.",
        )


def _default(f: DataField, zone: str) -> pa.Scalar:
    """Return the default of a column; a time with time zone is a local one in `zone`."""
    value = parse_default(f.default_value or "", f.type)
    if isinstance(value, Timestamp) and isinstance(f.type, AtomicType) and f.type.root is TypeRoot.TIMESTAMP_LTZ:
        (millis,) = instant_millis(np.array([value.millis]), zone)
        value = Timestamp(int(millis), value.nano_of_milli)
    return arrow_scalar(value, f.type)


def _kinds(batch: pa.RecordBatch | pa.Table, table: pa.Table, rules: WriteRules) -> npt.NDArray[np.int8]:
    if ROW_KIND in batch.schema.names:
        kinds = values_of(one_chunk(batch.column(ROW_KIND)).cast(pa.int8()))
    elif rules.kind_column is not None:
        kinds = _parse_kinds(table.column(rules.kind_column), rules)
    else:
        return np.zeros(batch.num_rows, dtype=np.int8)
    if not rules.accepts_retracts and np.isin(kinds, (RowKind.UPDATE_BEFORE, RowKind.DELETE)).any():
        raise ArgumentError(
            f"Table {rules.name} has no primary key, so it takes no deletes or update-before rows.",
            hint="Give the table a primary key, or filter these rows out.",
        )
    for refused in rules.refused_rows:
        found = kinds == refused.kind
        if found.any() and (not refused.sequence or found[with_values(table, refused.sequence)].any()):
            raise refused.error()
    return kinds


def with_values(rows: pa.Table | pa.RecordBatch, names: Sequence[str]) -> Mask:
    """Return which rows have a value in any of some columns."""
    return np.logical_or.reduce([np.asarray(one_chunk(rows.column(n)).is_valid()) for n in names])


def _parse_kinds(column: pa.ChunkedArray, rules: WriteRules) -> npt.NDArray[np.int8]:
    spellings = pa.array([k.short for k in RowKind])
    found = pc.index_in(one_chunk(column), value_set=spellings)
    if found.null_count:
        raise ArgumentError(
            f"Column '{rules.kind_column}' is the rowkind.field of table {rules.name}, but a row has no kind in it.",
            hint=f"Use one of {', '.join(k.short for k in RowKind)}.",
        )
    return found.to_numpy().astype(np.int8)


def partition_codes(columns: pa.Table, fields: Sequence[DataField]) -> tuple[I64, list[int]]:
    """Return a code 0 … n-1 for the partition of each row, and the first row of each partition."""
    codes = np.zeros(columns.num_rows, dtype=np.int64)
    for f in fields:
        encoded = one_chunk(columns.column(f.name)).dictionary_encode(null_encoding="encode")
        codes = codes * max(1, len(encoded.dictionary)) + encoded.indices.to_numpy()
        if int(codes.max(initial=0)) > _RECODE_FROM:
            codes = np.unique(codes, return_inverse=True)[1].reshape(-1).astype(np.int64)
    if not codes.any():
        return codes, [0]
    _, firsts, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return inverse.reshape(-1).astype(np.int64), firsts.tolist()


def group_codes(codes: I64, buckets: npt.NDArray[np.int32]) -> tuple[I64 | None, list[int], list[tuple[int, int]]]:
    """Group rows by partition code and bucket; the order within a group is kept.

    Returns:
        The permutation that makes groups contiguous (None if they are already), the start of each group in that
        order, and the (partition code, bucket) of each.
    """
    low = int(buckets.min())
    span = int(buckets.max()) - low + 1
    keys: npt.NDArray[Any] = codes * span + (buckets - low)
    order: I64 | None = None
    if len(keys) > 1 and (keys[1:] < keys[:-1]).any():
        small = int(keys.max()) < np.iinfo(np.uint16).max
        order = np.argsort(keys.astype(np.uint16) if small else keys, kind="stable")
        keys = keys[order]
    starts = np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1])
    groups = [(int(k) // span, int(k) % span + low) for k in keys[starts]]
    return order, starts.tolist(), groups
