"""Statements that SQLAlchemy compiles for Spark; no server is needed."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import Column, MetaData, Table, insert, make_url, select, types
from sqlalchemy.schema import CreateTable

from paimon_spark.clients.sqlalchemy import PaimonDialect


def compiled(statement: Any) -> str:
    return re.sub(r"\s+", " ", str(statement.compile(dialect=PaimonDialect(paramstyle="pyformat")))).strip()


def table(schema: str | None = None) -> Table:
    return Table("t", MetaData(), Column("id", types.Integer), Column("a.b", types.String), schema=schema)


def test_an_insert_names_its_columns() -> None:
    assert compiled(insert(table()).values({"a.b": "x"})).startswith("INSERT INTO `t` (`a.b`) VALUES (")
    source = table("other")
    copied = insert(table()).from_select(["a.b", "id"], select(source.c["a.b"], source.c.id))
    assert compiled(copied).startswith("INSERT INTO `t` (`a.b`, `id`) SELECT ")


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        (None, "`t`"),
        ("shop", "`shop`.`t`"),
        ("paimon.shop", "`paimon`.`shop`.`t`"),
        ("`paimon`.`a.b`", "`paimon`.`a.b`.`t`"),
        ("`a``b`", "`a``b`.`t`"),
        ("p%q", "`p%%q`.`t`"),
    ],
)
def test_a_schema_may_name_a_catalog(schema: str | None, name: str) -> None:
    found = table(schema)
    assert compiled(select(found.c.id, found.c["a.b"])).startswith(f"SELECT {name}.`id`, {name}.`a.b` FROM {name}")


def test_names_may_have_backquotes_and_percent_signs() -> None:
    named = Table("a`b%", MetaData(), Column("x`y%", types.Integer))
    assert compiled(select(named)) == "SELECT `a``b%%`.`x``y%%` FROM `a``b%%`"


def test_numbers_are_sent_with_all_digits() -> None:
    process = PaimonDialect().type_descriptor(types.Numeric(38, 10)).bind_processor(PaimonDialect())
    values = [Decimal("1E-10"), Decimal("1234567890123456789012345678.0123456789"), 5, None]
    assert [f"{process(v)!s}" for v in values] == [
        "0.0000000001BD",
        "1234567890123456789012345678.0123456789BD",
        "5",
        "None",
    ]


def test_rows_are_skipped_without_a_limit() -> None:
    assert re.search(r"FROM `t` OFFSET %\(param_1\)s$", compiled(select(table()).offset(3)))
    assert re.search(
        r"FROM `t` LIMIT %\(param_1\)s OFFSET %\(param_2\)s$", compiled(select(table()).limit(2).offset(3))
    )


def test_a_new_table_has_the_types_of_its_columns() -> None:
    kinds: dict[str, types.TypeEngine[Any]] = {
        "DATE": types.Date(),
        "TIMESTAMP_NTZ": types.DateTime(),
        "TIMESTAMP": types.TIMESTAMP(timezone=True),
        "DECIMAL(10, 2)": types.Numeric(10, 2),
        "DECIMAL(38, 18)": types.Numeric(),
        "DOUBLE": types.Float(),
        "FLOAT": types.Float(24),
        "INT": types.Integer(),
        "BIGINT": types.BigInteger(),
        "BOOLEAN": types.Boolean(),
        "VARCHAR(5)": types.String(5),
        "CHAR(3)": types.CHAR(3),
        "STRING": types.Text(),
        "BINARY": types.LargeBinary(),
    }
    columns = [Column(f"c{n}", kind) for n, kind in enumerate(kinds.values())]
    statement = compiled(CreateTable(Table("t", MetaData(), *columns)))
    assert statement == "CREATE TABLE `t` ( " + ", ".join(f"`c{n}` {name}" for n, name in enumerate(kinds)) + " )"


@pytest.mark.parametrize(
    ("place", "started"),
    [
        ("", None),
        ("/shop", "shop"),
        ("/paimon.shop", "paimon`.`shop"),
        ("/shop?catalog=paimon", "paimon`.`shop"),
        ("/a.b?catalog=paimon", "paimon`.`a.b"),
        ("?catalog=paimon", "paimon"),
    ],
)
def test_a_url_names_the_first_database(place: str, started: str | None) -> None:
    _, arguments = PaimonDialect().create_connect_args(make_url(f"paimon+thrift://host{place}"))
    assert arguments.get("database") == started
