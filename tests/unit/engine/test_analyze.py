"""ANALYZE: statistics in a snapshot of their own, kept and removed like other metadata."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from paimon_spark.core.metadata.statistics import statistics_of
from paimon_spark.core.system.tables import system_table
from paimon_spark.core.table import Table
from paimon_spark.engine.analyze import commit_statistics, plan_analyze
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.expiry.orphans import execute_orphans, plan_orphans
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.refs.tags import execute_delete_tags, execute_tag, plan_create_tag, plan_delete_tags
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import CorruptTableError, NotFoundError, UnsupportedError
from paimon_spark.spec.column_changes import AddColumn
from paimon_spark.spec.evolution import apply_changes
from paimon_spark.spec.kinds import CommitKind
from paimon_spark.spec.table_statistics import ColumnStatistics
from paimon_spark.spec.types import STRING, ArrayType, AtomicType, DataField, DataType, RowType, TypeRoot, parse_atomic
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.tables import new_table

FAR = 4_102_444_800_000


def put(table: Table, *keys: int) -> None:
    columns = {f.name: pa.array(keys if f.name == "k" else [None] * len(keys), pa.int32()) for f in table.schema.fields}
    write_arrow(table, pa.table(columns))


def analyze(table: Table, rows: int = 1) -> None:
    snapshot = plan_analyze(table, ["k"]).snapshot
    assert snapshot is not None
    commit_statistics(table, snapshot, rows, {"k": ColumnStatistics(col_id=0, min="1", max="1")})


def expire_all(table: Table) -> None:
    execute_expire(table, plan_expire(table, ExpireConfig(retain_max=1, retain_min=1), FAR))


def files(table: Table) -> int:
    return len(table.file_io.list(table.paths.statistics_dir))


@pytest.fixture
def table() -> Table:
    table = new_table({"k": "INT"}, options={"write-only": "true"})
    put(table, 1)
    return table


def test_statistics_are_a_snapshot_without_files(table: Table) -> None:
    analyze(table)
    latest = table.snapshots.get(2)
    assert (latest.commit_kind, latest.delta_record_count, latest.total_record_count) == (CommitKind.ANALYZE, 0, 1)
    found = statistics_of(table, latest)
    assert found is not None
    assert (found.snapshot_id, found.merged_record_count) == (1, 1)
    assert found.merged_record_size
    assert system_table(table, "statistics").num_rows == 1
    assert violations(table) == []


def test_the_size_is_the_share_of_merged_rows() -> None:
    table = new_table({"k": "INT"}, primary_key=["k"], options={"bucket": "1", "write-only": "true"})
    put(table, 1)
    put(table, 1)
    analyze(table, rows=1)
    analyze_size = statistics_of(table, table.snapshots.latest())
    total = sum(system_table(table, "files")["file_size_in_bytes"].to_pylist())
    assert analyze_size is not None
    assert analyze_size.merged_record_size == total // 2


def test_commits_keep_statistics_until_the_schema_changes(table: Table) -> None:
    analyze(table)
    put(table, 2)
    assert statistics_of(table, table.snapshots.latest()) is not None
    schema = apply_changes(table.schema, [AddColumn(("c",), parse_atomic("INT"))], 0, has_snapshots=True)
    table.schema_store.try_create(schema)
    put(table.with_schema(schema), 3)
    assert statistics_of(table, table.snapshots.latest()) is None


def test_statistics_go_with_the_last_snapshot_that_has_them(table: Table) -> None:
    analyze(table)
    execute_tag(table, plan_create_tag(table, "a", clock_millis=0))
    analyze(table)
    assert files(table) == 2
    expire_all(table)
    assert files(table) == 2
    execute_delete_tags(table, plan_delete_tags(table, "a"))
    assert files(table) == 1
    execute_orphans(plan_orphans([table], LocalRunner(), clock_millis=FAR))
    assert files(table) == 1
    assert statistics_of(table, table.snapshots.latest()) is not None


def test_a_missing_file_is_named(table: Table) -> None:
    analyze(table)
    (file,) = table.file_io.list(table.paths.statistics_dir)
    table.file_io.delete(file.path)
    with pytest.raises(CorruptTableError, match=r"stat-.*ANALYZE TABLE"):
        statistics_of(table, table.snapshots.latest())


def test_columns_are_found_in_any_case_and_checked() -> None:
    table = new_table({"k": "INT", "v": "TIME(0)"})
    assert plan_analyze(table, ["K", "k"]).columns == ("k",)
    assert plan_analyze(table).snapshot is None
    with pytest.raises(NotFoundError, match="nosuch"):
        plan_analyze(table, ["nosuch"])
    with pytest.raises(UnsupportedError, match="'v'"):
        plan_analyze(table, all_columns=True)


@pytest.mark.parametrize(
    ("t", "named"),
    [
        (AtomicType(TypeRoot.VARIANT), "VARIANT"),
        (AtomicType(TypeRoot.TIME, nullable=False, precision=3), "TIME(3)"),
        (ArrayType(STRING), "ARRAY"),
        (RowType((DataField(0, "x", STRING),)), "STRUCT"),
    ],
    ids=["VARIANT", "TIME", "ARRAY", "STRUCT"],
)
def test_columns_without_statistics_are_named_with_type(t: DataType, named: str) -> None:
    table = new_table({"k": "INT", "v": "INT", "a b": "STRING"})
    fields = tuple(replace(f, type=t) if f.name == "v" else f for f in table.schema.fields)
    with pytest.raises(UnsupportedError) as e:
        plan_analyze(replace(table, schema=replace(table.schema, fields=fields)), all_columns=True)
    assert f"'v' of type {named} cannot" in str(e.value)
    assert e.value.hint == "Analyze the other columns: FOR COLUMNS k, `a b`."
