"""The procedures over branches."""

from __future__ import annotations

import pytest

from paimon_spark.core.metadata.branches import branch_names, on_branch
from paimon_spark.errors import PaimonError
from tests.unit.procedures.calling import Lake


@pytest.fixture
def lake() -> Lake:
    lake = Lake({"k": "INT", "v": "INT"}, primary_key=["k"], bucket="1", write_only="true")
    for i in range(3):
        lake.insert((1, i))
    lake.call("create_tag('t', 'a', 2)")
    return lake


def test_forms_of_create_branch(lake: Lake) -> None:
    row = lake.one("create_branch('t', 'b1', 'a')")
    assert (row["result"], row["status"], row["files_out"], row["snapshot_after"]) == (True, "done", 3, 3)
    assert lake.one("create_branch('t', 'b1', true)")["status"] == "nothing to do"
    lake.call("create_branch('t', 'b2')")
    lake.call("create_branch('t', 'b3', 'a', false)")
    lake.call("create_branch(table => 't', branch => 'b4', ignoreIfExists => 'true')")
    lake.call("create_branch(table => 't', branch => 'b5', snapshot => 1)")
    assert branch_names(lake.table) == ["b1", "b2", "b3", "b4", "b5"]
    assert on_branch(lake.table, "b5").snapshots.ids() == [1]
    with pytest.raises(PaimonError, match="BRANCH_EXISTS"):
        lake.call("create_branch('t', 'b1')")


def test_a_plan_of_a_branch_lists_its_files_and_writes_none(lake: Lake) -> None:
    before = lake.state()
    plan = lake.call("EXPLAIN CALL sys.create_branch('t', 'b', 'a')")
    assert [r["path"].rpartition("/")[2] for r in plan] == ["tag-a", "snapshot-2", "schema-0"]
    assert lake.state() == before


def test_renaming_and_deleting(lake: Lake) -> None:
    lake.call("create_branch('t', 'b', 'a')")
    lake.call("create_branch('t', 'c')")
    assert lake.one("rename_branch('t', 'b', 'd')")["status"] == "done"
    assert lake.one("delete_branch('t', 'd, c')")["files_in"] == 4
    assert branch_names(lake.table) == []
    with pytest.raises(PaimonError, match="BRANCH_NOT_FOUND"):
        lake.call("delete_branch('t', 'd')")


def test_fast_forward_reports_the_snapshots(lake: Lake) -> None:
    lake.call("create_branch('t', 'b', 'a')")
    row = lake.one("fast_forward('t', 'b')")
    assert (row["snapshot_before"], row["snapshot_after"], row["files_in"]) == (3, 2, 1)
    assert lake.one("fast_forward('t', 'b')")["status"] == "nothing to do"


def test_merge_branch_reports_files_and_rows() -> None:
    lake = Lake({"k": "INT"})
    lake.insert((1,))
    lake.call("create_tag('t', 'a')")
    lake.call("create_branch('t', 'b', 'a')")
    lake.insert((2,), (3,))
    row = lake.one("merge_branch('t', 'main', 'b')")
    assert (row["snapshot_before"], row["snapshot_after"], row["files_out"], row["rows"]) == (1, 2, 1, 2)
    assert lake.one("merge_branch('t', 'b')")["status"] == "nothing to do"


def test_a_branch_of_upserts_is_not_merged() -> None:
    lake = Lake({"k": "INT"}, upsert_key="k")
    lake.insert((1,))
    lake.call("create_branch(table => 't', branch => 'b', snapshot => 1)")
    with pytest.raises(PaimonError, match=r"UNSUPPORTED_FEATURE.*upsert-key"):
        lake.call("merge_branch('t', 'b')")


def test_missing_arguments_are_named(lake: Lake) -> None:
    for call, missing in (
        ("create_branch()", "table, branch"),
        ("rename_branch('t')", "from_branch, to_branch"),
        ("merge_branch('t')", "source_branch"),
        ("fast_forward('t', '')", "branch"),
    ):
        with pytest.raises(PaimonError, match=missing):
            lake.call(call)
