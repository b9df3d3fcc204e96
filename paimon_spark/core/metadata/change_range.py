"""Changes between two snapshots: those of the commits in between, or the difference of the two states.

(docs/spec/semantics.md, section 12)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo

from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.metadata.scan_modes import ScanStart
from paimon_spark.core.metadata.time_travel import millis_of_text
from paimon_spark.core.table import Table
from paimon_spark.errors import ErrorKind, NotFoundError, OptionError
from paimon_spark.spec.kinds import ChangelogProducer, ChangeSource
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.tag_periods import tag_time

_BETWEEN_TIMES = "incremental-between-timestamp"
_TO_AUTO_TAG = "incremental-to-auto-tag"


@dataclass(frozen=True, slots=True)
class CommitRange:
    """The files that commits added: those of the snapshots above `after` up to `to`, data files or changelog files."""

    after: int
    to: int
    source: ChangeSource

    def __str__(self) -> str:
        return f"{self.source} of snapshots {self.after + 1} to {self.to}"


@dataclass(frozen=True, slots=True)
class StateRange:
    """The difference of two states; `before` is None for the state before the first snapshot."""

    before: Snapshot | None
    after: Snapshot

    def __str__(self) -> str:
        return f"difference of snapshots {self.before.id if self.before else 0} and {self.after.id}"


ChangeRange = CommitRange | StateRange


def resolve_changes(table: Table, start: ScanStart, local_zone: tzinfo | None = None) -> ChangeRange | None:
    """Return the changes that an option selects; None if there are none.

    Args:
        table: the table with the options of the statement.
        start: the option.
        local_zone: time zone of texts without one; that of this machine by default.

    Raises:
        OptionError: the limits are malformed, or in the wrong order.
        NotFoundError: a snapshot or tag does not exist.
    """
    if start.option == _TO_AUTO_TAG:
        return _to_auto_tag(table, start.value)
    first, comma, last = (part.strip() for part in start.value.partition(","))
    if not (first and comma and last) or "," in last:
        raise OptionError(
            f"The option '{start.option}' holds '{start.value}', which is not a range.",
            hint="Give two limits and a comma: the first one is exclusive, the second inclusive.",
        )
    source = _source(table)
    if start.option == _BETWEEN_TIMES:
        times = [_millis(text, local_zone) for text in (first, last)]
        return _between_times(table, times[0], times[1], source)
    return _between(table, first, last, source)


def _source(table: Table) -> ChangeSource:
    """Return the source of changes; `auto` is the changelog of tables that have one."""
    source = ChangeSource(table.options.word("incremental-between-scan-mode").lower())
    if source is not ChangeSource.AUTO:
        return source
    without = table.options.changelog_producer is ChangelogProducer.NONE
    return ChangeSource.DELTA if without else ChangeSource.CHANGELOG


def _between(table: Table, first: str, last: str, source: ChangeSource) -> ChangeRange | None:
    refs = RefStore.of(table)
    tagged = [refs.find_tagged_snapshot(name) for name in (first, last)]
    if tagged[0] is not None and tagged[1] is not None:
        return _between_tags(table, (first, tagged[0]), (last, tagged[1]), source)
    numbers = [int(n) for n in (first, last) if n.isascii() and n.isdigit()]
    if len(numbers) != 2:
        known = refs.tag_names()
        raise NotFoundError(
            f"'{first}' and '{last}' are neither two tags nor two snapshot ids of table {table.name}; "
            + (f"the tags are {', '.join(known)}." if known else "there are no tags."),
            hint="Give two tags or two snapshot ids.",
            kind=ErrorKind.TAG_NOT_FOUND,
        )
    return _between_ids(table, numbers[0], numbers[1], source)


def _between_tags(
    table: Table, first: tuple[str, Snapshot], last: tuple[str, Snapshot], source: ChangeSource
) -> ChangeRange | None:
    (name, before), (other, after) = first, last
    if table.options.flag("incremental-between-tag-to-snapshot"):
        if source is ChangeSource.DIFF:
            raise OptionError(
                "The options 'incremental-between-tag-to-snapshot' = 'true' and 'incremental-between-scan-mode' = "
                "'diff' exclude each other.",
                hint="Leave one of them out: without the first, tags are compared.",
            )
        for tag, snapshot in (first, last):
            _check_id(table, tag, snapshot)
        return _between_ids(table, before.id, after.id, source)
    if after.id < before.id:
        raise OptionError(
            f"The tag '{other}' is of snapshot {after.id}, which is before snapshot {before.id} of the tag '{name}'.",
            hint="Swap the tags.",
        )
    return None if after.is_commit_of(before) else StateRange(before, after)


def _check_id(table: Table, tag: str, snapshot: Snapshot) -> None:
    """Raise if another snapshot has the id of that of a tag: changes from or to it are not those of the tag."""
    if table.snapshots.has_other(snapshot):
        raise OptionError(
            f"The option 'incremental-between-tag-to-snapshot' does not apply to the tag '{tag}': snapshot "
            f"{snapshot.id} of table {table.name} is another one, as after a fast-forward.",
            hint="Leave it out: the tags are compared then.",
        )


def _between_ids(table: Table, after: int, to: int, source: ChangeSource) -> ChangeRange | None:
    if to < after:
        raise OptionError(f"The range of snapshots {after},{to} ends before it begins.", hint="Swap its limits.")
    snapshots = table.snapshots
    earliest, latest = snapshots.earliest_id(), snapshots.latest_id()
    if earliest is None or latest is None or after == to:
        return None
    if source is ChangeSource.DIFF and after > 0:
        return StateRange(snapshots.get(after), snapshots.get(to))
    if after < earliest - 1 or to > latest:
        raise NotFoundError(
            f"The range of snapshots {after},{to} is not within those of table {table.name}, {earliest} to {latest}.",
            hint=f"The first limit, which is exclusive, is {earliest - 1} or higher, the second {latest} or lower.",
            kind=ErrorKind.SNAPSHOT_NOT_FOUND,
        )
    if source is ChangeSource.DIFF:
        return StateRange(None, snapshots.get(to))
    return CommitRange(after, to, source)


def _between_times(table: Table, first: int, last: int, source: ChangeSource) -> ChangeRange | None:
    snapshots = table.snapshots
    earliest, latest = snapshots.earliest(), snapshots.latest()
    if last < first:
        raise OptionError(f"The range of times {first},{last} ends before it begins.", hint="Swap its limits.")
    if earliest is None or latest is None or first == last:
        return None
    if first > latest.time_millis or last < earliest.time_millis:
        return None
    before, after = snapshots.at_or_before(first), snapshots.at_or_before(last) or latest
    if source is ChangeSource.DIFF:
        return _between_states(before, earliest, after)
    return CommitRange(earliest.id - 1 if before is None else before.id, after.id, source)


def _between_states(before: Snapshot | None, earliest: Snapshot, after: Snapshot) -> StateRange:
    """Return the range from the newest snapshot at a time; the state before the first snapshot is empty.

    If the snapshots up to the time have expired, the earliest remaining one is used.
    """
    if before is None and earliest.id > 1:
        before = earliest
    return StateRange(before, after)


def _to_auto_tag(table: Table, name: str) -> StateRange | None:
    time = tag_time(name, table.options)
    if time is None:
        raise OptionError(
            f"The option '{_TO_AUTO_TAG}' holds '{name}', which is not the name of an automatic tag.",
            hint="Check it against 'tag.creation-period' and 'tag.period-formatter' of the table.",
        )
    refs = RefStore.of(table)
    after = refs.find_tagged_snapshot(name)
    times = {n: tag_time(n, table.options) for n in refs.tag_names()}
    earlier = [(t, n) for n, t in times.items() if t is not None and t < time]
    if after is None or not earlier:
        return None
    before = refs.find_tagged_snapshot(max(earlier)[1])
    return None if before is None or before.is_commit_of(after) else StateRange(before, after)


def _millis(text: str, local_zone: tzinfo | None) -> int:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() else millis_of_text(_BETWEEN_TIMES, text, local_zone)
