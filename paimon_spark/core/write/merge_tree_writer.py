"""The write buffer of one bucket of a primary key table: sorts its rows (docs/spec/semantics.md, W9-W13).

Sorted rows are merged into level-0 files. When memory runs low, they are spilled to the local disk as sorted runs,
which are merged at the end into files with disjoint key ranges. If spilling is disabled or the spill space is
exhausted, they are written to files directly.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from paimon_spark.core.merge.config import merge_order
from paimon_spark.core.merge.key_groups import sorted_versions
from paimon_spark.core.merge.multi_pass import RunSource, reduce_runs, spilled_source
from paimon_spark.core.merge.sort_merge import MergeOrder, merge_rows, merge_runs, sorted_rows
from paimon_spark.core.spill.space import Run, SpillSpace
from paimon_spark.core.table import Table
from paimon_spark.core.write.append_writer import own_copy
from paimon_spark.core.write.rolling import RollingWriter
from paimon_spark.core.write.row_conversion import Rows
from paimon_spark.errors import OptionError
from paimon_spark.spec.kinds import SEQUENCE_NUMBER, VALUE_KIND, FileSource
from paimon_spark.spec.manifest import DataFileMeta

_FEW_BYTES = 16 << 20


class MergeTreeWriter:
    """Buffers rows of one bucket, then sorts and merges them into level-0 files.

    Args:
        table: the table.
        partition: the partition.
        bucket: the bucket.
        first_sequence: sequence number of the first row.
        spill: spill space for sorted runs; None writes full buffers to files.
        hold: bytes of rows that an open file may buffer while runs are merged into it.
        changelog: whether to write all rows to changelog files, too, as the changelog producer ``input`` does.
    """

    def __init__(
        self,
        table: Table,
        partition: bytes,
        bucket: int,
        first_sequence: int,
        spill: SpillSpace | None,
        hold: int,
        *,
        changelog: bool = False,
    ) -> None:
        self._table = table
        self._place = (partition, bucket)
        self._next = first_sequence
        self._order = merge_order(table, stored=False)
        self._spill = spill
        self._hold = hold
        self._waiting: list[pa.Table] = []
        self._runs: list[Run] = []
        self._done: list[tuple[RollingWriter, list[DataFileMeta]]] = []
        self._changelog = self._changelog_writer() if changelog else None
        self.changelog: list[DataFileMeta] = []
        """The changelog files; complete after `finish`."""
        self._unwritten: RollingWriter | None = None
        """The changelog, if its rows are those of the data file that is written next."""
        self.buffered_bytes = 0

    def add(self, rows: Rows, size: int) -> None:
        """Buffer rows with the next sequence numbers."""
        numbers = np.arange(self._next, self._next + rows.count, dtype=np.int64)
        self._next += rows.count
        table = rows.columns.append_column(SEQUENCE_NUMBER, pa.array(numbers))
        self._waiting.append(table.append_column(VALUE_KIND, pa.array(rows.kinds)))
        self.buffered_bytes += size

    def flush(self) -> None:
        """Sort the buffered rows and spill them, or write them to a file."""
        rows = self._sorted(self._order if self._spill is None else self._order.partial())
        if rows is None:
            return
        run = None if self._spill is None else self._spill.write([rows])
        if run is None:
            self._write_files(rows, merged=self._spill is None)
            return
        self._runs.append(run)
        if self._spill is not None:
            self._join_runs(self._spill)

    def detach(self) -> None:
        """Copy the buffered rows so that the batches they are slices of can be freed."""
        self._waiting = own_copy(self._waiting)

    def finish(self) -> list[DataFileMeta]:
        """Write the buffered rows; return all files."""
        only = not self._runs and not self._done
        rows = self._sorted(self._order.partial() if self._runs else self._order, only=only)
        if rows is not None or self._runs:
            self._write_files(rows, merged=not self._runs)
        if rows is not None and self._unwritten is not None:
            self._share(self._unwritten, rows)
        if self._changelog is not None:
            self.changelog = self._changelog.close()
        return [f for _, files in self._done for f in files]

    def abort(self) -> None:
        """Delete the written files."""
        if self._changelog is not None:
            self._changelog.abort()
        for writer, _ in self._done:
            writer.abort()
        self._waiting = []

    def _sorted(self, order: MergeOrder, *, only: bool = False) -> pa.Table | None:
        """Empty the buffer and return its rows merged in key order; write all versions to the changelog.

        Few rows that are the `only` ones of the bucket, and that merging leaves as they are, are not written yet.
        """
        if not self._waiting:
            return None
        waiting, self._waiting, self.buffered_bytes = self._waiting, [], 0
        rows = pa.concat_tables(waiting)
        del waiting
        if self._changelog is None:
            return merge_rows(rows, order)
        versions = sorted_rows(rows, order)
        logged = sorted_versions(versions)
        if only and rows.nbytes <= _FEW_BYTES:
            merged = order.function(versions)
            if merged.equals(logged):
                self._unwritten = self._changelog
            else:
                self._changelog.write(logged)
            return merged
        self._changelog.write(logged)
        self._changelog.roll()
        del logged
        return order.function(versions)

    def _share(self, changelog: RollingWriter, rows: pa.Table) -> None:
        """Link the data file of `rows` into the changelog; write the rows again where that is not possible."""
        writer, files = self._done[-1]
        if len(files) != 1 or not changelog.link(writer, files[0]):
            changelog.write(rows)

    def _changelog_writer(self) -> RollingWriter:
        return RollingWriter(self._table, *self._place, level=0, source=FileSource.APPEND, changelog=True)

    def _join_runs(self, spill: SpillSpace) -> None:
        """Merge `fan_in` runs of one merge generation whenever that generation has at least twice as many.

        This bounds the number of times a row is rewritten by the logarithm of the number of runs, and leaves enough
        runs for the last merge to choose from. Runs are ordered from oldest to newest; older runs have gone through
        more merges.
        """
        joins, at_once = 0, spill.rules.fan_in
        while len(alike := [i for i, r in enumerate(self._runs) if r.joins == joins]) >= 2 * at_once:
            start = alike[0]
            few = self._runs[start : start + at_once]
            joins += 1
            joined = spill.write(merge_runs([spill.read(r) for r in few], self._order.partial()), joins)
            if joined is None:
                self._write_files(None, merged=False)
                return
            spill.drop(few)
            self._runs[start : start + at_once] = [joined]

    def _write_files(self, rows: pa.Table | None, *, merged: bool) -> None:
        """Merge the runs and `rows` into files; `merged` is true if `rows` have one row per key already."""
        groups = self._readable()
        for number, group in enumerate(groups, start=1):
            runs = [s.read(0) for s in group]
            if rows is not None and number == len(groups):
                runs.append(iter([rows]))
            alone = len(runs) == 1 and (merged or self._order.picks)
            self._write_file(runs[0] if alone else merge_runs(runs, self._order.after_partial()))
            if self._spill is not None:
                self._spill.drop(s.spilled for s in group if s.spilled is not None)
        self._runs = []

    def _readable(self) -> list[list[RunSource]]:
        """Return groups of runs that can be read at once: a single one if there is space to merge the smallest runs."""
        if self._spill is None or not self._runs:
            return [[]]
        spill, at_once = self._spill, self._spill.rules.fan_in
        few = reduce_runs([spilled_source(spill, r) for r in self._runs], self._order, at_once, spill)
        return [few[i : i + at_once] for i in range(0, len(few), at_once)]

    def _write_file(self, parts: Iterable[pa.Table]) -> None:
        if self._done and self._table.options.snapshot_ordering:
            raise OptionError(
                f"The rows of a bucket of table {self._table.name} fit neither into the write buffer nor into its "
                "spill space, and with 'sequence.snapshot-ordering' the rows of several files would have no order.",
                hint="Raise 'write-buffer-spill.max-disk-size' or 'write-buffer-size', leave 'write-buffer-spillable' "
                "out, or insert the rows by several statements.",
            )
        writer = RollingWriter(self._table, *self._place, level=0, source=FileSource.APPEND)
        self._done.append((writer, []))
        for part in parts:
            if writer.buffered_bytes > self._hold:
                writer.flush()
            writer.write(part)
        self._done[-1] = (writer, writer.close())
