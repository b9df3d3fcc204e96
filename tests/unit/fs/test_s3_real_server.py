"""The contract and a table's life on a real server, which checks signatures; many at once: `tests/property`."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.errors import ErrorKind, StoreError
from paimon_spark.fs.resolve import file_io_for
from tests.stores import S3Server, S3Tests, real_server

pytestmark = pytest.mark.slow

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with real_server(tmp_path_factory.mktemp("store")) as running:
        yield running


class TestRealServer(S3Tests):
    """The contract of a FileIO."""


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
