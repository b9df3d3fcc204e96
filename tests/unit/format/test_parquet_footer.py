"""Footers that a process keeps: of the same file only, within a limit, and usable after the file is closed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from paimon_spark.format.parquet_footer import FOOTERS, Footer, FooterCache


def write(path: Path, rows: int) -> str:
    pq.write_table(pa.table({"k": range(rows), "f": [1.5] * rows}), path, row_group_size=10)
    return str(path)


def memory_of(path: str) -> int:
    with pa.OSFile(path) as source:
        return Footer.read(source).memory


def test_a_process_keeps_none_by_default(tmp_path: Path) -> None:
    path = write(tmp_path / "a", 40)
    with pa.OSFile(path) as source:
        assert FOOTERS.read(source, path) is not FOOTERS.read(source, path)


def test_a_footer_outlives_its_file(tmp_path: Path) -> None:
    path, cache = write(tmp_path / "a", 40), FooterCache(1 << 20)
    with pa.OSFile(path) as source:
        first = cache.read(source, path)
        assert first.row_groups(source, pc.field("k") == 25) == [2]
    with pa.OSFile(path) as again:
        assert cache.read(again, path) is first
        assert first.row_groups(again, pc.field("k") > 15) == [1, 2, 3]
    assert first.row_groups(source, pc.field("k") < 5) == [0]
    assert first.row_groups(source, pc.field("f") == 9.0) == [0, 1, 2, 3]
    assert first.metadata.num_rows == 40
    assert first.schema.names == ["k", "f"]


def test_a_file_of_another_size_is_read(tmp_path: Path) -> None:
    path, cache = write(tmp_path / "a", 40), FooterCache(1 << 20)
    with pa.OSFile(path) as source:
        cache.read(source, path)
    write(tmp_path / "a", 70)
    with pa.OSFile(path) as source:
        found = cache.read(source, path)
        assert found.metadata.num_rows == 70
        assert cache.read(source, path) is found


def test_footers_are_read_from_the_files_again(tmp_path: Path) -> None:
    path, cache = write(tmp_path / "a", 40), FooterCache(1 << 20)
    with pa.OSFile(path) as source:
        first = cache.read(source, path)
        cache.clear()
        again = cache.read(source, path)
        assert again is not first
        cache.keep(0)
        assert cache.read(source, path) is not again


def test_statistics_share_the_metadata_of_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a", 40)
    with pa.OSFile(path) as source:
        footer = Footer.read(source)
        before = footer.metadata
        assert footer.row_groups(source, pc.field("k") == 25) == [2]
    assert footer.metadata is not before
    assert footer.metadata.equals(before)


@pytest.mark.parametrize("files", [1, 3])
def test_the_limit_counts_memory(tmp_path: Path, files: int) -> None:
    paths = [write(tmp_path / str(n), 40) for n in range(4)]
    cache = FooterCache(files * memory_of(paths[0]))
    read = {}
    for path in paths:
        with pa.OSFile(path) as source:
            read[path] = cache.read(source, path)
    for path in reversed(paths[-files:]):
        with pa.OSFile(path) as source:
            assert cache.read(source, path) is read[path]
    with pa.OSFile(paths[0]) as source:
        assert cache.read(source, paths[0]) is not read[paths[0]]
