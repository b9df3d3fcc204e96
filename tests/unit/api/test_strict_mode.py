"""Writes of the Python API that ``commit.strict-mode.last-safe-snapshot`` refuses."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.errors import RefusedCommitError

SCHEMA = pa.schema([("k", pa.int64())])


class Counted:
    """Rows that count how often they are read."""

    def __init__(self) -> None:
        self.reads = 0

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        self.reads += 1
        return pa.table({"k": [2]}, SCHEMA).__arrow_c_stream__(requested_schema)


def test_a_refused_write_is_not_repeated(tmp_path: Path) -> None:
    catalog = paimon_spark.connect(tmp_path)
    catalog.create_database("db")
    table = catalog.create_table("db.t", SCHEMA)
    table.append(pa.table({"k": [0]}, SCHEMA))
    table.overwrite(pa.table({"k": [1]}, SCHEMA))
    given = Counted()
    with pytest.raises(RefusedCommitError, match="snapshot 2"):
        catalog.table("db.t", {"commit.strict-mode.last-safe-snapshot": 1}).append(given)
    assert given.reads == 1
    assert table.to_arrow().to_pylist() == [{"k": 1}]
