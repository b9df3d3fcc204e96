"""Expiry of partitions: those that are too old are dropped by one commit (docs/spec/semantics.md, section 14)."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from paimon_spark.core.commit.change_set import Change, overwrite_part
from paimon_spark.core.commit.commit_retry import Planner
from paimon_spark.core.commit.committer import Committed, FileStoreCommit
from paimon_spark.core.maintenance.deletion import Action
from paimon_spark.core.metadata.branches import on_branch
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.core.table import Table
from paimon_spark.core.write.rolling import wall_clock_millis
from paimon_spark.engine.expiry.chain_expiry import expired_segments
from paimon_spark.errors import ArgumentError, OptionError
from paimon_spark.spec.chain_tables import ChainOrder, chain_branches
from paimon_spark.spec.features import check_writable
from paimon_spark.spec.kinds import CommitKind
from paimon_spark.spec.manifest import ManifestEntry
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.partition_times import partition_time
from paimon_spark.spec.paths import partition_text
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.time_texts import clock_text

DROP = "drop partition"
_last_checks: dict[tuple[str, str], float] = {}
"""When the partitions of a branch were last checked after a commit, by table and branch, in monotonic seconds."""


class Strategy(StrEnum):
    """What determines the age of a partition: the time of its values, or that of its newest file."""

    VALUES_TIME = "values-time"
    UPDATE_TIME = "update-time"


class _Partition(NamedTuple):
    """A partition, and its size."""

    partition: bytes
    newest_file: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class PartitionExpiryPlan:
    """The partitions to drop, oldest first by their values.

    Attributes:
        table: the table.
        partitions: the partitions in serialized form, each with the creation time of its newest file.
        actions: one action a partition.
        unparsed: number of partitions whose values cannot be parsed as a time; they do not expire.
        files: number of data files of the partitions.
        following: the partitions to drop of the snapshot branch of a chain table, after those of its delta branch.
    """

    table: Table
    partitions: Mapping[bytes, int]
    actions: tuple[Action, ...] = ()
    unparsed: int = 0
    files: int = 0
    following: PartitionExpiryPlan | None = None

    @property
    def last(self) -> PartitionExpiryPlan:
        """Return the plan of the branch that changes last."""
        return self if self.following is None else self.following

    @property
    def texts(self) -> list[str]:
        """Return the partitions of all branches, as ``k=v/k2=v2``."""
        own = [self.table.partition_text(p) for p in self.partitions]
        return own if self.following is None else own + self.following.texts


@translate_io_errors()
def plan_partition_expiry(table: Table, clock_millis: int, *, at_most: int | None = None) -> PartitionExpiryPlan:
    """Plan the expiry of partitions by the options of the table; nothing is changed.

    Args:
        table: the table with the options of the statement.
        clock_millis: current time.
        at_most: maximum number of partitions to drop; by default `partition.expiration-max-num`.

    Raises:
        ArgumentError: the table has no partitions.
        OptionError: there is no `partition.expiration-time`, or an option of the expiry is wrong.
    """
    check_writable(table.effective_schema)
    if not table.schema.partition_keys:
        raise ArgumentError(f"Table {table.name} has no partitions that could expire.")
    options = table.options
    age = options.duration_ms_or_none("partition.expiration-time")
    if age is None:
        raise OptionError(
            f"Table {table.name} has no expiration time of partitions.",
            hint="Set 'partition.expiration-time', for example to '7 d', or give expiration_time.",
        )
    strategy = strategy_of(options)
    limit = time_before(clock_millis, age)
    most = options.number("partition.expiration-max-num") if at_most is None else at_most
    if chain_branches(options) is not None:
        return _chain_plan(table, limit, most)
    unparsed = 0
    expired: list[_Partition] = []
    for found in sorted(_partitions(live_in_partitions(ManifestStore(table), table.snapshots.latest(), None))):
        if strategy is Strategy.UPDATE_TIME:
            old = found.newest_file < wall_clock_millis(max(clock_millis - age, 0))
        else:
            at = partition_time(partition_texts(table, found.partition), options)
            unparsed += at is None
            old = at is not None and at < limit
        if old:
            expired.append(found)
    chosen = sorted(expired, key=lambda p: _texts_key(table, p.partition))[:most]
    actions = tuple(_action(table, p, limit) for p in chosen)
    return PartitionExpiryPlan(
        table, {p.partition: p.newest_file for p in chosen}, actions, unparsed, sum(p.files for p in chosen)
    )


def execute_partition_expiry(plan: PartitionExpiryPlan) -> tuple[int, ...]:
    """Drop the partitions, `partition.expiration-batch-size` per commit; return the ids of the snapshots."""
    ids: list[int] = []
    size = plan.table.options.number_or_none("partition.expiration-batch-size") or max(1, len(plan.partitions))
    for start in range(0, len(plan.partitions), size):
        some = dict(list(plan.partitions.items())[start : start + size])
        dropped = _dropping(some, strategy_of(plan.table.options))
        done = FileStoreCommit(plan.table).commit_plan(dropped, CommitKind.OVERWRITE)
        ids += done.snapshot_ids if isinstance(done, Committed) else ()
    return tuple(ids) + (execute_partition_expiry(plan.following) if plan.following is not None else ())


def _chain_plan(table: Table, limit: datetime, most: int) -> PartitionExpiryPlan:
    """Return the plan of a chain table: the deltas first, newest first, so that each has its snapshot until then."""
    names = chain_branches(table.options)
    if names is None or strategy_of(table.options) is not Strategy.VALUES_TIME:
        raise OptionError(
            f"The partitions of the chain table {table.name} expire by the time of their values only.",
            hint="Set 'partition.expiration-strategy' = 'values-time'.",
        )
    given = {k: v for k, v in table.options.values.items() if k.startswith("partition.")}
    branches = [on_branch(table, name) for name in names]
    full, changes = (
        {p.partition: p for p in _partitions(live_in_partitions(ManifestStore(t), t.snapshots.latest(), None))}
        for t in branches
    )

    def time_of(partition: bytes) -> datetime | None:
        return partition_time(partition_texts(table, partition), table.options)

    order = ChainOrder.of(table.schema, table.options)
    deltas, snapshots = expired_segments(order, time_of, full, changes, limit, most)
    plans = [
        PartitionExpiryPlan(
            replace(branch, options=CoreOptions({**branch.options.values, **given})),
            {p: found[p].newest_file for p in going},
            tuple(_action(branch, found[p], limit, f" of $branch_{branch.branch}") for p in going),
            files=sum(found[p].files for p in going),
        )
        for branch, found, going in zip(branches, (full, changes), (snapshots, deltas[::-1]), strict=True)
    ]
    actions = (*plans[1].actions, *plans[0].actions)
    return replace(plans[1], actions=actions, files=plans[0].files + plans[1].files, following=plans[0])


def _dropping(partitions: Mapping[bytes, int], strategy: Strategy) -> Planner:
    """Return the change that removes partitions in their state at the commit.

    With the strategy `update-time`, a partition that has a newer file by then is kept.
    """

    def plan(store: ManifestStore, base: Snapshot | None) -> Change:
        live = live_in_partitions(store, base, set(partitions))
        going = set(partitions)
        if strategy is Strategy.UPDATE_TIME:
            going = {p.partition for p in _partitions(live) if p.newest_file <= partitions[p.partition]}
        index = [i for i in store.index_entries(base) if i.partition in going]
        return overwrite_part((), [e for e in live if e.partition in going], index)

    return plan


def expire_partitions_after_commit(table: Table, clock_millis: int) -> tuple[str, ...]:
    """Expire partitions if a check is due; return the dropped ones, as ``k=v/k2=v2``.

    A process checks a table each `partition.expiration-check-interval`; the first time at random within the first
    interval, unless `end-input.check-partition-expire` is set, which checks after every batch write.
    """
    options = table.options
    if options.get("partition.expiration-time") is None or not table.schema.partition_keys:
        return ()
    interval = options.duration_ms_or_none("partition.expiration-check-interval") or 0
    if not (options.flag("end-input.check-partition-expire") or _is_due((table.path, table.branch), interval / 1000)):
        return ()
    plan = plan_partition_expiry(table, clock_millis)
    execute_partition_expiry(plan)
    return tuple(plan.texts)


def time_before(clock_millis: int, age_ms: int) -> datetime:
    """Return the local time that was `age_ms` before a time; the earliest one if it is before year 1."""
    try:
        return datetime.fromtimestamp(clock_millis / 1000) - timedelta(milliseconds=age_ms)
    except OverflowError:
        return datetime.min


def strategy_of(options: CoreOptions) -> Strategy:
    """Return what determines the age of a partition.

    Raises:
        OptionError: the strategy is unknown.
    """
    found = options.word("partition.expiration-strategy").lower()
    if found not in set(Strategy):
        raise OptionError(
            f"The option 'partition.expiration-strategy' cannot be '{found}'.",
            hint=f"It must be one of {', '.join(Strategy)}.",
        )
    return Strategy(found)


def _is_due(branch: tuple[str, str], interval: float) -> bool:
    now = time.monotonic()
    last = _last_checks.setdefault(branch, now - random.uniform(0, interval))
    if interval and now - last <= interval:
        return False
    _last_checks[branch] = now
    return True


def _partitions(entries: Iterable[ManifestEntry]) -> Iterator[_Partition]:
    found: dict[bytes, _Partition] = {}
    for e in entries:
        old = found.get(e.partition, _Partition(e.partition, 0, 0, 0))
        newest = max(old.newest_file, e.file.creation_time or 0)
        found[e.partition] = _Partition(e.partition, newest, old.files + 1, old.bytes + e.file.file_size)
    yield from found.values()


def partition_texts(table: Table, partition: bytes) -> list[tuple[str, str | None]]:
    """Return the names and the texts of a partition's values, from which its time is parsed."""
    fields = table.schema.partition_fields
    values = table.partition_values(partition)
    return [
        (f.name, None if v is None else partition_text(v, f.type, legacy=False))
        for f, v in zip(fields, values, strict=True)
    ]


def _texts_key(table: Table, partition: bytes) -> list[str]:
    return [text or "" for _, text in partition_texts(table, partition)]


def _action(table: Table, found: _Partition, limit: datetime, where: str = "") -> Action:
    reason = f"older than {clock_text(limit)}: {found.files} files{where}"
    return Action(DROP, table.partition_text(found.partition), found.bytes, reason)
