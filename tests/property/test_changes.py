"""Random histories of a table, read as changes between any two of its snapshots."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import ReadOptions, plan_select, read_batches
from paimon_spark.spec.kinds import CommitKind, RowKind
from paimon_spark.spec.predicate import Comparison
from paimon_spark.testing.tables import new_table, read_arrow
from tests.variants import every

KEYS, PARTITIONS = 40, 3
State = dict[tuple[int, int], str | None]
Row = tuple[str, int, int, str | None]
ADDS, RETRACTS = ("+I", "+U"), ("-U", "-D")
KINDS = [k.short for k in RowKind]


class History:
    """A table, its state after each snapshot, and the rows that each APPEND commit wrote."""

    def __init__(self, random: Random, **options: str) -> None:
        self.random = random
        given = {"bucket": "2", "write-only": "true", **{k.replace("_", "-"): v for k, v in options.items()}}
        columns = {"p": "INT", "k": "INT", "v": "STRING"}
        self.table: Table = new_table(columns, primary_key=["p", "k"], partition=["p"], options=given)
        self.states: dict[int, State] = {0: {}}
        self.written: dict[int, list[Row]] = {}

    @property
    def state(self) -> State:
        return self.states[max(self.states)]

    def step(self) -> None:
        draw = self.random.random()
        if draw < 0.7:
            self.write()
        elif draw < 0.9:
            strategy = self.random.choice([Strategy.FULL, Strategy("minor")])
            own = self.table.with_options({"write-only": "false"})
            execute_compaction(plan_compaction(own, strategy=strategy), LocalRunner())
            self._committed(dict(self.state), [])
        else:
            self.replace_partition()

    def write(self) -> None:
        rows: dict[tuple[int, int], Row] = {}
        for _ in range(self.random.randrange(1, 12)):
            key = self.random.randrange(PARTITIONS), self.random.randrange(KEYS)
            deletes = key in self.state and self.random.random() < 0.3
            kind = "-D" if deletes else self.random.choice(ADDS)
            value = None if self.random.random() < 0.2 else self.random.choice("abc")
            rows[key] = (kind, *key, value)
        after = dict(self.state)
        for kind, p, k, v in rows.values():
            if kind in ADDS:
                after[p, k] = v
            else:
                del after[p, k]
        write_arrow(self.table, self._arrow(list(rows.values())))
        self._committed(after, list(rows.values()))

    def replace_partition(self) -> None:
        p = self.random.randrange(PARTITIONS)
        rows: list[Row] = [("+I", p, k, "o") for k in self.random.sample(range(KEYS), 3)]
        write_arrow(self.table, self._arrow(rows), overwrite="static", static_partitions=Comparison("=", "p", p))
        kept = {key: v for key, v in self.state.items() if key[0] != p}
        self._committed(kept | {(p, k): v for _, p, k, v in rows}, rows)

    def _committed(self, after: State, rows: list[Row]) -> None:
        latest = self.table.snapshots.latest_id() or 0
        for snapshot in range(max(self.states) + 1, latest + 1):
            self.states[snapshot] = after
            appended = self.table.snapshots.get(snapshot).commit_kind is CommitKind.APPEND
            self.written[snapshot] = rows if appended else []

    def _arrow(self, rows: list[Row]) -> pa.Table:
        kinds, *columns = zip(*rows, strict=True)
        types = (pa.int32(), pa.int32(), pa.string())
        arrays: list[Any] = [pa.array(c, t) for c, t in zip(columns, types, strict=True)]
        arrays.append(pa.array([KINDS.index(k) for k in kinds], pa.int8()))
        return pa.table(arrays, names=["p", "k", "v", ROW_KIND])

    def changes(self, a: int, b: int, mode: str, *, kinds: bool = True) -> list[Any]:
        options = {"incremental-between": f"{a},{b}", "incremental-between-scan-mode": mode}
        small = {"source.split.target-size": self.random.choice(["1 b", "1 mb"])}
        plan = plan_select(self.table.with_options(options | small), how=ReadOptions(keep_kinds=kinds))
        rows = [tuple(r.values()) for r in pa.Table.from_batches(read_batches(plan), schema=plan.schema).to_pylist()]
        return [(KINDS[r[-1]], *r[:-1]) for r in rows] if kinds else rows


@pytest.mark.parametrize("seed", every(2, range(20)))
def test_changes_of_random_histories(seed: int) -> None:
    random = Random(seed)
    history = History(random, file_format=["parquet", "orc", "avro"][seed % 3])
    for _ in range(12):
        history.step()
    newest = max(history.states)
    found = {(r["p"], r["k"]): r["v"] for r in read_arrow(history.table).to_pylist()}
    assert found == history.state
    some = sorted(random.sample(range(newest + 1), min(5, newest + 1)))
    for a, b in [(0, newest), *pairwise(some)]:
        if a == b:
            continue
        before, after = history.states[a], history.states[b]
        rows = history.changes(a, b, "diff")
        assert len({r[1:3] for r in rows}) == len(rows)
        assert _applied(before, rows) == after, (a, b)
        plain = history.changes(a, b, "diff", kinds=False)
        assert sorted(map(str, plain)) == sorted(str(r[1:]) for r in rows if r[0] in ADDS)
        deltas = [r for i in range(a + 1, b + 1) for r in history.written[i]]
        assert Counter(history.changes(a, b, "delta")) == Counter(deltas), (a, b)
        assert Counter(history.changes(a, b, "auto", kinds=False)) == Counter(r[1:] for r in deltas)


def _applied(state: State, rows: list[Row]) -> State:
    out = dict(state)
    for kind, p, k, v in rows:
        if kind in ADDS:
            out[p, k] = v
        else:
            out.pop((p, k), None)
    return out
