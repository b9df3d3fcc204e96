"""ALTER TABLE … REPLACE COLUMNS as one schema change."""

from __future__ import annotations

import pytest

from paimon_spark.errors import ConflictError, PaimonError
from paimon_spark.spec.evolution import ReplaceColumns, apply_changes, new_schema
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import STRING, ArrayType, DataField, DataType, MapType, RowType, parse_atomic

INT, BIGINT = parse_atomic("INT"), parse_atomic("BIGINT")


def row(**members: DataType) -> RowType:
    return RowType(tuple(DataField(0, n, t) for n, t in members.items()))


def columns(**types: str | DataType) -> tuple[DataField, ...]:
    return tuple(DataField(0, n, parse_atomic(t) if isinstance(t, str) else t) for n, t in types.items())


TABLE = new_schema(
    columns(id="INT", v="INT", s="STRING", r=row(x=INT, y=STRING), p="STRING"),
    options={"primary-key": "id,p", "partition": "p", "bucket": "1", "sequence.field": "v"},
    now_millis=0,
)


def replaced(new: tuple[DataField, ...], schema: TableSchema = TABLE) -> TableSchema:
    return apply_changes(schema, [ReplaceColumns(schema.field_names, new)], 1, has_snapshots=True)


def test_columns_of_the_same_name_keep_their_ids() -> None:
    out = replaced(columns(n="DATE", v="BIGINT", id="INT", p="STRING"))
    assert out.field_names == ("n", "v", "id", "p")
    assert [out.field(n).id for n in ("v", "id", "p")] == [TABLE.field(n).id for n in ("v", "id", "p")]
    assert out.field("n").id == TABLE.highest_field_id + 1
    assert out.field("v").type == BIGINT
    assert not out.field("id").type.nullable
    assert out.id == 1


def test_members_of_the_same_name_keep_their_ids() -> None:
    old = new_schema(columns(a=ArrayType(row(x=INT, y=INT)), m=MapType(STRING, row(x=INT))), now_millis=0)
    out = replaced(columns(m=MapType(STRING, row(z=INT, x=BIGINT)), a=ArrayType(row(y=INT))), old)
    a, m, was_a, was_m = (s.field(n).type for s in (out, old) for n in "am")
    assert isinstance(a, ArrayType)
    assert isinstance(was_a, ArrayType)
    assert isinstance(a.element, RowType)
    assert isinstance(was_a.element, RowType)
    assert a.element.fields == was_a.element.fields[1:]
    assert isinstance(m, MapType)
    assert isinstance(was_m, MapType)
    assert isinstance(m.value, RowType)
    assert isinstance(was_m.value, RowType)
    assert [(f.name, f.type) for f in m.value.fields] == [("z", INT), ("x", BIGINT)]
    assert m.value.fields[1].id == was_m.value.fields[0].id


def test_every_column_but_one_can_be_another() -> None:
    old = new_schema(columns(a="INT"), now_millis=0)
    out = replaced(columns(b="INT", c="INT"), old)
    assert [(f.name, f.id) for f in out.fields] == [("b", 1), ("c", 2)]


def test_comments_are_those_of_the_statement() -> None:
    old = new_schema([DataField(0, "a", INT, "old"), DataField(0, "b", INT)], now_millis=0)
    out = replaced((DataField(0, "a", INT), DataField(0, "b", INT, "new")), old)
    assert [f.description for f in out.fields] == [None, "new"]


def test_types_that_sql_cannot_spell_stay() -> None:
    old = new_schema(columns(a="TIMESTAMP(3)", b="TIME(3)", c="BINARY(4)"), now_millis=0)
    assert replaced(columns(a="TIMESTAMP(6)", b="INT", c="BYTES"), old) is old


@pytest.mark.parametrize(
    ("new", "says"),
    [
        (columns(v="INT", p="STRING"), "part of the primary key"),
        (columns(id="INT", v="INT"), "a partition column"),
        (columns(id="INT", p="STRING"), "names it"),
        (columns(id="BIGINT", v="INT", p="STRING"), "part of the primary key"),
        (columns(id="INT", v="DATE", p="STRING"), "cannot change from INT to DATE"),
        (columns(id="INT", v="INT", p="STRING", S="STRING"), "only in case"),
        (columns(id="INT", v="INT", v2="INT NOT NULL", p="STRING"), "cannot be NOT NULL"),
        ((*columns(id="INT", v="INT", p="STRING"), DataField(0, "v", INT)), "more than once"),
        ((*columns(id="INT", v="INT", p="STRING"), DataField(0, "n", INT, None, "5")), "cannot have a DEFAULT"),
    ],
)
def test_what_other_statements_refuse_is_refused(new: tuple[DataField, ...], says: str) -> None:
    with pytest.raises(PaimonError, match=says):
        replaced(new)


def test_columns_that_changed_meanwhile_are_told() -> None:
    with pytest.raises(ConflictError, match="changed concurrently"):
        apply_changes(TABLE, [ReplaceColumns(("id", "v"), columns(id="INT"))], 1, has_snapshots=True)
