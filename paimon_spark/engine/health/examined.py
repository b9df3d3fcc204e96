"""What the checks of a table look at, and from which numbers on they report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from paimon_spark.core.metadata.refs import ProtectingRef
from paimon_spark.core.table import Table
from paimon_spark.engine.health.findings import Code, Finding, Severity, call, sql_name
from paimon_spark.engine.health.layout import Layout
from paimon_spark.spec.manifest import BucketKey, ManifestFileMeta
from paimon_spark.spec.snapshot import Snapshot

_MIB = 1 << 20
_PLAIN_PARTITION = re.compile(r"[\w.-]+=[\w.-]+(/[\w.-]+=[\w.-]+)*")
_MOST_PARTITIONS = 3
HOUR_MILLIS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """From which numbers on something is reported.

    Attributes:
        skew: a bucket is skewed if it has so many times the mean of its partition.
        skew_rows: and at least so many rows.
        skew_bytes: from so many bytes on, skew is a warning.
        bucket_bytes: buckets of this mean size are too large.
        wanted_bucket_bytes: size of buckets after a rescale.
        small_bucket_bytes: buckets of less than this mean size are too small.
        small_bucket_files: if the table has so many files.
        deleted_manifest_percent: percentage of DELETE entries in manifests.
        deleted_manifest_entries: number of DELETE entries.
        pinned_percent: a tag or branch that holds this percentage of the table's size is a warning.
        consumer_millis: a consumer is behind if its next snapshot is so old.
        retention_millis: retention of snapshots that is too short for long queries.
        ahead_millis: a snapshot is in the future if it is so much ahead of the current time.
        statistics_percent: statistics are stale after changes of this percentage of the rows.
        least_row_group: row groups of less are too small.
    """

    skew: int = 4
    skew_rows: int = 10_000
    skew_bytes: int = 128 * _MIB
    bucket_bytes: int = 4096 * _MIB
    wanted_bucket_bytes: int = 1024 * _MIB
    small_bucket_bytes: int = 16 * _MIB
    small_bucket_files: int = 64
    deleted_manifest_percent: int = 50
    deleted_manifest_entries: int = 1_000
    pinned_percent: int = 50
    consumer_millis: int = 24 * HOUR_MILLIS
    retention_millis: int = HOUR_MILLIS // 6
    ahead_millis: int = HOUR_MILLIS // 12
    statistics_percent: int = 20
    least_row_group: int = _MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A table and what its metadata says; `metas` are the manifests of the latest snapshot."""

    table: Table
    now: int
    latest: Snapshot | None
    layout: Layout
    metas: Sequence[ManifestFileMeta] = ()
    refs: Sequence[ProtectingRef] = ()
    limits: Limits = field(default_factory=Limits)

    def finding(
        self,
        severity: Severity,
        code: Code,
        found: str,
        remedy: str | None = None,
        *,
        gain_bytes: int = 0,
        gain_files: int = 0,
        estimated: bool = False,
        buckets: Iterable[BucketKey] = (),
    ) -> Finding:
        """Return a finding about the table."""
        return Finding(
            table=self.table.name,
            severity=severity,
            code=code,
            found=found,
            remedy=remedy,
            gain_bytes=gain_bytes,
            gain_files=gain_files,
            estimated=estimated,
            buckets=frozenset(buckets),
        )

    @property
    def sql_name(self) -> str:
        """Return the name of the table as statements have it."""
        return sql_name(self.table)

    @property
    def target_size(self) -> int:
        """Return the size at which compaction closes a file."""
        return self.table.options.target_file_size(primary_key=self.table.is_primary_key_table)

    def compact_call(self, partitions: Iterable[bytes], **arguments: str) -> str:
        """Return the CALL that compacts some partitions."""
        return call("compact", table=self.sql_name, **self.partition_argument(partitions), **arguments)

    def partition_argument(self, partitions: Iterable[bytes]) -> dict[str, str]:
        """Return the argument that names a few partitions; none for many, or if their values need quotes."""
        texts = sorted(self.table.partition_text(p) for p in set(partitions))
        if len(texts) > _MOST_PARTITIONS or not all(map(_PLAIN_PARTITION.fullmatch, texts)):
            return {}
        return {"partitions": ";".join(t.replace("/", ",") for t in texts)}

    def partition_name(self, partition: bytes) -> str:
        """Return a partition for a message; ``the table`` if it is unpartitioned."""
        return self.table.partition_text(partition) or "the table"

    def alter(self, what: str) -> str:
        """Return an ALTER TABLE statement."""
        return f"ALTER TABLE {self.sql_name} {what}"
