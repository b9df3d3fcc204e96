"""Chain tables: their options, and the order of their partitions (docs/spec/semantics.md, Y9).

The snapshot branch of a chain table has whole partitions, its delta branch the changes of each. A partition without a
snapshot is the newest earlier snapshot of its chain, merged with the deltas since then.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from paimon_spark.errors import OptionError
from paimon_spark.spec.kinds import ChangelogProducer, MergeEngine
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.rows import decode_row
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import DataType

ENABLED = "chain-table.enabled"
SNAPSHOT_BRANCH = "scan.fallback-snapshot-branch"
DELTA_BRANCH = "scan.fallback-delta-branch"
CHAIN_KEYS = "chain-table.chain-partition-keys"
_PATTERN, _FORMATTER = "partition.timestamp-pattern", "partition.timestamp-formatter"
_STRATEGY = "partition.expiration-strategy"


class ChainBranches(NamedTuple):
    """The names of the branches of a chain table."""

    snapshot: str
    delta: str


def is_chain_table(options: CoreOptions) -> bool:
    """Return whether the options are those of a chain table."""
    return options.flag("chain-table.enabled")


def chain_branches(options: CoreOptions) -> ChainBranches | None:
    """Return the branches of a chain table; None for other tables, and until both are named."""
    snapshot = (options.get("scan.fallback-snapshot-branch") or "").strip()
    delta = (options.get("scan.fallback-delta-branch") or "").strip()
    return ChainBranches(snapshot, delta) if is_chain_table(options) and snapshot and delta else None


def chain_keys(options: CoreOptions, partition_keys: Sequence[str]) -> tuple[str, ...]:
    """Return the partition columns by which a chain is ordered; those before them divide the table into chains."""
    return tuple(options.names("chain-table.chain-partition-keys")) or tuple(partition_keys)


def check_chain_table(schema: TableSchema, options: CoreOptions) -> None:
    """Reject a chain table whose keys or options do not allow chains.

    Raises:
        OptionError: the message names what is missing.
    """
    if not is_chain_table(options):
        return
    for allowed, what, hint in _needs(schema, options):
        if not allowed:
            raise OptionError(f"A table with '{ENABLED}' = 'true' {what}.", hint=hint)
    _check_chain_keys(schema, options)


def _needs(schema: TableSchema, options: CoreOptions) -> Iterator[tuple[bool, str, str]]:
    """Yield what a chain table must have: whether it has it, and else the message and the remedy."""
    producer, engine = options.changelog_producer, options.merge_engine
    yield bool(schema.primary_keys), "needs a primary key", "Define one, or leave the option out."
    yield bool(schema.partition_keys), "needs partition columns", "Partition it by a time, or leave the option out."
    yield options.bucket > 0, f"cannot have 'bucket' = '{options.bucket}'", "Set 'bucket' to a positive number."
    yield (
        bool(options.sequence_field),
        "needs a 'sequence.field', which orders the versions of a key in several partitions",
        "Name a column whose values grow with each version of a row.",
    )
    yield (
        producer in (ChangelogProducer.NONE, ChangelogProducer.INPUT),
        f"cannot have 'changelog-producer' = '{producer}'",
        "Set it to none or input.",
    )
    yield (
        not options.deletion_vectors_enabled or engine is MergeEngine.DEDUPLICATE,
        f"cannot have deletion vectors with 'merge-engine' = '{engine}'",
        "Leave 'deletion-vectors.enabled' out, or choose the merge engine deduplicate.",
    )
    for key in (_PATTERN, _FORMATTER):
        yield options.get(key) is not None, f"needs a '{key}'", "For example '$dt' with the formatter 'yyyyMMdd'."
    strategy = options.word(_STRATEGY).lower()
    yield (
        options.get("partition.expiration-time") is None or strategy == "values-time",
        f"cannot have '{_STRATEGY}' = '{strategy}'",
        "Its partitions expire by the time of their values: set it to values-time.",
    )
    for key in ("scan.fallback-branch", "scan.primary-branch"):
        own = f"Its branches are '{SNAPSHOT_BRANCH}' and '{DELTA_BRANCH}'."
        yield not (options.get(key) or "").strip(), f"cannot have '{key}'", own
    branches = chain_branches(options)
    yield (
        branches is None or branches.snapshot != branches.delta,
        f"cannot have one branch as '{SNAPSHOT_BRANCH}' and '{DELTA_BRANCH}'",
        "Create two branches.",
    )


def _check_chain_keys(schema: TableSchema, options: CoreOptions) -> None:
    given = (options.get("chain-table.chain-partition-keys") or "").strip()
    if not given:
        return
    keys = chain_keys(options, schema.partition_keys)
    if schema.partition_keys[-len(keys) :] != keys:
        raise OptionError(
            f"The option '{CHAIN_KEYS}' = '{given}' does not name the last partition columns: they are "
            f"{', '.join(schema.partition_keys)}.",
            hint="Name the columns that order a chain, in the order of the partition columns.",
        )


@dataclass(frozen=True, slots=True)
class Chain:
    """The sources of a partition that is merged: the snapshot before it, if there is one, and the deltas since then."""

    partition: bytes
    anchor: bytes | None
    deltas: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class ChainOrder:
    """The order of partitions: the first `group` columns tell chains apart, the others order a chain."""

    types: tuple[DataType, ...]
    group: int

    @classmethod
    def of(cls, schema: TableSchema, options: CoreOptions) -> ChainOrder:
        """Return the order of the partitions of a table."""
        keys = schema.partition_keys
        types = tuple(f.type for f in schema.partition_fields)
        return cls(types, len(keys) - len(chain_keys(options, keys)))

    def split(self, partition: bytes) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the chain that a partition is in, and its place there, which compares in chain order."""
        values = [(v is not None, v) for v in decode_row(partition, self.types)]
        return tuple(values[: self.group]), tuple(values[self.group :])

    def grouped(self, partitions: Iterable[bytes]) -> dict[tuple[Any, ...], list[tuple[tuple[Any, ...], bytes]]]:
        """Return the places and partitions of each chain, in chain order."""
        found: dict[tuple[Any, ...], list[tuple[tuple[Any, ...], bytes]]] = {}
        for partition in partitions:
            group, place = self.split(partition)
            found.setdefault(group, []).append((place, partition))
        for members in found.values():
            members.sort()
        return found

    def chains(self, wanted: Collection[bytes], snapshots: Iterable[bytes], deltas: Iterable[bytes]) -> Iterator[Chain]:
        """Yield the sources of the partitions to merge, in chain order.

        Args:
            wanted: the partitions to merge.
            snapshots: the partitions of the snapshot branch.
            deltas: the partitions of the delta branch.
        """
        full, changes = self.grouped(snapshots), self.grouped(deltas)
        for group, members in self.grouped(wanted).items():
            anchors, steps = full.get(group, []), changes.get(group, [])
            for place, partition in members:
                before = bisect_left(anchors, place, key=_place)
                anchor = anchors[before - 1] if before else None
                first = 0 if anchor is None else bisect_right(steps, anchor[0], key=_place)
                last = bisect_right(steps, place, key=_place)
                yield Chain(partition, None if anchor is None else anchor[1], tuple(p for _, p in steps[first:last]))

    def newest(self, snapshots: Iterable[bytes], deltas: Iterable[bytes], *, merged: bool) -> Iterator[Chain]:
        """Yield the newest partition of the snapshot branch of each chain, and the deltas after it.

        Args:
            snapshots: the partitions of the snapshot branch.
            deltas: the partitions of the delta branch.
            merged: whether they are sources of the newest of these partitions; else each one is on its own.
        """
        full, changes = self.grouped(snapshots), self.grouped(deltas)
        for group in sorted(full.keys() | changes.keys()):
            place, anchor = full[group][-1] if group in full else (None, None)
            steps = changes.get(group, [])
            later = tuple(p for _, p in steps[0 if place is None else bisect_right(steps, place, key=_place) :])
            if merged:
                newest = later[-1] if later else anchor
                if newest is not None:
                    yield Chain(newest, anchor, later)
                continue
            if anchor is not None:
                yield Chain(anchor, anchor, ())
            yield from (Chain(p, None, (p,)) for p in later)

    def stranded(self, dropped: Collection[bytes], kept: Iterable[bytes], deltas: Iterable[bytes]) -> bytes | None:
        """Return a snapshot partition that cannot be dropped, because later deltas would have no snapshot before them.

        Args:
            dropped: the partitions to drop of the snapshot branch.
            kept: its other partitions.
            deltas: the partitions of the delta branch.
        """
        full, changes = self.grouped(kept), self.grouped(deltas)
        for group, members in self.grouped(dropped).items():
            anchors, steps = full.get(group, []), changes.get(group, [])
            for place, partition in members:
                at = bisect_left(anchors, place, key=_place)
                if at == 0 and _between(steps, place, anchors[0][0] if anchors else None):
                    return partition
        return None


def _place(member: tuple[tuple[Any, ...], bytes]) -> tuple[Any, ...]:
    return member[0]


def _between(
    steps: Sequence[tuple[tuple[Any, ...], bytes]], after: tuple[Any, ...], before: tuple[Any, ...] | None
) -> bool:
    """Return whether a partition is after one place and before another."""
    at = bisect_right(steps, after, key=_place)
    return at < len(steps) and (before is None or steps[at][0] < before)
