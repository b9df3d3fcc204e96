"""Copies of tables: the schemas, and the data and index files of the latest snapshot, with one commit a table.

A copy has the files of its source byte for byte, under names of its own. Nothing is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from paimon_spark.core.commit.change_set import Change, overwrite_part
from paimon_spark.core.commit.commit_retry import Planner
from paimon_spark.core.commit.committer import Committed, FileStoreCommit
from paimon_spark.core.commit.snapshot_builder import CommitMetadata
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.maintenance.deletion import WRITE, Action
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.row_tracking import tracks_rows
from paimon_spark.core.metadata_io import delete_best_effort, translate_io_errors
from paimon_spark.core.scan.pruning import matching_partitions
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.core.table import Table
from paimon_spark.engine.runner import TaskRunner
from paimon_spark.engine.tasks import FileCopy, copy_payload
from paimon_spark.errors import ArgumentError, ConflictError, UnsupportedError, UsageError
from paimon_spark.spec.features import check_writable
from paimon_spark.spec.kinds import CommitKind, Operation
from paimon_spark.spec.manifest import DataFileMeta, IndexFileMeta, IndexManifestEntry, ManifestEntry
from paimon_spark.spec.predicate import Predicate
from paimon_spark.spec.privileges import Privilege
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.snapshot import Snapshot

_TASK_BYTES = 256 << 20
_MOST_TASKS = 200
_BRANCHES = ("scan.fallback-branch", "scan.primary-branch")
_MEANING = (
    "aggregation.remove-record-on-delete",
    "blob-descriptor-field",
    "blob-field",
    "blob-view-field",
    "bucket",
    "bucket-function.type",
    "bucket-key",
    "data-evolution.enabled",
    "data-file.thin-mode",
    "deletion-vectors.enabled",
    "ignore-delete",
    "ignore-update-before",
    "merge-engine",
    "partial-update.remove-record-on-delete",
    "partial-update.remove-record-on-sequence-group",
    "pk-clustering-override",
    "row-tracking.enabled",
    "rowkind.field",
    "sequence.field",
    "sequence.field.sort-order",
    "sequence.snapshot-ordering",
    "vector-field",
)
_OF_COLUMNS = "fields."
_ON_WRITE = (".default-value", ".stats-mode")
"""Options that must be equal for files to have the same meaning in both tables."""


@dataclass(frozen=True, slots=True)
class ClonePlan:
    """What to copy into one table.

    Attributes:
        source: the table to copy.
        target: the copy at the latest schema of the source; its directory may not exist.
        exists: whether the copy exists.
        schemas: the schemas to publish in the copy, in order.
        messages: the files of the copy.
        copies: the files to copy.
        partitions: the partitions to replace in the copy.
        rows: number of rows in the files.
    """

    source: Table
    target: Table
    exists: bool
    schemas: tuple[TableSchema, ...] = ()
    messages: tuple[CommitMessage, ...] = ()
    copies: tuple[FileCopy, ...] = ()
    partitions: frozenset[bytes] = frozenset()
    rows: int = 0

    @property
    def actions(self) -> tuple[Action, ...]:
        """Return one action a schema and a file."""
        schemas = (
            Action(WRITE, self.target.paths.schema(s.id), len(s.to_json().encode()), f"schema {s.id}")
            for s in self.schemas
        )
        files = (Action(WRITE, c.new_path, c.size, f"copy of {c.path}") for c in self.copies)
        return (*schemas, *files)


@dataclass(frozen=True, slots=True)
class CloneResult:
    """The snapshot of the copy, if one was committed, and what was copied."""

    snapshot_id: int | None = None
    files: int = 0
    bytes: int = 0
    rows: int = 0


@translate_io_errors()
def plan_clone(
    source: Table, target: Table, *, exists: bool, where: Predicate | None = None, only_schemas: bool = False
) -> ClonePlan:
    """Plan a copy; nothing is changed.

    Args:
        source: the table to copy.
        target: the copy; if it does not exist, the source with the name and the directory of the copy.
        exists: whether the copy exists.
        where: condition over the partition columns; only matching partitions are copied.
        only_schemas: copy no files.

    Raises:
        ArgumentError: source and target are the same table.
        UnsupportedError: the tables track row ids, which a copy cannot keep, the source needs a branch, or rows of
            it have no bucket yet.
        AccessDeniedError: the user may not read the source, or not write to the copy.
        UsageError: the copy exists, and its schemas, its buckets or its rules of merging differ.
    """
    source.require(Privilege.SELECT)
    _check_source(source, target)
    check_writable(source.effective_schema)
    if exists:
        target.require(Privilege.INSERT)
        _check_meaning(source, target)
    store, latest = ManifestStore(source), source.snapshots.latest()
    live = [] if only_schemas else live_in_partitions(store, latest, None)
    if where is not None:
        chosen = matching_partitions(source, {e.partition for e in live}, where)
        live = [e for e in live if e.partition in chosen]
    _check_none_waits(source, live)
    index = [i for i in store.index_entries(latest) if i.partition in {e.partition for e in live}]
    schemas = _missing_schemas(source, target, {e.file.schema_id for e in live}, exists=exists)
    copy = _Copy(source, target)
    messages = tuple(copy.messages(live, index))
    return ClonePlan(
        source,
        target,
        exists,
        schemas,
        messages,
        tuple(copy.copies),
        frozenset(e.partition for e in live),
        sum(e.file.row_count for e in live),
    )


def _check_source(source: Table, target: Table) -> None:
    if source.path == target.path and dict(source.file_io.to_config()) == dict(target.file_io.to_config()):
        raise ArgumentError(f"Table {source.name} cannot be copied onto itself.", hint="Name another target.")
    if tracks_rows(source) or source.options.flag("data-evolution.enabled"):
        raise UnsupportedError(
            f"Table {source.name} has 'row-tracking.enabled'; its files cannot be copied without changing ids of rows.",
            hint="Create the target and use INSERT INTO … SELECT.",
        )
    if source.options.snapshot_ordering:
        raise UnsupportedError(
            f"Table {source.name} has 'sequence.snapshot-ordering' = 'true': its rows are ordered by its own "
            "snapshots, which a copy does not have.",
            hint="Create the target and use INSERT INTO … SELECT.",
        )
    for key in _BRANCHES:
        if source.options.get(key) is not None:
            raise UnsupportedError(
                f"Table {source.name} has the option '{key}', and branches are not copied.",
                hint="Copy the branches one by one, as `t$branch_x`, or use CREATE TABLE … AS SELECT.",
            )


def _check_none_waits(source: Table, live: Sequence[ManifestEntry]) -> None:
    """Reject postponed files: the commits and the names that give their order are not copied."""
    waiting = sum(e.bucket < 0 for e in live)
    if waiting:
        raise UnsupportedError(
            f"Table {source.name} has {waiting} postponed files, whose rows have no bucket yet; they cannot be copied.",
            hint=f"Run CALL sys.compact('{source.identifier.full_name}') first.",
        )


def _check_meaning(source: Table, target: Table) -> None:
    """Reject a target in which files have another meaning: other keys or buckets, or other rules of merging."""
    own, others = source.options, target.options
    columns = {k for k in (*own.values, *others.values) if k.startswith(_OF_COLUMNS) and not k.endswith(_ON_WRITE)}
    for what, one, other in (
        ("primary key", source.schema.primary_keys, target.schema.primary_keys),
        ("partition columns", source.schema.partition_keys, target.schema.partition_keys),
        *((f"option '{k}'", own.get(k), others.get(k)) for k in (*_MEANING, *sorted(columns))),
    ):
        if _plain(one) != _plain(other):
            raise UsageError(
                f"Table {source.name} cannot be copied into {target.name}: their {what} differ: {one} and {other}.",
                hint="Choose another target, or use INSERT OVERWRITE … SELECT.",
            )


def _plain(value: object) -> object:
    """Return a normalized option value: without spaces, booleans in lower case."""
    if not isinstance(value, str):
        return value
    words = [word.strip() for word in value.split(",")]
    return [word.lower() if word.lower() in ("true", "false") else word for word in words]


def _missing_schemas(source: Table, target: Table, used: set[int], *, exists: bool) -> tuple[TableSchema, ...]:
    """Return the schemas of the source that the copy lacks; an interrupted copy may lack the last ones."""
    there = set(target.schema_store.ids()) if exists else set()
    ids = source.schema_store.ids()
    for schema_id in sorted(there & (used | set(ids))):
        if schema_id in ids and not _same(source.schema_store.get(schema_id), target.schema_store.get(schema_id)):
            raise _other_schema(source, target, schema_id)
    missing = tuple(source.schema_store.get(i) for i in ids if i not in there)
    if exists and missing and (target.snapshots.latest_id() is not None or there - set(ids)):
        raise _other_schema(source, target, missing[0].id)
    return tuple(replace(s, options=_own_options(s.options)) for s in missing)


def _other_schema(source: Table, target: Table, schema_id: int) -> UsageError:
    return UsageError(
        f"Table {source.name} cannot be copied into {target.name}: schema {schema_id} of the source is another one in "
        "the target, or missing there.",
        hint="Choose another target, or use INSERT OVERWRITE … SELECT.",
    )


def _same(one: TableSchema, other: TableSchema) -> bool:
    def key(s: TableSchema) -> object:
        return s.fields, s.partition_keys, s.primary_keys

    return key(one) == key(other)


def _own_options(options: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in options.items() if k != "path"}


class _Copy:
    """The files of a copy: each has a new name, so that it cannot collide with an earlier copy of the same file."""

    def __init__(self, source: Table, target: Table) -> None:
        self._source = source.paths
        self._target = target.paths
        self._io = source.file_io
        self.copies: list[FileCopy] = []
        self._names: dict[str, str] = {}

    def messages(self, live: Sequence[ManifestEntry], index: Sequence[IndexManifestEntry]) -> Iterator[CommitMessage]:
        """Yield one message a bucket; the copies of its files are recorded."""
        files: dict[tuple[bytes, int, int], list[DataFileMeta]] = {}
        for e in live:
            files.setdefault((e.partition, e.bucket, e.total_buckets), []).append(self._data_file(e))
        indexes: dict[tuple[bytes, int], list[IndexFileMeta]] = {}
        for i in index:
            indexes.setdefault((i.partition, i.bucket), []).append(self._index_file(i))
        for (partition, bucket, total), found in files.items():
            yield CommitMessage(
                partition=partition,
                bucket=bucket,
                total_buckets=total,
                new_files=tuple(found),
                new_index_files=tuple(indexes.pop((partition, bucket), ())),
            )
        for (partition, bucket), left in indexes.items():
            total = next((e.total_buckets for e in live if e.partition == partition), bucket + 1)
            yield CommitMessage(partition=partition, bucket=bucket, total_buckets=total, new_index_files=tuple(left))

    def _data_file(self, e: ManifestEntry) -> DataFileMeta:
        old = e.file.file_name
        new = self._names[old] = self._target.new_data_file(old.partition(".")[2])
        extras = tuple(
            new + extra[len(old) :] if extra.startswith(old) else f"{new}-{extra}" for extra in e.file.extra_files
        )
        file = replace(e.file, file_name=new, extra_files=extras, external_path=None)
        paths = self._source.file_paths(e.partition, e.bucket, e.file)
        new_paths = self._target.file_paths(e.partition, e.bucket, file)
        sizes = [e.file.file_size, *(self._io.status(path).size for path in paths[1:])]
        self.copies += map(FileCopy, paths, new_paths, sizes)
        return file

    def _index_file(self, e: IndexManifestEntry) -> IndexFileMeta:
        ranges = e.file.deletion_ranges
        named = None if ranges is None else tuple(replace(r, data_file=self._names[r.data_file]) for r in ranges)
        file = replace(e.file, file_name=self._target.new_index_name(), deletion_ranges=named, external_path=None)
        path = self._source.index_file(e.partition, e.bucket, e.file)
        new_path = self._target.index_file(e.partition, e.bucket, file)
        self.copies.append(FileCopy(path, new_path, e.file.file_size))
        return file


@translate_io_errors()
def publish_schemas(plan: ClonePlan, target: Table) -> None:
    """Publish the schemas that the target lacks, in order.

    Raises:
        ConflictError: the target's schemas changed meanwhile.
    """
    for schema in plan.schemas:
        if not target.schema_store.try_create(schema) and not _same(schema, target.schema_store.get(schema.id)):
            raise ConflictError(
                f"Schema {schema.id} of table {target.name} was created by another statement meanwhile.",
                hint="Run the statement again.",
            )


@translate_io_errors()
def execute_clone(plan: ClonePlan, target: Table, runner: TaskRunner, parallelism: int | None = None) -> CloneResult:
    """Copy the files, and replace the copied partitions of the target with one commit.

    If the CALL is interrupted, the target is as before, or an empty table; files that are not referenced remain, which
    `remove_orphan_files` deletes.

    Args:
        plan: what to copy.
        target: the copy at its latest schema.
        runner: copies the files.
        parallelism: the number of tasks.

    Raises: ConflictError: every attempt conflicted with another commit.
    """
    if not plan.messages:
        return CloneResult()
    target.require(Privilege.INSERT)
    paths = [c.new_path for c in plan.copies]
    try:
        _copy_files(plan, target, runner, parallelism)
    except BaseException:
        delete_best_effort(target.file_io, paths)
        raise
    commit = FileStoreCommit(target)
    with commit.or_abort(plan.messages):
        done = commit.commit_plan(
            _replacement(plan), CommitKind.OVERWRITE, CommitMetadata(operation=Operation.OVERWRITE)
        )
    snapshot_id = done.snapshot_ids[-1] if isinstance(done, Committed) else None
    return CloneResult(snapshot_id, len(paths), sum(c.size for c in plan.copies), plan.rows)


def _copy_files(plan: ClonePlan, target: Table, runner: TaskRunner, parallelism: int | None) -> None:
    size = sum(c.size for c in plan.copies)
    count = parallelism or min(_MOST_TASKS, len(plan.copies), 1 + size // _TASK_BYTES)
    shares = [share for i in range(count) if (share := plan.copies[i::count])]
    payloads = [copy_payload(plan.source.file_io, target.file_io, share) for share in shares]
    what = f"copy {plan.source.name} to {target.name}: {len(plan.copies)} files"
    for _ in runner.run("copy", payloads, description=what):
        pass


def _replacement(plan: ClonePlan) -> Planner:
    def change(store: ManifestStore, base: Snapshot | None) -> Change:
        live = live_in_partitions(store, base, plan.partitions)
        index = [i for i in store.index_entries(base) if i.partition in plan.partitions]
        return overwrite_part(plan.messages, [e for e in live if e.partition in plan.partitions], index)

    return change
