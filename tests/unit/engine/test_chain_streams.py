"""Streams of chain tables: the newest rows of both branches, then the changes of the delta branch."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.core.metadata.branches import on_branch
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.redistribution.chain_compact import execute_chain_compaction, plan_chain_compaction
from paimon_spark.engine.rollback import execute_rollback, plan_rollback
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.streaming.chain_source import open_source
from paimon_spark.engine.streaming.offset import StreamOffset, parse_offset
from paimon_spark.engine.streaming.source import StreamSource
from paimon_spark.errors import AccessDeniedError, NotFoundError, UnsupportedError
from paimon_spark.spec.predicate import TRUE, Predicate
from paimon_spark.spec.privileges import Grants, Securable, TableAccess
from paimon_spark.sqlparse.where import parse_filter
from tests.unit.engine.chain_tables import ChainModel, Row, chain_table, put

DAYS = [f"202508{day:02}" for day in range(1, 7)]
FILES = {"read.stream.maxFilesPerTrigger": "1"}
MERGED = {"chain-table.streaming.merge-snapshot": "true"}
WHOLE = [(1, 1, "a", DAYS[0]), (2, 1, "b", DAYS[0]), (3, 1, "c", DAYS[0])]
DELTAS = [(1, 3, "a3", DAYS[3]), (2, 2, "b2", DAYS[1]), (4, 1, "d", DAYS[1])]
EXAMPLES = 25
"""Examples of histories: each writes to two branches, so they are few."""

Stream = tuple[list[list[tuple[Any, ...]]], StreamOffset]


@pytest.fixture
def table() -> Table:
    """Return a table with a snapshot of the 1st and deltas of the 2nd and 4th."""
    table = chain_table()
    put(table, "snapshot", DAYS[0], (1, 1, "a"), (2, 1, "b"), (3, 1, "c"))
    put(table, "delta", DAYS[1], (2, 2, "b2"), (4, 1, "d"), (3, 2, None))
    put(table, "delta", DAYS[3], (1, 3, "a3"))
    return table


def batches(source: StreamSource, start: StreamOffset | None = None, predicate: Predicate = TRUE) -> Stream:
    """Return the rows of each batch up to the newest snapshot, and the position of the stream then."""
    found, position = [], source.first_offset() if start is None else start
    while (end := source.next_offset(position, limited=True, newest=source.newest_id())) is not None:
        part = source.read(parse_offset(position.to_json()), parse_offset(end.to_json()), predicate)
        rows = [row for split in part.state for row in read(source, part.table, split)]
        rows += [row for split in part.changes for row in read(source, source.table, split)]
        found.append(sorted(rows, key=str))
        position = end
    return found, position


def read(source: StreamSource, table: Table, split: Any) -> list[tuple[Any, ...]]:
    parts = read_split(table, split, tuple(source.table.schema.field_names), keep_kinds=source.keep_kinds)
    return [tuple(r.values()) for batch in parts for r in batch.to_pylist()]


def compact(table: Table, branch: str) -> None:
    target = on_branch(table, branch)
    execute_compaction(plan_compaction(target, strategy=Strategy.FULL), LocalRunner())


def test_the_newest_rows_then_the_changes(table: Table) -> None:
    source = open_source(table)
    source.check()
    found, position = batches(source)
    assert found == [sorted([*WHOLE, *DELTAS], key=str)]
    put(table, "delta", DAYS[4], (5, 1, "e"), (1, 4, None))
    put(table, "delta", DAYS[1], (4, 2, "late"))
    put(table, "main", DAYS[4], (9, 9, "z"))
    assert batches(source, position)[0] == [[(4, 2, "late", DAYS[1]), (5, 1, "e", DAYS[4])]]


def test_the_snapshot_branch_is_read_once(table: Table) -> None:
    source = open_source(table)
    _, position = batches(source)
    condition = parse_filter(f"dt = '{DAYS[3]}'", table.schema)
    execute_chain_compaction(plan_chain_compaction(table, condition, overwrite=False), None, LocalRunner())
    compact(table, "delta")
    assert batches(source, position)[0] == []
    whole = [(1, 3, "a3", DAYS[3]), (2, 2, "b2", DAYS[3]), (4, 1, "d", DAYS[3])]
    assert batches(open_source(table))[0] == [whole]


def test_the_state_of_a_chain_is_merged_on_request(table: Table) -> None:
    merged = table.with_options(MERGED)
    newest = [(1, 3, "a3", DAYS[3]), (2, 2, "b2", DAYS[3]), (4, 1, "d", DAYS[3])]
    assert batches(open_source(merged))[0] == [newest]


@pytest.mark.parametrize("merged", [False, True])
def test_each_chain_has_a_state_of_its_own(merged: bool) -> None:
    options = {"chain-table.chain-partition-keys": "dt", **(MERGED if merged else {})}
    columns = {"k": "INT", "v": "INT", "a": "STRING", "r": "STRING", "dt": "STRING"}
    table = chain_table(options, columns=columns, partition=("r", "dt"))
    put(table, "snapshot", DAYS[0], (1, 1, "old"), r="x")
    put(table, "snapshot", DAYS[2], (1, 2, "a"), r="x")
    put(table, "delta", DAYS[1], (1, 1, "before"), r="x")
    put(table, "delta", DAYS[3], (2, 1, "b"), r="x")
    put(table, "delta", DAYS[0], (1, 1, "c"), r="y")
    put(table, "delta", DAYS[1], (1, 2, None), r="y")
    put(table, "snapshot", DAYS[4], (7, 1, "d"), r="z")
    x = [(1, 2, "a", "x", DAYS[3 if merged else 2]), (2, 1, "b", "x", DAYS[3])]
    y = [] if merged else [(1, 1, "c", "y", DAYS[0])]
    assert batches(open_source(table))[0] == [sorted([*x, *y, (7, 1, "d", "z", DAYS[4])], key=str)]


def test_a_stream_goes_on_in_the_state_that_it_began_with(table: Table) -> None:
    source = open_source(table.with_options(FILES))
    start = source.first_offset()
    end = source.next_offset(start, limited=True, newest=source.newest_id())
    assert end is not None
    first = [r for s in source.read(start, end).state for r in read(source, source.table, s)]
    put(table, "snapshot", DAYS[2], (8, 8, "new"))
    put(table, "delta", DAYS[5], (6, 1, "f"))
    again = open_source(table.with_options(FILES))
    found, position = batches(again, parse_offset(end.to_json()))
    rows = [*first, *(r for batch in found for r in batch)]
    assert sorted(rows, key=str) == sorted([*WHOLE, *DELTAS, (6, 1, "f", DAYS[5])], key=str)
    assert len(found) > 3
    assert position == StreamOffset(snapshot_id=4, time_millis=position.time_millis, producer="none")


@pytest.mark.parametrize("branch", ["snapshot", "delta", None])
def test_branches_without_rows(branch: str | None) -> None:
    table = chain_table()
    if branch is not None:
        put(table, branch, DAYS[0], (1, 1, "a"))
    found, position = batches(open_source(table))
    assert found == ([] if branch is None else [[(1, 1, "a", DAYS[0])]])
    put(table, "delta", DAYS[1], (2, 1, "b"))
    assert batches(open_source(table), position)[0] == [[(2, 1, "b", DAYS[1])]]


def test_deletions_are_changes_with_their_kinds(table: Table) -> None:
    source = open_source(table, keep_kinds=True)
    source.check()
    _, position = batches(source)
    put(table, "delta", DAYS[4], (5, 1, "e"), (1, 4, None))
    assert batches(source, position)[0] == [[(1, 4, None, DAYS[4], 3), (5, 1, "e", DAYS[4], 0)]]


def test_rows_with_deletion_vectors_before_their_compaction(table: Table) -> None:
    vectors = chain_table({"deletion-vectors.enabled": "true", "write-only": "true"})
    put(vectors, "snapshot", DAYS[0], (1, 1, "a"), (2, 1, "b"))
    put(vectors, "delta", DAYS[1], (1, 2, "c"))
    source = open_source(vectors)
    found, position = batches(source)
    assert found == [[(1, 1, "a", DAYS[0]), (1, 2, "c", DAYS[1]), (2, 1, "b", DAYS[0])]]
    execute_compaction(
        plan_compaction(on_branch(vectors, "delta").with_options({"write-only": "false"}), strategy=Strategy.FULL),
        LocalRunner(),
    )
    assert batches(source, position)[0] == []


def test_filters_skip_partitions(table: Table) -> None:
    source = open_source(table)
    start = source.first_offset()
    end = source.next_offset(start, limited=False, newest=source.newest_id())
    assert end is not None
    condition = parse_filter(f"dt > '{DAYS[1]}' AND a = 'a3'", table.schema)
    assert {table.partition_text(s.partition) for s in source.read(start, end, condition).state} == {f"dt={DAYS[3]}"}


@pytest.mark.parametrize(
    "options",
    [{"consumer-id": "c"}, {"scan.mode": "latest"}, {"scan.mode": "compacted-full"}, {"scan.snapshot-id": "1"}],
)
def test_other_starts_are_refused(table: Table, options: dict[str, str]) -> None:
    with pytest.raises(UnsupportedError, match=f"'{next(iter(options))}'.*chain table"):
        open_source(table.with_options(options)).check()


def test_a_state_that_has_expired(table: Table) -> None:
    source = open_source(table)
    start = source.first_offset()
    put(table, "snapshot", DAYS[1], (1, 1, "a"))
    branch = on_branch(table, "snapshot")
    execute_expire(branch, plan_expire(branch, ExpireConfig(retain_max=1, retain_min=1), 1 << 42))
    with pytest.raises(NotFoundError, match="snapshot 1 of its branch 'snapshot' has expired"):
        open_source(table).next_offset(start, limited=True, newest=2)


def as_user(table: Table, name: str) -> Table:
    """Return the table for a user who may read the object of a name."""
    grants = Grants("u", {name: frozenset(["SELECT"])})
    return replace(table, access=TableAccess(grants, Securable.of(table.identifier), table.path))


def test_a_state_that_was_rolled_back(table: Table) -> None:
    put(table, "snapshot", DAYS[1], (5, 1, "e"))
    source = open_source(table.with_options(FILES))
    position = parse_offset(source.first_offset().to_json())
    branch = on_branch(table, "snapshot")
    execute_rollback(branch, plan_rollback(branch, snapshot_id=1))
    put(table, "snapshot", DAYS[1], (6, 1, "f"))
    with pytest.raises(NotFoundError, match=r"snapshot 2 of its branch 'snapshot' is another one after a rollback"):
        source.next_offset(position, limited=True, newest=source.newest_id())


def test_privileges(table: Table) -> None:
    allowed = open_source(as_user(table, "db.t"))
    allowed.check()
    start = allowed.first_offset()
    denied = open_source(as_user(table, "db.t$branch_delta"))
    for attempt in (denied.check, lambda: denied.read(start, StreamOffset(snapshot_id=3))):
        with pytest.raises(AccessDeniedError, match=r"SELECT on table db\.t\."):
            attempt()


@settings(deadline=None, max_examples=EXAMPLES)
@given(st.integers(0, 1 << 30), st.booleans())
def test_histories(seed: int, merged: bool) -> None:
    rng, table, model = random.Random(seed), chain_table(MERGED if merged else {}), ChainModel()
    version = 0

    def step() -> tuple[str, str, list[Row]]:
        nonlocal version
        branch, day = rng.choice(("snapshot", "delta", "delta")), rng.choice(DAYS)
        rows = []
        for key in rng.sample(range(6), rng.randrange(1, 4)):
            version += 1
            rows.append((key, version, None if branch == "delta" and rng.random() < 0.3 else f"a{version}"))
        put(table, branch, day, *rows)
        model.put(branch, day, rows)
        if rng.random() < 0.2:
            compact(table, rng.choice(("snapshot", "delta")))
        return branch, day, rows

    for _ in range(rng.randrange(6)):
        step()
    source = open_source(table.with_options(FILES if rng.random() < 0.5 else {}))
    start = source.first_offset()
    expected = state_of(model, merged=merged)
    for _ in range(rng.randrange(3)):
        branch, day, rows = step()
        expected += [(*row, day) for row in rows if branch == "delta" and row[2] is not None]
    found, _ = batches(source, start)
    assert sorted((r for batch in found for r in batch), key=str) == sorted(expected, key=str)


def state_of(model: ChainModel, *, merged: bool) -> list[tuple[Any, ...]]:
    """Return the rows of the newest partition of the snapshot branch and of the deltas after it."""
    full, deltas = model.branches["snapshot"], model.branches["delta"]
    anchor = max(full, default="")
    later = sorted(day for day in deltas if day > anchor)
    if merged and later:
        return [(*row, later[-1]) for row in model.merged(later[-1])]
    whole = [(*row, anchor) for row in model._winners([full[anchor]])] if anchor else []
    return whole + [(*row, day) for day in later for row in model._winners([deltas[day]])]
