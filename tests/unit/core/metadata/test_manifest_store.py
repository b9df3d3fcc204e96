from __future__ import annotations

import pytest

from paimon_spark.core.manifest_cache import RecordCache, clear_cache
from paimon_spark.core.metadata.manifest_merge import merge_manifests
from paimon_spark.core.metadata.manifest_store import ManifestStore, may_hold_partition, partition_stats
from paimon_spark.core.metadata.netting import merge_entries
from paimon_spark.core.scan.scan import live_entries
from paimon_spark.core.table import Table
from paimon_spark.errors import CorruptTableError, ErrorKind
from paimon_spark.spec.kinds import FileKind
from paimon_spark.spec.manifest import DataFileMeta, ManifestEntry, ManifestFileMeta
from paimon_spark.spec.rows import decode_row, encode_row
from paimon_spark.spec.types import STRING
from tests.unit.core import samples


def add(f: DataFileMeta, p: str | None = None, bucket: int = 0) -> ManifestEntry:
    return ManifestEntry(FileKind.ADD, samples.partition(p), bucket, -1, f)


def written(table: Table, *groups: list[ManifestEntry]) -> tuple[ManifestStore, list[ManifestFileMeta]]:
    store = ManifestStore(table)
    return store, [m for g in groups for m in store.write(g)]


def test_a_manifest_describes_its_entries() -> None:
    table = samples.table(partitions=["p"])
    a, b = samples.file(level=2), samples.file(level=4)
    _, (meta,) = written(table, [add(a, "x", 3), add(b, "m", 1), add(a, "x", 3).flipped()])
    assert (meta.num_added_files, meta.num_deleted_files) == (2, 1)
    assert (meta.min_bucket, meta.max_bucket, meta.min_level, meta.max_level) == (1, 3, 2, 4)
    assert meta.min_row_id is None
    assert decode_row(meta.partition_stats.min_values, [STRING]) == ("m",)
    assert decode_row(meta.partition_stats.max_values, [STRING]) == ("x",)
    assert meta.partition_stats.null_counts == (0,)
    assert len(table.file_io.read(table.paths.manifest(meta.file_name))) == meta.file_size


def test_unpartitioned_stats_are_empty_rows() -> None:
    stats = partition_stats({samples.partition(): 3}, [])
    assert (stats.min_values, stats.max_values, stats.null_counts) == (bytes(12), bytes(12), ())


def test_null_partitions_are_counted() -> None:
    stats = partition_stats({encode_row([None], [STRING]): 3, encode_row(["a"], [STRING]): 1}, [STRING])
    assert stats.null_counts == (3,)


def test_entries_roll_at_the_target_size() -> None:
    table = samples.table({"manifest.target-file-size": "1 kb"})
    store, metas = written(table, [add(samples.file()) for _ in range(200)])
    assert len(metas) > 1
    assert sum(m.num_added_files for m in metas) == 200
    assert len(store.written) == len(metas)
    store.discard()
    assert table.file_io.list(table.paths.manifest_dir) == []


def test_partition_ranges_exclude_manifests() -> None:
    table = samples.table(partitions=["p"])
    _, (meta,) = written(table, [add(samples.file(), "b"), add(samples.file(), "d")])
    inside = {p: may_hold_partition(meta, [samples.partition(p)], [STRING]) for p in "abcde"}
    assert inside == {"a": False, "b": True, "c": True, "d": True, "e": False}
    assert not may_hold_partition(meta, [encode_row([None], [STRING])], [STRING])


def test_pairs_cancel_and_a_lone_delete_stays() -> None:
    a, b, c = (samples.file() for _ in range(3))
    entries = [add(a), add(b), add(a).flipped(), add(c).flipped()]
    assert [(e.kind, e.file.file_name) for e in merge_entries(entries)] == [
        (FileKind.ADD, b.file_name),
        (FileKind.DELETE, c.file_name),
    ]


class TestMerging:
    def rows(self, store: ManifestStore, metas: list[ManifestFileMeta]) -> set[str]:
        return {e.file.file_name for e in live_entries(store, metas)}

    def test_few_small_manifests_stay(self) -> None:
        store, metas = written(samples.table(), *([add(samples.file())] for _ in range(29)))
        assert merge_manifests(store, metas) == metas

    def test_30_small_manifests_become_one(self) -> None:
        store, metas = written(samples.table(), *([add(samples.file())] for _ in range(30)))
        merged = merge_manifests(store, metas)
        assert len(merged) == 1
        assert self.rows(store, merged) == self.rows(store, metas)

    def test_a_group_of_the_target_size_is_merged_with_lone_deletes(self) -> None:
        table = samples.table({"manifest.target-file-size": "6 kb", "manifest.full-compaction-threshold-size": "1 gb"})
        files = [samples.file() for _ in range(12)]
        groups = [[add(f)] for f in files[:6]] + [[add(files[0]).flipped()]] + [[add(f)] for f in files[6:]]
        store, metas = written(table, *groups)
        merged = merge_manifests(store, metas)
        assert 1 < len(merged) < len(metas)
        assert self.rows(store, merged) == {f.file_name for f in files[1:]}

    def test_rolled_manifests_are_not_rewritten_by_the_next_commits(self) -> None:
        table = samples.table({"manifest.target-file-size": "5 kb", "manifest.full-compaction-threshold-size": "1 gb"})
        store, metas = written(table, [add(samples.file()) for _ in range(3000)])
        assert len(metas) > 2
        assert all(m.file_size >= 5 << 10 for m in metas[:-1])
        _, delta = written(table, [add(samples.file())])
        assert merge_manifests(store, [*metas, *delta])[: len(metas) - 1] == metas[:-1]

    def test_a_small_manifest_does_not_cause_large_ones_to_be_merged(self) -> None:
        table = samples.table({"manifest.target-file-size": "5 kb", "manifest.full-compaction-threshold-size": "1 gb"})
        store, large = written(table, [add(samples.file()) for _ in range(3000)])
        _, small = written(table, [add(samples.file())])
        metas = [*small, *large[:-1], *small, *large[:-1]]
        assert merge_manifests(store, metas) == metas

    def test_many_small_manifests_before_a_large_one_become_one(self) -> None:
        table = samples.table({"manifest.target-file-size": "5 kb", "manifest.merge-min-count": "3"})
        store, large = written(table, [add(samples.file()) for _ in range(3000)])
        _, small = written(table, *([add(samples.file())] for _ in range(3)))
        assert large[0].file_size >= 5 << 10
        merged = merge_manifests(store, [*small, large[0]])
        assert merged[1:] == large[:1]
        assert self.rows(store, merged[:1]) == self.rows(store, small)

    def test_full_merge_drops_deletes_and_keeps_untouched_manifests(self) -> None:
        options = {"manifest.target-file-size": "1 kb", "manifest.full-compaction-threshold-size": "1 kb"}
        table = samples.table(options, partitions=["p"])
        settled = [add(samples.file(), "a") for _ in range(30)]
        removed = [add(samples.file(), "b") for _ in range(3)]
        store = ManifestStore(table)
        table_all = samples.table(partitions=["p"], file_io=table.file_io)
        big = ManifestStore(table_all).write(settled)
        metas = [*big, *store.write(removed), *store.write([e.flipped() for e in removed])]
        assert big[0].file_size > 1024
        merged = merge_manifests(store, metas)
        assert merged == big
        assert sum(m.num_deleted_files for m in merged) == 0
        assert self.rows(store, merged) == {e.file.file_name for e in settled}

    def test_a_group_that_cancels_out_disappears(self) -> None:
        files = [samples.file() for _ in range(15)]
        groups = [[add(f)] for f in files] + [[add(f).flipped()] for f in files]
        store, metas = written(samples.table(), *groups)
        assert merge_manifests(store, metas) == []


def test_missing_and_truncated_manifests_are_named() -> None:
    table = samples.table()
    store, (meta,) = written(table, [add(samples.file())])
    path = table.paths.manifest(meta.file_name)
    data = table.file_io.read(path)
    clear_cache()
    table.file_io.write(path, data[:-10])
    with pytest.raises(CorruptTableError, match=meta.file_name):
        store.read(meta)
    table.file_io.delete(path)
    with pytest.raises(CorruptTableError, match=meta.file_name) as caught:
        store.read(meta)
    assert caught.value.kind is ErrorKind.FILE_MISSING
    table.file_io.write(path, data)
    assert len(store.read(meta)) == 1


def test_the_cache_counts_bytes_of_wide_statistics() -> None:
    weights = {b"a": 10, b"b": 400, b"c": 90}
    cache: RecordCache[bytes] = RecordCache(1400, lambda records: sum(map(weights.__getitem__, records)))
    cache.put("big", (b"b", b"b"))
    assert cache.get("big") is None
    cache.put("one", (b"b",))
    cache.put("two", (b"a",))
    assert cache.get("one") is None
    assert cache.get("two") == (b"a",)
    cache.clear()
    cache.put("one", (b"b", b"c"))
    assert cache.get("one") == (b"b", b"c")
