"""Support for each option of the catalogue: honoured, refused, or stored for other engines.

An option that is not listed as honoured cannot be given to a statement or session, because it would have no effect.
Tests check the lists against the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache

from paimon_spark.errors import OptionError
from paimon_spark.spec.option_catalogue import Option, check_key, find_option, known_options


class Scope(StrEnum):
    """Where an honoured option may be given."""

    READ = "read"
    STREAM = "stream"
    WRITE = "write"
    CALL = "call"
    TABLE = "table"
    CATALOG = "catalog"
    PROGRAM = "program"


_READ = """
    bitmap-index.fallback-scan-max-size  btree-index.fallback-scan-max-size  global-index.enabled
    deletion-vectors.merge-on-read  file-index.read.enabled  incremental-between  incremental-between-scan-mode
    incremental-between-tag-to-snapshot  incremental-between-timestamp  incremental-to-auto-tag
    blob-as-descriptor  blob.split-by-file-size  chain-table.split.key-range-enabled
    postpone.merge-on-read  read.local-max-bytes  scan.bucket  scan.creation-time-millis  scan.fallback-branch
    scan.file-creation-time-millis  scan.mode  scan.primary-branch  scan.snapshot-id  scan.tag-name  scan.timestamp
    scan.timestamp-millis  scan.version  scan.watermark
    source.split.open-file-cost  source.split.target-size
"""
_STREAM = """
    chain-table.streaming.merge-snapshot
    consumer-id  consumer.ignore-progress  read.changelog  read.stream.maxBytesPerTrigger
    read.stream.maxFilesPerTrigger  read.stream.maxRowsPerTrigger  read.stream.maxTriggerDelayMs
    read.stream.minRowsPerTrigger  streaming-read-append-overwrite
    streaming-read-overwrite  streaming.read.snapshot.delay
"""
_WRITE = """
    blob.target-file-size
    changelog-file.compression  changelog-file.format  changelog-file.prefix  changelog-file.stats-mode
    changelog-producer.row-deduplicate  changelog-producer.row-deduplicate-ignore-fields
    changelog.num-retained.max  changelog.num-retained.min  changelog.time-retained
    clustering.incremental.optimize-write  commit.force-create-snapshot
    commit.max-retries  commit.max-retry-wait  commit.min-retry-wait  commit.strict-mode.last-safe-snapshot
    commit.timeout  commit.user-prefix
    compaction.delete-ratio-threshold  compaction.file-num-limit  compaction.force-rewrite-all-files
    compaction.force-up-level-0  compaction.incremental-size-threshold  compaction.max-size-amplification-percent
    compaction.min.file-num  compaction.offpeak-ratio  compaction.offpeak.end.hour  compaction.offpeak.start.hour
    compaction.optimization-interval  compaction.size-ratio  compaction.small-file-ratio
    compaction.total-size-threshold  consumer.changelog-only  consumer.expiration-time
    cross-partition-upsert.index-ttl  data-file.prefix
    delete.force-produce-changelog  deletion-vector.index-file.target-size  deletion-vectors.bitmap64
    deletion-vectors.mark-deletes
    dynamic-bucket.assigner-parallelism  dynamic-bucket.max-buckets  dynamic-bucket.target-row-num
    end-input.watermark  fields.<col>.stats-mode  file-index.<type>.<col>.<param>  file-index.<type>.columns
    file-index.in-manifest-threshold  file.block-size  file.compression
    file.compression.per.level  file.compression.zstd-level  file.format  file.format.per.level
    file.suffix.include.compression  full-compaction.delta-commits  ignore-delete  ignore-update-before
    local-merge-buffer-size  local-sort.max-num-file-handles  lookup-compact
    manifest.compression  manifest.full-compaction-threshold-size  manifest.merge-min-count
    manifest.target-file-size
    metadata.stats-keep-first-n-columns  metadata.stats-mode  metadata.stats-mode.per.level
    postpone.batch-write-fixed-bucket  postpone.batch-write-fixed-bucket.max-parallelism
    postpone.default-bucket-num  postpone.target-row-num-per-bucket  postpone.target-size-per-bucket
    num-sorted-run.compaction-trigger  orc.<param>  overwrite-upgrade  parquet.<param>  parquet.enable.dictionary
    sink.managed.writer-buffer-memory  sink.parallelism  sink.use-managed-memory-allocator
    snapshot.clean-empty-directories  snapshot.expire.limit
    snapshot.ignore-empty-commit  snapshot.num-retained.max  snapshot.num-retained.min  snapshot.time-retained
    spill-compression  spill-compression.zstd-level  tag.default-time-retained  tag.time-expire-enabled
    target-file-row-num  target-file-size  trash.retention  write-buffer-size  write-buffer-spill.max-disk-size
    end-input.check-partition-expire  partition.expiration-batch-size  partition.expiration-check-interval
    partition.expiration-max-num  partition.expiration-strategy  partition.expiration-time  partition.mark-done-action
    partition.timestamp-formatter  partition.timestamp-pattern  sink.process-time-zone  sink.savepoint.auto-tag
    sink.watermark-time-zone
    tag.automatic-completion  tag.automatic-creation  tag.batch.customized-name  tag.creation-delay
    tag.create-success-file  tag.creation-period  tag.creation-period-duration  tag.num-retained-max
    tag.period-formatter
    record-level.expire-time  record-level.time-field  row-tracking.partition-group-on-commit  write-buffer-spillable
    write-only  write.data-evolution.update-conflict-retry.max-attempts
    write.data-evolution.update-conflict-retry.wait-ms  write.local-max-rows  write.merge-schema
    write.merge-schema.explicit-cast
    write.merge-schema.type-widening  write.sequence-number-init-mode
"""
_CALL = """
    bitmap-index.compression  bitmap-index.compression-level  bitmap-index.dictionary-block-size
    btree-index.block-size  btree-index.compression  btree-index.compression-level
    clustering.history-partition.idle-to-full-sort  clustering.history-partition.limit  clustering.incremental.mode
    data-evolution.compaction.rewrite-row-ids  data-evolution.reassign.skip-contiguous-row-count
    sort-compaction.local-sample.magnification  sorted-index.records-per-range  zorder.var-length-contribution
"""
_TABLE = """
    blob-field  add-column-before-partition  alter-column-null-to-not-null.disabled
    bucket  bucket-append-ordered  bucket-function.type  bucket-key  chain-table.chain-partition-keys
    chain-table.enabled  changelog-producer  clustering.columns  clustering.incremental  clustering.strategy
    data-evolution.enabled  data-file.path-directory  deletion-vectors.enabled
    deletion-vectors.modifiable
    disable-explicit-type-casting  dynamic-bucket.initial-buckets  force-lookup  global-index.column-update-action
    index-file-in-data-file-dir
    merge-engine  num-levels  partition  partition.default-name  partition.legacy-name  path  primary-key
    row-tracking.enabled
    aggregation.remove-record-on-delete  fields.<col>.aggregate-function  fields.<col>.count-limit
    fields.<col>.distinct  fields.<col>.ignore-retract  fields.<col>.list-agg-delimiter  fields.<col>.nested-key
    fields.<col>.nested-key-null-strategy  fields.<col>.nested-sequence-field  fields.<col>.ts-field
    fields.<col[,col]>.sequence-group  fields.default-aggregate-function  partial-update.remove-record-on-delete
    partial-update.remove-record-on-sequence-group  rowkind.field  sequence.field  sequence.field.sort-order
    sequence.snapshot-ordering
    scan.fallback-delta-branch  scan.fallback-snapshot-branch
    table-read.sequence-number.enabled  type  upsert-key  vector-field  field.<col>.vector-dim  fields.<col>.vector-dim
"""
_CATALOG = "case-sensitive  defaultDatabase  lock.enabled  metastore  password  user  warehouse"
_PROGRAM = "requiredSparkConfsCheck.enabled"

PATTERN_KEYS = {
    "parquet.<param>": ("parquet.block.size", "parquet.delta-encoding", "parquet.page.size"),
    "orc.<param>": ("orc.stripe.size",),
}
"""Honoured members of the option families of file formats."""

ONLY_VALUES = {
    "file.format": "parquet, orc or avro, on write",
    "lock.enabled": "false",
    "manifest.compression": "zstd, snappy, deflate, bzip2, xz or null, on write",
    "type": "table",
}
"""Options that are honoured for some values only, with these values; a table with another value is refused."""

_USERS = {
    Scope.READ: "statements that read the table",
    Scope.STREAM: "streaming reads",
    Scope.WRITE: "statements that write the table",
    Scope.CALL: "procedures",
}
_REFUSED = """
    blob-descriptor-field  blob-view-field
    commit.callbacks  commit.custom-listeners
    data-file.external-paths  fields.<col>.map.storage-layout  global-index.external-path
    manifest.format
    metadata.iceberg.storage  pk-bitmap.index.columns
    pk-btree.index.columns  pk-clustering-override  pk-full-text.index.columns  pk-multivalue.index.columns
    pk-vector.index.columns  primary-key.nullable  query-auth.enabled
    tag.callbacks  vector.file.format
    visibility-callback.enabled
"""
REFUSED = frozenset(_REFUSED.split())
"""Options that this release supports only with their default value."""
_OF_METASTORES = {"metastore.partitioned-table": "false", "metastore.tag-to-partition": ""}
"""Options that only catalogs with a metastore obey, as Paimon's does, with the values that ask for nothing."""


def options_of_metastores(options: Mapping[str, str]) -> list[str]:
    """Return the given options that ask something of a metastore, as ``'<key>' = '<value>'``."""
    given = {key: options.get(key, "").strip() for key in _OF_METASTORES}
    return [f"'{k}' = '{v}'" for k, v in given.items() if v and v.lower() != _OF_METASTORES[k]]


@lru_cache(maxsize=1)
def honoured() -> dict[str, Scope]:
    """Return the honoured options by name, with the scope of each."""
    lists = {
        Scope.READ: _READ,
        Scope.STREAM: _STREAM,
        Scope.WRITE: _WRITE,
        Scope.CALL: _CALL,
        Scope.TABLE: _TABLE,
        Scope.CATALOG: _CATALOG,
        Scope.PROGRAM: _PROGRAM,
    }
    return {name: scope for scope, names in lists.items() for name in names.split()}


def scope_of(key: str) -> Scope | None:
    """Return the scope of an honoured key; None for all others."""
    option = find_option(key)
    if option is None or key not in PATTERN_KEYS.get(option.name, (key,)):
        return None
    return honoured().get(option.name)


_COUNTERPARTS: Mapping[str, str] = {
    "replacewhere": "Use INSERT INTO t REPLACE WHERE …, or df.writeTo('t').overwrite(condition).",
    "partitionoverwritemode": "Use df.writeTo('t').overwritePartitions(), or spark.sql.sources.partitionOverwriteMode.",
    **dict.fromkeys(("mergeschema", "merge-schema"), "Use 'write.merge-schema' = 'true'."),
    "overwriteschema": "Use CREATE OR REPLACE TABLE, or df.writeTo('t').createOrReplace().",
    "snapshot-id": "Use 'scan.snapshot-id'.",
    "as-of-timestamp": "Use 'scan.timestamp-millis'.",
    **dict.fromkeys(
        ("readchangefeed", "readchangedata"),
        "Use 'read.changelog' = 'true' in a stream, and paimon_incremental_query in a query.",
    ),
}
"""What to use instead of options of other table formats, by their names in lower case."""


def check_dynamic(
    key: str, *, of: str, scopes: Iterable[Scope] = (Scope.READ, Scope.STREAM, Scope.WRITE, Scope.CALL)
) -> Option:
    """Return the option of `key`, if a statement or session may give it.

    Options of the stored table are accepted here; the table rejects values that differ from its own.

    Args:
        key: the key.
        of: the kind of statement, for messages.
        scopes: the scopes that the statement accepts.

    Raises:
        OptionError: there is no such option, or it does not apply.
    """
    option = check_key(key)
    if option is None:
        hint = _COUNTERPARTS.get(
            key.lower(), "`CALL sys.config('db.t')` lists the options of a table and their defaults."
        )
        raise OptionError(f"There is no table option '{key}'.", hint=hint)
    scope = scope_of(key)
    if scope in (*scopes, Scope.TABLE):
        return option
    if scope in _USERS:
        by = _USERS[scope]
        raise OptionError(f"The option '{key}' does not apply to {of}.", hint=f"It applies to {by}.")
    if scope is not None:
        raise OptionError(f"The option '{key}' is one of the {scope}, not of {of}.", hint="Set it where Spark starts.")
    raise OptionError(
        f"The option '{key}' cannot be given to {of}: {_why_not(key, option)}", hint=_instead(key, option)
    )


def check_given(
    given: Mapping[str, str], *, of: str, scopes: Iterable[Scope], stored: Mapping[str, str] | None = None
) -> None:
    """Reject options that do not apply to a statement, except those that the table has stored with the same value.

    Raises:
        OptionError: see `check_dynamic`.
    """
    wanted = tuple(scopes)
    for key, value in given.items():
        if stored is None or stored.get(key) != value:
            check_dynamic(key, of=of, scopes=wanted)


def _why_not(key: str, option: Option) -> str:
    if option.name in REFUSED:
        return "this release does not implement it."
    if option.name in PATTERN_KEYS:
        return f"of its family, only {', '.join(PATTERN_KEYS[option.name])} are supported."
    return "it has no effect on Spark." if option.group == "flink-connector" else "it has no effect here."


def _instead(key: str, option: Option) -> str:
    if key == "branch":
        return "Write the branch into the name: `t$branch_b`."
    if key == "consumer.mode":
        return "Leave it out: a stream records its progress at the end of each batch, exactly once."
    return "Leave it out."


def statuses() -> dict[str, str]:
    """Return the support for each option of the catalogue: ``honoured``, ``refused`` or ``stored``."""
    found = {}
    for name in known_options():
        found[name] = "honoured" if name in honoured() else "refused" if name in REFUSED else "stored"
    return found
