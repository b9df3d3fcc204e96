"""Options of file indexes: the indexes that they specify, and invalid options."""

from __future__ import annotations

import pytest

from paimon_spark.errors import PaimonError
from paimon_spark.spec.column_options import options_naming, rename_in_options
from paimon_spark.spec.file_indexes import IndexKind, check_file_indexes, index_specs, supports
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import STRING, AtomicType, DataField, MapType, TypeRoot, parse_atomic

COLUMNS = {
    "s": STRING,
    "i": parse_atomic("INT"),
    "d": parse_atomic("DECIMAL(20, 2)"),
    "t": parse_atomic("TIMESTAMP(9)"),
    "b": parse_atomic("BYTES"),
    "m": MapType(STRING, parse_atomic("INT")),
    "n": MapType(parse_atomic("INT"), STRING),
}


def schema(options: dict[str, str]) -> TableSchema:
    fields = tuple(DataField(i, name, t) for i, (name, t) in enumerate(COLUMNS.items()))
    return TableSchema(
        id=0, fields=fields, highest_field_id=len(fields), partition_keys=(), primary_keys=(), options=options
    )


def test_columns_keys_and_settings() -> None:
    options = {
        "file-index.bsi.columns": "i",
        "file-index.bloom-filter.columns": "s, i,s",
        "file-index.bloom-filter.s.fpp": " 0.5",
        "file-index.bitmap.columns": "m[a], m[b]",
        "file-index.bitmap.m.version": "1",
        "file-index.bitmap.m[b].version": "2",
        "file-index.read.enabled": "false",
        "file-index.in-manifest-threshold": "1 kb",
    }
    check_file_indexes(schema(options))
    found = [(s.kind, s.name, s.column, s.map_key, dict(s.settings)) for s in index_specs(options)]
    assert found == [
        (IndexKind.BLOOM_FILTER, "s", "s", None, {"fpp": "0.5"}),
        (IndexKind.BLOOM_FILTER, "i", "i", None, {}),
        (IndexKind.BITMAP, "m[a]", "m", "a", {"version": "1"}),
        (IndexKind.BITMAP, "m[b]", "m", "b", {"version": "2"}),
        (IndexKind.BSI, "i", "i", None, {}),
    ]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"file-index.hash.columns": "s"}, "bloom-filter, bitmap, bsi, range-bitmap"),
        ({"file-index.bitmap.columns": "s,,i"}, "empty column"),
        ({"file-index.bitmap.columns": "x"}, "'x', which the option 'file-index.bitmap.columns' names"),
        ({"file-index.bsi.columns": "s"}, "'bsi' does not support .* Use one of bloom-filter, bitmap, range-bitmap"),
        ({"file-index.bsi.columns": "d"}, r"does not support DECIMAL\(20, 2\)"),
        ({"file-index.range-bitmap.columns": "t"}, r"does not support TIMESTAMP\(9\)"),
        ({"file-index.bitmap.columns": "b"}, "Use one of bloom-filter"),
        ({"file-index.bitmap.columns": "m"}, "does not support MAP.*no kind supports it"),
        ({"file-index.bitmap.columns": "s[a]"}, "no map with STRING keys"),
        ({"file-index.bitmap.columns": "n[1]"}, "no map with STRING keys"),
        ({"file-index.bitmap.columns": "s", "file-index.bitmap.i.version": "1"}, "has no index of the kind 'bitmap'"),
        ({"file-index.bitmap.columns": "s", "file-index.bitmap.s.fpp": "1"}, "version, index-block-size"),
        ({"file-index.bsi.columns": "i", "file-index.bsi.i.fpp": "1"}, "settings are: none"),
        ({"file-index.bitmap.columns": "s", "file-index.bitmap.s.version": "3"}, "1 or 2"),
        ({"file-index.bloom-filter.columns": "s", "file-index.bloom-filter.s.items": "0"}, "a positive number"),
        ({"file-index.bloom-filter.columns": "s", "file-index.bloom-filter.s.fpp": "1"}, "between 0 and 1"),
        ({"file-index.range-bitmap.columns": "s", "file-index.range-bitmap.s.chunk-size": "x"}, "a size"),
    ],
)
def test_what_is_refused(options: dict[str, str], says: str) -> None:
    with pytest.raises(PaimonError, match=says):
        check_file_indexes(schema(options))


def test_no_kind_supports_nested_values() -> None:
    assert not any(supports(kind, COLUMNS["m"]) for kind in IndexKind)
    assert not any(supports(kind, AtomicType(TypeRoot.VARIANT)) for kind in IndexKind)


def test_columns_are_renamed_in_options() -> None:
    options = {
        "file-index.bitmap.columns": "a, m[a],m[b]",
        "file-index.bitmap.a.version": "1",
        "file-index.bitmap.m.version": "2",
        "file-index.bitmap.m[b].version": "1",
        "file-index.in-manifest-threshold": "1 kb",
    }
    assert rename_in_options(options, ("m",), "n") == {
        "file-index.bitmap.columns": "a,n[a],n[b]",
        "file-index.bitmap.a.version": "1",
        "file-index.bitmap.n.version": "2",
        "file-index.bitmap.n[b].version": "1",
        "file-index.in-manifest-threshold": "1 kb",
    }
    assert options_naming(options, ("m",)) == [
        "file-index.bitmap.columns",
        "file-index.bitmap.m.version",
        "file-index.bitmap.m[b].version",
    ]
    assert options_naming(options, ("b",)) == []
