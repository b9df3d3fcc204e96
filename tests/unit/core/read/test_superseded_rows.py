"""Superseded rows, which a reader without merging has to leave out, over random histories of all kinds of tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap

from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.levels import SortedRun
from paimon_spark.core.metadata.deletion_vectors import VectorRef, VectorWriter
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.read.superseded_rows import bytes_of_keys, few_vectors, superseded_in, superseded_rows
from paimon_spark.core.scan.splits import Split
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import TableWriter
from paimon_spark.engine.insert import complete_write, plan_write, write_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import plan_select
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.spec.kinds import RowKind
from paimon_spark.spec.types import DataField
from paimon_spark.testing.history import History, random_step
from paimon_spark.testing.scenarios import PLAIN_KINDS
from paimon_spark.testing.tables import new_table
from tests.variants import every


def stored_rows(table: Table, split: Split) -> dict[str, list[dict]]:
    """All rows of the files of a split, whatever became of them, in the order in which they are stored."""
    files = BucketFiles(table, split.partition, split.bucket)
    return {
        files.path(f): [r for rows in files.chunks(f, table.schema.fields) for r in rows.to_pylist()]
        for f in split.files
    }


def alive(table: Table, split: Split, merge_bytes: int | None = None) -> list[dict]:
    if merge_bytes is None:
        found = dict(superseded_rows(table, split))
    else:
        files = BucketFiles(table, split.partition, split.bucket)
        found = dict(superseded_in(files, split, merge_bytes=merge_bytes))
    stored = stored_rows(table, split)
    assert set(found) <= set(stored)
    assert all(found.values()), "a file without superseded rows is not named"
    return [row for path, rows in stored.items() for i, row in enumerate(rows) if i not in found.get(path, ())]


def check(table: Table, merge_bytes: int | None = None) -> int:
    """Compare both ways of reading; return how many superseded rows there were."""
    dead = 0
    for split in plan_select(table).splits:
        want = [r for batch in read_split(table, split) for r in batch.to_pylist()]
        got = alive(table, split, merge_bytes)
        assert sorted(map(repr, got)) == sorted(map(repr, want))
        dead += sum(map(len, stored_rows(table, split).values())) - len(want)
    return dead


@pytest.mark.parametrize("kind", PLAIN_KINDS)
@pytest.mark.parametrize("seed", every(6, range(6)))
def test_random_histories(kind: str, seed: int) -> None:
    random = Random(seed)
    history = History(kind)
    for _ in range(12):
        random_step(history, random)
        check(history.table.load())


@pytest.mark.parametrize(
    "options",
    [
        {"sequence.field": "v"},
        {"sequence.field": "v", "sequence.field.sort-order": "descending"},
        {"ignore-delete": "true"},
        {"file.format": "avro"},
    ],
)
def test_rules_of_merging(options: dict[str, str]) -> None:
    random = Random(1)
    table = new_table(
        {"k": "STRING", "v": "INT"},
        primary_key=["k"],
        options={"bucket": "1", "write-only": "true", **options},
    )
    for n in range(6):
        keys = sorted({f"key {random.randrange(300):05}" for _ in range(200)})
        rows = pa.table({"k": keys, "v": pa.array([random.choice([None, *range(8)]) for _ in keys], pa.int32())})
        write_arrow(table, rows) if n % 3 else delete(table, rows)
    assert check(table, merge_bytes=1) > 200


def delete(table: Table, rows: pa.Table) -> None:
    kinds = pa.array([int(RowKind.DELETE)] * rows.num_rows, pa.int8())
    write_arrow(table, rows.append_column(ROW_KIND, kinds))


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize(("options", "left"), [({}, [1, 9]), ({"ignore-delete": "true"}, [1, 2, 9])])
def test_stored_deletes_count_as_the_table_says_now(options: dict[str, str], left: list[int], counted: bool) -> None:
    table = new_table({"k": "INT"}, primary_key=["k"], options={"bucket": "1", "write-only": "true"})
    write_arrow(table, pa.table({"k": pa.array([1, 2, 9], pa.int32())}))
    delete(table, pa.table({"k": pa.array([2], pa.int32())}))
    schema = replace(table.schema, options={**table.schema.options, **options})
    table = Table.of(table.identifier, table.path, schema, table.file_io)
    (split,) = plan_select(table).splits
    if not counted:
        split = replace(split, files=tuple(replace(f, delete_row_count=None) for f in split.files))
    assert [r["k"] for r in alive(table, split)] == left
    assert [k for batch in read_split(table, split) for k in batch.column(0).to_pylist()] == left


@pytest.mark.parametrize(
    ("options", "deletes", "read"),
    [
        ({}, False, {"k"}),
        ({}, True, {"k", "_VALUE_KIND"}),
        ({"sequence.field": "v"}, False, {"k", "_VALUE_KIND", "_SEQUENCE_NUMBER", "v"}),
    ],
)
def test_no_more_columns_are_read_than_decide(options: dict[str, str], deletes: bool, read: set[str]) -> None:
    asked: set[str] = set()

    class Told(BucketFiles):
        def run(self, run: SortedRun, fields: Sequence[DataField], *others: Any) -> Iterator[pa.Table]:
            asked.update(f.name for f in fields)
            yield from super().run(run, fields, *others)

    table = new_table(
        {"k": "INT", "v": "STRING"}, primary_key=["k"], options={"bucket": "1", "write-only": "true", **options}
    )
    write_arrow(table, numbered(range(9), "old"))
    delete(table, numbered([3], "old")) if deletes else write_arrow(table, numbered([3], "new"))
    (split,) = plan_select(table).splits
    files = Told(table, split.partition, split.bucket)
    assert [len(dead) for _, dead in superseded_in(files, split)] == ([1, 1] if deletes else [1])
    assert asked == read


def test_versions_of_writers_that_did_not_see_each_other() -> None:
    """Both began with the same sequence number, so that neither file is newer than the other as a whole."""
    table = new_table({"k": "INT", "v": "STRING"}, primary_key=["k"], options={"bucket": "1", "write-only": "true"})
    write_arrow(table, numbered(range(4), "begin"))
    plans = [plan_write(table), plan_write(table)]
    for plan, keys, text in zip(plans, (range(20), [30, 31, 32, 0]), ("many", "few"), strict=True):
        with TableWriter(table, plan.info) as writer:
            writer.write(numbered(keys, text).to_batches()[0])
            complete_write(plan, writer.finish(), LocalRunner())
    (split,) = plan_select(table).splits
    assert {r["k"] for r in alive(table, split) if r["v"] == "few"} == {0, 30, 31, 32}
    assert check(table) == 5


def numbered(keys: Sequence[int], text: str) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int32()), "v": [text] * len(keys)})


def test_nothing_is_said_of_files_that_lost_nothing() -> None:
    table = new_table({"k": "INT"}, primary_key=["k"], options={"bucket": "1", "write-only": "true"})
    for keys in ([1, 2, 9], [5], [20, 21]):
        write_arrow(table, pa.table({"k": pa.array(keys, pa.int32())}))
    assert [list(superseded_rows(table, s)) for s in plan_select(table).splits] == [[]]


@pytest.mark.parametrize(
    ("columns", "sequence", "share"),
    [
        ({"k": "INT", "v": "INT", "w": "STRING", "x": "STRING"}, "", 1 / 4),
        ({"k": "INT", "v": "INT", "w": "STRING", "x": "STRING"}, "v", 1 / 2),
        ({"k": "STRING", **{f"v{i}": "INT" for i in range(100)}}, "", 32 / 432),
        ({"k": "STRING"}, "", 1),
    ],
)
def test_the_bytes_of_keys(columns: dict[str, str], sequence: str, share: float) -> None:
    options = {"bucket": "1", "write-only": "true"} | ({"sequence.field": sequence} if sequence else {})
    table = new_table(columns, primary_key=["k"], options=options)
    schema = to_arrow_schema(table.schema.fields)
    for _ in range(2):
        rows = [{name: "k" if t == "STRING" else 1 for name, t in columns.items()}]
        write_arrow(table, pa.Table.from_pylist(rows, schema))
    (split,) = plan_select(table).splits
    assert bytes_of_keys(table, split) == int(split.size * share)
    assert bytes_of_keys(table, replace(split, raw=True)) == 0


def marked(table: Table, split: Split, positions: BitMap) -> Split:
    """Return `split` with a deletion vector for each of its files, as Paimon writes them for tables with a key."""
    placed: list[str] = []

    def put(path: str, data: bytes) -> None:
        table.file_io.write(path, data)
        placed.append(path)

    writer = VectorWriter(table, split.partition, split.bucket, put)
    for file in split.files:
        writer.add(file.file_name, positions)
    (index,) = writer.close()
    ranges = index.deletion_ranges or ()
    return replace(split, vectors=tuple(VectorRef(placed[0], r.offset, r.length, r.cardinality) for r in ranges))


@pytest.mark.parametrize(
    ("files", "length", "few"),
    [(8, 1 << 19, True), (9, 1, False), (8, (1 << 19) + 1, False)],
    ids=["few", "files", "size"],
)
def test_few_vectors_take_no_job(files: int, length: int, *, few: bool) -> None:
    table = new_table({"k": "INT"})
    write_arrow(table, pa.table({"k": pa.array([1], pa.int32())}))
    (split,) = plan_select(table).splits
    splits = [replace(split, vectors=(VectorRef(f"index-{n}", 1, length),)) for n in range(files)]
    assert few_vectors(splits) is few
    assert few_vectors([split])


def test_rows_are_marked_in_overlapping_and_in_other_files() -> None:
    table = new_table({"k": "INT"}, primary_key=["k"], options={"bucket": "1", "write-only": "true"})
    for keys in ([1, 2, 9], [2, 5], [20, 21]):
        write_arrow(table, pa.table({"k": pa.array(keys, pa.int32())}))
    (split,) = plan_select(table).splits
    some = marked(table, split, BitMap([0]))
    assert not some.raw
    assert sorted(r["k"] for r in alive(table, some)) == [2, 5, 9, 21]
    assert sorted(k for batch in read_split(table, some) for k in batch.column(0).to_pylist()) == [2, 5, 9, 21]
