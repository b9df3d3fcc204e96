"""The changes by which a table takes rows of another schema."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paimon_spark.spec.column_changes import AddColumn, UpdateColumnType, change_column
from paimon_spark.spec.schema_merge import MergeRules, merging_changes
from paimon_spark.spec.types import ArrayType, DataField, DataType, RowType, parse_atomic
from paimon_spark.testing.tables import new_table

WIDENS, LOSES = MergeRules(widens=True), MergeRules(loses=True)


def fields(**types: str | DataType) -> tuple[DataField, ...]:
    """Return columns that have numbers, as those of a table do."""
    given = {name: parse_atomic(t) if isinstance(t, str) else t for name, t in types.items()}
    return tuple(DataField(10 * n, name, t) for n, (name, t) in enumerate(given.items()))


def row(**types: str) -> RowType:
    return RowType(tuple(replace(f, id=100 + f.id) for f in fields(**types)))


def changed(rules: MergeRules, old: str, new: str) -> bool:
    schema = new_table({"k": "INT", "c": old}).schema
    found = merging_changes(schema, fields(c=new), rules)
    assert all(isinstance(c, UpdateColumnType) for c in found)
    return bool(found)


@pytest.mark.parametrize(
    ("old", "new", "widens", "loses"),
    [
        ("INT", "INT", False, False),
        ("INT", "INT NOT NULL", False, False),
        ("INT", "BIGINT", True, True),
        ("BIGINT", "INT", False, True),
        ("INT", "DOUBLE", True, True),
        ("BIGINT", "DOUBLE", False, True),
        ("INT", "DECIMAL(10, 0)", True, True),
        ("INT", "DECIMAL(10, 2)", False, True),
        ("DECIMAL(10, 2)", "DECIMAL(12, 2)", True, True),
        ("DECIMAL(12, 2)", "DECIMAL(10, 2)", False, True),
        ("DECIMAL(10, 2)", "DECIMAL(12, 3)", False, False),
        ("VARCHAR(3)", "STRING", True, True),
        ("STRING", "VARCHAR(3)", False, True),
        ("INT", "STRING", False, True),
        ("DATE", "BOOLEAN", False, False),
    ],
)
def test_types_change_as_far_as_is_allowed(old: str, new: str, *, widens: bool, loses: bool) -> None:
    assert changed(MergeRules(), old, new) is False
    assert changed(WIDENS, old, new) is widens
    assert changed(LOSES, old, new) is loses


def test_members_are_added_and_keys_keep_their_types() -> None:
    columns = fields(k="INT", s=row(a="INT"), l=ArrayType(row(a="INT")))
    keyed = new_table({"k": "INT", "v": "INT"}, primary_key=["k"]).schema
    schema = replace(keyed, fields=columns, highest_field_id=200)
    given = fields(k="BIGINT", S=row(a="BIGINT", b="STRING"), l=ArrayType(row(c="INT")), n="INT NOT NULL")
    found = merging_changes(schema, given, WIDENS)
    assert [c.column for c in found] == [("s", "a"), ("s", "b"), ("l", "element", "c"), ("n",)]
    for change in found:
        assert isinstance(change, AddColumn | UpdateColumnType)
        schema = change_column(schema, change)
    assert list(schema.field_names) == ["k", "s", "l", "n"]
    assert schema.field("n").type.nullable
    assert merging_changes(schema, given, WIDENS) == []
