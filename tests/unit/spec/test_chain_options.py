"""What a chain table must have, and the order of its partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import OptionError
from paimon_spark.spec.chain_tables import ChainOrder, chain_branches
from paimon_spark.spec.evolution import SetOption, apply_changes, new_schema
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.rows import encode_row
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import DataField, parse_atomic

GOOD = {
    "chain-table.enabled": "true",
    "bucket": "2",
    "sequence.field": "v",
    "partition.timestamp-pattern": "$dt",
    "partition.timestamp-formatter": "yyyyMMdd",
}
BRANCHES = {"scan.fallback-snapshot-branch": "s", "scan.fallback-delta-branch": "d"}


def schema(
    options: Mapping[str, str], *, keys: Sequence[str] = ("r", "dt", "k"), parts: Sequence[str] = ("r", "dt")
) -> TableSchema:
    columns = {"k": "INT", "v": "INT", "r": "STRING", "dt": "STRING"}
    fields = [DataField(i, n, parse_atomic(t)) for i, (n, t) in enumerate(columns.items())]
    return new_schema(fields, partition_keys=parts, primary_keys=keys, options=options)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"bucket": "-1"}, "'bucket' = '-1'"),
        ({"sequence.field": None}, "sequence.field"),
        ({"changelog-producer": "lookup"}, "'changelog-producer' = 'lookup'"),
        ({"deletion-vectors.enabled": "true", "merge-engine": "partial-update"}, "deletion vectors"),
        ({"partition.timestamp-pattern": None}, "partition.timestamp-pattern"),
        ({"partition.timestamp-formatter": None}, "partition.timestamp-formatter"),
        ({"partition.expiration-time": "7 d", "partition.expiration-strategy": "update-time"}, "update-time"),
        ({"chain-table.chain-partition-keys": "r"}, "last partition columns"),
        ({"chain-table.chain-partition-keys": "dt,r"}, "last partition columns"),
        ({"chain-table.chain-partition-keys": "x"}, "last partition columns"),
        ({"scan.fallback-branch": "b"}, "scan.fallback-branch"),
        (BRANCHES | {"scan.fallback-delta-branch": "s"}, "one branch"),
    ],
)
def test_what_a_chain_table_cannot_be(change: dict[str, str | None], says: str) -> None:
    options = {k: v for k, v in {**GOOD, **change}.items() if v is not None}
    with pytest.raises(OptionError, match=says) as e:
        schema(options)
    assert e.value.hint


def test_keys_and_partitions_are_needed() -> None:
    with pytest.raises(OptionError, match="primary key"):
        schema({k: v for k, v in GOOD.items() if k not in ("sequence.field", "bucket")}, keys=())
    with pytest.raises(OptionError, match="partition columns"):
        schema(GOOD, keys=("k",), parts=())


@pytest.mark.parametrize(
    "change",
    [
        {"merge-engine": "partial-update"},
        {"deletion-vectors.enabled": "true"},
        {"changelog-producer": "input"},
        {"chain-table.chain-partition-keys": "dt"},
        {"partition.expiration-time": "7 d"},
        BRANCHES,
    ],
)
def test_what_a_chain_table_can_be(change: dict[str, str]) -> None:
    assert schema({**GOOD, **change}).options["chain-table.enabled"] == "true"


def test_a_table_becomes_a_chain_by_an_option() -> None:
    plain = schema({k: v for k, v in GOOD.items() if k != "chain-table.enabled"})
    with pytest.raises(OptionError, match=r"sequence\.field"):
        apply_changes(schema({"bucket": "2"}), [SetOption("chain-table.enabled", "true")], 0, has_snapshots=False)
    changed = apply_changes(plain, [SetOption("chain-table.enabled", "true")], 0, has_snapshots=True)
    assert chain_branches(CoreOptions(changed.options)) is None
    assert chain_branches(CoreOptions(changed.options | BRANCHES)) == ("s", "d")
    assert chain_branches(CoreOptions(BRANCHES)) is None


PARTITIONS = st.sets(
    st.tuples(st.sampled_from(["a", "b", None]), st.one_of(st.none(), st.text("xyz\u00e9", max_size=2)))
)


@given(snapshots=PARTITIONS, deltas=PARTITIONS, grouped=st.booleans())
def test_chains_are_the_partitions_since_the_last_snapshot(
    snapshots: set[tuple[str | None, str | None]], deltas: set[tuple[str | None, str | None]], grouped: bool
) -> None:
    options = {**GOOD, **({"chain-table.chain-partition-keys": "dt"} if grouped else {})}
    made = schema(options)
    order = ChainOrder.of(made, CoreOptions(options))
    types = [f.type for f in made.partition_fields]
    name = {p: encode_row(p, types) for p in snapshots | deltas}
    back = {v: k for k, v in name.items()}

    def place(p: tuple[str | None, str | None]) -> tuple[object, ...]:
        return tuple((v is not None, v or "") for v in (p[1:] if grouped else p))

    def together(p: tuple[str | None, str | None], q: tuple[str | None, str | None]) -> bool:
        return not grouped or p[0] == q[0]

    found = {
        back[c.partition]: c
        for c in order.chains([name[p] for p in deltas], map(name.get, snapshots), map(name.get, deltas))
    }
    assert found.keys() == deltas
    for p, chain in found.items():
        before = [s for s in snapshots if together(s, p) and place(s) < place(p)]
        anchor = max(before, key=place, default=None)
        steps = [
            d
            for d in deltas
            if together(d, p) and place(d) <= place(p) and (anchor is None or place(anchor) < place(d))
        ]
        assert (None if chain.anchor is None else back[chain.anchor]) == anchor
        assert [back[d] for d in chain.deltas] == sorted(steps, key=place)
