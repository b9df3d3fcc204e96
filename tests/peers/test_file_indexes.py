"""File indexes of both sides: the other one reads them and leaves out the same rows."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.core.table import Table
from paimon_spark.engine.select import plan_select
from paimon_spark.spec.file_indexes import IndexKind
from paimon_spark.spec.predicate import Comparison, InList, IsNull, Predicate, evaluate
from paimon_spark.testing.tables import read_arrow
from tests.file_indexes import TYPES, container_of
from tests.peers.file_indexes import ask, cases, plain, predicates_of, record, recorded, values_of
from tests.peers.java_peer import run_steps
from tests.variants import mostly_slow

pytestmark = pytest.mark.peer

FILES, ROWS = 3, 50
COLUMNS = [["name", "STRING"], ["code", "INT"], ["number", "BIGINT"], ["ratio", "DOUBLE"]]
OPTIONS = {
    "file-index.bloom-filter.columns": "name",
    "file-index.bloom-filter.name.items": "100",
    "file-index.bitmap.columns": "code",
    "file-index.bsi.columns": "number",
    "file-index.range-bitmap.columns": "ratio",
    "metadata.stats-mode": "none",
}
SOUGHT = {"name": "n7-1", "code": 22, "number": 31, "ratio": 4.5}
#: How many rows are left: a file by a Bloom filter, and exactly the rows by the other kinds.
LEFT = {"name": ROWS, "code": 5, "number": 1, "ratio": 5}


def test_the_recorded_indexes_are_those_of_paimon() -> None:
    assert record() == recorded()


def _asked(predicate: Predicate) -> list[Any]:
    if isinstance(predicate, IsNull):
        return ["is not null" if predicate.negated else "is null", None]
    if isinstance(predicate, InList):
        return ["not in" if predicate.negated else "in", [plain(v) for v in predicate.values]]
    assert isinstance(predicate, Comparison)
    return [predicate.op, plain(predicate.value)]


def test_paimon_selects_the_rows_by_indexes_written_here() -> None:
    containers = [container_of(name, kind, values_of(name), settings) for name, kind, settings in cases()]
    unpacked = [found["v"] for found in ask([{"do": "unpack", "container": c.hex()} for c in containers])]
    reads = [
        {
            "do": "read",
            "kind": kind,
            "type": name,
            "index": found[kind],
            "asks": [_asked(p) for p in predicates_of(name)],
        }
        for (name, kind, _), found in zip(cases(), unpacked, strict=True)
    ]
    for (name, kind, _), answers in zip(cases(), ask(reads), strict=True):
        for predicate, answer in zip(predicates_of(name), answers, strict=True):
            if name in ("timestamp(9)", "float", "double"):  # for which Paimon's answers are not those of SQL
                continue
            wanted = {i for i, v in enumerate(values_of(name)) if evaluate(predicate, {"v": v}) is True}
            assert answer == "all" or set(answer) >= wanted, (name, kind, predicate)


def _rows(file: int) -> list[list[Any]]:
    return [[f"n{i}-{file}", i % 10 * 10 + file + 1, 3 * i + file, i % 10 / 2 + 100 * file] for i in range(ROWS)]


def _files(table: Table, column: str) -> int:
    return plan_select(table, predicate=Comparison("=", column, SOUGHT[column])).counts.files


@pytest.mark.parametrize(
    ("threshold", "version"), mostly_slow(product(["0b", "1mb"], ["1", "2"]), ("0b", "1"), ("1mb", "2"))
)
def test_paimon_leaves_out_rows_by_indexes_written_here(tmp_path: Path, threshold: str, version: str) -> None:
    given = OPTIONS | {"file-index.in-manifest-threshold": threshold, "file-index.bitmap.code.version": version}
    schema = pa.schema([("name", pa.string()), ("code", pa.int32()), ("number", pa.int64()), ("ratio", pa.float64())])
    warehouse = paimon_spark.connect(tmp_path)
    warehouse.create_database("d")
    table = warehouse.create_table("d.t", schema=schema, options=given)
    for file in range(FILES):
        table.append(pa.Table.from_pylist([dict(zip(schema.names, r, strict=True)) for r in _rows(file)], schema))
    answers = run_steps(tmp_path, [{"do": "read", "table": "d.t", "where": [c, v]} for c, v in SOUGHT.items()])
    for (at, (column, value)), answer in zip(enumerate(SOUGHT.items()), answers, strict=True):
        assert len(answer["rows"]) == LEFT[column], column
        assert value in {r[at] for r in answer["rows"]}
        assert _files(table.load(), column) == 1


@pytest.mark.parametrize("threshold", ["0b", "1mb"], ids=["beside", "embedded"])
def test_files_are_left_out_by_indexes_of_paimon(tmp_path: Path, threshold: str) -> None:
    options = OPTIONS | {"file-index.in-manifest-threshold": threshold}
    create = {"do": "create", "table": "d.t", "columns": COLUMNS, "primaryKey": [], "partition": [], "options": options}
    writes = [{"do": "write", "table": "d.t", "rows": _rows(file)} for file in range(FILES)]
    run_steps(tmp_path, [create, *writes])
    table = paimon_spark.connect(tmp_path).table("d.t").load()
    for column, value in SOUGHT.items():
        found = read_arrow(table, predicate=Comparison("=", column, value))
        assert set(found.column(column).to_pylist()) == {value}
        assert _files(table, column) == 1
        assert _files(table.with_options({"file-index.read.enabled": "false"}), column) == FILES


def test_all_types_have_a_case() -> None:
    assert {name for name, *_ in cases()} == set(TYPES)
    assert {kind for _, kind, _ in cases()} == set(IndexKind)
