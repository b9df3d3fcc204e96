"""Time travel: the snapshot of a query by version, timestamp, tag or scan option; the newest by default."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo

from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.table import TRAVEL_OPTIONS, Table
from paimon_spark.errors import ErrorKind, NotFoundError, OptionError, UnsupportedError, did_you_mean
from paimon_spark.spec.bounds import LEAST_MILLIS, MOST_MILLIS
from paimon_spark.spec.kinds import CommitKind
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.snapshot import Snapshot

_WATERMARK = re.compile(r"watermark-(-?\d+)")
_NEWEST_MODES = ("default", "latest-full", "full", "latest")
_NOT_YET = (
    "incremental-between",
    "incremental-between-timestamp",
    "incremental-to-auto-tag",
    "scan.creation-time-millis",
    "scan.file-creation-time-millis",
)
"""Options that read other rows than those of one snapshot; ignoring them would give a wrong result."""
_MODE_OPTIONS = {
    "from-snapshot": ("scan.snapshot-id", "scan.tag-name", "scan.watermark", "scan.version"),
    "from-snapshot-full": ("scan.snapshot-id",),
    "from-timestamp": ("scan.timestamp", "scan.timestamp-millis"),
}


def resolve_snapshot(
    table: Table,
    *,
    version: str | int | None = None,
    timestamp_millis: int | None = None,
    local_zone: tzinfo | None = None,
) -> tuple[Snapshot | None, TableSchema]:
    """Return the snapshot to read and the schema to read it with.

    The snapshot is None if the table has none and no time travel is requested. With time travel, a snapshot is read
    with its own schema.

    Args:
        table: the table; its scan options apply if neither of the next two is given.
        version: a tag, `watermark-<n>`, or a snapshot id, tried in this order.
        timestamp_millis: read the newest snapshot committed at or before this epoch time.
        local_zone: time zone of the text option `scan.timestamp`; that of this machine by default.

    Raises:
        NotFoundError: there is no such snapshot or tag.
        OptionError: scan options contradict each other.
        UnsupportedError: the scan mode is not implemented.
    """
    if version is not None:
        return _with_schema(table, by_version(table, str(version)))
    if timestamp_millis is not None:
        return _with_schema(table, at_time(table, timestamp_millis))
    chosen = _by_options(table, local_zone)
    if chosen is not None:
        return _with_schema(table, chosen)
    return table.snapshots.latest(), table.schema


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


def at_time(table: Table, millis: int) -> Snapshot:
    """Return the newest snapshot committed at or before an epoch time."""
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
        hint="Ask for that time or a later one.",
        kind=ErrorKind.SNAPSHOT_NOT_FOUND,
    )


def at_watermark(table: Table, watermark: int) -> Snapshot:
    """Return the first snapshot whose watermark is at least `watermark`."""
    for snapshot_id in table.snapshots.ids():
        found = table.snapshots.find(snapshot_id)
        if found is not None and found.watermark is not None and found.watermark >= watermark:
            return found
    raise NotFoundError(
        f"Table {table.name} has no snapshot with a watermark of {watermark} or later.",
        hint="See the column watermark of its $snapshots table.",
        kind=ErrorKind.SNAPSHOT_NOT_FOUND,
    )


def _by_options(table: Table, local_zone: tzinfo | None) -> Snapshot | None:
    values = table.options.values
    given = {k: values[k].strip() for k in TRAVEL_OPTIONS if values.get(k, "").strip()}
    if len(given) > 1:
        raise OptionError(
            f"The options {' and '.join(repr(k) for k in given)} exclude each other.", hint="Set only one of them."
        )
    for key in _NOT_YET:
        if values.get(key, "").strip():
            raise UnsupportedError(
                f"Reading with the option '{key}' is not supported.",
                hint="Read single snapshots: VERSION AS OF or TIMESTAMP AS OF.",
            )
    mode = values.get("scan.mode", "default").strip().lower() or "default"
    _check_mode(mode, given)
    if mode == "compacted-full":
        return _newest_compacted(table)
    if not given:
        return None
    ((key, value),) = given.items()
    return _by_option(table, key, value, local_zone)


def _check_mode(mode: str, given: dict[str, str]) -> None:
    if mode in _MODE_OPTIONS:
        wanted, foreign = _MODE_OPTIONS[mode], sorted(set(given) - set(_MODE_OPTIONS[mode]))
        if len(given) != 1 or foreign:
            raise OptionError(
                f"The scan mode '{mode}' needs exactly one of the options {', '.join(repr(k) for k in wanted)}"
                + (f" and excludes {', '.join(repr(k) for k in foreign)}." if foreign else "."),
                hint="Set one, or leave 'scan.mode' out.",
            )
    elif mode in (*_NEWEST_MODES, "compacted-full"):
        if given and mode != "default":
            raise OptionError(
                f"The scan mode '{mode}' excludes the option {', '.join(repr(k) for k in given)}.",
                hint="Leave 'scan.mode' out for time travel.",
            )
    else:
        raise UnsupportedError(
            f"The scan mode '{mode}' is not supported.",
            hint=f"Use one of {', '.join(['default', 'compacted-full', *_MODE_OPTIONS])}.",
        )


def _by_option(table: Table, key: str, value: str, local_zone: tzinfo | None) -> Snapshot:
    if key == "scan.version":
        return by_version(table, value)
    if key == "scan.tag-name":
        return at_tag(table, value)
    if key == "scan.timestamp":
        return at_time(table, _millis_of_text(value, local_zone))
    try:
        number = int(value)
    except ValueError as e:
        raise OptionError(f"The option '{key}' holds '{value}', which is not a number.", hint="Give an integer.") from e
    if key == "scan.snapshot-id":
        return table.snapshots.get(number)
    return at_watermark(table, number) if key == "scan.watermark" else at_time(table, number)


def _millis_of_text(text: str, local_zone: tzinfo | None) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as e:
        raise OptionError(
            f"The option 'scan.timestamp' holds '{text}', which is not a time.",
            hint="Write it as yyyy-MM-dd or yyyy-MM-dd HH:mm:ss, optionally with milliseconds.",
        ) from e
    zoned = moment if moment.tzinfo or local_zone is None else moment.replace(tzinfo=local_zone)
    return int(zoned.timestamp() * 1000)


def _newest_compacted(table: Table) -> Snapshot | None:
    snapshots = table.snapshots
    for snapshot_id in reversed(snapshots.ids()):
        found = snapshots.find(snapshot_id)
        if found is not None and found.commit_kind is CommitKind.COMPACT:
            return found
    return snapshots.latest()


def _with_schema(table: Table, snapshot: Snapshot) -> tuple[Snapshot, TableSchema]:
    if snapshot.schema_id == table.schema.id:
        return snapshot, table.schema
    return snapshot, table.schema_store.get(snapshot.schema_id)


def _no_tag(table: Table, name: str, fault: str) -> NotFoundError:
    known = RefStore.of(table).tag_names()
    listed = f"the tags are {', '.join(known)}" if known else "there are no tags"
    return NotFoundError(
        f"'{name}' {fault} of table {table.name}; {listed}.",
        hint=did_you_mean(name, known) or "See its $tags and $snapshots tables.",
        kind=ErrorKind.TAG_NOT_FOUND,
    )


def _time_text(millis: int) -> str:
    if not LEAST_MILLIS <= millis <= MOST_MILLIS:
        return f"{millis} ms after 1970"
    return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"
