"""What an examination of a table finds, and how findings are ordered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from paimon_spark.core.table import Table
from paimon_spark.spec.manifest import BucketKey
from paimon_spark.spec.quoted_text import sql_path, sql_value


class Severity(StrEnum):
    """How urgent a finding is."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Code(StrEnum):
    """Stable codes of findings."""

    UNREADABLE = "UNREADABLE"
    MISSING_FILES = "MISSING_FILES"
    ORPHAN_FILES = "ORPHAN_FILES"
    EXPIRED_TRASH = "EXPIRED_TRASH"
    TRASH = "TRASH"
    SMALL_FILES = "SMALL_FILES"
    LEVEL_0_FILES = "LEVEL_0_FILES"
    POSTPONED_ROWS = "POSTPONED_ROWS"
    DELETED_ROWS = "DELETED_ROWS"
    BUCKET_SKEW = "BUCKET_SKEW"
    LARGE_BUCKETS = "LARGE_BUCKETS"
    SMALL_BUCKETS = "SMALL_BUCKETS"
    OTHER_BUCKET_COUNT = "OTHER_BUCKET_COUNT"
    SMALL_MANIFESTS = "SMALL_MANIFESTS"
    EXPIRED_SNAPSHOTS = "EXPIRED_SNAPSHOTS"
    EXPIRED_TAGS = "EXPIRED_TAGS"
    EXPIRED_PARTITIONS = "EXPIRED_PARTITIONS"
    TAG_HOLDS_FILES = "TAG_HOLDS_FILES"
    BRANCH_HOLDS_FILES = "BRANCH_HOLDS_FILES"
    CHANGELOGS_HOLD_FILES = "CHANGELOGS_HOLD_FILES"
    CONSUMER_HOLDS_FILES = "CONSUMER_HOLDS_FILES"
    CONSUMER_BEHIND = "CONSUMER_BEHIND"
    CONSUMER_LOST = "CONSUMER_LOST"
    SHORT_RETENTION = "SHORT_RETENTION"
    FUTURE_SNAPSHOT = "FUTURE_SNAPSHOT"
    STALE_STATISTICS = "STALE_STATISTICS"
    ROW_GROUP_SIZE = "ROW_GROUP_SIZE"
    OPTION_UNKNOWN = "OPTION_UNKNOWN"
    OPTION_INVALID = "OPTION_INVALID"
    OPTION_CONTRADICTION = "OPTION_CONTRADICTION"
    OPTION_WITHOUT_EFFECT = "OPTION_WITHOUT_EFFECT"
    OPTION_UNSUPPORTED = "OPTION_UNSUPPORTED"


_RANK = {s: n for n, s in enumerate(Severity)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding.

    Attributes:
        table: the table.
        severity: how urgent it is.
        code: what it is.
        found: what was found, with numbers.
        remedy: the statement that fixes it; None where only a decision does.
        gain_bytes: bytes that the statement frees or need not be read any more.
        gain_files: files that there are fewer after it.
        estimated: whether the gain is an estimate.
        buckets: the buckets that it is about, for a compaction.
    """

    table: str
    severity: Severity
    code: Code
    found: str
    remedy: str | None = None
    gain_bytes: int = 0
    gain_files: int = 0
    estimated: bool = False
    buckets: frozenset[BucketKey] = field(default=frozenset(), compare=False, repr=False)

    def to_plain(self) -> Mapping[str, Any]:
        """Return the finding as plain JSON values."""
        return {
            "table": self.table,
            "severity": str(self.severity),
            "finding": str(self.code),
            "found": self.found,
            "remedy": self.remedy,
            "gain_bytes": self.gain_bytes,
            "gain_files": self.gain_files,
            "estimated": self.estimated,
        }


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings by urgency, then by gain."""
    return sorted(findings, key=lambda f: (_RANK[f.severity], -f.gain_bytes, -f.gain_files, f.table, f.code, f.found))


def sql_name(table: Table) -> str:
    """Return the name of a table in SQL."""
    return sql_path(table.identifier.database, table.identifier.object_name)


def call(procedure: str, **arguments: str | int) -> str:
    """Return a CALL with named arguments."""
    return f"CALL sys.{procedure}({', '.join(f'{k} => {sql_value(v)}' for k, v in arguments.items())})"


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return ``1 file`` or ``1,234 files``."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def size_text(size: float) -> str:
    """Return a size for people: ``1.5 MiB``."""
    power = min(max(int(size), 1).bit_length() - 1, 49) // 10
    scaled, unit = size / (1 << 10 * power), ("B", "KiB", "MiB", "GiB", "TiB")[power]
    return f"{scaled:.1f}".removesuffix(".0") + f" {unit}"
