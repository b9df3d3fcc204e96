"""Files of one job are known by their names, and only those are deleted."""

from __future__ import annotations

from paimon_spark.core.maintenance.abandoned_files import delete_abandoned
from paimon_spark.core.table import Table
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.evolution import new_schema
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.types import DataField, parse_atomic


def table() -> Table:
    schema = new_schema([DataField(0, "id", parse_atomic("INT"))], options={"bucket": "-1"})
    return Table.of(Identifier("d", "t"), "/w/d.db/t", schema, InMemoryFileIO())


def test_only_files_of_the_marked_table_go() -> None:
    plain = table()
    first, second = plain.with_write_token(), plain.with_write_token()
    file_io = plain.file_io
    kept, gone = [], []
    for owner, paths in ((plain, kept), (second, kept), (first, gone)):
        again = Table.from_config(owner.to_config())
        for place, name in (
            ("bucket-0", again.paths.new_data_file("parquet", "zstd")),
            ("bucket-1", again.paths.new_data_file("orc")),
            ("index", again.paths.new_index_name()),
        ):
            paths.append(f"{plain.path}/{place}/{name}")
    for path in (*kept, *gone):
        file_io.write(path, b"x")
    assert sorted(delete_abandoned(first)) == sorted(gone)
    assert all(file_io.exists(path) for path in kept)
    assert not any(file_io.exists(path) for path in gone)
    assert delete_abandoned(plain) == []


def test_directories_in_which_nothing_else_is_go_too() -> None:
    marked = table().with_write_token()
    file_io, path = marked.file_io, marked.path
    for place in ("bucket-0", "bucket-1"):
        file_io.write(f"{path}/{place}/{marked.paths.new_data_file('orc')}", b"x")
    file_io.write(f"{path}/bucket-1/other", b"x")
    file_io.mkdirs(f"{path}/bucket-2")
    assert len(delete_abandoned(marked)) == 2
    assert [s.name for s in file_io.list(path)] == ["bucket-1", "bucket-2"]


def test_names_keep_the_form_of_a_uuid() -> None:
    name = table().with_write_token().paths.new_data_file("parquet")
    assert len(name) == len(table().paths.new_data_file("parquet"))
