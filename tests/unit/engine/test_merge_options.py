"""Options of merge engines: what CREATE refuses, which statements pass, and which schema a read takes them from."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import write_arrow
from paimon_spark.errors import OptionError, PaimonError, UnsupportedError
from paimon_spark.spec.column_changes import RenameColumn, UpdateColumnType
from paimon_spark.spec.evolution import apply_changes
from paimon_spark.spec.kinds import Operation
from paimon_spark.spec.merge_rules import check_statement, rewrites_rows
from paimon_spark.spec.schema_rules import check_schema
from paimon_spark.spec.types import parse_atomic
from paimon_spark.testing.tables import new_table, read_arrow

COLUMNS = {"k": "INT", "g": "INT", "a": "INT", "s": "STRING", "l": "INT"}


def table_of(engine: str, **options: str) -> Table:
    return new_table(COLUMNS, primary_key=["k"], options={"merge-engine": engine, "bucket": "1", **options})


AGGREGATION = [
    ({"fields.s.aggregate-function": "sum"}, "'sum' does not take the column 's'"),
    ({"fields.a.aggregate-function": "summ"}, "Did you mean 'sum'"),
    ({"fields.l.aggregate-function": "nested_update"}, "ARRAY<ROW>"),
    ({"ignore-delete": "true", "aggregation.remove-record-on-delete": "true"}, "contradict"),
    ({"aggregation.remove-record-on-delete": "true", "fields.a.ignore-retract": "true"}, "contradict"),
]
PARTIAL_UPDATE = [
    ({"fields.g.sequence-group": "k"}, "primary key"),
    ({"fields.x.sequence-group": "a"}, "'x', which does not exist"),
    ({"fields.g.sequence-group": "a", "fields.s.sequence-group": "a"}, "two sequence groups"),
    ({"fields.g.sequence-group": ""}, "needs a sequence field"),
    ({"fields.a.aggregate-function": "sum"}, "no sequence group"),
    ({"ignore-delete": "true", "partial-update.remove-record-on-delete": "true"}, "contradict"),
    ({"partial-update.remove-record-on-delete": "true", "fields.g.sequence-group": "a"}, "contradict"),
    ({"partial-update.remove-record-on-sequence-group": "g"}, "not a field of a sequence group"),
]


@pytest.mark.parametrize(
    ("engine", "options", "says"),
    [*(("aggregation", *c) for c in AGGREGATION), *(("partial-update", *c) for c in PARTIAL_UPDATE)],
)
def test_wrong_options_are_refused(engine: str, options: dict[str, str], says: str) -> None:
    schema = table_of(engine, **options).schema
    with pytest.raises(OptionError, match=says):
        check_schema(schema)


REMOVING = {"partial-update.remove-record-on-sequence-group": "g", "fields.g.sequence-group": "a"}
STATEMENTS: list[tuple[str, dict[str, str], Operation, bool]] = [
    ("aggregation", {}, Operation.DELETE, False),
    ("aggregation", {"aggregation.remove-record-on-delete": "true"}, Operation.DELETE, True),
    ("aggregation", {}, Operation.UPDATE, False),
    ("partial-update", {}, Operation.DELETE, False),
    ("partial-update", {"ignore-delete": "true"}, Operation.DELETE, False),
    ("partial-update", {"partial-update.remove-record-on-delete": "true"}, Operation.DELETE, True),
    ("partial-update", REMOVING, Operation.DELETE, True),
    ("partial-update", {}, Operation.MERGE, True),
    ("partial-update", REMOVING | {"fields.a.aggregate-function": "sum"}, Operation.MERGE, False),
    ("first-row", {"ignore-delete": "true"}, Operation.DELETE, False),
]


@pytest.mark.parametrize(("engine", "options", "operation", "passes"), STATEMENTS)
def test_statements_are_merged_where_the_engine_can(
    engine: str, options: dict[str, str], operation: Operation, *, passes: bool
) -> None:
    table = table_of(engine, **options)
    assert rewrites_rows(table.schema, table.options, operation) is not passes
    if passes:
        check_statement(table.schema, table.options, operation)
    else:
        with pytest.raises(UnsupportedError) as e:
            check_statement(table.schema, table.options, operation)
        assert e.value.hint


GROUPS = REMOVING | {"fields.l.sequence-group": "s"}
FUNCTION = "fields.{}.aggregate-function".format
REFUSED: list[tuple[str, dict[str, str], dict[str, Any], str]] = [
    ("late", REMOVING | {FUNCTION("a"): "max"}, {"g": 4}, "'max' of column 'a'"),
    ("without the removing sequence", GROUPS | {FUNCTION("s"): "min"}, {"l": 9}, "'min' of column 's'"),
    ("late for one of two groups", GROUPS | {FUNCTION("a"): "max"}, {"g": 4, "l": 4}, "'max' of column 'a'"),
]


@pytest.mark.parametrize(("options", "values", "says"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_a_delete_that_a_function_may_have_to_retract_is_refused(
    options: dict[str, str], values: dict[str, Any], says: str
) -> None:
    table = table_of("partial-update", **options)
    nothing: dict[str, Any] = {"g": None, "a": None, "s": None, "l": None}
    write(table, k=1, g=5, a=1, s="x", l=5)
    with pytest.raises(UnsupportedError, match=says):
        write(table, "-D", k=1, **nothing | values)
    assert rewrites_rows(table.schema, table.options, Operation.DELETE)
    assert read_arrow(table).num_rows == 1


def test_a_delete_of_other_columns_is_written() -> None:
    table = table_of("partial-update", **GROUPS, **{FUNCTION("s"): "max"})
    for k, g in ((1, 5), (2, 4)):
        write(table, k=k, g=5, a=1, s="x", l=5)
        write(table, "-D", k=k, g=g, a=None, s=None, l=None)
    assert read_arrow(table).to_pylist() == [{"k": 2, "g": 5, "a": 1, "s": "x", "l": 5}]


NULLED: list[tuple[str, dict[str, str], str]] = [
    ("partial-update", {"fields.g.sequence-group": "a"}, "a"),
    ("partial-update", {"fields.g.sequence-group": "a", FUNCTION("a"): "last_value"}, "a"),
    ("partial-update", GROUPS, "s"),
    ("aggregation", {}, "a"),
    ("aggregation", {FUNCTION("a"): "last_value"}, "a"),
    ("aggregation", {FUNCTION("a"): "sum", "sequence.field": "g"}, "g"),
]


@pytest.mark.parametrize(("engine", "options", "column"), NULLED)
def test_a_delete_that_nulls_a_not_null_column_is_refused(engine: str, options: dict[str, str], column: str) -> None:
    columns = COLUMNS | {column: f"{COLUMNS[column]} NOT NULL"}
    table = new_table(columns, primary_key=["k"], options={"merge-engine": engine, "bucket": "1", **options})
    values: dict[str, Any] = {"k": 1, "g": 5, "a": 1, "s": "x", "l": 5}
    write(table, **values)
    with pytest.raises(UnsupportedError, match=f"NOT NULL column '{column}'"):
        write(table, "-D", **values)
    write_together(table, ("-U", values), ("+U", values))
    assert read_arrow(table).num_rows == 1
    assert rewrites_rows(table.schema, table.options, Operation.DELETE)


@pytest.mark.parametrize(
    ("engine", "options"),
    [
        ("partial-update", {"partial-update.remove-record-on-delete": "true"}),
        ("partial-update", REMOVING),
        ("aggregation", {"aggregation.remove-record-on-delete": "true"}),
        ("aggregation", {FUNCTION("a"): "sum"}),
        ("aggregation", {"fields.a.ignore-retract": "true"}),
    ],
)
def test_a_delete_that_keeps_not_null_columns_is_written(engine: str, options: dict[str, str]) -> None:
    columns = {"k": "INT", "g": "INT", "a": "INT NOT NULL"}
    table = new_table(columns, primary_key=["k"], options={"merge-engine": engine, "bucket": "1", **options})
    write(table, k=1, g=5, a=1)
    write(table, "-D", k=1, g=5, a=1)
    read_arrow(table)


def test_an_empty_delimiter_stays_empty() -> None:
    table = table_of("aggregation", **{"fields.s.aggregate-function": "listagg", "fields.s.list-agg-delimiter": ""})
    for text in ("x", "y"):
        write(table, k=1, g=None, a=None, s=text, l=None)
    assert read_arrow(table).column("s").to_pylist() == ["xy"]


def test_a_retract_takes_the_sequence_field_back() -> None:
    options = {"fields.a.aggregate-function": "sum", "sequence.field": "g"}
    table = table_of("aggregation", **options)
    write(table, k=1, g=1, a=10, s=None, l=None)
    write(table, "-U", k=1, g=2, a=3, s=None, l=None)
    assert read_arrow(table, columns=["g", "a"]).to_pylist() == [{"g": None, "a": 7}]


@pytest.mark.parametrize(
    ("narrow", "wide", "largest"), [("INT", "BIGINT", 2**31 - 1), ("BIGINT", "DECIMAL(38, 0)", 2**63 - 1)]
)
@pytest.mark.parametrize(("function", "factor"), [("sum", 1), ("product", 2)])
def test_a_wider_type_ends_an_overflow(narrow: str, wide: str, largest: int, function: str, factor: int) -> None:
    options = {"merge-engine": "aggregation", "bucket": "1", "write-only": "true"}
    options["fields.a.aggregate-function"] = function
    table = new_table({"k": "INT", "a": narrow}, primary_key=["k"], options=options)
    for a in (largest, factor):
        write_arrow(table, pa.table({"k": pa.array([1], pa.int32()), "a": [a]}))
    with pytest.raises(PaimonError, match=re.escape(f"TYPE {wide}.")):
        read_arrow(table)
    changed = apply_changes(table.schema, [UpdateColumnType(("a",), parse_atomic(wide))], 0, has_snapshots=True)
    assert table.schema_store.try_create(changed)
    assert read_arrow(table.with_schema(changed)).column("a").to_pylist() == [
        largest * factor if function == "product" else largest + factor
    ]


def test_time_travel_merges_by_the_options_of_its_schema() -> None:
    for engine, options, expected in (
        ("aggregation", {"fields.a.aggregate-function": "sum"}, 3),
        ("partial-update", {"fields.g.sequence-group": "a"}, 1),
    ):
        table = table_of(engine, **options, **{"write-only": "true"})
        write(table, k=1, g=2, a=1, s=None, l=None)
        write(table, k=1, g=1, a=2, s=None, l=None)
        renames = [RenameColumn(("a",), "b"), RenameColumn(("g",), "h")]
        changed = apply_changes(table.schema, renames, 0, has_snapshots=True)
        assert table.schema_store.try_create(changed)
        now = Table.of(table.identifier, table.path, changed, table.file_io)
        assert read_arrow(now).column("b").to_pylist() == [expected]
        assert read_arrow(now, version="2").column("a").to_pylist() == [expected]


def write(table: Table, kind: str = "+I", **values: Any) -> None:
    write_together(table, (kind, values))


def write_together(table: Table, *changes: tuple[str, dict[str, Any]]) -> None:
    kinds = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}
    types = {"k": pa.int32(), "g": pa.int32(), "a": pa.int32(), "s": pa.string(), "l": pa.int32()}
    columns = {n: pa.array([values[n] for _, values in changes], types[n]) for n in changes[0][1]}
    given = pa.array([kinds[kind] for kind, _ in changes], pa.int8())
    write_arrow(table, pa.table({**columns, ROW_KIND: given}))
