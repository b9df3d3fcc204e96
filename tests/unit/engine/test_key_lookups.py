"""Lookups of keys and ranges of keys: which row groups are decoded, and that their rows are those of a whole read."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from paimon_spark.core.columns import ROW_INDEX
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.read.read_cost import bytes_to_read
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.local_read import small_bytes
from paimon_spark.engine.select import plan_select
from paimon_spark.spec.predicate import TRUE, And, Comparison, InList, Predicate
from paimon_spark.testing.tables import new_table, read_arrow

COLUMNS = {"id": "BIGINT NOT NULL", "d": "DOUBLE", "text": "STRING"}
OPTIONS = {"bucket": "1", "write-only": "true", "parquet.block.size": "100 kb", "orc.stripe.size": "1 b"}
GROUP = 2_000


def keyed(*starts: int, step: int = 2, rows: int = 20_000, file_format: str = "parquet") -> Table:
    """A table with a file of every second key from each start on."""
    table = new_table(COLUMNS, primary_key=["id"], options={**OPTIONS, "file.format": file_format})
    for version, start in enumerate(starts):
        ids = range(start, start + step * rows, step)
        texts = [f"{version} of {i} {'x' * 20}" for i in ids]
        data = {"id": ids, "d": [i / 7 + version for i in ids], "text": texts}
        write_arrow(table, pa.table(data).cast(pa.schema([("id", "int64"), ("d", "float64"), ("text", "string")])))
    return table


def decoded(table: Table, condition: Predicate) -> list[int]:
    """The rows that are decoded of each file."""
    (split,) = plan_select(table).splits
    reader = BucketFiles(table, split.partition, split.bucket)
    return [sum(c.num_rows for c in reader.chunks(f, table.schema.fields, condition)) for f in split.files]


def test_a_lookup_decodes_the_row_groups_with_the_key() -> None:
    table = keyed(0, 1, 4)
    found = sorted(decoded(table, Comparison("=", "id", 20_001)))
    assert found[:2] == [0, 0]
    assert 0 < found[2] <= GROUP
    assert decoded(table, Comparison("=", "id", -3)) == [0, 0, 0]


def test_floating_point_filters_leave_key_filters_their_use() -> None:
    table = keyed(0)
    for condition in (
        And((Comparison(">=", "id", 100), Comparison("<", "id", 300))),
        And((Comparison("=", "id", 100), Comparison(">", "d", 1.0))),
    ):
        (rows,) = decoded(table, condition)
        assert 0 < rows <= GROUP
    assert decoded(table, Comparison(">", "d", 1e9)) == [20_000]


def test_a_small_part_of_large_files_is_small() -> None:
    table = keyed(0)
    (split,) = plan_select(table).splits
    condition = Comparison("=", "id", 100)
    part = bytes_to_read(table, split, list(COLUMNS), condition)
    assert part < split.size // 5
    for limit, small in ((part, part), (part // 2 + 1, part), (part // 2 - 1, None)):
        bounded = table.with_options({"read.local-max-bytes": f"{limit} b"})
        assert small_bytes([plan_select(bounded, predicate=condition)]) == small
        assert small_bytes([plan_select(bounded, predicate=Comparison(">", "id", 100))]) is None


def test_stripes_without_the_key_are_neither_counted_nor_decoded() -> None:
    table = keyed(0, 1, rows=60_000, file_format="orc")
    (split,) = plan_select(table).splits
    condition = Comparison("=", "id", 20_001)
    assert 0 < bytes_to_read(table, split, list(COLUMNS), condition) < split.size // 2
    assert decoded(table, condition)[0] == 0
    assert 0 < decoded(table, condition)[1] < 30_000
    assert read_arrow(table, predicate=condition).column("text").to_pylist() == [f"1 of 20001 {'x' * 20}"]


def test_many_rows_without_a_filter_are_not_small() -> None:
    table = keyed(0, step=1, rows=200_001).with_options({"read.local-max-bytes": "1 gb"})
    assert small_bytes([plan_select(table)]) is None
    limited, filtered = plan_select(table, limit=10), plan_select(table, predicate=Comparison(">", "id", 10))
    assert small_bytes([limited]) == sum(s.size for s in limited.splits)
    assert small_bytes([filtered]) == sum(s.size for s in filtered.splits)


@pytest.mark.parametrize("seed", range(3))
def test_rows_are_those_of_a_whole_read(seed: int) -> None:
    rng = Random(seed)
    table = keyed(*(rng.randrange(10) for _ in range(4)), step=rng.choice((1, 2, 3)), rows=6_000)
    whole = {row["id"]: row for row in read_arrow(table, predicate=TRUE).to_pylist()}
    for _ in range(20):
        ids = [rng.randrange(-5, 18_050) for _ in range(rng.randrange(1, 6))]
        low, high = min(ids), max(ids)
        span = And(
            (Comparison(">=", "id", low), Comparison("<=", "id", high), Comparison("<", "d", rng.random() * 3e3))
        )
        for condition, wanted in (
            (InList("id", tuple(ids)), [whole[i] for i in sorted(set(ids)) if i in whole]),
            (span, [r for i, r in sorted(whole.items()) if low <= i <= high and r["d"] < span.parts[2].value]),  # type: ignore[union-attr]
        ):
            found = read_arrow(table, predicate=condition).to_pylist()
            assert sorted(found, key=lambda r: int(r["id"])) == wanted


def test_rows_after_a_skipped_row_group_keep_their_places() -> None:
    table = keyed(0, step=1)
    (split,) = plan_select(table).splits
    (file,) = split.files
    reader = BucketFiles(table, split.partition, split.bucket)
    condition = InList("id", (0, 1, GROUP, 9_000, 9_001, 19_999))
    chunks = list(reader.chunks(file, table.schema.fields, condition, metadata_columns=[ROW_INDEX]))
    found = pa.concat_tables(chunks)
    assert len(chunks) == 3
    assert found.num_rows < file.row_count // 2
    assert found.column(ROW_INDEX).equals(found.column("id"))
