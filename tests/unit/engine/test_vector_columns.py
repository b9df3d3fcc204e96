"""VECTOR columns: arrays of one length."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.table import Table
from paimon_spark.core.write.rolling import RollingWriter
from paimon_spark.engine.insert import write_arrow
from paimon_spark.errors import ArgumentError, CorruptTableError, UnsupportedError, UsageError
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.evolution import new_schema
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.kinds import FileSource
from paimon_spark.spec.manifest import EMPTY_ROW, DataFileMeta
from paimon_spark.spec.types import ArrayType, DataField, TypeRoot, atomic, type_from_json, type_to_json
from paimon_spark.testing.tables import read_arrow
from tests.small_tables import frame, option_keys, rows

FLOAT = atomic(TypeRoot.FLOAT)
FIELDS = (
    DataField(0, "k", atomic(TypeRoot.INT)),
    DataField(1, "e", ArrayType(FLOAT)),
    DataField(2, "v", atomic(TypeRoot.INT)),
)
DECLARED = {"vector-field": "e", "field.e.vector-dim": "2"}
EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
ROWS = [(1, [1.5, -2.0], 10), (2, None, 20), (3, [0.0, 0.25], 30)]


def vector_table(**options: str) -> Table:
    given = option_keys(options)
    schema = new_schema(FIELDS, options=DECLARED | given)
    table = Table.of(Identifier("db", "t"), "/wh/db.db/t", schema, InMemoryFileIO())
    assert table.schema_store.try_create(schema)
    return table


def put_vectors(table: Table, first_row_id: int, values: list[Any]) -> None:
    """Write a file of vectors of rows that are in the table."""
    part = replace(table, schema=replace(table.schema, fields=table.schema.fields[1:2]))
    writer = RollingWriter(part, EMPTY_ROW, 0, level=0, source=FileSource.APPEND)
    writer.write(frame(part, [(v,) for v in values]))
    (file,) = writer.close()
    directory, name = table.paths.bucket_dir(EMPTY_ROW, 0), file.file_name.replace(".parquet", ".vector.parquet")
    table.file_io.write(f"{directory}/{name}", table.file_io.read(f"{directory}/{file.file_name}"))
    placed = replace(file, file_name=name, write_cols=("e",), first_row_id=first_row_id)
    FileStoreCommit(table).commit([CommitMessage(partition=EMPTY_ROW, bucket=0, total_buckets=-1, new_files=(placed,))])


def put_rest(table: Table, values: list[tuple[int, int]]) -> None:
    """Write rows without their vectors."""
    fields = (table.schema.fields[0], table.schema.fields[2])
    part = replace(table, schema=replace(table.schema, fields=fields))
    writer = RollingWriter(part, EMPTY_ROW, 0, level=0, source=FileSource.APPEND)
    writer.write(frame(part, list(values)))
    (file,) = writer.close()
    placed: DataFileMeta = replace(file, write_cols=("k", "v"))
    FileStoreCommit(table).commit([CommitMessage(partition=EMPTY_ROW, bucket=0, total_buckets=-1, new_files=(placed,))])


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_vectors_come_back(file_format: str) -> None:
    table = vector_table(file__format=file_format)
    assert table.schema.field("e").type == ArrayType(FLOAT, length=2)
    write_arrow(table, frame(table, ROWS))
    assert rows(table) == ROWS


def test_vectors_of_another_length_are_refused() -> None:
    table = vector_table()
    for value, says in (([1.0], "1 elements"), ([1.0, None], "a null element"), ([], "0 elements")):
        with pytest.raises(ArgumentError, match=f"'e' of table .* has {says}; each needs 2"):
            write_arrow(table, frame(table, [*ROWS, (4, value, 0)]))
    assert table.snapshots.latest() is None


def test_files_of_vectors() -> None:
    table = vector_table(**{k.replace(".", "__").replace("-", "_"): v for k, v in EVOLVING.items()})
    put_rest(table, [(1, 10), (2, 20), (3, 30), (4, 40)])
    put_vectors(table, 0, [[1.0, 2.0], [3.0, 4.0]])
    put_vectors(table, 2, [[5.0, 6.0], None])
    put_vectors(table, 2, [[7.0, 8.0], [9.0, 0.0]])
    assert rows(table) == [(1, [1.0, 2.0], 10), (2, [3.0, 4.0], 20), (3, [7.0, 8.0], 30), (4, [9.0, 0.0], 40)]
    assert read_arrow(table, columns=["e"]).column(0).to_pylist()[3] == [9.0, 0.0]


def test_a_gap_between_files_of_vectors_is_told() -> None:
    table = vector_table(**{k.replace(".", "__").replace("-", "_"): v for k, v in EVOLVING.items()})
    put_rest(table, [(1, 10), (2, 20)])
    put_vectors(table, 1, [[1.0, 2.0]])
    with pytest.raises(CorruptTableError, match="columns of 2 rows"):
        rows(table)
    assert read_arrow(table, columns=["v"]).num_rows == 2


def test_the_type_is_stored() -> None:
    t = ArrayType(FLOAT, nullable=False, length=7)
    assert type_from_json(type_to_json(t)) == t
    assert type_to_json(t) == {"type": "VECTOR NOT NULL", "element": "FLOAT", "length": 7}
    for bad in ({"type": "VECTOR", "element": "FLOAT"}, {"type": "VECTOR", "element": "STRING", "length": 2}):
        with pytest.raises(CorruptTableError):
            type_from_json(bad)


def test_what_cannot_be_declared() -> None:
    for options, says in (
        ({"vector-field": "k"}, "'k' of type INT"),
        ({"vector-field": "e"}, "'e' in 'vector-field' has no number of elements"),
        ({"vector-field": "e", "field.e.vector-dim": "0"}, "'e' in 'vector-field' has no number"),
    ):
        with pytest.raises(UsageError, match=says):
            new_schema(FIELDS, options=options)
    with pytest.raises(UnsupportedError, match=r"'vector.file.format' = 'parquet'"):
        new_schema(FIELDS, options=DECLARED | EVOLVING | {"vector.file.format": "parquet"})
