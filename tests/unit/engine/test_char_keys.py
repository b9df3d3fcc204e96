"""CHAR columns: values that differ in trailing blanks only are equal, whatever writer and format they went through."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.api.catalog import CatalogHandle
from paimon_spark.catalog.filesystem import FileSystemCatalog
from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.levels import sections
from paimon_spark.core.merge.config import SYSTEM_FIELDS
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.redistribution.postpone_compact import execute_postponed, plan_postponed
from paimon_spark.engine.redistribution.rescale import execute_rescale, plan_rescale
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.bucket_functions import BucketFunction, key_hash
from paimon_spark.spec.evolution import SetOption, apply_changes, new_schema
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.kinds import RowKind
from paimon_spark.spec.rows import bucket_of
from paimon_spark.spec.types import DataField, parse_atomic
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.tables import new_table, read_arrow
from tests.small_tables import option_keys

FORMATS = {
    "orc": {"file.format": "orc"},
    "parquet": {"file.format": "parquet"},
    "avro over orc": {"file.format": "orc", "file.format.per.level": "0:avro"},
    "orc over parquet": {"file.format": "parquet", "file.format.per.level": "0:orc"},
}
KEYS = ("", "a", "a ", "a  ", "a\t", "a \t", "ab", "ab ", "abc", "b", "ä", "ä  ", "\t", "\t\t ")


def keyed(**options: str) -> Table:
    return new_table({"k": "CHAR(3)", "v": "INT"}, primary_key=["k"], options={"bucket": "1"} | option_keys(options))


def put(table: Table, *rows: tuple[Any, ...], kind: RowKind = RowKind.INSERT) -> None:
    columns = {n: pa.array([r[i] for r in rows]) for i, n in enumerate(table.schema.field_names)}
    write_arrow(table, pa.table({**columns, ROW_KIND: pa.array([int(kind)] * len(rows), pa.int8())}))


def changed(table: Table, option: str, value: str) -> Table:
    schema = apply_changes(table.schema, [SetOption(option, value)], 0, has_snapshots=True)
    assert table.schema_store.try_create(schema)
    return Table.of(table.identifier, table.path, schema, table.file_io)


def compact(table: Table, strategy: Strategy = Strategy.FULL) -> None:
    execute_compaction(plan_compaction(table, strategy=strategy), LocalRunner())


def rows_of(table: Table) -> list[tuple[Any, ...]]:
    """Return the rows, without trailing blanks of keys."""
    return sorted((r["k"].rstrip(" "), r["v"]) for r in read_arrow(table, columns=["k", "v"]).to_pylist())


@pytest.mark.parametrize("options", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("more", [{}, {"deletion_vectors.enabled": "true"}, {"changelog_producer": "lookup"}])
def test_random_writes_keep_one_row_of_a_key(options: dict[str, str], more: dict[str, str]) -> None:
    for seed in range(6):
        rng, model = Random(seed), dict[str, int]()
        table = keyed(**options, **more, num_levels="3", num_sorted_run__compaction_trigger="3")
        for _ in range(8):
            rows = [(rng.choice(KEYS), rng.randrange(1000)) for _ in range(rng.randint(1, 6))]
            kind = RowKind.DELETE if rng.random() < 0.2 else RowKind.INSERT
            put(table, *rows, kind=kind)
            for k, v in rows:
                if kind is RowKind.DELETE:
                    model.pop(k.rstrip(" "), None)
                else:
                    model[k.rstrip(" ")] = v
            if rng.random() < 0.4:
                compact(table, rng.choice((Strategy.FULL, Strategy.MINOR)))
            assert rows_of(table) == sorted(model.items())
        assert violations(table) == []


def test_a_key_is_one_after_a_change_of_the_format() -> None:
    table = keyed(file__format="parquet")
    put(table, ("a  ", 1), ("b  ", 1))
    table = changed(table, "file.format", "orc")
    put(table, ("a  ", 2))
    assert rows_of(table) == [("a", 2), ("b", 1)]
    compact(table)
    assert rows_of(table) == [("a", 2), ("b", 1)]


def test_ranges_of_keys_with_and_without_blanks_overlap() -> None:
    table = keyed(file__format="orc", write_only="true")
    put(table, ("a", 1))
    put(table, ("a", 2))
    compact(table.with_options({"write-only": "false"}))
    put(table, ("a", 3))
    files = [e.file for e in scan(table, table.snapshots.latest()).entries]
    assert len({f.min_key for f in files}) == 2
    assert len(sections(files, table.key_types)) == 1


@pytest.mark.parametrize("form", ["orc", "parquet", "avro"])
def test_rows_are_in_the_bucket_of_the_padded_key(form: str) -> None:
    table = keyed(file__format=form, bucket="4")
    put(table, *((k.rstrip(), 0) for k in KEYS))
    put(table, *((k.rstrip(" ").ljust(3), 1) for k in KEYS))
    execute_rescale(plan_rescale(table, 7), None)
    for buckets, count in ((4, 2), (7, 3)):
        entries = scan(table, table.snapshots.get(count)).entries
        assert {e.total_buckets for e in entries} == {buckets}
        for e in entries:
            for chunk in BucketFiles(table, e.partition, e.bucket).chunks(e.file, table.schema.fields):
                for k in chunk.column("k").to_pylist():
                    hashed = key_hash(BucketFunction.DEFAULT, (k.rstrip(" ").ljust(3),), table.key_types)
                    assert bucket_of(hashed, buckets) == e.bucket
    table = changed(table, "bucket", "7")
    put(table, *((k, 2) for k in KEYS))
    assert {v for _, v in rows_of(table)} == {2}


def test_dynamic_buckets_know_keys_without_blanks() -> None:
    table = keyed(bucket="-1", dynamic_bucket__target_row_num="1", file__format="orc")
    put(table, ("a", 1), ("b", 1), ("c  ", 1))
    put(table, ("a ", 2), ("c", 2))
    assert rows_of(table) == [("a", 2), ("b", 1), ("c", 2)]


@pytest.mark.parametrize("form", ["orc", "parquet"])
def test_a_key_without_blanks_moves_to_another_partition(form: str) -> None:
    table = new_table(
        {"k": "CHAR(3)", "v": "INT", "p": "CHAR(3)"},
        primary_key=["k"],
        partition=["p"],
        options={"bucket": "-1", "file.format": form},
    )
    put(table, ("a", 1, "x"), ("b", 1, "x"))
    put(table, ("a  ", 2, "y"))
    assert sorted((r["v"], r["p"]) for r in read_arrow(table).to_pylist()) == [(1, "x"), (2, "y")]


@pytest.mark.parametrize("form", ["orc", "parquet"])
def test_first_rows_are_found_in_upper_levels(form: str) -> None:
    table = keyed(file__format=form, merge_engine="first-row", num_levels="3")
    put(table, ("a\t", 1), ("a", 1), ("b", 1))
    put(table, *((k, 2) for k in KEYS))
    assert rows_of(table) == sorted((k, 1 if k in ("a\t", "a", "b") else 2) for k in {k.rstrip(" ") for k in KEYS})


def test_postponed_keys_go_to_the_bucket_of_the_padded_key() -> None:
    options = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false", "postpone.merge-on-read": "true"}
    table = keyed(**options, postpone__default_bucket_num="4")
    for v in range(2):
        put(table, *((k, v) for k in KEYS))
        execute_postponed(plan_postponed(table, strategy=Strategy.FULL, default_buckets=4), None, LocalRunner())
    put(table, *((k.rstrip(" "), 2) for k in KEYS))
    assert {v for _, v in rows_of(table)} == {2}
    assert len(rows_of(table)) == len({k.rstrip(" ") for k in KEYS})


@pytest.mark.parametrize("options", [{}, {"merge-engine": "first-row"}], ids=["merged", "rewritten"])
def test_rows_are_deleted_by_keys_without_blanks(options: dict[str, str]) -> None:
    catalog = FileSystemCatalog("/w", {}, InMemoryFileIO())
    catalog.create_database("d")
    columns = [DataField(i, n, parse_atomic(t)) for i, (n, t) in enumerate({"k": "CHAR(3)", "v": "INT"}.items())]
    schema = new_schema(columns, primary_keys=["k"], options={"bucket": "3", "file.format": "orc"} | options)
    catalog.create_table(Identifier("d", "t"), schema)
    table = CatalogHandle(catalog).table("d.t")
    table.append(pa.table({"k": ["a", "ab ", "b  "], "v": [1, 2, 3]}))
    table.delete(keys=pa.table({"k": ["a ", "ab"]}))
    assert table.to_arrow("v").to_pylist() == [{"v": 3}]
    table.delete("k = 'b'")
    assert table.count() == 0


def test_partitions_and_values_keep_what_they_are_given() -> None:
    table = new_table({"k": "CHAR(3)", "p": "CHAR(3)", "v": "CHAR(3)"}, primary_key=["k", "p"], partition=["p"])
    put(table, ("a", "x", "v"), ("a", "x  ", "v "))
    assert sorted(tuple(r.values()) for r in read_arrow(table).to_pylist()) == [("a  ", "x", "v"), ("a  ", "x  ", "v ")]


def test_changelogs_and_differences_ignore_trailing_blanks() -> None:
    table = new_table(
        {"k": "INT", "v": "CHAR(3)"},
        primary_key=["k"],
        options={
            "bucket": "1",
            "file.format": "orc",
            "file.format.per.level": "0:parquet",
            "changelog-producer": "lookup",
            "changelog-producer.row-deduplicate": "true",
        },
    )
    for v in ("a", "a  ", "a"):
        put(table, (1, v))
    last = table.snapshots.latest_id()
    differences = {"incremental-between": f"1,{last}", "incremental-between-scan-mode": "diff"}
    assert read_arrow(table.with_options(differences)).num_rows == 0
    put(table, (1, "b"))
    assert changes(table) == [("+I", "a"), ("-U", "a"), ("+U", "b")]


def changes(table: Table) -> list[tuple[str, str]]:
    found = []
    for i in range(1, (table.snapshots.latest_id() or 0) + 1):
        for e in ManifestStore(table).changelog_entries(table.snapshots.get(i)):
            files = BucketFiles(table, e.partition, e.bucket)
            for chunk in files.chunks(e.file, (*SYSTEM_FIELDS, *table.schema.fields)):
                found += [(RowKind(r["_VALUE_KIND"]).short, r["v"].rstrip(" ")) for r in chunk.to_pylist()]
    return found
