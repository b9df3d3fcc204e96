"""REPLACE TABLE: which column ids a new schema keeps, and what it may not change."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from paimon_spark.errors import UnsupportedError
from paimon_spark.spec.evolution import new_schema
from paimon_spark.spec.replacement import replacing_schema
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import DataField, parse_atomic


def schema(columns: dict[str, str], options: Mapping[str, str] | None = None, **keys: tuple[str, ...]) -> TableSchema:
    fields = [DataField(i, name, parse_atomic(text)) for i, (name, text) in enumerate(columns.items())]
    return new_schema(fields, options={"bucket": "-1", **(options or {})}, **keys)


def test_same_columns_keep_their_ids_and_others_get_new_ones() -> None:
    old = schema({"a": "INT", "b": "STRING", "c": "BIGINT"})
    new = replacing_schema(old, schema({"c": "BIGINT", "a": "BIGINT", "d": "INT", "b": "STRING NOT NULL"}))
    assert [(f.id, f.name) for f in new.fields] == [(2, "c"), (3, "a"), (4, "d"), (1, "b")]
    assert (new.id, new.highest_field_id) == (1, 4)


def test_ids_of_dropped_columns_do_not_come_back() -> None:
    old = schema({"a": "INT", "b": "STRING"})
    second = replacing_schema(old, schema({"a": "INT"}))
    third = replacing_schema(second, schema({"a": "INT", "b": "STRING"}))
    assert [(f.id, f.name) for f in third.fields] == [(0, "a"), (2, "b")]


def test_partition_columns_stay() -> None:
    old = schema({"a": "INT", "dt": "STRING"}, partition_keys=("dt",))
    for other in (
        schema({"a": "INT", "dt": "STRING"}),
        schema({"a": "INT", "dt": "DATE"}, partition_keys=("dt",)),
    ):
        with pytest.raises(UnsupportedError, match=r"they are dt STRING and would be (dt DATE|none)"):
            replacing_schema(old, other)


@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [
        ({"data-file.path-directory": "data"}, {}, "Set it to 'data'"),
        ({"data-file.path-directory": "data"}, {"data-file.path-directory": "DATA"}, "Set it to 'data'"),
        ({}, {"data-file.path-directory": "data"}, "Leave it out"),
        ({"index-file-in-data-file-dir": "true"}, {"index-file-in-data-file-dir": "false"}, "Set it to 'true'"),
        ({}, {"partition.default-name": "none"}, "Set it to '__DEFAULT_PARTITION__'"),
        ({"partition.legacy-name": "false"}, {}, "Set it to 'false'"),
    ],
)
def test_files_stay_where_they_are_found(before: dict[str, str], after: dict[str, str], hint: str) -> None:
    old = schema({"a": "INT"}, before)
    with pytest.raises(UnsupportedError, match=next(iter({**before, **after}))) as refused:
        replacing_schema(old, schema({"a": "INT"}, after))
    assert hint in refused.value.hint
    assert replacing_schema(old, schema({"b": "INT"}, before)).options == old.options
