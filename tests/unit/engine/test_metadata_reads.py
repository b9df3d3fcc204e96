"""What metadata answers, or spares to read: aggregates, limits and first rows of random tables, compared with all rows."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.core.columns import FILE_PATH, ROW_INDEX, ROW_KIND, VECTOR
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.scan.top import RowOrder
from paimon_spark.core.table import Table
from paimon_spark.engine.aggregates import Aggregate, Aggregation, Function, aggregated
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.row_level import change_arrow
from paimon_spark.engine.select import DEFAULT_READ, SelectPlan, plan_select, read_batches
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.spec.column_changes import AddColumn, UpdateColumnType
from paimon_spark.spec.evolution import SchemaChange, apply_changes
from paimon_spark.spec.kinds import Operation
from paimon_spark.spec.types import parse_atomic
from paimon_spark.sqlparse.where import parse_filter
from paimon_spark.testing.tables import new_table
from tests.variants import every

EPOCH = datetime.datetime(1970, 1, 1)
COLUMNS = {
    "k": "INT",
    "p": "STRING",
    "a": "INT",
    "m": "DECIMAL(9, 2)",
    "d": "DATE",
    "t": "TIMESTAMP(6)",
    "z": "BOOLEAN",
    "f": "DOUBLE",
    "s": "STRING",
}
ORDERED = ("a", "a", "m", "d", "t", "z", "f", "s", "p")
BOUNDED = ("a", "m", "d", "t", "z", "c")
KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "append with vectors": {"options": {"deletion-vectors.enabled": "true"}},
    "append of ORC": {"options": {"file.format": "orc"}},
    "append of Avro, counts": {"options": {"file.format": "avro", "metadata.stats-mode": "counts"}},
    "append without statistics": {"options": {"metadata.stats-mode": "none"}},
    "append, dense": {"options": {"fields.a.stats-mode": "none", "metadata.stats-dense-store": "false"}},
    "keyed": {"primary_key": ["k", "p"], "options": {"bucket": "2"}},
    "keyed, write-only": {"primary_key": ["k", "p"], "options": {"bucket": "2", "write-only": "true"}},
    "keyed with vectors": {"primary_key": ["k", "p"], "options": {"bucket": "2", "deletion-vectors.enabled": "true"}},
    "partial update": {"primary_key": ["k", "p"], "options": {"bucket": "1", "merge-engine": "partial-update"}},
    "sums": {
        "primary_key": ["k", "p"],
        "options": {"bucket": "1", "merge-engine": "aggregation", "fields.a.aggregate-function": "sum"},
    },
    "first rows": {"primary_key": ["k", "p"], "options": {"bucket": "1", "merge-engine": "first-row"}},
}
REMOVES = ("keyed", "keyed, write-only", "keyed with vectors")


class RandomTable:
    """A table of a kind, and random changes of it."""

    def __init__(self, kind: str, seed: int) -> None:
        self.rng, self.kind = Random(seed), kind
        self.table = new_table(COLUMNS, partition=["p"], **KINDS[kind])

    def row(self) -> dict[str, Any]:
        r = self.rng

        def maybe(value: Any) -> Any:
            return None if r.random() < self.nulls else value

        return {
            "k": r.randrange(60),
            "p": r.choice(["x", "y", ""] if self.table.is_primary_key_table else ["x", "y", None]),
            "a": maybe(r.randrange(self.low, self.low + 10)),
            "m": maybe(Decimal(r.randrange(-900, 900)) / 100),
            "d": maybe(datetime.date(2024, 1, 1) + datetime.timedelta(r.randrange(self.low, self.low + 9))),
            "t": maybe(EPOCH + datetime.timedelta(microseconds=r.randrange(-(10**12), 10**12))),
            "z": maybe(r.random() < 0.3),
            "f": maybe(r.choice([0.0, -0.0, float("nan"), 1.5, -2.0])),
            "s": maybe(r.choice("abc") * r.choice([1, 20])),
            "c": maybe(r.randrange(9)),
        }

    def put(self) -> None:
        self.nulls, self.low = self.rng.choice([0.0, 0.3, 1.0]), self.rng.randrange(40)
        schema = to_arrow_schema(self.table.schema.fields)
        given = [self.row() for _ in range(self.rng.choice([1, 3, 20]))]
        data = pa.Table.from_pylist([{n: g[n] for n in schema.names} for g in given], schema)
        if self.kind in REMOVES:
            kinds = [self.rng.choice([0, 0, 0, 3]) for _ in given]
            data = data.append_column(ROW_KIND, pa.array(kinds, pa.int8()))
        write_arrow(self.table, data)

    def remove(self) -> None:
        """Delete some rows of an append table, a file's only or outermost ones among them."""
        found: list[pa.RecordBatch] = []
        places = [FILE_PATH, ROW_INDEX]
        if "vectors" in self.kind:
            places.append(VECTOR)
        for split in plan_select(self.table).splits:
            found += read_split(self.table, split, metadata_columns=places)
        if not found:
            return
        rows = pa.Table.from_batches(found)
        gone = rows.filter(pa.array([self.rng.random() < 0.2 for _ in range(len(rows))], pa.bool_()))
        if len(gone):
            gone = gone.append_column(ROW_KIND, pa.array([3] * len(gone), pa.int8()))
            ordered = gone.sort_by([(FILE_PATH, "ascending"), (ROW_INDEX, "ascending")])
            change_arrow(self.table, ordered, Operation.DELETE)

    def alter(self) -> None:
        schema = self.table.schema
        changes: list[SchemaChange] = [UpdateColumnType(("a",), parse_atomic("BIGINT"))]
        if "c" not in schema.field_names:
            changes.append(AddColumn(("c",), parse_atomic("INT")))
        new = apply_changes(schema, changes, 0, has_snapshots=True)
        assert self.table.schema_store.try_create(new)
        self.table = self.table.with_schema(new)

    def step(self) -> None:
        chance = self.rng.random()
        if chance < 0.1 and self.table.schema.id == 0 and self.kind != "sums":
            self.alter()
        elif chance < 0.4 and not self.table.is_primary_key_table:
            self.remove()
        else:
            self.put()


def histories(kind: str, seeds: int) -> Any:
    for seed in range(seeds):
        history = RandomTable(kind, seed)
        for _ in range(history.rng.randrange(1, 6)):
            history.step()
        yield history


def plain(value: Any) -> Any:
    """Return an Arrow value as one of `spec.rows`."""
    if isinstance(value, datetime.datetime):
        micros = (value - EPOCH) // datetime.timedelta(microseconds=1)
        return (micros // 1000, micros % 1000 * 1000)
    if isinstance(value, datetime.date):
        return (value - EPOCH.date()).days
    return value


def read(plan: SelectPlan) -> list[dict[str, Any]]:
    rows = pa.Table.from_batches(read_batches(plan), schema=plan.schema).to_pylist()
    return [{k: plain(v) for k, v in r.items()} for r in rows]


def expected(rows: Sequence[dict[str, Any]], wanted: Aggregation) -> list[tuple[Any, ...]]:
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {} if wanted.group_by else {(): []}
    for r in rows:
        groups.setdefault(tuple(r[c] for c in wanted.group_by), []).append(r)
    return sorted(((*k, *(_one(g, a) for a in wanted.aggregates)) for k, g in groups.items()), key=repr)


def _one(rows: Sequence[dict[str, Any]], a: Aggregate) -> Any:
    if a.function is Function.COUNT_ROWS:
        return len(rows)
    values = [r[a.column] for r in rows if r[a.column] is not None]
    if a.function is Function.COUNT:
        return len(values)
    if a.function is Function.COUNT_DISTINCT:
        return len(set(values))
    return (min if a.function is Function.MIN else max)(values, default=None)


def questions(table: Table) -> list[Aggregation]:
    rows, names = Aggregate(Function.COUNT_ROWS), [c for c in BOUNDED if c in table.schema.field_names]
    of_partitions = [Aggregate(f, "p") for f in (Function.COUNT, Function.COUNT_DISTINCT, Function.MIN, Function.MAX)]
    single = [Aggregation((Aggregate(f, c),)) for c in names for f in (Function.COUNT, Function.MIN, Function.MAX)]
    more = [Aggregation((Aggregate(Function.COUNT, c),)) for c in ("k", "f", "s")]
    grouped = [replace(q, group_by=("p",)) for q in single]
    return [
        *(Aggregation((rows,)), Aggregation((rows,), ("p",)), Aggregation((), ("p",))),
        *(Aggregation((a,)) for a in of_partitions),
        *single,
        *more,
        *grouped,
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_aggregates_of_metadata_are_those_of_the_rows(kind: str) -> None:
    answered = 0
    for history in histories(kind, 6):
        for condition in (None, "p = 'x'"):
            predicate = None if condition is None else parse_filter(condition, history.table.schema)
            plan = plan_select(history.table, predicate=predicate)
            rows = read(plan)
            for question in questions(history.table):
                found = aggregated([plan], question)
                if found is not None:
                    answered += 1
                    assert sorted(found, key=repr) == expected(rows, question), (history.rng, question)
    assert answered > 50


def test_every_aggregate_of_an_append_table_is_answered() -> None:
    history = RandomTable("append", 0)
    for _ in range(4):
        history.put()
    history.alter()
    history.put()
    plan = plan_select(history.table)
    assert [q for q in questions(history.table) if aggregated([plan], q) is None] == []


@pytest.mark.parametrize(
    "refused",
    [
        Aggregation((Aggregate(Function.MAX, "s"),)),
        Aggregation((Aggregate(Function.MIN, "f"),)),
        Aggregation((Aggregate(Function.COUNT_DISTINCT, "a"),)),
        Aggregation((Aggregate(Function.COUNT_ROWS),), ("a",)),
    ],
)
def test_what_metadata_may_not_know_is_not_answered(refused: Aggregation) -> None:
    history = RandomTable("append", 0)
    history.put()
    assert aggregated([plan_select(history.table)], refused) is None
    filtered = plan_select(history.table, predicate=parse_filter("k > 1", history.table.schema))
    assert aggregated([filtered], Aggregation((Aggregate(Function.COUNT_ROWS),))) is None


@pytest.mark.parametrize("kind", every(2, KINDS))
def test_the_first_rows_are_in_the_files_that_are_kept(kind: str) -> None:
    spared = 0
    for history in histories(kind, 8):
        rows, draw = read(plan_select(history.table)), history.rng.choice
        for _ in range(12):
            order = RowOrder(draw(ORDERED), draw((False, True)), draw((False, True)), draw((False, True)))
            count = draw((1, 1, 5))
            kept = read(plan_select(history.table, limit=count, how=replace(DEFAULT_READ, order=order)))
            assert _first(kept, order, count) == _first(rows, order, count), (order, count)
            spared += len(kept) < len(rows)
    assert spared > 3 or "statistics" in kind


def _first(rows: Sequence[dict[str, Any]], order: RowOrder, count: int) -> list[Any]:
    """Return the first values, or if a further column orders equal ones, also which rows may come before the last."""
    column = order.column

    def nan_last(value: Any) -> Any:
        return (isinstance(value, float) and math.isnan(value), value)

    values = sorted(
        (r for r in rows if r[column] is not None), key=lambda r: nan_last(r[column]), reverse=order.descending
    )
    nulls = [r for r in rows if r[column] is None]
    ordered = [*nulls, *values] if order.nulls_first else [*values, *nulls]
    shown = [repr(r[column]).replace("-0.0", "0.0") for r in ordered]
    if order.only or not shown:
        return shown[:count]
    last = shown[min(count, len(shown)) - 1]
    return sorted(repr(r["k"]) for r, s in zip(ordered, shown, strict=True) if s == last) + shown[:count]


@pytest.mark.parametrize("partition", [(), ("t",)])
def test_first_rows_by_nanoseconds_and_another_column(partition: Sequence[str]) -> None:
    table = new_table({"t": "TIMESTAMP(9)", "k": "INT"}, partition=partition)
    for nanos in (1001, 1002, 3000):
        times = pa.array([nanos], pa.timestamp("ns"))
        write_arrow(table, pa.table({"t": times, "k": pa.array([nanos], pa.int32())}))

    def files(*, only: bool) -> int:
        how = replace(DEFAULT_READ, order=RowOrder("t", only=only))
        return plan_select(table, limit=1, how=how).counts.files

    assert files(only=True) == 1
    assert files(only=False) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_limit_reads_enough(kind: str) -> None:
    for history in histories(kind, 6):
        count = len(read(plan_select(history.table)))
        for limit in (0, 1, 2, 7, 1000):
            plan = plan_select(history.table, limit=limit)
            assert len(read(plan)) == min(limit, count), limit
            assert plan.counts.files == sum(s.file_count for s in plan.splits)
