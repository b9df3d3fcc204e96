"""The description of a native scan for Spark."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.core.manifest_cache import ManifestCache, ManifestLimits
from paimon_spark.core.scan.packed_files import PackedFileList
from paimon_spark.core.scan.splits import Split
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.select import plan_select
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spark.jvm_frames import _lines
from paimon_spark.spark.native_columns import FileLayout, NativeFiles
from paimon_spark.spark.native_scan import native_spec
from paimon_spark.spark.read_modes import ReadModes, ReadRequest
from paimon_spark.spec.predicate import TRUE
from paimon_spark.spec.types import DataField, parse_atomic
from paimon_spark.testing.faults import FaultFileIO, Recorder
from paimon_spark.testing.tables import new_table


def identity(table: Table, split: Split) -> str:
    request = ReadRequest(table, ("k",), TRUE, (split,))
    spec, groups = native_spec(request, NativeFiles(FileLayout("parquet", table.schema.id), (split,)), filtered=False)
    assert [len(g["files"]) for g in groups] == [len(split.files)]
    return str(spec["identity"])


def test_scans_of_one_file_name_in_two_partitions_differ() -> None:
    table = new_table({"k": "INT", "p": "INT"}, partition=["p"])
    rows = pa.table({"k": pa.array([1, 2], pa.int32()), "p": pa.array([1, 2], pa.int32())})
    write_arrow(table, rows)
    one, other = plan_select(table).splits
    namesake = replace(other, files=one.files)
    assert identity(table, one) == identity(table, one)
    assert identity(table, one) != identity(table, namesake)


def test_a_read_that_nobody_needs_goes_without_the_collector() -> None:
    table = new_table({"k": "INT"})
    write_arrow(table, pa.table({"k": pa.array([1, 2], pa.int32())}))
    request = ReadRequest(table, ("k",), TRUE, plan_select(table).splits)
    assert request.read_modes.native
    left = weakref.ref(request)
    gc.disable()
    try:
        del request
        assert left() is None
    finally:
        gc.enable()


def packed(*columns: Any, **more: Any) -> Table:
    """Return a new table of which scans find very many files, however few there are."""
    return replace(new_table(*columns, **more), manifest_cache=ManifestCache(ManifestLimits(many_files=0)))


def test_files_are_told_one_group_after_the_other() -> None:
    table = packed({"k": "INT", "p": "INT"}, partition=["p"])
    for _ in range(3):
        write_arrow(table, pa.table({"k": pa.array([1, 2], pa.int32()), "p": pa.array([1, 2], pa.int32())}))
    splits = plan_select(table).splits
    assert all(isinstance(s.files, PackedFileList) for s in splits)
    request = ReadRequest(table, ("k", "p"), TRUE, splits)
    (files,) = request.read_modes.native_files
    spec, groups = native_spec(request, files, filtered=False, together=2)
    assert isinstance(groups, Iterator)
    told = list(groups)
    assert [(g["values"], len(g["files"])) for g in told] == [(["1"], 2), (["1"], 1), (["2"], 2), (["2"], 1)]
    paths = [path for g in told for path, _, _ in g["files"]]
    assert paths == [table.paths.data_file(s.partition, s.bucket, f) for s in splits for f in s.files]
    other = ReadRequest(table, ("k", "p"), TRUE, splits[:1])
    (fewer,) = other.read_modes.native_files
    assert native_spec(other, fewer, filtered=False)[0]["identity"] != spec["identity"]


@pytest.mark.parametrize(("count", "filed"), [(0, False), (3, False), (1_000, True)])
def test_many_lines_travel_in_a_file(count: int, filed: bool) -> None:
    lines = [f"{n} {'x' * 40}" for n in range(count)]
    with _lines(iter(lines)) as text:
        assert text.startswith("@") == filed
        assert (Path(text[1:]).read_text() if filed else text).splitlines() == lines
    assert not (filed and Path(text[1:]).exists())


def division_of(table: Table, *columns: str) -> ReadModes:
    return ReadRequest(table, columns, TRUE, plan_select(table, columns=columns).splits).read_modes


def days(*texts: str | None) -> pa.Array:
    return pa.array([None if t is None else date.fromisoformat(t) for t in texts], pa.date32())


@pytest.mark.parametrize(
    ("values", "native"),
    [
        (("1582-10-15", "2024-02-29"), True),
        (("1582-10-14", "2024-02-29"), False),
        (("0001-01-01", None), False),
        ((None, None), True),
        (("1582-10-15", None), True),
    ],
)
@pytest.mark.parametrize("stats", ["full", "none"])
def test_orc_files_with_days_of_an_older_calendar_go_to_workers(
    values: tuple[str | None, ...], stats: str, *, native: bool
) -> None:
    options = {"file.format": "orc", "metadata.stats-mode": stats}
    table = new_table({"k": "INT", "d": "DATE"}, options=options)
    write_arrow(table, pa.table({"k": pa.array([1, 2], pa.int32()), "d": days(*values)}))
    assert bool(division_of(table, "d").native) is (native and stats == "full")
    assert division_of(table, "k").native
    partitioned = new_table({"k": "INT", "d": "DATE"}, partition=["d"], options=options)
    write_arrow(partitioned, pa.table({"k": pa.array([1, 2], pa.int32()), "d": days(*values)}))
    assert len(division_of(partitioned, "d").native) == len(set(values))
    parquet = new_table({"k": "INT", "d": "DATE"})
    write_arrow(parquet, pa.table({"k": pa.array([1, 2], pa.int32()), "d": days(*values)}))
    assert division_of(parquet, "d").native


def evolved(table: Table, *fields: DataField) -> Table:
    schema = replace(table.schema, id=table.schema.id + 1, fields=fields, highest_field_id=9)
    assert table.schema_store.try_create(schema)
    return table.with_schema(schema)


@pytest.mark.parametrize("stats", ["full", "none"])
def test_orc_files_from_before_there_were_days_need_no_worker(stats: str) -> None:
    first = new_table({"k": "INT"}, options={"file.format": "orc", "metadata.stats-mode": stats})
    write_arrow(first, pa.table({"k": pa.array([1], pa.int32())}))
    second = evolved(first, *first.schema.fields, DataField(2, "d", parse_atomic("DATE")))
    assert division_of(second, "k", "d").native


@pytest.mark.parametrize("file_format", ["orc", "parquet"])
def test_the_schema_of_many_files_is_read_once(file_format: str) -> None:
    store = FaultFileIO(InMemoryFileIO())
    table = new_table({"k": "INT", "d": "DATE"}, options={"file.format": file_format}, file_io=store)
    for _ in range(3):
        write_arrow(table, pa.table({"k": pa.array([1], pa.int32()), "d": days("2024-02-29")}))
    table = evolved(table, *table.schema.fields, DataField(2, "e", parse_atomic("INT")))
    request = ReadRequest(table, ("k", "d", "e"), TRUE, plan_select(table, columns=("k", "d", "e")).splits)
    store.schedule = operations = Recorder()
    assert sum(len(s.files) for s in request.read_modes.native) == 3
    schemas = {table.paths.schema(i): i for i in table.schema_store.ids()}
    read = [schemas[path] for operation, path in operations.log if operation == "read" and path in schemas]
    assert read == [0]


def test_orc_files_without_their_statistics_go_to_workers() -> None:
    table = packed({"k": "INT", "d": "DATE"}, options={"file.format": "orc"})
    write_arrow(table, pa.table({"k": pa.array([1], pa.int32()), "d": days("2024-02-29")}))
    assert division_of(table, "k", "d").workers
    assert division_of(table, "k").native


@pytest.mark.parametrize(
    ("column_type", "native"), [("TIMESTAMP(6)", True), ("TIMESTAMP(6) WITH LOCAL TIME ZONE", False)]
)
def test_orc_files_of_which_sparks_reader_does_not_know_a_type(column_type: str, *, native: bool) -> None:
    table = new_table({"k": "INT", "t": column_type}, options={"file.format": "orc"})
    moment = pa.array([datetime(2024, 2, 29)]).cast(to_arrow_type(parse_atomic(column_type)))
    write_arrow(table, pa.table({"k": pa.array([1], pa.int32()), "t": moment}))
    assert bool(division_of(table, "k").native) is native
    assert not division_of(table, "t").native


@pytest.mark.parametrize(
    ("column_type", "has_millis"),
    [("TIMESTAMP(0)", True), ("TIMESTAMP(3)", True), ("TIMESTAMP(6)", False), ("DATE", False)],
)
def test_the_reader_is_told_of_times_of_milliseconds(column_type: str, *, has_millis: bool) -> None:
    table = new_table({"k": "INT", "t": column_type})
    empty = pa.nulls(1, to_arrow_type(parse_atomic(column_type)))
    write_arrow(table, pa.table({"k": pa.array([1], pa.int32()), "t": empty}))
    request = ReadRequest(table, ("k", "t"), TRUE, plan_select(table).splits)
    (files,) = request.read_modes.native_files
    assert native_spec(request, files, filtered=False)[0]["has_millis"] is has_millis
