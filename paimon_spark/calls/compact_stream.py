"""A compaction that is repeated while a table is written: the job of a session, or a loop without Spark."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from paimon_spark.calls.context import CallContext
from paimon_spark.calls.run import CallResult, run_named
from paimon_spark.core.table import Table
from paimon_spark.engine.post_commit import maintain_after_commit
from paimon_spark.engine.streaming.stop import POLL_SECONDS, finish_stop, take_stop
from paimon_spark.errors import ConflictError

DEFAULT_INTERVAL_MILLIS = 10_000
_ATTEMPTS = 5
_log = logging.getLogger(__name__)


def job_name(table: str) -> str:
    """Return the name of the job that compacts a table with this full name."""
    return f"compact_{table}"


def position(ctx: CallContext, values: Mapping[str, Any]) -> int:
    """Return a number that changes when there may be something to compact by the arguments of a `compact` CALL.

    It is the newest snapshot, 0 if there is none. With `partition_idle_time` it is the time: partitions become idle
    without a snapshot.
    """
    if values.get("partition_idle_time"):
        return ctx.clock_millis()
    return ctx.table(values["table"]).snapshots.latest_id() or 0


def compact_once(ctx: CallContext, values: Mapping[str, Any]) -> CallResult | None:
    """Compact by the arguments of a `compact` CALL, then run the table's maintenance, as after each commit.

    After a conflict with another commit, the compaction is planned again, a limited number of times.

    Returns:
        The result of the CALL; None if every attempt had a conflict.

    Raises:
        PaimonError: the compaction failed.
    """
    for _ in range(_ATTEMPTS):
        try:
            result = run_named("compact", values, ctx)
        except ConflictError as e:
            _log.info("The compaction of %s is planned again after a conflicting commit: %s", values["table"], e)
            continue
        if result.changed_tables:
            _maintain(ctx, values["table"])
        return result
    _log.warning("The compaction of %s had %d conflicts; it is tried again later.", values["table"], _ATTEMPTS)
    return None


def compact_stream(
    ctx: CallContext,
    values: Mapping[str, Any],
    stop: threading.Event,
    *,
    interval_millis: int = DEFAULT_INTERVAL_MILLIS,
    on_result: Callable[[CallResult], None] | None = None,
) -> None:
    """Compact a table at each new snapshot until `stop` is set, or `CALL sys.stop` ends it; this call blocks.

    With `partition_idle_time`, it compacts at each interval.

    Args:
        ctx: the context of the CALLs.
        values: the arguments of `compact`, by name; `compact_strategy` is `minor` if they lack it.
        stop: ends the loop after the compaction that runs.
        interval_millis: how often to look for a snapshot.
        on_result: called with the result of each compaction.

    Raises:
        PaimonError: a compaction failed.
    """
    given = {"compact_strategy": "minor", **values}
    seen = -1
    table = ctx.table(values["table"])
    names = (job_name(table.name),)
    while not stop.is_set():
        newest = position(ctx, given)
        if newest != seen:
            result = compact_once(ctx, given)
            if result is not None:
                seen = newest
                if on_result is not None:
                    on_result(result)
        if _requested(ctx, table, names, stop, interval_millis / 1000):
            finish_stop(table, names)
            return


def _requested(ctx: CallContext, table: Table, names: tuple[str, ...], stop: threading.Event, seconds: float) -> bool:
    """Wait for some seconds, or until the loop has to end; return whether another program has requested that."""
    deadline = time.monotonic() + seconds
    while not take_stop(table, names, ctx.clock_millis()):
        left = deadline - time.monotonic()
        if left <= 0 or stop.wait(min(left, POLL_SECONDS)):
            return False
    return True


def _maintain(ctx: CallContext, table: str) -> None:
    for warning in maintain_after_commit(ctx.table(table, {"write-only": "false"})).warnings:
        _log.warning("%s: %s", table, warning)
