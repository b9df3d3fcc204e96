"""The local file system."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from paimon_spark.errors import ErrorKind, StoreError, UnsupportedError
from paimon_spark.fs.base import FileIO
from paimon_spark.fs.local import LocalFileIO, local_path
from paimon_spark.testing.conformance import FileIOTests


class TestLocal(FileIOTests):
    def make(self, tmp_path: Path) -> tuple[FileIO, str]:
        return LocalFileIO(), str(tmp_path)


class TestLocalUri(FileIOTests):
    def make(self, tmp_path: Path) -> tuple[FileIO, str]:
        return LocalFileIO(), f"file:{tmp_path}"


def test_spellings_of_a_location() -> None:
    assert local_path("file:/a/b") == "/a/b"
    assert local_path("file:///a/b") == "/a/b"
    assert local_path("/a/dt=1%3A2") == "/a/dt=1%3A2"


def _failing_link(number: int) -> object:
    def link(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return link


def test_without_hard_links_the_kernel_renames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.link", _failing_link(errno.EPERM))
    io = LocalFileIO()
    assert io.create_exclusive(f"{tmp_path}/f", b"1")
    assert not io.create_exclusive(f"{tmp_path}/f", b"2")
    assert io.read(f"{tmp_path}/f") == b"1"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_a_store_without_any_atomic_create_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.link", _failing_link(errno.EPERM))
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())  # a C library without renameat2
    with pytest.raises(UnsupportedError) as e:
        LocalFileIO().create_exclusive(f"{tmp_path}/f", b"1")
    assert e.value.kind is ErrorKind.UNSUPPORTED_STORE
    assert list(tmp_path.iterdir()) == []


def test_an_error_after_the_link_was_made_counts_as_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.link

    def link(source: Path, target: Path) -> None:
        real(source, target)
        raise OSError(errno.EEXIST, "answer lost, sent again")

    monkeypatch.setattr("os.link", link)
    assert LocalFileIO().create_exclusive(f"{tmp_path}/f", b"1")
    assert LocalFileIO().read(f"{tmp_path}/f") == b"1"


REFUSALS = [
    (errno.ENOSPC, ErrorKind.STORE_FULL),
    (errno.EDQUOT, ErrorKind.STORE_FULL),
    (errno.EFBIG, ErrorKind.STORE_FULL),
    (errno.EROFS, ErrorKind.ENVIRONMENT),
    (errno.EACCES, ErrorKind.ENVIRONMENT),
]


def _fail(monkeypatch: pytest.MonkeyPatch, call: str, number: int) -> None:
    """Let a call of the operating system fail from now on."""

    def failing(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    if call == "write":
        monkeypatch.setattr("os.fsync", lambda _: failing())  # a write that the kernel deferred
    elif call == "open":
        monkeypatch.setattr("pathlib.Path.open", failing)
    else:
        monkeypatch.setattr(f"os.{call}", failing)


@pytest.mark.parametrize("call", ["open", "write", "link"])
@pytest.mark.parametrize(("number", "kind"), REFUSALS)
def test_a_refusal_before_the_link_says_that_nothing_was_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, kind: ErrorKind
) -> None:
    _fail(monkeypatch, call, number)
    with pytest.raises(StoreError, match=os.strerror(number)) as e:
        LocalFileIO().create_exclusive(f"{tmp_path}/f", b"1")
    assert (e.value.kind, e.value.refused) == (kind, True)
    assert f"{tmp_path}/f" in str(e.value)
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


def test_a_failed_sync_of_the_directory_does_not_deny_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fsync

    def fsync(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    monkeypatch.setattr("os.fsync", fsync)
    with pytest.raises(OSError, match="space") as e:
        LocalFileIO().create_exclusive(f"{tmp_path}/f", b"1")
    assert not isinstance(e.value, StoreError)
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_a_temporary_file_that_stays_does_not_deny_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("pathlib.Path.unlink", refused)
    assert LocalFileIO().create_exclusive(f"{tmp_path}/f", b"1")


def test_an_unclear_failure_of_the_link_is_no_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.link", _failing_link(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)) as e:
        LocalFileIO().create_exclusive(f"{tmp_path}/f", b"1")
    assert not isinstance(e.value, StoreError)
    assert e.value.__cause__ is None
    assert list(tmp_path.iterdir()) == []


def test_recursive_listing_and_deletion_follow_no_links(tmp_path: Path) -> None:
    outside, table = tmp_path / "outside", tmp_path / "t"
    for directory in (outside, table):
        directory.mkdir()
        (directory / "f").write_text("x")
    (table / "link").symlink_to(outside)
    (table / "loop").symlink_to(table)
    (tmp_path / "alias").symlink_to(outside)
    io = LocalFileIO()
    assert [s.path for s in io.list_recursive(str(table))] == [str(table / "f")]
    assert io.read(str(table / "link" / "f")) == b"x"
    io.delete_dir(str(table))
    io.delete_dir(f"{tmp_path / 'alias'}/")
    assert [p.name for p in tmp_path.iterdir()] == ["outside"]
    assert (outside / "f").read_text() == "x"


def test_names_too_long_for_the_file_system_are_not_there(tmp_path: Path) -> None:
    io, path = LocalFileIO(), f"{tmp_path}/{'x' * 300}"
    assert not io.exists(path)
    assert io.list(path) == []
    assert io.create_exclusive(f"{tmp_path}/{'é' * 127}", b"1")
    assert io.read(f"{tmp_path}/{'é' * 127}") == b"1"


def _synchronised(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        found.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        real(handle)

    monkeypatch.setattr("os.fsync", fsync)
    return found


def test_files_share_the_sync_of_their_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    io, found = LocalFileIO(), _synchronised(monkeypatch)
    for name in ("a", "b", "c"):
        io.write(f"{tmp_path}/{name}", b"1")
    assert found == []
    io.sync([f"{tmp_path}/{name}" for name in ("a", "b", "c")])
    assert sorted(found[:3]) == ["a", "b", "c"]
    assert found[3:] == [tmp_path.name]


def test_a_directory_that_vanishes_while_it_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, vanished = os.mkdir, []

    def make(path: str | Path, *args: int, **kwargs: int) -> None:
        made(path, *args, **kwargs)
        if str(path).endswith("p=1") and not vanished:
            vanished.append(path)
            Path(path).rmdir()

    monkeypatch.setattr(os, "mkdir", make)
    with LocalFileIO().open_output(f"{tmp_path}/p=1/bucket-0/file") as out:
        out.write(b"1")
    assert vanished
    assert (tmp_path / "p=1/bucket-0/file").read_bytes() == b"1"
