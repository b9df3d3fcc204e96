"""The streaming merge: order of keys of every type, versions, windows, pass-through."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.core.merge.engines.deduplicate import deduplicate_ignoring_deletes
from paimon_spark.core.merge.key_groups import drop_retracts
from paimon_spark.core.merge.keys import key_order, sorted_positions
from paimon_spark.core.merge.sort_merge import (
    MergeOrder,
    is_dense,
    merge_rows,
    merge_runs,
    overlapping_slices,
    superseded,
)
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.spec.types import DataField, parse_atomic

Row = tuple[Any, ...]


def field(name: str, text: str) -> DataField:
    return DataField(0, name, parse_atomic(text))


def table(rows: list[Row], key_type: pa.DataType, extra: dict[str, pa.DataType] | None = None) -> pa.Table:
    names = ["k", "_SEQUENCE_NUMBER", "_VALUE_KIND", *(extra or {})]
    types = [key_type, pa.int64(), pa.int8(), *(extra or {}).values()]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return pa.table({n: pa.array(c, t) for n, c, t in zip(names, columns, types, strict=True)})


def chunks(rows: list[Row], key_type: pa.DataType, size: int) -> Iterator[pa.Table]:
    for at in range(0, len(rows), size):
        yield table(rows[at : at + size], key_type)


KEYS: list[tuple[str, pa.DataType, list[Any]]] = [
    ("INT", pa.int32(), [-5, 0, 7, 2**31 - 1, -(2**31)]),
    ("BIGINT", pa.int64(), [-5, 0, 7, 2**63 - 1, -(2**63)]),
    ("TINYINT", pa.int8(), [-128, 0, 127]),
    ("BOOLEAN", pa.bool_(), [True, False]),
    ("STRING", pa.string(), ["", "a", "a\0", "a\0b", "ab", "é", "z", "\U0001f600", "\uffff", "x" * 40, "x" * 41]),
    ("STRING", pa.string(), ["", "é", "y" * 300, "y" * 299 + "z", "\uffff" * 60]),
    ("BYTES", pa.binary(), [b"", b"\x7f", b"\x80", b"\xff\x00", b"\xff"]),
    ("DECIMAL(10,2)", pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("2.00"), Decimal("10.00")]),
    ("DECIMAL(38,0)", pa.decimal128(38, 0), [Decimal(-(10**30)), Decimal(-1), Decimal(0), Decimal(2**64), Decimal(10**37)]),
    ("DATE", pa.date32(), [date(1960, 1, 1), date(1970, 1, 1), date(2024, 5, 14)]),
    ("TIMESTAMP(6)", pa.timestamp("us"), [datetime(1969, 1, 1), datetime(2024, 1, 1, 0, 0, 0, 5)]),
    ("DOUBLE", pa.float64(), [float("-inf"), -2.5, -1.0, 0.0, 1e-9, 3.5, float("inf")]),
    ("FLOAT", pa.float32(), [-2.5, 0.0, 0.5, 3.5]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "arrow", "keys"), KEYS, ids=[f"{t}-{i}" for i, (t, _, _) in enumerate(KEYS)])
def test_every_key_type_orders_and_deduplicates(text: str, arrow: pa.DataType, keys: list[Any]) -> None:
    order = MergeOrder(key=(field("k", text),))
    natural = sorted(keys, key=lambda v: v.encode() if isinstance(v, str) else v)
    shuffled = [(k, n, 0) for n, k in enumerate(random.Random(3).sample(keys * 3, len(keys) * 3))]
    merged = merge_rows(table(shuffled, arrow), order)
    assert merged["k"].to_pylist() == natural
    newest = {k: n for k, n, _ in shuffled}
    assert merged["_SEQUENCE_NUMBER"].to_pylist() == [newest[k] for k in natural]
    runs = [[(k, 10 * r + i, 0) for i, k in enumerate(natural) if (i + r) % 3] for r in range(3)]
    streamed = pa.concat_tables(merge_runs([chunks(r, arrow, 2) for r in runs], order))
    expected = {k: n for run in runs for k, n, _ in run}
    assert list(zip(streamed["k"].to_pylist(), streamed["_SEQUENCE_NUMBER"].to_pylist(), strict=True)) == [
        (k, expected[k]) for k in natural
    ]


@pytest.mark.parametrize("seed", range(8))
def test_random_runs_equal_a_dict(seed: int) -> None:
    rng = random.Random(seed)
    order = MergeOrder(key=(field("k", "BIGINT"),))
    model: dict[int, tuple[int, int]] = {}
    runs, sequence = [], 0
    for _ in range(rng.randint(1, 6)):
        run = []
        low = rng.randrange(500)
        for k in sorted(rng.sample(range(low, low + 3000), rng.randint(0, 400))):
            run.append((k, sequence, rng.choice([0, 0, 2, 3])))
            sequence += 1
        model |= {k: (n, kind) for k, n, kind in run}
        runs.append(run)
    rng.shuffle(runs)
    out = pa.concat_tables([table([], pa.int64()), *merge_runs([chunks(r, pa.int64(), 50) for r in runs], order)])
    assert out.to_pylist() == [
        {"k": k, "_SEQUENCE_NUMBER": n, "_VALUE_KIND": kind} for k, (n, kind) in sorted(model.items())
    ]
    assert drop_retracts(out)["k"].to_pylist() == [k for k, (_, kind) in sorted(model.items()) if kind != 3]


def test_composite_keys_compare_column_by_column() -> None:
    order = MergeOrder(key=(field("a", "INT"), field("b", "STRING"), field("c", "DECIMAL(30,0)")))
    rows = [
        (1, "b", Decimal(2)),
        (1, "a", Decimal(9)),
        (0, "z", Decimal(-1)),
        (1, "a", Decimal(-9)),
        (1, "", Decimal(0)),
    ]
    n = len(rows)
    data = pa.table({
        "a": pa.array([r[0] for r in rows], pa.int32()), "b": [r[1] for r in rows],
        "c": pa.array([r[2] for r in rows], pa.decimal128(30, 0)),
        "_SEQUENCE_NUMBER": pa.array(range(n), pa.int64()), "_VALUE_KIND": pa.array([0] * n, pa.int8()),
    })  # fmt: skip
    merged = merge_rows(data, order)
    assert list(zip(*(merged[c].to_pylist() for c in "abc"), strict=True)) == sorted(rows)


def versions(rows: list[Row], **how: Any) -> list[Row]:
    order = MergeOrder(key=(field("k", "INT"),), sequence=(field("ts", "INT"),), **how)
    data = table([(k, n, kind, v, ts) for n, (k, kind, v, ts) in enumerate(rows)], pa.int32(),
                 {"v": pa.string(), "ts": pa.int32()})  # fmt: skip
    singles = [iter([data.slice(i, 1)]) for i in range(len(rows))]
    streamed = pa.concat_tables(merge_runs(singles, order)).select(["k", "v", "ts", "_VALUE_KIND"])
    assert streamed.equals(merge_rows(data, order).select(["k", "v", "ts", "_VALUE_KIND"]))
    return [tuple(r.values()) for r in streamed.to_pylist()]


def test_sequence_field() -> None:
    assert versions([(1, 0, "x", 10), (1, 0, "y", 5), (1, 0, "z", 10), (1, 0, "w", None)]) == [(1, "z", 10, 0)]


def test_descending_sequence_field() -> None:
    assert versions([(1, 0, "x", 10), (1, 0, "y", 5)], descending=True) == [(1, "y", 5, 0)]


@pytest.mark.parametrize("descending", [False, True])
def test_a_null_sequence_never_beats_a_value(*, descending: bool) -> None:
    assert versions([(1, 0, "x", 10), (1, 0, "y", None)], descending=descending) == [(1, "x", 10, 0)]
    assert versions([(1, 0, "x", None), (1, 0, "y", 10)], descending=descending) == [(1, "y", 10, 0)]
    assert versions([(1, 0, "x", None), (1, 0, "y", None)], descending=descending) == [(1, "y", None, 0)]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("kind", ["STRING", "DECIMAL(30,2)", "DOUBLE", "TIMESTAMP(6)", "BYTES", "BOOLEAN"])
def test_sequence_fields_of_every_form_order_rows(kind: str, *, descending: bool) -> None:
    draw = {
        "STRING": ["", "a", "ab", "b"], "DECIMAL(30,2)": [Decimal("-7.5"), Decimal("0.01"), Decimal("3e20")],
        "DOUBLE": [-1e300, -0.5, 0.0, 2.0], "TIMESTAMP(6)": [datetime(1900, 1, 1), datetime(2024, 1, 1)],
        "BYTES": [b"", b"\x00", b"\xff"], "BOOLEAN": [False, True],
    }[kind]  # fmt: skip
    values = [None, *draw]
    ranked = [-1, *(range(len(draw), 0, -1) if descending else range(len(draw)))]
    random.seed(4)
    pairs = [(random.randrange(len(values)), random.randrange(len(values))) for _ in range(200)]
    order = MergeOrder(key=(field("k", "INT"),), sequence=(field("a", kind), field("b", kind)), descending=descending)
    arrow = to_arrow_type(parse_atomic(kind))
    data = table([(n // 4, n, 0, values[a], values[b]) for n, (a, b) in enumerate(pairs)], pa.int32(),
                 {"a": arrow, "b": arrow})  # fmt: skip
    want = [max(range(n, n + 4), key=lambda i: (ranked[pairs[i][0]], ranked[pairs[i][1]], i)) for n in range(0, 200, 4)]
    assert merge_rows(data, order)["_SEQUENCE_NUMBER"].to_pylist() == want


def test_delete_older_than_data() -> None:
    assert versions([(1, 0, "a", 10), (1, 3, "a", 5)]) == [(1, "a", 10, 0)]


def test_a_lone_record_keeps_its_kind() -> None:
    order = MergeOrder(key=(field("k", "INT"),))
    merged = merge_rows(table([(1, 0, 0), (1, 1, 0), (2, 2, 3)], pa.int32()), order)
    assert [tuple(r.values()) for r in merged.to_pylist()] == [(1, 1, 0), (2, 2, 3)]


def test_update_before_then_after() -> None:
    order = MergeOrder(key=(field("k", "INT"),))
    assert merge_rows(table([(1, 0, 1), (1, 1, 2)], pa.int32()), order)["_VALUE_KIND"].to_pylist() == [2]


def test_ignore_delete_skips_retracts_inside_the_merge() -> None:
    order = MergeOrder(key=(field("k", "INT"),), function=deduplicate_ignoring_deletes)
    merged = merge_rows(table([(1, 0, 0), (1, 1, 3), (2, 2, 3), (2, 3, 1), (3, 4, 3)], pa.int32()), order)
    assert [tuple(r.values()) for r in merged.to_pylist()] == [(1, 0, 0), (3, 4, 3)]


def test_a_run_that_is_alone_passes_untouched() -> None:
    order = MergeOrder(key=(field("k", "BIGINT"),))
    big = table([(k, k, 0) for k in range(10000)], pa.int64())
    small = table([(9000, 20000, 0)], pa.int64())
    out = list(merge_runs([iter([big]), iter([small])], order))
    assert out[0].num_rows == 9000
    assert out[0]["k"].chunk(0).buffers()[1].address == big["k"].chunk(0).buffers()[1].address
    assert pa.concat_tables(out)["_SEQUENCE_NUMBER"].to_pylist()[9000] == 20000


_DRAW = np.random.default_rng(5)
_ENDS = np.array([np.iinfo(np.int64).min, -1, 0, 1, np.iinfo(np.int64).max])
CODES = {
    "few values": _DRAW.integers(-3, 3, 5000),
    "16 bits": _DRAW.integers(0, 1 << 16, 5000),
    "17 bits below zero": _DRAW.integers(-(1 << 17), 0, 5000),
    "40 bits": _DRAW.integers(0, 1 << 40, 5000),
    "all bits": _DRAW.choice(np.concatenate([_ENDS, _DRAW.integers(*_ENDS[[0, -1]], 3000)]), 5000),
    "sorted": np.sort(_DRAW.integers(0, 2000, 5000)),
    "five runs": np.concatenate([np.sort(_DRAW.integers(0, 2000, 1000)) for _ in range(5)]),
    "a thousand runs": np.concatenate([np.sort(_DRAW.integers(0, 2000, 5)) for _ in range(1000)]),
    "backwards": np.arange(5000)[::-1].copy(),
    "short": _DRAW.integers(0, 9, 50),
    "none": np.zeros(0, np.int64),
}


@pytest.mark.parametrize("name", CODES)
def test_numbers_are_ordered_and_equal_ones_stay_in_order(name: str) -> None:
    codes: npt.NDArray[np.int64] = CODES[name].astype(np.int64)
    assert sorted_positions(codes).tolist() == np.argsort(codes, kind="stable").tolist()


_PREFIXES = [b"", b"\x00", b"key-", b"12345678", b"a" * 12, b"a" * 130]
_LETTERS = st.sampled_from([b"\x00", b"0", b"a", b"\x7f", b"\x80", b"\xff"])


@given(
    prefix=st.sampled_from(_PREFIXES),
    rows=st.lists(st.tuples(st.lists(_LETTERS, max_size=10).map(b"".join), st.integers(-2, 2)), max_size=40),
    arrow=st.sampled_from([pa.binary(), pa.large_binary()]),
    two=st.booleans(),
    sliced=st.booleans(),
)
def test_strings_are_ordered_byte_by_byte(
    prefix: bytes, rows: list[tuple[bytes, int]], arrow: pa.DataType, *, two: bool, sliced: bool
) -> None:
    texts = [prefix + text for text, _ in rows]
    keys: list[Row] = [(t, n) if two else (t,) for t, (_, n) in zip(texts, rows, strict=True)]
    column = pa.array([b"z", *texts], arrow).slice(1) if sliced else pa.array(texts, arrow)
    numbers = np.array([n for _, n in rows], dtype=np.int64)
    positions, fresh = key_order([column, numbers] if two else [column])
    expected = sorted(range(len(keys)), key=lambda i: keys[i])
    assert positions.tolist() == expected
    assert fresh.tolist() == [i == 0 or keys[a] != keys[expected[i - 1]] for i, a in enumerate(expected)]


WIDE = 1 << 40
"""Whole numbers so far apart that they are sorted, where close ones are looked up."""


@pytest.mark.parametrize(
    ("texts", "key"),
    [
        (["BIGINT"], lambda i: (i - 50,)),
        (["BIGINT"], lambda i: (i * WIDE - 50 * WIDE,)),
        (["BIGINT"], lambda i: (-(2**63) if i == 0 else 2**63 - 1 if i == 99 else i,)),
        (["STRING"], lambda i: (f"{i:03}",)),
        (["INT", "STRING"], lambda i: (i // 10, f"{i % 10}")),
    ],
    ids=["close", "far apart", "all numbers", "text", "two columns"],
)
@pytest.mark.parametrize("size", [3, 1000])
def test_rows_that_a_later_run_has_again_are_found(texts: list[str], key: Callable[[int], Row], size: int) -> None:
    rng = random.Random(size)
    fields = [DataField(n, f"k{n}", parse_atomic(text)) for n, text in enumerate(texts)]
    runs = [sorted(rng.sample(range(100), rng.randint(1, 100))) for _ in range(4)]

    def stored(numbers: list[int]) -> Iterator[pa.Table]:
        for at in range(0, len(numbers), size):
            columns = zip(*(key(i) for i in numbers[at : at + size]), strict=True)
            yield pa.table({f"k{n}": list(values) for n, values in enumerate(columns)})

    found = []
    for slices in overlapping_slices([stored(run) for run in runs], fields):
        for part, mask in zip(slices, superseded(slices), strict=True):
            found += [tuple(row.values()) for row in part.rows.filter(pa.array(mask)).to_pylist()]

    again = [key(i) for n, run in enumerate(runs) for i in run if any(i in later for later in runs[n + 1 :])]
    assert again
    assert sorted(found) == sorted(again)


@pytest.mark.parametrize(("step", "dense"), [(1, True), (WIDE, False)])
def test_keys_that_lie_close_together_are_not_sorted(step: int, dense: bool) -> None:
    runs = [iter([pa.table({"k": [i * step for i in run]})]) for run in ([1, 2, 5], [2, 5, 7])]
    (slices,) = list(overlapping_slices(runs, [field("k", "BIGINT")]))[:1]
    assert [m.tolist() for m in superseded(slices)] == [[False, True, True], [False, False]]
    assert is_dense([k for s in slices for k in s.keys if isinstance(k, np.ndarray)]) is dense


@pytest.mark.parametrize("key", [lambda i: i, lambda i: i * WIDE, str], ids=["close", "far apart", "text"])
def test_a_key_twice_in_a_run_is_kept_as_often_as_by_a_merge(key: Callable[[int], Any]) -> None:
    arrow, text = (pa.string(), "STRING") if key is str else (pa.int64(), "BIGINT")
    numbers = [[1, 1, 2, 5, 5, 7], [0, 1, 3, 3, 7, 9], [3, 5]]
    runs = [[(key(i), 10 * n + at, 0) for at, i in enumerate(run)] for n, run in enumerate(numbers)]
    order = MergeOrder(key=(field("k", text),))

    left: list[Row] = []
    for slices in overlapping_slices([chunks(run, arrow, 100) for run in runs], order.key):
        for part, mask in zip(slices, superseded(slices), strict=True):
            left += [tuple(row.values()) for row in part.rows.filter(pa.array(~mask)).to_pylist()]
    merged = [
        tuple(r.values()) for t in merge_runs([chunks(run, arrow, 100) for run in runs], order) for r in t.to_pylist()
    ]

    assert sorted(left) == sorted(merged)
    assert [k for k, _, _ in merged].count(key(5)) == 1
