"""The kinds of tasks that runners execute: JSON text in, JSON text out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa

from paimon_spark.core.bin_packing import task_cost
from paimon_spark.core.cancellation import checkpoint
from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.commit_message import CommitMessage, messages_from_json, messages_to_json
from paimon_spark.core.compact.file_indexes import IndexRewriter, IndexTask
from paimon_spark.core.compact.global_indexes import GlobalIndexBuilder, GlobalIndexTask, GlobalIndexWork
from paimon_spark.core.compact.rewrite import compact_bucket
from paimon_spark.core.compact.task import CompactTask
from paimon_spark.core.maintenance.file_verification import (
    Fault,
    FileCheck,
    VectorCheck,
    check_data_files,
    check_vectors,
)
from paimon_spark.core.maintenance.orphans import Candidate, Directory, Listing, list_old
from paimon_spark.core.messages import MessageCodec
from paimon_spark.core.metadata_io import delete_best_effort, translate_io_errors
from paimon_spark.core.table import Table, table_of_task
from paimon_spark.errors import ArgumentError, CorruptTableError, PaimonError, UnsupportedError
from paimon_spark.format.stored_types import is_read_as, stored_file, stored_text
from paimon_spark.fs.base import FileIO
from paimon_spark.fs.copying import copy_file, link_or_copy, sync_below
from paimon_spark.fs.resolve import file_io_from_config
from paimon_spark.spec.bounds import Long
from paimon_spark.spec.schema import TableSchema, parse_schema
from paimon_spark.spec.types import type_text


@translate_io_errors()
def run_task(kind: str, payload: str) -> str:
    """Run one task.

    Raises:
        ArgumentError: the kind of task is unknown.
    """
    task = TASKS.get(kind)
    if task is None:
        raise ArgumentError(f"'{kind}' is not a task.", hint=f"Kinds are {', '.join(sorted(TASKS))}.")
    return task(payload)


def compact_work(task: CompactTask) -> int:
    """Return the estimated work of compacting a bucket."""
    return task_cost(task.bytes_in, len(task.files))


@dataclass(frozen=True, slots=True)
class _Compaction:
    """Buckets of one table to compact; `table` is its serialized configuration."""

    table: str
    tasks: tuple[CompactTask, ...]


_COMPACTION = MessageCodec[_Compaction](_Compaction, "task of compaction")
_SHARES = MessageCodec[list[tuple[int, int, str]]](list[tuple[int, int, str]], "list of payloads")


def compact_payload(table: Table, tasks: Sequence[CompactTask]) -> str:
    """Return the payload of a task that compacts buckets; its result is a JSON list of a commit message for each."""
    return _COMPACTION.encode(_Compaction(table.to_config(), tuple(tasks)))


def task_payload(units: Iterable[tuple[int, Table, CompactTask]]) -> str:
    """Return the payload of a task that compacts buckets of several tables, each with the number of its owner.

    Failures of one owner are part of the result.
    """
    owners = ((number, list(found)) for number, found in groupby(units, itemgetter(0)))
    return _SHARES.encode([(n, len(of), compact_payload(of[0][1], [task for *_, task in of])) for n, of in owners])


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The outcome of some units of one owner: a result or an error text."""

    number: int
    units: int
    answer: str = ""
    error: str | None = None

    @classmethod
    def all_of(cls, result: str) -> list[TaskOutcome]:
        """Read the result of a guarded task."""
        return _OUTCOMES.decode(result)


_OUTCOMES = MessageCodec[list[TaskOutcome]](list[TaskOutcome], "list of outcomes")


def _compact_guarded(payload: str) -> str:
    outcomes = []
    for number, units, inner in _SHARES.decode(payload):
        try:
            outcomes.append(TaskOutcome(number, units, _compact(inner)))
        except Exception as error:  # noqa: BLE001 - reported in the result: the buckets of other tables continue
            message = str(error) if isinstance(error, PaimonError) else f"{type(error).__name__}: {error}"
            outcomes.append(TaskOutcome(number, units, error=message))
    return _OUTCOMES.encode(outcomes)


def _compact(payload: str) -> str:
    work = _COMPACTION.decode(payload)
    table = table_of_task(work.table)
    done: list[CommitMessage] = []
    try:
        for task in work.tasks:
            message = compact_bucket(table, task)
            done.append(message)
    except BaseException:
        FileStoreCommit(table).abort(done)
        raise
    return messages_to_json(done)


@dataclass(frozen=True, slots=True)
class _Indexing:
    """Files of one table whose indexes are rewritten; `table` is its serialized configuration."""

    table: str
    tasks: tuple[IndexTask, ...]


@dataclass(frozen=True, slots=True)
class _Indexed:
    """The commit messages of a task as a text, and the size of the written indexes in bytes."""

    messages: str
    written: Long


_INDEXING = MessageCodec[_Indexing](_Indexing, "task of indexing")
_INDEXED = MessageCodec[_Indexed](_Indexed, "result of indexing")


def index_payload(table: Table, tasks: Sequence[IndexTask]) -> str:
    """Return the payload of a task that rewrites file indexes, whose result `index_result` reads."""
    return _INDEXING.encode(_Indexing(table.to_config(), tuple(tasks)))


def index_result(text: str) -> tuple[list[CommitMessage], int]:
    """Return the commit messages of a task that rewrote file indexes, and the size of the indexes in bytes."""
    found = _INDEXED.decode(text)
    return messages_from_json(found.messages), found.written


def _index(payload: str) -> str:
    work = _INDEXING.decode(payload)
    table = table_of_task(work.table)
    rewriter = IndexRewriter(table)
    done: list[CommitMessage] = []
    try:
        for task in work.tasks:
            message = rewriter.rewrite(task)
            if message is not None:
                done.append(message)
    except BaseException:
        FileStoreCommit(table).abort(done)
        raise
    return _INDEXED.encode(_Indexed(messages_to_json(done), rewriter.written_bytes))


@dataclass(frozen=True, slots=True)
class _GlobalIndexing:
    """Row ranges of one table to build a global index of; `table` is its serialized configuration."""

    table: str
    work: GlobalIndexWork
    tasks: tuple[GlobalIndexTask, ...]


_GLOBAL_INDEXING = MessageCodec[_GlobalIndexing](_GlobalIndexing, "task of a global index")


def global_index_payload(table: Table, work: GlobalIndexWork, tasks: Sequence[GlobalIndexTask]) -> str:
    """Return the payload of a task that builds parts of a global index; its result is a JSON list of messages."""
    return _GLOBAL_INDEXING.encode(_GlobalIndexing(table.to_config(), work, tuple(tasks)))


def _global_index(payload: str) -> str:
    todo = _GLOBAL_INDEXING.decode(payload)
    table = table_of_task(todo.table)
    builder = GlobalIndexBuilder(table, todo.work)
    try:
        return messages_to_json(builder.build(task) for task in todo.tasks)
    except BaseException:
        delete_best_effort(table.file_io, builder.written)
        raise


def listing_payload(file_io: FileIO, older_than: int, found: Sequence[tuple[int, Directory]]) -> str:
    """Return the payload of a task that lists directories, each with its table number; see `listings`."""
    return _json(
        {
            "file_io": dict(file_io.to_config()),
            "older_than": older_than,
            "directories": [[number, *directory.to_plain()] for number, directory in found],
        }
    )


def listings(result: str) -> Iterator[tuple[int, Listing]]:
    """Yield the table number and the listing of each result of a listing task."""
    for number, directories, files in json.loads(result):
        found = [Candidate(f"{d}/{name}", size, bool(needed)) for d, needed, names in files for name, size in names]
        yield number, Listing(found, directories)


def _list_old(payload: str) -> str:
    raw = json.loads(payload)
    file_io = file_io_from_config(raw["file_io"])
    answer = []
    for number, *plain in raw["directories"]:
        found = list_old(file_io, [Directory.from_plain(plain)], raw["older_than"])
        files: dict[tuple[str, bool], list[tuple[str, int]]] = {}
        for c in found.files:
            directory, _, name = c.path.rpartition("/")
            files.setdefault((directory, c.needed), []).append((name, c.size))
        answer.append([number, found.directories, [[d, int(needed), names] for (d, needed), names in files.items()]])
    return _json(answer)


@dataclass(frozen=True, slots=True)
class FileCopy:
    """A file to copy: its path, the path of the copy, and its size."""

    path: str
    new_path: str
    size: Long


@dataclass(frozen=True, slots=True)
class _Copying:
    """Files to copy, and the configurations of their stores."""

    source: dict[str, str]
    target: dict[str, str]
    files: tuple[FileCopy, ...]


_COPYING = MessageCodec[_Copying](_Copying, "task of copying")


def copy_payload(source: FileIO, target: FileIO, files: Sequence[FileCopy]) -> str:
    """Return the payload of a task that copies files from one store to another; its result is their size."""
    return _COPYING.encode(_Copying(dict(source.to_config()), dict(target.to_config()), tuple(files)))


def _copy(payload: str) -> str:
    work = _COPYING.decode(payload)
    source, target = file_io_from_config(work.source), file_io_from_config(work.target)
    copied = 0
    for file in work.files:
        checkpoint()
        size = copy_file(source, file.path, target, file.new_path)
        if size != file.size:
            raise CorruptTableError(
                f"The file {file.path} has {size} bytes; the table's metadata records {file.size}.",
                hint="Restore the file from a backup, or roll the table back to a snapshot that does not need it.",
            )
        copied += size
    return _json(copied)


@dataclass(frozen=True, slots=True)
class _Inspection:
    """Files of another table to check: their store, format and paths, and the schema of the target table."""

    source: dict[str, str]
    format: str
    paths: tuple[str, ...]
    schema: str


_INSPECTION = MessageCodec[_Inspection](_Inspection, "task of checking")
_COUNTS = MessageCodec[dict[str, int]](dict[str, int], "numbers of rows")


def inspect_payload(source: FileIO, file_format: str, paths: Sequence[str], schema: TableSchema) -> str:
    """Return the payload of a task that checks files of another table; `inspected_rows` reads its result."""
    return _INSPECTION.encode(_Inspection(dict(source.to_config()), file_format, tuple(paths), schema.to_json()))


def inspected_rows(result: str) -> dict[str, int]:
    """Return the number of rows of each file that a task has checked, by its path."""
    return _COUNTS.decode(result)


def _inspect(payload: str) -> str:
    """Check that files can become those of a table, and count their rows."""
    work = _INSPECTION.decode(payload)
    source, schema = file_io_from_config(work.source), parse_schema(work.schema, "of the table")
    rows: dict[str, int] = {}
    for path in work.paths:
        checkpoint()
        found = stored_file(source, path, work.format)
        if found.hybrid_calendar:
            raise UnsupportedError(
                f"The file {path} has dates or times in the hybrid Julian and Gregorian calendar.",
                hint="Use CREATE TABLE … AS SELECT, with which Spark converts them.",
            )
        _check_columns(path, found.schema, schema, work.format)
        rows[path] = found.rows
    return _COUNTS.encode(rows)


def _check_columns(path: str, found: pa.Schema, schema: TableSchema, file_format: str) -> None:
    """Reject a file whose columns have other names, which would be read as nulls, or other types."""
    types = {f.name: f.type for f in schema.fields}
    for column in found:
        if column.name not in types:
            raise UnsupportedError(
                f"The file {path} has the column '{column.name}'; the columns of the table are {', '.join(types)}.",
                hint="Use CREATE TABLE … AS SELECT: columns are found by their exact names only.",
            )
        if not is_read_as(column.type, types[column.name], file_format):
            raise UnsupportedError(
                f"The file {path} stores the column '{column.name}' as {stored_text(column.type)}, which is not read "
                f"as {type_text(types[column.name])}.",
                hint="Use CREATE TABLE … AS SELECT, with which Spark converts the values.",
            )


@dataclass(frozen=True, slots=True)
class _Adoption:
    """Files to link or copy, as a payload of `copy_payload`, and the directory of the target table."""

    files: str
    table: str


_ADOPTION = MessageCodec[_Adoption](_Adoption, "task of migration")


def adopt_payload(source: FileIO, target: FileIO, files: Sequence[FileCopy], table: str) -> str:
    """Return the payload of a task that links or copies files of another table; its result is their number."""
    return _ADOPTION.encode(_Adoption(copy_payload(source, target, files), table))


def _adopt(payload: str) -> str:
    """Link or copy files of another table durably, because that table may be dropped."""
    adoption = _ADOPTION.decode(payload)
    work = _COPYING.decode(adoption.files)
    source, target = file_io_from_config(work.source), file_io_from_config(work.target)
    for file in work.files:
        checkpoint()
        link_or_copy(source, file.path, target, file.new_path)
    sync_below(target, adoption.table, [file.new_path for file in work.files])
    return _json(len(work.files))


@dataclass(frozen=True, slots=True)
class _Verification:
    """Files of one table to check; `table` is its serialized configuration."""

    table: str
    depth: str
    files: tuple[FileCheck, ...]
    vectors: tuple[VectorCheck, ...]


_VERIFICATION = MessageCodec[_Verification](_Verification, "task of verification")
_FAULTS = MessageCodec[list[Fault]](list[Fault], "list of faults")


def verify_payload(table: Table, depth: str, files: Sequence[FileCheck], vectors: Sequence[VectorCheck]) -> str:
    """Return the payload of a task that checks files; `verified_faults` reads its result."""
    return _VERIFICATION.encode(_Verification(table.to_config(), depth, tuple(files), tuple(vectors)))


def verified_faults(result: str) -> list[Fault]:
    """Return the faults that a task has found."""
    return _FAULTS.decode(result)


def _verify(payload: str) -> str:
    work = _VERIFICATION.decode(payload)
    table = table_of_task(work.table)
    faults = [*check_data_files(table, work.files, decode=work.depth == "data"), *check_vectors(table, work.vectors)]
    return _FAULTS.encode(faults)


TASKS: dict[str, Callable[[str], str]] = {
    "adopt": _adopt,
    "compact": _compact,
    "copy": _copy,
    "compact_guarded": _compact_guarded,
    "global_index": _global_index,
    "index": _index,
    "inspect": _inspect,
    "list_old": _list_old,
    "verify": _verify,
}
