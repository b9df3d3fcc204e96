"""Cross-partition upserts against a row by row model: which rows go to which partition and bucket."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.core.columns import EXISTING_BUCKET, ROW_KIND, SHUFFLE_HASH
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.scan.splits import Split
from paimon_spark.core.table import Table
from paimon_spark.core.write.cross_partition import CrossPartitionWriter
from paimon_spark.core.write.table_writer import WriterRestoreState
from paimon_spark.spec.kinds import RowKind
from tests.small_tables import crossing

Row = tuple[int, int | None, str | None]
"""Key, value, partition."""
Existing = dict[int, tuple[str | None, int]]
"""The partition and bucket of each key of the table."""
INSERT, DELETE = int(RowKind.INSERT), int(RowKind.DELETE)


def batches(existing: Existing, rows: list[tuple[Row, int]], size: int) -> list[pa.RecordBatch]:
    """Return rows sorted by key, existing ones first, as a task gets them, in batches of `size` rows."""
    all_rows: list[dict[str, Any]] = [
        {"k": k, "v": None, "p": p, ROW_KIND: None, EXISTING_BUCKET: bucket, SHUFFLE_HASH: k}
        for k, (p, bucket) in existing.items()
    ]
    all_rows += [
        {"k": k, "v": v, "p": p, ROW_KIND: kind, EXISTING_BUCKET: None, SHUFFLE_HASH: k} for (k, v, p), kind in rows
    ]
    all_rows.sort(key=lambda r: (r["k"], r[EXISTING_BUCKET] is None))
    schema = pa.schema(
        [
            ("k", pa.int32()), ("v", pa.int32()), ("p", pa.string()), (ROW_KIND, pa.int8()),
            (EXISTING_BUCKET, pa.int32()), (SHUFFLE_HASH, pa.int32()),
        ]
    )  # fmt: skip
    return pa.Table.from_pylist(all_rows, schema=schema).to_batches(max_chunksize=size)


def written(
    table: Table, existing: Existing, rows: list[tuple[Row, int]], *, size: int = 3, assigners: int = 1
) -> list[CommitMessage]:
    counts: dict[bytes, dict[int, int]] = {}
    with CrossPartitionWriter(table, WriterRestoreState(assigners=assigners, bucket_rows=counts)) as writer:
        for batch in batches(existing, rows, size):
            writer.write(batch)
        return writer.finish()


def content(table: Table, messages: list[CommitMessage]) -> dict[tuple[str | None, int], list[tuple[int, Any, int]]]:
    """Return the rows (key, value, kind) of each partition and bucket, merged."""
    out: dict[tuple[str | None, int], list[tuple[int, Any, int]]] = {}
    for m in messages:
        split = Split(
            partition=m.partition, bucket=m.bucket, total_buckets=-1, files=m.new_files, raw=False, snapshot_id=1
        )
        (partition,) = table.partition_values(m.partition)
        for batch in read_split(table, split, keep_kinds=True):
            for row in batch.to_pylist():
                assert row["p"] == partition
                out.setdefault((partition, m.bucket), []).append((row["k"], row["v"], row[ROW_KIND]))
    return out


def test_a_key_that_moves_is_deleted_from_its_old_partition() -> None:
    table = crossing()
    messages = written(table, {1: ("a", 4), 2: ("a", 4)}, [((1, 10, "b"), INSERT), ((2, 20, "a"), INSERT)])
    assert content(table, messages) == {("a", 4): [(1, 10, DELETE), (2, 20, INSERT)], ("b", 0): [(1, 10, INSERT)]}


def test_of_two_rows_of_one_insert_the_last_one_stays() -> None:
    table = crossing()
    rows = [((1, 1, "a"), INSERT), ((1, 2, "b"), INSERT), ((1, 3, "c"), INSERT)]
    assert content(table, written(table, {}, rows, size=10)) == {("c", 0): [(1, 3, INSERT)]}
    assert content(table, written(table, {1: ("c", 7)}, rows, size=10)) == {("c", 7): [(1, 3, INSERT)]}


def test_a_delete_goes_where_the_key_is() -> None:
    table = crossing()
    found = content(table, written(table, {1: ("a", 4)}, [((1, None, "z"), DELETE), ((2, None, "a"), DELETE)]))
    assert found == {("a", 4): [(1, None, DELETE)]}


def test_a_null_partition_is_a_partition() -> None:
    table = crossing()
    found = content(
        table, written(table, {1: (None, 2), 2: ("a", 3)}, [((1, 5, None), INSERT), ((2, 6, None), INSERT)])
    )
    assert found[None, 2] == [(1, 5, INSERT)]
    assert found["a", 3] == [(2, 6, DELETE)]
    assert found[None, 0] == [(2, 6, INSERT)]


def test_first_row_drops_rows_of_existing_keys() -> None:
    table = crossing("first-row")
    rows = [((1, 1, "b"), INSERT), ((2, 2, "b"), INSERT), ((2, 3, "c"), INSERT)]
    assert content(table, written(table, {1: ("a", 0)}, rows)) == {("b", 0): [(2, 2, INSERT)]}


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
def test_other_engines_keep_the_partition_of_a_key(engine: str) -> None:
    table = crossing(engine)
    rows = [((1, 1, "b"), INSERT), ((2, None, "b"), INSERT), ((2, 3, "c"), INSERT)]
    found = content(table, written(table, {1: ("a", 5)}, rows))
    assert found == {("a", 5): [(1, 1, INSERT)], ("b", 0): [(2, 3, INSERT)]}


def test_ignored_kinds_do_not_move_a_key() -> None:
    table = crossing(ignore_update_before="true")
    rows = [((1, 1, "b"), INSERT), ((1, 1, "a"), int(RowKind.UPDATE_BEFORE))]
    assert content(table, written(table, {}, rows)) == {("b", 0): [(1, 1, INSERT)]}


def test_buckets_fill_up_and_assigners_use_their_own() -> None:
    table = crossing(dynamic_bucket__target_row_num="10")
    rows = [((k, k, "a"), INSERT) for k in range(40)]
    found = content(table, written(table, {}, rows, size=7, assigners=2))
    assert sorted((bucket, len(keys)) for (_, bucket), keys in found.items()) == [(b, 10) for b in range(4)]
    assert all({k % 2 for k, _, _ in keys} == {bucket % 2} for (_, bucket), keys in found.items())


class Model:
    """A table as a dict, changed row by row."""

    def __init__(self, engine: str, existing: Existing) -> None:
        self.engine = engine
        self.rows: dict[int, tuple[str | None, int | None]] = {k: (p, -1) for k, (p, _) in existing.items()}

    def apply(self, row: Row, kind: int) -> None:
        key, value, partition = row
        known = self.rows.get(key)
        if self.engine == "deduplicate":
            if kind == DELETE:
                self.rows.pop(key, None)
            else:
                self.rows[key] = (partition, value)
        elif known is None:
            self.rows[key] = (partition, value)
        elif self.engine == "partial-update":
            self.rows[key] = (known[0], known[1] if value is None else value)


def state_after(table: Table, existing: Existing, messages: list[CommitMessage]) -> dict[int, tuple[Any, Any]]:
    """Return partition and value of each key after the writes; existing rows have the value -1."""
    places = {(p, bucket): {k for k, at in existing.items() if at == (p, bucket)} for p, bucket in existing.values()}
    state = {k: (p, -1) for k, (p, _) in existing.items()}
    changes = content(table, messages)
    for (partition, bucket), rows in changes.items():
        for key, _, kind in rows:
            if kind == DELETE and key in places.get((partition, bucket), ()):
                del state[key]
    for (partition, bucket), rows in changes.items():
        for key, value, kind in rows:
            if kind != DELETE:
                merged = key in places.get((partition, bucket), ()) and value is None
                assert key not in state or key in places.get((partition, bucket), ()), "a key is in two places"
                state[key] = (partition, -1 if merged else value)
    return state


@pytest.mark.parametrize("engine", ["deduplicate", "first-row", "partial-update"])
@pytest.mark.parametrize("seed", range(12))
def test_random_rows_end_where_the_model_says(engine: str, seed: int) -> None:
    draw = Random(seed)
    existing: Existing = {
        k: (draw.choice(["a", "b", None]), draw.randrange(3)) for k in range(20) if draw.random() < 0.6
    }
    kinds = [INSERT, INSERT, DELETE] if engine == "deduplicate" else [INSERT]
    rows = [
        ((draw.randrange(24), draw.choice([None, *range(100)]), draw.choice(["a", "b", "c", None])), draw.choice(kinds))
        for _ in range(60)
    ]
    table, model = crossing(engine), Model(engine, existing)
    for row, kind in rows:
        model.apply(row, kind)
    found: dict[int, dict[int, tuple[Any, Any]]] = {}
    for size in (1, 4, 1000):
        found[size] = state_after(table, existing, written(table, existing, rows, size=size))
        assert found[size] == model.rows


def test_nothing_but_existing_keys_writes_nothing() -> None:
    table = crossing()
    assert written(table, dict.fromkeys(range(10), ("a", 0)), []) == []


def test_versions_of_one_key_in_many_batches_leave_one() -> None:
    table = crossing()
    existing: Existing = {1: ("b", 3)}
    rows = [((1, v, "ab"[v % 2]), INSERT) for v in range(5000)]
    assert state_after(table, existing, written(table, existing, rows, size=512))[1] == ("b", 4999)
