"""How often rows are written to the local disk while they wait: at most the logarithm of the number of runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.core.spill.space import Run, SpillRules, SpillSpace
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import TableWriter
from paimon_spark.engine.insert import complete_write, plan_write
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.spec.options import CoreOptions
from paimon_spark.testing.tables import new_table, read_arrow
from tests.small_tables import option_keys

MB = 1 << 20


class CountingSpace(SpillSpace):
    """Counts what happens on the local disk.

    Attributes:
        runs: runs of rows that came from memory.
        fresh: the rows of those.
        rows: rows that were written in all.
        most_open: the most runs that were read at once.
        most_used: the most bytes that runs took.
    """

    def __init__(self, rules: SpillRules, place: Path) -> None:
        super().__init__(rules, [str(place)])
        self.runs = self.fresh = self.rows = self.most_open = self.most_used = self._open = 0

    @property
    def times(self) -> float:
        """Return how often a row was written on average."""
        return self.rows / max(1, self.fresh)

    def write(self, tables: Iterable[pa.Table], joins: int = 0) -> Run | None:
        from_memory = isinstance(tables, list)

        def passing() -> Iterator[pa.Table]:
            for table in tables:
                self.rows += table.num_rows
                self.fresh += table.num_rows if from_memory else 0
                yield table

        run = super().write(passing(), joins)
        self.runs += from_memory
        self.most_used = max(self.most_used, self.used)
        return run

    def read(self, run: Run) -> Iterator[pa.Table]:
        self._open += 1
        self.most_open = max(self.most_open, self._open)
        try:
            yield from super().read(run)
        finally:
            self._open -= 1


def tiny_space(place: Path, fan_in: int, most_bytes: int = 1 << 40) -> CountingSpace:
    """Return a space with a buffer that is smaller than any option can make it."""
    return CountingSpace(SpillRules(2048, 512, fan_in, most_bytes, None, None), place)


def keyed(path: Path, **options: str) -> Table:
    return new_table(
        {"k": "INT", "v": "INT"},
        primary_key=("k",),
        options={"bucket": "1", "write-only": "true"} | option_keys(options),
        file_io=LocalFileIO(),
        path=str(path / "db.db" / "t"),
    )


def write(table: Table, batches: Iterable[tuple[np.ndarray, np.ndarray]], space: SpillSpace, place: Path) -> int:
    """Write keys and values; return how many files were made."""
    plan = plan_write(table)
    with TableWriter(table, plan.info, spill=space) as writer:
        for keys, values in batches:
            writer.write(pa.record_batch({"k": pa.array(keys, pa.int32()), "v": pa.array(values, pa.int32())}))
        messages = writer.finish()
    complete_write(plan, messages, LocalRunner())
    assert not list(place.glob("paimon-spill-*"))
    return sum(len(m.new_files) for m in messages)


def contents(table: Table) -> dict[int, int]:
    found = read_arrow(table)
    return dict(zip(found.column("k").to_pylist(), found.column("v").to_pylist(), strict=True))


@pytest.mark.parametrize(("fan_in", "rows"), [(2, 1_000), (2, 6_000), (3, 4_999), (8, 2_000), (8, 9_000), (32, 6_000)])
def test_rows_are_written_as_often_as_the_logarithm_says(fan_in: int, rows: int, tmp_path: Path) -> None:
    counted = tiny_space(tmp_path, fan_in)
    keys = np.random.default_rng(rows).permutation(rows)
    table = keyed(tmp_path)
    assert write(table, [(keys, keys + 1)], counted, tmp_path) == 1
    assert counted.fresh >= rows * 0.9
    assert counted.runs > fan_in
    assert counted.times <= 2 + math.log(counted.runs, fan_in)
    assert counted.most_open == fan_in
    assert contents(table) == {k: k + 1 for k in range(rows)}


def test_few_runs_are_written_once(tmp_path: Path) -> None:
    counted = tiny_space(tmp_path, 32)
    keys = np.arange(1000)
    write(keyed(tmp_path), [(keys, keys)], counted, tmp_path)
    assert 10 < counted.runs <= 32
    assert counted.times == 1


def test_of_a_few_runs_too_many_only_a_few_are_written_again(tmp_path: Path) -> None:
    counted = tiny_space(tmp_path, 32)
    keys = np.arange(2500)
    write(keyed(tmp_path), [(keys, keys)], counted, tmp_path)
    assert 34 < counted.runs <= 40
    assert 1 < counted.times < 1.4


def test_a_tiny_buffer_costs_no_more_than_a_small_one(tmp_path: Path) -> None:
    keys = np.random.default_rng(1).permutation(200_000)
    table = keyed(tmp_path, write_buffer_size="1 kb")
    rules = SpillRules.of(table.options, table.options.write_buffer_size)
    assert rules is not None
    counted = CountingSpace(rules, tmp_path)
    write(table, [(keys, keys)], counted, tmp_path)
    assert 1 < counted.runs < 16
    assert counted.times <= 2


def test_a_buffer_is_large_enough_to_read_runs() -> None:
    tiny, small, large = (SpillRules.of(CoreOptions({}), size) for size in (1, MB, 4 * MB))
    assert tiny == small
    assert tiny is not None
    assert large is not None
    assert (tiny.buffer, tiny.fan_in, large.buffer) == (MB, 8, 4 * MB)


DRAWN = st.lists(st.tuples(st.integers(1, 300), st.integers(1, 400), st.integers(0, 1 << 30)), min_size=1, max_size=25)


@settings(max_examples=25, deadline=None)
@given(batches=DRAWN, fan_in=st.sampled_from([2, 3, 5]), limit=st.sampled_from([1 << 40, 20_000, 4_000, 100]))
def test_the_newest_of_equal_keys_wins(
    batches: list[tuple[int, int, int]], fan_in: int, limit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    expected: dict[int, int] = {}
    drawn = []
    for number, (count, space, seed) in enumerate(batches):
        keys = np.random.default_rng(seed).integers(0, space, count)
        values = np.arange(count) + 1000 * number
        expected |= dict(zip(keys.tolist(), values.tolist(), strict=True))
        drawn.append((keys, values))
    place = tmp_path_factory.mktemp("spill")
    table = keyed(place)
    counted = tiny_space(place, fan_in, limit)
    write(table, drawn, counted, place)
    assert counted.most_open <= fan_in
    assert counted.most_used <= limit
    assert contents(table) == expected
