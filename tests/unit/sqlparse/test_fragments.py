"""Fragments of merge_into: columns are qualified in place, and only single expressions are accepted."""

from __future__ import annotations

import pytest

from paimon_spark.errors import ArgumentError, ErrorKind
from paimon_spark.sqlparse.fragments import (
    Scope,
    Side,
    resolve_expression,
    resolve_settings,
    resolve_values,
    split_list,
)

TARGET = Side("target", (("T",), ("db", "T"), ("lake", "db", "T")), ("id", "Price", "mark", "day"), "t")
SOURCE = Side("source", (("S",), ("other", "S")), ("order_id", "price", "st", "items", "a b"), "s")
BOTH = Scope((TARGET, SOURCE), (TARGET, SOURCE))
FROM_SOURCE = Scope((SOURCE,), (TARGET, SOURCE))


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("T.price+20", "`t`.`Price`+20"),
        ("t.PRICE + s.Price", "`t`.`Price` + `s`.`price`"),
        ("db.T.id = other.S.order_id", "`t`.`id` = `s`.`order_id`"),
        ("lake.db.T.id IS NULL", "`t`.`id` IS NULL"),
        ("`T`.`id`=`S`.`a b`", "`t`.`id`=`s`.`a b`"),
        ("id = order_id AND mark LIKE 'T.id%'", "`t`.`id` = `s`.`order_id` AND `t`.`mark` LIKE 'T.id%'"),
        ("S.st.price > 1 AND st.f.g < 2", "`s`.`st`.price > 1 AND `s`.`st`.f.g < 2"),
        ("items[T.id].x", "`s`.`items`[`t`.`id`].x"),
        ("exists(items, i -> i > T.id)", "exists(`s`.`items`, i -> i > `t`.`id`)"),
        ("CASE WHEN id = 1 THEN 'it''s' ELSE mark END", "CASE WHEN `t`.`id` = 1 THEN 'it\\'s' ELSE `t`.`mark` END"),
        ("CAST(mark AS INT) /* T.id */ + 1", "CAST(`t`.`mark` AS INT) /* T.id */ + 1"),
        ("day < current_date", "`t`.`day` < current_date"),
        ("TRUE", "TRUE"),
    ],
)
def test_columns_are_qualified_and_the_rest_stays(text: str, resolved: str) -> None:
    assert resolve_expression(text, BOTH, "p") == resolved


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("price > 1", "both tables have"),
        ("prize > 1", "names the column 'prize', which neither the target T nor the source S has"),
        ("T.prize > 1", "names the column 'T.prize', which the target T does not have"),
        ("X.id = 1", "names the column 'X.id'"),
        ("id IN (SELECT order_id FROM S)", "a subquery"),
        ("max(id) > 1", "an aggregate function"),
        ("row_number() OVER (ORDER BY id) = 1", "a window function"),
        ("explode(items)", "a function that yields rows"),
        ("T.id = 1; DROP TABLE T", "is not one expression"),
        ("DROP TABLE T", "a statement"),
        ("INSERT INTO T VALUES (1)", "a statement"),
        ("CALL sys.compact('db.T')", "a statement"),
        ("SELECT 1", "a subquery"),
        ("id AS x", "gives an expression an alias"),
        ("id = 'x", "is not an expression"),
        ("id = (1", "is not an expression"),
        ("*", "a '*'"),
        ("", "is not one expression"),
    ],
)
def test_what_is_no_expression_over_the_tables_is_refused(text: str, message: str) -> None:
    with pytest.raises(ArgumentError, match="'p'") as caught:
        resolve_expression(text, BOTH, "p")
    assert message in str(caught.value)


def test_a_column_outside_the_scope_is_refused_by_name() -> None:
    assert resolve_expression("price > 1", FROM_SOURCE, "p") == "`s`.`price` > 1"
    with pytest.raises(ArgumentError, match=r"uses 'T\.id', but only columns of the source"):
        resolve_expression("T.id = 1", FROM_SOURCE, "p")
    with pytest.raises(ArgumentError, match="the source S does not have") as caught:
        resolve_expression("mark = 'a'", FROM_SOURCE, "p")
    assert caught.value.kind is ErrorKind.COLUMN_NOT_FOUND


def test_settings() -> None:
    text = "price = concat(mark, ',', '=') , T.mark=coalesce(S.st.a, S.st.b), `day` = if(id = 1, day, day)"
    assert resolve_settings(text, TARGET, BOTH, "p") == {
        "Price": "concat(`t`.`mark`, ',', '=')",
        "mark": "coalesce(`s`.`st`.a, `s`.`st`.b)",
        "day": "if(`t`.`id` = 1, `t`.`day`, `t`.`day`)",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("price", "not an assignment"),
        ("price = 1, price = 2", "twice"),
        ("prise = 1", "Did you mean 'Price'"),
        ("S.price = 1", "which the target T does not have"),
        ("price = 1,", "has an empty list item"),
        ("price + 1 = 2", "names the column 'price + 1'"),
        ("= 2", "not a column name"),
        ("price = ", "is not one expression"),
    ],
)
def test_bad_settings(text: str, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        resolve_settings(text, TARGET, BOTH, "p")
    assert message in str(caught.value)


def test_values() -> None:
    stars = [f"`s`.`{c}`" for c in SOURCE.columns]
    assert resolve_values("*", SOURCE, FROM_SOURCE, "p") == stars
    assert resolve_values("1, s . *, price", SOURCE, FROM_SOURCE, "p") == ["1", *stars, "`s`.`price`"]
    assert split_list("f(a, b), x[1, 2], 'a,b', `c,d`", "p") == ["f(a, b)", "x[1, 2]", "'a,b'", "`c,d`"]
