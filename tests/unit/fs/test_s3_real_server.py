"""The contract and the commits on a real server, which checks signatures and serves many clients at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.errors import ErrorKind, StoreError
from paimon_spark.fs.base import FileIO
from paimon_spark.fs.resolve import file_io_for
from paimon_spark.testing.behaviours import FileIOTests
from tests.stores import S3Server, real_server

pytestmark = pytest.mark.slow

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
WRITERS, COMMITS = 4, 5
WRITER = """
import json, sys
import pyarrow as pa, paimon_spark
root, options, writer, commits = json.loads(sys.argv[1])
table = paimon_spark.connect(root, options).table("t")
for n in range(commits):
    table.append(pa.table({"k": [writer * 100 + n], "v": ["x"]}))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with real_server(tmp_path_factory.mktemp("store")) as running:
        yield running


class TestRealServer(FileIOTests):
    @pytest.fixture(autouse=True)
    def running(self, server: S3Server) -> None:
        self.server = server

    def make(self, tmp_path: Path) -> tuple[FileIO, str]:
        root = f"s3://{self.server.bucket()}/w"
        io = file_io_for(root, self.server.options)
        io.mkdirs(root)
        return io, root


def test_a_large_file_goes_in_parts(server: S3Server) -> None:
    root = f"s3://{server.bucket()}/w"
    io = file_io_for(root, server.options)
    chunk = bytes(range(256)) * 4096
    with io.open_output(f"{root}/big") as out:
        for _ in range(30):
            out.write(chunk)
    with io.open_input(f"{root}/big") as source:
        assert source.size() == 30 << 20
        source.seek((17 << 20) - 3)
        assert source.read(6) == b"\xfd\xfe\xff\x00\x01\x02"


def test_a_wrong_secret_is_told(server: S3Server) -> None:
    root = f"s3://{server.bucket()}/w"
    with pytest.raises(StoreError, match="SignatureDoesNotMatch") as e:
        file_io_for(root, server.options | {"s3.secret-key": "wrong"}).list(root)
    assert e.value.kind is ErrorKind.STORE_ACCESS_DENIED


def test_a_table_lives_on_it(server: S3Server) -> None:
    bucket = server.bucket()
    catalog = paimon_spark.connect(f"s3://{bucket}/w", server.options)
    catalog.create_database("db")
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"])
    for n in range(3):
        table.upsert(pa.table({"k": [1, n], "v": [f"{n}", "x"]}, schema=SCHEMA))
    table.compact()
    table.expire_snapshots(retain_max=1)
    assert sorted(table.to_arrow().to_pylist(), key=lambda r: r["k"])[0] == {"k": 0, "v": "x"}
    catalog.rename_table("db.t", "db.u")
    assert catalog.table("db.u").count() == 3
    catalog.drop_table("db.u")
    catalog.drop_database("db")
    assert server.keys(bucket, "w/db.db") == []


def test_writers_in_processes_of_their_own_lose_nothing(server: S3Server) -> None:
    import json

    root = f"s3://{server.bucket()}/w"
    catalog = paimon_spark.connect(root, server.options)
    table = catalog.create_table("t", SCHEMA, options={"commit.max-retries": "100"})
    plans = [json.dumps([root, server.options, writer, COMMITS]) for writer in range(WRITERS)]
    running = [subprocess.Popen([sys.executable, "-c", WRITER, plan]) for plan in plans]
    assert [process.wait(300) for process in running] == [0] * WRITERS
    expected = sorted(w * 100 + n for w in range(WRITERS) for n in range(COMMITS))
    assert sorted(table.to_arrow().column("k").to_pylist()) == expected
    assert [s.kind for s in table.snapshots()].count("APPEND") == WRITERS * COMMITS
