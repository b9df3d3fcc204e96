"""Typed access to the options of a table that concern its metadata, commits and expiry."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.errors import OptionError
from paimon_spark.spec.compressions import MANIFEST_COMPRESSIONS, manifest_codec_of
from paimon_spark.spec.option_values import OptionValues


@dataclass(frozen=True, slots=True)
class CommitOptions(OptionValues):
    """Options of one table: its metadata, its commits, and what expires."""

    # ---- metadata and commits

    @property
    def manifest_target_file_size(self) -> int:
        """Return the size at which a manifest is closed."""
        return self.memory("manifest.target-file-size")

    @property
    def manifest_merge_min_count(self) -> int:
        """Return the number of small manifests that triggers a merge."""
        return self.number("manifest.merge-min-count")

    @property
    def manifest_full_compaction_threshold_size(self) -> int:
        """Return the size of changed manifests that triggers a merge of all manifests."""
        return self.memory("manifest.full-compaction-threshold-size")

    @property
    def commit_user_prefix(self) -> str | None:
        """Return the prefix of commit users."""
        return self.get("commit.user-prefix")

    @property
    def commit_max_retries(self) -> int:
        """Return the maximum number of retries of a commit."""
        return self.number("commit.max-retries")

    @property
    def commit_min_retry_wait_ms(self) -> int:
        """Return the shortest wait between two attempts to commit."""
        return self.duration_ms("commit.min-retry-wait")

    @property
    def commit_max_retry_wait_ms(self) -> int:
        """Return the longest wait between two attempts to commit."""
        return self.duration_ms("commit.max-retry-wait")

    @property
    def commit_timeout_ms(self) -> int | None:
        """Return the time limit of all attempts to commit; None for no limit."""
        return self.duration_ms_or_none("commit.timeout")

    @property
    def ignores_empty_commits(self) -> bool:
        """Return whether a batch commit without changes creates no snapshot."""
        ignores = self.get("snapshot.ignore-empty-commit") is None or self.flag("snapshot.ignore-empty-commit")
        return ignores and not self.flag("commit.force-create-snapshot")

    @property
    def manifest_codec(self) -> str:
        """Return the Avro codec of new manifests."""
        found = manifest_codec_of(self.word("manifest.compression"))
        if found is None:
            raise OptionError(
                f"The option 'manifest.compression' cannot be '{self.word('manifest.compression')}'.",
                hint=f"It must be one of {', '.join(MANIFEST_COMPRESSIONS)}.",
            )
        return found

    # ---- retention

    @property
    def snapshot_num_retained_min(self) -> int:
        """Return the minimum number of snapshots to retain."""
        return self.number("snapshot.num-retained.min")

    @property
    def snapshot_num_retained_max(self) -> int:
        """Return the maximum number of snapshots to retain."""
        return self.number("snapshot.num-retained.max")

    @property
    def snapshot_time_retained_ms(self) -> int:
        """Return how long snapshots are retained."""
        return self.duration_ms("snapshot.time-retained")

    @property
    def snapshot_expire_limit(self) -> int:
        """Return the maximum number of snapshots that expire at once."""
        return self.number("snapshot.expire.limit")

    @property
    def changelog_num_retained_min(self) -> int:
        """Return the minimum number of changelogs to retain."""
        value = self.number_or_none("changelog.num-retained.min")
        return self.snapshot_num_retained_min if value is None else value

    @property
    def cleans_empty_directories(self) -> bool:
        """Return whether an expiry removes the bucket and partition directories that it empties."""
        return self.flag("snapshot.clean-empty-directories")

    @property
    def changelog_num_retained_max(self) -> int:
        """Return the maximum number of changelogs to retain."""
        value = self.number_or_none("changelog.num-retained.max")
        return self.snapshot_num_retained_max if value is None else value

    @property
    def changelog_time_retained_ms(self) -> int:
        """Return how long changelogs are retained."""
        value = self.duration_ms_or_none("changelog.time-retained")
        return self.snapshot_time_retained_ms if value is None else value

    @property
    def changelog_lifecycle_decoupled(self) -> bool:
        """Return whether changelogs outlive their snapshots."""
        return (
            self.changelog_num_retained_min > self.snapshot_num_retained_min
            or self.changelog_num_retained_max > self.snapshot_num_retained_max
            or self.changelog_time_retained_ms > self.snapshot_time_retained_ms
        )

    @property
    def tag_default_time_retained_ms(self) -> int | None:
        """Return how long new tags are retained; None for no limit."""
        return self.duration_ms_or_none("tag.default-time-retained")

    @property
    def creates_tag_success_files(self) -> bool:
        """Return whether a new tag gets a success file."""
        return self.flag("tag.create-success-file")

    @property
    def consumer_changelog_only(self) -> bool:
        """Return whether consumers protect changelogs, which outlive their snapshots, but not snapshots."""
        return self.flag("consumer.changelog-only") and self.changelog_lifecycle_decoupled

    @property
    def consumer_expiration_time_ms(self) -> int | None:
        """Return how long an idle consumer is retained."""
        return self.duration_ms_or_none("consumer.expiration-time")

    @property
    def trash_retention_ms(self) -> int:
        """Return how long files in the trash are retained; 0 or less turns the trash off."""
        return self.duration_ms("trash.retention")
