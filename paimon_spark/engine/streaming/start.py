"""The starting position of a streaming read: by its consumer, or by its scan mode.

(docs/spec/semantics.md, sections 11 and 13)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import tzinfo
from itertools import pairwise

from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.metadata.scan_modes import ScanStart, scan_start
from paimon_spark.core.metadata.time_travel import at_tag, millis_of_text, resolve_start
from paimon_spark.core.table import Table
from paimon_spark.engine.streaming.offset import StreamOffset
from paimon_spark.errors import ErrorKind, NotFoundError, OptionError
from paimon_spark.spec.bounds import LEAST_MILLIS
from paimon_spark.spec.snapshot import Snapshot

_FIRST = 1
_NO_FULL_READ = "latest"
_FULL_FROM_ID = "from-snapshot-full"


def first_offset(table: Table, local_zone: tzinfo | None = None) -> StreamOffset:
    """Return the position before the first rows that a stream reads.

    Args:
        table: the table with the options of the stream.
        local_zone: time zone of texts without one; that of this machine by default.

    Raises:
        OptionError: the options contradict each other, or do not apply to a stream.
        NotFoundError: a snapshot or tag that they name does not exist.
    """
    start = scan_start(table.options)
    _check_start(start)
    mode = table.options.word("scan.mode").lower()
    progress = _consumer_progress(table)
    if progress is not None:
        return progress
    if start.option is None and mode == _NO_FULL_READ:
        return _after(table.snapshots.latest())
    if start.option is None or mode == _FULL_FROM_ID or start.option == "scan.file-creation-time-millis":
        return _full(_within(table, start, mode))
    if start.option == "scan.creation-time-millis":
        return _from_creation(table)
    if start.option in ("scan.timestamp", "scan.timestamp-millis"):
        return _at_time(table, _millis(start, local_zone))
    return _from_id(table, start)


def _check_start(start: ScanStart) -> None:
    if start.reads_changes:
        raise OptionError(
            f"The option '{start.option}' selects a bounded range of changes, which is not a stream.",
            hint="Leave it out, and set the start of the stream by 'scan.snapshot-id' or 'scan.timestamp'.",
        )
    if start.option == "scan.watermark":
        raise OptionError(
            "The option 'scan.watermark' does not apply to a stream.",
            hint="Set the start of the stream by 'scan.snapshot-id', 'scan.tag-name' or 'scan.timestamp'.",
        )


def _consumer_progress(table: Table) -> StreamOffset | None:
    """Return the position of the consumer of a stream, if it has one whose progress applies.

    Raises:
        NotFoundError: the table was rolled back to a snapshot before those that the consumer has read.
    """
    name = table.options.get("consumer-id")
    if not name or table.options.flag("consumer.ignore-progress"):
        return None
    found = RefStore.of(table).find_consumer(name)
    if found is None:
        return None
    last, newest = found.next_snapshot - 1, table.snapshots.latest_id() or 0
    if found.read_millis is not None and not is_of_table(table, last, found.read_millis, newest):
        raise NotFoundError(
            f"The consumer '{name}' of table {table.name} has read snapshot {last}, which is no longer one of the "
            f"table; the newest one is {newest}. The table was rolled back or created again.",
            hint=f"Call sys.reset_consumer for '{name}', or set 'consumer.ignore-progress' = 'true'.",
            kind=ErrorKind.SNAPSHOT_NOT_FOUND,
        )
    return StreamOffset(snapshot_id=found.next_snapshot, time_millis=found.read_millis, producer=found.producer)


def is_of_table(table: Table, snapshot_id: int, millis: int, newest: int) -> bool:
    """Return whether a snapshot that was read, and its commit time, belong to a table, unless it has expired."""
    found = table.snapshots.find(snapshot_id)
    return newest >= snapshot_id and (found is None or found.time_millis == millis)


def _within(table: Table, start: ScanStart, mode: str) -> Snapshot | None:
    """Return the snapshot that a stream reads completely; an id below the earliest one means the earliest."""
    if mode != _FULL_FROM_ID:
        return resolve_start(table).snapshot
    wanted, earliest = start.number(), table.snapshots.earliest()
    return earliest if earliest is not None and wanted < earliest.id else table.snapshots.get(wanted)


def _full(snapshot: Snapshot | None) -> StreamOffset:
    if snapshot is None:
        return StreamOffset(snapshot_id=_FIRST)
    return StreamOffset(snapshot_id=snapshot.id, scan_snapshot=True, time_millis=snapshot.time_millis)


def _after(snapshot: Snapshot | None) -> StreamOffset:
    if snapshot is None:
        return StreamOffset(snapshot_id=_FIRST)
    return StreamOffset(snapshot_id=snapshot.id + 1, time_millis=snapshot.time_millis)


def _from_creation(table: Table) -> StreamOffset:
    """Return the position before the first commit since a time, or a full read of the files created since then."""
    millis, changelogs = scan_start(table.options).number(), _changelogs(table)
    if changelogs and table.snapshots.at_or_before(millis - 1) is None:
        first = _first_since(table, changelogs, millis)
        if first != changelogs[0]:
            return StreamOffset(snapshot_id=first)
    found = resolve_start(table)
    if found.files_created_from is None and found.snapshot is not None:
        return StreamOffset(snapshot_id=found.snapshot.id)
    return _full(found.snapshot)


def _at_time(table: Table, millis: int) -> StreamOffset:
    """Return the position before the first commit at a time or later."""
    earlier = table.snapshots.at_or_before(millis - 1)
    if earlier is not None:
        return _after(earlier)
    return StreamOffset(snapshot_id=_first_since(table, _changelogs(table), millis))


def _first_since(table: Table, changelogs: Sequence[int], millis: int) -> int:
    """Return the first long-lived changelog committed at a time or later, or the earliest snapshot after them."""

    def time_of(snapshot_id: int) -> int:
        found = RefStore.of(table).find_changelog(snapshot_id)
        return LEAST_MILLIS if found is None else found.time_millis  # it has just expired

    commits = [*changelogs, table.snapshots.earliest_id() or _FIRST]
    return commits[bisect_left(changelogs, millis, key=time_of)]


def _earliest(table: Table) -> int:
    """Return the first commit whose changes can be read."""
    changelogs = _changelogs(table)
    return changelogs[0] if changelogs else table.snapshots.earliest_id() or _FIRST


def _changelogs(table: Table) -> Sequence[int]:
    """Return the long-lived changelogs between which and the earliest snapshot none is missing."""
    earliest = table.snapshots.earliest_id()
    if earliest is None:
        return ()
    ids = [i for i in RefStore.of(table).changelog_ids() if i < earliest]
    gaps = [place for place, (a, b) in enumerate(pairwise([*ids, earliest]), 1) if b != a + 1]
    return ids[gaps[-1] :] if gaps else ids


def _millis(start: ScanStart, local_zone: tzinfo | None) -> int:
    if start.option == "scan.timestamp":
        return millis_of_text(start.option, start.value, local_zone)
    return start.number()


def _from_id(table: Table, start: ScanStart) -> StreamOffset:
    """Return the position before the snapshot of an id or a tag; an id below the earliest one means the earliest."""
    earliest = _earliest(table)
    tagged = start.option == "scan.tag-name"
    if start.option == "scan.version":
        tagged = not (start.value.isascii() and start.value.isdigit()) or _is_tag(table, start.value)
    if not tagged:
        return StreamOffset(snapshot_id=max(start.number(), earliest))
    tag = at_tag(table, start.value)
    wanted = tag.id
    there = table.snapshots.find(wanted) or RefStore.of(table).find_changelog(wanted)
    if wanted >= earliest and (there is None or not there.is_commit_of(tag)):
        raise OptionError(
            f"A stream cannot start at the tag '{start.value}' of table {table.name}: its snapshot {wanted} is not in "
            "the history of the table, as after a fast-forward.",
            hint="Start at a 'scan.snapshot-id' of the table, or read the tag in a batch.",
        )
    if wanted < earliest:
        raise OptionError(
            f"A stream cannot start at the tag '{start.value}' of table {table.name}: it holds snapshot {wanted}, and "
            f"the changes up to snapshot {earliest} have expired.",
            hint=f"Start at 'scan.snapshot-id' = '{earliest}', or read the tag in a batch.",
        )
    return StreamOffset(snapshot_id=wanted)


def _is_tag(table: Table, name: str) -> bool:
    return RefStore.of(table).find_tagged_snapshot(name) is not None
