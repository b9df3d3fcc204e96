"""The rows that a statement sets, by bucket: buffered, sorted by key, and spilled when memory runs low."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from paimon_spark.core.merge.multi_pass import RunSource, spilled_source
from paimon_spark.core.merge.sort_merge import MergeOrder, merge_rows
from paimon_spark.core.spill.space import SpillRules, SpillSpace
from paimon_spark.core.table import Table
from paimon_spark.core.write.append_writer import own_copy
from paimon_spark.spec.manifest import BucketKey


class StatedRuns:
    """Collects rows with system columns; of several rows with one key, the last one wins.

    Args:
        table: the table.
        buffer: maximum bytes of rows in memory.
        spill_dirs: local directories for sorted rows.
    """

    def __init__(self, table: Table, buffer: int, spill_dirs: Sequence[str] = ()) -> None:
        rules = SpillRules.of(table.options, buffer)
        self._space = None if rules is None else SpillSpace(rules, spill_dirs)
        self._limit = buffer if rules is None else rules.buffer
        self._order = MergeOrder(key=table.key_fields)
        self._waiting: dict[BucketKey, list[pa.Table]] = defaultdict(list)
        self._spilled: dict[BucketKey, list[RunSource]] = defaultdict(list)
        self._held = 0
        self._full = False
        """Whether the spill space is exhausted; rows then stay in memory."""

    def add(self, bucket: BucketKey, rows: pa.Table) -> None:
        """Add rows of a bucket."""
        self._waiting[bucket].append(rows)
        self._held += rows.nbytes
        if self._space is not None and not self._full and self._held > self._limit // 2:  # sorting takes the same again
            self._spill(self._space)

    def of(self, bucket: BucketKey) -> list[RunSource]:
        """Return the sorted runs of a bucket, oldest first."""
        rows = self._sorted(bucket)
        own = [] if rows is None else [RunSource(rows.nbytes, partial(_whole, rows))]
        return [*self._spilled.pop(bucket, ()), *own]

    def close(self) -> None:
        """Delete all runs."""
        if self._space is not None:
            self._space.close()

    def _spill(self, space: SpillSpace) -> None:
        for bucket in list(self._waiting):
            rows = self._sorted(bucket)
            if rows is None:
                continue
            run = space.write([rows])
            if run is None:
                self._waiting[bucket] = own_copy([rows])
                self._full = True
            else:
                self._spilled[bucket].append(spilled_source(space, run))
        self._held = sum(r.nbytes for rows in self._waiting.values() for r in rows)
        pa.default_memory_pool().release_unused()

    def _sorted(self, bucket: BucketKey) -> pa.Table | None:
        waiting = self._waiting.pop(bucket, None)
        return None if not waiting else merge_rows(pa.concat_tables(waiting), self._order)


def _whole(rows: pa.Table, _: int) -> Iterator[pa.Table]:
    return iter([rows])
