"""Requests to end a job of another program: files of the table that its jobs look for between their batches.

A request is a file named after the job. The job marks the request as taken, ends, and deletes the file.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

from paimon_spark.core.cancellation import checkpoint, current_flag, uninterrupted
from paimon_spark.core.metadata_io import read_if_there, translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.errors import ArgumentError
from paimon_spark.spec.bounds import Long
from paimon_spark.spec.stored_json import json_object, read_as
from paimon_spark.spec.units import format_duration

POLL_SECONDS = 5.0
"""How often a job looks for requests."""
_LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """One request: the epoch milliseconds after which no job takes it, and whether a job has taken it."""

    until: Long
    taken: bool = False


@translate_io_errors()
def take_stop(table: Table, names: Iterable[str], clock_millis: int) -> bool:
    """Return whether a job is requested to end, and mark the request as taken.

    Args:
        table: the table that the job writes.
        names: the id of the job and its name, if it has one.
        clock_millis: the time, which decides whether a request is too old.
    """
    for path in map(table.paths.stream_stop, names):
        request = _request(table, path)
        if request is not None and not request.taken and request.until >= clock_millis:
            _write(table, path, replace(request, taken=True))
            return True
    return False


@translate_io_errors()
def finish_stop(table: Table, names: Iterable[str]) -> None:
    """Report that a job has ended, after `take_stop` has returned true."""
    for path in map(table.paths.stream_stop, names):
        table.file_io.delete(path)


@translate_io_errors()
def stop_job(table: Table, job: str, timeout_millis: int, clock_millis: int) -> None:
    """Request a job to end, and return when it has ended.

    Args:
        table: the table that the job writes.
        job: the id or name of the job.
        timeout_millis: how long to wait.
        clock_millis: the time.

    Raises:
        ArgumentError: no job has taken the request within the timeout, or it has taken it and has not ended.
        StatementCancelledError: the wait was cancelled.
    """
    path = table.paths.stream_stop(job)
    _write(table, path, StopRequest(until=clock_millis + timeout_millis))
    try:
        if _is_gone(table, path, timeout_millis / 1000):
            return
    except BaseException:
        with uninterrupted(), suppress(OSError):
            _withdraw(table, path)
        raise
    if _withdraw(table, path):
        raise ArgumentError(
            f"No job '{job}' that writes to table {table.name} has taken the request to end within "
            f"{format_duration(timeout_millis)}.",
            hint="SHOW JOBS in its program lists the ids and names of jobs. The id is also the commit_user of the "
            "snapshots of the job.",
        )
    raise ArgumentError(
        f"The job '{job}' of table {table.name} has taken the request to end, but still runs after "
        f"{format_duration(timeout_millis)}.",
        hint="It ends after its batch or compaction. Wait, or give a longer timeout.",
    )


def _write(table: Table, path: str, request: StopRequest) -> None:
    table.file_io.write(path, json.dumps(asdict(request)).encode())


def _request(table: Table, path: str) -> StopRequest | None:
    """Return a request; None if there is none, or if it is malformed."""
    data = read_if_there(table.file_io, path)
    if data is None:
        return None
    try:
        return read_as(StopRequest, json_object(data))
    except ValueError:
        return None


def _is_gone(table: Table, path: str, seconds: float) -> bool:
    """Wait until a request is gone; return whether it is."""
    deadline, flag = time.monotonic() + seconds, current_flag() or threading.Event()
    while table.file_io.exists(path):
        if time.monotonic() > deadline:
            return False
        flag.wait(_LOOK_SECONDS)
        checkpoint()
    return True


def _withdraw(table: Table, path: str) -> bool:
    """Delete a request that no job has taken; return whether none has."""
    request = _request(table, path)
    if request is not None and request.taken:
        return False
    table.file_io.delete(path)
    return True
