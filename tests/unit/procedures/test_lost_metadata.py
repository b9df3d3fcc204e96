"""Newest snapshots and schemas that are gone: they are reported, and no cleaning removes files that need them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.errors import CorruptTableError, ErrorKind
from paimon_spark.fs.base import FileStatus
from paimon_spark.fs.local import LocalFileIO
from tests.unit.procedures.calling import Lake
from tests.unit.procedures.warehouse import Warehouse

EXPIRY = {"write_only": "true", "snapshot__num_retained__min": "1", "snapshot__num_retained__max": "2"}


@pytest.fixture
def lake() -> Lake:
    """Five snapshots, of which the last has its files alone."""
    lake = Lake({"k": "INT"}, primary_key=["k"], bucket="1", **EXPIRY)
    for i in range(5):
        lake.insert((i,))
    return lake


def lose(lake: Lake, branch: str = "main") -> str:
    table = replace(lake.table, branch=branch)
    latest = table.snapshots.latest_id()
    assert latest is not None
    path = table.paths.snapshot(latest)
    table.file_io.delete(path)
    clear_cache()
    return path


def test_a_lost_snapshot_is_reported(lake: Lake) -> None:
    path = lose(lake)
    (defect,) = lake.call("verify('t')")
    assert (defect["defect"], defect["path"]) == ("MISSING", path)
    assert "the newest snapshot is 4" in defect["found"]
    (finding,) = [f for f in lake.call("doctor('t')") if f["severity"] == "error"]
    assert finding["finding"] == "UNREADABLE"
    assert finding["found"].startswith(defect["found"])
    assert "roll the table back to snapshot 4" in finding["found"]
    assert "ORPHAN_FILES" not in {f["finding"] for f in lake.call("doctor('t')")}


@pytest.mark.parametrize("dry", ["false", "true"])
def test_no_cleaning_after_a_loss(lake: Lake, dry: str) -> None:
    path = lose(lake)
    before = lake.state()
    for older_than in ("''", "'2001-01-01'"):
        with pytest.raises(CorruptTableError) as caught:
            lake.call(f"remove_orphan_files('t', {older_than}, {dry})")
        assert caught.value.kind is ErrorKind.FILE_MISSING
        assert path in caught.value.message
    planned = lake.call("EXPLAIN CALL sys.maintain('t')")
    assert {a["action"] for a in planned} == {"warn"}
    assert any("cannot run" in a["reason"] and path in a["reason"] for a in planned)
    rows = lake.call("maintain('t')")
    assert {r["status"] for r in rows} == {"failed", "left"}
    assert all(path in r["reason"] for r in rows if r["status"] == "failed")
    assert lake.state() == before


def test_a_rollback_accepts_the_loss(lake: Lake) -> None:
    lose(lake)
    lake.call("rollback_to(table => 't', snapshot_id => 4)")
    assert lake.call("verify('t')") == []
    assert lake.one("remove_orphan_files('t')")["deletedFileCount"] > 0


def test_the_only_snapshot_is_lost(lake: Lake) -> None:
    lake.call("expire_snapshots(table => 't', retain_max => 1, retain_min => 1)")
    lose(lake)
    with pytest.raises(CorruptTableError, match="there is no snapshot"):
        lake.call("remove_orphan_files('t')")
    assert [r["defect"] for r in lake.call("verify('t')")] == ["MISSING"]


def test_a_branch_that_lost_its_newest_snapshot(lake: Lake) -> None:
    lake.call("create_tag('t', 'old')")
    lake.call("create_branch('t', 'dev', 'old')")
    replace(lake.table, branch="dev").snapshots.write_latest_hint(5)
    assert lake.call("verify('t')") == []
    path = lose(lake, "dev")
    assert [r["path"] for r in lake.call("verify('t')")] == [path]
    with pytest.raises(CorruptTableError, match="branch-dev"):
        lake.call("remove_orphan_files('t')")


@pytest.mark.parametrize("hint", [3, None, 0])
def test_a_hint_that_lags_is_no_loss(lake: Lake, hint: int | None) -> None:
    if hint is None:
        lake.table.file_io.delete(lake.table.paths.latest_hint)
    else:
        lake.table.snapshots.write_latest_hint(hint)
    assert lake.call("verify('t')") == []
    assert lake.one("remove_orphan_files('t')")["status"] == "nothing to do"


def test_a_hint_of_an_expired_snapshot_is_no_loss(lake: Lake) -> None:
    lake.call("expire_snapshots(table => 't', retain_max => 1, retain_min => 1)")
    lake.table.snapshots.write_latest_hint(2)
    assert lake.call("verify('t')") == []


def test_an_interrupted_rollback_is_no_loss(lake: Lake) -> None:
    lake.table.snapshots.begin_rollback(3)
    lake.table.file_io.delete(lake.table.paths.snapshot(5))
    assert lake.call("verify('t')") == []
    assert lake.one("remove_orphan_files('t')")["status"] == "done"
    lake.insert((9,))
    assert lake.table.snapshots.latest_id() == 4
    assert lake.call("verify('t')") == []


def test_a_table_that_lost_its_schemas(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.create("db.t")
    warehouse.insert("db.t", (1, "a"))
    warehouse.create("db.sound")
    directory = tmp_path / "db.db" / "t"
    (directory / "schema" / "schema-0").unlink()
    (tmp_path / "db.db" / "notes").mkdir()
    (finding,) = warehouse.call("doctor('db.*')")
    assert (finding["table"], finding["severity"], finding["finding"]) == ("db.t", "error", "UNREADABLE")
    (defect,) = warehouse.call("verify('db.*')")
    assert (defect["table"], defect["defect"], defect["path"]) == ("db.t", "UNREADABLE", str(directory))
    (cleaned,) = warehouse.call("remove_orphan_files(table => 'db.*', older_than => '1969-01-01')")
    assert cleaned["status"] == f"nothing to do: 1 directory without a schema left out, such as {directory}"
    (planned,) = warehouse.call("EXPLAIN CALL sys.remove_orphan_files(table => 'db.*', older_than => '1969-01-01')")
    assert (planned["action"], planned["path"]) == ("warn", str(directory))
    (left,) = warehouse.call("maintain('db.*')")
    assert (left["table"], left["status"]) == ("db.t", "left")


@dataclass(frozen=True)
class Listing(LocalFileIO):
    """Remembers the directories that were listed."""

    listed: list[str] = field(default_factory=list)

    def list(self, path: str) -> list[FileStatus]:
        self.listed.append(path)
        return super().list(path)


@pytest.mark.parametrize("name", ["doctor", "verify", "remove_orphan_files", "maintain"])
def test_a_database_is_listed_once(tmp_path: Path, name: str) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.create("db.t")
    (tmp_path / "db.db" / "t" / "snapshot").mkdir()
    (tmp_path / "db.db" / "rest" / "manifest").mkdir(parents=True)
    (tmp_path / "db.db" / "rest" / "manifest" / "manifest-1").touch()
    warehouse.file_io = Listing()
    assert "rest" in str(warehouse.call(f"{name}('db.*')"))
    assert warehouse.file_io.listed.count(str(tmp_path / "db.db")) == 1
    assert warehouse.file_io.listed.count(str(tmp_path / "db.db" / "rest" / "schema")) == 1


def test_maintain_looks_for_losses_once(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.create("db.t")
    for i in range(6):
        warehouse.insert("db.t", (i, "a"))
    (tmp_path / "db.db" / "t" / "tag" / "tag-lost").mkdir(parents=True)
    listed = []
    for call in ("doctor('t')", "EXPLAIN CALL sys.maintain('t')"):
        clear_cache()
        warehouse.file_io = Listing()
        warehouse.call(call)
        listed.append(sorted(warehouse.file_io.listed))
    assert listed[0] == listed[1]


def errors(lake: Lake) -> list[str]:
    return [f["found"] for f in lake.call("doctor('t')") if f["severity"] == "error"]


def test_a_gap_between_snapshots(lake: Lake) -> None:
    path = lake.table.paths.snapshot(3)
    lake.table.file_io.delete(path)
    assert errors(lake) == [f"{path} is missing: snapshots 2 and 4 exist, but none between them"]
    assert [r["defect"] for r in lake.call("verify('t')")] == ["SNAPSHOT_GAP"]


@pytest.mark.parametrize("name", ["snapshot/snapshot-2", "snapshot/snapshot-1", "tag/tag-old"])
def test_a_directory_in_place_of_a_file(tmp_path: Path, name: str) -> None:
    warehouse = Warehouse(tmp_path)
    warehouse.create("db.t")
    for i in range(2):
        warehouse.insert("db.t", (i, "a"))
    warehouse.call("create_tag('t', 'old', 1)")
    place = tmp_path / "db.db" / "t" / name
    place.unlink()
    place.mkdir()
    (finding,) = (f for f in warehouse.call("doctor('t')") if f["severity"] == "error")
    assert str(place) in finding["found"]
    assert [(r["defect"], r["path"]) for r in warehouse.call("verify('t')")] == [("UNREADABLE", str(place))]
    with pytest.raises(CorruptTableError, match="is a directory"):
        warehouse.call("remove_orphan_files(table => 't', older_than => '1969-01-01')")


def test_a_broken_tag_states_how_to_give_it_up() -> None:
    lake = Lake({"k": "INT", "v": "INT"})
    lake.insert((1, 1))
    lake.call("create_tag('t', 'a')")
    path = lake.table.paths.tag("a")
    lake.table.file_io.write(path, b"{")
    for text in ("delete_tag('t', 'a')", "remove_orphan_files('t')"):
        with pytest.raises(
            CorruptTableError, match=rf"The tag file {path} is malformed.*give up the tag, delete the file"
        ):
            lake.call(text)
    lake.table.file_io.delete(path)
    assert lake.call("doctor('t')") == []
