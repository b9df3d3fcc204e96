"""Partitions of every type with their extremes: directories are named alike, and both sides read each other's rows."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.core.arrow import arrow_scalar, value_at
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.select import plan_select
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.literals import parse_value, timestamp_text, to_single
from paimon_spark.spec.predicate import Comparison, IsNull
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.types import parse_atomic
from paimon_spark.testing.tables import read_arrow
from tests.peers.java_peer import run_steps

DAYS = ("0001-01-01", "1582-10-04", "1582-10-10", "1582-10-15", "1970-01-01", "9999-12-31")
TEXTS = ("", " ", " a ", "a/b=c%2F", "ü😀", "__DEFAULT_PARTITION__", "null", "..", "[]{}^#?*\"x\\'")
STAMPS = ("0001-01-01 00:00:00", "1582-10-10 12:00:00", "1969-12-31 23:59:59", "9999-12-31 23:59:59")
NUMBERS = ("NaN", "Infinity", "-Infinity", "0.0", "-0.0", "0.1", "-1.5", "1.0E10", "1.0E-5")
TYPES: dict[str, tuple[str, ...]] = {
    "BOOLEAN": ("true", "false"),
    "TINYINT": ("-128", "127"),
    "SMALLINT": ("-32768", "32767"),
    "INT": ("-2147483648", "0", "2147483647"),
    "BIGINT": ("-9223372036854775808", "9223372036854775807"),
    "FLOAT": (*NUMBERS, "1.4E-45", "3.4028235E38"),
    "DOUBLE": (*NUMBERS, "4.9E-324", "1.7976931348623157E308"),
    "DECIMAL(5, 2)": ("-999.99", "0.00", "0.01", "999.99"),
    "DECIMAL(38, 0)": ("-" + "9" * 38, "0", "9" * 38),
    "DECIMAL(38, 38)": ("-0." + "9" * 38, "0." + "0" * 38, "0." + "0" * 37 + "1"),
    "CHAR(4)": ("a", "a   ", "ü", "abcd"),
    "VARCHAR(32)": TEXTS,
    "STRING": TEXTS,
    "DATE": DAYS,
    "TIME(3)": ("0", "43200001", "86399999"),
    "TIMESTAMP(0)": STAMPS,
    "TIMESTAMP(3)": (*STAMPS, "2024-05-14 10:20:30.5", "2024-05-14 10:20:00.001"),
    "TIMESTAMP(6)": (*STAMPS, "2024-05-14 10:20:30.5", "2024-05-14 10:20:00.000001"),
    "TIMESTAMP(9)": (STAMPS[2], "2024-05-14 10:20:30.5", "2024-05-14 10:20:00.000000001"),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": (*STAMPS, "2024-05-14 10:20:30.123456"),
    "BYTES": ("0x61", "0x00ff", "0xc3bc"),
}


def name_of(column_type: str, *, legacy: bool) -> str:
    letters = "".join(c if c.isalnum() else "_" for c in column_type.lower())
    return f"{letters}_{'legacy' if legacy else 'named'}"


def cases(*, legacy: bool) -> list[str]:
    """The types that can be partitions: bytes have no text of their own where old names are kept."""
    return [t for t in TYPES if not (legacy and t == "BYTES")]


def values_of(column_type: str) -> list[Any]:
    return [None, *(parse_value(text, parse_atomic(column_type)) for text in TYPES[column_type])]


def sent(column_type: str, text: str) -> Any:
    """A value as the peer takes it."""
    if column_type == "BOOLEAN":
        return text == "true"
    if column_type.endswith("INT") or column_type.startswith("TIME("):
        return int(text)
    return text.removeprefix("0x") if column_type == "BYTES" else text


def told(column_type: str, value: Any) -> Any:
    """A value in the representation of the peer."""
    if isinstance(value, float):
        return f"{value!r}" if math.isfinite(value) else {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
    if isinstance(value, Timestamp):
        return timestamp_text(value)
    if column_type == "DATE" and value is not None:
        return TYPES["DATE"][values_of("DATE").index(value) - 1]
    if isinstance(value, bytes):
        return value.hex()
    return f"{value:f}" if isinstance(value, Decimal) else value


def heard(column_type: str, value: Any) -> Any:
    """A value of the peer, comparable with `told`."""
    if isinstance(value, float):
        return repr(to_single(value) if column_type == "FLOAT" else value)
    return f"{Decimal(value):f}" if column_type.startswith("DECIMAL") and value is not None else value


def open_table(warehouse: Path, name: str) -> Table:
    return open_catalog({"warehouse": str(warehouse)}).load_table(Identifier("db", name))


def rows_here(table: Table, column_type: str) -> list[tuple[int, Any]]:
    found = read_arrow(table)
    column = found.column("p")
    values = [told(column_type, value_at(column, i, parse_atomic(column_type))) for i in range(found.num_rows)]
    return sorted(zip(found.column("id").to_pylist(), values, strict=True))


def directories(warehouse: Path, name: str) -> set[str]:
    return {p.name for p in (warehouse / "db.db" / name).iterdir() if p.name.startswith("p=")}


def create(name: str, column_type: str, *, legacy: bool) -> dict[str, Any]:
    options = {"bucket": "-1", "partition.legacy-name": str(legacy).lower()}
    columns = [["id", "INT"], ["p", column_type]]
    return {"do": "create", "table": f"db.{name}", "columns": columns, "partition": ["p"], "options": options}


@pytest.mark.slow
@pytest.mark.parametrize("legacy", [True, False])
def test_both_sides_name_and_read_the_same_partitions(tmp_path: Path, legacy: bool) -> None:
    steps: list[dict[str, Any]] = []
    for t in cases(legacy=legacy):
        name = name_of(t, legacy=legacy)
        rows = [[i, None if i == 0 else sent(t, TYPES[t][i - 1])] for i in range(len(TYPES[t]) + 1)]
        steps += [create(f"theirs_{name}", t, legacy=legacy), create(f"ours_{name}", t, legacy=legacy)]
        steps.append({"do": "write", "table": f"db.theirs_{name}", "rows": rows})
    run_steps(tmp_path, steps)
    for t in cases(legacy=legacy):
        name = name_of(t, legacy=legacy)
        arrow = to_arrow_type(parse_atomic(t))
        column = pa.chunked_array([pa.repeat(arrow_scalar(v, parse_atomic(t)), 1) for v in values_of(t)], arrow)
        ids = pa.array(range(len(column)), pa.int32())
        write_arrow(open_table(tmp_path, f"ours_{name}"), pa.table({"id": ids, "p": column}))
        assert directories(tmp_path, f"ours_{name}") == directories(tmp_path, f"theirs_{name}"), t
        theirs = open_table(tmp_path, f"theirs_{name}")
        wanted = [(i, told(t, v)) for i, v in enumerate(values_of(t))]
        assert rows_here(theirs, t) == wanted, t
        for i, value in enumerate(values_of(t)):
            chosen = IsNull("p") if value is None else Comparison("=", "p", value)
            assert i in read_arrow(theirs, predicate=chosen).column("id").to_pylist(), (t, value)
            assert plan_select(theirs, predicate=chosen).counts.files in (1, 2), (t, value)
    names = [name_of(t, legacy=legacy) for t in cases(legacy=legacy)]
    answers = run_steps(tmp_path, [{"do": "read", "table": f"db.ours_{n}"} for n in names])
    for t, answer in zip(cases(legacy=legacy), answers, strict=True):
        found = sorted((r[0], heard(t, r[1])) for r in answer["rows"])
        assert found == [(i, told(t, v)) for i, v in enumerate(values_of(t))], t
