"""Locations and stores."""

from __future__ import annotations

import pytest

from paimon_spark.errors import ErrorKind, UnsupportedError
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.fs.resolve import file_io_for, scheme_of


def test_plain_paths_and_file_uris_are_local() -> None:
    for uri in ("/tmp/w", "w", "file:/tmp/w", "file:///tmp/w", "FILE:/tmp/w"):
        assert isinstance(file_io_for(uri), LocalFileIO)


def test_memory_is_one_store() -> None:
    assert file_io_for("memory:/w") is file_io_for("memory:/v")
    assert isinstance(file_io_for("memory:/w"), InMemoryFileIO)


@pytest.mark.parametrize("uri", ["gs://b/w", "hdfs://n/w", "oss://b/w"])
def test_unknown_schemes_are_named(uri: str) -> None:
    with pytest.raises(UnsupportedError, match=scheme_of(uri)) as e:
        file_io_for(uri)
    assert e.value.kind is ErrorKind.UNSUPPORTED_STORE
