from __future__ import annotations

import math
import operator
from datetime import UTC, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.core.read.arrow_predicates import to_expression
from paimon_spark.errors import ArgumentError
from paimon_spark.spec.literals import to_single
from paimon_spark.spec.predicate import (
    FALSE,
    And,
    Comparison,
    InList,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    StartsWith,
    and_,
    evaluate,
    from_json,
    may_match,
    or_,
    to_json,
)
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.stats import ColumnStats
from paimon_spark.spec.types import DataField, parse_atomic
from paimon_spark.sqlparse.casts import timestamp_millis
from paimon_spark.sqlparse.options_text import parse_options
from paimon_spark.sqlparse.partitions import each_partition, partition_spec
from paimon_spark.sqlparse.where import parse_filter, parse_where

COLUMNS = {"id": "INT", "dt": "STRING", "hh": "INT", "d": "DATE", "ts": "TIMESTAMP(3) WITH LOCAL TIME ZONE"}
SCHEMA = TableSchema(
    id=0,
    fields=tuple(DataField(i, name, parse_atomic(t)) for i, (name, t) in enumerate(COLUMNS.items())),
    highest_field_id=4,
    partition_keys=("dt", "hh", "d", "ts"),
)
FLAT = TableSchema(id=0, fields=SCHEMA.fields, highest_field_id=4)
EAST = timezone(timedelta(hours=2))
HOLDS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "<=>": operator.eq,
}


def parse_partitions(text: str, schema: TableSchema, zone: tzinfo = UTC) -> Predicate:
    """Return the one predicate that the alternatives of a text make."""
    return or_(*(p for _, p in each_partition(text, schema, zone=zone)))


def eq(column: Any, value: Any) -> Any:
    return Comparison("=", column, value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dt=a", eq("dt", "a")),
        (" DT = a ", eq("dt", "a")),
        ("dt=a,hh=1", And((eq("dt", "a"), eq("hh", 1)))),
        ("dt=a;dt=b", Or((eq("dt", "a"), eq("dt", "b")))),
        ("dt='a,b;c'", eq("dt", "a,b;c")),
        ("dt=O'Brien", eq("dt", "O'Brien")),
        ("dt='it''s'", eq("dt", "it's")),
        ("hh='7'", eq("hh", 7)),
        ("d=1970-01-02", eq("d", 1)),
        ("d=DATE '1970-01-02'", eq("d", 1)),
        ("dt=__DEFAULT_PARTITION__", IsNull("dt")),
        ("dt='__DEFAULT_PARTITION__'", eq("dt", "__DEFAULT_PARTITION__")),
    ],
)
def test_partitions(text: Any, expected: Any) -> None:
    assert parse_partitions(text, SCHEMA) == expected


@pytest.mark.parametrize("zone", [UTC, EAST])
@pytest.mark.parametrize(
    "values",
    [
        ("a", 1, 2, Timestamp(1_717_236_000_500, 0)),
        ("", -1, -400, Timestamp(-1, 0)),
        ('it\'s, a;b = "c"\\\\', None, None, None),
        ("__DEFAULT_PARTITION__", 0, 19000, None),
        (" x ", 0, 0, Timestamp(0, 0)),
        (None, 1, 1, None),
    ],
)
def test_the_spec_of_a_partition_names_it(values: tuple[Any, ...], zone: tzinfo) -> None:
    spec = partition_spec(values, SCHEMA, zone=zone)
    ((_, found),) = each_partition(spec, SCHEMA, zone=zone)
    named = zip(SCHEMA.partition_keys, values, strict=True)
    assert found == and_(*(IsNull(c) if v is None else eq(c, v) for c, v in named))


def test_two_zeros_are_two_partitions() -> None:
    fields = (DataField(0, "p", parse_atomic("DOUBLE")), DataField(1, "v", parse_atomic("INT")))
    schema = TableSchema(id=0, fields=fields, highest_field_id=1, partition_keys=("p",))
    for value, other in ((0.0, -0.0), (-0.0, 0.0)):
        found = parse_partitions(partition_spec((value,), schema), schema)
        assert evaluate(found, {"p": value}) is True
        assert evaluate(found, {"p": other}) is False
        assert evaluate(Not(found), {"p": other}) is True
        assert evaluate(found, {"p": None}) is False
        assert from_json(to_json(found)) == found
        assert may_match(found, {"p": ColumnStats(-1.0, 1.0, 0)}, 9)
        assert not may_match(found, {"p": ColumnStats(1.0, 2.0, 0)}, 9)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("rubbish", "'rubbish' in the argument 'partitions' is not a 'key=value' pair"),
        ("p=1", "'p', which is not a partition column; the partition columns are [dt, hh, d, ts]"),
        ("dh=1", "Did you mean"),
        ("hh=x", "'x' is not a value of type INT"),
        ("dt=a,dt=b", "twice"),
        (";", "does not name a partition"),
    ],
)
def test_partition_errors(text: Any, part: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse_partitions(text, SCHEMA)
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dt = 'it''s'", eq("dt", "it's")),
        ("'a' < dt", Comparison(">", "dt", "a")),
        ("hh in (1, -2)", InList("hh", (1, -2))),
        ("hh not in (1)", InList("hh", (1,), negated=True)),
        ("not (hh = 1 or dt like 'x%')", Not(Or((eq("hh", 1), StartsWith("dt", "x"))))),
        ("dt like 'x'", eq("dt", "x")),
        ("dt not like 'x%'", Not(StartsWith("dt", "x"))),
        ("not (dt not like 'x')", Not(Not(eq("dt", "x")))),
        ("hh between 1 and 3", And((Comparison(">=", "hh", 1), Comparison("<=", "hh", 3)))),
        ("d >= date '1970-01-03' and d < '1970-01-05'", And((Comparison(">=", "d", 2), Comparison("<", "d", 4)))),
        ("dt is not null", IsNull("dt", negated=True)),
        ("dt <=> null", IsNull("dt")),
        ("dt is not distinct from null", IsNull("dt")),
        ("2 is distinct from hh", Not(Comparison("<=>", "hh", 2))),
        ("hh is distinct from 1.5", Not(FALSE)),
        ("dt like '%x'", Like("dt", "%x")),
        (r"dt like 'a\%b%'", StartsWith("dt", "a%b")),
        (r"dt like '50\%'", eq("dt", "50%")),
        ("dt not like '_!%' escape '!'", Not(Like("dt", r"_\%"))),
        ("hh = cast(-1.5 as int)", eq("hh", -1)),
        ("hh = -cast('3' as bigint)", eq("hh", -3)),
        ("dt = cast(20240101 as string)", eq("dt", "20240101")),
        ("d < timestamp '1970-01-02 00:00:00'", Comparison("<", "d", 1)),
        ("d < timestamp '1970-01-02 00:00:00.1'", Comparison("<=", "d", 1)),
        ("d = timestamp '1970-01-02 01:00:00+01:00'", eq("d", 1)),
        ("d in (timestamp '1970-01-02 00:00:01', null, date '1970-01-03')", InList("d", (None, 2))),
        ("ts >= date '1970-01-02'", Comparison(">=", "ts", Timestamp(86_400_000, 0))),
        ("hh = 10L", eq("hh", 10)),
        ("hh = 1.0", eq("hh", 1)),
        ("hh = '3'", eq("hh", 3)),
        ('`DT` != "a"', Comparison("!=", "dt", "a")),
        ("hh in (1, null, 2147483648, 1.5)", InList("hh", (1, None))),
        ("hh > 1.5", Comparison(">", "hh", 1)),
        ("hh <= -1.5D", Comparison("<=", "hh", -2)),
        ("hh = 1.5", InList("hh", ())),
        ("hh < 2147483648", InList("hh", (), negated=True)),
        ("hh < -1e30", InList("hh", ())),
    ],
)
def test_where(text: Any, expected: Any) -> None:
    assert parse_where(text, SCHEMA) == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("id > 1", "uses 'id', but only partition columns [dt, hh, d, ts]"),
        ("nope = 1", "uses 'nope'"),
        ("hh + 1 = 2", "'ADD'"),
        ("lower(dt) = 'a'", "'LOWER'"),
        ("dt rlike 'x'", "'RLIKE'"),
        ("dt like any ('x')", "'LIKE'"),
        (r"dt like 'a\\bc'", "precedes neither"),
        ("dt.hh = 1", "the member 'hh' of the column 'dt'"),
        ("DT.x.hh = 1", "the member 'hh' of the column 'DT'"),
        ("dt.x.y.hh = 1", "the member 'hh' of the column 'dt'"),
        ("other.hh = 1", "'other.hh', which is no column"),
        ("a.b.c.hh = 1", "'a.b.c.hh', which is no column"),
        ("dt is true", "'IS'"),
        ("hh between symmetric 3 and 1", "'BETWEEN SYMMETRIC'"),
        ("hh in (select 1)", "'IN QUERY'"),
        ("dt = hh", "column 'hh' where a literal belongs"),
        ("dt = 1", "Write the value in quotes"),
        ("hh = cast(1e10 as int)", "the cast of 1E+10 (number) to INT"),
        ("hh = cast('1.5' as int)", "the cast of 1.5 (text) to INT"),
        ("hh = cast(dt as int)", "'CAST'"),
        ("dt = cast(1.5 as string)", "the cast of 1.5 (number) to STRING"),
        ("dt < date '2020-01-01'", "date 2020-01-01 is compared with a column of type STRING"),
        ("hh = true", "boolean true is compared with a column of type INT"),
        ("dt = X'0G'", "The bytes X'0G' are not written in hexadecimal digits"),
        ("dt = x'0 A'", "The bytes x'0 A' are not"),
        ("hh > '1.5'", "'1.5' is not a value of type INT"),
        ("dt = null", "never true"),
        ("hh =", "not a condition"),
        ("hh = 1; hh = 2", "not one condition"),
        ("hh = 'a", "never closed"),
        ("map (cast", "not a condition"),
        ("(" * 3000, "not a condition"),
    ],
)
def test_where_errors(text: Any, part: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse_where(text, SCHEMA)
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("b = X'0aFF'", eq("b", b"\x0a\xff")),
        ("b > x'abc'", Comparison(">", "b", b"\x0a\xbc")),
        ("b in (X'')", InList("b", (b"",))),
        ("ts = timestamp '1970-01-01 01:00:00.5+01:00'", eq("ts", Timestamp(500, 0))),
        ("ts = '1970-01-01 01:00:00 Europe/Paris'", eq("ts", Timestamp(0, 0))),
        ("ts = '1970-01-01T00:00:01Z'", eq("ts", Timestamp(1000, 0))),
        ("ts = '1970-01-01 02:00:00'", eq("ts", Timestamp(0, 0))),
    ],
)
def test_bytes_and_zoned_times(text: str, expected: Predicate) -> None:
    types = {"b": "VARBINARY(9)", "ts": "TIMESTAMP(3) WITH LOCAL TIME ZONE"}
    fields = tuple(DataField(i, n, parse_atomic(t)) for i, (n, t) in enumerate(types.items()))
    schema = TableSchema(id=0, fields=fields, highest_field_id=1)
    assert parse_filter(text, schema, zone=EAST) == expected
    for wrong in ("b = X'GG'", "ts = '1970-01-01 01:00:00 Mars/Sea'", "ts = X'00'"):
        with pytest.raises(ArgumentError, match="'filter'"):
            parse_filter(wrong, schema)


@pytest.mark.parametrize("column", ["i", "d"])
@pytest.mark.parametrize(
    "number", ["1", "1.5", "1.25", "-1.5", "-0.001", "99.95", "100", "-1e30", "2147483648", "1e999999"]
)
def test_numbers_compare_as_decimals(column: str, number: str) -> None:
    fields = (DataField(0, "i", parse_atomic("INT")), DataField(1, "d", parse_atomic("DECIMAL(3, 1)")))
    schema = TableSchema(id=0, fields=fields, highest_field_id=1)
    wanted = Decimal(number)
    for op, holds in HOLDS.items():
        found = parse_filter(f"{column} {op} {number}", schema)
        assert evaluate(found, {column: None}) is (False if op == "<=>" else None)
        for value in (-2, -1, 0, 1, 2, 99):
            given = Decimal(value) if column == "d" else value
            assert evaluate(found, {column: given}) is holds(Decimal(value), wanted)
            assert evaluate(Not(found), {column: given}) is not holds(Decimal(value), wanted)


@pytest.mark.parametrize("number", ["0.1", "-0.1", "0.5", "16777217", "1e39", "-1e400", "0.1F", "cast('0.1' as float)"])
def test_floats_compare_as_doubles(number: str) -> None:
    fields = (DataField(0, "f", parse_atomic("FLOAT")), DataField(1, "d", parse_atomic("DOUBLE")))
    schema = TableSchema(id=0, fields=fields, highest_field_id=1)
    single = not number[-1].isdigit()
    wanted = to_single(0.1) if single else float(number)
    largest = to_single(3.4028234663852886e38)
    for op, holds in HOLDS.items():
        found = {c: parse_filter(f"{c} {op} {number}", schema) for c in ("f", "d")}
        assert evaluate(found["f"], {"f": None}) is (False if op == "<=>" else None)
        for value in (0.0, to_single(0.1), to_single(-0.1), 0.5, 16777216.0, 16777218.0, largest, -largest):
            for column, predicate in found.items():
                assert evaluate(predicate, {column: value}) is holds(value, wanted)
                assert evaluate(Not(predicate), {column: value}) is not holds(value, wanted)
                assert may_match(predicate, {column: ColumnStats(value, value, 0)}, 1) or not holds(value, wanted)
        assert evaluate(found["f"], {"f": math.nan}) is (op in ("!=", ">", ">="))


def test_negative_decimals_keep_all_digits() -> None:
    schema = TableSchema(id=0, fields=(DataField(0, "n", parse_atomic("DECIMAL(38, 0)")),), highest_field_id=0)
    number = "-12345678901234567890123456789012345678"
    assert parse_filter(f"n = {number}", schema) == eq("n", Decimal(number))


@pytest.mark.parametrize(
    ("pattern", "like", "unlike"),
    [
        ("%b", ["b", "ab", "a\nb", "\u00e9b"], ["ba", "b\n", "B"]),
        ("_", ["a", "\n", "\U0001f600"], ["", "ab"]),
        ("a%c.d", ["ac.d", "abc.d"], ["acxd", "xac.d"]),
        (r"%\%\_\\", ["%_\\", "5%_\\"], ["5xx\\"]),
        ("%%", ["", "x"], []),
        ("a_%", ["ab", "abc"], ["a", "ba"]),
        ("%[a^$#|() ]%", ["x[a^$#|() ]"], ["a"]),
    ],
)
def test_patterns(pattern: str, like: list[str], unlike: list[str]) -> None:
    leaf = Like("s", pattern)
    assert from_json(to_json(leaf)) == leaf
    texts = [*like, *unlike, None]
    rows = pa.table({"s": pa.array(texts, pa.string())})
    fields = {"s": DataField(0, "s", parse_atomic("STRING"))}
    for predicate, wanted in ((leaf, like), (Not(leaf), unlike)):
        assert rows.filter(to_expression(predicate, fields))["s"].to_pylist() == wanted
        assert [t for t in texts if evaluate(predicate, {"s": t})] == wanted
        assert all(may_match(predicate, {"s": ColumnStats(t, t, 0)}, 1) for t in wanted)
    assert not may_match(Like("s", "b%c"), {"s": ColumnStats("c", "d", 0)}, 1)


def test_truth_of_booleans() -> None:
    fields = (DataField(0, "b", parse_atomic("BOOLEAN")), DataField(1, "c", parse_atomic("CHAR(3)")))
    schema = TableSchema(id=0, fields=fields, highest_field_id=1)
    for text, wanted in {"true": [True], "false": [False], "unknown": [None], "null": [None]}.items():
        found = parse_filter(f"b is {text}", schema)
        opposite = parse_filter(f"b is not {text}", schema)
        assert [v for v in (True, False, None) if evaluate(found, {"b": v})] == wanted
        assert [v for v in (True, False, None) if evaluate(opposite, {"b": v})] == [
            v for v in (True, False, None) if v not in wanted
        ]
    for pattern in ("%a", "a_", "a", "", "a %"):
        with pytest.raises(ArgumentError, match="over a CHAR column"):
            parse_filter(f"c like '{pattern}'", schema)
    assert parse_filter("c like 'a%'", schema) == StartsWith("c", "a")


@pytest.mark.parametrize("parse", [parse_where, parse_partitions])
def test_an_unpartitioned_table_has_nothing_to_select(parse: Any) -> None:
    with pytest.raises(ArgumentError, match="needs a partitioned table"):
        parse("dt='a'", FLAT)


def test_instants_are_read_in_the_zone_of_the_session() -> None:
    assert parse_partitions("ts=1970-01-01 02:00:00", SCHEMA, zone=EAST) == eq("ts", Timestamp(0))
    assert timestamp_millis("1970-01-01", zone=EAST, parameter="older_than") == -7_200_000
    with pytest.raises(ArgumentError, match="older_than"):
        timestamp_millis("x", zone=EAST, parameter="older_than")


def test_options() -> None:
    assert parse_options("a=b , c=d=e,") == {"a": "b", "c": "d=e"}
    assert parse_options("a='x,y', 'k'='v'") == {"a": "x,y", "k": "v"}
    assert parse_options("a=b;c") == {"a": "b;c"}
    assert parse_options(" ") == {}
    with pytest.raises(ArgumentError, match="'bad' in the argument 'options'"):
        parse_options("a=b,bad")
