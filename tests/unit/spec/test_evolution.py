"""CREATE TABLE and ALTER TABLE as functions of schemas."""

from __future__ import annotations

from typing import Any

import pytest

from paimon_spark.errors import NotFoundError, OptionError, PaimonError, UnsupportedError
from paimon_spark.spec.casts import can_change
from paimon_spark.spec.evolution import (
    AddColumn,
    DropColumn,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetComment,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    apply_changes,
    new_schema,
    with_default_options,
)
from paimon_spark.spec.schema import TableSchema, parse_schema
from paimon_spark.spec.types import STRING, ArrayType, DataField, DataType, MapType, RowType, parse_atomic

INT, BIGINT = parse_atomic("INT"), parse_atomic("BIGINT")


def _fields(**types: str | DataType) -> list[DataField]:
    return [DataField(-1, n, parse_atomic(t) if isinstance(t, str) else t) for n, t in types.items()]


def _create(options: dict[str, str] | None = None, *, types: dict[str, Any] | None = None, **more: Any) -> TableSchema:
    return new_schema(
        _fields(**(types or {"id": "INT", "v": "STRING", "p": "INT"})), options=options, now_millis=7, **more
    )


def test_a_new_table() -> None:
    schema = _create({"primary-key": "p, id", "partition": "p", "bucket": "2"}, comment="c")
    assert schema.primary_keys == ("p", "id")
    assert schema.partition_keys == ("p",)
    assert schema.options == {"bucket": "2"}
    assert [f.type.nullable for f in schema.fields] == [False, True, False]
    assert (schema.id, schema.highest_field_id, schema.time_millis) == (0, 2, 7)
    assert parse_schema(schema.to_json(), "schema-0") == schema


def test_ids_of_nested_members_come_after_their_own_members() -> None:
    inner = RowType((DataField(0, "o", INT),))
    row = RowType((DataField(0, "m", INT), DataField(0, "n", ArrayType(inner))))
    schema = _create(types={"a": "INT", "b": "INT", "x": "INT", "y": "INT", "c": row, "z": "INT"})
    c = schema.field("c")
    assert isinstance(c.type, RowType)
    m, n = c.type.fields
    assert isinstance(n.type, ArrayType)
    assert isinstance(n.type.element, RowType)
    assert (c.id, m.id, n.type.element.fields[0].id, n.id) == (4, 5, 6, 7)
    assert schema.field("z").id == 8 == schema.highest_field_id


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"": "x"}, "An option has no name"),
        ({" ": "x"}, "An option has no name"),
        ({"primary-key": "nope"}, "'nope', which the primary key names"),
        ({"primary-key": "id,id"}, "more than once"),
        ({"primary-key": "p", "partition": "p"}, "only partition columns"),
        ({"primary-key": "id", "bucket": "0"}, "bucket"),
        ({"bucket": "2"}, "bucket-key"),
        ({"bucket": "2", "bucket-key": "nope"}, "'nope'"),
        ({"bucket": "2", "bucket-key": "v,v"}, "more than once"),
        ({"primary-key": "id", "bucket": "2", "bucket-key": "v"}, "not in the primary key"),
        ({"bucket": "2", "bucket-key": "p", "partition": "p"}, "not in the columns"),
        ({"primary-key": "id", "bucket-key": "id"}, "'bucket' is -1"),
        ({"primary-key": "v", "bucket": "2", "bucket-function.type": "mod"}, "one INT or BIGINT"),
        ({"changelog-producer": "input"}, "needs a primary key"),
        ({"primary-key": "id", "sequence.field": "nope"}, "'nope'"),
        ({"primary-key": "id", "sequence.field": "v,v"}, "more than once"),
        ({"primary-key": "id", "merge-engine": "first-row", "sequence.field": "v"}, "first-row"),
        ({"primary-key": "id", "merge-engine": "first-row", "changelog-producer": "input"}, "first-row"),
        ({"primary-key": "id", "partition": "p", "bucket": "1", "sequence.field": "v"}, "contains the partition"),
        ({"primary-key": "id", "rowkind.field": "id"}, "not a STRING"),
        ({"fields.nope.stats-mode": "none"}, "'nope'"),
        ({"primary-key": "id", "row-tracking.enabled": "true"}, "without primary key"),
        ({"data-evolution.enabled": "true"}, "row-tracking"),
        ({"snapshot.num-retained.min": "5", "snapshot.num-retained.max": "2"}, "larger"),
        ({"primary-key": "id", "bucket": "-2", "postpone.default-bucket-num": "0"}, "at least 1"),
        ({"bucket": "-2"}, "with a primary key"),
        ({"primary-key": " , "}, "names no column"),
    ],
)
def test_tables_that_cannot_be(options: dict[str, str], part: str) -> None:
    with pytest.raises(PaimonError) as e:
        _create(options)
    assert part in str(e.value)


@pytest.mark.parametrize(
    ("types", "keys", "part"),
    [
        ({"_KEY_x": "INT"}, {}, "Paimon reserves that name"),
        ({"rowkind": "INT"}, {}, "Paimon reserves that name"),
        ({" ": "INT"}, {}, "no name"),
        ({}, {}, "at least one column"),
        ({"m": MapType(STRING, INT), "v": "INT"}, {"primary_keys": ["m"]}, "of type MAP cannot be in the primary key"),
        ({"a": "INT", "b": "BYTES"}, {"partition_keys": ["b"]}, "binary"),
        ({"a": RowType((DataField(0, "x", INT), DataField(1, "x", INT)))}, {}, "member 'x'"),
        ({"a": "DECIMAL(39, 0)"}, {}, "cannot have the type"),
        ({"a": "TIMESTAMP(10)"}, {}, "cannot have the type"),
    ],
)
def test_columns_that_cannot_be(types: dict[str, Any], keys: dict[str, Any], part: str) -> None:
    with pytest.raises(PaimonError) as e:
        new_schema(_fields(**types), **keys)
    assert part in str(e.value)


def test_a_column_name_twice_and_keys_twice() -> None:
    with pytest.raises(PaimonError, match="more than once"):
        new_schema([*_fields(a="INT"), *_fields(a="INT")])
    with pytest.raises(OptionError, match="Both the statement and an option"):
        _create({"primary-key": "id"}, primary_keys=["id"])


def test_table_defaults() -> None:
    schema = _create({"primary-key": "id", "bucket": "2"})
    assert with_default_options(schema, {}) is schema
    merged = with_default_options(schema, {"bucket": "9", "file.format": "orc"})
    assert merged.options == {"bucket": "2", "file.format": "orc"}
    with pytest.raises(OptionError, match=r"file\.formt"):
        with_default_options(schema, {"file.formt": "orc"})


# ------------------------------------------------------------------------------------------------- options


PK = _create({"primary-key": "id", "bucket": "2", "bucket-key": "id", "sequence.field": "v"})


def _alter(*changes: SchemaChange, schema: TableSchema = PK, has_snapshots: bool = True) -> TableSchema:
    return apply_changes(schema, changes, 9, has_snapshots=has_snapshots)


def test_options_and_comment() -> None:
    out = _alter(SetOption("write-only", "true"), RemoveOption("sequence.field"), SetComment("hello"))
    assert out.options == {"bucket": "2", "bucket-key": "id", "write-only": "true"}
    assert (out.id, out.time_millis, out.comment) == (1, 9, "hello")
    assert _alter(SetOption("bucket", "4")).options["bucket"] == "4"


def test_changes_that_change_nothing() -> None:
    assert _alter(SetOption("bucket", "2"), RemoveOption("write-only"), SetComment(None)) is PK
    assert _alter(SetOption("primary-key", "id")) is PK
    assert _alter(SetOption("write-only", "true"), RemoveOption("write-only")) is PK


@pytest.mark.parametrize(
    "change",
    [
        SetOption("bucket", "-1"),
        RemoveOption("bucket"),
        SetOption("primary-key", "v"),
        RemoveOption("primary-key"),
        SetOption("bucket-key", "v"),
        RemoveOption("bucket-key"),
        SetOption("type", "format-table"),
        SetOption("path", "/x"),
        SetOption("merge-engine", "first-row"),
        SetOption("deletion-vectors.enabled", "true"),
        SetOption("rowkind.field", "v"),
        SetOption("write-onl", "true"),
        SetOption("write-only", "yes"),
        SetOption("fields.nope.stats-mode", "none"),
        SetOption("snapshot.num-retained.max", "5"),
    ],
)
def test_options_that_cannot_change(change: SchemaChange) -> None:
    with pytest.raises(PaimonError):
        _alter(change)


def test_options_that_go_together_change_together() -> None:
    with pytest.raises(OptionError, match=r"num-retained.min' = 10 is larger than 'snapshot.num-retained.max' = 5"):
        _alter(SetOption("snapshot.num-retained.max", "5"))
    both = SetOption("snapshot.num-retained.max", "5"), SetOption("snapshot.num-retained.min", "5")
    assert _alter(*both).options["snapshot.num-retained.max"] == "5"


def test_an_empty_table_may_change_more() -> None:
    dynamic = _create({"primary-key": "id"})
    assert _alter(SetOption("bucket", "3"), schema=dynamic, has_snapshots=False).options["bucket"] == "3"
    with pytest.raises(OptionError, match=r"from -1 to 3: .*only change from one positive number to another"):
        _alter(SetOption("bucket", "3"), schema=dynamic)


def test_one_way_options() -> None:
    schema = _create({"primary-key": "id", "ignore-delete": "true"})
    for change in (SetOption("ignore-delete", "false"), RemoveOption("ignore-delete")):
        with pytest.raises(OptionError, match="switched off"):
            _alter(change, schema=schema)


def test_the_directory_of_null_partitions_stays() -> None:
    key = "partition.default-name"
    by_default = _create({"partition": "p"})
    named = _create({"partition": "p", key: "none"})
    for schema, change in (
        (by_default, SetOption(key, "nil")),
        (named, SetOption(key, "nil")),
        (named, RemoveOption(key)),
    ):
        with pytest.raises(OptionError, match=r"'partition\.default-name'.*its null partitions would not be found"):
            _alter(change, schema=schema)
    assert _alter(SetOption(key, "__DEFAULT_PARTITION__"), schema=by_default).id == 1
    assert _alter(SetOption(key, "nil"), schema=by_default, has_snapshots=False).options[key] == "nil"
    assert _alter(SetOption(key, "nil"), schema=_create()).options[key] == "nil"
    legacy = _alter(SetOption("partition.legacy-name", "false"), schema=by_default)
    assert legacy.options == {"partition.legacy-name": "false"}


def test_the_levels_of_a_table_with_data_stay() -> None:
    keyed, trigger = _create({"primary-key": "id"}), "num-sorted-run.compaction-trigger"
    raised = _alter(SetOption(trigger, "8"), schema=keyed)
    assert raised.options == {trigger: "8", "num-levels": "6"}
    reset = _alter(RemoveOption(trigger), schema=raised)
    assert reset.options == {"num-levels": "6"}
    assert _alter(RemoveOption("num-levels"), schema=reset).options == {}
    assert _alter(SetOption("num-levels", "6"), schema=keyed).options == {"num-levels": "6"}
    for schema, change in (
        (keyed, SetOption("num-levels", "7")),
        (raised, SetOption("num-levels", "5")),
        (raised, RemoveOption("num-levels")),
    ):
        with pytest.raises(OptionError, match=r"'num-levels'.*cannot change: the table contains data in 6 levels"):
            _alter(change, schema=schema)
    assert _alter(SetOption(trigger, "8"), schema=keyed, has_snapshots=False).options == {trigger: "8"}
    assert _alter(SetOption("num-levels", "7"), schema=_create()).options["num-levels"] == "7"


def test_a_change_to_something_unsupported_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"commit\.callbacks"):
        _alter(SetOption("commit.callbacks", "a.B"))


# ------------------------------------------------------------------------------------------------- columns

ROW = RowType((DataField(0, "x", INT), DataField(1, "y", STRING)))
NESTED = _create(
    types={"id": "INT", "r": ROW, "a": ArrayType(ROW), "m": MapType(STRING, INT), "dt": "STRING", "v": "INT"},
    options={
        "primary-key": "id,dt",
        "partition": "dt",
        "bucket": "1",
        "sequence.field": "v",
        "fields.v.stats-mode": "full",
    },
)


def _names(schema: TableSchema) -> list[str]:
    return [f.name for f in schema.fields]


def test_added_columns_get_new_ids_at_their_position() -> None:
    out = _alter(AddColumn(("n",), ROW, "why"), AddColumn(("f",), INT, first=True), schema=NESTED)
    assert _names(out) == ["f", "id", "r", "a", "m", "dt", "v", "n"]
    n = out.field("n")
    assert isinstance(n.type, RowType)
    assert (n.id, [f.id for f in n.type.fields], out.field("f").id) == (10, [11, 12], 13)
    assert out.highest_field_id == 13
    assert _names(_alter(AddColumn(("n",), INT, after="id"), schema=NESTED))[:2] == ["id", "n"]
    nested = _alter(AddColumn(("a", "element", "z"), INT, after="x"), schema=NESTED).field("a").type
    assert isinstance(nested, ArrayType)
    assert isinstance(nested.element, RowType)
    assert [f.name for f in nested.element.fields] == ["x", "z", "y"]


def test_add_before_the_partition_columns() -> None:
    schema = _alter(SetOption("add-column-before-partition", "true"), AddColumn(("n",), INT), schema=NESTED)
    assert _names(schema) == ["id", "r", "a", "m", "n", "dt", "v"]


def test_a_dropped_name_comes_back_with_another_id() -> None:
    out = _alter(DropColumn(("m",)), AddColumn(("m",), INT), schema=NESTED)
    assert out.field("m").id == NESTED.highest_field_id + 1


def test_rename_follows_keys_and_options() -> None:
    out = _alter(RenameColumn(("id",), "key"), RenameColumn(("v",), "version"), schema=NESTED)
    assert out.primary_keys == ("key", "dt")
    assert out.options["sequence.field"] == "version"
    assert out.options["fields.version.stats-mode"] == "full"
    assert "fields.v.stats-mode" not in out.options
    assert out.field("key").id == NESTED.field("id").id


AGGREGATED = _create(
    types={"id": "INT", "a": ArrayType(ROW), "m": MapType(STRING, RowType((*ROW.fields, DataField(2, "t", STRING))))},
    options={
        "primary-key": "id",
        "bucket": "1",
        "merge-engine": "aggregation",
        "fields.a.aggregate-function": "nested_update",
        "fields.a.nested-key": "x,y",
        "fields.a.nested-sequence-field": "x",
        "fields.m.aggregate-function": "merge_map_with_keytime",
    },
)


def test_rename_of_a_member_follows_options() -> None:
    timed = _alter(SetOption("fields.m.ts-field", "y"), schema=AGGREGATED)
    out = _alter(
        RenameColumn(("a", "element", "x"), "key"), RenameColumn(("m", "value", "y"), "at"), schema=timed
    ).options
    assert (out["fields.a.nested-key"], out["fields.a.nested-sequence-field"]) == ("key,y", "key")
    assert out["fields.m.ts-field"] == "at"


def test_a_member_that_an_option_names_stays() -> None:
    with pytest.raises(PaimonError, match="nested-key' names it"):
        _alter(DropColumn(("a", "element", "y")), schema=AGGREGATED)


@pytest.mark.parametrize(
    "change",
    [
        AddColumn(("m", "value", "late"), STRING),
        DropColumn(("m", "value", "t")),
        UpdateColumnPosition(("m", "value", "t"), first=True),
    ],
)
def test_the_time_of_map_entries_stays_the_same_member(change: SchemaChange) -> None:
    with pytest.raises(PaimonError, match="the time of the entries of column 'm'"):
        _alter(change, schema=AGGREGATED)
    assert (
        _alter(SetOption("fields.m.ts-field", "t"), AddColumn(("m", "value", "late"), STRING), schema=AGGREGATED).id
        == 1
    )
    assert _alter(SetOption("fields.m.ts-field", "y"), schema=AGGREGATED).id == 1
    assert _alter(RenameColumn(("m", "value", "t"), "u"), schema=AGGREGATED).id == 1


def test_drop_if_exists() -> None:
    assert _alter(DropColumn(("nope",), if_exists=True), schema=NESTED) is NESTED
    assert _alter(DropColumn(("r", "nope"), if_exists=True), schema=NESTED) is NESTED
    assert "m" not in _names(_alter(DropColumn(("m",), if_exists=True), schema=NESTED))


def test_the_bucket_key_keeps_its_type() -> None:
    schema = _create({"bucket": "2", "bucket-key": "a"}, types={"a": "INT", "b": "INT"})
    with pytest.raises(PaimonError, match="part of the bucket key"):
        _alter(UpdateColumnType(("a",), BIGINT), schema=schema)


def test_types_comments_positions_defaults() -> None:
    out = _alter(
        UpdateColumnType(("r", "x"), BIGINT),
        UpdateColumnType(("m", "value"), BIGINT),
        UpdateColumnComment(("v",), "text"),
        UpdateColumnPosition(("v",), first=True),
        UpdateColumnPosition(("id",), after="r"),
        UpdateColumnDefault(("v",), "5"),
        schema=NESTED,
    )
    assert _names(out) == ["v", "r", "id", "a", "m", "dt"]
    r, m = out.field("r").type, out.field("m").type
    assert isinstance(r, RowType)
    assert isinstance(m, MapType)
    assert (r.fields[0].type, m.value) == (BIGINT, BIGINT)
    assert (out.field("v").description, out.field("v").default_value) == ("text", "5")


def test_nullability() -> None:
    append = _create(types={"a": "INT NOT NULL", "b": "INT"})
    out = _alter(UpdateColumnNullability(("a",), nullable=True), schema=append)
    assert out.field("a").type.nullable
    with pytest.raises(PaimonError, match="may contain nulls"):
        _alter(UpdateColumnNullability(("b",), nullable=False), schema=append)
    allowed = _alter(
        SetOption("alter-column-null-to-not-null.disabled", "false"),
        UpdateColumnNullability(("b",), nullable=False),
        schema=append,
    )
    assert not allowed.field("b").type.nullable
    assert not _alter(UpdateColumnType(("a",), BIGINT), schema=append).field("a").type.nullable


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (AddColumn(("n",), parse_atomic("INT NOT NULL")), "cannot be NOT NULL"),
        (AddColumn(("v",), INT), "already exists"),
        (AddColumn(("_LEVEL",), INT), "Paimon reserves"),
        (AddColumn(("n",), INT, after="nope"), "there is no 'nope'"),
        (AddColumn(("m", "key", "x"), INT), "there is no 'key'"),
        (AddColumn(("v", "x"), INT), "there is no 'x'"),
        (RenameColumn(("dt",), "d"), "partition column"),
        (RenameColumn(("v",), "id"), "already exists"),
        (RenameColumn(("nope",), "x"), "does not exist"),
        (RenameColumn(("m", "value"), "x"), "cannot be renamed"),
        (DropColumn(("id",)), "primary key"),
        (DropColumn(("dt",)), "partition column"),
        (DropColumn(("v",)), "names it"),
        (UpdateColumnType(("id",), BIGINT), "primary key"),
        (UpdateColumnType(("m",), INT), "cannot change from MAP to INT"),
        (UpdateColumnType(("v",), parse_atomic("BYTES")), "cannot change from INT to BYTES"),
        (UpdateColumnNullability(("id",), nullable=True), "primary key"),
        (UpdateColumnPosition(("v",), after="v"), "after itself"),
        (UpdateColumnDefault(("v",), "x"), "not a value of type"),
        (UpdateColumnComment(("a", "element"), "x"), "cannot have a comment"),
    ],
)
def test_columns_that_cannot_change(change: SchemaChange, part: str) -> None:
    with pytest.raises(PaimonError) as e:
        _alter(change, schema=NESTED)
    assert part in str(e.value)


def test_a_misspelled_column_is_answered_with_the_right_one() -> None:
    with pytest.raises(NotFoundError, match="Did you mean 'bucket_a'"):
        _alter(DropColumn(("bucket_b",)), schema=_create(types={"bucket_a": "INT", "x": "INT"}))


def test_the_last_column_stays() -> None:
    with pytest.raises(PaimonError, match="only one"):
        _alter(DropColumn(("a",)), schema=_create(types={"a": "INT"}))


def test_lossy_changes_can_be_forbidden() -> None:
    schema = _create({"disable-explicit-type-casting": "true"}, types={"a": "BIGINT"})
    with pytest.raises(PaimonError, match="disable-explicit-type-casting"):
        _alter(UpdateColumnType(("a",), INT), schema=schema)
    assert _alter(UpdateColumnType(("a",), INT), schema=_create(types={"a": "BIGINT"})).field("a").type == INT


@pytest.mark.parametrize(
    ("old", "new", "explicit", "expected"),
    [
        ("INT", "BIGINT", False, True),
        ("BIGINT", "INT", False, False),
        ("BIGINT", "INT", True, True),
        ("INT", "STRING", False, False),
        ("INT", "STRING", True, True),
        ("STRING", "INT", True, True),
        ("STRING", "DATE", True, True),
        ("DATE", "INT", True, False),
        ("TIMESTAMP(3)", "DATE", False, True),
        ("DATE", "TIMESTAMP(3)", True, True),
        ("TIMESTAMP(3)", "TIMESTAMP(6) WITH LOCAL TIME ZONE", False, True),
        ("VARCHAR(9)", "VARCHAR(3)", False, True),
        ("BOOLEAN", "BYTES", True, False),
        ("FLOAT", "DECIMAL(9, 2)", False, True),
    ],
)
def test_casts(old: str, new: str, explicit: bool, expected: bool) -> None:
    assert can_change(parse_atomic(old), parse_atomic(new), explicit=explicit) is expected
