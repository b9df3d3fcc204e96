from __future__ import annotations

import pytest

from paimon_spark.core.scan.scan import scan
from paimon_spark.errors import (
    ArgumentError,
    EngineError,
    ErrorKind,
    NotFoundError,
    OptionError,
    PaimonError,
    UnsupportedError,
)
from tests.unit.procedures.calling import Lake


def levels(lake: Lake) -> dict[str, list[int]]:
    out: dict[str, list[int]] = {}
    for e in scan(lake.table, lake.table.snapshots.latest()).entries:
        out.setdefault(lake.table.partition_text(e.partition).strip("/"), []).append(e.file.level)
    return {k: sorted(v) for k, v in out.items()}


@pytest.fixture
def flat() -> Lake:
    lake = Lake({"k": "INT", "v": "STRING"}, primary_key=["k"], bucket="1", write_only="true")
    for i in range(3):
        lake.insert((1, f"v{i}"), (i + 10, "x"))
    return lake


@pytest.fixture
def parts() -> Lake:
    lake = Lake(
        {"p": "STRING", "k": "INT", "v": "STRING"},
        primary_key=["p", "k"],
        partition=["p"],
        bucket="1",
        write_only="true",
    )
    for i in range(2):
        lake.insert(("a", 1, f"v{i}"), ("b", 1, f"v{i}"), ("c", 1, f"v{i}"))
    return lake


def test_full_compaction_and_its_truth(flat: Lake) -> None:
    row = flat.one("compact('db.t')")
    assert row["result"] is True
    assert (row["status"], row["snapshot_before"], row["snapshot_after"]) == ("done", 3, 4)
    assert (row["files_in"], row["files_out"], row["rows"]) == (3, 1, 4)
    assert row["bytes_in"] > row["bytes_out"] > 0
    assert levels(flat) == {"": [5]}
    assert flat.progress == [(0, 1, "compact db.t"), (1, 1, "compact db.t")]


def test_again_there_is_nothing_to_do(flat: Lake) -> None:
    flat.call("compact('t')")
    row = flat.one("compact(table => 'paimon.db.t')")
    assert (row["status"], row["snapshot_before"], row["snapshot_after"]) == ("nothing to do", 4, 4)
    assert flat.table.snapshots.latest_id() == 4


@pytest.mark.parametrize("text", ["EXPLAIN CALL sys.compact('t')", "CALL sys.compact(table => 't', dry_run => true)"])
def test_the_plan_is_exact_and_changes_nothing(flat: Lake, text: str) -> None:
    before = flat.state()
    plan = flat.call(text)
    assert flat.state() == before
    assert [a["action"] for a in plan] == ["rewrite"] * 3
    assert "3 files are merged into level 5" in plan[0]["reason"]
    assert {a["path"]: a["bytes"] for a in plan}.items() <= {p: len(d) for p, d in before.items()}.items()
    assert flat.one("compact('t')")["bytes_in"] == sum(a["bytes"] for a in plan)


def test_a_lone_file_moves_up_without_being_rewritten() -> None:
    lake = Lake({"k": "INT"}, primary_key=["k"], bucket="1", write_only="true")
    lake.insert((1,))
    (action,) = lake.call("EXPLAIN CALL sys.compact('t')")
    assert action["action"] == "upgrade"
    assert "moves from level 0 to 5" in action["reason"]
    row = lake.one("compact('t')")
    assert row["status"] == "upgraded", "which is why there are no bytes"
    assert (row["files_in"], row["files_out"], row["bytes_in"], row["bytes_out"]) == (1, 1, 0, 0)
    assert lake.one("compact('t')")["status"] == "nothing to do"


def test_a_compaction_that_also_merges_is_done(parts: Lake) -> None:
    parts.insert(("d", 1, "alone"))
    row = parts.one("compact('t')")
    assert (row["status"], row["files_in"], row["files_out"]) == ("done", 7, 4)
    assert row["bytes_out"] > 0


@pytest.mark.parametrize(
    ("arguments", "compacted"),
    [
        ("'t', 'p=a'", {"a"}),
        ("'t', 'p=a;p=b'", {"a", "b"}),
        ("'t', 'p=a', '', '', 'sink.parallelism=4'", {"a"}),
        ("'t', '', '', '', ''", {"a", "b", "c"}),
        ("table => 't', where => 'p > \\'a\\''", {"b", "c"}),
        ("table => 't', partition_idle_time => '1 h'", {"a", "b", "c"}),
        ("table => 't', partition_idle_time => '100000 d'", set()),
        ("table => 't', compact_strategy => 'MINOR'", set()),
        (
            "table => 't', compact_strategy => 'minor', options => 'num-sorted-run.compaction-trigger=2'",
            {"a", "b", "c"},
        ),
    ],
)
def test_what_is_selected(parts: Lake, arguments: str, compacted: set[str]) -> None:
    row = parts.one(f"compact({arguments})")
    assert {p.removeprefix("p=") for p, found in levels(parts).items() if found != [0, 0]} == compacted
    assert row["status"] == ("done" if compacted else "nothing to do")


@pytest.mark.parametrize(
    ("arguments", "compacted", "status"),
    [
        ("'t', 'p=zzz'", set(), "nothing to do: no partition matches p=zzz. There are: 'p=a', 'p=b', 'p=c'."),
        ("'t', 'P=aa'", set(), "nothing to do: no partition matches P=aa. Did you mean 'p=a'?"),
        ("'t', 'p=a;p=bb'", {"a"}, "done: no partition matches p=bb. Did you mean 'p=b'?"),
        (
            "table => 't', where => 'p > \\'d\\''",
            set(),
            "nothing to do: no partition matches p > 'd'. There are: 'p=a', 'p=b', 'p=c'.",
        ),
        (
            "table => 't', partitions => 'p=zzz', partition_idle_time => '1 ms'",
            set(),
            "nothing to do: no partition matches p=zzz. There are: 'p=a', 'p=b', 'p=c'.",
        ),
        ("table => 't', partitions => 'p=a', partition_idle_time => '100000 d'", set(), "nothing to do"),
    ],
)
def test_a_partition_that_is_not_there_is_told(parts: Lake, arguments: str, compacted: set[str], status: str) -> None:
    plan = parts.call(f"EXPLAIN CALL sys.compact({arguments})")
    warned = [a["reason"] for a in plan if a["action"] == "warn"]
    assert warned == [s for s in [status.partition(": ")[2]] if s]
    assert parts.one(f"compact({arguments})")["status"] == status
    assert {p.removeprefix("p=") for p, found in levels(parts).items() if found != [0, 0]} == compacted


def test_a_table_without_partitions_yet_says_so() -> None:
    lake = Lake({"p": "STRING", "k": "INT"}, primary_key=["p", "k"], partition=["p"], bucket="1")
    status = lake.one("compact('t', 'p=a')")["status"]
    assert status == "nothing to do: no partition matches p=a. The table has no partitions."


def test_small_files_of_an_append_table() -> None:
    lake = Lake({"k": "INT"}, write_only="true")
    for i in range(5):
        lake.insert((i,))
    row = lake.one("compact('t')")
    assert (row["status"], row["files_in"], row["files_out"], row["rows"]) == ("done", 5, 1, 5)


def test_an_empty_table() -> None:
    lake = Lake({"k": "INT"}, primary_key=["k"], bucket="1")
    row = lake.one("compact('t')")
    assert (row["status"], row["snapshot_before"], row["snapshot_after"]) == ("nothing to do", None, None)
    assert lake.call("EXPLAIN CALL sys.compact('t')") == []


@pytest.mark.parametrize(
    ("arguments", "error", "part"),
    [
        ("'t', '', 'zorder', '', ''", ArgumentError, "'zorder' needs order_by"),
        ("'t', '', '', 'k', ''", ArgumentError, "order_by (k) needs an order_strategy"),
        ("'t', '', 'none', 'k', ''", ArgumentError, "order_by (k) needs an order_strategy"),
        ("'t', 'sideways', 'k'", ArgumentError, "'sideways'; the choices are none, order"),
        (
            "table => 't', order_strategy => 'order', order_by => 'k', partition_idle_time => '1 h'",
            ArgumentError,
            "idle",
        ),
        ("table => 't', compact_strategy => 'half'", ArgumentError, "'half'; the choices are full, minor"),
        ("table => 't', partitions => 'p=a', where => 'p=1'", ArgumentError, "cannot be given together"),
        ("table => 'nosuch'", NotFoundError, "db.nosuch"),
        ("table => 'other.db.t'", ArgumentError, "the catalog 'other', but the CALL runs in the catalog 'paimon'"),
        ("table => 'a.b.c.d'", ArgumentError, "not a table name"),
        ("table => 't$files'", ArgumentError, "system table"),
        ("table => ''", ArgumentError, "lacks the required argument table"),
        ("'t', 'order', 'p'", ArgumentError, "partition columns (p)"),
        ("'t', 'order', 'nope'", NotFoundError, "Column 'nope' does not exist"),
        ("'t', 'zorder', 'k,v'", UnsupportedError, "has a primary key"),
        ("'t', 'q=1'", ArgumentError, "the partition columns are [p]"),
        ("'t', 'rubbish'", ArgumentError, "not a 'key=value' pair"),
        ("table => 't', where => 'k > 1'", ArgumentError, "only partition columns [p]"),
        ("table => 't', options => 'bad'", ArgumentError, "'bad' in the argument 'options'"),
        ("table => 't', options => 'target-file-sise=1 mb'", OptionError, "target-file-size"),
        ("table => 't', options => 'target-file-size=much'", OptionError, "much"),
        ("table => 't', options => 'header=1'", OptionError, "no table option 'header'"),
        ("table => 't', options => 'scan.bucket=0'", OptionError, "does not apply to a CALL"),
        ("table => 't', options => 'lookup.async=true'", OptionError, "has no effect on Spark"),
        ("table => 't', options => 'cache-page-size=8 kb'", OptionError, "it has no effect here"),
        ("table => 't', options => 'row-tracking.enabled=true'", OptionError, "'row-tracking.enabled'"),
        ("table => 't', options => 'target-file-size=1 mb,bucket=9'", OptionError, "ALTER TABLE"),
        ("table => 't', partition_idle_time => 'x'", ArgumentError, "'partition_idle_time': 'x'"),
    ],
)
def test_bad_input(parts: Lake, arguments: str, error: type[PaimonError], part: str) -> None:
    before = parts.state()
    with pytest.raises(error) as caught:
        parts.call(f"compact({arguments})")
    assert part in str(caught.value)
    assert parts.state() == before


def test_sorting_is_planned_anywhere_and_done_by_spark() -> None:
    lake = Lake({"k": "INT", "V": "STRING", "p": "INT"}, partition=["p"])
    lake.insert((1, "a", 1), (2, "b", 2))
    plan = lake.call("EXPLAIN CALL sys.compact('t', 'p=2', 'hilbert', 'K, v', 'sink.parallelism=3')")
    assert [(r["action"], r["reason"]) for r in plan] == [("rewrite", "p=2: sorted by k, V (hilbert) in 3 ranges")]
    with pytest.raises(EngineError, match="runs without it") as caught:
        lake.call("compact('t', 'order', 'k')")
    assert caught.value.kind is ErrorKind.ENVIRONMENT
    assert lake.one("compact('t', 'none', '')")["status"] == "nothing to do"


def test_partitions_of_a_flat_table(flat: Lake) -> None:
    for argument in ("partitions => 'p=1'", "where => 'k > 1'"):
        with pytest.raises(ArgumentError, match="needs a partitioned table") as caught:
            flat.call(f"compact(table => 't', {argument})")
        assert caught.value.kind is ErrorKind.INVALID_ARGUMENT


def test_clustered_tables_are_compacted_by_what_is_due() -> None:
    lake = Lake({"k": "INT", "v": "STRING"}, clustering__incremental="true", clustering__columns="k,v")
    for i in range(6):
        lake.insert((9 - i, "x"), (i, "y"))
    with pytest.raises(ArgumentError, match=r"'clustering\.incremental' set, which does not work with order_strategy"):
        lake.call("compact('t', 'order', 'k')")
    with pytest.raises(OptionError, match=r"clustering\.columns"):
        lake.call("compact(table => 't', options => 'clustering.columns=v')")
    plan = lake.call("EXPLAIN CALL sys.compact('t')")
    assert {a["reason"] for a in plan} == {
        "bucket 0: 6 files are sorted by k, v (zorder) into level 5 (size-amplification)"
    }
    row = lake.one("compact('t')")
    assert (row["status"], row["files_in"], row["files_out"], levels(lake)) == ("done", 6, 1, {"": [5]})
    lake.insert((1, "z"))
    assert lake.one("compact('t')")["status"] == "nothing to do"
    assert [r["status"] for r in lake.call("compact_database()")] == [None, "nothing to do"]
    row = lake.one(
        "compact(table => 't', compact_strategy => 'full', options => 'clustering.incremental.mode=local-sort')"
    )
    assert (row["status"], levels(lake)) == ("done", {"": [5]})
    assert lake.table.snapshots.latest_id() == 9
