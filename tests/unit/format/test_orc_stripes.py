"""Stripes of ORC files are left out where their statistics or their keys show that no row matches."""

from __future__ import annotations

import datetime as dt
import io
import random
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import orc

from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.format.filters import matching_rows
from paimon_spark.format.orc.layout import Tail
from paimon_spark.format.orc.messages import Field, message, messages, parts_of, with_field
from paimon_spark.format.registry import for_name, open_reader
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.types import DataField, parse_atomic

PATH = "/t/data-1.orc"
TYPES = {
    "i": "INT",
    "l": "BIGINT",
    "y": "TINYINT",
    "s": "STRING",
    "v": "VARCHAR(20)",
    "c": "CHAR(4)",
    "d": "DECIMAL(20, 3)",
    "t": "DATE",
    "f": "DOUBLE",
    "b": "BOOLEAN",
    "m": "TIMESTAMP(6)",
    "h": "TIME(3)",
}


def fields_of(**types: str) -> list[DataField]:
    return [DataField(i, n, parse_atomic(t)) for i, (n, t) in enumerate(types.items())]


FIELDS = fields_of(**TYPES)
SCHEMA = to_arrow_schema(FIELDS)
STRIPE = 20_000


def column(numbers: np.ndarray, t: pa.DataType) -> pa.Array:
    """Return values of a type in the order of some small numbers, with nulls."""
    plain = pa.array(numbers, mask=numbers % 11 == 3)
    if pa.types.is_string(t):
        return pc.binary_join_element_wise("\u00e4", pc.utf8_lpad(pc.cast(pc.add(plain, 50), pa.string()), 3, "0"), "")
    if pa.types.is_boolean(t):
        return pc.greater(plain, 50)
    if pa.types.is_time(t):
        return pc.add(plain, 50).cast(pa.int32()).cast(t)
    if pa.types.is_date(t):
        return plain.cast(pa.int32()).cast(t)
    if pa.types.is_decimal(t):
        return plain.cast(pa.decimal128(30, t.scale)).cast(t)
    return plain.cast(t)


@pytest.fixture(scope="module", params=[True, False], ids=["of the library", "with old times"])
def stored(request: pytest.FixtureRequest) -> tuple[InMemoryFileIO, pa.Table]:
    """A file of several stripes of growing values, and its rows."""
    rng = np.random.default_rng(1)
    numbers = np.concatenate([rng.integers(i * 20 - 45, i * 20 - 15, STRIPE) for i in range(5)])
    numbers[3 * STRIPE : 4 * STRIPE] = 3  # nulls
    table = pa.table([column(numbers, t) for t in SCHEMA.types], schema=SCHEMA)
    if not request.param:
        table = table.set_column(10, SCHEMA.field("m"), pa.array(numbers - 100).cast(SCHEMA.field("m").type))
    store = InMemoryFileIO()
    writer = for_name("orc").open_writer(store, PATH, FIELDS, options={"orc.stripe.size": "1 b"})
    for start in range(0, table.num_rows, STRIPE):
        writer.write(table.slice(start, STRIPE))
    writer.close()
    return store, table


def matches(store: InMemoryFileIO, table: pa.Table, expression: pc.Expression) -> tuple[list[int], list[int], int]:
    """Return the stripes that a reader selects, those that have a match, and their number."""
    with open_reader(store, PATH, FIELDS) as reader:
        starts = np.cumsum([0, *reader.row_group_rows])
        parts = [table.slice(starts[i], starts[i + 1] - starts[i]) for i in range(reader.num_row_groups)]
        chosen = reader.select_row_groups(expression)
    return chosen, [i for i, p in enumerate(parts) if matching_rows(p, expression).num_rows], len(parts)


def test_statistics_leave_out_stripes(stored: tuple[InMemoryFileIO, pa.Table]) -> None:
    store, table = stored
    for name, value in (
        ("i", -40),
        ("l", -40),
        ("y", -40),
        ("s", "\u00e4010"),
        ("v", "\u00e4010"),
        ("d", Decimal(-40)),
        ("t", dt.date(1969, 11, 22)),
    ):
        scalar = pa.scalar(value, SCHEMA.field(name).type)
        chosen, right, count = matches(store, table, pc.field(name) == scalar)
        assert right[0] == 0
        assert set(right) <= set(chosen) < set(range(count)), name
        chosen, right, count = matches(store, table, pc.field(name) < scalar)
        assert set(right) <= set(chosen) < set(range(count)), name
        assert not matches(store, table, pc.field(name).is_valid() & (pc.field("i") > 10**6))[0]


def test_random_filters_lose_no_stripe(stored: tuple[InMemoryFileIO, pa.Table]) -> None:
    store, table = stored
    draw = random.Random(5)
    fewer = 0
    for _ in range(300):
        parts = []
        for name in draw.sample(list(TYPES), 2):
            value = table.column(name)[draw.randrange(table.num_rows)]
            col = pc.field(name)
            if not value.is_valid:
                parts.append(col.is_null())
                continue
            parts.append(
                draw.choice(
                    [
                        col == value,
                        col != value,
                        col < value,
                        col >= value,
                        ~(col <= value),
                        col.isin(pa.array([value.as_py(), None], value.type)),
                        col.is_valid(),
                        col.is_null(),
                    ]
                )
            )
        expression = parts[0] & parts[1] if draw.random() < 0.7 else parts[0] | parts[1]
        chosen, right, count = matches(store, table, expression)
        assert set(right) <= set(chosen), str(expression)
        fewer += len(chosen) < count
    assert fewer > 30


def test_a_key_is_looked_for_before_all_columns_are_read(stored: tuple[InMemoryFileIO, pa.Table]) -> None:
    store, table = stored
    with open_reader(store, PATH, FIELDS) as reader:
        starts = np.cumsum([0, *reader.row_group_rows])
        for number in range(reader.num_row_groups):
            rows = table.slice(starts[number], starts[number + 1] - starts[number])
            held = pc.unique(rows.column("i").combine_chunks()).drop_null().to_pylist()
            assert reader.has_match(number, pc.field("i") == (held[0] if held else 0), ["i"]) is bool(held)
            assert not reader.has_match(number, pc.field("i") == 10**6, ["i"])
            assert (
                reader.has_match(number, pc.field("m") == rows.column("m")[0], ["m", "i"])
                is rows.column("m")[0].is_valid
            )


def with_statistics(table: pa.Table, change: Callable[[int, list[Field]], list[Field]], writer: int) -> InMemoryFileIO:
    """Return a store with a file whose stripe has other statistics, by the number of the column, and its writer's version."""
    out = io.BytesIO()
    orc.write_table(table, out, compression="uncompressed")
    data = out.getvalue()
    tail = Tail.read(pa.BufferReader(data))
    (stripe,) = parts_of(messages(data[tail.metadata_at : tail.footer_at]), 1)
    columns = [message(change(n, list(messages(c)))) for n, c in enumerate(parts_of(messages(stripe), 1))]
    metadata = message([(1, message([(1, c) for c in columns]))])
    moved = replace(tail, script=tuple(with_field(tail.script, 6, writer)))
    store = InMemoryFileIO()
    store.write(PATH, data[: tail.metadata_at] + metadata + moved.with_footer(tail.footer, len(metadata)))
    return store


def only(*fields: int) -> Callable[[int, list[Field]], list[Field]]:
    """Return a change that keeps some fields of the statistics of the columns below the root."""
    return lambda number, found: [f for f in found if f[0] in fields or not number]


@pytest.mark.parametrize(
    ("change", "writer", "above", "null"),
    [
        (only(1, 2, 10), 6, [], []),
        (only(1, 2, 10), 0, [0], [0]),  # its ranges are not right
        (only(2), 6, [], [0]),
        (only(1, 10), 6, [0], [0]),
        (only(), 6, [0], [0]),
        (lambda n, found: [(1, 0), (10, 0)], 6, [0], [0]),  # a file without row indexes
        (lambda n, found: [*only(1, 10)(n, found), (2, message([(1, 2)]))], 6, [0], [0]),
        (lambda n, found: [*only(1, 10)(n, found), (2, message([(2, 2)]))], 6, [0], [0]),
        (lambda n, found: [(1, 0), (10, 1)] if n else found, 6, [], [0]),
    ],
)
def test_only_whole_statistics_leave_out_a_stripe(
    change: Callable[[int, list[Field]], list[Field]], writer: int, above: list[int], null: list[int]
) -> None:
    store = with_statistics(pa.table({"a": pa.array([1, 2, 3], pa.int64())}), change, writer)
    with open_reader(store, PATH, fields_of(a="BIGINT")) as reader:
        assert reader.select_row_groups(pc.field("a") > 5) == above
        assert reader.select_row_groups(pc.field("a").is_null()) == null


@pytest.mark.parametrize("name", ["a.b", ".a", "[0]", "", "*", "1", "x y", "\u00e4", '"q"', "__filename"])
def test_columns_of_any_name_have_ranges(name: str) -> None:
    out = io.BytesIO()
    orc.write_table(pa.table({name: [1, 2], "other": ["x", None]}), out)
    store = InMemoryFileIO()
    store.write(PATH, out.getvalue())
    fields = [DataField(0, name, parse_atomic("BIGINT")), DataField(1, "other", parse_atomic("STRING"))]
    with open_reader(store, PATH, fields) as reader:
        assert reader.select_row_groups(pc.field(name) == 2) == [0]
        assert reader.select_row_groups(pc.field(name) == 3) == []
        assert reader.select_row_groups(pc.field("nothing") == 3) == [0]


def test_padded_texts_and_odd_statistics_select_all_stripes() -> None:
    table = pa.table({"c": ["a   ", "b   "], "s": pa.array([b"\xff", b"a"]).cast(pa.string(), safe=False)})
    out = io.BytesIO()
    orc.write_table(table, out)
    store = InMemoryFileIO()
    store.write(PATH, out.getvalue())
    fields = [DataField(0, "c", parse_atomic("CHAR(4)")), DataField(1, "s", parse_atomic("STRING"))]
    with open_reader(store, PATH, fields) as reader:
        assert reader.select_row_groups(pc.field("c") == "a") == [0]
        assert reader.select_row_groups(pc.field("s") == "a") == [0]
        assert reader.select_row_groups(pc.starts_with(pc.field("s"), pattern=b"\xff")) == [0]
