"""The file actions of a compaction plan, and the buckets that have been idle long enough to be compacted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo

from paimon_spark.core.compact.clustering import clusters, table_clustering
from paimon_spark.core.compact.rewrite import preview
from paimon_spark.core.compact.task import CompactTask
from paimon_spark.core.maintenance.deletion import Action
from paimon_spark.core.scan.pruning import matching_partitions
from paimon_spark.core.scan.scan import scan_buckets
from paimon_spark.core.table import Table
from paimon_spark.core.write.rolling import wall_clock_millis
from paimon_spark.engine.compaction.compact import CompactionPlan
from paimon_spark.errors import suggestion
from paimon_spark.spec.manifest import BucketKey, DataFileMeta
from paimon_spark.spec.predicate import TRUE, Predicate
from paimon_spark.sqlparse.partitions import partition_spec

REWRITE = "rewrite"
UPGRADE = "upgrade"


def compaction_actions(plan: CompactionPlan) -> tuple[Action, ...]:
    """Return one action per file of the plan: rewritten, or moved to another level."""
    return tuple(action for task in plan.tasks for action in _task_actions(plan.table, task))


def idle_buckets(table: Table, partitions: Predicate | None, idle_ms: int, clock_millis: int) -> set[BucketKey]:
    """Return the buckets of the partitions whose latest file is at least `idle_ms` old."""
    limit = wall_clock_millis(clock_millis) - idle_ms
    newest: dict[bytes, int] = {}
    buckets: set[BucketKey] = set()
    latest = table.snapshots.latest()
    for found in scan_buckets(table, latest, statistics=False, predicate=partitions or TRUE).buckets():
        created = max(f.creation_time or 0 for f in found.files)
        newest[found.partition] = max(newest.get(found.partition, 0), created)
        buckets.add(BucketKey(found.partition, found.bucket))
    return {key for key in buckets if newest[key.partition] <= limit}


def unmatched(
    table: Table, asked: Sequence[tuple[str, Predicate]], seen: Iterable[bytes], zone: tzinfo
) -> tuple[str, ...]:
    """Return a message for each filter that matches none of the partitions in `seen`; `zone` is that of timestamps."""
    seen = frozenset(seen)
    missing = [text for text, predicate in asked if not matching_partitions(table, seen, predicate)]
    if not missing:
        return ()
    found = scan_buckets(table, table.snapshots.latest(), statistics=False)
    present = {b.partition for b in found.buckets()}
    known = sorted(partition_spec(table.partition_values(p), table.schema, zone=zone) for p in present)
    hints = ((text, suggestion(text, known) or "The table has no partitions.") for text in missing)
    return tuple(f"no partition matches {text}. {hint}" for text, hint in hints)


def _task_actions(table: Table, task: CompactTask) -> Iterator[Action]:
    rewritten, upgraded = preview(table, task)
    where = f"bucket {task.bucket}"
    if task.partition and table.schema.partition_keys:
        where = f"{table.partition_text(task.partition).rstrip('/')}, {where}"
    verb = "merged"
    into = f" into level {task.output_level}" if table.is_primary_key_table or clusters(table) else ""
    if clusters(table):
        clustering = table_clustering(table)
        verb = f"sorted by {', '.join(clustering.columns)} ({clustering.order})"
    because = f" ({task.reason})" if task.reason else ""
    files = "1 file is" if len(rewritten) == 1 and clusters(table) else f"{len(rewritten)} files are"
    for file in rewritten:
        yield _action(table, task, file, REWRITE, f"{where}: {files} {verb}{into}{because}")
    for file in upgraded:
        moved = f"{where}: moves from level {file.level} to {task.output_level} as it is{because}"
        yield _action(table, task, file, UPGRADE, moved)


def _action(table: Table, task: CompactTask, file: DataFileMeta, action: str, reason: str) -> Action:
    path = table.paths.data_file(task.partition, task.bucket, file)
    return Action(action, path, file.file_size, reason)
