"""Random histories of writes, deletes, updates and compactions where statements rewrite key ranges.

A row that a statement sets replaces all versions of its key. If there is a changelog, it has every change of the
table exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.api.row_changes import deletions
from paimon_spark.core.columns import ROW_KIND
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.row_level import change_arrow, with_all_rows
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import plan_select
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.spec.kinds import Operation, RowKind
from paimon_spark.spec.predicate import Comparison
from paimon_spark.testing.invariants import violations
from tests.property.test_engine_histories import CASES, KINDS, History
from tests.unit.engine.changelogs import changes_in, snapshots
from tests.variants import mostly_slow

LOOKUP = {"changelog-producer": "lookup"}
FULL = {"changelog-producer": "full-compaction"}
VECTORS = {"deletion-vectors.enabled": "true"}
TABLES: list[tuple[str, Mapping[str, str]]] = [
    *((name, {}) for name in CASES),
    *((name, LOOKUP) for name in CASES),
    *((name, options) for name in CASES for options in (FULL, LOOKUP | VECTORS) if "first row" not in name),
    ("aggregation", VECTORS),
]


class StatementHistory(History):
    """A history with statements over the rows of a range of keys."""

    def delete(self) -> None:
        for row in self._state(Operation.DELETE, {}):
            del self.versions[row["k"]]

    def update(self) -> None:
        _, drawn = self._version()
        names = self.random.sample(sorted(set(drawn) - {"k"}), self.random.randrange(1, len(drawn)))
        values = {n: drawn[n] for n in names}
        for row in self._state(Operation.UPDATE, values):
            self.versions[row["k"]] = [("+I", {**row, **values})]

    def _state(self, operation: Operation, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Run a statement that sets `values`; return the rows that it changes as they were."""
        first = self.random.randrange(8)
        condition = Comparison(self.random.choice(["=", ">=", "<="]), "k", first)
        plan = plan_select(with_all_rows(self.table), predicate=condition)
        batches = list(deletions(plan))
        changes = batches if operation is Operation.DELETE else [self._with(b, values) for b in batches]
        change_arrow(self.table, changes, operation, rewrites=True, snapshot_id=plan.snapshot_id)
        names = self.table.schema.field_names
        found = [row for b in batches for row in pa.Table.from_batches([b]).select(names).to_pylist()]
        merged = {k: self.kind.merge(v) for k, v in self.versions.items()}
        for row in found:
            kind, expected = merged[row["k"]]
            assert kind in ("+I", "+U")
            assert row == expected
        return found

    def _with(self, batch: pa.RecordBatch, values: Mapping[str, Any]) -> pa.RecordBatch:
        for f in self.table.schema.fields:
            if f.name in values:
                column = pa.array([values[f.name]] * batch.num_rows, to_arrow_type(f.type))
                batch = batch.set_column(batch.schema.names.index(f.name), f.name, column)
        kinds = pa.array([int(RowKind.UPDATE_AFTER)] * batch.num_rows, pa.int8())
        return batch.set_column(batch.schema.names.index(ROW_KIND), ROW_KIND, kinds)


def told(history: History) -> dict[int, tuple[Any, ...]]:
    """Return the rows that the changelog adds up to; each change must fit the ones before it."""
    rows: dict[int, tuple[Any, ...]] = {}
    for snapshot in snapshots(history.table):
        for kind, key, *values in changes_in(history.table, snapshot):
            if kind in ("-U", "-D"):
                assert rows.pop(key) == tuple(values)
            else:
                assert key not in rows
                rows[key] = tuple(values)
    return rows


@pytest.mark.parametrize("seed", mostly_slow(range(3), 0))
@pytest.mark.parametrize(("name", "options"), TABLES, ids=lambda v: v if isinstance(v, str) else ",".join(v))
def test_statements(name: str, options: Mapping[str, str], seed: int) -> None:
    random = Random(f"{name} {sorted(options)} {seed}")
    drawn = {"write-only": str(seed % 2 == 0).lower()}
    if seed > 0:  # files of their own for each range of keys, at few levels
        drawn |= {"target-file-size": "1 kb", "num-levels": "3"}
    kind = replace(CASES[name], hides_level_0=CASES[name].hides_level_0 or options.keys() >= VECTORS.keys())
    history = StatementHistory(kind, {**options, **drawn}, random)
    steps = {"write": 5, "compact": 2, "delete": 2, "update": 3}
    for _ in range(14):
        step = random.choices(list(steps), list(steps.values()))[0]
        if step == "write":
            history.write(random.randrange(1, 9))
        elif history.latest is not None:
            getattr(history, step)()
        history.check()
    execute_compaction(plan_compaction(history.table, strategy=Strategy.FULL), LocalRunner())
    history.check()
    assert violations(history.table) == []
    if "changelog-producer" in options and history.kind.kinds != KINDS:
        assert told(history) == _visible(history)


def _visible(history: History) -> dict[int, tuple[Any, ...]]:
    merged = {k: history.kind.merge(v) for k, v in history.versions.items()}
    names = [n for n in history.table.schema.field_names if n != "k"]
    return {k: tuple(row[n] for n in names) for k, (kind, row) in merged.items() if kind in ("+I", "+U")}
