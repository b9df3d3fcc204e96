"""The layout of a table: which changes of a schema keep rows of the old one out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from paimon_spark.spec.evolution import (
    AddColumn,
    DropColumn,
    RenameColumn,
    SchemaChange,
    SetComment,
    SetOption,
    UpdateColumnType,
    apply_changes,
    new_schema,
)
from paimon_spark.spec.replacement import replacing_schema
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.table_layout import layout_change
from paimon_spark.spec.types import DataField, parse_atomic

COLUMNS = {"k": "INT NOT NULL", "s": "STRING", "v": "INT"}
KEYED = {"bucket": "2", "bucket-key": "k", "sequence.field": "v"}


def schema(
    columns: Mapping[str, str] = COLUMNS,
    options: Mapping[str, str] = KEYED,
    key: tuple[str, ...] = ("k",),
    partition: tuple[str, ...] = (),
) -> TableSchema:
    fields = [DataField(i, name, parse_atomic(text)) for i, (name, text) in enumerate(columns.items())]
    return new_schema(fields, options=options, primary_keys=key, partition_keys=partition)


@pytest.mark.parametrize(
    "changes",
    [
        [AddColumn(("n",), parse_atomic("INT"))],
        [DropColumn(("s",))],
        [UpdateColumnType(("v",), parse_atomic("BIGINT"))],
        [SetComment("a table"), SetOption("write-only", "true")],
        [SetOption("bucket", "8")],
        [RenameColumn(("k",), "key"), RenameColumn(("v",), "version")],
        [RenameColumn(("k",), "x"), RenameColumn(("v",), "k"), RenameColumn(("x",), "v")],
    ],
    ids=["add", "drop", "retype", "options", "number of buckets", "rename keys", "exchange names"],
)
def test_changes_of_a_table_with_rows_keep_its_layout(changes: list[SchemaChange]) -> None:
    old = schema()
    assert layout_change(old, apply_changes(old, changes, 0, has_snapshots=True)) is None


@pytest.mark.parametrize(
    ("new", "what"),
    [
        (schema(key=("s",), options={"bucket": "2"}), "its primary key is (s) instead of (k)"),
        (schema(key=("k", "s")), "its primary key is (k, s) instead of (k)"),
        (schema(key=(), options={}), "its primary key is none instead of (k)"),
        (schema({**COLUMNS, "k": "BIGINT"}), "its primary key is (k) instead of (k)"),
        (schema(options={"sequence.field": "v"}), "its option 'bucket' is '-1' instead of '2'"),
        (schema(options={**KEYED, "bucket-function.type": "mod"}), "its option 'bucket-function.type' is 'mod'"),
        (schema(options={"bucket": "2", "rowkind.field": "s"}), "its option 'rowkind.field' is 's' instead of not set"),
        (schema({**COLUMNS, "n": "INT NOT NULL"}), "its column 'n' is new and NOT NULL"),
    ],
    ids=["key", "longer key", "no key", "type of the key", "mode", "function", "kind", "required column"],
)
def test_a_replacement_of_the_layout_is_told(new: TableSchema, what: str) -> None:
    old = schema()
    assert (layout_change(old, replacing_schema(old, new)) or "").startswith(what)


def test_options_that_are_fixed_count_as_layout() -> None:
    old = schema(options={"bucket": "2"})
    new = replacing_schema(old, schema(options={"bucket": "3", "merge-engine": "first-row"}))
    assert layout_change(old, new) == "its option 'merge-engine' is 'first-row' instead of 'deduplicate'"
    same = replace(old, options={"bucket": "3", "merge-engine": "deduplicate"})
    assert layout_change(old, same) is None, "that is the default"


def test_another_bucket_key_of_an_append_table_counts() -> None:
    old = schema(key=())
    for columns, key in ((COLUMNS, "s"), ({**COLUMNS, "k": "BIGINT NOT NULL"}, "k")):
        new = replacing_schema(old, schema(columns, {"bucket": "2", "bucket-key": key}, key=()))
        assert layout_change(old, new) == f"its bucket key is ({key}) instead of (k)"


def test_partition_columns_of_other_writers_count() -> None:
    flat = schema({"k": "INT", "p": "STRING"}, {}, key=())
    parted = replace(flat, partition_keys=("p",))
    assert layout_change(flat, parted) == "its partition columns are (p) instead of none"
