"""A task on a machine without access to the table must not write to its local disk."""

from __future__ import annotations

import shutil
from datetime import UTC, timedelta, timezone, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from paimon_spark.api.catalog import connect
from paimon_spark.core.table import Table, table_of_task
from paimon_spark.errors import EngineError, ErrorKind, NotFoundError
from paimon_spark.testing.tables import new_table


def test_a_table_is_rebuilt_where_it_is_seen(tmp_path: Path) -> None:
    table = connect(tmp_path).create_table("default.t", pa.schema([("k", pa.int64())])).load()
    assert table_of_task(table.to_config()) == table
    shutil.move(tmp_path / "default.db", tmp_path / "elsewhere")
    with pytest.raises(EngineError, match="cannot access the directory of table") as error:
        table_of_task(table.to_config())
    assert error.value.kind is ErrorKind.ENVIRONMENT
    assert not (tmp_path / "default.db").exists()


def test_a_table_that_was_dropped_is_told(tmp_path: Path) -> None:
    table = connect(tmp_path).create_table("default.t", pa.schema([("k", pa.int64())])).load()
    connect(tmp_path).drop_table("default.t")
    with pytest.raises(NotFoundError, match=r"\[TABLE_NOT_FOUND\].*was dropped or renamed"):
        table_of_task(table.to_config())


def test_a_store_is_not_asked(tmp_path: Path) -> None:
    table = connect("memory:/w").create_table("default.t", pa.schema([("k", pa.int64())])).load()
    assert table_of_task(table.to_config()).path == table.path


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        (UTC, "UTC"),
        (ZoneInfo("Europe/Berlin"), "Europe/Berlin"),
        (timezone(timedelta(hours=-3, minutes=-30)), "-03:30"),
        (timezone(timedelta(hours=8)), "+08:00"),
    ],
)
def test_a_task_reads_in_the_time_zone_of_its_driver(zone: tzinfo, text: str) -> None:
    table = new_table({"k": "INT"}, options={"bucket": "-1"}).in_zone(zone)
    assert Table.from_config(table.to_config()).zone == text
