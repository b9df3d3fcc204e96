"""Tables of the first-row engine: what readers see, and which rows a compaction leaves out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import UnsupportedError
from paimon_spark.format.arrow_types import to_arrow_type
from paimon_spark.testing.tables import new_table, read_arrow
from tests.small_tables import option_keys

COLUMNS = {"k": "INT", "v": "STRING"}
MANY = 20_000


def first_row_table(**options: str) -> Table:
    given = option_keys(options)
    return new_table(COLUMNS, primary_key=["k"], options={"merge-engine": "first-row", "bucket": "1", **given})


def write(table: Table, *rows: tuple[int, str], **how: Any) -> None:
    keys, values = zip(*rows, strict=True)
    write_arrow(table, pa.table({"k": pa.array(keys, pa.int32()), "v": pa.array(values)}), **how)


def rows_of(table: Table) -> list[tuple[int, str]]:
    return sorted((r["k"], r["v"]) for r in read_arrow(table).to_pylist())


def levels(table: Table) -> dict[int, int]:
    """Return the number of rows in each level."""
    out: dict[int, int] = {}
    for e in scan(table, table.snapshots.latest()).entries:
        out[e.file.level] = out.get(e.file.level, 0) + e.file.row_count
    return out


def test_the_first_row_of_a_key_stays() -> None:
    table = first_row_table()
    write(table, (1, "a"))
    write(table, (1, "b"))
    write(table, (2, "c"))
    assert rows_of(table) == [(1, "a"), (2, "c")]


def test_keys_that_an_upper_level_holds_are_left_out() -> None:
    table = first_row_table()
    write(table, *((k, "old") for k in range(0, MANY, 2)))
    assert levels(table) == {5: MANY // 2}
    write(table, (2, "new"), (3, "new"), (MANY, "new"))
    assert levels(table) == {4: 2, 5: MANY // 2}
    write(table, (3, "newer"), (4, "newer"))
    assert levels(table) == {4: 2, 5: MANY // 2}
    found = dict(rows_of(table))
    assert len(found) == MANY // 2 + 2
    assert [found[k] for k in (2, 3, 4, MANY)] == ["old", "new", "old", "new"]
    execute_compaction(plan_compaction(table, strategy=Strategy.FULL), LocalRunner())
    assert levels(table) == {5: MANY // 2 + 2}
    assert dict(rows_of(table)) == found


@pytest.mark.parametrize("key", ["STRING", "DOUBLE", "DECIMAL(30,2)", "TIMESTAMP(6)"])
def test_keys_of_every_order(key: str) -> None:
    options = {"merge-engine": "first-row", "bucket": "1"}
    table = new_table({"k": key, "v": "INT"}, primary_key=["k"], options=options)
    arrow = to_arrow_type(table.schema.fields[0].type)
    numbers = pa.array(range(5000), pa.int64())
    keys = numbers.cast(arrow) if key.startswith("TIME") else numbers.cast(pa.string()).cast(arrow)
    write_arrow(table, pa.table({"k": keys, "v": pa.array([0] * 5000, pa.int32())}))
    write_arrow(table, pa.table({"k": keys.slice(4990), "v": pa.array([1] * 10, pa.int32())}))
    assert read_arrow(table).column("v").to_pylist() == [0] * 5000


def test_rows_are_invisible_until_a_compaction() -> None:
    table = first_row_table(write_only="true")
    write(table, (1, "a"))
    assert rows_of(table) == []
    execute_compaction(plan_compaction(table, strategy=Strategy("minor")), LocalRunner())
    assert rows_of(table) == [(1, "a")]


def test_an_overwrite_forgets_the_rows_before() -> None:
    table = first_row_table()
    write(table, (1, "a"), (2, "b"))
    write(table, (1, "c"), overwrite="static")
    assert rows_of(table) == [(1, "c")]


def test_deletes_are_refused_or_ignored() -> None:
    delete = pa.table({"k": pa.array([1], pa.int32()), "v": ["x"], ROW_KIND: pa.array([3], pa.int8())})
    table = first_row_table()
    write(table, (1, "a"))
    with pytest.raises(UnsupportedError, match=r"-D.*first-row.*ignore-delete"):
        write_arrow(table, delete)
    ignoring = first_row_table(ignore_delete="true")
    write(ignoring, (1, "a"))
    write_arrow(ignoring, delete)
    assert rows_of(ignoring) == [(1, "a")]
