"""verify: a sound table has no row, and each kind of damage is named with its file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.maintenance.file_verification import Defect
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import ProtectingRef, protecting_refs
from paimon_spark.core.scan.scan import live_entries
from paimon_spark.core.table import Table
from paimon_spark.engine.health.doctor import diagnose
from paimon_spark.engine.health.references import references_of
from paimon_spark.engine.health.verify import Depth, verify
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import ArgumentError
from paimon_spark.format.parquet_footer import FOOTERS
from paimon_spark.spec.predicate import Comparison
from paimon_spark.testing.invariants import needed
from paimon_spark.testing.tables import read_arrow
from tests.unit.procedures.calling import Lake

LEVELS = ("metadata", "footers", "data")


@pytest.fixture(scope="module")
def built() -> Lake:
    """Deletion vectors, changelogs, a tag and a branch whose snapshots have expired, and an index beside a file."""
    lake = Lake(
        {"p": "INT", "k": "INT", "v": "INT"},
        primary_key=["p", "k"],
        partition=["p"],
        bucket="1",
        deletion_vectors__enabled="true",
        changelog_producer="lookup",
        file_index__bloom_filter__columns="v",
        file_index__in_manifest_threshold="1 b",
        snapshot__num_retained__min="1",
        snapshot__num_retained__max="4",
    )
    for i in range(5):
        lake.insert(*((1, k, i) for k in range(10 - 2 * i)), (2, i, i))
        if i == 1:
            lake.call("create_tag('t', 'old')")
            lake.call("create_branch('t', 'dev', 'old')")
    lake.call("expire_snapshots(table => 't', retain_max => 3, retain_min => 3)")
    return lake


@pytest.fixture
def lake(built: Lake) -> Iterator[Lake]:
    """The table, whose files are restored after the test."""
    before, store = built.state(), built.table.file_io
    yield built
    for path in built.state().keys() - before.keys():
        store.delete(path)
    for path, data in before.items():
        store.write(path, data)


def defects(lake: Lake, level: str = "metadata") -> list[dict[str, Any]]:
    return lake.call(f"verify('t', '{level}')")


@pytest.mark.parametrize("level", LEVELS)
def test_a_sound_table(lake: Lake, level: str) -> None:
    assert defects(lake, level) == []
    assert lake.call("verify('db.*')") == []
    assert {r.kind for r in protecting_refs(lake.table)} == {"snapshot", "tag"}
    assert any("/index/" in p for p in needed(lake.table))
    assert any(p.endswith(".index") for p in needed(lake.table))


def _is_data(path: str) -> bool:
    return path.endswith(".parquet")


def test_every_missing_file_is_named(lake: Lake) -> None:
    lists = [(r.branch, r.snapshot.changelog_manifest_list) for r in protecting_refs(lake.table)]
    expendable = {f"{lake.table.paths.manifest_dir}/{name}" for branch, name in lists if branch != "main"}
    for path in sorted(needed(lake.table) - expendable):
        data = lake.table.file_io.read(path)
        lake.table.file_io.delete(path)
        found = defects(lake)
        assert {(r["defect"], r["path"]) for r in found} >= {(Defect.MISSING, path)}, path
        assert all(r["defect"] in (Defect.MISSING, Defect.WRONG_ROW_COUNT) for r in found)
        if _is_data(path):
            assert [r["references"] for r in found] >= [1]
        lake.table.file_io.write(path, data)
    assert defects(lake) == []


def test_a_file_of_another_size(lake: Lake) -> None:
    path = next(p for p in sorted(needed(lake.table)) if _is_data(p))
    lake.table.file_io.write(path, lake.table.file_io.read(path) + b"x")
    (row,) = defects(lake)
    assert (row["defect"], row["path"]) == (Defect.WRONG_SIZE, path)
    assert "the metadata says" in row["found"]
    assert row["references"] >= 1


def _scrambled(data: bytes) -> bytes:
    return data[:4] + bytes(b ^ 0x5A for b in data[4:-8]) + data[-8:]


@pytest.mark.parametrize(
    ("chosen", "level", "defect"),
    [
        (_is_data, "footers", Defect.UNREADABLE),
        (lambda p: "/index/" in p, "metadata", Defect.WRONG_VECTOR),
        (lambda p: "/manifest/manifest-" in p and "list" not in p, "metadata", Defect.UNREADABLE),
    ],
    ids=["data", "vectors", "manifest"],
)
def test_scrambled_content(lake: Lake, chosen: Callable[[str], bool], level: str, defect: str) -> None:
    path = max((p for p in needed(lake.table) if chosen(p)), key=lambda p: len(lake.table.file_io.read(p)))
    lake.table.file_io.write(path, _scrambled(lake.table.file_io.read(path)))
    found = defects(lake, level)
    assert {r["path"] for r in found if r["defect"] == defect} == {path}


def test_content_that_was_read_before_it_was_damaged(lake: Lake) -> None:
    FOOTERS.keep(1 << 20)
    try:
        read_arrow(lake.table, predicate=Comparison("=", "v", 1))
        assert defects(lake, "footers") == []
        test_scrambled_content(lake, _is_data, "footers", Defect.UNREADABLE)
    finally:
        FOOTERS.keep(0)


def test_rows_that_do_not_decode() -> None:
    lake = Lake({"k": "INT", "v": "STRING"}, file__compression="none", file__format="avro")
    lake.insert(*((i, "some text") for i in range(50)))
    (path,) = (p for p in needed(lake.table) if p.endswith(".avro"))
    data = lake.table.file_io.read(path)
    at = data.index(b"some text") - 1
    lake.table.file_io.write(path, data[:at] + b"\xff" * 12 + data[at + 12 :])
    assert [r["defect"] for r in defects(lake, "data")] == [Defect.UNREADABLE]


def test_row_counts(lake: Lake) -> None:
    latest = lake.table.snapshots.latest()
    assert latest is not None
    wrong = replace(latest, total_record_count=latest.total_record_count + 1)
    path = lake.table.paths.snapshot(latest.id)
    lake.table.file_io.write(path, wrong.to_json().encode())
    (row,) = defects(lake)
    assert (row["defect"], row["path"], row["needed_by"]) == ("WRONG_ROW_COUNT", path, f"snapshot {latest.id}")


def test_a_footer_that_disagrees_with_its_manifest() -> None:
    lake = Lake({"k": "INT"})
    lake.insert((1,), (2,))
    store, latest = ManifestStore(lake.table), lake.table.snapshots.latest()
    assert latest is not None
    (entry,) = live_entries(store, store.data_manifests(latest))
    wrong = replace(entry, file=replace(entry.file, row_count=3))
    name, size = store.write_list(store.write([wrong]))
    snapshot = replace(latest, delta_manifest_list=name, delta_manifest_list_size=size, total_record_count=3)
    lake.table.file_io.write(lake.table.paths.snapshot(latest.id), snapshot.to_json().encode())
    assert defects(lake) == []
    for level in ("footers", "data"):
        (row,) = defects(lake, level)
        assert (row["defect"], row["found"]) == (Defect.WRONG_ROW_COUNT, "it has 2 rows, its manifest records 3")


def test_damaged_references(lake: Lake) -> None:
    paths, io = lake.table.paths, lake.table.file_io
    io.write(paths.tag("old"), b"{}")
    io.write(paths.consumer("c"), b"{")
    assert {r["path"] for r in defects(lake)} == {paths.tag("old"), paths.consumer("c")}
    io.delete(paths.tag("old"))
    io.delete(paths.consumer("c"))
    first, *_, last = lake.table.snapshots.ids()
    io.write(
        paths.snapshot(last + 2),
        io.read(paths.snapshot(last)).replace(f": {last},".encode(), f": {last + 2},".encode()),
    )
    assert Defect.SNAPSHOT_GAP in {r["defect"] for r in defects(lake)}
    assert first < last


def test_a_missing_schema(lake: Lake) -> None:
    branch = replace(lake.table, branch="dev")
    branch.file_io.delete(branch.paths.schema(0))
    branch.file_io.write(branch.paths.schema(1), lake.table.schema.to_json().replace('"id": 0', '"id": 1', 1).encode())
    assert (Defect.MISSING, branch.paths.schema(0)) in {(r["defect"], r["path"]) for r in defects(lake)}


def test_no_more_defects_than_the_limit(lake: Lake) -> None:
    for path in [p for p in needed(lake.table) if _is_data(p)]:
        lake.table.file_io.delete(path)
    found = defects(lake)
    assert len(found) > 3
    limited = lake.call("verify(table => 't', limit => 2)")
    assert [r["defect"] for r in limited] == [Defect.MISSING, Defect.MISSING, Defect.MORE]
    with pytest.raises(ArgumentError, match="limit is 0"):
        lake.call("verify(table => 't', limit => 0)")


def test_wrong_level(lake: Lake) -> None:
    with pytest.raises(ArgumentError, match="Did you mean 'footers'"):
        lake.call("verify('t', 'footer')")


def rename_files(lake: Lake, name: str) -> None:
    """Give the file of every partition one name, as a migration may leave them."""
    latest, table = lake.table.snapshots.latest(), lake.table
    assert latest is not None
    for e in live_entries(ManifestStore(table), ManifestStore(table).data_manifests(latest)):
        file = replace(e.file, file_name=name)
        data = table.file_io.read(table.paths.data_file(e.partition, e.bucket, e.file))
        table.file_io.write(table.paths.data_file(e.partition, e.bucket, file), data)
        change = CommitMessage(
            partition=e.partition,
            bucket=e.bucket,
            total_buckets=e.total_buckets,
            compact_before=(e.file,),
            compact_after=(file,),
        )
        FileStoreCommit(table, "me").commit([change])


def test_files_of_one_name_in_two_partitions() -> None:
    lake = Lake({"k": "INT", "p": "STRING"}, partition=["p"])
    lake.insert((1, "a"), (2, "b"), (3, "b"))
    rename_files(lake, "part-0.parquet")
    assert defects(lake) == []
    added = [r["name"] for r in lake.call("diff('t', '2', '3')") if r["difference"] == "files added"]
    assert len(added) == 1
    (gone,) = (p for p in lake.state() if p.endswith(f"/{added[0]}/bucket-0/part-0.parquet"))
    lake.table.file_io.delete(gone)
    assert [(d["defect"], d["path"], d["needed_by"]) for d in defects(lake)] == [("MISSING", gone, "snapshot 3")]
    assert "MISSING_FILES" in {r["finding"] for r in lake.call("doctor('t')")}


def test_files_with_a_new_index_are_live() -> None:
    lake = Lake({"k": "INT"}, file_index__in_manifest_threshold="1 mb", snapshot__num_retained__max="50")
    lake.insert((1,))
    lake.table = lake.table.with_options({"file-index.bloom-filter.columns": "k"})
    lake.call("rewrite_file_index('t')")
    assert defects(lake) == []
    (gone,) = (p for p in lake.state() if p.endswith(".parquet"))
    lake.table.file_io.delete(gone)
    assert [(d["path"], d["references"]) for d in defects(lake)] == [(gone, 2)]


@pytest.fixture
def compacted() -> Lake:
    lake = Lake({"k": "INT", "v": "INT"}, primary_key=["k"], bucket="1", write_only="true")
    for i in range(4):
        lake.insert((i, i))
    lake.call("compact('t')")
    lake.insert((5, 5))
    clear_cache()
    return lake


def expire(lake: Lake) -> None:
    lake.call("expire_snapshots(table => 't', retain_max => 1, retain_min => 1)")
    clear_cache()


def test_an_expiry_meanwhile_is_no_defect(compacted: Lake) -> None:
    class ExpiringRunner(LocalRunner):
        def run(self, kind: str, payloads: Sequence[str], *, description: str) -> Iterator[str]:
            expire(compacted)
            return super().run(kind, payloads, description=description)

    assert list(verify(compacted.table, ExpiringRunner(), Depth.METADATA)) == []
    assert [f for f in diagnose(compacted.table, LocalRunner(), compacted.now).findings if f.severity == "error"] == []
    assert compacted.table.snapshots.ids() == [6]


def test_references_that_expire_are_read_again(compacted: Lake) -> None:
    def late(table: Table) -> list[ProtectingRef]:
        refs = protecting_refs(table)
        expire(compacted)
        return refs

    found = references_of(compacted.table, late)
    assert (found.unreadable, [r.label for r in found.refs]) == ([], ["snapshot 6"])


def test_changelogs_without_files_of_compactions() -> None:
    """A changelog without a changelog file needs what its snapshot wrote, but not what a compaction wrote."""
    keep = {"changelog__num_retained__max": "100", "changelog__num_retained__min": "100"}
    lake = Lake(
        {"k": "INT", "v": "INT"},
        primary_key=["k"],
        bucket="1",
        write_only="true",
        snapshot__num_retained__min="1",
        snapshot__num_retained__max="1",
        manifest__merge_min_count="2",
        manifest__full_compaction_threshold_size="1 b",
        **keep,
    )
    for i in range(3):
        lake.insert((i, i), (i + 1, i))
        lake.call("compact('t')")
    lake.call("compact_manifest('t')")
    lake.call("expire_snapshots(table => 't', retain_max => 1, retain_min => 1)")
    changelogs = [r.snapshot for r in protecting_refs(lake.table) if r.kind == "changelog"]
    assert [(s.commit_kind, s.changelog_manifest_list) for s in changelogs][:2] == [("APPEND", None), ("COMPACT", None)]
    for level in LEVELS:
        assert defects(lake, level) == []
