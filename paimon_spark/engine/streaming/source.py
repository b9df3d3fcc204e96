"""Streaming reads: the end position and the splits of a micro-batch.

A position is a snapshot and a number among its smallest splits. First come the splits of the state at the starting
snapshot, if the scan mode includes it; then those of the changes of each snapshot after it.

(docs/spec/semantics.md, sections 11-13)
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import cached_property

from paimon_spark.core.changelog.reported import first_reported_level
from paimon_spark.core.clustered_files import has_unsorted_keys
from paimon_spark.core.metadata.change_range import StateRange
from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.scan.changes import ChangeFilter, CommitRead, commit_splits, plan_changes
from paimon_spark.core.scan.result import Scan, YoungFiles
from paimon_spark.core.scan.scan import scan_buckets
from paimon_spark.core.scan.splits import Split, plan_splits
from paimon_spark.core.table import Table
from paimon_spark.core.write.rolling import wall_clock_millis
from paimon_spark.engine.fallback import reads_other_branch
from paimon_spark.engine.postpone_read import with_postponed
from paimon_spark.engine.streaming.changelog_check import StreamChangelogs
from paimon_spark.engine.streaming.offset import NOTHING, Admission, StreamLimits, StreamOffset, splits_digest
from paimon_spark.engine.streaming.schema_check import check_schemas
from paimon_spark.engine.streaming.start import first_offset, is_of_table
from paimon_spark.errors import CorruptTableError, ErrorKind, NotFoundError, OptionError, UnsupportedError
from paimon_spark.spec.features import check_readable
from paimon_spark.spec.kinds import BucketMode, ChangelogProducer, ChangeSource, CommitKind, MergeEngine
from paimon_spark.spec.manifest import BucketKey
from paimon_spark.spec.options import POSTPONE_BUCKET
from paimon_spark.spec.predicate import TRUE, AlwaysTrue, Predicate
from paimon_spark.spec.privileges import Privilege
from paimon_spark.spec.refs import Consumer
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.units import MAX_LONG

MOST_EMPTY = 5
"""A stream without new rows advances once it is this many snapshots behind, because they might expire.

It advances earlier if the table retains fewer.
"""
SMALLEST = {
    "source.split.target-size": "1 b",
    "source.split.open-file-cost": "1 b",
    "postpone.target-row-num-per-bucket": str(MAX_LONG),
}
"""The options by which the splits of a snapshot depend on nothing else."""
_KEPT_STATES = 4
_MOST_LEVELS = 64
_CREATION_TIMES = ("scan.file-creation-time-millis", "scan.creation-time-millis")
_OWN_LOG = (ChangelogProducer.NONE, ChangelogProducer.INPUT)
_STATE, _CHANGES = -1, 0
"""Steps with different numbers share no micro-batch; the other numbers are derived from snapshot ids."""


@dataclass(frozen=True, slots=True)
class StreamRead:
    """The splits of one micro-batch: the state of a snapshot, then changes.

    The state is read from `table`.
    """

    table: Table
    state: tuple[Split, ...] = ()
    changes: tuple[Split, ...] = ()


class _States:
    """A cache of the splits of the states that streams started with, by the name of the delta manifest list."""

    def __init__(self) -> None:
        self._items: OrderedDict[tuple[object, ...], tuple[Split, ...]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[object, ...]) -> tuple[Split, ...] | None:
        with self._lock:
            return self._items.get(key)

    def put(self, key: tuple[object, ...], splits: tuple[Split, ...]) -> None:
        with self._lock:
            self._items[key] = splits
            while len(self._items) > _KEPT_STATES:
                self._items.popitem(last=False)


_states = _States()


def planned_once(key: tuple[object, ...], plan: Callable[[], Iterable[Split]]) -> Sequence[Split]:
    """Return the splits of a state, in the order of partition and bucket; `plan` returns them if none are cached."""
    known = _states.get(key)
    if known is None:
        known = tuple(sorted(plan(), key=lambda s: (s.partition, s.bucket)))
        _states.put(key, known)
    return known


@dataclass(frozen=True)
class StreamSource:
    """A table as a stream.

    Args:
        table: the table at the schema of the query, with the options of the stream.
        keep_kinds: whether rows have their kinds; otherwise -U and -D are left out.
    """

    table: Table
    keep_kinds: bool = False

    def check(self) -> None:
        """Check that the table can be read as a stream.

        Raises:
            UnsupportedError: it cannot.
            OptionError: an option is invalid.
            AccessDeniedError: the user does not have the privilege SELECT.
        """
        table, options = self.table, self.table.options
        table.require(Privilege.SELECT)
        check_readable(table.effective_schema, table.schema.field_names)
        StreamLimits.of(options)
        if reads_other_branch(table):
            raise UnsupportedError(
                f"Table {table.name} cannot be read as a stream together with another branch.",
                hint="Read one branch: `t$branch_<name>`, or leave 'scan.fallback-branch' and 'scan.primary-branch' "
                "out.",
            )
        if self._reads_postponed and options.scan_bucket is not None:
            raise UnsupportedError(
                f"The option 'scan.bucket' does not apply to a stream of table {table.name}, whose postponed rows have "
                "no bucket yet.",
                hint="Leave it out, or set 'changelog-producer' to another value than 'none'.",
            )
        self._check_moves()
        self._check_merged()
        self._check_overwrites()

    def _check_moves(self) -> None:
        """Reject tables whose rows move between partitions: the changes of one commit would have no order."""
        table = self.table
        if not self._by_commit:
            return
        what = "The primary key does not include the partition columns, so that rows move between partitions: "
        if table.options.changelog_producer in _OWN_LOG:
            raise UnsupportedError(
                f"Table {table.name} cannot be read as a stream. {what}the versions of a row in one commit have no "
                "order.",
                hint="Set 'changelog-producer' = 'lookup' or 'full-compaction'.",
            )
        if self.keep_kinds:
            raise UnsupportedError(
                f"The changes of table {table.name} cannot be read as a stream with their kinds. {what}the deletion of "
                "a row in one and its new version in another have no order.",
                hint="Leave 'read.changelog' out, and read the table itself.",
            )

    def _check_merged(self) -> None:
        """Check that the changes are rows of the table, and not versions of rows that are still to be merged."""
        table, options = self.table, self.table.options
        merges = table.is_primary_key_table and options.merge_engine is not MergeEngine.DEDUPLICATE
        if merges and options.changelog_producer is ChangelogProducer.NONE:
            raise UnsupportedError(
                f"Table {table.name} cannot be read as a stream: without a changelog, the changes of a table with "
                f"'merge-engine' = '{options.merge_engine.value}' are rows that are not merged yet.",
                hint="Set 'changelog-producer' = 'lookup' or 'full-compaction'; 'input' delivers the rows as they were "
                "written.",
            )

    def _check_overwrites(self) -> None:
        table, options = self.table, self.table.options
        keyed = table.is_primary_key_table
        if options.flag("streaming-read-overwrite") and not (keyed and options.changelog_producer in _OWN_LOG):
            raise OptionError(
                f"The option 'streaming-read-overwrite' does not apply to table {table.name}: it is for tables with a "
                "primary key whose 'changelog-producer' is 'none' or 'input'.",
                hint="Leave it out" + ("." if keyed else ", or use 'streaming-read-append-overwrite'."),
            )
        if options.flag("streaming-read-overwrite") and self._reads_postponed:
            raise UnsupportedError(
                f"The option 'streaming-read-overwrite' does not apply to table {table.name}: its state in buckets "
                "lacks the postponed rows, which the stream has delivered.",
                hint="Leave it out, or set 'changelog-producer' = 'input'.",
            )
        if options.flag("streaming-read-append-overwrite") and keyed:
            raise OptionError(
                f"The option 'streaming-read-append-overwrite' does not apply to table {table.name}, which has a "
                "primary key.",
                hint="Leave it out, or use 'streaming-read-overwrite'.",
            )

    @cached_property
    def _changelogs(self) -> StreamChangelogs:
        return StreamChangelogs(self.table)

    @cached_property
    def limits(self) -> StreamLimits:
        """Return the limits of a micro-batch."""
        return StreamLimits.of(self.table.options)

    @cached_property
    def _most_empty(self) -> int:
        return min(MOST_EMPTY, self.table.options.snapshot_num_retained_min)

    @translate_io_errors()
    def newest_id(self) -> int:
        """Return the newest snapshot that may be read; 0 if there is none."""
        newest = self.table.snapshots.latest_id() or 0
        delay = self.table.options.duration_ms_or_none("streaming.read.snapshot.delay")
        if not delay:
            return newest
        due = self.table.snapshots.at_or_before(time.time_ns() // 1_000_000 - delay)
        return due.id if due is not None else 0

    @translate_io_errors()
    def next_offset(
        self, start: StreamOffset, *, limited: bool, newest: int, waited_millis: int | None = None
    ) -> StreamOffset | None:
        """Return the end of the next micro-batch; None if there is nothing to read yet.

        Args:
            start: its start.
            limited: whether the limits of the options apply.
            newest: the last snapshot to read.
            waited_millis: how long the query has waited for this batch; None if it must not wait.

        Raises:
            NotFoundError: a snapshot has expired before it was read, or the table was rolled back to a snapshot before
                the position.
        """
        self._check_position(start)
        admission = Admission(self.limits if limited else StreamLimits())
        position, share, full = start, _CHANGES, False
        for step in self._steps(start, newest):
            if step.split is not None:
                apart = step.share != share and admission.splits > 0
                if apart or not admission.take(step.split):
                    full = True
                    break
                share = step.share
            position = step.after
            if share != _STATE and self._ends_at_once(admission) and position.snapshot_id <= newest:
                position = self._after(self._last_together(position, newest))
                break
        if not admission.splits and position.newest_read - start.newest_read < self._most_empty:
            return None
        if waited_millis is not None and not full and admission.waits(waited_millis):
            return None
        return position

    def _ends_at_once(self, admission: Admission) -> bool:
        """Return whether a batch with rows extends to the last snapshot whose changes may share a batch."""
        apart = self._overwrites or self._by_commit or self._reads_postponed
        return bool(admission.splits) and admission.limits.is_free and not apart

    def _last_together(self, position: StreamOffset, newest: int) -> int:
        """Return the last snapshot whose changes share a micro-batch with those before `position`."""
        following_id = position.snapshot_id + int(position.index > NOTHING)
        ids = range(following_id, newest + 1) if self._ordered else ()
        return next((i - 1 for i in ids if self._snapshot_or_changelog(i).commit_kind is CommitKind.OVERWRITE), newest)

    @property
    def _ordered(self) -> bool:
        """Return whether rows of a bucket have an order."""
        return self.table.bucket_mode is not BucketMode.BUCKET_UNAWARE

    @property
    def _by_commit(self) -> bool:
        """Return whether each commit is a micro-batch of its own: rows of a key may be in different partitions."""
        return self.table.bucket_mode is BucketMode.KEY_DYNAMIC

    @property
    def _reads_postponed(self) -> bool:
        """Return whether postponed rows are changes when they are written, instead of when they reach their buckets."""
        table = self.table
        return table.bucket_mode is BucketMode.POSTPONE and table.options.changelog_producer is ChangelogProducer.NONE

    @translate_io_errors()
    def read(self, start: StreamOffset, end: StreamOffset, predicate: Predicate = TRUE) -> StreamRead:
        """Return the splits between two positions, without files that cannot have rows that match `predicate`.

        Raises:
            NotFoundError: one of the snapshots has expired, or the table was rolled back to one before `end`.
            CorruptTableError: a snapshot has fewer splits than a position counts.
            UnsupportedError: a column of the query was changed, or the table was replaced.
            AccessDeniedError: the user does not have the privilege SELECT.
        """
        self.table.require(Privilege.SELECT)
        self._check_position(end if end.read_times else start)
        state: list[Split] = []
        changes: list[Split] = []
        for step in self._steps(start, end.snapshot_id if end.index > NOTHING else end.snapshot_id - 1):
            if step.after.rank > end.rank:
                break
            if step.split is not None:
                (state if step.of_state else changes).append(step.split)
        check_schemas(self.table, [*state, *changes])
        if not isinstance(predicate, AlwaysTrue):
            state, changes = self._state_with(start, state, predicate), self._changes_with(changes, predicate)
        return StreamRead(
            self._state_table, tuple(state), tuple(self._by_bucket(changes) if self._ordered else changes)
        )

    def first_offset(self, local_zone: tzinfo | None = None) -> StreamOffset:
        """Return the position before the first rows of the stream, as `start.first_offset` does."""
        return first_offset(self.table, local_zone)

    def _state_with(self, start: StreamOffset, splits: list[Split], predicate: Predicate) -> list[Split]:
        """Return the splits of a state that may have matching rows. Positions count all of its splits."""
        if not splits:
            return splits
        snapshot = self._snapshot_or_changelog(start.snapshot_id)
        found = scan_buckets(
            self._state_table,
            snapshot,
            statistics=False,
            predicate=predicate,
            levels=self._levels,
            buckets=self._buckets,
        )
        names = {f.file_name for bucket in found.buckets() for f in bucket.files}
        return [s for s in splits if s.postponed or any(f.file_name in names for f in s.files)]

    def _changes_with(self, splits: list[Split], predicate: Predicate) -> list[Split]:
        """Return the splits of changes that may have matching rows; those of an overwrite are not pruned."""
        names = {
            f.file_name
            for snapshot_id in {s.snapshot_id for s in splits if s.difference is None}
            for s in self._change_splits(self._snapshot_or_changelog(snapshot_id), predicate)
            for f in s.files
        }
        return [s for s in splits if s.difference is not None or any(f.file_name in names for f in s.files)]

    def _by_bucket(self, splits: Sequence[Split]) -> list[Split]:
        """Return one split for each bucket, so that one task reads the changes of a key in order."""
        found: dict[BucketKey, list[Split]] = {}
        if any(s.difference is not None for s in splits):
            return list(splits)
        for split in splits:
            found.setdefault(BucketKey(split.partition, split.bucket), []).append(split)
        table = self.table
        merged = table.is_primary_key_table and table.options.changelog_producer is ChangelogProducer.NONE
        return [_joined(group, keys_once=merged) for group in found.values()]

    @translate_io_errors()
    def commit(self, end: StreamOffset) -> None:
        """Record the progress of the consumer, if the stream has one: everything before `end` has been processed."""
        name, refs = self.table.options.get("consumer-id"), RefStore.of(self.table)
        if not name or end.scan_snapshot:
            return
        progress = Consumer(end.snapshot_id, end.time_millis, end.producer, needs_previous=self._overwrites)
        if refs.find_consumer(name) != progress or self._is_idle(refs, name):
            refs.write_consumer(name, progress)

    def _is_idle(self, refs: RefStore, name: str) -> bool:
        """Return whether a consumer without progress has to be written again, because it would expire."""
        keep_ms = self.table.options.consumer_expiration_time_ms
        if keep_ms is None:
            return False
        file = refs.paths.consumer(name).rpartition("/")[2]
        written = next((f.mtime_ms for f in refs.consumer_files() if f.name == file), 0)
        return written < time.time_ns() // 1_000_000 - keep_ms // 3

    # ---- the steps of a stream

    def _steps(self, start: StreamOffset, newest: int) -> Iterator[_Step]:
        """Yield the splits after a position, up to the changes of a snapshot."""
        position = start
        if start.scan_snapshot:
            splits, end = self._state(start)
            yield from _numbered(splits, start, end, _STATE if self._ordered else _CHANGES)
            position = end
        share = _CHANGES
        waited: bool | None = None
        for snapshot_id in range(position.snapshot_id, newest + 1):
            snapshot = self._snapshot_or_changelog(snapshot_id)
            self._changelogs.check_next(position, snapshot)
            overwrite = snapshot.commit_kind is CommitKind.OVERWRITE
            alone = self._overwrites and overwrite
            splits = self._replaced_rows(snapshot) if alone else self._change_splits(snapshot)
            if self._by_commit or (overwrite and self._ordered):
                share = 2 * snapshot.id  # an overwrite may change the number of buckets, and so the bucket of a key
            if splits and self._reads_postponed:
                before, waited = waited, splits[0].bucket == POSTPONE_BUCKET
                share = (
                    share if before in (None, waited) else 2 * snapshot.id
                )  # a key has rows with a bucket and without
            end = following(snapshot, self._changelogs.delivered_by(snapshot))
            yield from _numbered(splits, position, end, share)
            share += int(alone)
            position = end

    def _snapshot_or_changelog(self, snapshot_id: int) -> Snapshot:
        """Return a snapshot, or the changelog that outlives it."""
        table = self.table
        found = table.snapshots.find(snapshot_id) or RefStore.of(table).find_changelog(snapshot_id)
        if found is None:
            raise self._expired(snapshot_id)
        return found

    def _expired(self, snapshot_id: int) -> NotFoundError:
        snapshots = self.table.snapshots
        return NotFoundError(
            f"The stream of table {self.table.name} cannot go on: snapshot {snapshot_id} has expired before it was "
            f"read. The table has the snapshots {snapshots.earliest_id()} to {snapshots.latest_id()}.",
            hint="Start with a new checkpoint, which reads the table again by default, or from an existing snapshot "
            "with 'scan.snapshot-id'. The option 'consumer-id' protects unread snapshots, and so does a longer "
            "'snapshot.time-retained' of the table.",
            kind=ErrorKind.SNAPSHOT_NOT_FOUND,
        )

    def _change_splits(self, snapshot: Snapshot, predicate: Predicate = TRUE) -> list[Split]:
        producer = self.table.options.changelog_producer
        source = ChangeSource.DELTA if producer is ChangelogProducer.NONE else ChangeSource.CHANGELOG
        if source is ChangeSource.CHANGELOG:
            self._changelogs.check_written(snapshot)
        overwrites = not self.table.is_primary_key_table and self.table.options.flag("streaming-read-append-overwrite")
        how = CommitRead(
            source, drop_retracts=not self.keep_kinds, overwrites=overwrites, postponed=self._reads_postponed
        )
        wanted = ChangeFilter(predicate=predicate, buckets=self._buckets)
        return commit_splits(self.table, snapshot, how, wanted)

    @property
    def _overwrites(self) -> bool:
        return self.table.is_primary_key_table and self.table.options.flag("streaming-read-overwrite")

    def _replaced_rows(self, snapshot: Snapshot) -> list[Split]:
        """Return the difference of an overwrite to the state before; its splits are a separate micro-batch.

        Changes of a key in other splits of the same batch would have no order relative to those of the difference.
        """
        before = self._snapshot_or_changelog(snapshot.id - 1) if snapshot.id > 1 else None
        changelogs = self.table.options.changelog_producer is not ChangelogProducer.NONE
        if changelogs and before is not None and not self.table.snapshots.exists(before.id):
            raise self._expired(before.id)  # its changelog outlives it, but not its data files
        wanted = ChangeFilter(buckets=self._buckets)
        splits, _ = plan_changes(self.table.with_options(SMALLEST), StateRange(before, snapshot), wanted)
        return sorted(splits, key=lambda s: (s.partition, s.bucket))

    def _state(self, start: StreamOffset) -> tuple[Sequence[Split], StreamOffset]:
        """Return the smallest splits of the state that a stream begins with, and the position after it."""
        snapshot = self._snapshot_or_changelog(start.snapshot_id)
        return self._state_splits(snapshot), following(snapshot, self._changelogs.producer)

    def _state_splits(self, snapshot: Snapshot) -> Sequence[Split]:
        """Return the smallest splits of a state, in the order of partition and bucket."""
        if has_unsorted_keys(self.table) and self._levels is None:
            raise UnsupportedError(
                f"A stream of table {self.table.name} cannot begin with its rows: with 'pk-clustering-override' = "
                "'true' rows that are not compacted yet cannot be merged into them.",
                hint="Begin with the newest changes: set 'scan.mode' = 'latest'.",
            )
        table, created = self._state_table.with_options(SMALLEST), self._created_from
        how = (self._levels, self._buckets, created, self.keep_kinds)
        key = (table.path, snapshot.delta_manifest_list, table.schema.id, *how)

        def plan() -> list[Split]:
            scanned: Scan = scan_buckets(table, snapshot, statistics=False, levels=self._levels, buckets=self._buckets)
            millis = None if created is None else wall_clock_millis(created)
            if millis is not None:
                scanned = YoungFiles(scanned, millis)
            found = plan_splits(table, scanned, always_merge=self.keep_kinds)
            if self._reads_postponed:
                found = with_postponed(table, snapshot, TRUE, found, created_from=millis)
            return found

        return planned_once(key, plan)

    @cached_property
    def _state_table(self) -> Table:
        """Return the table whose state is read; without a changelog, rows that are not compacted yet are included."""
        options = self.table.options
        merged = {}
        if options.deletion_vectors_enabled and options.changelog_producer in _OWN_LOG and self._levels is None:
            merged["deletion-vectors.merge-on-read"] = "true"
        if self._reads_postponed:
            merged["postpone.merge-on-read"] = "true"
        return self.table.with_options(merged) if merged else self.table

    @cached_property
    def _levels(self) -> tuple[int, ...] | None:
        """Return the levels of the state: the changelog of rows at other levels is written later."""
        first = first_reported_level(self.table)
        return tuple(range(first, max(self.table.stored_options.num_levels, _MOST_LEVELS))) if first else None

    @property
    def _buckets(self) -> tuple[int, ...] | None:
        bucket = self.table.options.scan_bucket
        return None if bucket is None else (bucket,)

    @property
    def _created_from(self) -> int | None:
        """Return the creation time from which on files of the state are read."""
        times = (self.table.options.number_or_none(key) for key in _CREATION_TIMES)
        return next((t for t in times if t is not None), None)

    # ---- checks of changes to the table

    def _after(self, snapshot_id: int) -> StreamOffset:
        snapshot = self._snapshot_or_changelog(snapshot_id)
        return following(snapshot, self._changelogs.delivered_by(snapshot))

    def _check_position(self, position: StreamOffset) -> None:
        """Check that the newest snapshots before a position still belong to the table, unless they have expired."""
        if position.time_millis is None:
            self._check_next(position.snapshot_id)
        newest = self.table.snapshots.latest_id() or 0
        for wanted, millis in position.read_times.items():
            if is_of_table(self.table, wanted, millis, newest):
                continue
            raise NotFoundError(
                f"The stream of table {self.table.name} cannot go on: its checkpoint has read snapshot {wanted}, which "
                f"is no longer one of the table; the newest one is {newest}. The table was rolled back or created "
                "again.",
                hint="Start with a new checkpoint, which reads the whole table again by default.",
                kind=ErrorKind.SNAPSHOT_NOT_FOUND,
            )

    def _check_next(self, wanted: int) -> None:
        """Check that a snapshot named by an option or a consumer exists, or is the next one."""
        newest = self.table.snapshots.latest_id() or 0
        if wanted <= newest + 1:
            return
        raise NotFoundError(
            f"The stream of table {self.table.name} cannot begin at snapshot {wanted}, which 'scan.snapshot-id' or its "
            f"consumer names: the newest snapshot is {newest}.",
            hint="Start with a new checkpoint at an earlier 'scan.snapshot-id'; for a consumer, set "
            "'consumer.ignore-progress' = 'true' or call sys.reset_consumer.",
            kind=ErrorKind.SNAPSHOT_NOT_FOUND,
        )


@dataclass(frozen=True, slots=True)
class _Step:
    """The position after a split or a whole snapshot; splits with equal `share` share a micro-batch."""

    split: Split | None
    after: StreamOffset
    of_state: bool
    share: int


def _numbered(splits: Sequence[Split], position: StreamOffset, end: StreamOffset, share: int) -> Iterator[_Step]:
    """Yield the splits of a snapshot after a position in it, the last one with the position `end`."""
    first = position.index + 1
    digest = splits_digest(splits) if first or len(splits) > 1 else None
    if first > len(splits) or (first and position.splits_digest not in (None, digest)):
        raise CorruptTableError(
            f"The checkpoint has read {first} splits of snapshot {position.snapshot_id}, but they are not among the "
            f"{len(splits)} that the snapshot has for this query.",
            hint="Restore the checkpoint and the options that the query and the table had, such as "
            "'changelog-producer', or start the query with a new checkpoint.",
        )
    part = None if position.scan_snapshot else end.time_millis
    for index in range(first, len(splits)):
        here = replace(position, index=index, part_millis=part, splits_digest=digest)
        yield _Step(splits[index], end if index == len(splits) - 1 else here, position.scan_snapshot, share)
    if first >= len(splits):
        yield _Step(None, end, position.scan_snapshot, share)


def following(snapshot: Snapshot, producer: ChangelogProducer | None) -> StreamOffset:
    """Return the position after the changes of a snapshot, which were delivered by a changelog producer."""
    name = None if producer is None else producer.value
    return StreamOffset(snapshot_id=snapshot.id + 1, time_millis=snapshot.time_millis, producer=name)


def _joined(splits: Sequence[Split], *, keys_once: bool) -> Split:
    """Return the splits of a bucket as one.

    Spark's own scan, which reads raw splits, sorts files by size and distributes files and parts of them over tasks.
    Only the order in a single file without two rows of a key does not matter.
    """
    counts = [s.row_count for s in splits]
    known = [c for c in counts if c is not None]
    return replace(
        splits[0],
        files=tuple(f for s in splits for f in s.files),
        raw=all(s.raw for s in splits) and keys_once and sum(len(s.files) for s in splits) == 1,
        row_count=sum(known) if len(known) == len(counts) else None,
    )
