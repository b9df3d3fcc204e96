"""remove_orphan_files."""

from __future__ import annotations

import pytest

from paimon_spark.calls.plan import MOST_LISTED
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.errors import ArgumentError, NotFoundError, PaimonError
from tests.unit.core.history import leaked, lost
from tests.unit.procedures.calling import NOW, Lake


@pytest.fixture
def lake() -> Lake:
    """Two partitions in dynamic buckets, rolled back from snapshot 5 to 3."""
    lake = Lake({"p": "INT", "k": "INT", "v": "INT"}, primary_key=["p", "k"], partition=["p"])
    for i in range(5):
        lake.insert((i % 2, i, i), (i % 2, 1, i))
    lake.call("compact('t')")
    lake.call("rollback_to(table => 't', snapshot_id => 3, trash => false)")
    clear_cache()
    return lake


def test_forms_and_answers(lake: Lake) -> None:
    garbage = leaked(lake.table)
    assert garbage
    before = lake.state()
    size = sum(len(before[p]) for p in garbage)
    for dry in ("'t', '2099-12-30 00:00:00', true", "table => 'db.t', dry_run => true", "'t', '', 'true', '', 'LOCAL'"):
        rows = lake.call(f"remove_orphan_files({dry})")
        assert {r["path"] for r in rows} == garbage
        assert {(r["deletedFileCount"], r["deletedFileTotalLenInBytes"], r["status"]) for r in rows} == {
            (len(garbage), size, "dry run")
        }
        assert list(rows[0])[:3] == ["deletedFileCount", "deletedFileTotalLenInBytes", "path"]
    explained = lake.call("EXPLAIN CALL sys.remove_orphan_files('t')")
    assert {a["path"] for a in explained if a["bytes"]} == garbage
    assert lake.state() == before
    row = lake.one("CALL remove_orphan_files('db.t')")
    assert (row["deletedFileCount"], row["deletedFileTotalLenInBytes"], row["path"]) == (len(garbage), size, None)
    assert (row["status"], row["files_in"], row["bytes_in"], row["snapshot_after"]) == ("done", len(garbage), size, 3)
    assert set(before) - set(lake.state()) == garbage
    clear_cache()
    assert (leaked(lake.table), lost(lake.table)) == (set(), set())
    again = lake.one("remove_orphan_files(table => 't', dry_run => false)")
    assert (again["deletedFileCount"], again["status"]) == (0, "nothing to do")
    assert lake.one("remove_orphan_files(table => 't', dry_run => true)")["path"] is None


def test_a_long_dry_run_lists_the_first_files(lake: Lake) -> None:
    garbage = leaked(lake.table)
    directory = min(p for p in garbage if "/bucket-" in p).rpartition("/")[0]
    for number in range(MOST_LISTED):
        lake.table.file_io.create_exclusive(f"{directory}/data-{number}-0.parquet", b"")
    rows = lake.call("remove_orphan_files('t', '', true)")
    count = MOST_LISTED + len(garbage)
    assert len(rows) == len({r["path"] for r in rows}) == MOST_LISTED
    assert (rows[0]["deletedFileCount"], rows[-1]["deletedFileCount"]) == (count, count)
    assert rows[0]["status"] == f"dry run, which lists {MOST_LISTED} of {count} files"


def test_young_files_stay(lake: Lake) -> None:
    lake.now = max(lake.table.file_io.status(p).mtime_ms for p in leaked(lake.table)) + 1000
    assert lake.one("remove_orphan_files('t')")["deletedFileCount"] == 0
    lake.now += 24 * 3_600_000
    assert lake.one("remove_orphan_files('t', '2001-01-01')")["deletedFileCount"] == 0
    assert lake.one("remove_orphan_files(table => 't', parallelism => 3, mode => 'local')")["deletedFileCount"] > 0


def test_a_whole_database(lake: Lake) -> None:
    count = len(leaked(lake.table))
    assert len(lake.call("remove_orphan_files('paimon.db.*', '', true)")) == count
    row = lake.one("remove_orphan_files('db.*')")
    assert row["deletedFileCount"] == count
    assert lake.one("remove_orphan_files('empty.*')")["deletedFileCount"] == 0


@pytest.mark.parametrize(
    ("arguments", "error", "part"),
    [
        ("'t', '2999-01-01 00:00:00'", ArgumentError, "not in the past"),
        ("'t', 'x'", ArgumentError, "older_than"),
        ("table => 't', mode => 'lokal'", ArgumentError, "Did you mean 'LOCAL'"),
        ("table => 't', parallelism => 0", ArgumentError, "parallelism is 0"),
        ("'t$branch_b'", ArgumentError, "name the table itself, 'db.t'"),
        ("'t$files'", ArgumentError, "system table"),
        ("'other.db.*'", ArgumentError, "names the catalog 'other'"),
        ("'..*'", ArgumentError, "not a table name"),
        ("'`..`.*'", ArgumentError, "is a path"),
        ("'db.nope'", NotFoundError, "nope"),
        ("dry_run => true", ArgumentError, "lacks the required argument table"),
    ],
)
def test_wrong_arguments_are_errors_and_change_nothing(
    lake: Lake, arguments: str, error: type[PaimonError], part: str
) -> None:
    before = lake.state()
    with pytest.raises(error) as caught:
        lake.call(f"remove_orphan_files({arguments})")
    assert part in str(caught.value)
    assert lake.state() == before
    assert lake.now == NOW
