"""Stateful histories of every kind of table against a dictionary, the invariants checked after every step."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from paimon_spark.core.buckets.fixed_buckets import fixed_buckets
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import TableWriter, WriterRestoreState
from paimon_spark.engine.insert import complete_write, plan_write
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.testing.history import PARTS, History, random_rows, random_step
from paimon_spark.testing.invariants import leaked
from paimon_spark.testing.scenarios import KINDS, Kind, read_rows, rows_of
from tests.variants import every

ROWS = st.lists(st.tuples(st.integers(0, 12), st.sampled_from(PARTS), st.integers(0, 99)), max_size=8)
NAMES = st.sampled_from("xyz")
NUMBERS = st.integers(0, 99)
FORMS = st.sampled_from(["parquet", "orc"])


class TableMachine(RuleBasedStateMachine):
    """One table. What was rolled back leaves files behind, what expires does not."""

    history: History
    rolled_back = False

    @initialize(
        kind=st.sampled_from(sorted(KINDS)), form=FORMS, merging=st.integers(2, 5), threads=st.sampled_from([1, 3])
    )
    def begin(self, kind: str, form: str, merging: int, threads: int) -> None:
        options = {
            "file.format": form,
            "num-sorted-run.compaction-trigger": "3",
            "manifest.merge-min-count": str(merging),
        }
        self.history = History(kind, threads=threads, options=options)

    @rule(rows=ROWS)
    def write(self, rows: list[Any]) -> None:
        self.history.write(rows)

    @rule(rows=ROWS)
    def write_streamed(self, rows: list[Any]) -> None:
        self.history.write_streamed(rows)

    @rule(low=NUMBERS, span=st.integers(0, 40))
    def delete_where(self, low: int, span: int) -> None:
        self.history.delete_where(low, low + span)

    @rule(rows=ROWS)
    def delete_keys(self, rows: list[Any]) -> None:
        self.history.delete_keys(rows)

    @rule(rows=ROWS)
    def overwrite(self, rows: list[Any]) -> None:
        self.history.overwrite(rows)

    @rule(full=st.booleans())
    def compact(self, *, full: bool) -> None:
        self.history.compact(full=full)

    @rule(buckets=st.integers(1, 3))
    def rescale(self, buckets: int) -> None:
        self.history.rescale(buckets)

    @rule(retain=st.integers(1, 4))
    def expire(self, retain: int) -> None:
        self.history.expire(retain)

    @rule(name=NAMES, at=NUMBERS)
    def tag(self, name: str, at: int) -> None:
        self.history.tag(name, at)

    @rule(name=NAMES)
    def untag(self, name: str) -> None:
        self.history.untag(name)

    @precondition(lambda self: self.history.snapshots)
    @rule(at=NUMBERS)
    def roll_back(self, at: int) -> None:
        self.history.roll_back(at)
        self.rolled_back = True

    @precondition(lambda self: self.history.tags)
    @rule(name=NAMES)
    def roll_back_to_tag(self, name: str) -> None:
        self.history.roll_back_to_tag(name)
        self.rolled_back = True

    @invariant()
    def the_table_is_what_the_dictionary_says(self) -> None:
        if hasattr(self, "history"):
            assert self.history.complaints() == []
            assert self.rolled_back or leaked(self.history.table.load()) == set()


def run(examples: int, steps: int) -> None:
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        TableMachine,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=checks
        ),
    )


def test_histories() -> None:
    run(examples=20, steps=12)


@pytest.mark.slow
def test_many_long_histories() -> None:
    run(examples=150, steps=40)


@pytest.mark.parametrize("kind", every(3, sorted(KINDS)))
def test_the_same_history_in_parallel_ends_the_same(kind: str) -> None:
    ends = []
    for threads in (1, 4):
        random, history = Random(kind), History(kind, threads=threads)
        for _ in range(12):
            random_step(history, random)
            assert history.complaints() == []
        kinds = [(s.kind, s.rows) for s in history.table.snapshots()]
        ends.append((read_rows(history.table), kinds, history.tags))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("kind", ["fixed", "partitioned append", "append"])
def test_many_writers_of_one_statement_write_what_one_does(kind: str) -> None:
    """As Spark's tasks do: each has the plan as a text and rows of its own buckets, and one commit takes all."""
    alone, shared = History(kind), History(kind)
    random = Random(3)
    for _ in range(4):
        rows = random_rows(random, 30)
        alone.write(rows)
        table = shared.table.load()
        plan = plan_write(table, parallelism=3)
        data = rows_of(rows)
        buckets = fixed_buckets(table, data) if table.options.bucket > 0 else [i % 3 for i in range(len(rows))]
        messages = []
        for task in range(3):
            given = json.loads(json.dumps({"table": plan.table.to_config(), "info": plan.info.to_json()}))
            writer = TableWriter(Table.from_config(given["table"]), WriterRestoreState.from_json(given["info"]))
            mine = pa.array([i for i, b in enumerate(buckets) if b % 3 == task], pa.int64())
            writer.write(data.take(mine))
            messages += writer.finish()
        complete_write(plan, messages, LocalRunner(3))
        shared.model.write(rows)
        assert shared.complaints() == []
        assert read_rows(shared.table) == read_rows(alone.table)


def test_kinds_cover_what_is_promised() -> None:
    assert {bool(k.primary_key) for k in KINDS.values()} == {True, False}
    assert {bool(k.partition_by) for k in KINDS.values()} == {True, False}
    assert any("bucket" not in k.options for k in KINDS.values() if k.primary_key)
    assert all(isinstance(k, Kind) for k in KINDS.values())
