"""Damaged tables: errors name the file and a remedy, and no wrong row is ever returned."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.table import Table
from paimon_spark.engine.select import plan_select
from paimon_spark.errors import CorruptTableError, ErrorKind, NotFoundError, PaimonError, UnsupportedError
from paimon_spark.spec.identifier import Identifier
from paimon_spark.testing.tables import read_arrow
from tests.tables.plain import DATABASE, keys, rows_of, unpacked

SAMPLES = Path(__file__).parents[2] / "tables"
Change = Callable[[bytes], bytes]
GARBAGE = bytes((i * 37 + 11) % 256 for i in range(300))


@dataclass(frozen=True)
class Place:
    """One unpacked sample table."""

    root: Path
    name: str
    load: Callable[[], Table]

    def rows(self, **travel: Any) -> list[str]:
        clear_cache()
        return keys(rows_of(read_arrow(self.load(), **travel)))

    def one(self, pattern: str) -> Path:
        return sorted(self.root.glob(pattern))[0]

    def newest(self, key: str) -> Path:
        table = self.load()
        snapshot = table.snapshots.latest()
        return self.root / "manifest" / str(getattr(snapshot, key))


def unpack(name: str, where: Path) -> Place:
    catalog = unpacked(SAMPLES / f"{name}.tar.gz", where)
    return Place(where / f"{DATABASE}.db" / name, name, lambda: catalog.load_table(Identifier(DATABASE, name)))


@pytest.fixture
def compacted(tmp_path: Path) -> Iterator[Place]:
    """A table with a tag, a compaction and rows on top; afterwards it must read as before."""
    place = unpack("pk_compacted", tmp_path / "warehouse")
    spare = tmp_path / "spare"
    shutil.copytree(place.root, spare)
    before = place.rows()
    yield place
    shutil.rmtree(place.root)
    shutil.copytree(spare, place.root)
    assert place.rows() == before


def assert_told(failed: pytest.ExceptionInfo[PaimonError], path: Path, kind: ErrorKind) -> None:
    assert failed.value.kind is kind
    assert str(path) in str(failed.value)
    assert failed.value.hint


def failure(place: Place, **travel: Any) -> PaimonError | None:
    try:
        place.rows(**travel)
    except PaimonError as e:
        return e
    return None


def cut(share: float) -> Change:
    return lambda data: data[: int(len(data) * share)]


DAMAGE: dict[str, Change] = {
    "empty": lambda _: b"",
    "first byte": lambda data: data[:1],
    "cut early": cut(0.1),
    "cut in the middle": cut(0.5),
    "cut late": cut(0.9),
    "last byte": lambda data: data[:-1],
    "garbage": lambda _: GARBAGE,
    "zeros": lambda data: bytes(len(data)),
    "text": lambda _: b"hello",
}
JSON_DAMAGE: dict[str, Change] = {
    "list": lambda _: b"[]",
    "null": lambda _: b"null",
    "number": lambda _: b"17",
    "object": lambda _: b"{}",
    "deep": lambda _: b"[" * 100_000,
    "long number": lambda _: b"1" * 10_000,
    "no UTF-8": lambda data: data.replace(b'"id"', b'"\xff\xfe"'),
}
both = pytest.mark.parametrize("change", [*DAMAGE.values(), *JSON_DAMAGE.values()], ids=[*DAMAGE, *JSON_DAMAGE])
binary = pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE)


class TestMetadata:
    @both
    @pytest.mark.parametrize("name", ["snapshot/snapshot-4", "schema/schema-0"])
    def test_json_files(self, compacted: Place, name: str, change: Change) -> None:
        path = compacted.root / name
        path.write_bytes(change(path.read_bytes()))
        with pytest.raises(CorruptTableError) as failed:
            compacted.rows()
        assert_told(failed, path, ErrorKind.CORRUPT_METADATA)
        if "snapshot" in name:
            assert compacted.rows(version=1)

    @both
    def test_tag(self, compacted: Place, change: Change) -> None:
        path = compacted.root / "tag" / "tag-before"
        path.write_bytes(change(path.read_bytes()))
        with pytest.raises(CorruptTableError) as failed:
            compacted.rows(version="before")
        assert_told(failed, path, ErrorKind.CORRUPT_METADATA)
        assert compacted.rows()

    @binary
    @pytest.mark.parametrize("key", ["base_manifest_list", "delta_manifest_list"])
    def test_manifest_lists(self, compacted: Place, key: str, change: Change) -> None:
        path = compacted.newest(key)
        path.write_bytes(change(path.read_bytes()))
        with pytest.raises(CorruptTableError) as failed:
            compacted.rows()
        assert_told(failed, path, ErrorKind.CORRUPT_METADATA)

    @binary
    def test_manifests(self, compacted: Place, change: Change) -> None:
        for path in (p for p in compacted.root.glob("manifest/manifest-*") if "list" not in p.name):
            data = path.read_bytes()
            path.write_bytes(change(data))
            failures = [f for f in (failure(compacted, version=s) for s in (1, 2, 3, 4)) if f is not None]
            assert failures
            assert all(isinstance(f, CorruptTableError) and str(path) in str(f) and f.hint for f in failures)
            path.write_bytes(data)

    @pytest.mark.parametrize("pattern", ["base_manifest_list", "manifest"])
    @pytest.mark.parametrize("directory", [False, True])
    def test_missing_manifests(self, compacted: Place, pattern: str, *, directory: bool) -> None:
        path = compacted.newest(pattern) if pattern != "manifest" else self._needed(compacted)
        path.unlink()
        if directory:
            path.mkdir()
        with pytest.raises(CorruptTableError) as failed:
            compacted.rows()
        assert_told(failed, path, ErrorKind.CORRUPT_METADATA if directory else ErrorKind.FILE_MISSING)

    @staticmethod
    def _needed(place: Place) -> Path:
        from paimon_spark.core.metadata.manifest_store import ManifestStore

        table = place.load()
        snapshot = table.snapshots.latest()
        assert snapshot is not None
        return place.root / "manifest" / ManifestStore(table).data_manifests(snapshot)[-1].file_name

    @pytest.mark.parametrize("value", [None, -1, 10**30, 1.5, True, "x", [], {}, ["x"]], ids=repr)
    @pytest.mark.parametrize("key", ["id", "schemaId", "baseManifestList", "commitKind", "timeMillis", "version"])
    def test_snapshot_values_of_a_wrong_type(self, compacted: Place, key: str, value: Any) -> None:
        path = compacted.root / "snapshot" / "snapshot-4"
        path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
        failed = failure(compacted)
        if (key, value) in (("version", None), ("version", -1), ("timeMillis", -1)):
            assert failed is None
            return
        assert isinstance(failed, CorruptTableError)
        assert failed.hint
        if (key, value) == ("baseManifestList", "x"):
            assert failed.kind is ErrorKind.FILE_MISSING
        else:
            assert str(path) in str(failed)
            assert key in str(failed) or "commit kind" in str(failed)

    @pytest.mark.parametrize("name", ["", ".", "..", "../../x", "/etc/passwd"])
    def test_a_snapshot_names_files_not_paths(self, compacted: Place, name: str) -> None:
        path = compacted.root / "snapshot" / "snapshot-4"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"deltaManifestList": name}))
        with pytest.raises(CorruptTableError) as failed:
            compacted.rows()
        assert_told(failed, path, ErrorKind.CORRUPT_METADATA)

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("id", "0"),
            ("id", 7),
            ("fields", {}),
            ("fields", None),
            ("fields", [{"id": 0, "name": "id", "type": "INT NOT NULL"}, {"id": 0, "name": "v", "type": "STRING"}]),
            ("fields", [{"id": 0, "name": "id", "type": "INT NOT NULL"}, {"id": 1, "name": "id", "type": "STRING"}]),
            ("fields", [{"id": 0, "name": "id", "type": "NUMBER"}]),
            ("fields", [{"id": 0, "name": "id", "type": "DECIMAL(99, 3)"}]),
            ("fields", [{"id": 0, "name": "id", "type": {"type": "ROW", "fields": 3}}]),
            ("fields", [{"id": "0", "name": "id", "type": "INT"}]),
            ("fields", [{"id": 0, "name": None, "type": "INT"}]),
            ("highestFieldId", "x"),
            ("partitionKeys", ""),
            ("primaryKeys", {}),
            ("primaryKeys", ["nobody"]),
            ("options", []),
            ("options", {"bucket": None}),
            ("timeMillis", "now"),
            ("comment", 3),
            ("version", -1),
        ],
    )
    def test_schema_values_of_a_wrong_type(self, compacted: Place, key: str, value: Any) -> None:
        path = compacted.root / "schema" / "schema-0"
        path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
        with pytest.raises(CorruptTableError) as failed:
            compacted.rows()
        assert_told(failed, path, ErrorKind.CORRUPT_METADATA)

    def test_a_schema_of_a_later_format(self, compacted: Place) -> None:
        path = compacted.root / "schema" / "schema-0"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 4}))
        with pytest.raises(UnsupportedError, match="version 4") as failed:
            compacted.rows()
        assert_told(failed, path, ErrorKind.UNSUPPORTED_FEATURE)

    def test_partition_columns_that_the_manifests_do_not_have(self, compacted: Place) -> None:
        path = compacted.root / "schema" / "schema-0"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"partitionKeys": ["v"]}))
        with pytest.raises(CorruptTableError, match="names a partition of 0 columns"):
            compacted.rows()

    def test_a_missing_schema_of_a_snapshot(self, compacted: Place) -> None:
        (compacted.root / "schema" / "schema-0").rename(compacted.root / "schema" / "schema-1")
        with pytest.raises(CorruptTableError, match="its id is 0"):
            compacted.rows()


class TestDataFiles:
    @pytest.mark.parametrize("name", ["pk_compacted", "pk_orc", "append_unaware", "pk_dynamic"])
    @binary
    def test_damaged(self, tmp_path: Path, name: str, change: Change) -> None:
        place = unpack(name, tmp_path / "warehouse")
        before = place.rows()
        live = {f.file_name for s in plan_select(place.load()).splits for f in s.files}
        for path in sorted(p for p in place.root.glob("**/data-*") if p.name in live):
            data = path.read_bytes()
            path.write_bytes(change(data))
            with pytest.raises(CorruptTableError) as failed:
                place.rows()
            assert_told(failed, path, ErrorKind.CORRUPT_DATA_FILE)
            path.write_bytes(data)
        assert place.rows() == before

    @pytest.mark.parametrize("name", ["pk_compacted", "pk_orc", "append_bucketed"])
    def test_missing(self, tmp_path: Path, name: str) -> None:
        place = unpack(name, tmp_path / "warehouse")
        live = {f.file_name for s in plan_select(place.load()).splits for f in s.files}
        path = next(p for p in sorted(place.root.glob("**/data-*")) if p.name in live)
        path.unlink()
        with pytest.raises(CorruptTableError) as failed:
            place.rows()
        assert_told(failed, path, ErrorKind.FILE_MISSING)

    def test_a_file_of_another_snapshot_under_its_name(self, compacted: Place) -> None:
        split = plan_select(compacted.load()).splits[0]
        live = next(compacted.root / "bucket-0" / f.file_name for f in split.files if f.row_count == 2)
        other = next(p for p in compacted.root.glob("bucket-0/data-*") if p.stat().st_size and self._rows(p) == 3)
        live.write_bytes(other.read_bytes())
        with pytest.raises(CorruptTableError, match="has 3 rows, but its manifest records 2") as failed:
            compacted.rows()
        assert_told(failed, live, ErrorKind.CORRUPT_DATA_FILE)

    @staticmethod
    def _rows(path: Path) -> int:
        import pyarrow.parquet as pq

        return int(pq.read_metadata(path).num_rows)


class TestStrayFiles:
    def test_names_that_are_no_snapshots_and_no_schemas(self, compacted: Place) -> None:
        before, root = compacted.rows(), compacted.root
        for name in (
            "snapshot-2.tmp",
            "snapshot-9.tmp",
            ".snapshot-9.6f1b.tmp",
            "snapshot-",
            "snapshot-x",
            "snapshot-\uff19",
        ):
            (root / "snapshot" / name).write_bytes(b"half a sna")
        for name in ("schema-1.tmp", ".schema-1.0a.tmp", "schema-", "schema-one"):
            (root / "schema" / name).write_bytes(b"{")
        (root / "snapshot" / "snapshot-77").mkdir()
        (root / "schema" / "schema-8").mkdir()
        (root / "manifest" / "manifest-stray").write_bytes(GARBAGE)
        (root / "bucket-0" / "data-stray-0.parquet").write_bytes(GARBAGE)
        (root / "bucket-0" / ".data-stray-1.parquet.tmp").write_bytes(b"")
        (root / "tag" / ".tag-x.tmp").write_bytes(b"")
        (root / "bucket-99").mkdir()
        assert compacted.rows() == before
        assert compacted.load().snapshots.ids() == [1, 2, 3, 4]
        assert compacted.load().schema_store.ids() == [0]

    @pytest.mark.parametrize(
        "hint",
        [b"", b"x", b"1", b"3", b"5", b"99", b"-1", b"4 ", b"4\n", b"0", b"1" * 5000, "\uff14".encode(), b"\xff\x00"],
    )
    @pytest.mark.parametrize("name", ["LATEST", "EARLIEST"])
    def test_hints_are_only_hints(self, compacted: Place, name: str, hint: bytes) -> None:
        before, path = compacted.rows(), compacted.root / "snapshot" / name
        path.write_bytes(hint)
        assert compacted.rows() == before
        assert compacted.rows(timestamp_millis=4_102_444_800_000) == before
        path.unlink()
        assert compacted.rows() == before
        path.mkdir()
        assert compacted.rows() == before

    def test_a_directory_in_place_of_the_newest_snapshot(self, compacted: Place) -> None:
        path = compacted.root / "snapshot" / "snapshot-4"
        path.unlink()
        path.mkdir()
        with pytest.raises(PaimonError) as failed:
            compacted.rows()
        assert_told(failed, path, ErrorKind.CORRUPT_METADATA)

    def test_a_snapshot_that_is_gone_from_the_middle(self, compacted: Place) -> None:
        before = compacted.rows()
        (compacted.root / "snapshot" / "snapshot-2").unlink()
        assert compacted.rows() == before
        with pytest.raises(NotFoundError, match="Snapshot 2 does not exist"):
            compacted.rows(version=2)
