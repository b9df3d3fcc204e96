"""Random histories of tables of each merge engine: writes, full and partial compactions, against the row by row models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.testing.tables import new_table, read_arrow
from tests.unit.core.merge.merge_models import Column, Group, PartialUpdateModel, Row, Version, aggregation
from tests.variants import every, mostly_slow

KINDS = ["+I", "-U", "+U", "-D"]
Merge = Callable[[Sequence[Version]], Version]


@dataclass(frozen=True)
class Kind:
    """A table of a merge engine, its model, and the row kinds that a history writes."""

    columns: Mapping[str, str]
    options: Mapping[str, str]
    merge: Merge
    kinds: Sequence[str] = ("+I", "+U")
    never_null: Sequence[str] = ()
    hides_level_0: bool = False
    """Whether reads leave out rows that no compaction has moved up."""


def _aggregates(**functions: str) -> Merge:
    columns = {n: Column(f) for n, f in functions.items()}
    return lambda versions: aggregation(versions, columns)


def _partial(*groups: Group, **how: bool) -> Merge:
    return PartialUpdateModel("k", groups, **how).merge


def _options(engine: str, **options: str) -> dict[str, str]:
    return {"merge-engine": engine, "bucket": "1", "num-sorted-run.compaction-trigger": "3"} | options


FUNCTIONS = {"a": "sum", "b": "max", "c": "last_value", "d": "first_non_null_value", "e": "min"}
CASES: dict[str, Kind] = {
    "partial update": Kind(
        {"k": "INT", "a": "INT", "b": "STRING"},
        _options("partial-update"),
        _partial(),
    ),
    "partial update in sequence groups": Kind(
        {"k": "INT", "g": "INT", "a": "INT", "s": "INT", "h": "INT", "i": "INT", "b": "STRING", "z": "INT"},
        _options(
            "partial-update",
            **{
                "fields.g.sequence-group": "a,s",
                "fields.s.aggregate-function": "sum",
                "fields.h,i.sequence-group": "b",
            },
        ),
        _partial(Group(("g",), ("a", "s"), {"s": Column("sum")}), Group(("h", "i"), ("b",))),
        never_null=("g", "h", "i"),
    ),
    "aggregation": Kind(
        {"k": "INT", **dict.fromkeys("abcde", "INT")},
        _options("aggregation", **{f"fields.{c}.aggregate-function": f for c, f in FUNCTIONS.items()}),
        _aggregates(**FUNCTIONS),
    ),
    "aggregation with retracts": Kind(
        {"k": "INT", "a": "BIGINT", "b": "DECIMAL(20,0)"},
        _options("aggregation", **{"fields.default-aggregate-function": "sum"}),
        _aggregates(a="sum", b="sum"),
        kinds=("+I", "+U", "-U", "-D"),
        never_null=("a", "b"),
    ),
    "first row": Kind(
        {"k": "INT", "a": "INT", "b": "STRING"},
        _options("first-row"),
        lambda versions: versions[0],
        hides_level_0=True,
    ),
    "first row without deletes": Kind(
        {"k": "INT", "a": "INT"},
        _options("first-row", **{"ignore-delete": "true", "num-levels": "4"}),
        lambda versions: next((v for v in versions if v[0] in ("+I", "+U")), versions[0]),
        kinds=("+I", "+U", "-U", "-D"),
        hides_level_0=True,
    ),
    "aggregation by a sequence field": Kind(
        {"k": "INT", "a": "INT", "t": "INT"},
        _options("aggregation", **{"sequence.field": "t", "fields.a.aggregate-function": "sum"}),
        lambda versions: _by_time(versions),
        never_null=("t",),
    ),
}


def _by_time(versions: Sequence[Version]) -> Version:
    kind, row = aggregation(versions, {"a": Column("sum")})
    return kind, row | {"t": max(v["t"] for _, v in versions)}


class History:
    """A table and all versions of its keys."""

    def __init__(self, kind: Kind, options: Mapping[str, str], random: Random) -> None:
        self.kind = kind
        self.random = random
        self.table: Table = new_table(kind.columns, primary_key=["k"], options={**kind.options, **options})
        self.versions: dict[int, list[Version]] = {}
        self.keys: Sequence[int] = range(8)

    @property
    def latest(self) -> Snapshot | None:
        return self.table.snapshots.latest()

    def write(self, count: int) -> None:
        written: list[Version] = []
        self.keys = self.random.choice([range(8), range(3), range(5, 8)])
        for _ in range(count):
            row_kind, row = self._version()
            if row_kind in ("-U", "-D") and row["k"] not in self.versions:
                continue
            self.versions.setdefault(row["k"], []).append((row_kind, row))
            written.append((row_kind, row))
        write_arrow(self.table, self._arrow(written).to_batches(max_chunksize=5_000))

    def compact(self) -> None:
        strategy = self.random.choice([Strategy("full"), Strategy("minor")])
        execute_compaction(plan_compaction(self.table, strategy=strategy), LocalRunner())

    def check(self) -> None:
        if self.kind.hides_level_0 and self.table.options.write_only:
            self.compact()
        merged = {k: self.kind.merge(v) for k, v in self.versions.items()}
        expected = {k: _plain(row) for k, (kind, row) in merged.items() if kind in ("+I", "+U")}
        found = {r["k"]: _plain(r) for r in read_arrow(self.table).to_pylist()}
        assert found == expected
        some = self.random.choice([n for n in self.kind.columns if n != "k"])
        projected = read_arrow(self.table, columns=[some]).column(some).to_pylist()
        assert sorted(map(str, projected)) == sorted(str(r[some]) for r in read_arrow(self.table).to_pylist())

    def _version(self) -> Version:
        draw = self.random
        values: Row = {"k": draw.choice(self.keys)}
        for name, text in self.kind.columns.items():
            if name != "k":
                null = name not in self.kind.never_null and draw.random() < 0.3
                number = draw.randrange(-9, 10)
                values[name] = None if null else f"t{number}" if text == "STRING" else number
        return draw.choice(self.kind.kinds), values

    def _arrow(self, versions: Sequence[Version]) -> pa.Table:
        arrays: dict[str, Any] = {
            f.name: pa.array([row[f.name] for _, row in versions], to_arrow_type(f.type))
            for f in self.table.schema.fields
        }
        arrays[ROW_KIND] = pa.array([KINDS.index(kind) for kind, _ in versions], pa.int8())
        return pa.table(arrays)


def _plain(row: Row) -> Row:
    return {n: int(v) if v is not None and not isinstance(v, str | int) else v for n, v in row.items()}


def run(name: str, seed: int, steps: int, size: int, options: Mapping[str, str]) -> None:
    random = Random(seed)
    history = History(CASES[name], options, random)
    for _ in range(steps):
        if random.random() < 0.7:
            history.write(random.randrange(1, size))
        else:
            history.compact()
        history.check()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", mostly_slow(range(6), 0, 4, 5))
def test_histories(name: str, seed: int) -> None:
    options = {"file.format": ["parquet", "orc", "avro"][seed % 3], "write-only": str(seed % 2 == 0).lower()}
    if seed > 2:  # files of their own for each range of keys, at few levels
        options |= {"target-file-size": "1 kb", "num-levels": "3"}
    run(name, seed, steps=12, size=12, options=options)


@pytest.mark.parametrize(("name", "space"), every(4, product(CASES, ["1 gb", "10 kb", "300 kb"])))
def test_rows_that_wait_in_spilled_runs(name: str, space: str) -> None:
    options = {"write-buffer-size": "1 mb", "write-buffer-spill.max-disk-size": space, "write-only": "true"}
    history = History(CASES[name], options, Random(99))
    for _ in range(2):
        history.write(40_000)
        assert all(e.file.row_count <= len(history.versions) for e in scan(history.table, history.latest).entries)
        history.check()
    history.compact()
    history.check()
