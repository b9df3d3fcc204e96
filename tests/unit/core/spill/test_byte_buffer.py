from __future__ import annotations

import errno
import os
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.core.spill.byte_buffer import SpillBuffer
from paimon_spark.errors import EngineError, ErrorKind


def on_disk() -> int:
    return sum("paimon-plan-" in _target(fd) or "(deleted)" in _target(fd) for fd in Path("/proc/self/fd").iterdir())


def _target(fd: Path) -> str:
    try:
        return str(fd.readlink())
    except FileNotFoundError:
        return ""


@given(st.lists(st.binary(max_size=40)), st.integers(0, 100), st.data())
def test_bytes_come_back_from_wherever_they_are(pieces: list[bytes], held: int, data: st.DataObject) -> None:
    store = SpillBuffer(held)
    begins = [store.append(piece) for piece in pieces]
    whole = b"".join(pieces)
    assert len(store) == len(whole)
    assert [store.read(b, len(p)) for b, p in zip(begins, pieces, strict=True)] == pieces
    begin = data.draw(st.integers(0, len(whole)))
    size = data.draw(st.integers(0, len(whole) - begin))
    assert store.read(begin, size) == whole[begin : begin + size]


def test_a_file_is_made_only_when_needed_and_goes_with_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    before = on_disk()
    store = SpillBuffer(100)
    store.append(bytes(100))
    assert on_disk() == before
    store.append(b"x")
    assert on_disk() == before + 1
    assert list(tmp_path.iterdir()) == []
    del store
    assert on_disk() == before


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    full = partial(open, "/dev/full", "wb", buffering=0)
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: full())
    with pytest.raises(EngineError, match=os.strerror(errno.ENOSPC)) as caught:
        SpillBuffer(10).append(bytes(11))
    assert caught.value.kind is ErrorKind.ENVIRONMENT
    assert "TMPDIR" in (caught.value.hint or "")


def test_bytes_after_a_half_failed_write_are_where_they_belong(monkeypatch: pytest.MonkeyPatch) -> None:
    store, write = SpillBuffer(10), os.pwrite
    store.append(b"a" * 11)

    def half(file: int, data: memoryview, at: int) -> int:
        if len(data) < 11:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data[:3], at)

    monkeypatch.setattr("os.pwrite", half)
    with pytest.raises(EngineError, match=os.strerror(errno.ENOSPC)):
        store.append(b"b" * 11)
    monkeypatch.setattr("os.pwrite", write)
    begin = store.append(b"c" * 11)
    assert (begin, store.read(11, 11), store.read(begin, 11)) == (22, b"b" * 11, b"c" * 11)


def test_a_directory_that_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(EngineError, match="local disk"):
        SpillBuffer(10).append(bytes(11))


def test_bytes_that_are_lost_are_told() -> None:
    store = SpillBuffer(10)
    store.append(bytes(11))
    assert store._file is not None
    os.truncate(store._file, 5)
    with pytest.raises(EngineError, match="only 5 of 11 bytes"):
        store.read(0, 11)
