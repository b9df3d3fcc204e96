"""Maintenance after a commit: automatic tags, and expiry of tags, partitions, idle consumers, snapshots and changelogs.

Failures never affect the commit; they are logged as warnings.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from paimon_spark.core.metadata.refs import CONSUMER_PREFIX, RefStore
from paimon_spark.core.table import Table
from paimon_spark.engine.expiry.expire import ExpireConfig, ExpireResult, execute_expire, plan_expire
from paimon_spark.engine.expiry.expire_changelogs import execute_expire_changelogs, plan_expire_changelogs
from paimon_spark.engine.expiry.partition_expiry import expire_partitions_after_commit
from paimon_spark.engine.refs.automatic_tags import create_automatic_tags
from paimon_spark.engine.refs.tags import execute_delete_tags, expired_tags, plan_delete_tags

_T = TypeVar("_T")
_NONE: tuple[str, ...] = ()
_AFTER_COMMITS = ExpireConfig(exact=False, patient=True)


@dataclass(frozen=True, slots=True)
class Maintenance:
    """What was expired after a commit."""

    snapshots: ExpireResult = field(default_factory=ExpireResult)
    tags: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    consumers: tuple[str, ...] = ()
    changelogs: ExpireResult = field(default_factory=ExpireResult)
    warnings: tuple[str, ...] = ()


def maintain_after_commit(table: Table, clock: Callable[[], int] | None = None) -> Maintenance:
    """Create tags, then expire tags, partitions, consumers, snapshots and changelogs by the options of the table.

    Nothing is done for a write-only table.

    Args:
        table: the table at its latest schema.
        clock: returns the current epoch milliseconds.
    """
    if table.options.write_only:
        return Maintenance()
    now = clock() if clock is not None else time.time_ns() // 1_000_000
    warnings: list[str] = []
    _guarded(lambda: create_automatic_tags(table, now), _NONE, "creating tags", warnings)
    tags = _guarded(lambda: _expire_tags(table, now), _NONE, "expiring tags", warnings)
    partitions = _guarded(lambda: expire_partitions_after_commit(table, now), _NONE, "expiring partitions", warnings)
    consumers = _guarded(lambda: _expire_consumers(table, now), _NONE, "expiring consumers", warnings)
    snapshots = _guarded(lambda: _expire_snapshots(table, now), ExpireResult(), "expiring snapshots", warnings)
    changelogs = _guarded(lambda: _expire_changelogs(table, now), ExpireResult(), "expiring changelogs", warnings)
    return Maintenance(
        snapshots=snapshots,
        tags=tags,
        partitions=partitions,
        consumers=consumers,
        changelogs=changelogs,
        warnings=tuple(warnings),
    )


def _expire_snapshots(table: Table, now: int) -> ExpireResult:
    return execute_expire(table, plan_expire(table, _AFTER_COMMITS, now))


def _expire_changelogs(table: Table, now: int) -> ExpireResult:
    if not table.options.changelog_lifecycle_decoupled:
        return ExpireResult()
    return execute_expire_changelogs(table, plan_expire_changelogs(table, _AFTER_COMMITS, now))


def _expire_tags(table: Table, now: int) -> tuple[str, ...]:
    if not table.options.flag("tag.time-expire-enabled"):
        return ()
    names = expired_tags(table, now)
    if not names:
        return ()
    return execute_delete_tags(table, plan_delete_tags(table, names, exact=False)).names


def _expire_consumers(table: Table, now: int) -> tuple[str, ...]:
    keep_ms = table.options.consumer_expiration_time_ms
    if keep_ms is None:
        return ()
    idle = [f for f in RefStore.of(table).consumer_files() if f.mtime_ms < now - keep_ms]
    return tuple(f.name.removeprefix(CONSUMER_PREFIX) for f in idle if table.file_io.delete(f.path))


def _guarded(run: Callable[[], _T], nothing: _T, what: str, warnings: list[str]) -> _T:
    try:
        return run()
    except Exception as e:  # noqa: BLE001 - whatever it is, the commit must not look like a failed one
        warnings.append(f"The commit stands, but {what} of the table failed: {e}")
        return nothing
