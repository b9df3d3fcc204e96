"""SET and RESET of session options."""

from __future__ import annotations

import pytest

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.sqlparse.settings import Setting, parse_setting

KEY = "paimon.*.default.T.scan.timestamp-millis"


@pytest.mark.parametrize(
    "text",
    [
        f"SET '{KEY}' = '1697018249000'",
        f"SET '{KEY}' = '1697018249000';",
        f"SET '{KEY}' = '1697018249000'; ;",
        f"-- set scan.timestamp-millis=1697018249000 for the table default.T in any catalog\nSET '{KEY}'='1697018249000' ;",
        f'set "{KEY}" = 1697018249000',
        f"SET `{KEY}` = 1697018249000",
        f"/* so */ SET {KEY}=1697018249000 -- millis",
        f"SET {KEY} = '1697018249000'",
    ],
)
def test_the_spellings_of_one_set(text: str) -> None:
    assert parse_setting(text) == Setting(KEY, "1697018249000")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("SET spark.paimon.scan.timestamp = '2024-01-01 00:00:00'", "2024-01-01 00:00:00"),
        ("SET spark.paimon.scan.timestamp = 2024-01-01 00:00:00", "2024-01-01 00:00:00"),
        ("SET spark.paimon.data-file.prefix = 'it''s'", "it's"),
        ("SET spark.paimon.metadata.stats-mode.per.level=0:full,1:none", "0:full,1:none"),
        ("SET spark.paimon.data-file.prefix = 'a=b;c'", "a=b;c"),
        ("SET spark.paimon.data-file.prefix =", ""),
    ],
)
def test_values(text: str, value: str) -> None:
    found = parse_setting(text)
    assert found is not None
    assert found.value == value


def test_reset_and_show() -> None:
    assert parse_setting(f"RESET '{KEY}'") == Setting(KEY, reset=True)
    assert parse_setting(f"RESET {KEY};") == Setting(KEY, reset=True)
    assert parse_setting(f"SET '{KEY}'") == Setting(KEY)


@pytest.mark.parametrize(
    "text",
    [
        "SET spark.sql.shuffle.partitions = 2",
        "SET 'execution.runtime-mode' = 'batch'",
        "SET -v",
        "SET",
        "RESET",
        "SET TIME ZONE 'UTC'",
        "SELECT 'SET paimon.x.y = 1'",
        "-- SET 'paimon.a.b.c.d' = '1'",
        "",
    ],
)
def test_statements_of_others(text: str) -> None:
    assert parse_setting(text) is None


@pytest.mark.parametrize(
    "text", ["SET 'paimon.write-only true'", "SET paimon. = 1", "SET spark.paimon.write-only true"]
)
def test_what_is_no_key(text: str) -> None:
    with pytest.raises(SqlSyntaxError, match="not the key"):
        parse_setting(text)


@pytest.mark.parametrize("text", ["SET 'paimon.data-file.prefix=a'", "RESET paimon.data-file.prefix=a"])
def test_an_equals_sign_in_the_key_is_refused(text: str) -> None:
    with pytest.raises(SqlSyntaxError, match=r"'paimon.data-file.prefix=a' is not the key of a session option"):
        parse_setting(text)
