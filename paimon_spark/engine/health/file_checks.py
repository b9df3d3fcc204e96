"""Checks of the files of the latest snapshot: their sizes, levels, buckets and manifests."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from paimon_spark.core.compact.clustering import clusters
from paimon_spark.core.metadata.row_ranges import evolves
from paimon_spark.core.scan.pruning import reads_above_level_0
from paimon_spark.engine.health.examined import Examined
from paimon_spark.engine.health.findings import Code, Finding, Severity, call, counted, size_text
from paimon_spark.format.arrays import Mask
from paimon_spark.spec.kinds import BucketMode
from paimon_spark.spec.manifest import BucketKey
from paimon_spark.spec.units import format_memory


def check_files(e: Examined) -> Iterator[Finding]:
    """Yield what is wrong with the data files of the latest snapshot."""
    if len(e.layout.buckets):
        yield from _small_files(e)
        yield from _level_0(e)
        yield from _postponed(e)
        yield from _deleted_rows(e)
        if e.table.bucket_mode is BucketMode.HASH_FIXED:
            yield from _skew(e)
            yield from _bucket_counts(e)
            yield from _bucket_sizes(e)


def _in_buckets(e: Examined) -> Mask:
    return np.array([key.bucket >= 0 for key in e.layout.buckets], bool)


def _partitions(e: Examined, chosen: Mask) -> list[bytes]:
    return [e.layout.buckets[at].partition for at in np.flatnonzero(chosen).tolist()]


def _keys(e: Examined, chosen: Mask) -> list[BucketKey]:
    return [e.layout.buckets[at] for at in np.flatnonzero(chosen).tolist()]


def _after_full(e: Examined, chosen: Mask) -> int:
    """Return how many files fewer there are after a full compaction of some buckets."""
    layout = e.layout
    after = np.maximum(-(-layout.size[chosen] // e.target_size), 1)
    return int(np.maximum(layout.files[chosen] - after, 0).sum())


def _small_files(e: Examined) -> Iterator[Finding]:
    layout, least = e.layout, max(e.table.options.compaction_min_file_num, 2)
    chosen = (layout.small_files >= least) & _in_buckets(e)
    if e.table.is_primary_key_table:
        chosen &= layout.sorted_runs > 1
        fewer = _after_full(e, chosen)
    else:
        if clusters(e.table):
            chosen &= layout.sorted_runs > e.table.options.trigger
        after = -(-layout.small_size[chosen] // e.target_size)
        fewer = int(np.maximum(layout.small_files[chosen] - after, 0).sum())
    if fewer <= 0:
        return
    small, size = int(layout.small_files[chosen].sum()), int(layout.small_size[chosen].sum())
    yield e.finding(
        Severity.WARNING,
        Code.SMALL_FILES,
        f"{small:,} of {counted(int(layout.files.sum()), 'file')} are smaller than "
        f"{size_text(layout.small_limit)} and lie {least} or more together ({size} bytes), in "
        f"{counted(int(chosen.sum()), 'bucket')} of "
        f"{counted(len(set(_partitions(e, chosen))), 'partition')}",
        e.compact_call(_partitions(e, chosen)),
        gain_files=fewer,
        estimated=True,
        buckets=_keys(e, chosen),
    )


def _level_0(e: Examined) -> Iterator[Finding]:
    if not e.table.is_primary_key_table:
        return
    layout, options = e.layout, e.table.options
    hidden = reads_above_level_0(e.table)
    chosen = (layout.level0_files > 0) & _in_buckets(e)
    if not hidden:
        chosen &= layout.sorted_runs > options.trigger
    if not chosen.any():
        return
    files, size = int(layout.level0_files[chosen].sum()), int(layout.level0_size[chosen].sum())
    runs = layout.sorted_runs[chosen]
    cost = (
        "batch readers do not see them until they are compacted"
        if hidden
        else f"a read of such a bucket merges {int(runs.max()):,} sorted runs at most, {runs.mean():.1f} on average; "
        f"'num-sorted-run.compaction-trigger' is {options.trigger}"
    )
    yield e.finding(
        Severity.WARNING,
        Code.LEVEL_0_FILES,
        f"{counted(files, 'file')} at level 0 ({size} bytes) in {counted(int(chosen.sum()), 'bucket')}: {cost}",
        e.compact_call(_partitions(e, chosen)),
        gain_files=_after_full(e, chosen),
        estimated=True,
        buckets=_keys(e, chosen),
    )


def _postponed(e: Examined) -> Iterator[Finding]:
    chosen = ~_in_buckets(e)
    if chosen.any():
        layout = e.layout
        yield e.finding(
            Severity.WARNING,
            Code.POSTPONED_ROWS,
            f"{counted(int(layout.rows[chosen].sum()), 'row')} in {counted(int(layout.files[chosen].sum()), 'file')} "
            f"({int(layout.size[chosen].sum())} bytes) wait for a compaction that gives them buckets",
            e.compact_call(_partitions(e, chosen)),
        )


def _deleted_rows(e: Examined) -> Iterator[Finding]:
    layout, most = e.layout, e.table.options.compaction_delete_ratio_threshold
    chosen = (layout.deleted > 0) & (layout.deleted > layout.rows * most)
    if not chosen.any():
        return
    deleted, rows, size = (int(c[chosen].sum()) for c in (layout.deleted, layout.rows, layout.size))
    yield e.finding(
        Severity.WARNING,
        Code.DELETED_ROWS,
        f"deletion vectors mark {deleted:,} of {counted(rows, 'row')} ({100 * deleted // max(rows, 1)} %) in "
        f"{counted(int(chosen.sum()), 'bucket')}; readers decode these rows and drop them",
        None if evolves(e.table) else e.compact_call(_partitions(e, chosen)),
        gain_bytes=size * deleted // max(rows, 1),
        estimated=True,
        buckets=_keys(e, chosen),
    )


def _skew(e: Examined) -> Iterator[Finding]:
    layout, limits = e.layout, e.limits
    worst: tuple[float, int, int] | None = None
    skewed = 0
    for _, at in layout.by_partition():
        total = int(layout.total_buckets[at[0]])
        rows = layout.rows[at]
        top = int(rows.argmax())
        ratio = float(rows[top]) * total / max(int(rows.sum()), 1)
        if total > 1 and rows[top] >= limits.skew_rows and ratio >= min(limits.skew, total):
            skewed += 1
            worst = max(worst or (0.0, 0, 0), (ratio, int(at[top]), total))
    if worst is None:
        return
    ratio, bucket, total = worst
    key, size = layout.buckets[bucket], int(layout.size[bucket])
    fields = ", ".join(f.name for f in e.table.bucket_key_fields)
    yield e.finding(
        Severity.WARNING if size >= limits.skew_bytes else Severity.INFO,
        Code.BUCKET_SKEW,
        f"bucket {key.bucket} of {e.partition_name(key.partition)} has {counted(int(layout.rows[bucket]), 'row')} "
        f"({size} bytes), {ratio:.1f} times the mean of its {total} buckets; {counted(skewed, 'partition')} "
        f"with skew. One task reads a bucket. More buckets help if many values of the bucket key ({fields}) share it",
        call(
            "rescale",
            table=e.sql_name,
            bucket_num=total * 2,
            **e.partition_argument([key.partition]),
        ),
    )


def _bucket_counts(e: Examined) -> Iterator[Finding]:
    layout, wanted = e.layout, e.table.options.bucket
    chosen = (layout.total_buckets != wanted) & (layout.total_buckets > 0) & _in_buckets(e)
    if chosen.any():
        counts = ", ".join(map(str, np.unique(layout.total_buckets[chosen]).tolist()))
        partitions = _partitions(e, chosen)
        yield e.finding(
            Severity.WARNING,
            Code.OTHER_BUCKET_COUNT,
            f"the number of buckets is {counts} in {counted(len(set(partitions)), 'partition')}, but 'bucket' is "
            f"{wanted}: rows can only be added there after a rescale",
            call("rescale", table=e.sql_name, bucket_num=wanted, **e.partition_argument(partitions)),
        )


def _bucket_sizes(e: Examined) -> Iterator[Finding]:
    layout, limits, wanted = e.layout, e.limits, e.table.options.bucket
    sizes = [int(layout.size[at].sum()) for _, at in layout.by_partition()]
    if not sizes:
        return
    largest, mean = max(sizes), sum(sizes) // (len(sizes) * wanted)
    if largest // wanted >= limits.bucket_bytes:
        more = -(-largest // limits.wanted_bucket_bytes)
        yield e.finding(
            Severity.WARNING,
            Code.LARGE_BUCKETS,
            f"the buckets of the largest partition have {size_text(largest // wanted)} on average "
            f"({largest // wanted} bytes); a task compacts a bucket as a whole",
            _rescaled(e, more),
        )
    files = int(layout.files.sum())
    if wanted > 1 and mean < limits.small_bucket_bytes and files >= limits.small_bucket_files:
        fewer = max(1, -(-largest // limits.wanted_bucket_bytes))
        gain = files - len(sizes) * fewer
        if gain > 0:
            yield e.finding(
                Severity.INFO,
                Code.SMALL_BUCKETS,
                f"{counted(len(layout.buckets), 'bucket')} have {size_text(mean)} on average ({mean} bytes), and "
                f"{counted(files, 'file')} in all",
                _rescaled(e, fewer),
                gain_files=gain,
                estimated=True,
            )


def _rescaled(e: Examined, count: int) -> str:
    change = e.alter(f"SET TBLPROPERTIES ('bucket' = '{count}')")
    return f"{change}; {call('rescale', table=e.sql_name, bucket_num=count)}"


def check_manifests(e: Examined) -> Iterator[Finding]:
    """Yield whether the manifests of the latest snapshot should be merged."""
    options, limits = e.table.options, e.limits
    target = options.manifest_target_file_size
    small = [m for m in e.metas if m.file_size < target]
    added, deleted = sum(m.num_added_files for m in e.metas), sum(m.num_deleted_files for m in e.metas)
    many = len(small) >= options.manifest_merge_min_count
    dead = deleted >= limits.deleted_manifest_entries and deleted * 100 >= added * limits.deleted_manifest_percent
    if many or dead:
        size = sum(m.file_size for m in small)
        yield e.finding(
            Severity.WARNING,
            Code.SMALL_MANIFESTS,
            f"{len(small):,} of {counted(len(e.metas), 'manifest')} are smaller than {format_memory(target)} "
            f"({size} bytes); {deleted:,} of {added + deleted:,} entries remove files. Each plan reads them",
            call("compact_manifest", table=e.sql_name),
            gain_files=max(len(small) - max(-(-size // target), 1), 0),
            estimated=True,
        )
