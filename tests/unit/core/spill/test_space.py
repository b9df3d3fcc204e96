"""Full write buffers on the local disk: what is written, what is left, and how much memory it takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.spill.space import SpillRules, SpillSpace
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import TableWriter, WriterRestoreState
from paimon_spark.engine.insert import complete_write, plan_write
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import EngineError, OptionError
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.spec.options import CoreOptions
from paimon_spark.testing.tables import new_table, read_arrow
from tests.small_tables import option_keys

MB = 1 << 20


def keyed(tmp_path: Path, **options: str) -> Table:
    given = {"bucket": "1", "write-only": "true"} | option_keys(options)
    return new_table(
        {"k": "INT", "v": "STRING"},
        primary_key=("k",),
        options=given,
        file_io=LocalFileIO(),
        path=str(tmp_path / "db.db" / "t"),
    )


def rows(keys: np.ndarray, text: str, width: int = 200) -> pa.RecordBatch:
    """Return rows of about `width` bytes each."""
    values = pc.binary_join_element_wise(text, pa.array(keys).cast(pa.string()), "-")
    return pa.record_batch({"k": pa.array(keys, pa.int32()), "v": pc.utf8_rpad(values, width)})


def write(table: Table, batches: Iterator[pa.RecordBatch], spill: Path) -> list[CommitMessage]:
    plan = plan_write(table)
    with TableWriter(table, plan.info, spill_dirs=[str(spill)]) as writer:
        for batch in batches:
            writer.write(batch)
        messages = writer.finish()
    complete_write(plan, messages, LocalRunner())
    return messages


def shuffled(times: int, count: int) -> Iterator[pa.RecordBatch]:
    """Yield the keys 0 … count in another order each time; the last text of a key is the one that counts."""
    random = np.random.default_rng(7)
    for i in range(times):
        yield rows(random.permutation(count).astype(np.int32), f"{i}")


def check(table: Table, times: int, count: int) -> None:
    found = read_arrow(table).sort_by("k")
    assert found.column("k").to_pylist() == list(range(count))
    assert pc.all(pc.starts_with(found.column("v"), f"{times - 1}-")).as_py()


@pytest.mark.parametrize("codec", ["zstd", "lz4", "none"])
@pytest.mark.parametrize("handles", ["128", "2"])
def test_what_is_spilled_comes_back_merged(tmp_path: Path, codec: str, handles: str) -> None:
    options = {"write-buffer-size": "1 mb", "spill-compression": codec, "local-sort.max-num-file-handles": handles}
    table = keyed(tmp_path, **options)
    (message,) = write(table, shuffled(10, 4000), tmp_path)
    assert len(message.new_files) == 1
    assert message.new_files[0].row_count == 4000
    check(table, 10, 4000)
    assert not list(tmp_path.glob("paimon-spill-*"))


def test_without_spilling_full_buffers_become_files(tmp_path: Path) -> None:
    table = keyed(tmp_path, **{"write-buffer-size": "1 mb", "write-buffer-spillable": "false"})
    (message,) = write(table, shuffled(10, 4000), tmp_path)
    assert len(message.new_files) > 3
    check(table, 10, 4000)


def test_where_the_disk_space_is_used_up_files_are_made(tmp_path: Path) -> None:
    limits = {"write-buffer-spill.max-disk-size": "1 mb", "spill-compression": "none"}
    table = keyed(tmp_path, **{"write-buffer-size": "1 mb"} | limits)
    (message,) = write(table, shuffled(10, 4000), tmp_path)
    assert 1 < len(message.new_files) < 10
    check(table, 10, 4000)


def test_nothing_is_left_of_a_failed_task(tmp_path: Path) -> None:
    table = keyed(tmp_path, **{"write-buffer-size": "1 mb"})
    spill = tmp_path / "local"
    spill.mkdir()

    def failing(writer: TableWriter) -> None:
        for batch in shuffled(4, 4000):
            writer.write(batch)
        assert list(spill.glob("paimon-spill-*/run-*"))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), TableWriter(table, WriterRestoreState(), spill_dirs=[str(spill)]) as writer:
        failing(writer)
    assert list(spill.iterdir()) == []
    assert not list((tmp_path / "db.db" / "t").glob("bucket-*/*"))


def test_a_full_disk_is_told_with_the_way_out(tmp_path: Path) -> None:
    rules = SpillRules.of(CoreOptions({}), 8 * MB)
    assert rules is not None
    space = SpillSpace(rules, [str(tmp_path)])
    run = space.write([pa.table({"k": [1]})])
    assert run is not None
    run.path.unlink()
    with pytest.raises(EngineError, match=r"spark\.local\.dir"):
        list(space.read(run))
    space.close()


def test_rules_follow_the_buffer() -> None:
    small, large = (SpillRules.of(CoreOptions({}), size * MB) for size in (4, 256))
    assert small is not None
    assert large is not None
    assert (small.chunk, small.fan_in) == (64 << 10, 32)
    assert (large.chunk, large.fan_in) == (MB, 128)
    for rules, size in ((small, 4), (large, 256)):
        assert rules.chunk * rules.fan_in <= size * MB // 2
    with pytest.raises(OptionError, match="zstd, lz4, none"):
        SpillRules.of(CoreOptions({"spill-compression": "lzo"}), MB)


def test_a_load_of_twenty_buffers_takes_no_more_memory_than_one(tmp_path: Path) -> None:
    """What waits and what is being sorted stay below two buffers, where all rows together are twenty."""
    buffer, batch = 4 * MB, 2000
    table = keyed(tmp_path, **{"write-buffer-size": "4 mb"})
    before, most, taken = pa.total_allocated_bytes(), 0, 0
    with TableWriter(table, plan_write(table).info, spill_dirs=[str(tmp_path)]) as writer:
        random = np.random.default_rng(3)
        while taken < 20 * buffer:
            one = rows(random.integers(0, 1 << 30, batch).astype(np.int32), "x")
            taken += one.nbytes
            writer.write(one)
            most = max(most, pa.total_allocated_bytes() - before)
        messages = writer.finish()
    assert taken >= 20 * buffer
    assert most < 2 * buffer
    (file,) = messages[0].new_files
    assert file.row_count == len(np.unique(_keys(taken // one.nbytes, batch)))


def _keys(batches: int, batch: int) -> np.ndarray:
    random = np.random.default_rng(3)
    return np.concatenate([random.integers(0, 1 << 30, batch) for _ in range(batches)])
