"""The kinds of tasks that runners carry to workers: JSON text in, JSON text out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from paimon_spark.core.compact.rewrite import CompactTask, compact_bucket
from paimon_spark.core.messages import messages_to_json
from paimon_spark.core.orphans import Candidate, Listing, Place, list_old
from paimon_spark.core.stored import store_errors
from paimon_spark.core.table import Table, table_of_task
from paimon_spark.errors import ArgumentError, PaimonError
from paimon_spark.fs.base import FileIO
from paimon_spark.fs.resolve import file_io_from_config


@store_errors()
def run_task(kind: str, payload: str) -> str:
    """Run one task.

    Raises:
        ArgumentError: there is no task of this kind.
    """
    task = TASKS.get(kind)
    if task is None:
        raise ArgumentError(f"There is no task called '{kind}'.", hint=f"Kinds are {', '.join(sorted(TASKS))}.")
    return task(payload)


def compact_payload(table: Table, task: CompactTask) -> str:
    """Return the payload of a compaction task; its result is a JSON list of commit messages."""
    return json.dumps({"table": table.to_config(), "task": task.to_plain()}, separators=(",", ":"))


def guarded_payload(number: int, payload: str) -> str:
    """Return the payload of a compaction task among those of many tables, whose failure is an answer like any other."""
    return f"{number} {payload}"


@dataclass(frozen=True, slots=True)
class GuardedAnswer:
    """What came of one of many tasks: the answer, or else the error in words."""

    number: int
    answer: str = ""
    error: str | None = None

    @classmethod
    def of(cls, result: str) -> GuardedAnswer:
        """Read the result of a guarded task."""
        raw = json.loads(result)
        return cls(raw["number"], raw.get("answer", ""), raw.get("error"))


def _compact_guarded(payload: str) -> str:
    number, _, inner = payload.partition(" ")
    try:
        return json.dumps({"number": int(number), "answer": _compact(inner)})
    except Exception as error:  # noqa: BLE001 - told in the answer: the tasks of other tables go on
        text = str(error) if isinstance(error, PaimonError) else f"{type(error).__name__}: {error}"
        return json.dumps({"number": int(number), "error": text})


def _compact(payload: str) -> str:
    raw = json.loads(payload)
    table = table_of_task(raw["table"])
    return messages_to_json([compact_bucket(table, CompactTask.from_plain(raw["task"]))])


def listing_payload(file_io: FileIO, older_than: int, found: Sequence[tuple[int, Place]]) -> str:
    """Return the payload of a task that lists places, each with the number of its table; see `listings`."""
    return json.dumps(
        {
            "file_io": dict(file_io.to_config()),
            "older_than": older_than,
            "places": [[number, *place.to_plain()] for number, place in found],
        },
        separators=(",", ":"),
    )


def listings(result: str) -> Iterator[tuple[int, Listing]]:
    """Yield what a listing task found, with the number of the table."""
    for number, directories, files in json.loads(result):
        found = [Candidate(f"{d}/{name}", size, bool(needed)) for d, needed, names in files for name, size in names]
        yield number, Listing(found, directories)


def _list_old(payload: str) -> str:
    raw = json.loads(payload)
    file_io = file_io_from_config(raw["file_io"])
    answer = []
    for number, *plain in raw["places"]:
        found = list_old(file_io, [Place.from_plain(plain)], raw["older_than"])
        files: dict[tuple[str, bool], list[tuple[str, int]]] = {}
        for c in found.files:
            directory, _, name = c.path.rpartition("/")
            files.setdefault((directory, c.needed), []).append((name, c.size))
        answer.append([number, found.directories, [[d, int(needed), names] for (d, needed), names in files.items()]])
    return json.dumps(answer, separators=(",", ":"))


TASKS: dict[str, Callable[[str], str]] = {
    "compact": _compact,
    "compact_guarded": _compact_guarded,
    "list_old": _list_old,
}
