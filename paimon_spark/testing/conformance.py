"""Conformance suites for implementations of an interface, as test classes to subclass.

Usage::

    class TestMyStore(FileIOTests):
        def make(self, tmp_path):
            return MyFileIO(), str(tmp_path)
"""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from paimon_spark.fs.base import FileIO
from paimon_spark.fs.resolve import file_io_from_config


class FileIOTests:
    """The contract of `fs.base.FileIO`."""

    def make(self, tmp_path: Path) -> tuple[FileIO, str]:
        """Return a FileIO and an empty, existing directory in it."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, tmp_path: Path) -> tuple[FileIO, str]:
        """Return the result of `make`."""
        return self.make(tmp_path)

    def test_reads_back_what_was_written(self, store: tuple[FileIO, str]) -> None:
        io, root = store
        io.write(f"{root}/a/b/f", b"0123456789")
        assert io.read(f"{root}/a/b/f") == b"0123456789"
        assert io.read_range(f"{root}/a/b/f", 3, 4) == b"3456"
        assert io.read_range(f"{root}/a/b/f", 8, 10) == b"89"
        with io.open_input(f"{root}/a/b/f") as f:
            assert f.size() == 10
            f.seek(5)
            assert f.read(2) == b"56"

    def test_write_replaces_or_refuses(self, store: tuple[FileIO, str]) -> None:
        io, root = store
        io.write(f"{root}/f", b"1")
        io.write(f"{root}/f", b"22")
        assert io.read(f"{root}/f") == b"22"
        with pytest.raises(FileExistsError):
            io.write(f"{root}/f", b"3", overwrite=False)
        assert io.read(f"{root}/f") == b"22"
        assert [s.name for s in io.list(root)] == ["f"]

    def test_output_stream_appears_when_closed(self, store: tuple[FileIO, str]) -> None:
        io, root = store
        with io.open_output(f"{root}/deep/er/f") as out:
            out.write(b"abc")
            assert out.tell() == 3
            out.write(b"def")
        assert io.read(f"{root}/deep/er/f") == b"abcdef"

    def test_missing_files_raise_the_builtin_error(self, store: tuple[FileIO, str]) -> None:
        io, root = store
        with pytest.raises(FileNotFoundError):
            io.read(f"{root}/none")
        with pytest.raises(FileNotFoundError):
            io.read_range(f"{root}/none", 0, 1)
        with pytest.raises(FileNotFoundError):
            io.open_input(f"{root}/none")
        with pytest.raises(FileNotFoundError):
            io.status(f"{root}/none")
        with pytest.raises(FileNotFoundError):
            io.rename(f"{root}/none", f"{root}/other")
        assert not io.exists(f"{root}/none")
        assert not io.delete(f"{root}/none")
        assert io.list(f"{root}/none") == []
        assert list(io.list_recursive(f"{root}/none")) == []
        io.delete_dir(f"{root}/none")

    def test_create_exclusive_has_one_winner(self, store: tuple[FileIO, str]) -> None:
        io, root = store
        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(lambda i: io.create_exclusive(f"{root}/d/snapshot-1", b"%d" % i), range(16)))
        assert won.count(True) == 1
        assert io.read(f"{root}/d/snapshot-1") == b"%d" % won.index(True)
        assert [s.name for s in io.list(f"{root}/d")] == ["snapshot-1"]

    def test_status_and_listing(self, store: tuple[FileIO, str]) -> None:
        io, root = store
        io.write(f"{root}/t/b", b"12")
        io.write(f"{root}/t/a/x=1%2F/f", b"345")
        io.mkdirs(f"{root}/t/empty")
        status = io.status(f"{root}/t/b")
        assert (status.path, status.size, status.is_dir, status.name) == (f"{root}/t/b", 2, False, "b")
        assert status.mtime_ms > 1_600_000_000_000
        assert io.status(f"{root}/t/a").is_dir
        assert [(s.name, s.is_dir) for s in io.list(f"{root}/t/")] == [("a", True), ("b", False), ("empty", True)]
        files = [(s.path, s.size) for s in io.list_recursive(f"{root}/t")]
        assert files == [(f"{root}/t/a/x=1%2F/f", 3), (f"{root}/t/b", 2)]
        assert io.exists(f"{root}/t/empty")

    def test_delete(self, store: tuple[FileIO, str]) -> None:
        io, root = store
        io.write(f"{root}/t/d/f", b"1")
        io.write(f"{root}/t/d/g", b"1")
        io.write(f"{root}/tail", b"1")
        assert io.delete(f"{root}/t/d/f")
        assert not io.exists(f"{root}/t/d/f")
        with pytest.raises(OSError, match="irectory"):
            io.delete(f"{root}/t/d")
        io.write(f"{root}/t/d/f", b"1")
        io.delete_dir(f"{root}/t")
        assert not io.exists(f"{root}/t")
        assert io.exists(f"{root}/tail")

    def test_only_an_empty_directory_is_deleted(self, store: tuple[FileIO, str]) -> None:
        io, root = store
        io.write(f"{root}/t/d/f", b"1")
        assert not io.delete_empty_dir(f"{root}/t/d")
        assert not io.delete_empty_dir(f"{root}/t")
        assert not io.delete_empty_dir(f"{root}/none")
        assert io.read(f"{root}/t/d/f") == b"1"
        io.delete(f"{root}/t/d/f")
        io.delete_empty_dir(f"{root}/t/d")
        assert io.list(f"{root}/t/d") == []

    def test_rename_never_replaces(self, store: tuple[FileIO, str]) -> None:
        io, root = store
        io.write(f"{root}/t1/f", b"1")
        io.write(f"{root}/t2/f", b"2")
        assert not io.rename(f"{root}/t1", f"{root}/t2")
        assert not io.rename(f"{root}/t1/f", f"{root}/t2/f")
        assert io.read(f"{root}/t2/f") == b"2"
        assert io.rename(f"{root}/t1", f"{root}/db/t3")
        assert io.read(f"{root}/db/t3/f") == b"1"
        assert not io.exists(f"{root}/t1")

    def test_mkdirs_twice(self, store: tuple[FileIO, str]) -> None:
        io, root = store
        io.mkdirs(f"{root}/x/y")
        io.mkdirs(f"{root}/x/y")
        assert io.exists(f"{root}/x")

    def test_travels_to_workers(self, store: tuple[FileIO, str]) -> None:
        io, root = store
        io.write(f"{root}/f", b"1")
        assert pickle.loads(pickle.dumps(io)).read(f"{root}/f") == b"1"
        assert file_io_from_config(io.to_config()).read(f"{root}/f") == b"1"
