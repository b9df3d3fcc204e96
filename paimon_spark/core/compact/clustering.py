"""Compaction policy of clustered append tables: sorted runs by level, as in the LSM tree of a primary key table.

New files are runs of their own at level 0. A compaction sorts the files of some runs into one run of a higher level,
whose files were all clustered together (docs/spec/semantics.md, A6).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from paimon_spark.core.bin_packing import bin_packed
from paimon_spark.core.compact.append import Vectors, lost_many
from paimon_spark.core.compact.pick import CompactUnit, PickOptions, pick
from paimon_spark.core.compact.task import CompactTask
from paimon_spark.core.file_schemas import FileSchemas
from paimon_spark.core.levels import max_level, sorted_runs
from paimon_spark.core.metadata.row_tracking import tracks_rows
from paimon_spark.core.table import Table
from paimon_spark.spec.clustering import Clustering, clustering_of, is_clustered, order_of, sorts_writes
from paimon_spark.spec.kinds import BucketMode
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.types import beyond_micros

IDLE = "idle partition"
"""The reason of the full clustering of a partition that the statement does not name."""


def clusters(table: Table) -> bool:
    """Return whether compaction keeps the files of a table clustered."""
    return is_clustered(table.schema, table.options)


def clusters_writes(table: Table) -> bool:
    """Return whether a statement sorts the rows that it writes."""
    return sorts_writes(table.schema, table.options)


def table_clustering(table: Table) -> Clustering:
    """Return the sort order of the files of a clustered table.

    Raises:
        OptionError: there are no columns to cluster by, or the strategy does not fit them.
    """
    return clustering_of(table.effective_schema, table.options)


def sorts_apart(table: Table, task: CompactTask) -> bool:
    """Return whether several processes sort the rows of a task; at most one task of a partition is of this kind.

    Jobs transfer neither ids of rows, nor more than six digits of a second.
    """
    clustering = table_clustering(table) if clusters(table) else None
    if clustering is None or clustering.is_local or table.bucket_mode is not BucketMode.BUCKET_UNAWARE:
        return False
    if len(task.files) == 1 or task.bytes_in <= table.options.target_file_size(primary_key=False):
        return False
    return not tracks_rows(table) and not any(beyond_micros(f.type) for f in table.schema.fields)


@dataclass(frozen=True, slots=True)
class ClusterPolicy:
    """Picks the files to cluster in the buckets of a table; an unbucketed partition is one bucket."""

    table: Table
    schemas: FileSchemas

    @classmethod
    def of(cls, table: Table) -> ClusterPolicy:
        """Return the policy of a clustered table.

        Raises:
            OptionError: there are no columns to cluster by, or the strategy does not fit them.
        """
        table_clustering(table)
        return cls(table, FileSchemas(table))

    def pick(self, files: Sequence[DataFileMeta], vectors: Vectors, *, full: bool) -> list[CompactUnit]:
        """Return the units of files of one bucket to cluster; files with many deleted rows are units of their own.

        Such a file keeps its level: its other rows stay in order.
        """
        unit = self._runs_to_cluster(files, full=full)
        taken = set() if unit is None else {f.file_name for f in unit.files}
        most = self.table.options.compaction_delete_ratio_threshold
        gone = (f for f in files if f.file_name not in taken and lost_many(f, vectors.get(f.file_name), most))
        return [*([] if unit is None else [unit]), *(CompactUnit((f,), f.level, "deleted rows") for f in gone)]

    def _runs_to_cluster(self, files: Sequence[DataFileMeta], *, full: bool) -> CompactUnit | None:
        runs, top = sorted_runs(files), max_level(files, self.table.stored_options.num_levels)
        if not full:
            return pick(runs, self._options, top)
        if not runs:
            return None
        if len(runs) == 1 and runs[0].level == top:
            return CompactUnit(tuple(files), top, "other order") if self._in_other_order(files) else None
        return CompactUnit(tuple(f for r in runs for f in r.files), top, "full")

    def tasks(self, unit: CompactUnit) -> Iterator[tuple[DataFileMeta, ...]]:
        """Yield the files of a unit that are sorted together."""
        if self.table.bucket_mode is not BucketMode.BUCKET_UNAWARE or not table_clustering(self.table).is_local:
            yield unit.files
            return
        target = self.table.options.target_file_size(primary_key=False)
        yield from map(tuple, bin_packed(unit.files, attrgetter("file_size"), target))

    @property
    def _options(self) -> PickOptions:
        o = self.table.options
        return PickOptions(
            trigger=o.trigger,
            size_ratio=o.compaction_size_ratio,
            max_amplification_percent=o.compaction_max_size_amplification_percent,
        )

    def _in_other_order(self, files: Iterable[DataFileMeta]) -> bool:
        """Return whether files were written when the table had another clustering, as their schemas say."""
        wanted = order_of(self.table.schema, self.table.options)
        written = map(self.schemas.of, {f.schema_id for f in files})
        return any(order_of(schema, CoreOptions(schema.options)) != wanted for schema in written)


def newest_below(files: Iterable[DataFileMeta], top: int) -> int | None:
    """Return the creation time of the newest file below the level `top`; None if there is none."""
    return max((f.creation_time or 0 for f in files if f.level < top), default=None)
