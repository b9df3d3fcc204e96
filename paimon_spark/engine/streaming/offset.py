"""Positions and limits of streaming reads: pure values.

(docs/spec/semantics.md, sections 11-13)
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from zlib import crc32

from paimon_spark.core.scan.splits import Split
from paimon_spark.errors import CorruptTableError, OptionError
from paimon_spark.spec.bounds import Id, Index, Long
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.stored_json import json_object, read_as

NOTHING = -1
"""The index before the first split."""
_KEY_OPTIONS = {
    "files": "read.stream.maxFilesPerTrigger",
    "bytes": "read.stream.maxBytesPerTrigger",
    "rows": "read.stream.maxRowsPerTrigger",
    "least_rows": "read.stream.minRowsPerTrigger",
    "delay_millis": "read.stream.maxTriggerDelayMs",
}
"""The options of the limits of a micro-batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """The position of a stream, which has read everything before `snapshot_id`, and its splits up to `index`.

    With `scan_snapshot` these are splits of the state at the snapshot, otherwise of its changes. `time_millis` is the
    commit time of the newest snapshot that was read completely, or whose state is read; `part_millis` that of
    `snapshot_id` if some of its changes were read. If a snapshot has another time, the table was rolled back. In a
    chain table, snapshots are those of the delta branch; `full_snapshot_id` is the snapshot of the snapshot branch that
    belongs to the state, of the time `full_millis`, and `snapshot_id` is 0 if the delta branch has no state.

    `splits_digest` identifies the splits that `index` counts. `producer` is the changelog producer by which the rows
    before `snapshot_id` were delivered: rows that it leaves to a later changelog were not.
    """

    snapshot_id: Id
    index: Index = NOTHING
    scan_snapshot: bool = False
    time_millis: Long | None = None
    full_snapshot_id: Id | None = None
    part_millis: Long | None = None
    full_millis: Long | None = None
    splits_digest: Long | None = None
    producer: str | None = None

    def to_json(self) -> str:
        """Return the offset as the text in the checkpoint."""
        raw = {
            "snapshotId": self.snapshot_id,
            "index": self.index,
            "scanSnapshot": self.scan_snapshot,
            "timeMillis": self.time_millis,
            "fullSnapshotId": self.full_snapshot_id,
            "partMillis": self.part_millis,
            "fullMillis": self.full_millis,
            "splitsDigest": self.splits_digest,
            "producer": self.producer,
        }
        return json.dumps({k: v for k, v in raw.items() if v is not None}, separators=(",", ":"))

    @property
    def rank(self) -> tuple[int, int]:
        """Return the order of the positions of one stream."""
        return (self.snapshot_id, self.index)

    @property
    def newest_read(self) -> int:
        """Return the id of the snapshot that `time_millis` belongs to."""
        return self.snapshot_id if self.scan_snapshot else self.snapshot_id - 1

    @property
    def read_times(self) -> dict[int, int]:
        """Return the commit times of the snapshots that were read last, by their ids."""
        times = ((self.newest_read, self.time_millis), (self.snapshot_id, self.part_millis))
        return {snapshot_id: millis for snapshot_id, millis in times if millis is not None}


def parse_offset(text: str) -> StreamOffset:
    """Return the offset of a text in a checkpoint.

    Raises:
        CorruptTableError: the text is not an offset.
    """
    try:
        return read_as(StreamOffset, json_object(text))
    except ValueError as e:
        raise CorruptTableError(
            f"The checkpoint has '{text[:200]}' as the offset of a Paimon table: {e}.",
            hint="Restore the checkpoint, or start the query with a new one.",
        ) from e


def splits_digest(splits: Iterable[Split]) -> int:
    """Return a number that identifies the files of splits and their order."""
    found = 0
    for split in splits:
        for part in (split,) if split.difference is None else split.difference.splits:
            names = "/".join(f.file_name for f in (*part.files, *part.postponed))
            found = crc32(f"{part.bucket}:{names};".encode(), found)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLimits:
    """The maximum size of a micro-batch, and the minimum that it waits for; None is no limit."""

    files: int | None = None
    bytes: int | None = None
    rows: int | None = None
    least_rows: int | None = None
    delay_millis: int | None = None

    @classmethod
    def of(cls, options: CoreOptions) -> StreamLimits:
        """Return the limits in the options of a read.

        Raises:
            OptionError: a limit is not positive, or one of the two that belong together is missing.
        """
        found = cls(**{limit: options.number_or_none(key) for limit, key in _KEY_OPTIONS.items()})
        for limit, key in _KEY_OPTIONS.items():
            value = getattr(found, limit)
            if value is not None and value < 1:
                raise OptionError(f"The option '{key}' cannot be {value}.", hint="Write 1 or more, or leave it out.")
        if (found.least_rows is None) != (found.delay_millis is None):
            both = " and ".join(f"'{_KEY_OPTIONS[limit]}'" for limit in ("least_rows", "delay_millis"))
            raise OptionError(
                f"The options {both} belong together, but only one of them is set.",
                hint="Set both, so that a batch waits for rows, but only for a limited time.",
            )
        return found

    @property
    def is_free(self) -> bool:
        """Return whether no limit is set: a batch reads all available rows."""
        return self == StreamLimits()


@dataclass(slots=True)
class Admission:
    """Admits splits to a micro-batch while they are within its limits; the first one is always admitted."""

    limits: StreamLimits
    splits: int = 0
    rows: int = 0
    _files: int = field(default=0, repr=False)
    _bytes: int = field(default=0, repr=False)

    def take(self, split: Split) -> bool:
        """Add a split and return True, unless it does not fit."""
        limits = self.limits
        files, size, rows = self._files + split.file_count, self._bytes + split.size, self.rows + split.file_rows
        pairs = ((files, limits.files), (size, limits.bytes), (rows, limits.rows))
        if self.splits and any(most is not None and value > most for value, most in pairs):
            return False
        self._files, self._bytes, self.rows = files, size, rows
        self.splits += 1
        return True

    def waits(self, waited_millis: int) -> bool:
        """Return whether the batch has to wait for more rows."""
        limits = self.limits
        if limits.least_rows is None or limits.delay_millis is None:
            return False
        return self.rows < limits.least_rows and waited_millis < limits.delay_millis
