"""Global indexes of both sides: the other one finds the same rows by them, and removes them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.table import Table
from paimon_spark.engine.global_indexes import (
    execute_create,
    execute_drop,
    index_column,
    index_kind,
    plan_create,
    plan_drop,
)
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import plan_select
from paimon_spark.spec.predicate import Comparison, InList, IsNull, Operator, Predicate, StartsWith, evaluate
from paimon_spark.spec.rows import Timestamp
from paimon_spark.testing.tables import read_arrow
from tests.peers.java_peer import try_steps

JAR = os.environ.get("PEER_JAR", "")

pytestmark = [pytest.mark.peer, pytest.mark.skipif(not JAR, reason="PEER_JAR names no jar of Paimon 2.0")]

OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "metadata.stats-mode": "none"}
ROWS = 400
START = datetime(2024, 1, 1)
VALUES: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "bo": (pa.bool_(), lambda i: i % 3 == 0),
    "ti": (pa.int8(), lambda i: i % 100 - 50),
    "sm": (pa.int16(), lambda i: i * 31 - 6000),
    "n": (pa.int32(), lambda i: i * 7 % 50 - 20),
    "b": (pa.int64(), lambda i: (i - 200) << 40),
    "f": (pa.float32(), lambda i: (i - 100) / 4),
    "d": (pa.float64(), lambda i: (i - 100) / 8),
    "dec": (pa.decimal128(9, 2), lambda i: Decimal(i - 150) / 4),
    "wide": (pa.decimal128(30, 1), lambda i: Decimal(i - 200) * 10 ** (i % 20)),
    "s": (pa.string(), lambda i: "ab"[i % 2] * (i % 5) + str(i % 40)),
    "dt": (pa.date32(), lambda i: date(1969, 6, 1) + timedelta(days=i)),
    "ts3": (pa.timestamp("ms"), lambda i: START - timedelta(milliseconds=777 * (i - 50) * 1000003)),
    "ts6": (pa.timestamp("us"), lambda i: START + timedelta(microseconds=(i - 200) * 12345678901)),
}


def _table(path: Path) -> Table:
    schema = pa.schema([("k", pa.int32()), *((name, t) for name, (t, _) in VALUES.items())])
    warehouse = paimon_spark.connect(path)
    warehouse.create_database("d")
    table = warehouse.create_table("d.t", schema=schema, options=OPTIONS)
    for part in range(2):
        rows = [
            {"k": i, **{name: None if i % 11 == 5 else value(i) for name, (_, value) in VALUES.items()}}
            for i in range(part * ROWS // 2, (part + 1) * ROWS // 2)
        ]
        table.append(pa.Table.from_pylist(rows, schema))
    return table.load()


def _create(table: Table, column: str, kind: str) -> None:
    execute_create(plan_create(table, index_column(table, column), index_kind(kind), None), LocalRunner())


def _asked(name: str) -> list[tuple[Predicate, list[Any]]]:
    value = VALUES[name][1]
    out: list[tuple[Predicate, list[Any]]] = []
    for i in (1, 150):
        ops: tuple[Operator, ...] = ("=", "<", "<=", ">", ">=")
        out += [(Comparison(op, name, value(i)), [name, _plain(value(i)), op]) for op in ops]
    some = [value(3), value(80)]
    out.append((InList(name, tuple(some)), [name, [_plain(v) for v in some], "in"]))
    out.append((IsNull(name), [name, None, "is null"]))
    if name == "s":
        out.append((StartsWith(name, "aa"), [name, "aa", "starts with"]))
    return out


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value


def _stored(predicate: Predicate) -> Predicate:
    """Return a predicate with its times as readers know them."""
    if isinstance(predicate, Comparison):
        return replace(predicate, value=_time(predicate.value))
    return (
        replace(predicate, values=tuple(map(_time, predicate.values))) if isinstance(predicate, InList) else predicate
    )


def _time(value: Any) -> Any:
    if isinstance(value, datetime):
        micros = (value - datetime(1970, 1, 1)) // timedelta(microseconds=1)
        return Timestamp(micros // 1000, micros % 1000 * 1000)
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


def _wanted(table: pa.Table, predicate: Predicate) -> list[int]:
    return sorted(r["k"] for r in table.to_pylist() if evaluate(predicate, r) is True)


@pytest.mark.parametrize("kind", ["btree", "bitmap"])
@pytest.mark.parametrize("compression", ["none", "zstd", "lz4"])
def test_paimon_finds_rows_by_indexes_written_here(tmp_path: Path, kind: str, compression: str) -> None:
    table = _table(tmp_path)
    size = {"btree": "btree-index.block-size", "bitmap": "bitmap-index.dictionary-block-size"}[kind]
    more = {size: "256 b", f"{kind}-index.compression": compression, "sorted-index.records-per-range": "150"}
    for name in VALUES:
        _create(table.with_options(more), name, kind)
    content = read_arrow(table)
    asked = [(predicate, where) for name in VALUES for predicate, where in _asked(name)]
    steps = [{"do": "read", "table": "d.t", "where": where} for _, where in asked]
    answers = try_steps(tmp_path, steps, program="GlobalIndexPeer", jar=Path(JAR))
    for (predicate, _), answer in zip(asked, answers, strict=True):
        assert "error" not in answer, (predicate, answer)
        assert sorted(r[0] for r in answer["rows"]) == _wanted(content, predicate), predicate
    dropped = try_steps(
        tmp_path,
        [{"do": "dropIndex", "table": "d.t", "column": "n", "kind": kind}],
        program="GlobalIndexPeer",
        jar=Path(JAR),
    )
    assert dropped[0].get("dropped") == 4, dropped


@pytest.mark.parametrize("kind", ["btree", "bitmap"])
def test_rows_are_found_by_indexes_of_paimon(tmp_path: Path, kind: str) -> None:
    table = _table(tmp_path)
    content = read_arrow(table)
    steps = [{"do": "createIndex", "table": "d.t", "column": name, "kind": kind} for name in VALUES]
    assert not any(try_steps(tmp_path, steps, program="GlobalIndexPeer", jar=Path(JAR)))
    table = paimon_spark.connect(tmp_path).table("d.t").load()
    for asked, _ in (found for name in VALUES for found in _asked(name)):
        found = read_arrow(table, predicate=_stored(asked))
        assert sorted(r["k"] for r in found.to_pylist() if evaluate(asked, r) is True) == _wanted(content, asked), asked
    assert plan_select(table, predicate=_stored(Comparison("=", "b", 150 << 40))).counts.files == 1
    assert execute_drop(plan_drop(table, index_column(table, "b"), index_kind(kind), None))
    left = ManifestStore(table).index_entries(table.snapshots.latest())
    assert len(left) == len(VALUES) - 1
