"""Which tables may be clustered, and along which curve."""

from __future__ import annotations

import pytest

from paimon_spark.errors import NotFoundError, OptionError
from paimon_spark.spec.clustering import Order, check_clustering, clustering_of, is_clustered, sorts_writes
from paimon_spark.spec.evolution import new_schema
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import ArrayType, DataField, parse_atomic

ON = {"clustering.incremental": "true"}


def schema(options: dict[str, str], *, keys: tuple[str, ...] = ()) -> TableSchema:
    types = {name: parse_atomic("INT") for name in "abcde"}
    fields = [DataField(i, n, t) for i, (n, t) in enumerate(types.items())]
    nested = DataField(5, "f", ArrayType(parse_atomic("INT")))
    variant = DataField(6, "g", parse_atomic("VARIANT"))
    plain = new_schema([*fields, nested, variant], primary_keys=keys, options={})
    return TableSchema(**{f: getattr(plain, f) for f in plain.__slots__} | {"options": options})


@pytest.mark.parametrize(
    ("columns", "strategy", "order"),
    [
        ("a", "auto", Order.ORDER),
        ("a,b", "auto", Order.ZORDER),
        ("a,b,c,d", "auto", Order.ZORDER),
        ("a,b,c,d,e", "auto", Order.HILBERT),
        ("a, b", "HILBERT", Order.HILBERT),
        ("a", "zorder", Order.ZORDER),
        ("a,b,c,d,e", "order", Order.ORDER),
    ],
)
def test_the_strategy_follows_the_columns(columns: str, strategy: str, order: Order) -> None:
    table = schema({**ON, "sink.clustering.by-columns": columns, "clustering.strategy": strategy})
    found = clustering_of(table, CoreOptions(table.options))
    assert (found.order, ", ".join(found.columns), found.is_local) == (
        order,
        columns.replace(",", ", ").replace("  ", " "),
        False,
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs 'clustering.columns'"),
        ({"clustering.columns": "a,a"}, "names 'a' more than once"),
        ({"clustering.columns": "f"}, "'f' of a nested type"),
        ({"clustering.columns": "g"}, "'g' of VARIANT"),
        ({"clustering.columns": "a", "clustering.strategy": "hilbert"}, "needs at least two"),
        ({"clustering.columns": "a", "clustering.strategy": "none"}, "cannot be 'none'"),
        ({"clustering.columns": "a", "data-evolution.enabled": "true"}, "contradict"),
        ({"clustering.columns": "a", "bucket": "2"}, "'bucket-append-ordered' = 'false'"),
        (
            {
                "clustering.columns": "a",
                "bucket": "2",
                "bucket-append-ordered": "false",
                "deletion-vectors.enabled": "true",
            },
            "contradict",
        ),
    ],
)
def test_tables_that_cannot_be_clustered(options: dict[str, str], message: str) -> None:
    table = schema({**ON, **options})
    with pytest.raises(OptionError, match=message):
        check_clustering(table, CoreOptions(table.options))
    off = schema({**options, "bucket": "2"})
    check_clustering(off, CoreOptions(off.options))


@pytest.mark.parametrize(
    ("options", "keys", "sorts"),
    [
        ({}, (), True),
        (ON, (), False),
        ({**ON, "clustering.incremental.optimize-write": "true"}, (), True),
        ({"data-evolution.enabled": "true"}, (), True),
        ({"bucket": "2"}, (), False),
        ({}, ("a",), False),
    ],
)
def test_writes_are_sorted_by_the_columns(options: dict[str, str], keys: tuple[str, ...], sorts: bool) -> None:
    table = schema({**options, "clustering.columns": "b,a"}, keys=keys)
    assert sorts_writes(table, CoreOptions(table.options)) is sorts
    without = schema(options, keys=keys)
    assert not sorts_writes(without, CoreOptions(without.options))


@pytest.mark.parametrize("bad", ["a,a", "f", "g", "z"])
def test_columns_that_do_not_sort_writes(bad: str) -> None:
    table = schema({"clustering.columns": bad})
    with pytest.raises((OptionError, NotFoundError), match=f"'{bad[0]}'"):
        check_clustering(table, CoreOptions(table.options))


def test_keys_and_unknown_columns() -> None:
    keyed = schema({**ON, "clustering.columns": "b"}, keys=("a",))
    with pytest.raises(OptionError, match="without primary key"):
        check_clustering(keyed, CoreOptions(keyed.options))
    assert not is_clustered(keyed, CoreOptions(keyed.options))
    unknown = schema({**ON, "clustering.columns": "a,z"})
    with pytest.raises(NotFoundError, match="'z'"):
        check_clustering(unknown, CoreOptions(unknown.options))
