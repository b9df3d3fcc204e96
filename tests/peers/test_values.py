"""Random columns of every type: what is written here is read by Paimon in Java, and the other way round."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.core.table import Table
from paimon_spark.core.write.row_conversion import WriteRules, prepare_batch
from paimon_spark.engine.insert import write_arrow
from paimon_spark.errors import ArgumentError
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.fs.resolve import file_io_for
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import DataField, DataType, MultisetType, TypeRoot, children, type_to_json
from paimon_spark.testing.tables import read_arrow
from tests.columns import ATOMIC, draw_array, draw_type, exact, fields_of, has_root
from tests.peers.java_peer import run_steps

TABLES, ROWS = 60, 40
TIMES = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
FORMATS = {
    "parquet": ATOMIC,
    "orc": ATOMIC,
    "avro": tuple(t for t in ATOMIC if "(9)" not in t),
}


def tables_of(file_format: str) -> dict[str, tuple[DataField, pa.Table]]:
    """Return random columns with their rows, each for a table of its own, of types that Paimon itself can serve."""
    out = {}
    for seed in range(TABLES):
        rng = random.Random(seed)
        (field,) = fields_of([draw_type(rng, depth=rng.randrange(3), atomic=FORMATS[file_format])])
        if _served(field.type, file_format):
            rows = pa.Table.from_arrays([draw_array(rng, field.type, ROWS)], schema=to_arrow_schema([field]))
            out[f"t{seed}"] = (field, rows)
    return out


def _served(t: DataType, file_format: str) -> bool:
    """Return whether Paimon reads what it writes of a type: of some multisets it does not, see docs/compatibility.md."""
    if isinstance(t, MultisetType) and file_format == "parquet":
        return not has_root(t.element, *TIMES, TypeRoot.DECIMAL)
    if isinstance(t, MultisetType) and file_format == "avro":
        return has_root(t.element, TypeRoot.CHAR, TypeRoot.VARCHAR)
    return all(_served(c, file_format) for c in children(t))


def create(warehouse: Path, name: str, field: DataField, file_format: str) -> Table:
    """Create an empty append table of one column."""
    schema = TableSchema(
        id=0,
        fields=(field,),
        highest_field_id=100,
        partition_keys=(),
        primary_keys=(),
        options={"file.format": file_format},
        time_millis=0,
    )
    path = f"{warehouse}/v.db/{name}"
    table = Table.of(Identifier("v", name), path, schema, file_io_for(path, {}))
    assert table.schema_store.try_create(schema)
    return table


def storable(field: DataField, rows: pa.Table, table: Table) -> pa.Table:
    """Return the rows that the table does not refuse."""
    kept = []
    for i in range(rows.num_rows):
        try:
            prepare_batch(rows.slice(i, 1), WriteRules.of(table))
        except ArgumentError:
            assert has_root(field.type, *TIMES)
            continue
        kept.append(i)
    return rows.take(kept)


def spelled(column: pa.ChunkedArray, t: DataType) -> list[Any]:
    """Return values in the one spelling that both sides share."""
    return [ordered(v) for v in exact(column.combine_chunks(), t)]


def ordered(value: Any) -> Any:
    """Return a value with all its lists of pairs in one order: those of a map have none."""
    if not isinstance(value, list):
        return value
    inner = [ordered(v) for v in value]
    pairs = inner and all(isinstance(v, list) and len(v) == 2 for v in inner)
    return sorted(inner, key=repr) if pairs else inner


@pytest.mark.slow
@pytest.mark.parametrize("file_format", FORMATS)
def test_java_reads_the_values_written_here(tmp_path: Path, file_format: str) -> None:
    steps, expected = [], []
    for name, (field, rows) in tables_of(file_format).items():
        table = create(tmp_path, name, field, file_format)
        kept = storable(field, rows, table)
        write_arrow(table, kept)
        steps.append({"do": "read", "table": f"v.{name}", "exact": True})
        expected.append((field.type, spelled(kept["c0"], field.type)))
    assert len(steps) > TABLES // 2
    for step, answer, (t, mine) in zip(steps, run_steps(tmp_path, steps), expected, strict=True):
        assert [ordered(r[0]) for r in answer["rows"]] == mine, (step, t)


@pytest.mark.slow
@pytest.mark.parametrize("file_format", FORMATS)
def test_values_written_by_java_are_read_here_as_there(tmp_path: Path, file_format: str) -> None:
    """Java's own reader is the measure: of some early times in ORC it does not find what was given to its writer."""
    steps: list[dict[str, Any]] = []
    tables = tables_of(file_format)
    for name, (field, rows) in tables.items():
        columns = [[field.name, type_to_json(field.type)]]
        given = [[v] for v in spelled(rows["c0"], field.type)]
        at = {"table": f"v.{name}", "exact": True}
        steps.append({"do": "create", "columns": columns, "options": {"file.format": file_format}, **at})
        steps += [{"do": "write", "rows": given, **at}, {"do": "read", **at}]
    answers = run_steps(tmp_path, steps)[2::3]
    catalog = open_catalog({"warehouse": str(tmp_path)})
    same = 0
    for (name, (field, rows)), answer in zip(tables.items(), answers, strict=True):
        theirs = [ordered(r[0]) for r in answer["rows"]]
        back = read_arrow(catalog.load_table(Identifier("v", name)))
        assert spelled(back.column(0), field.type) == theirs, (name, field.type)
        same += spelled(rows["c0"], field.type) == theirs
    assert same > len(tables) // 2
