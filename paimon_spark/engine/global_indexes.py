"""Global indexes: which rows to index, the tasks that index them, and the commits that add and remove index files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from paimon_spark.core.bin_packing import task_cost
from paimon_spark.core.cancellation import checkpoint
from paimon_spark.core.commit.committer import CommitResult, Committed, FileStoreCommit
from paimon_spark.core.commit_message import CommitMessage, messages_from_json
from paimon_spark.core.compact.global_indexes import GlobalIndexTask, GlobalIndexWork, RowSpan
from paimon_spark.core.maintenance.abandoned_files import clean_up_abandoned
from paimon_spark.core.maintenance.deletion import Action
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.row_tracking import tracks_rows
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.scan.global_indexes import why_unused
from paimon_spark.core.scan.indexed_rows import column_rows
from paimon_spark.core.scan.pruning import matching_partitions
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Progress
from paimon_spark.engine.runner import TaskRunner
from paimon_spark.engine.tasks import global_index_payload
from paimon_spark.errors import ArgumentError, UnsupportedError
from paimon_spark.format.global_index.blocks import COMPRESSIONS
from paimon_spark.format.global_index.keys import KEY_TYPES, key_domain
from paimon_spark.spec.features import check_writable
from paimon_spark.spec.global_indexes import GlobalIndexKind, global_index_of, merged, outside
from paimon_spark.spec.manifest import BucketKey, IndexManifestEntry
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.predicate import TRUE, Predicate
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.types import DataField

INDEX, DROP = "index", "drop"
_KINDS = ", ".join(f"'{k}'" for k in GlobalIndexKind)


@dataclass(frozen=True, slots=True)
class CreatePlan:
    """The rows to index, by partition and range of row ids."""

    table: Table
    snapshot_id: int | None
    work: GlobalIndexWork
    tasks: tuple[GlobalIndexTask, ...]
    unnumbered: int = 0
    """Number of files whose rows are not indexed, because they have been moved there by updates or compactions."""
    partitions_seen: frozenset[bytes] = field(default=frozenset(), repr=False)
    """The partitions that the filter matches."""
    unused: str = ""
    """Why queries will not use the index; empty if they will."""

    @property
    def actions(self) -> tuple[Action, ...]:
        """Return one action per range of rows."""
        return tuple(
            Action(
                INDEX,
                self.table.paths.index_dir,
                sum(s.file.file_size for s in task.spans if s.file is not None),
                self._reason(task),
            )
            for task in self.tasks
        )

    def _reason(self, task: GlobalIndexTask) -> str:
        rows = f"the rows {task.spans[0].first} to {task.spans[-1].end - 1}"
        partition = self.table.partition_text(task.partition)
        where = f" of the partition '{partition}'" if partition else ""
        return f"{rows}{where} have no {self.work.kind} index of '{self.work.column}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateResult:
    """The new index files."""

    snapshot_ids: tuple[int, ...] = ()
    files: int = 0
    bytes: int = 0
    rows: int = 0


@dataclass(frozen=True, slots=True)
class DropPlan:
    """The index files to remove from the table."""

    table: Table
    snapshot_id: int | None
    entries: tuple[IndexManifestEntry, ...]

    @property
    def actions(self) -> tuple[Action, ...]:
        """Return one action per index file."""
        paths, reason = self.table.paths, "the table no longer has the index; the file stays until snapshots expire"
        return tuple(
            Action(DROP, paths.index_file(e.partition, e.bucket, e.file), e.file.file_size, reason)
            for e in self.entries
        )


def index_kind(text: str) -> GlobalIndexKind:
    """Return a kind of global index by its name in any case.

    Raises:
        UnsupportedError: there is no such kind here.
    """
    name = text.strip().lower()
    if name not in set(GlobalIndexKind):
        raise UnsupportedError(
            f"Global indexes of the type '{name}' are not supported: the types are {_KINDS}.",
            hint="Build vector and full-text indexes with Paimon; the table stays readable and writable here.",
        )
    return GlobalIndexKind(name)


def index_column(table: Table, text: str) -> DataField:
    """Return the column to index.

    Raises:
        ArgumentError: no column, several, or an unknown one is named.
    """
    names = [n for piece in text.split(",") if (n := piece.strip())]
    if not names:
        raise ArgumentError("index_column names no column.", hint="Name one column of the table.")
    repeated = next((n for i, n in enumerate(names) if n in names[:i]), None)
    if repeated is not None:
        raise ArgumentError(f"index_column names '{repeated}' twice.", hint="Name one column of the table.")
    known = {f.name: f for f in table.schema.fields}
    for name in names:
        if name not in known:
            raise ArgumentError(
                f"The table {table.name} has no column '{name}'.", hint=f"Its columns are {', '.join(known)}."
            )
    if len(names) > 1:
        raise ArgumentError(
            f"An index of the types {_KINDS} has one column, not {len(names)}: {', '.join(names)}.",
            hint="Create an index for each of the columns.",
        )
    return known[names[0]]


@translate_io_errors()
def plan_create(table: Table, column: DataField, kind: GlobalIndexKind, partitions: Predicate | None) -> CreatePlan:
    """Return the rows of the latest snapshot that have no index of this kind and column.

    Args:
        table: the table with the options of the statement.
        column: the indexed column.
        kind: the kind of the index.
        partitions: filter over the partition columns.

    Raises:
        UnsupportedError: the table or the column cannot have the index.
    """
    work = _work(table, column, kind)
    snapshot = table.snapshots.latest()
    entries = scan(table, snapshot, partition_predicate=partitions or TRUE).entries
    covered = _covered(_entries_of(table, snapshot, column, kind))
    spans: dict[bytes, list[RowSpan]] = defaultdict(list)
    unnumbered = 0
    for found in column_rows(table, entries, column):
        if found.first is None:
            unnumbered += 1
            continue
        partition, bucket = found.key
        for low, high in outside((found.first, found.first + found.rows), covered.get(partition, ())):
            spans[partition].append(RowSpan(first=low, rows=high - low, bucket=bucket, file=found.file))
    tasks = [t for partition, found in spans.items() for t in _tasks(partition, found, work.most_rows)]
    return CreatePlan(
        table,
        snapshot.id if snapshot else None,
        work,
        tuple(tasks),
        unnumbered,
        frozenset(e.partition for e in entries),
        why_unused(table, column),
    )


def _work(table: Table, column: DataField, kind: GlobalIndexKind) -> GlobalIndexWork:
    check_writable(table.effective_schema)
    options = table.options
    if not tracks_rows(table):
        raise UnsupportedError(
            f"The table {table.name} does not number its rows, so it cannot have global indexes.",
            hint="Create an append table with 'row-tracking.enabled' = 'true'.",
        )
    if options.is_set("global-index.external-path"):
        raise UnsupportedError(
            "'global-index.external-path' is not supported: index files are written into the table's directory.",
            hint=f"ALTER TABLE {table.name} UNSET TBLPROPERTIES ('global-index.external-path'), or build with Paimon.",
        )
    if key_domain(column.type) is None:
        raise UnsupportedError(
            f"The column '{column.name}' of table {table.name} cannot be indexed: its type is not a key.",
            hint=f"Types of keys are {', '.join(t.value for t in KEY_TYPES)}.",
        )
    block_size, compression, level = _blocks(options, kind)
    if compression not in COMPRESSIONS:
        raise UnsupportedError(
            f"'{kind}-index.compression' = '{compression}' is not supported.",
            hint=f"Supported are {', '.join(COMPRESSIONS)}.",
        )
    most = options.number("sorted-index.records-per-range")
    if most <= 0 or block_size <= 0:
        raise ArgumentError(
            f"'sorted-index.records-per-range' and the size of blocks of the {kind} index must be positive.",
            hint="Leave them out for their default values.",
        )
    return GlobalIndexWork(
        kind=kind, column=column.name, most_rows=most, block_size=block_size, compression=compression, level=level
    )


def _blocks(options: CoreOptions, kind: GlobalIndexKind) -> tuple[int, str, int]:
    """Return the options of blocks: their size in bytes, their compression, and its level."""
    if kind is GlobalIndexKind.BTREE:
        size, codec = options.memory("btree-index.block-size"), options.get("btree-index.compression")
        level = options.number("btree-index.compression-level")
    else:
        size, codec = options.memory("bitmap-index.dictionary-block-size"), options.get("bitmap-index.compression")
        level = options.number("bitmap-index.compression-level")
    return size, (codec or COMPRESSIONS[0]).lower(), level


def _entries_of(
    table: Table, snapshot: Snapshot | None, column: DataField, kind: GlobalIndexKind
) -> list[IndexManifestEntry]:
    """Return the files of an index."""
    entries = ManifestStore(table).index_entries(snapshot)
    found = ((e, global_index_of(e)) for e in entries if e.file.index_type == kind)
    return [e for e, i in found if i is not None and i.field_ids == (column.id,)]


def _covered(entries: Iterable[IndexManifestEntry]) -> dict[bytes, list[tuple[int, int]]]:
    out: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
    for e in entries:
        i = global_index_of(e)
        if i is not None:
            out[e.partition].append((i.first_row, i.last_row + 1))
    return {partition: merged(ranges) for partition, ranges in out.items()}


def _tasks(partition: bytes, spans: Iterable[RowSpan], most: int) -> Iterator[GlobalIndexTask]:
    """Yield tasks of spans that follow each other, of about the rows of one index file."""
    current: list[RowSpan] = []
    rows = 0
    for span in sorted(spans, key=lambda s: s.first):
        if current and (span.first != current[-1].end or rows >= most):
            yield GlobalIndexTask(partition=partition, spans=tuple(current))
            current, rows = [], 0
        current.append(span)
        rows += span.rows
    if current:
        yield GlobalIndexTask(partition=partition, spans=tuple(current))


def execute_create(plan: CreatePlan, runner: TaskRunner, progress: Progress | None = None) -> CreateResult:
    """Write the index files and commit them together.

    Raises:
        ConflictError: other commits moved, removed or indexed rows, or changed the column.
    """
    if not plan.tasks:
        return CreateResult()
    table = plan.table.with_write_token()
    messages: list[CommitMessage] = []
    try:
        groups = list(runner.group_tasks(plan.tasks, _cost))
        payloads = [global_index_payload(table, plan.work, tasks) for tasks in groups]
        results = runner.run("global_index", payloads, description=f"global index of {table.name}")
        for done, result in enumerate(results, 1):
            messages += messages_from_json(result)
            checkpoint()
            if progress is not None:
                progress(done, len(payloads))
    except BaseException:
        FileStoreCommit(plan.table).abort(messages)
        clean_up_abandoned(table)
        raise
    commit = FileStoreCommit(plan.table)
    with commit.or_abort(messages):
        ids = _ids(commit.commit_global_index(messages, table.schema.field(plan.work.column), plan.tasks))
    files = [f for m in messages for f in m.new_index_files]
    return CreateResult(
        snapshot_ids=ids,
        files=len(files),
        bytes=sum(f.file_size for f in files),
        rows=sum(f.row_count for f in files),
    )


def _cost(task: GlobalIndexTask) -> int:
    return task_cost(sum(s.file.file_size for s in task.spans if s.file is not None), len(task.spans))


def _ids(committed: CommitResult) -> tuple[int, ...]:
    return committed.snapshot_ids if isinstance(committed, Committed) else ()


@translate_io_errors()
def plan_drop(table: Table, column: DataField, kind: GlobalIndexKind, partitions: Predicate | None) -> DropPlan:
    """Return the files of an index in the latest snapshot; the arguments are those of `plan_create`."""
    check_writable(table.effective_schema)
    snapshot = table.snapshots.latest()
    entries = _entries_of(table, snapshot, column, kind)
    chosen = matching_partitions(table, {e.partition for e in entries}, partitions or TRUE)
    return DropPlan(table, snapshot.id if snapshot else None, tuple(e for e in entries if e.partition in chosen))


def execute_drop(plan: DropPlan) -> tuple[int, ...]:
    """Remove the index files from the table; return the ids of the snapshots.

    Raises:
        ConflictError: another commit removed one of them.
    """
    buckets: dict[BucketKey, list[IndexManifestEntry]] = defaultdict(list)
    for e in plan.entries:
        buckets[e.bucket_key].append(e)
    total = plan.table.options.bucket
    messages = [
        CommitMessage(
            partition=key.partition,
            bucket=key.bucket,
            total_buckets=total,
            deleted_index_files=tuple(e.file for e in entries),
        )
        for key, entries in buckets.items()
    ]
    return _ids(FileStoreCommit(plan.table).commit(messages))
