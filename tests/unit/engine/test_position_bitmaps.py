"""DELETE by bitmaps of positions in this process: what is written, refused, or left to tasks."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyroaring import BitMap

from paimon_spark.core.columns import FILE_PATH, POSITIONS, VECTOR
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.row_level import finish_changes, plan_changes, write_marks
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import plan_select
from paimon_spark.errors import ConflictError, EngineError
from paimon_spark.spec.kinds import Operation
from paimon_spark.testing.invariants import leaked
from paimon_spark.testing.tables import new_table, read_arrow

VECTORS = {"deletion-vectors.enabled": "true"}
MARKS = {**VECTORS, "deletion-vectors.mark-deletes": "true"}
COUNT = 1000
KINDS = pytest.mark.parametrize(
    ("options", "key"),
    [(VECTORS, []), ({**MARKS, "bucket": "1"}, ["k"]), ({**MARKS, "bucket": "-1"}, ["k"])],
    ids=["append", "fixed buckets", "dynamic buckets"],
)
Marks = list[tuple[str, list[int], int | None]]


def filled(options: dict[str, str], key: list[str], files: int = 1) -> Table:
    columns = {"k": "INT", "p": "INT"}
    table = new_table(columns, primary_key=[*key, "p"] if key else [], partition=["p"], options=options)
    ks = pa.array(range(COUNT), pa.int32())
    write_arrow(table, pa.table({"k": ks, "p": pa.array([k % files for k in range(COUNT)], pa.int32())}))
    return table


def paths(table: Table) -> list[str]:
    splits = plan_select(table).splits
    return [table.paths.data_file(s.partition, s.bucket, f) for s in splits for f in s.files]


def marks(rows: Marks, *, large: bool = False) -> pa.Table:
    text, binary = (pa.large_string(), pa.large_binary()) if large else (pa.string(), pa.binary())
    bitmaps = [BitMap(positions).serialize() for _, positions, _ in rows]
    return pa.table(
        {
            FILE_PATH: pa.array([path for path, _, _ in rows], text),
            VECTOR: pa.array([seen for _, _, seen in rows], pa.int64()),
            POSITIONS: pa.array(bitmaps, binary),
        }
    )


def delete(table: Table, found: pa.Table) -> bool:
    """Delete rows in this process; return whether it was done."""
    plan = plan_changes(table, Operation.DELETE, rewrites=False)
    messages = write_marks(plan, found)
    if messages is not None:
        finish_changes(plan, messages, LocalRunner())
    return messages is not None


def gone(table: Table) -> set[int]:
    return set(range(COUNT)) - set(read_arrow(table).column("k").to_pylist())


@KINDS
@pytest.mark.parametrize("large", [False, True])
def test_bitmaps_of_one_file_are_united(options: dict[str, str], key: list[str], large: bool) -> None:
    table = filled(options, key)
    (path,) = paths(table)
    assert delete(table, marks([(path, [1, 2, 3], None), (path, [2, 500], None), (path, [999], None)], large=large))
    assert gone(table) == {1, 2, 3, 500, 999}
    assert leaked(table) == set()


@KINDS
def test_a_position_beyond_the_end_is_refused(options: dict[str, str], key: list[str]) -> None:
    table = filled(options, key)
    (path,) = paths(table)
    with pytest.raises(EngineError, match="beyond the end of the file"):
        delete(table, marks([(path, [7], None), (path, [COUNT], None)]))
    assert gone(table) == set()
    assert leaked(table) == set()


@KINDS
def test_rows_that_were_read_before_another_delete(options: dict[str, str], key: list[str]) -> None:
    """Where files are never merged, the statement must see the new vector; elsewhere the row is deleted by its key."""
    table = filled(options, key)
    (path,) = paths(table)
    assert delete(table, marks([(path, [1], None)]))
    late = marks([(path, [7], None)])
    if key:
        assert delete(table, late)
        assert gone(table) == {1, 7}
    else:
        with pytest.raises(ConflictError, match="Another commit deleted rows"):
            delete(table, late)
        assert gone(table) == {1}
    assert leaked(table) == set()


@KINDS
def test_nothing_is_committed_without_rows(options: dict[str, str], key: list[str]) -> None:
    table = filled(options, key)
    before = table.snapshots.latest()
    assert delete(table, marks([]))
    assert table.snapshots.latest() == before


@KINDS
@pytest.mark.parametrize("files", [32, 33])
def test_rows_in_many_files_are_left_to_tasks(options: dict[str, str], key: list[str], files: int) -> None:
    table = filled(options, key, files)
    found = paths(table)
    assert len(found) == files
    assert delete(table, marks([(path, [0], None) for path in found for _ in range(2)])) is (files == 32)
    assert len(gone(table)) == (32 if files == 32 else 0)
    assert leaked(table) == set()
