"""Tag and consumer files, and the names of branches (docs/spec/storage.md, section 15)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Meta

from paimon_spark.errors import ArgumentError, CorruptTableError, OptionError
from paimon_spark.spec.bounds import Int, Long
from paimon_spark.spec.identifier import check_new_name
from paimon_spark.spec.paths import MAIN_BRANCH
from paimon_spark.spec.snapshot import TAG, Snapshot, corrupt, parse_snapshot
from paimon_spark.spec.stored_json import json_object, read_as
from paimon_spark.spec.units import parse_duration_ms

_DATE_PARTS = 3
_NANOS = 6
_MAX_PARTS = 7


@dataclass(frozen=True, slots=True)
class _TagKeys:
    """Keys of a tag file besides those of a snapshot, in the spellings of Paimon and other writers."""

    tag_create_time: str | Annotated[tuple[Int, ...], Meta(min_length=_DATE_PARTS, max_length=_MAX_PARTS)] | None = None
    tag_time_retained: str | float | None = None


@dataclass(frozen=True, slots=True)
class Consumer:
    """The progress of a consumer.

    Paimon's consumer files have the next snapshot only, and its readers ignore other keys.

    Attributes:
        next_snapshot: the snapshot that it reads next.
        read_millis: the commit time of the snapshot before that one, if it was read.
        producer: the changelog producer by which the snapshots before were read, in a table with a primary key.
        needs_previous: whether the rows of the snapshot before the next one are read again, if that one overwrites
            them.
    """

    next_snapshot: Long
    read_millis: Long | None = None
    producer: str | None = None
    needs_previous: bool = False

    @property
    def first_needed(self) -> int:
        """Return the first snapshot that must not expire."""
        return self.next_snapshot - int(self.needs_previous)

    def to_json(self) -> str:
        """Return the file's text."""
        more = {
            "readMillis": self.read_millis,
            "producer": self.producer,
            "needsPrevious": self.needs_previous or None,
        }
        out = {"nextSnapshot": self.next_snapshot, **{k: v for k, v in more.items() if v is not None}}
        return json.dumps(out, indent=2)


@dataclass(frozen=True, slots=True)
class Tag:
    """A named snapshot. A tag with a retention also has its creation time, in local wall-clock time."""

    snapshot: Snapshot
    create_time: datetime | None = None
    time_retained: timedelta | None = None

    @property
    def time_retained_text(self) -> str | None:
        """Return the retention as ISO text, such as ``PT24H``."""
        return None if self.time_retained is None else duration_text(self.time_retained)

    def to_json(self) -> str:
        """Return the file's text."""
        out = json.loads(self.snapshot.to_json())
        if self.create_time is not None:
            t = self.create_time
            out["tagCreateTime"] = [t.year, t.month, t.day, t.hour, t.minute, t.second, t.microsecond * 1000]
        if self.time_retained is not None:
            out["tagTimeRetained"] = self.time_retained.total_seconds()
        return json.dumps(out, indent=2)


def parse_tag(text: str | bytes, where: str) -> Tag:
    """Parse a tag file.

    Raises:
        CorruptTableError: it is not a snapshot, or its time or retention is invalid.
    """
    snapshot, raw = parse_snapshot(text, where, TAG)
    try:
        keys = read_as(_TagKeys, raw)
        return Tag(snapshot, _create_time(keys.tag_create_time), _retained(keys.tag_time_retained))
    except (ValueError, TypeError, OverflowError, OptionError) as e:
        raise corrupt(where, str(e), TAG) from e


def _create_time(value: str | tuple[int, ...] | None) -> datetime | None:
    if value is None:
        return None
    if isinstance(value, str):
        return datetime.fromisoformat(value).replace(tzinfo=None)
    parts = list(value)
    if len(parts) == _MAX_PARTS:
        parts[_NANOS] //= 1000
    return datetime(*parts)  # type: ignore[arg-type]  # the list never reaches the time zone


def _retained(value: str | float | None) -> timedelta | None:
    if value is None:
        return None
    return timedelta(milliseconds=parse_duration_ms(value)) if isinstance(value, str) else timedelta(seconds=value)


def duration_text(span: timedelta) -> str:
    """Return a duration in Java's format: hours, minutes and seconds, such as ``PT1H30M`` or ``PT0.5S``."""
    total = span // timedelta(microseconds=1)
    sign = "-" if total < 0 else ""
    seconds, micros = divmod(abs(total), 1_000_000)
    hours, minutes, rest = seconds // 3600, seconds // 60 % 60, seconds % 60
    text = f"{sign}{hours}H" * bool(hours) + f"{sign}{minutes}M" * bool(minutes)
    fraction = f".{micros:06}".rstrip("0") if micros else ""
    if rest or fraction or not text:
        text += f"{sign}{rest}{fraction}S"
    return f"PT{text}"


def parse_consumer(text: str | bytes, where: str) -> Consumer:
    """Parse a consumer file.

    Raises:
        CorruptTableError: the file is malformed.
    """
    try:
        return read_as(Consumer, json_object(text))
    except ValueError as e:
        raise CorruptTableError(
            f"The consumer file {where} is malformed: {e}.", hint="Reset or delete the consumer."
        ) from e


def check_branch_name(name: str) -> str:
    """Return the name of a new branch without surrounding blanks.

    Raises:
        ArgumentError: a branch cannot have that name.
    """
    text = name.strip()
    check_new_name(text, "branch")
    if text == MAIN_BRANCH or text.isdigit():
        why = "it is the name of the main branch" if text == MAIN_BRANCH else "a number means a snapshot"
        raise ArgumentError(f"'{text}' cannot be the name of a branch: {why}.", hint="Choose another name.")
    return text
