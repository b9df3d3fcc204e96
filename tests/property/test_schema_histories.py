"""Random histories of schema changes, writes and compactions against a model, in every file format."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.evolution import SchemaChange, apply_changes, new_schema
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.predicate import Comparison, IsNull
from paimon_spark.testing.tables import read_arrow
from tests.schema_histories import KEY, History
from tests.variants import mostly_slow

SLOW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
FORMATS = ("parquet", "orc", "avro")
KEYED = {"primary-key": KEY, "bucket": "1", "num-sorted-run.compaction-trigger": "3"}
KINDS = {
    "append": {},
    "deduplicate": KEYED,
    "partial-update": KEYED | {"merge-engine": "partial-update"},
}


def created(history: History, options: dict[str, str]) -> Table:
    schema = new_schema(history.fields, options=options, now_millis=0)
    table = Table.of(Identifier("db", "t"), "/warehouse/db.db/t", schema, InMemoryFileIO())
    assert table.schema_store.try_create(schema)
    return table


def altered(table: Table, change: SchemaChange) -> Table:
    schema = apply_changes(table.schema, [change], time.time_ns() // 1_000_000, has_snapshots=True)
    assert table.schema_store.try_create(schema)
    return table.with_schema(schema)


def written(table: Table, rows: list[dict[str, Any]]) -> None:
    schema = read_arrow(table).schema
    write_arrow(table, pa.Table.from_pylist(rows, schema=schema))


def ordered(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, map(_plain, rows)))


def _plain(value: Any) -> Any:
    """Return a value with maps as sorted pairs and the members of rows in their order."""
    if isinstance(value, dict):
        return [(k, _plain(v)) for k, v in value.items()]
    if isinstance(value, list) and value and all(isinstance(v, tuple) for v in value):
        return sorted((k, _plain(v)) for k, v in value)
    return [_plain(v) for v in value] if isinstance(value, list) else value


def modelled(history: History) -> list[str]:
    def pairs(value: Any, t: Any) -> Any:
        if isinstance(value, dict) and hasattr(t, "value"):
            return sorted((k, pairs(v, t.value)) for k, v in value.items())
        if isinstance(value, dict):
            return [(c.name, pairs(value[c.name], c.type)) for c in t.members]
        return [pairs(v, t.element) for v in value] if isinstance(value, list) else value

    return sorted(repr([(c.name, pairs(row[c.name], c.type)) for c in history.columns]) for row in history.expected())


def check_filters(table: Table, history: History) -> None:
    """Filters and projections of one column see its converted values."""
    column = history.rng.choice(history.columns)
    if not isinstance(column.type, str):
        return
    rows = [r[column.name] for r in history.expected()]
    values = [v for v in rows if v is not None]
    got = read_arrow(table, columns=[column.name], predicate=IsNull(column.name))
    assert got.num_rows == len(rows) - len(values)
    if values:
        value = history.rng.choice(values)
        for op, holds in {"=": lambda v: v == value, ">": lambda v: v > value}.items():
            got = read_arrow(table, columns=[column.name], predicate=Comparison(op, column.name, value))
            assert sorted(got[column.name].to_pylist()) == sorted(v for v in values if holds(v)), (column, op, value)


@pytest.mark.parametrize("file_format", mostly_slow(FORMATS, "parquet"))
@pytest.mark.parametrize("kind", KINDS)
@SLOW
@given(rng=st.randoms(use_true_random=False))
def test_schema_histories(kind: str, file_format: str, rng: Random) -> None:
    history = History(rng, partial_update=kind == "partial-update", keyed=kind != "append")
    table = created(history, KINDS[kind] | {"file.format": file_format})
    past: list[tuple[int, list[str]]] = []
    for _ in range(rng.randint(3, 12)):
        step = rng.choice(["write", "write", "change", "change", "change", "compact"])
        if step == "write":
            written(table, history.write(rng.randint(1, 4)))
        elif step == "compact":
            execute_compaction(plan_compaction(table, strategy=Strategy("full")), LocalRunner())
        else:
            change = history.change()
            table = table if change is None else altered(table, change)
        assert ordered(read_arrow(table).to_pylist()) == modelled(history)
        check_filters(table, history)
        latest = table.snapshots.latest_id()
        if latest is not None and step == "write":
            past.append((latest, modelled(history)))
    for snapshot, rows in past[-3:]:
        assert ordered(read_arrow(table, version=snapshot).to_pylist()) == rows
