"""Typed access to the options of a table.

Options are kept as text; each property parses its option on access. `spec.option_catalogue` lists the options,
`spec.support` those that are honoured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paimon_spark.errors import OptionError
from paimon_spark.spec.bucket_functions import BucketFunction
from paimon_spark.spec.commit_options import CommitOptions
from paimon_spark.spec.kinds import ChangelogProducer, MergeEngine
from paimon_spark.spec.stats import StatsMode
from paimon_spark.spec.units import MAX_LONG

_TARGET_PRIMARY_KEY = 128 << 20
_TARGET_APPEND = 256 << 20
SPILL_COMPRESSIONS = ("zstd", "lz4", "none")
UNAWARE_OR_DYNAMIC_BUCKET = -1
POSTPONE_BUCKET = -2


@dataclass(frozen=True, slots=True)
class CoreOptions(CommitOptions):
    """Options of one table; `values` contains the options that were set, as text."""

    # ---- buckets

    @property
    def bucket(self) -> int:
        """Return the number of buckets: positive, -1 (dynamic or unaware) or -2 (postpone)."""
        return self.number("bucket")

    @property
    def bucket_key(self) -> tuple[str, ...]:
        """Return the columns whose hash determines the bucket; empty if not set."""
        return self.names("bucket-key")

    @property
    def bucket_function_type(self) -> BucketFunction:
        """Return the function from bucket key to bucket."""
        return BucketFunction(self.word("bucket-function.type"))

    @property
    def dynamic_bucket_target_row_num(self) -> int:
        """Return the target number of keys of a dynamic bucket."""
        return self.number("dynamic-bucket.target-row-num")

    @property
    def dynamic_bucket_max_buckets(self) -> int:
        """Return the maximum number of dynamic buckets of a partition; -1 for no limit."""
        return self.number("dynamic-bucket.max-buckets")

    @property
    def dynamic_bucket_initial_buckets(self) -> int | None:
        """Return the initial number of dynamic buckets of a partition."""
        return self.number_or_none("dynamic-bucket.initial-buckets")

    @property
    def dynamic_bucket_assigner_parallelism(self) -> int | None:
        """Return the number of tasks that assign dynamic buckets."""
        return self.number_or_none("dynamic-bucket.assigner-parallelism")

    @property
    def postpone_batch_write_fixed_bucket(self) -> bool:
        """Return whether batch jobs write a table with postponed buckets directly to its buckets."""
        return self.flag("postpone.batch-write-fixed-bucket")

    @property
    def postpone_max_buckets(self) -> int:
        """Return the maximum number of buckets that a batch job gives a new partition."""
        return self.number("postpone.batch-write-fixed-bucket.max-parallelism")

    @property
    def postpone_default_bucket_num(self) -> int | None:
        """Return the number of buckets of a partition whose rows are compacted first; None if it is not set."""
        return self.number("postpone.default-bucket-num") if self.is_set("postpone.default-bucket-num") else None

    @property
    def postpone_target_row_num_per_bucket(self) -> int | None:
        """Return the target number of rows of a bucket; None if it is not set."""
        return self.number_or_none("postpone.target-row-num-per-bucket")

    @property
    def postpone_target_size_per_bucket(self) -> int:
        """Return the target size of a bucket in bytes."""
        return self.memory("postpone.target-size-per-bucket")

    @property
    def postpone_merge_on_read(self) -> bool:
        """Return whether batch readers merge postponed rows."""
        return self.flag("postpone.merge-on-read")

    @property
    def cross_partition_index_ttl_ms(self) -> int | None:
        """Return the age of files whose keys a cross-partition upsert ignores, in milliseconds."""
        return self.duration_ms_or_none("cross-partition-upsert.index-ttl")

    # ---- merging

    @property
    def merge_engine(self) -> MergeEngine:
        """Return how rows with the same key are merged."""
        return MergeEngine(self.word("merge-engine"))

    @property
    def changelog_producer(self) -> ChangelogProducer:
        """Return how the changelog is produced."""
        return ChangelogProducer(self.word("changelog-producer"))

    @property
    def changelog_row_deduplicate(self) -> bool:
        """Return whether updates that change nothing are left out of the changelog."""
        return self.flag("changelog-producer.row-deduplicate")

    @property
    def changelog_row_deduplicate_ignore_fields(self) -> tuple[str, ...]:
        """Return the columns whose changes do not count as updates."""
        return self.names("changelog-producer.row-deduplicate-ignore-fields")

    @property
    def lookup_compact_gentle(self) -> bool:
        """Return whether level 0 stays until the compaction policy picks it, in a table that looks up older rows."""
        return self.word("lookup-compact").lower() == "gentle"

    @property
    def full_compaction_delta_commits(self) -> int | None:
        """Return the number of commits between full compactions; None for no such rule."""
        return self.number_or_none("full-compaction.delta-commits")

    @property
    def sequence_field(self) -> tuple[str, ...]:
        """Return the columns that order the rows with the same key."""
        return self.names("sequence.field")

    @property
    def upsert_key(self) -> tuple[str, ...]:
        """Return the columns by which an INSERT into an append table replaces rows."""
        return self.names("upsert-key")

    @property
    def sequence_descending(self) -> bool:
        """Return whether the smallest value of the sequence field wins."""
        return self.word("sequence.field.sort-order") == "descending"

    @property
    def rowkind_field(self) -> str | None:
        """Return the column that contains the kind of a row."""
        return self.get("rowkind.field")

    @property
    def ignore_delete(self) -> bool:
        """Return whether deletes are dropped on write."""
        return self.flag("ignore-delete")

    @property
    def removes_record_on_delete(self) -> bool:
        """Return whether a delete removes the row, in the engine of the table."""
        if self.merge_engine is MergeEngine.AGGREGATION:
            return self.flag("aggregation.remove-record-on-delete")
        return self.merge_engine is MergeEngine.PARTIAL_UPDATE and self.flag("partial-update.remove-record-on-delete")

    @property
    def remove_record_on_sequence_group(self) -> tuple[str, ...]:
        """Return the sequence fields of groups whose deletes remove the row."""
        names = self.names("partial-update.remove-record-on-sequence-group")
        return names if self.merge_engine is MergeEngine.PARTIAL_UPDATE else ()

    @property
    def ignore_update_before(self) -> bool:
        """Return whether the old rows of updates are dropped on write."""
        return self.flag("ignore-update-before")

    @property
    def starts_sequences_from_snapshot(self) -> bool:
        """Return whether snapshots record the highest sequence number, from which writers start."""
        return self.word("write.sequence-number-init-mode").lower() == "snapshot"

    # ---- data files

    @property
    def file_format(self) -> str:
        """Return the format of new data files."""
        return self.word("file.format").lower()

    def file_format_of(self, level: int, *, changelog: bool = False) -> str:
        """Return the format of new data or changelog files at a level."""
        own = self.get("changelog-file.format") if changelog else None
        return (own or self.pairs("file.format.per.level").get(str(level), self.file_format)).lower()

    @property
    def file_formats(self) -> tuple[str, ...]:
        """Return the formats that new data files may have at any level."""
        others = (f.lower() for f in self.pairs("file.format.per.level").values())
        return tuple(dict.fromkeys((self.file_format, *others)))

    @property
    def file_compression(self) -> str:
        """Return the codec of new data files."""
        return self.word("file.compression").lower()

    def file_compression_of(self, level: int, *, changelog: bool = False) -> str:
        """Return the codec of new data or changelog files at a level."""
        own = self.get("changelog-file.compression") if changelog else None
        return (own or self.pairs("file.compression.per.level").get(str(level), self.file_compression)).lower()

    @property
    def spill_compression(self) -> str:
        """Return the codec of rows on the local disk, one of `SPILL_COMPRESSIONS`."""
        codec = self.word("spill-compression").lower()
        if codec not in SPILL_COMPRESSIONS:
            raise OptionError(
                f"The option 'spill-compression' cannot be '{codec}'.",
                hint=f"It must be one of {', '.join(SPILL_COMPRESSIONS)}.",
            )
        return codec

    @property
    def file_suffix_include_compression(self) -> bool:
        """Return whether names of data files contain the codec."""
        return self.flag("file.suffix.include.compression")

    @property
    def data_file_prefix(self) -> str:
        """Return the prefix of the names of data files."""
        return self.word("data-file.prefix")

    @property
    def changelog_file_prefix(self) -> str:
        """Return the prefix of the names of changelog files."""
        return self.word("changelog-file.prefix")

    @property
    def data_file_path_directory(self) -> str | None:
        """Return the directory between the table and its partitions."""
        return self.word("data-file.path-directory") or None

    @property
    def index_file_in_data_file_dir(self) -> bool:
        """Return whether index files are in the bucket directory."""
        return self.flag("index-file-in-data-file-dir")

    @property
    def partition_legacy_name(self) -> bool:
        """Return whether names of partition directories contain dates as epoch days."""
        return self.flag("partition.legacy-name")

    @property
    def partition_default_name(self) -> str:
        """Return the directory name of a null or blank partition value."""
        return self.word("partition.default-name")

    @property
    def file_index_in_manifest_threshold(self) -> int:
        """Return the size up to which the indexes of a file are stored in its manifest entry."""
        return self.memory("file-index.in-manifest-threshold")

    @property
    def file_index_read_enabled(self) -> bool:
        """Return whether readers use file indexes."""
        return self.flag("file-index.read.enabled")

    def target_file_size(self, *, primary_key: bool) -> int:
        """Return the size at which a data file is closed."""
        size = self.memory_or_none("target-file-size")
        if size is not None:
            return size
        return _TARGET_PRIMARY_KEY if primary_key else _TARGET_APPEND

    @property
    def blob_target_file_size(self) -> int:
        """Return the size at which a file of BLOB values is closed."""
        size = self.memory_or_none("blob.target-file-size")
        return self.target_file_size(primary_key=False) if size is None else size

    @property
    def target_file_row_num(self) -> int | None:
        """Return the number of rows at which a data file is closed; None for no limit."""
        rows = self.number("target-file-row-num")
        return None if rows == MAX_LONG else rows

    @property
    def write_buffer_size(self) -> int:
        """Return the size of a writer's buffer in bytes."""
        return self.memory("write-buffer-size")

    @property
    def local_merge_buffer_size(self) -> int | None:
        """Return the bytes in which a task merges rows of one key before they are shuffled; None if it does not."""
        return self.memory_or_none("local-merge-buffer-size")

    @property
    def local_read_bytes(self) -> int:
        """Return the maximum bytes of data files that a query reads without a job; 0 for none."""
        return self.memory("read.local-max-bytes")

    @property
    def writer_pool(self) -> int | None:
        """Return the bytes that the writers of one executor share; None if each has its own buffer."""
        return (
            self.memory("sink.managed.writer-buffer-memory") if self.flag("sink.use-managed-memory-allocator") else None
        )

    @property
    def write_local_max_rows(self) -> int:
        """Return the maximum number of rows that the engine writes itself, without workers."""
        return self.number("write.local-max-rows")

    @property
    def snapshot_ordering(self) -> bool:
        """Return whether the versions of a row are ordered by the snapshots that added them."""
        return self.flag("sequence.snapshot-ordering")

    @property
    def clusters_keyed_files(self) -> bool:
        """Return whether files above level 0 of a primary key table are sorted by other columns than the key."""
        return self.flag("pk-clustering-override")

    @property
    def write_only(self) -> bool:
        """Return whether writers skip compaction and expiry."""
        return self.flag("write-only")

    @property
    def overwrite_upgrade(self) -> bool:
        """Return whether an overwrite writes non-overlapping files directly to the top level."""
        return self.flag("overwrite-upgrade")

    def stats_modes(self, columns: Sequence[str], level: int = 0, *, changelog: bool = False) -> tuple[StatsMode, ...]:
        """Return the statistics mode of each column, in order, for a data or changelog file at a level."""
        own = self.get("changelog-file.stats-mode") if changelog else None
        common = own or self.pairs("metadata.stats-mode.per.level").get(str(level), self.word("metadata.stats-mode"))
        default = StatsMode.parse(common)
        none = StatsMode.parse("none")
        keep = self.number("metadata.stats-keep-first-n-columns")
        modes = []
        for i, column in enumerate(columns):
            own = self.values.get(f"fields.{column}.stats-mode")
            late = keep >= 0 and i >= keep
            modes.append(StatsMode.parse(own) if own is not None else none if late else default)
        return tuple(modes)

    # ---- levels and compaction

    @property
    def trigger(self) -> int:
        """Return the number of sorted runs that triggers the compaction of a bucket."""
        return self.number("num-sorted-run.compaction-trigger")

    @property
    def num_levels(self) -> int:
        """Return the number of levels of a bucket."""
        levels = self.number_or_none("num-levels")
        return self.trigger + 1 if levels is None else levels

    @property
    def compaction_size_ratio(self) -> int:
        """Return the percentage by which the sizes of merged runs may differ."""
        return self.number("compaction.size-ratio")

    @property
    def compaction_max_size_amplification_percent(self) -> int:
        """Return the percentage of extra size above which everything is compacted."""
        return self.number("compaction.max-size-amplification-percent")

    @property
    def compaction_optimization_interval_ms(self) -> int | None:
        """Return how often a full compaction is due."""
        return self.duration_ms_or_none("compaction.optimization-interval")

    @property
    def compaction_total_size_threshold(self) -> int | None:
        """Return the size below which a bucket is always compacted fully."""
        return self.memory_or_none("compaction.total-size-threshold")

    @property
    def compaction_incremental_size_threshold(self) -> int | None:
        """Return the size below the top level at which a bucket is compacted fully."""
        return self.memory_or_none("compaction.incremental-size-threshold")

    @property
    def compaction_offpeak_start_hour(self) -> int:
        """Return the hour at which off-peak time begins; -1 for none."""
        return self.number("compaction.offpeak.start.hour")

    @property
    def compaction_offpeak_end_hour(self) -> int:
        """Return the hour at which off-peak time ends; -1 for none."""
        return self.number("compaction.offpeak.end.hour")

    @property
    def compaction_offpeak_ratio(self) -> int:
        """Return the increment of the size ratio during off-peak hours."""
        return self.number("compaction.offpeak-ratio")

    @property
    def compaction_force_up_level_0(self) -> bool:
        """Return whether compaction always includes level 0."""
        return self.flag("compaction.force-up-level-0")

    @property
    def compaction_force_rewrite_all_files(self) -> bool:
        """Return whether a full compaction rewrites files that are already compact."""
        return self.flag("compaction.force-rewrite-all-files")

    @property
    def compaction_min_file_num(self) -> int:
        """Return the number of small files that triggers the compaction of an append table."""
        return self.number("compaction.min.file-num")

    @property
    def compaction_file_num_limit(self) -> int:
        """Return the maximum number of files that one round of append compaction considers."""
        return self.number("compaction.file-num-limit")

    @property
    def compaction_small_file_ratio(self) -> float:
        """Return the fraction of the target size below which a file is small."""
        return self.fraction("compaction.small-file-ratio")

    @property
    def compaction_delete_ratio_threshold(self) -> float:
        """Return the fraction of deleted rows above which a file of an append table is compacted."""
        return self.fraction("compaction.delete-ratio-threshold")

    # ---- reading

    @property
    def scan_bucket(self) -> int | None:
        """Return the only bucket to read; None reads all."""
        return self.number_or_none("scan.bucket")

    @property
    def scan_fallback_branch(self) -> str:
        """Return the branch to read missing partitions from; empty for none."""
        return (self.get("scan.fallback-branch") or "").strip()

    @property
    def scan_primary_branch(self) -> str:
        """Return the branch to read partitions from first; empty for none."""
        return (self.get("scan.primary-branch") or "").strip()

    @property
    def source_split_target_size(self) -> int:
        """Return the target size of a split in bytes."""
        return self.memory("source.split.target-size")

    @property
    def source_split_open_file_cost(self) -> int:
        """Return the cost of opening a file, in bytes."""
        return self.memory("source.split.open-file-cost")

    @property
    def deletion_vectors_enabled(self) -> bool:
        """Return whether the table has deletion vectors."""
        return self.flag("deletion-vectors.enabled")

    @property
    def deletion_vectors_merge_on_read(self) -> bool:
        """Return whether readers of a table with deletion vectors merge level 0."""
        return self.flag("deletion-vectors.merge-on-read")

    @property
    def marks_deletes(self) -> bool:
        """Return whether a DELETE of a primary key table writes deletion vectors where that has the same result."""
        return self.flag("deletion-vectors.mark-deletes")
