"""Chain tables: reads that merge branches, overwrites, compaction and expiry."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.metadata.branches import on_branch
from paimon_spark.core.table import Table
from paimon_spark.engine.aggregates import Aggregate, Aggregation, Function, aggregated
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.expiry.partition_expiry import execute_partition_expiry, plan_partition_expiry
from paimon_spark.engine.fallback import plan_reads, total_rows
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.redistribution.chain_compact import execute_chain_compaction, plan_chain_compaction
from paimon_spark.engine.redistribution.rescale import execute_rescale, plan_rescale
from paimon_spark.engine.refs.branches import execute_create_branch, plan_create_branch
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import ReadOptions, plan_select
from paimon_spark.errors import AccessDeniedError, ConflictError, NotFoundError, UnsupportedError, UsageError
from paimon_spark.spec.column_changes import AddColumn, RenameColumn
from paimon_spark.spec.evolution import RemoveOption, SetOption, apply_changes
from paimon_spark.spec.privileges import Grants, Securable, TableAccess
from paimon_spark.spec.types import parse_atomic
from paimon_spark.sqlparse.where import parse_filter
from tests.unit.engine.chain_tables import COLUMNS, ChainModel, chain_table, put, read
from tests.unit.engine.test_key_range_rewrites import delete, update

EXAMPLES = 30
"""Examples of histories: each writes to three branches, so they are few."""
DAYS = [f"202508{day:02}" for day in range(1, 6)]


@pytest.fixture
def table() -> Table:
    """Return a table with a snapshot of the 1st, deltas of the 2nd and 3rd, and the 3rd in main, too."""
    table = chain_table()
    put(table, "snapshot", "20250801", (1, 1, "a"), (2, 1, "b"), (3, 1, "c"))
    put(table, "delta", "20250802", (2, 2, "b2"), (4, 1, "d"), (3, 2, None))
    put(table, "delta", "20250804", (1, 3, "a3"))
    put(table, "main", "20250803", (9, 9, "z"))
    return table


def compact(table: Table, branch: str, strategy: Strategy = Strategy.FULL) -> None:
    target = on_branch(table, branch)
    execute_compaction(plan_compaction(target, strategy=strategy), LocalRunner())


def merge(table: Table, condition: str, *, overwrite: bool = False) -> bool:
    plan = plan_chain_compaction(table, parse_filter(condition, table.schema), overwrite=overwrite)
    execute_chain_compaction(plan, None, LocalRunner())
    return plan.merges


def test_where_a_partition_is_read_from(table: Table) -> None:
    assert read(table, "dt = '20250801'") == [(1, 1, "a", DAYS[0]), (2, 1, "b", DAYS[0]), (3, 1, "c", DAYS[0])]
    assert read(table, "dt = '20250802'") == [(1, 1, "a", DAYS[1]), (2, 2, "b2", DAYS[1]), (4, 1, "d", DAYS[1])]
    assert read(table, "dt = '20250803'") == [(9, 9, "z", DAYS[2])]
    assert read(table, "dt = '20250804'") == [(1, 3, "a3", DAYS[3]), (2, 2, "b2", DAYS[3]), (4, 1, "d", DAYS[3])]
    assert read(table, "dt = '20250805'") == []
    assert read(on_branch(table, "delta"), "dt = '20250804'") == [(1, 3, "a3", DAYS[3])]


def test_a_filter_never_shows_an_older_version(table: Table) -> None:
    assert read(table, "a = 'b'") == [(2, 1, "b", DAYS[0])]
    assert read(table, "a = 'c' AND dt > '20250801'") == []
    assert read(table, "k = 2 AND dt > '20250801'") == [(2, 2, "b2", DAYS[1]), (2, 2, "b2", DAYS[3])]


def test_partitions_that_need_no_merge_are_raw(table: Table) -> None:
    plans = plan_reads(table)
    assert [p.table.branch for p in plans] == ["main", "snapshot", "delta"]
    assert all(s.raw for p in plans[:2] for s in p.splits)
    assert total_rows(plan_reads(table, predicate=parse_filter("dt <= '20250801'", table.schema))) == 3
    counted = aggregated(plan_reads(table), Aggregation((Aggregate(Function.MAX, "dt"),)))
    assert counted in ([("20250804",)], None)


@pytest.mark.parametrize("limit", [1, 4, 9, 100])
def test_a_limit_gives_as_many_rows_as_there_are(table: Table, limit: int) -> None:
    assert len(read(table, limit=limit)) == min(limit, 10)


def test_one_split_a_bucket_without_key_ranges() -> None:
    options = {"bucket": "1", "source.split.target-size": "1 b", "source.split.open-file-cost": "1 b"}
    table = chain_table(options)
    put(table, "snapshot", DAYS[0], (1, 1, "a"), (2, 1, "b"))
    put(table, "delta", DAYS[1], (5, 1, "e"), (6, 1, "f"))
    split = [
        s.raw for p in plan_reads(table, predicate=parse_filter("dt = '20250802'", table.schema)) for s in p.splits
    ]
    whole = table.with_options({"chain-table.split.key-range-enabled": "false"})
    assert split == [True, True]
    assert [len(s.files) for p in plan_reads(whole) for s in p.splits if s.chained] == [2]
    assert read(whole) == read(table)


def test_each_group_has_a_chain_of_its_own() -> None:
    columns = {"k": "INT", "v": "INT", "a": "STRING", "region": "STRING", "dt": "STRING"}
    options = {"chain-table.chain-partition-keys": "dt"}
    table = chain_table(options, columns=columns, partition=["region", "dt"])
    put(table, "snapshot", DAYS[0], (1, 1, "a"), region="CN")
    put(table, "delta", DAYS[1], (2, 1, "b"), region="CN")
    put(table, "delta", DAYS[1], (3, 1, "c"), region="US")
    assert read(table, f"dt = '{DAYS[1]}'") == [
        (1, 1, "a", "CN", DAYS[1]),
        (2, 1, "b", "CN", DAYS[1]),
        (3, 1, "c", "US", DAYS[1]),
    ]
    assert merge(table, f"dt = '{DAYS[1]}'")
    assert len(read(on_branch(table, "snapshot"), f"dt = '{DAYS[1]}'")) == 3


def test_columns_are_found_in_the_schema_of_their_branch(table: Table) -> None:
    for name in ("snapshot", "delta", "main"):
        branch = on_branch(table, name)
        if name == "snapshot":  # its schema ids differ from those of the other branches
            branch.schema_store.try_create(
                apply_changes(branch.schema, [SetOption("snapshot.num-retained.min", "3")], 0, has_snapshots=True)
            )
            branch = on_branch(table, name)
            branch = replace(branch, schema=branch.schema_store.latest())
        added = apply_changes(branch.schema, [AddColumn(("n",), parse_atomic("INT"))], 0, has_snapshots=True)
        branch.schema_store.try_create(added)
    latest = table.with_schema(table.schema_store.latest())
    assert read(latest, "dt = '20250802' AND k = 1") == [(1, 1, "a", DAYS[1], None)]
    assert read(latest, "dt = '20250802' AND n IS NULL AND a = 'd'") == [(4, 1, "d", DAYS[1], None)]


def test_branches_that_cannot_be_read_together(table: Table) -> None:
    delta = on_branch(table, "delta")
    delta.schema_store.try_create(
        apply_changes(delta.schema, [AddColumn(("n",), parse_atomic("INT"))], 0, has_snapshots=True)
    )
    with pytest.raises(UsageError, match="columns differ"):
        read(table)
    missing = chain_table()
    missing.file_io.delete_dir(missing.paths.branch_dir("delta"))
    with pytest.raises(NotFoundError, match="delta"):
        read(missing)


def test_sources_with_other_numbers_of_buckets(table: Table) -> None:
    delta = on_branch(table, "delta")
    delta.schema_store.try_create(apply_changes(delta.schema, [SetOption("bucket", "3")], 0, has_snapshots=True))
    put(table, "delta", DAYS[4], (7, 1, "g"))
    with pytest.raises(UsageError, match=r"different numbers of buckets.*2 in .*3 in"):
        read(table, f"dt = '{DAYS[4]}'")
    assert len(read(table, f"dt < '{DAYS[4]}'")) == 10


@pytest.mark.parametrize("options", [{}, {"deletion-vectors.enabled": "true"}])
def test_rescaled_deltas_keep_their_deletions(options: dict[str, str]) -> None:
    table = chain_table(options)
    put(table, "snapshot", DAYS[0], (1, 1, "a"), (2, 1, "b"), (3, 1, "c"))
    put(table, "delta", DAYS[1], (2, 2, None), (4, 1, "d"))
    put(table, "delta", DAYS[1], (3, 2, None))
    before = read(table)
    for name in ("snapshot", "delta"):
        execute_rescale(plan_rescale(on_branch(table, name), 3), None)
    assert read(table) == before
    assert merge(table, f"dt = '{DAYS[1]}'")
    assert read(table) == before


SUMS = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "bucket": "1"}


@pytest.mark.parametrize(
    ("removes", "before", "updated"),
    [
        ("aggregation.remove-record-on-delete", [(1, 15), (3, 31)], [(1, 15), (3, 37)]),
        ("fields.n.ignore-retract", [(1, 15), (2, 20), (3, 31)], [(1, 15), (2, 20), (3, 37)]),
    ],
)
def test_rewritten_deltas_keep_their_retracts(
    removes: str, before: list[tuple[int, int]], updated: list[tuple[int, int]]
) -> None:
    table = chain_table(SUMS | {removes: "true"}, columns={"k": "INT", "v": "INT", "n": "INT", "dt": "STRING"})

    def add(branch: str, dt: str, *rows: tuple[int, int, int, int]) -> None:
        k, v, n, kinds = (pa.array(c, pa.int32()) for c in zip(*rows, strict=True))
        columns = {"k": k, "v": v, "n": n, "dt": [dt] * len(rows), ROW_KIND: kinds.cast(pa.int8())}
        write_arrow(on_branch(table, branch), pa.table(columns))

    def sums() -> list[tuple[object, object]]:
        return [(k, n) for k, _, n, _ in read(table, f"dt = '{DAYS[1]}'")]

    add("snapshot", DAYS[0], (1, 1, 10, 0), (2, 1, 20, 0), (3, 1, 30, 0))
    add("delta", DAYS[1], (1, 2, 5, 0), (2, 2, 0, 3), (3, 2, 1, 0))
    assert sums() == before
    versions = read(table)
    update(on_branch(table, "delta"), "k = 3", n=7)
    assert sums() == updated
    assert [r for r in read(table) if r[0] != 3] == [r for r in versions if r[0] != 3]
    if removes == "fields.n.ignore-retract":
        delete(on_branch(table, "delta"), "k = 3")
        assert sums() == [(1, 15), (2, 20), (3, 30)]


def test_time_travel_reads_every_branch_at_that_time(table: Table) -> None:
    delta = on_branch(table, "delta")
    before = delta.snapshots.get(1).time_millis
    found = read(table.with_options({"scan.timestamp-millis": str(before)}))
    assert {row[3] for row in found} <= {DAYS[0], DAYS[1], *([DAYS[3]] if len(found) > 6 else [])}
    assert read(table.with_options({"scan.snapshot-id": "1"})) == read(table)
    with pytest.raises(UnsupportedError, match="file-creation-time"):
        read(table.with_options({"scan.file-creation-time-millis": "1"}))


def test_time_travel_reads_the_columns_of_that_time(table: Table) -> None:
    before, millis = read(table), round(time.time() * 1000)
    for name in ("main", "snapshot", "delta"):
        branch = on_branch(table, name)
        renamed = apply_changes(branch.schema, [RenameColumn(("a",), "b")], 0, has_snapshots=True)
        branch.schema_store.try_create(renamed)
    newest = table.schema_store.latest()
    assert newest is not None
    renamed_table = table.with_schema(newest)
    assert plan_reads(renamed_table)[-1].columns == ("k", "v", "b", "dt")
    assert read(renamed_table) == before
    then = renamed_table.with_options({"scan.timestamp-millis": str(millis)})
    assert plan_reads(then)[-1].columns == ("k", "v", "a", "dt")
    assert read(then) == before


def test_kinds_are_merged(table: Table) -> None:
    kinds = plan_reads(table, how=ReadOptions(keep_kinds=True))
    assert sum(s.raw for p in kinds for s in p.splits) == 0


def test_an_overwrite_of_deltas_drops_their_snapshot(table: Table) -> None:
    put(table, "snapshot", DAYS[1], (1, 5, "s"))
    assert read(table, f"dt = '{DAYS[1]}'") == [(1, 5, "s", DAYS[1])]
    put(table, "delta", DAYS[1], (8, 1, "h"), overwrite="dynamic")
    assert read(table, f"dt = '{DAYS[1]}'") == [
        (1, 1, "a", DAYS[1]),
        (2, 1, "b", DAYS[1]),
        (3, 1, "c", DAYS[1]),
        (8, 1, "h", DAYS[1]),
    ]
    put(table, "delta", DAYS[0], (1, 1, "x"))
    before = [on_branch(table, name).snapshots.latest_id() for name in ("snapshot", "delta")]
    with pytest.raises(UsageError, match=r"dt=20250801.*cannot be dropped"):
        put(table, "delta", DAYS[0], (1, 1, "y"), overwrite="dynamic")
    assert [on_branch(table, name).snapshots.latest_id() for name in ("snapshot", "delta")] == before


def without(table: Table, branch: str, *options: str) -> None:
    """Remove options of a branch."""
    found = on_branch(table, branch)
    changes = [RemoveOption(key) for key in options]
    assert found.schema_store.try_create(apply_changes(found.schema, changes, 0, has_snapshots=True))


def test_overwrites_find_the_branches_that_the_table_names(table: Table) -> None:
    for name in ("snapshot", "delta"):
        without(table, name, "scan.fallback-snapshot-branch", "scan.fallback-delta-branch")
    put(table, "snapshot", DAYS[1], (1, 5, "s"))
    put(table, "delta", DAYS[1], (8, 1, "h"), overwrite="dynamic")
    assert (8, 1, "h", DAYS[1]) in read(table)
    with pytest.raises(UsageError, match="cannot be dropped"):
        put(table, "snapshot", DAYS[0], overwrite="static")


@pytest.mark.parametrize("name", ["snapshot", "delta"])
def test_every_branch_is_that_of_a_chain_table(table: Table, name: str) -> None:
    without(table, name, "chain-table.enabled")
    with pytest.raises(UsageError, match=rf"'{name}' does not have .* ALTER TABLE db\.`t\$branch_{name}` SET"):
        read(table)


def as_user(table: Table, *branches: str) -> Table:
    """Return the delta branch for a user who may read and write some branches."""
    both = frozenset(["SELECT", "INSERT"])
    grants = Grants("u", {f"db.t$branch_{name}": both for name in branches})
    found = on_branch(table, branches[0])
    return replace(found, access=TableAccess(grants, Securable.of(found.identifier), table.path))


def test_an_overwrite_of_deltas_needs_insert_on_both_branches(table: Table) -> None:
    put(table, "snapshot", DAYS[1], (1, 5, "s"))
    before = read(table)
    put(as_user(table, "delta"), "delta", DAYS[3], (1, 4, "a4"), overwrite="dynamic")
    with pytest.raises(AccessDeniedError, match=r"INSERT on table db\.t\$branch_snapshot"):
        put(as_user(table, "delta"), "delta", DAYS[1], (8, 1, "h"), overwrite="dynamic")
    assert [r for r in read(table) if r[3] != DAYS[3]] == [r for r in before if r[3] != DAYS[3]]
    put(as_user(table, "delta", "snapshot"), "delta", DAYS[1], (8, 1, "h"), overwrite="dynamic")
    assert (8, 1, "h", DAYS[1]) in read(table)


def test_a_merged_partition_needs_select_on_both_branches() -> None:
    table = chain_table()
    execute_create_branch(table, plan_create_branch(table, "own"))
    put(table, "delta", DAYS[1], (2, 2, "b"))
    with pytest.raises(AccessDeniedError, match=r"SELECT on table db\.t\$branch_delta"):
        read(as_user(table, "own"))
    assert read(as_user(table, "own", "delta")) == [(2, 2, "b", DAYS[1])]


def test_the_first_snapshot_of_deltas_cannot_be_dropped(table: Table) -> None:
    with pytest.raises(UsageError, match="compact_chain_table"):
        put(table, "snapshot", DAYS[0], overwrite="static")
    assert merge(table, f"dt = '{DAYS[3]}'")
    with pytest.raises(UsageError, match="cannot be dropped"):
        put(table, "snapshot", DAYS[0], overwrite="static")


def test_a_merged_partition_is_written_once(table: Table) -> None:
    expected = read(table)
    assert merge(table, f"dt = '{DAYS[3]}'")
    assert not merge(table, f"dt = '{DAYS[3]}'")
    assert not merge(table, f"dt = '{DAYS[4]}'")
    snapshots = on_branch(table, "snapshot")
    assert read(snapshots, f"dt = '{DAYS[3]}'") == [r for r in expected if r[3] == DAYS[3]]
    assert read(table) == expected
    put(table, "delta", DAYS[3], (5, 1, "e"))
    assert read(table) == expected
    assert merge(table, f"dt = '{DAYS[3]}'", overwrite=True)
    assert (5, 1, "e", DAYS[3]) in read(table)
    assert [s.commit_kind for s in map(snapshots.snapshots.get, snapshots.snapshots.ids())] == [
        "APPEND",
        "APPEND",
        "OVERWRITE",
    ]
    with pytest.raises(UsageError, match="not a chain table"):
        merge(on_branch(table, "delta"), f"dt = '{DAYS[3]}'")


def test_a_merged_partition_is_not_added_to_a_new_one(table: Table) -> None:
    plan = plan_chain_compaction(table, parse_filter(f"dt = '{DAYS[1]}'", table.schema), overwrite=False)
    put(table, "snapshot", DAYS[1], (9, 1, "full"))
    with pytest.raises(ConflictError, match=DAYS[1]):
        execute_chain_compaction(plan, None, LocalRunner())
    assert read(table, f"dt = '{DAYS[1]}'") == [(9, 1, "full", DAYS[1])]


def test_segments_expire_as_a_whole() -> None:
    options = {"partition.expiration-time": "1 d", "partition.expiration-strategy": "values-time"}
    table = chain_table(options)
    for day, branches in zip(DAYS, ("d", "sd", "d", "sd", "s"), strict=True):
        for branch in ("snapshot", "delta"):
            if branch[0] in branches:
                put(table, branch, day, (1, int(day), branch))
    plan = plan_partition_expiry(table, 1_754_700_000_000)  # 9 August 2025
    assert plan.texts == ["dt=20250804", "dt=20250803", "dt=20250802", "dt=20250801", "dt=20250802", "dt=20250804"]
    one = plan_partition_expiry(table, 1_754_700_000_000, at_most=1)
    assert one.texts == ["dt=20250803", "dt=20250802", "dt=20250801", "dt=20250802"]
    batched = table.with_options({"partition.expiration-batch-size": "1"})
    execute_partition_expiry(plan_partition_expiry(batched, 1_754_700_000_000))
    assert read(table) == [(1, 20250805, "snapshot", DAYS[4])]
    assert plan_partition_expiry(table, 1_754_700_000_000).texts == []


ROWS = st.lists(st.tuples(st.integers(0, 5), st.one_of(st.none(), st.sampled_from("abc"))), min_size=1, max_size=5)
STEPS = st.one_of(
    st.tuples(st.sampled_from(["main", "snapshot", "delta", "delta", "delta"]), st.sampled_from(DAYS), ROWS),
    st.tuples(st.just("overwrite"), st.sampled_from(DAYS), ROWS),
    st.tuples(st.sampled_from(["compact", "minor"]), st.sampled_from(["main", "snapshot", "delta"]), st.none()),
    st.tuples(st.just("merge"), st.sampled_from(DAYS), st.booleans()),
)


@pytest.mark.parametrize("vectors", [False, True])
@settings(deadline=None, max_examples=EXAMPLES)
@given(steps=st.lists(STEPS, min_size=1, max_size=10), seed=st.integers(0, 1 << 20))
def test_a_history_reads_like_its_model(vectors: bool, steps: list[tuple[str, str, object]], seed: int) -> None:
    table = chain_table({"deletion-vectors.enabled": "true"} if vectors else {"num-sorted-run.compaction-trigger": "3"})
    model, numbers = ChainModel(), list(range(200))
    random.Random(seed).shuffle(numbers)
    for what, where, given_rows in steps:
        if what in ("compact", "minor"):
            compact(table, where, Strategy.FULL if what == "compact" else Strategy.MINOR)
        elif what == "merge":
            _merge(table, model, where, overwrite=bool(given_rows))
        else:
            latest = {k: (k, numbers.pop(), a) for k, a in given_rows}  # type: ignore[attr-defined]
            _write(table, model, what, where, list(latest.values()))
    expected = model.all_rows()
    assert read(table) == expected
    for condition, test in {
        "a = 'a'": lambda r: r[2] == "a",
        "v < 100": lambda r: r[1] < 100,
        "k = 1": lambda r: r[0] == 1,
        f"dt >= '{DAYS[2]}' AND k > 2": lambda r: r[3] >= DAYS[2] and r[0] > 2,
    }.items():
        assert read(table, condition) == list(filter(test, expected))


def _write(table: Table, model: ChainModel, what: str, dt: str, rows: list[tuple[int, int, str | None]]) -> None:
    if what != "overwrite":
        put(table, what, dt, *rows)
        model.put(what, dt, rows)
        return
    if dt in model.branches["snapshot"] and model.strands(dt):
        with pytest.raises(UsageError, match="cannot be dropped"):
            put(table, "delta", dt, *rows, overwrite="dynamic")
        return
    put(table, "delta", dt, *rows, overwrite="dynamic")
    model.put("delta", dt, rows, overwrite=True)
    model.branches["snapshot"].pop(dt, None)


def _merge(table: Table, model: ChainModel, dt: str, *, overwrite: bool) -> None:
    rows, exists = model.merged(dt), dt in model.branches["snapshot"]
    if dt not in model.branches["delta"] or (exists and not overwrite) or (not rows and (exists and model.strands(dt))):
        return
    assert merge(table, f"dt = '{dt}'", overwrite=overwrite)
    model.put("snapshot", dt, rows, overwrite=True)


def test_plans_of_one_branch_are_unchanged(table: Table) -> None:
    plain = table.with_options({})
    assert plan_select(plain).splits == plan_reads(plain)[0].splits
    assert COLUMNS.keys() == {f.name for f in table.schema.fields}
