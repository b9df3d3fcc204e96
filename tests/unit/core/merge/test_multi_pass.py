"""Merging more runs than may be open at once: the same rows as in one pass, and nothing left on the local disk."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.core.levels import SortedRun, sorted_runs
from paimon_spark.core.merge.config import merge_order
from paimon_spark.core.merge.multi_pass import MERGE_BYTES, RunSource, merge_sources, runs_at_once
from paimon_spark.core.merge.sort_merge import merge_runs
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.scan.splits import plan_splits
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import write_arrow
from paimon_spark.errors import StoreError
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.testing.tables import new_table
from tests.small_tables import option_keys

ROWS = 200


def keyed(path: Path, **options: str) -> Table:
    return new_table(
        {"k": "BIGINT", "v": "INT"},
        primary_key=("k",),
        options={"bucket": "1", "write-only": "true"} | option_keys(options),
        file_io=LocalFileIO(),
        path=str(path / "db.db" / "t"),
    )


def drawn_runs(count: int) -> list[pa.Table]:
    """Return sorted runs of one key space in which several have the same sequence number for a key."""
    random = np.random.default_rng(count)
    out = []
    for number in range(count):
        keys = np.unique(random.integers(0, ROWS * 2, random.integers(1, ROWS)))
        out.append(
            pa.table(
                {
                    "k": keys,
                    "_SEQUENCE_NUMBER": random.integers(0, 3, len(keys)),
                    "_VALUE_KIND": random.choice(np.array([0, 0, 0, 3], np.int8), len(keys)),
                    "v": np.full(len(keys), number, np.int32),
                }
            )
        )
    return out


def in_chunks(run: pa.Table, counts: list[int], chunk_bytes: int) -> Iterator[pa.Table]:
    """Yield a run in chunks, keeping count of how many runs are being read."""
    assert chunk_bytes > 0
    counts[0] += 1
    counts[1] = max(counts)
    try:
        for start in range(0, run.num_rows, 50):
            yield run.slice(start, 50)
    finally:
        counts[0] -= 1


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "local"
    place.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(place))
    return place


@pytest.mark.parametrize("at_once", [2, 3, 7, 30])
def test_passes_give_the_rows_of_one_pass(at_once: int, tmp_path: Path, local: Path) -> None:
    table = keyed(tmp_path)
    order = merge_order(table)
    runs, counts = drawn_runs(30), [0, 0]
    expected = pa.concat_tables(merge_runs([iter([r]) for r in runs], order)).combine_chunks()
    sources = [RunSource(r.nbytes, partial(in_chunks, r, counts)) for r in runs]
    found = pa.concat_tables(merge_sources(table, sources, order, at_once)).combine_chunks()
    assert found.equals(expected)
    assert counts == [0, at_once]
    assert list(local.iterdir()) == []


def test_runs_may_have_no_rows_left(tmp_path: Path, local: Path) -> None:
    table = keyed(tmp_path)
    runs = drawn_runs(5)
    filtered = [RunSource(1, lambda _: iter(())) for _ in range(4)]
    sources = [*filtered, *(RunSource(r.nbytes, partial(in_chunks, r, [0, 0])) for r in runs), *filtered]
    expected = pa.concat_tables(merge_runs([iter([r]) for r in runs], merge_order(table)))
    assert pa.concat_tables(merge_sources(table, sources, merge_order(table), 2)).equals(expected)
    assert list(merge_sources(table, filtered, merge_order(table), 2)) == []


def test_a_store_that_fails_is_not_called_the_local_disk(tmp_path: Path, local: Path) -> None:
    def failing(_: int) -> Iterator[pa.Table]:
        raise StoreError("The store did not answer.")
        yield pa.table({})

    table = keyed(tmp_path)
    sources = [RunSource(r.nbytes, partial(in_chunks, r, [0, 0])) for r in drawn_runs(3)]
    with pytest.raises(StoreError, match="did not answer"):
        list(merge_sources(table, [RunSource(0, failing), *sources], merge_order(table), 2))
    assert list(local.iterdir()) == []


def test_a_merge_that_is_given_up_leaves_nothing_on_the_disk(tmp_path: Path, local: Path) -> None:
    table = keyed(tmp_path)
    sources = [RunSource(r.nbytes, partial(in_chunks, r, [0, 0])) for r in drawn_runs(9)]
    merged = merge_sources(table, sources, merge_order(table), 2)
    next(merged)
    assert list(local.iterdir())
    del merged
    assert list(local.iterdir()) == []


@pytest.mark.parametrize("option", [{"write_buffer_spillable": "false"}, {"write_buffer_spill.max_disk_size": "1 kb"}])
def test_runs_are_all_open_where_the_disk_may_not_be_used(option: dict[str, str], tmp_path: Path, local: Path) -> None:
    table = keyed(tmp_path, **option)
    runs, counts = drawn_runs(9), [0, 0]
    sources = [RunSource(r.nbytes, partial(in_chunks, r, counts)) for r in runs]
    found = pa.concat_tables(merge_sources(table, sources, merge_order(table), 2))
    expected = pa.concat_tables(merge_runs([iter([r]) for r in runs], merge_order(table)))
    assert found.equals(expected)
    assert counts == [0, 9]
    assert list(local.iterdir()) == []


def test_few_or_small_runs_are_open_at_once(tmp_path: Path) -> None:
    table = keyed(tmp_path)
    for _ in range(3):
        write_arrow(table, pa.table({"k": np.arange(10), "v": np.arange(10, dtype=np.int32)}))
    (split,) = plan_splits(table, scan(table, table.snapshots.latest()))
    runs: list[SortedRun] = sorted_runs(split.files) * 20
    assert runs_at_once(table, runs, 5) == 60


def test_a_larger_run_is_read_in_larger_chunks(tmp_path: Path) -> None:
    table, asked = keyed(tmp_path), []
    sizes = (80 << 20, 10 << 20, 10 << 20, 0)

    def empty(chunk_bytes: int) -> Iterator[pa.Table]:
        asked.append(chunk_bytes)
        return iter(())

    list(merge_sources(table, [RunSource(s, empty) for s in sizes], merge_order(table), len(sizes)))
    assert sum(asked) <= MERGE_BYTES
    assert asked[0] > 2 * asked[1] == 2 * asked[2] > 2 * asked[3] > MERGE_BYTES // 5
