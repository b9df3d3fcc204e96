"""Migration of tables of plain Parquet or ORC files: the files become those of an append table, without being decoded.

Each file is linked, or copied between file systems, under a new name that is derived from its path. An interrupted
migration can therefore be repeated: files that the target has are skipped. The source is dropped last, if at all.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol
from urllib.parse import unquote

from paimon_spark.core.commit.change_set import Change
from paimon_spark.core.commit.committer import Committed, FileStoreCommit
from paimon_spark.core.commit.snapshot_builder import CommitMetadata
from paimon_spark.core.maintenance.deletion import WRITE, Action
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata_io import delete_best_effort, in_parallel, translate_io_errors
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.core.table import Table
from paimon_spark.core.write.rolling import wall_clock_millis
from paimon_spark.engine.runner import TaskRunner
from paimon_spark.engine.tasks import FileCopy, adopt_payload, inspect_payload, inspected_rows
from paimon_spark.errors import ConflictError, OutcomeUnknownError, PaimonError, UnsupportedError, UsageError
from paimon_spark.fs.base import FileIO
from paimon_spark.spec.evolution import new_schema
from paimon_spark.spec.features import check_writable
from paimon_spark.spec.kinds import BucketMode, CommitKind, FileKind, FileSource, Operation
from paimon_spark.spec.literals import parse_value
from paimon_spark.spec.manifest import EMPTY_STATS, DataFileMeta, ManifestEntry
from paimon_spark.spec.privileges import Privilege
from paimon_spark.spec.rows import encode_row
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.types import DataField, not_null, type_to_json

FORMATS = ("parquet", "orc")
DROP = "drop table"
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_FILES_A_TASK = 32
_MOST_TASKS = 200
_ORIGIN = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""A version 5 UUID in the name of a file, derived from the path that it was migrated from."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table outside of Paimon.

    Attributes:
        name: its name, for messages.
        location: its directory.
        format: the format of its files, in lower case.
        fields: its columns, partition columns last; their ids are 0.
        partition_keys: its partition columns.
        files: the paths of its data files.
        comment: its comment.
    """

    name: str
    location: str
    format: str
    fields: tuple[DataField, ...]
    partition_keys: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    comment: str | None = None


class SourceTables(Protocol):
    """The tables that can be migrated."""

    def describe_source(self, name: str) -> SourceTable:
        """Return a table.

        Raises:
            NotFoundError: there is no such table.
            UnsupportedError: it is a view.
        """
        ...

    def list_sources(self, database: str) -> list[str]:
        """Return the names of the tables of a database, sorted.

        Raises:
            NotFoundError: there is no such database.
        """
        ...

    def drop_source(self, name: str) -> None:
        """Drop a table."""
        ...


@dataclass(frozen=True, slots=True)
class MigratePlan:
    """The files that become those of the target: each with its partition in serialized form."""

    source: SourceTable
    source_io: FileIO
    target: Table
    exists: bool
    files: tuple[tuple[bytes, FileCopy], ...] = ()
    drops: bool = False

    @property
    def actions(self) -> tuple[Action, ...]:
        """Return one action for the schema, for each file, and for the drop of the source."""
        schema, paths = self.target.schema, self.target.paths
        created = Action(WRITE, paths.schema(schema.id), len(schema.to_json().encode()), "the table is created")
        files = (Action(WRITE, f.new_path, f.size, f"the file {f.path}") for _, f in self.files)
        dropped = Action(DROP, self.source.location, 0, f"{self.source.name} is dropped once its files are migrated")
        return (*(() if self.exists else (created,)), *files, *((dropped,) if self.drops else ()))


@dataclass(frozen=True, slots=True)
class MigrateResult:
    """The snapshot, if one was committed, and what it added."""

    snapshot_id: int | None = None
    files: int = 0
    bytes: int = 0
    rows: int = 0


def migrated_schema(source: SourceTable, options: Mapping[str, str], now_millis: int) -> TableSchema:
    """Return the schema of the table that a source becomes.

    Raises:
        UnsupportedError: the format of the source, or a column, is not supported.
        OptionError: an option is wrong, or the table would have a primary key or buckets.
    """
    _check_format(source)
    given = {"bucket": "-1", "file.format": source.format} | dict(options)
    return new_schema(
        source.fields,
        partition_keys=source.partition_keys,
        options=given,
        comment=source.comment,
        now_millis=now_millis,
    )


@translate_io_errors()
def plan_migrate(source: SourceTable, source_io: FileIO, target: Table, *, exists: bool, drops: bool) -> MigratePlan:
    """Plan a migration; nothing is changed.

    Args:
        source: the table to migrate.
        source_io: the store of its files.
        target: the table that the files are added to.
        exists: whether the target exists.
        drops: drop the source at the end.

    Raises:
        UnsupportedError: the format of the source is not supported, or files are outside of its directory.
        UsageError: the target has other columns, a primary key or buckets.
    """
    _check_format(source)
    check_writable(target.effective_schema)
    if target.is_primary_key_table or target.bucket_mode is not BucketMode.BUCKET_UNAWARE:
        raise UsageError(
            f"Table {source.name} cannot be migrated into {target.name}, which has a primary key or buckets.",
            hint="Migrate into a table without both ('bucket' = '-1'), or use INSERT INTO … SELECT.",
        )
    if exists:
        _check_columns(source, target)
    present = set(
        _origins(live_in_partitions(ManifestStore(target), target.snapshots.latest(), None)) if exists else ()
    )
    found = [(_partition(source, target, path), path) for path in source.files]
    sizes = in_parallel(lambda item: source_io.status(item[1]).size, found)
    files = []
    for (partition, path), size in zip(found, sizes, strict=True):
        origin = str(uuid.uuid5(uuid.NAMESPACE_URL, path))
        name = f"{target.options.data_file_prefix}{origin}-{uuid.uuid4().hex}-0.{source.format}"
        if size and (origin, size) not in present:
            files.append((partition, FileCopy(path, f"{target.paths.bucket_dir(partition, 0)}/{name}", size)))
    return MigratePlan(source, source_io, target, exists, tuple(files), drops)


def _origins(entries: Iterable[ManifestEntry]) -> Iterator[tuple[str, int]]:
    """Yield what identifies the files of earlier migrations: the UUIDs of their former paths, and their sizes."""
    for e in entries:
        if found := _ORIGIN.search(e.file.file_name):
            yield found[0], e.file.file_size


def _check_format(source: SourceTable) -> None:
    if source.format not in FORMATS:
        raise UnsupportedError(
            f"Table {source.name} has files of the format '{source.format}'; only {' and '.join(FORMATS)} can be "
            "migrated.",
            hint="Use CREATE TABLE … AS SELECT, which rewrites the rows.",
        )


def _check_columns(source: SourceTable, target: Table) -> None:
    def shape(fields: Sequence[DataField]) -> list[tuple[str, object]]:
        return [(f.name, _without_ids(type_to_json(not_null(f.type)))) for f in fields]

    same = shape(source.fields) == shape(target.schema.fields)
    if same and source.partition_keys == target.schema.partition_keys:
        return
    raise UsageError(
        f"Table {source.name} cannot be migrated into {target.name}: their columns or partition columns differ.",
        hint="Choose another target, or use INSERT INTO … SELECT.",
    )


def _without_ids(value: Any) -> Any:
    """Return the JSON of a type without the ids of nested fields."""
    if isinstance(value, dict):
        return {k: _without_ids(v) for k, v in value.items() if k != "id"}
    return [_without_ids(v) for v in value] if isinstance(value, list) else value


def _partition(source: SourceTable, target: Table, path: str) -> bytes:
    """Return the partition of a file, by the directories `k=v` between it and the table's directory."""
    root = source.location.rstrip("/") + "/"
    directories = path.removeprefix(root).split("/")[:-1]
    pairs = dict(d.split("=", 1) for d in directories if "=" in d)
    if not path.startswith(root) or tuple(pairs) != source.partition_keys:
        raise UnsupportedError(
            f"Table {source.name} has the file {path}, which does not match the values of its partition columns.",
            hint="Partitions at other locations cannot be migrated; use CREATE TABLE … AS SELECT.",
        )
    texts = [unquote(pairs[k]) for k in source.partition_keys]
    types = target.partition_types
    values = [None if t == _NULL_PARTITION else parse_value(t, kind) for t, kind in zip(texts, types, strict=True)]
    return encode_row(values, types)


@translate_io_errors()
def inspect_files(plan: MigratePlan, runner: TaskRunner, parallelism: int | None) -> dict[str, int]:
    """Check that the files can become those of the target; return the number of rows of each, by its path.

    Raises:
        UnsupportedError: a file has a column that the target lacks or has with another type, or an older calendar.
        CorruptTableError: a file is damaged.
    """
    source, what = plan.source, f"check {plan.source.name}: {len(plan.files)} files"
    payloads = [
        inspect_payload(plan.source_io, source.format, [f.path for f in share], plan.target.schema)
        for share in _shares(plan, parallelism)
    ]
    rows: dict[str, int] = {}
    for result in runner.run("inspect", payloads, description=what):
        rows |= inspected_rows(result)
    return rows


@translate_io_errors()
def execute_migrate(
    plan: MigratePlan, target: Table, runner: TaskRunner, parallelism: int | None, rows: Mapping[str, int]
) -> MigrateResult:
    """Link or copy the files that have rows, and add them to the target with one commit.

    Args:
        plan: the files.
        target: the table that the files are added to.
        runner: links or copies them.
        parallelism: the number of tasks.
        rows: the result of `inspect_files`.

    Raises:
        ConflictError: every attempt conflicted with another commit.
    """
    plan = replace(plan, files=tuple((partition, f) for partition, f in plan.files if rows[f.path]))
    if not plan.files:
        return MigrateResult()
    target.require(Privilege.INSERT)
    paths = [f.new_path for _, f in plan.files]
    try:
        _adopt(plan, target, runner, parallelism)
    except BaseException:
        delete_best_effort(target.file_io, paths)
        raise
    entries = [_entry(target, partition, f, rows[f.path]) for partition, f in plan.files]
    missing = _Missing(entries)
    try:
        done = FileStoreCommit(target).commit_plan(
            missing.change, CommitKind.APPEND, CommitMetadata(operation=Operation.WRITE)
        )
    except OutcomeUnknownError:
        raise
    except PaimonError:  # an interrupt may come after the snapshot was published
        delete_best_effort(target.file_io, paths)
        raise
    delete_best_effort(target.file_io, [path for path in paths if _name(path) in missing.repeats])
    added = [e.file for e in entries if e.file.file_name not in missing.repeats]
    snapshot_id = done.snapshot_ids[-1] if isinstance(done, Committed) else None
    return MigrateResult(snapshot_id, len(added), sum(f.file_size for f in added), sum(f.row_count for f in added))


def _adopt(plan: MigratePlan, target: Table, runner: TaskRunner, parallelism: int | None) -> None:
    shares = _shares(plan, parallelism)
    payloads = [adopt_payload(plan.source_io, target.file_io, share, target.path) for share in shares]
    for _ in runner.run("adopt", payloads, description=f"migrate {plan.source.name}: {len(plan.files)} files"):
        pass


def _shares(plan: MigratePlan, parallelism: int | None) -> list[list[FileCopy]]:
    """Return the files of each task."""
    files = [f for _, f in plan.files]
    count = parallelism or min(-(-len(files) // _FILES_A_TASK), _MOST_TASKS)
    return [share for n in range(count) if (share := files[n::count])]


def _entry(target: Table, partition: bytes, file: FileCopy, rows: int) -> ManifestEntry:
    meta = DataFileMeta(
        file_name=_name(file.new_path),
        file_size=file.size,
        row_count=rows,
        value_stats=EMPTY_STATS,
        value_stats_cols=(),
        min_sequence_number=0,
        max_sequence_number=0,
        schema_id=target.schema.id,
        level=0,
        creation_time=wall_clock_millis(int(time.time() * 1000)),
        delete_row_count=0,
        file_source=FileSource.APPEND,
    )
    return ManifestEntry(FileKind.ADD, partition, 0, target.options.bucket, meta)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


class _Missing:
    """The change that adds files, except those that another migration has added meanwhile.

    Args:
        entries: the files.

    Attributes:
        repeats: the names of the files that the last change skipped.
    """

    def __init__(self, entries: Sequence[ManifestEntry]) -> None:
        self._entries = entries
        self._partitions = {e.partition for e in entries}
        self.repeats: frozenset[str] = frozenset()

    def change(self, store: ManifestStore, base: Snapshot | None) -> Change:
        """Return the change of a commit upon `base`."""
        live = live_in_partitions(store, base, self._partitions)
        present = set(_origins(live))
        missing = tuple(e for e in self._entries if present.isdisjoint(_origins([e])))
        used = {e.file.file_name for e in (*missing, *live)}
        self.repeats = frozenset(e.file.file_name for e in self._entries) - used
        return Change(kind=CommitKind.APPEND, entries=missing)


def drop_migrated(plan: MigratePlan, sources: SourceTables, name: str) -> None:
    """Drop the source, unless its files have changed since planning.

    Raises:
        ConflictError: they have; the source is kept.
    """
    if set(sources.describe_source(name).files) != set(plan.source.files):
        raise ConflictError(
            f"Table {plan.source.name} changed while it was being migrated to {plan.target.name}; it was not dropped.",
            hint="The files that it had are migrated. Stop its writers, then run the statement again for the others.",
        )
    sources.drop_source(name)
