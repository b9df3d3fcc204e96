"""Worked examples of the aggregate functions of texts, arrays, maps and nested tables (semantics, EX-AG), and borders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.core.merge.aggregates.inputs import Inputs
from paimon_spark.core.merge.aggregates.registry import build_aggregate
from paimon_spark.errors import ErrorKind, OptionError, PaimonError
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.spec.aggregates import AggregateName, AggregateOptions, aggregate_options
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.types import STRING, ArrayType, DataField, DataType, MapType, RowType, parse_atomic

INT = parse_atomic("INT")
INTS = ArrayType(INT)
MAP = MapType(STRING, INT)
TIMED = MapType(STRING, RowType((DataField(0, "v", STRING), DataField(1, "t", STRING))))
NESTED = ArrayType(RowType((DataField(0, "k", INT), DataField(1, "v", STRING), DataField(2, "w", STRING))))


def merged(
    t: DataType, function: str, inputs: Sequence[Any], signs: str = "", late: Sequence[int] = (), **options: Any
) -> Any:
    """Return the merged value of one key; `signs` has a ``-`` for each input that is taken back."""
    column = pa.array([None, *inputs, None], to_arrow_type(t)).slice(1, len(inputs))
    retract = np.array([s == "-" for s in (signs or "+" * len(inputs))])
    delayed = np.isin(np.arange(len(inputs)), late)
    found = build_aggregate(DataField(0, "c", t), AggregateOptions(function=AggregateName(function), **options))(
        Inputs(
            column,
            np.arange(len(inputs)),
            np.zeros(1, np.int64),
            retract if retract.any() else None,
            delayed if delayed.any() else None,
        )
    )
    values = column.take(pa.array(found, mask=found < 0)) if isinstance(found, np.ndarray) else found
    values.validate(full=True)
    assert values.type == column.type
    return values.to_pylist()[0]


def rows(*pairs: Any) -> list[dict[str, Any]]:
    return [dict(zip("kvw", (*p, None, None), strict=False)) for p in pairs]


class TestListAgg:
    def test_blank_texts_are_skipped(self) -> None:
        assert merged(STRING, "listagg", ["a", "", "b", "  ", None]) == "a,b"
        assert merged(STRING, "listagg", ["", None, "\t"]) is None

    def test_distinct_words(self) -> None:
        assert merged(STRING, "listagg", ["a,b", "b,c,c"], distinct=True) == "a,b,c"

    def test_the_first_text_stays_as_it_is(self) -> None:
        assert merged(STRING, "listagg", ["a,a,", "a, ,b"], distinct=True) == "a,a,,b"

    def test_delimiters(self) -> None:
        assert merged(STRING, "listagg", ["a", "b"], delimiter="; ") == "a; b"
        assert merged(STRING, "listagg", ["a", "b"], delimiter="") == "ab"
        assert merged(STRING, "listagg", ["a", "b a"], delimiter="", distinct=True) == "ab"
        assert merged(STRING, "listagg", ["a|", "|b", "b"], delimiter="||", distinct=True) == "a||||b||b"

    def test_whitespace_is_that_of_java(self) -> None:
        assert merged(STRING, "listagg", ["a", "\u2003\u001c", "\u00a0"]) == "a,\u00a0"

    def test_late_texts_come_in_front(self) -> None:
        assert merged(STRING, "listagg", ["a", "b", "c"], late=[2]) == "c,a,b"
        assert merged(STRING, "listagg", [None, " ", "a", "b"], late=[1]) == "a,b"
        assert merged(STRING, "listagg", [None, " ", ""], late=[1]) == " "

    def test_retracts_are_refused(self) -> None:
        with pytest.raises(PaimonError) as e:
            merged(STRING, "listagg", ["a", "a"], "+-")
        assert e.value.kind is ErrorKind.RETRACT_NOT_SUPPORTED
        assert merged(STRING, "listagg", ["a", "a"], "+-", ignore_retract=True) == "a"


class TestCollect:
    def test_elements_are_appended_and_taken_back(self) -> None:
        assert merged(INTS, "collect", [[1, 2], [2], None]) == [1, 2, 2]
        assert merged(INTS, "collect", [[1, 2], [2], None, [2]], "+++-") == [1, 2]
        assert merged(INTS, "collect", [[1, 2], [2, 3], [2]], "++-") == [1, 2, 3]

    def test_distinct_elements(self) -> None:
        assert merged(INTS, "collect", [[1], [1, 2]], distinct=True) == [1, 2]
        assert merged(INTS, "collect", [[1], [1, 2], [1]], "++-", distinct=True) == [2]
        assert merged(INTS, "collect", [[None, 1], [None]], distinct=True) == [None, 1]

    def test_a_retract_before_its_element_has_no_effect(self) -> None:
        assert merged(INTS, "collect", [[1], [1]], "-+") == [1]

    def test_null_and_empty_arrays(self) -> None:
        for distinct in (False, True):
            assert merged(INTS, "collect", [None, None], distinct=distinct) is None
            assert merged(INTS, "collect", [None, []], distinct=distinct) == []
            assert merged(INTS, "collect", [[1], [1]], "--", distinct=distinct) is None
            assert merged(INTS, "collect", [[1], [1]], "+-", distinct=distinct) == []

    def test_binary_elements_are_equal_by_value(self) -> None:
        t = ArrayType(parse_atomic("BYTES"))
        assert merged(t, "collect", [[b"a"], [b"a", b"b"]], distinct=True) == [b"a", b"b"]

    def test_late_arrays_are_appended(self) -> None:
        assert merged(INTS, "collect", [[1], [2], [3]], late=[2]) == [1, 2, 3]


class TestMaps:
    def test_entries_are_merged_and_keys_taken_back(self) -> None:
        inputs = [[("a", 1), ("b", 2)], [("b", 3), ("c", 4)]]
        assert merged(MAP, "merge_map", inputs) == [("a", 1), ("b", 3), ("c", 4)]
        assert merged(MAP, "merge_map", [*inputs, [("b", 0)]], "++-") == [("a", 1), ("c", 4)]

    def test_null_and_empty_maps(self) -> None:
        assert merged(MAP, "merge_map", [None, None]) is None
        assert merged(MAP, "merge_map", [None, []]) == []
        assert merged(MAP, "merge_map", [[("a", 1)], None]) == [("a", 1)]
        assert merged(MAP, "merge_map", [[("a", 1)], [("a", 1)]], "-+") == [("a", 1)]

    def test_late_maps_do_not_override(self) -> None:
        assert merged(MAP, "merge_map", [[("a", 1)], [("a", 2), ("b", 3)]], late=[1]) == [("a", 1), ("b", 3)]

    def test_the_latest_time_wins(self) -> None:
        first = [("a", {"v": "v1", "t": "2024-02-01"})]
        second = [("a", {"v": "v2", "t": "2024-01-01"}), ("b", None), ("c", {"v": "v3", "t": None})]
        assert merged(TIMED, "merge_map_with_keytime", [first, second]) == first
        assert merged(TIMED, "merge_map_with_keytime", [first, [("a", {"v": "v2", "t": "2024-02-01"})]]) == first
        newer = [("a", {"v": "v2", "t": "2024-02-02"})]
        assert merged(TIMED, "merge_map_with_keytime", [first, newer]) == newer
        assert merged(TIMED, "merge_map_with_keytime", [first, newer], ts_field="v") == newer

    def test_null_rows_remove_entries(self) -> None:
        first = [("a", {"v": "v1", "t": "3"}), ("b", {"v": "v1", "t": "1"})]
        assert merged(TIMED, "merge_map_with_keytime", [first, [("a", None)]]) == first[1:]
        older = [("a", {"v": "v2", "t": "2"})]
        assert merged(TIMED, "merge_map_with_keytime", [first, [("a", None)], older]) == [first[1], older[0]]

    def test_the_first_map_stays_as_it_is(self) -> None:
        first = [("a", None), ("b", {"v": "x", "t": None})]
        assert merged(TIMED, "merge_map_with_keytime", [None, first, None]) == first
        second = [("b", {"v": "y", "t": "0"})]
        assert merged(TIMED, "merge_map_with_keytime", [first, second]) == [("a", None), *second]


class TestNestedTables:
    def test_rows_are_updated_by_nested_key(self) -> None:
        inputs = [rows((1, "a")), rows((1, "b"), (2, "c"))]
        assert merged(NESTED, "nested_update", inputs, nested_key=("k",)) == rows((1, "b"), (2, "c"))
        back = [*inputs, rows((1, "x"))]
        assert merged(NESTED, "nested_update", back, "++-", nested_key=("k",)) == rows((2, "c"))

    def test_rows_without_nested_key_are_appended(self) -> None:
        inputs = [rows((1,)), rows((2,), (3,))]
        assert merged(NESTED, "nested_update", inputs, count_limit=2) == rows((1,), (2,))
        assert merged(NESTED, "nested_update", inputs) == rows((1,), (2,), (3,))
        assert merged(NESTED, "nested_update", [rows((1,), (1,), (2,)), rows((1,))], "+-") == rows((2,))

    def test_the_limit_holds_for_new_nested_keys(self) -> None:
        inputs = [rows((1, "a"), (2, "a")), rows((3, "b"), (1, "b"))]
        assert merged(NESTED, "nested_update", inputs, nested_key=("k",), count_limit=2) == rows((1, "b"), (2, "a"))
        freed = [*inputs, rows((1,)), rows((4,))]
        assert merged(NESTED, "nested_update", freed, "++-+", nested_key=("k",), count_limit=2) == rows((2, "a"), (4,))

    def test_the_larger_nested_sequence_wins(self) -> None:
        inputs = [rows((1, "b", "x")), rows((1, "a", "y")), rows((1, None, "z")), rows((2, None, "u")), rows((2, None))]
        options = {"nested_key": ("k",), "nested_sequence": ("v",)}
        assert merged(NESTED, "nested_update", inputs, **options) == rows((1, "b", "x"), (2,))
        assert merged(NESTED, "nested_update", [*inputs, rows((1,)), inputs[1]], "+++++-+", **options) == [
            *rows((2,)),
            *inputs[1],
        ]

    def test_members_are_updated_one_by_one(self) -> None:
        inputs = [rows((1, "a")), rows((1, None, "x"), (2,))]
        assert merged(NESTED, "nested_partial_update", inputs, nested_key=("k",)) == rows((1, "a", "x"), (2,))
        assert merged(NESTED, "nested_partial_update", inputs[::-1], late=[1], nested_key=("k",)) == rows(
            (1, "a", "x"), (2,)
        )

    def test_null_rows_are_dropped(self) -> None:
        for function in ("nested_update", "nested_partial_update"):
            assert merged(NESTED, function, [[None], [None, *rows((1,))]], nested_key=("k",)) == rows((1,))
        assert merged(NESTED, "nested_update", [[None], [None, *rows((1,))]]) == rows((1,))

    def test_null_and_empty_tables(self) -> None:
        for key in ((), ("k",)):
            assert merged(NESTED, "nested_update", [None, None], nested_key=key) is None
            assert merged(NESTED, "nested_update", [None, []], nested_key=key) == []
            assert merged(NESTED, "nested_update", [rows((1,)), None], "+-", nested_key=key) == rows((1,))
            assert merged(NESTED, "nested_update", [rows((1,)), rows((1,))], "--", nested_key=key) is None

    @pytest.mark.parametrize("function", ["nested_update", "nested_partial_update"])
    def test_nulls_in_nested_keys(self, function: str) -> None:
        inputs = [rows((None, "a"), (1,)), rows((None, "b"))]
        key = {"nested_key": ("k",)}
        assert merged(NESTED, function, inputs, **key) == rows((None, "b"), (1,))
        assert merged(NESTED, function, inputs, **key, nested_key_null_strategy="ignore") == rows((1,))
        with pytest.raises(PaimonError, match="null in its nested key") as e:
            merged(NESTED, function, inputs, **key, nested_key_null_strategy="error")
        assert e.value.kind is ErrorKind.NOT_NULL_VIOLATION


@pytest.mark.parametrize(
    ("t", "options", "message"),
    [
        (
            NESTED,
            {"aggregate-function": "nested_update", "nested-key-null-strategy": "error"},
            "needs 'fields.c.nested-",
        ),
        (NESTED, {"aggregate-function": "nested_update", "nested-sequence-field": "v"}, "needs 'fields.c.nested-key'"),
        (NESTED, {"aggregate-function": "nested_partial_update"}, "needs the option 'fields.c.nested-key'"),
        (NESTED, {"aggregate-function": "nested_update", "nested-key": "kk"}, "not a member"),
        (
            ArrayType(RowType((DataField(0, "k", INT), DataField(1, "v", INTS)))),
            {"aggregate-function": "nested_update", "nested-key": "k", "nested-sequence-field": "v"},
            "atomic type that has an order",
        ),
        (
            MapType(STRING, RowType((DataField(0, "t", STRING), DataField(1, "v", INT)))),
            {"aggregate-function": "merge_map_with_keytime"},
            "name a STRING member in 'fields.c.ts-field'",
        ),
        (parse_atomic("VARCHAR(5)"), {"aggregate-function": "listagg"}, "takes STRING columns"),
        (MAP, {"aggregate-function": "collect"}, "takes ARRAY columns"),
    ],
)
def test_options_that_do_not_fit_are_refused(t: DataType, options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as e:
        aggregate_options(CoreOptions({f"fields.c.{n}": v for n, v in options.items()}), DataField(0, "c", t))
    assert message in str(e.value)


def test_options_of_a_nested_table() -> None:
    values = {
        "aggregate-function": "nested_update",
        "nested-key": "k, v",
        "nested-key-null-strategy": "IGNORE",
        "nested-sequence-field": "w",
        "count-limit": "5",
    }
    options = CoreOptions({f"fields.c.{n}": v for n, v in values.items()})
    assert aggregate_options(options, DataField(0, "c", NESTED)) == AggregateOptions(
        function=AggregateName.NESTED_UPDATE,
        nested_key=("k", "v"),
        nested_key_null_strategy="ignore",
        nested_sequence=("w",),
        count_limit=5,
    )
