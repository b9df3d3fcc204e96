"""Tables of the merge engines that a trial draws: columns, aggregate functions, sequence groups, and values."""

from __future__ import annotations

import datetime
import decimal
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from paimon_spark.spec.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    parse_atomic,
    reassign_ids,
)


def _row(**members: str) -> RowType:
    return RowType(tuple(DataField(i, n, parse_atomic(t)) for i, (n, t) in enumerate(members.items())))


FIRST = "first_non_null_value"
INT, TEXT = parse_atomic("INT"), parse_atomic("STRING")
WORDS = ArrayType(TEXT)
NUMBERS = ArrayType(INT)
LABELS = MapType(parse_atomic("INT NOT NULL"), TEXT)
TIMED = MapType(parse_atomic("STRING NOT NULL"), _row(v="INT", t="STRING"))
LINES = ArrayType(_row(a="INT", b="STRING", c="INT"))
"""Types of the columns that collections are aggregated in."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table to draw.

    Attributes:
        type: its type.
        values: the values that rows have.
        function: its aggregate function, if it has one.
        options: further options of the function.
        unordered: whether the elements of its arrays have no order.
    """

    type: DataType
    values: tuple[Any, ...] = field(repr=False)
    function: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    unordered: bool = False


_NUMBERS: Mapping[str, tuple[Any, ...]] = {
    "TINYINT": (-2, 0, 1, None),
    "INT": (-7, 0, 3, 1000, None),
    "BIGINT": (-(2**40), 0, 3, 2**40 + 1, None),
    "FLOAT": (0.1, -0.0, 2.5, 1e20, None),
    "DOUBLE": (0.1, -0.0, -2.5, 1e300, math.nan, None),
    "DECIMAL(10, 2)": (decimal.Decimal("-4000.00"), decimal.Decimal("0.00"), decimal.Decimal("3333.33"), None),
    "DECIMAL(30, 5)": (
        decimal.Decimal("-1234567890123456789.00001"),
        decimal.Decimal("0.00000"),
        decimal.Decimal("0.00003"),
        None,
    ),
}
_FACTORS: Mapping[str, tuple[Any, ...]] = {
    "BIGINT": (1, -1, None),
    "DOUBLE": (0.5, -3.0, 1.0, None),
    "DECIMAL(12, 3)": (decimal.Decimal("1.500"), decimal.Decimal("-2.000"), decimal.Decimal("0.333"), None),
}
"""Integers whose quotients are not zero: both sides fail to retract a zero."""
_ORDERED: Mapping[str, tuple[Any, ...]] = _NUMBERS | {
    "BOOLEAN": (True, False, None),
    "STRING": ("", "a", "Z", "ä€", "𝄞", "\ufffd", None),
    "BYTES": (b"", b"\x00\xff", b"a", None),
    "DATE": (datetime.date(1969, 12, 31), datetime.date(2024, 2, 29), datetime.date(1970, 1, 1), None),
    "TIMESTAMP(6)": (
        datetime.datetime(1969, 12, 31, 23, 59, 58),
        datetime.datetime(2024, 2, 29, 1, 2, 3, 456789),
        datetime.datetime(2024, 2, 29, 1, 2, 3, 456788),
        None,
    ),
}
_LISTS = ((), (1,), (2, 1), (1, 1, None), (3, 2, 3), None)
_TEXTS = ("", "a", "b", "a,b", "c;a", "b,b", None)
"""No blank texts, which release 1.4 of Paimon joins too."""
_WORDS = ((), ("a",), ("b", "a", "a"), (None,), ("c", "b"), None)
_MAPS = ({}, {1: "a"}, {1: "b", 2: None}, {2: "c"}, {3: "", 1: "z"}, None)
_TIMES = (
    {},
    {"x": {"v": 1, "t": "5"}},
    {"x": {"v": 2, "t": "10"}, "y": {"v": None, "t": "3"}},
    {"y": None, "x": {"v": 3, "t": "5"}},
    {"z": {"v": 4, "t": None}},
    None,
)
_LINES = (
    (),
    ({"a": 1, "b": "x", "c": 1},),
    ({"a": 2, "b": "y", "c": 5}, {"a": 1, "b": None, "c": 2}),
    ({"a": 1, "b": "z", "c": 0}, {"a": 3, "b": "x", "c": 3}),
    ({"a": 2, "b": None, "c": 7},),
    ({"a": 2, "b": "x", "c": None}, {"a": 2, "b": "w", "c": 6}),
    None,
)
_ANY: tuple[tuple[DataType, tuple[Any, ...]], ...] = (
    *((parse_atomic(t), v) for t, v in _ORDERED.items()),
    (WORDS, _WORDS),
    (LABELS, _MAPS),
    (LINES, _LINES),
)

PLAIN = tuple(Column(t, v) for t, v in _ANY)
"""Columns without a function."""

AGGREGATED: tuple[Column, ...] = (
    *(Column(parse_atomic(t), v, "sum") for t, v in _NUMBERS.items()),
    *(Column(parse_atomic(t), v, "product") for t, v in _FACTORS.items()),
    *(Column(parse_atomic(t), v, f) for t, v in _ORDERED.items() if t != "BOOLEAN" for f in ("max", "min")),
    *(Column(parse_atomic("BOOLEAN"), (True, False, None), f) for f in ("bool_and", "bool_or")),
    *(Column(t, v, f) for t, v in _ANY for f in ("last_value", "last_non_null_value", "first_value")),
    *(Column(t, v, FIRST) for t, v in _ANY),
    Column(TEXT, _TEXTS, "listagg"),
    Column(TEXT, _TEXTS, "listagg", {"list-agg-delimiter": ";"}),
    Column(TEXT, _TEXTS, "listagg", {"distinct": "true"}),
    Column(NUMBERS, _LISTS, "collect"),
    Column(NUMBERS, _LISTS, "collect", {"distinct": "true"}, unordered=True),
    Column(WORDS, _WORDS, "collect", {"distinct": "true"}, unordered=True),
    Column(LABELS, _MAPS, "merge_map"),
    Column(TIMED, _TIMES, "merge_map_with_keytime"),
    Column(LINES, _LINES, "nested_update"),
    Column(LINES, _LINES, "nested_update", {"count-limit": "4"}),
    Column(LINES, _LINES, "nested_update", {"nested-key": "a"}, unordered=True),
    Column(LINES, _LINES, "nested_update", {"nested-key": "a", "nested-sequence-field": "c"}, unordered=True),
    Column(LINES, _LINES, "nested_update", {"nested-key": "a,b"}, unordered=True),
    Column(LINES, _LINES, "nested_partial_update", {"nested-key": "a"}, unordered=True),
)
"""Columns with a function: every one but the bitmaps and sketches, which `test_aggregate_bytes` covers."""

SEQUENCES = (
    Column(INT, (1, 2, 3, 4, 5, None)),
    Column(parse_atomic("TIMESTAMP(6)"), _ORDERED["TIMESTAMP(6)"]),
    Column(TEXT, ("a", "b", "ab", None)),
)
"""Columns that order updates."""


@dataclass(frozen=True, slots=True)
class EngineTable:
    """A table to create.

    Attributes:
        engine: what the trial counts it as.
        columns: its columns after the key `k`, by name.
        options: its options.
        there_only: whether only Paimon writes and compacts it.
    """

    engine: str
    columns: Mapping[str, Column]
    options: Mapping[str, str]
    there_only: bool = False

    @property
    def fields(self) -> tuple[DataField, ...]:
        """Return all columns."""
        types = {"k": parse_atomic("INT NOT NULL")} | {n: c.type for n, c in self.columns.items()}
        out: list[DataField] = []
        last = len(types) - 1
        for i, (name, t) in enumerate(types.items()):
            inner, last = reassign_ids(t, last)
            out.append(DataField(i, name, inner))
        return tuple(out)


def _chosen(rng: random.Random, pool: Sequence[Column], most: int) -> list[Column]:
    return rng.choices(pool, k=rng.randint(1, most))


def _function_options(name: str, column: Column) -> dict[str, str]:
    if not column.function:
        return {}
    return {f"fields.{name}.aggregate-function": column.function} | {
        f"fields.{name}.{o}": v for o, v in column.options.items()
    }


def _aggregation(rng: random.Random) -> tuple[dict[str, Column], dict[str, str]]:
    columns = {f"c{i}": c for i, c in enumerate(_chosen(rng, AGGREGATED + PLAIN, 6))}
    options: dict[str, str] = {}
    for name, column in columns.items():
        options |= _function_options(name, column)
    match rng.choice(["", "sequence", "remove", "ignore retracts", "ignore deletes", "default"]):
        case "sequence":
            columns["s"] = rng.choice(SEQUENCES)
            options["sequence.field"] = "s"
        case "remove":
            options = {"aggregation.remove-record-on-delete": "true"}
            columns = {n: _without_state(c) for n, c in columns.items()}
            for name, column in columns.items():
                options |= _function_options(name, column)
        case "ignore retracts":
            options |= {f"fields.{n}.ignore-retract": "true" for n in columns}
        case "ignore deletes":
            options["ignore-delete"] = "true"
        case "default":
            options["fields.default-aggregate-function"] = rng.choice(["last_value", "first_value"])
    return columns, options


def _partial_update(rng: random.Random) -> tuple[dict[str, Column], dict[str, str]]:
    columns = {f"c{i}": c for i, c in enumerate(_chosen(rng, PLAIN, 5))}
    match rng.choice(["", "sequence", "remove", "ignore deletes"]):
        case "sequence":
            return columns | {"s": rng.choice(SEQUENCES)}, {"sequence.field": "s"}
        case "remove":
            return columns, {"partial-update.remove-record-on-delete": "true"}
        case "ignore deletes":
            return columns, {"ignore-delete": "true"}
    return columns, {}


def _late_safe(column: Column) -> Column:
    """Return a column for a sequence group.

    A late null makes the value of `first_non_null_value` null in Paimon. Ignored retracts leave such nulls behind too.
    """
    if column.function != FIRST:
        return column
    return replace(column, values=tuple(v for v in column.values if v is not None))


def _without_state(column: Column) -> Column:
    """Return a column for a table whose deletes remove rows: Paimon's first values do not begin anew after a delete."""
    return replace(column, function="last_value") if column.function.startswith("first") else column


def _sequence_groups(rng: random.Random) -> tuple[dict[str, Column], dict[str, str]]:
    columns: dict[str, Column] = {}
    options: dict[str, str] = {}
    removes = rng.random() < 0.5
    removing: list[str] = []
    for g in range(rng.randint(1, 3)):
        sequence = {f"s{g}{i}": c for i, c in enumerate(_chosen(rng, SEQUENCES, 2))}
        members = {f"g{g}{i}": _late_safe(c) for i, c in enumerate(_chosen(rng, AGGREGATED + PLAIN * 2, 3))}
        if removes:
            members = {n: _without_state(c) for n, c in members.items()}
        for name, column in list(members.items()):
            options |= _function_options(name, column)
            if column.function not in ("", FIRST) and rng.random() < 0.25:
                options[f"fields.{name}.ignore-retract"] = "true"
                if column.function == "collect":  # Paimon then puts late elements first, and last otherwise
                    members[name] = replace(column, unordered=True)
        options[f"fields.{','.join(sequence)}.sequence-group"] = ",".join(members)
        columns |= members | sequence
        if removes and rng.random() < 0.5:
            removing.append(next(iter(sequence)))
    if rng.random() < 0.5:
        columns["c"] = rng.choice(PLAIN)
    if removing:
        options["partial-update.remove-record-on-sequence-group"] = ",".join(removing)
    elif rng.random() < 0.2:
        options["ignore-delete"] = "true"
    return columns, options


def _first_row(rng: random.Random) -> tuple[dict[str, Column], dict[str, str]]:
    columns = {f"c{i}": c for i, c in enumerate(_chosen(rng, PLAIN, 3))}
    return columns, {"ignore-delete": "true"} if rng.random() < 0.5 else {}


ENGINES = {
    "aggregation": ("aggregation", _aggregation),
    "partial update": ("partial-update", _partial_update),
    "sequence groups": ("partial-update", _sequence_groups),
    "first row": ("first-row", _first_row),
}
"""What tables are drawn: the name of the engine, and how its columns and options are drawn."""

LOOKUPS = (
    {"changelog-producer": "lookup"},
    {"force-lookup": "true"},
    {"deletion-vectors.enabled": "true"},
)
"""Options of tables that look up older rows in compactions; only Paimon writes them."""


def draw_table(rng: random.Random) -> EngineTable:
    """Draw a table."""
    name = rng.choice(sorted(ENGINES))
    engine, drawn = ENGINES[name]
    columns, options = drawn(rng)
    options |= {"merge-engine": engine, "bucket": rng.choice(["1", "2", "-1"])}
    there_only = engine == "first-row"
    if there_only or rng.random() < 0.85:
        return EngineTable(name, columns, options, there_only)
    looked_up = rng.choice(LOOKUPS)
    return EngineTable(f"{name}, {next(iter(looked_up))}", columns, options | looked_up, there_only=True)


def spelled(value: Any, t: DataType) -> Any:
    """Return a value as the JSON of a step to the peer has it."""
    if value is None:
        return None
    match t:
        case ArrayType():
            return [spelled(v, t.element) for v in value]
        case MapType():
            return [[spelled(k, t.key), spelled(v, t.value)] for k, v in value.items()]
        case RowType():
            return [spelled(value[f.name], f.type) for f in t.fields]
    assert isinstance(t, AtomicType)
    match value:
        case bytes():
            return value.hex()
        case decimal.Decimal():
            return format(value, "f")
        case datetime.datetime():
            return value.isoformat(timespec="microseconds")
        case datetime.date():
            return value.isoformat()
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
