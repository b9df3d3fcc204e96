"""Time travel: the snapshot of a query by version, timestamp, tag or scan option; the newest by default."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, tzinfo

from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.metadata.scan_modes import ScanStart, scan_start
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.errors import ErrorKind, NotFoundError, OptionError, did_you_mean
from paimon_spark.spec.bounds import LEAST_MILLIS, MOST_MILLIS
from paimon_spark.spec.kinds import BATCH_COMMIT_IDENTIFIER, ChangelogProducer, CommitKind
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.time_texts import time_text

_DATE = re.compile(r"\d{4}-\d")
_ONE_DIGIT = re.compile(r"(?<![\d.])\d(?!\d)")
"""A digit that a zero may precede; not a fraction."""
_WATERMARK = re.compile(r"watermark-(-?\d+)")


@dataclass(frozen=True, slots=True)
class ReadStart:
    """The snapshot that a read starts from, and the schema to read it with.

    The snapshot is None if the table has none and no time travel is requested. `files_created_from`: only files created
    at or after this epoch time are read.
    """

    snapshot: Snapshot | None
    schema: TableSchema
    files_created_from: int | None = None


def resolve_snapshot(
    table: Table,
    *,
    version: str | int | None = None,
    timestamp_millis: int | None = None,
    local_zone: tzinfo | None = None,
) -> tuple[Snapshot | None, TableSchema]:
    """Return the one snapshot to read and the schema to read it with; the arguments are those of `resolve_start`.

    Raises:
        OptionError: scan options contradict each other, or do not read the whole of one snapshot.
    """
    start = resolve_start(table, version=version, timestamp_millis=timestamp_millis, local_zone=local_zone)
    if start.files_created_from is not None:
        raise _not_one_snapshot(table, scan_start(table.options))
    return start.snapshot, start.schema


def resolve_start(
    table: Table,
    *,
    version: str | int | None = None,
    timestamp_millis: int | None = None,
    local_zone: tzinfo | None = None,
) -> ReadStart:
    """Return where a read of one snapshot starts.

    With time travel, a snapshot is read with its own schema.

    Args:
        table: the table; its scan options apply if neither of the next two is given.
        version: a tag, `watermark-<n>`, or a snapshot id, tried in this order.
        timestamp_millis: read the newest snapshot committed at or before this epoch time.
        local_zone: time zone of the text option `scan.timestamp`; that of this machine by default.

    Raises:
        NotFoundError: there is no such snapshot or tag.
        OptionError: scan options contradict each other, or read changes.
    """
    if version is not None:
        return ReadStart(*_with_schema(table, by_version(table, str(version))))
    if timestamp_millis is not None:
        return ReadStart(*_with_schema(table, at_time(table, timestamp_millis)))
    start = scan_start(table.options)
    if start.reads_changes:
        raise _not_one_snapshot(table, start)
    return _by_options(table, start, local_zone)


def _not_one_snapshot(table: Table, start: ScanStart) -> OptionError:
    return OptionError(
        f"The option '{start.option}' does not read the state of table {table.name} at one snapshot, "
        "which is needed here.",
        hint="Leave the option out, or RESET it.",
    )


def by_version(table: Table, version: str) -> Snapshot:
    """Return the snapshot of a tag of that name, of `watermark-<n>`, or of that id."""
    tagged = _tagged(table, version)
    if tagged is not None:
        return tagged
    watermark = _WATERMARK.fullmatch(version)
    if watermark:
        return at_watermark(table, int(watermark[1]))
    if version.isascii() and version.isdigit():
        return table.snapshots.get(int(version))
    raise _no_tag(table, version, "is neither a tag nor a snapshot id")


def at_tag(table: Table, name: str) -> Snapshot:
    """Return the snapshot of a tag."""
    found = _tagged(table, name)
    if found is None:
        raise _no_tag(table, name, "is not a tag")
    return found


def _tagged(table: Table, name: str) -> Snapshot | None:
    """Return the snapshot of a tag, or None if there is no such tag; a blank name is none."""
    return RefStore.of(table).find_tagged_snapshot(name) if name.strip() else None


@translate_io_errors()
def at_time(table: Table, millis: int) -> Snapshot:
    """Return the newest snapshot committed at or before an epoch time.

    Raises:
        NotFoundError: all snapshots are newer, or there is none.
    """
    found = table.snapshots.at_or_before(millis)
    if found is not None:
        return found
    earliest = table.snapshots.earliest()
    if earliest is None:
        raise NotFoundError(
            f"Table {table.name} has no snapshot yet.", hint="Write to it first.", kind=ErrorKind.SNAPSHOT_NOT_FOUND
        )
    raise NotFoundError(
        f"Table {table.name} has no snapshot at or before {_time_text(millis)}; the earliest, {earliest.id}, is of "
        f"{_time_text(earliest.time_millis)}.",
        hint="Give that time or a later one.",
        kind=ErrorKind.SNAPSHOT_NOT_FOUND,
    )


def at_watermark(table: Table, watermark: int) -> Snapshot:
    """Return the first snapshot whose watermark is at least `watermark`."""
    for snapshot_id in table.snapshots.ids():
        found = table.snapshots.find(snapshot_id)
        if found is not None and found.watermark is not None and found.watermark >= watermark:
            return found
    raise no_watermark(table, watermark, "later")


def no_watermark(table: Table, watermark: int, direction: str) -> NotFoundError:
    """Return the error for a table without a snapshot of that watermark, or one `earlier` or `later`."""
    missing = f"Table {table.name} has no snapshot with a watermark of {watermark} or {direction}"
    found = [s for i in table.snapshots.ids() if (s := table.snapshots.find(i)) is not None and s.watermark is not None]
    marks = [(s.watermark, s.id) for s in found]
    if not marks:
        missing += "; none has a watermark."
        hint = "Streams and the option 'end-input.watermark' of a write set watermarks. Use a snapshot id or a time."
    else:
        mark, snapshot_id = min(marks) if direction == "earlier" else max(marks)
        missing += f"; the {'first' if direction == 'earlier' else 'last'} is {mark}, of snapshot {snapshot_id}."
        hint = f"Give that watermark or {'a later' if direction == 'earlier' else 'an earlier'} one."
    return NotFoundError(missing, hint=hint, kind=ErrorKind.SNAPSHOT_NOT_FOUND)


def _by_options(table: Table, start: ScanStart, local_zone: tzinfo | None) -> ReadStart:
    if start.option is None:
        return ReadStart(_newest_compacted(table) if start.compacted else table.snapshots.latest(), table.schema)
    if start.option == "scan.file-creation-time-millis":
        return ReadStart(table.snapshots.latest(), table.schema, files_created_from=start.number())
    if start.option == "scan.creation-time-millis":
        return _from_creation(table, start.number())
    return ReadStart(*_with_schema(table, _by_option(table, start, local_zone)))


def _from_creation(table: Table, millis: int) -> ReadStart:
    """Return the snapshot after the newest one before `millis`; else the newest, with its files created since then."""
    before = table.snapshots.at_or_before(millis - 1)
    following = None if before is None else table.snapshots.find(before.id + 1)
    if following is not None:
        return ReadStart(following, table.schema)
    return ReadStart(table.snapshots.latest(), table.schema, files_created_from=millis)


def _by_option(table: Table, start: ScanStart, local_zone: tzinfo | None) -> Snapshot:
    key = start.option
    if key == "scan.version":
        return by_version(table, start.value)
    if key == "scan.tag-name":
        return at_tag(table, start.value)
    if key == "scan.timestamp":
        return at_time(table, millis_of_text(key, start.value, local_zone))
    number = start.number()
    if key == "scan.snapshot-id":
        return table.snapshots.get(number)
    return at_watermark(table, number) if key == "scan.watermark" else at_time(table, number)


def millis_of_text(key: str, text: str, local_zone: tzinfo | None) -> int:
    """Return the epoch time of the text of an option; without a zone of its own, it is in `local_zone`.

    Raises:
        OptionError: it is not a time.
    """
    try:
        moment = datetime.fromisoformat(_ONE_DIGIT.sub(r"0\g<0>", text) if _DATE.match(text) else text)
        zoned = moment if moment.tzinfo or local_zone is None else moment.replace(tzinfo=local_zone)
        return int(zoned.timestamp() * 1000)
    except (ValueError, OverflowError) as e:
        raise OptionError(
            f"The option '{key}' holds '{text}', which is not a time.",
            hint="Write it as yyyy-MM-dd or yyyy-MM-dd HH:mm:ss, optionally with milliseconds.",
        ) from e


def _newest_compacted(table: Table) -> Snapshot | None:
    """Return the newest snapshot of a compaction, or the newest one without.

    With full compactions every so many commits, only those count.
    """
    snapshots, options = table.snapshots, table.options
    every = options.number_or_none("full-compaction.delta-commits")
    if every is None and options.changelog_producer is ChangelogProducer.FULL_COMPACTION:
        every = 1
    for snapshot_id in reversed(snapshots.ids()):
        found = snapshots.find(snapshot_id)
        if found is not None and found.commit_kind is CommitKind.COMPACT and _is_full(found, every):
            return found
    return snapshots.latest()


def _is_full(snapshot: Snapshot, every: int | None) -> bool:
    identifier = snapshot.commit_identifier
    return every is None or identifier == BATCH_COMMIT_IDENTIFIER or (every > 0 and identifier % every == 0)


def _with_schema(table: Table, snapshot: Snapshot) -> tuple[Snapshot, TableSchema]:
    if snapshot.schema_id == table.schema.id:
        return snapshot, table.schema
    return snapshot, table.schema_store.get(snapshot.schema_id)


def _no_tag(table: Table, name: str, fault: str) -> NotFoundError:
    known = RefStore.of(table).tag_names()
    listed = f"the tags are {', '.join(known)}" if known else "there are no tags"
    return NotFoundError(
        f"'{name}' {fault} of table {table.name}; {listed}.",
        hint=did_you_mean(name, known) or "See its system tables tags and snapshots.",
        kind=ErrorKind.TAG_NOT_FOUND,
    )


def _time_text(millis: int) -> str:
    if not LEAST_MILLIS <= millis <= MOST_MILLIS:
        return f"{millis} ms after 1970"
    return f"{time_text(millis, fraction=True)} UTC"
