"""A task on a machine that does not see the table must not write where nobody reads."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.api.catalog import connect
from paimon_spark.core.table import table_of_task
from paimon_spark.errors import EngineError, ErrorKind


def test_a_table_is_rebuilt_where_it_is_seen(tmp_path: Path) -> None:
    table = connect(tmp_path).create_table("default.t", pa.schema([("k", pa.int64())])).load()
    assert table_of_task(table.to_config()) == table
    shutil.move(tmp_path / "default.db", tmp_path / "elsewhere")
    with pytest.raises(EngineError, match="does not see the directory of table") as error:
        table_of_task(table.to_config())
    assert error.value.kind is ErrorKind.ENVIRONMENT
    assert not (tmp_path / "default.db").exists()


def test_a_store_is_not_asked(tmp_path: Path) -> None:
    table = connect("memory:/w").create_table("default.t", pa.schema([("k", pa.int64())])).load()
    assert table_of_task(table.to_config()).path == table.path
