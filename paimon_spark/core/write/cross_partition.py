"""Cross-partition upsert: the writer of tables whose primary key does not contain the partition columns.

(docs/spec/semantics.md, B3)

The rows of a task come sorted by key: the row of a key in the table, with its partition and bucket, precedes the new
rows of that key. So a key is resolved when it passes, and no index is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.core.arrow import row_at, values_of
from paimon_spark.core.columns import EXISTING_BUCKET, ROW_KIND, SHUFFLE_BUCKET
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.merge.keys import Column, comparable_columns
from paimon_spark.core.table import Table
from paimon_spark.core.write.dynamic_buckets import BucketFiller, BucketLimits
from paimon_spark.core.write.row_conversion import Rows, WriteRules, partition_codes, prepare_batch
from paimon_spark.core.write.table_writer import AbortableWriter, TableWriter, WriterRestoreState
from paimon_spark.format.arrays import I32, I64, Mask
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.spec.kinds import MergeEngine, RowKind
from paimon_spark.spec.rows import encode_row

_RETRACTS = (RowKind.UPDATE_BEFORE, RowKind.DELETE)


@dataclass(frozen=True, slots=True)
class _Keys:
    """The rows of a batch by key.

    Attributes:
        raw: all rows as they came.
        rows: the new rows, converted, with their numbers in `raw` as buckets.
        group: the number of the key of each new row, ascending.
        existing: the numbers in `raw` of the rows that are in the table.
        existing_group: the number of the key of each of them, ascending.
        existing_bucket: the bucket of each of them.
        partitions: a code for the partition of each new row, then of each existing row.
    """

    raw: pa.Table
    rows: Rows
    group: I64
    existing: I64
    existing_group: I64
    existing_bucket: I32
    partitions: I64

    @property
    def new_partitions(self) -> I64:
        """Return the partition codes of the new rows."""
        return self.partitions[: self.rows.count]

    @property
    def existing_partitions(self) -> I64:
        """Return the partition codes of the existing rows."""
        return self.partitions[self.rows.count :]

    def first_existing(self, groups: I64) -> I64:
        """Return the position of the first existing row of each key among the existing rows, or -1."""
        if not len(self.existing):
            return np.full(len(groups), -1, dtype=np.int64)
        at = np.searchsorted(self.existing_group, groups)
        found = self.existing_group[np.minimum(at, len(self.existing) - 1)] == groups
        return np.where(found, at, -1)


@dataclass(frozen=True, slots=True)
class _Resolved:
    """New rows to write, by number, each with its bucket and the existing row whose partition it goes to (-1: its own).

    `owner` is the new row whose partition the last key is in now, and its bucket; None if that is an existing row's.
    """

    rows: I64
    kinds: npt.NDArray[np.int8]
    buckets: I32
    moved_to: I64
    owner: tuple[int, int] | None


class CrossPartitionWriter(AbortableWriter):
    """Writes the rows of one task, which come sorted by key, existing rows first.

    A batch has all columns of the table, `SHUFFLE_HASH` (the hash of the primary key) and `EXISTING_BUCKET`, which is
    null for new rows; of existing rows, only the primary key and the partition columns count.

    Args:
        table: the table.
        plan: the state of the table that the statement starts from.
        spill_dirs: local directories for sorted rows.
    """

    def __init__(self, table: Table, plan: WriterRestoreState, *, spill_dirs: Sequence[str] = ()) -> None:
        self._table = table
        self._plan = plan
        self._rules = WriteRules.of(table)
        self._writer = TableWriter(table, plan, fill_defaults=False, spill_dirs=spill_dirs)
        self._key = tuple(table.schema.field(k) for k in table.schema.primary_keys)
        self._fillers: dict[bytes, BucketFiller] = {}
        self._carried: pa.Table | None = None
        options = table.options
        self._limits = BucketLimits(
            target_rows=options.dynamic_bucket_target_row_num,
            max_buckets=options.dynamic_bucket_max_buckets,
            assigners=plan.assigners,
        )

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows.

        Raises:
            UsageError: a null in a NOT NULL column, or a value that does not fit.
        """
        raw = pa.Table.from_batches([batch])
        if self._carried is not None:
            raw = pa.concat_tables([self._carried, raw])
        keys = self._keys(raw.combine_chunks())
        if not keys.rows.count:
            self._carry(keys, None)
            return
        resolved = self._resolve(keys)
        self._carry(keys, resolved.owner)
        if len(resolved.rows):
            self._writer.write(self._output(keys, resolved))

    def finish(self) -> list[CommitMessage]:
        """Write all buffered rows; return one message per bucket."""
        return self._writer.finish()

    def abort(self) -> None:
        """Delete all written files."""
        self._writer.abort()

    def _keys(self, raw: pa.Table) -> _Keys:
        groups = _groups(comparable_columns(raw, self._key), raw.num_rows)
        present = np.asarray(raw.column(EXISTING_BUCKET).is_valid())
        new, existing = np.flatnonzero(~present), np.flatnonzero(present)
        numbered = raw.append_column(SHUFFLE_BUCKET, pa.array(np.arange(raw.num_rows, dtype=np.int32)))
        rows = prepare_batch(numbered.take(pa.array(new)), self._rules)
        places = self._partition_columns(raw.take(pa.array(existing)))
        fields = self._table.schema.partition_fields
        both = pa.concat_tables([rows.columns.select([f.name for f in fields]), places])
        codes, _ = partition_codes(both, fields) if both.num_rows else (np.zeros(0, np.int64), [])
        buckets = raw.column(EXISTING_BUCKET).take(pa.array(existing)).combine_chunks()
        positions = np.zeros(0, np.int32) if rows.buckets is None else rows.buckets
        return _Keys(raw, rows, groups[positions], existing, groups[existing], values_of(_one(buckets)), codes)

    def _partition_columns(self, rows: pa.Table) -> pa.Table:
        fields = self._table.schema.partition_fields
        columns = [rows.column(f.name).cast(to_arrow_type(f.type)) for f in fields]
        return pa.Table.from_arrays(columns, names=[f.name for f in fields])

    def _resolve(self, keys: _Keys) -> _Resolved:
        engine = self._table.options.merge_engine
        if engine is MergeEngine.DEDUPLICATE:
            return self._move_keys(keys)
        return self._first_rows(keys) if engine is MergeEngine.FIRST_ROW else self._keep_partitions(keys)

    def _move_keys(self, keys: _Keys) -> _Resolved:
        """The last row of a key wins; the key is deleted from other partitions (deduplicate)."""
        last = np.flatnonzero(np.append(keys.group[1:] != keys.group[:-1], True))
        groups, kinds = keys.group[last], keys.rows.kinds[last]
        adds = ~np.isin(kinds, _RETRACTS)
        at = np.searchsorted(groups, keys.existing_group)
        at = np.minimum(at, len(groups) - 1)
        touched = groups[at] == keys.existing_group
        stays = touched & adds[at] & (keys.existing_partitions == keys.new_partitions[last][at])
        gone = np.flatnonzero(touched & ~stays)
        buckets = np.full(len(last), -1, dtype=np.int32)
        buckets[at[stays]] = keys.existing_bucket[stays]
        fresh = np.flatnonzero(adds & (buckets < 0))
        buckets[fresh] = self._new_buckets(keys, last[fresh])
        written = np.flatnonzero(adds)
        owner: tuple[int, int] | None = None
        if adds[-1]:
            owner = (int(last[-1]), int(buckets[-1]))
        return _Resolved(
            np.concatenate([last[at[gone]], last[written]]),
            np.concatenate([np.full(len(gone), RowKind.DELETE, np.int8), kinds[written]]),
            np.concatenate([keys.existing_bucket[gone], buckets[written]]),
            np.concatenate([gone, np.full(len(written), -1, np.int64)]),
            owner,
        )

    def _first_rows(self, keys: _Keys) -> _Resolved:
        """The first row of a new key wins; rows of existing keys are dropped (first-row)."""
        first = np.flatnonzero(np.append(True, keys.group[1:] != keys.group[:-1]))
        first = first[keys.first_existing(keys.group[first]) < 0]
        buckets = self._new_buckets(keys, first)
        owner = None
        if len(first) and keys.group[first[-1]] == keys.group[-1]:
            owner = (int(first[-1]), int(buckets[-1]))
        return _Resolved(first, keys.rows.kinds[first], buckets, np.full(len(first), -1, np.int64), owner)

    def _keep_partitions(self, keys: _Keys) -> _Resolved:
        """All rows of a key go to the partition that the key has, or that its first row names (other engines)."""
        starts = np.append(True, keys.group[1:] != keys.group[:-1])
        first, key = np.flatnonzero(starts), np.cumsum(starts) - 1
        found = keys.first_existing(keys.group[first])
        buckets = np.where(found >= 0, keys.existing_bucket[np.maximum(found, 0)], -1) if len(keys.existing) else found
        buckets = buckets.astype(np.int32)
        fresh = np.flatnonzero(found < 0)
        buckets[fresh] = self._new_buckets(keys, first[fresh])
        targets = np.where(found >= 0, found, -2 - first)
        owner = None if found[-1] >= 0 else (int(first[-1]), int(buckets[-1]))
        n = keys.rows.count
        return _Resolved(np.arange(n), keys.rows.kinds, buckets[key], targets[key], owner)

    def _new_buckets(self, keys: _Keys, rows: I64) -> I32:
        """Return a bucket for each of these rows, whose keys are new in their partitions."""
        out = np.empty(len(rows), dtype=np.int32)
        hashes = keys.rows.hashes
        if hashes is None or not len(rows):
            return out
        codes = keys.new_partitions[rows]
        for code in np.unique(codes).tolist():
            mine = np.flatnonzero(codes == code)
            out[mine] = self._filler(keys, int(rows[mine[0]])).assign(hashes[rows[mine]])
        return out

    def _filler(self, keys: _Keys, row: int) -> BucketFiller:
        fields = self._table.schema.partition_fields
        partition = encode_row(row_at(keys.rows.columns, fields, row), self._table.partition_types)
        filler = self._fillers.get(partition)
        if filler is None:
            filler = self._fillers[partition] = BucketFiller(self._plan.bucket_rows.get(partition, {}), self._limits)
        return filler

    def _output(self, keys: _Keys, resolved: _Resolved) -> pa.Table:
        """Return the rows to write, in the partitions that they go to, with kinds and buckets."""
        rows = keys.rows.columns.take(pa.array(resolved.rows))
        moved = resolved.moved_to != -1
        if moved.any():
            rows = self._moved(keys, rows, resolved)
        rows = rows.append_column(ROW_KIND, pa.array(resolved.kinds.astype(np.int8)))
        return rows.append_column(SHUFFLE_BUCKET, pa.array(resolved.buckets))

    def _moved(self, keys: _Keys, rows: pa.Table, resolved: _Resolved) -> pa.Table:
        """Replace the partition columns: by those of an existing row, or (below -1) of another new row."""
        places = self._partition_columns(keys.raw.take(pa.array(keys.existing)))
        to, n = resolved.moved_to, keys.rows.count
        source = np.where(to >= 0, n + to, np.where(to == -1, resolved.rows, -2 - to))
        for f in self._table.schema.partition_fields:
            values = pa.chunked_array([*keys.rows.columns.column(f.name).chunks, *places.column(f.name).chunks])
            rows = rows.set_column(rows.schema.get_field_index(f.name), f.name, values.take(pa.array(source)))
        return rows

    def _carry(self, keys: _Keys, owner: tuple[int, int] | None) -> None:
        """Store the location of the last key, whose next rows may come in the next batch."""
        raw = keys.raw
        last_new = int(keys.group[-1]) if keys.rows.count else -1
        last_existing = int(keys.existing_group[-1]) if len(keys.existing) else -1
        if owner is None or last_existing > last_new:
            held = keys.existing[keys.existing_group == max(last_new, last_existing)]
            self._carried = raw.take(pa.array(held)) if len(held) else None
            return
        row, bucket = owner
        numbers = keys.rows.buckets
        carried = raw.slice(0 if numbers is None else int(numbers[row]), 1)
        columns = {f.name: keys.rows.columns.column(f.name).slice(row, 1) for f in self._table.schema.partition_fields}
        for name, column in {**columns, EXISTING_BUCKET: pa.array([bucket], pa.int32())}.items():
            at = raw.schema.get_field_index(name)
            carried = carried.set_column(at, raw.schema.field(at), column.cast(raw.schema.field(at).type))
        self._carried = carried


def _one(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column


def _groups(columns: Sequence[Column], n: int) -> I64:
    """Return the number of the key of each row; equal keys are adjacent."""
    changes: Mask = np.zeros(n, dtype=np.bool_)
    for c in columns:
        if isinstance(c, np.ndarray):
            changes[1:] |= c[1:] != c[:-1]
        else:
            changes[1:] |= np.asarray(pc.not_equal(c[1:], c[:-1]))
    return np.cumsum(changes)
