"""The kinds of tasks that runners execute: JSON text in, JSON text out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from paimon_spark.core.bin_packing import task_cost
from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.commit_message import CommitMessage, messages_to_json
from paimon_spark.core.compact.rewrite import CompactTask, compact_bucket
from paimon_spark.core.maintenance.orphans import Candidate, Directory, Listing, list_old
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.table import Table, table_of_task
from paimon_spark.errors import ArgumentError, PaimonError
from paimon_spark.fs.base import FileIO
from paimon_spark.fs.resolve import file_io_from_config


@translate_io_errors()
def run_task(kind: str, payload: str) -> str:
    """Run one task.

    Raises:
        ArgumentError: the kind of task is unknown.
    """
    task = TASKS.get(kind)
    if task is None:
        raise ArgumentError(f"There is no task called '{kind}'.", hint=f"Kinds are {', '.join(sorted(TASKS))}.")
    return task(payload)


def compact_work(task: CompactTask) -> int:
    """Return the estimated work of compacting a bucket."""
    return task_cost(task.bytes_in, len(task.files))


def compact_payload(table: Table, tasks: Sequence[CompactTask]) -> str:
    """Return the payload of a task that compacts buckets; its result is a JSON list of a message per bucket."""
    return _json({"table": table.to_config(), "tasks": [t.to_plain() for t in tasks]})


def task_payload(units: Iterable[tuple[int, Table, CompactTask]]) -> str:
    """Return the payload of a task that compacts buckets of several tables, each with the number of its owner.

    Failures of one owner are part of the result.
    """
    owners = ((n, list(found)) for n, found in groupby(units, itemgetter(0)))
    return _json([[n, len(found), compact_payload(found[0][1], [t for *_, t in found])] for n, found in owners])


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
        """Parse the result of a guarded task."""
        return [cls(**raw) for raw in json.loads(result)]


def _compact_guarded(payload: str) -> str:
    answers = []
    for number, units, inner in json.loads(payload):
        try:
            came = {"answer": _compact(inner)}
        except Exception as error:  # noqa: BLE001 - returned in the result: buckets of other tables continue
            came = {"error": str(error) if isinstance(error, PaimonError) else f"{type(error).__name__}: {error}"}
        answers.append({"number": number, "units": units, **came})
    return _json(answers)


def _compact(payload: str) -> str:
    raw = json.loads(payload)
    table = table_of_task(raw["table"])
    done: list[CommitMessage] = []
    try:
        for plain in raw["tasks"]:
            task = CompactTask.from_plain(plain)
            done.append(compact_bucket(table, task))
    except BaseException:
        FileStoreCommit(table).abort(done)
        raise
    return messages_to_json(done)


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


TASKS: dict[str, Callable[[str], str]] = {
    "compact": _compact,
    "compact_guarded": _compact_guarded,
    "list_old": _list_old,
}
