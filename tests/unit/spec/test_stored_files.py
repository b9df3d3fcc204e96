"""Which changes of a table make its files be read by other rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paimon_spark.spec.column_changes import AddColumn, RenameColumn
from paimon_spark.spec.evolution import SetOption, apply_changes, new_schema
from paimon_spark.spec.option_catalogue import known_options
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.stored_files import PLACES, differing_definition, is_about_files
from paimon_spark.spec.support import Scope, scope_of
from paimon_spark.spec.types import DataField, parse_atomic

FIELDS = [DataField(0, "a", parse_atomic("INT")), DataField(1, "b", parse_atomic("STRING"))]
KEYED = {"bucket": "2", "bucket-key": "a", "rowkind.field": "b"}


def keyed(**options: str) -> TableSchema:
    return new_schema(FIELDS, primary_keys=("a",), options={**KEYED, **options})


def test_what_can_be_altered_is_no_other_definition() -> None:
    changes = (
        RenameColumn(("a",), "k"),
        RenameColumn(("b",), "kind"),
        AddColumn(("c",), parse_atomic("INT")),
        SetOption("bucket", "4"),
        SetOption("sequence.field", "c"),
    )
    before = keyed()
    after = apply_changes(before, changes, 0, has_snapshots=True)
    assert after.primary_keys == ("k",)
    assert differing_definition(before, after) is None


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"merge-engine": "first-row"}, "'merge-engine'"),
        ({"bucket-key": ""}, "'bucket-key'"),
        ({"rowkind.field": "a"}, None),
        ({"row-tracking.enabled": "true"}, None),
        ({"data-evolution.enabled": "TRUE"}, "'data-evolution.enabled'"),
        ({"data-evolution.enabled": "FALSE"}, None),
    ],
)
def test_an_option_by_which_rows_are_merged_is_a_definition(options: dict[str, str], expected: str | None) -> None:
    schema = keyed()
    assert differing_definition(schema, replace(schema, options={**KEYED, **options})) == expected


def test_another_key_is_another_definition() -> None:
    schema = keyed()
    recreated = replace(schema.fields[0], id=7)
    for other in (
        replace(schema, primary_keys=()),
        replace(schema, primary_keys=("a", "b")),
        replace(schema, fields=(recreated, schema.fields[1])),
    ):
        assert differing_definition(schema, other) == "primary key"


def test_options_about_files_are_not_those_of_queries() -> None:
    about = [name for name in known_options() if is_about_files(name)]
    assert {"merge-engine", "bucket", *PLACES} <= set(about)
    assert [name for name in about if scope_of(name) in (Scope.READ, Scope.STREAM, Scope.CALL)] == []
