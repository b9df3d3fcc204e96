"""The store in memory."""

from __future__ import annotations

from pathlib import Path

from paimon_spark.fs.base import FileIO
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.testing.conformance import FileIOTests


class TestMemory(FileIOTests):
    def make(self, tmp_path: Path) -> tuple[FileIO, str]:
        io = InMemoryFileIO()
        io.mkdirs("/w")
        return io, "/w"


def test_stores_are_apart_unless_of_one_name() -> None:
    a, b = InMemoryFileIO(), InMemoryFileIO()
    a.write("/f", b"1")
    assert not b.exists("/f")
    assert InMemoryFileIO.named(a.name).read("/f") == b"1"
