"""The Python API on an S3 store: what holds on files holds there too, and the store fails in its own ways."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import paimon_spark
from paimon_spark.api.catalog import CatalogHandle
from paimon_spark.errors import ErrorKind, OptionError, PaimonError
from tests.stores import SECRET_KEY, S3Server, moto_server, told_within
from tests.unit.api.test_table import (
    SCHEMA,
    found,
    rows,
    test_history_tags_rollback_and_expiry,
    test_partitions_are_overwritten_one_by_one,
    test_the_catalog_lists_creates_renames_and_drops,
)

__all__ = [
    "test_history_tags_rollback_and_expiry",
    "test_partitions_are_overwritten_one_by_one",
    "test_the_catalog_lists_creates_renames_and_drops",
]

ROOT = Path(paimon_spark.__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with moto_server() as running:
        yield running


@pytest.fixture
def bucket(server: S3Server) -> Iterator[str]:
    yield server.bucket()
    assert server.door is not None
    server.door.honours_conditions = True
    server.door.lost.clear()
    server.door.broken.clear()


@pytest.fixture
def catalog(server: S3Server, bucket: str) -> CatalogHandle:
    return paimon_spark.connect(f"s3://{bucket}/deep/warehouse", server.options)


def test_a_dropped_table_leaves_nothing(catalog: CatalogHandle, server: S3Server, bucket: str) -> None:
    catalog.create_database("db")
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"], options={"bucket": "1"})
    for n in range(3):
        table.upsert(rows((n, "a", 1.0), (9, "b", float(n))))
    table.compact()
    table.expire_snapshots(retain_max=1)
    assert found(table) == [(0, "a", 1.0), (1, "a", 1.0), (2, "a", 1.0), (9, "b", 2.0)]
    assert sum("/bucket-0/" in k for k in server.keys(bucket)) == 1
    catalog.drop_table("db.t")
    catalog.drop_database("db")
    assert server.keys(bucket, "deep/warehouse/db.db") == []


def test_the_bucket_itself_can_be_the_warehouse(server: S3Server, bucket: str) -> None:
    for root in (f"s3://{bucket}", f"s3a://{bucket}/"):
        catalog = paimon_spark.connect(root, server.options)
        name = f"t{root.count('/')}"
        catalog.create_table(name, SCHEMA).append(rows((1, "a", 1.0)))
        assert name in catalog.list_tables()
        assert found(catalog.table(name)) == [(1, "a", 1.0)]
    assert catalog.list_databases() == ["default"]


def test_a_commit_whose_answer_is_lost_is_there_once(catalog: CatalogHandle, server: S3Server, bucket: str) -> None:
    table = catalog.create_table("t", SCHEMA, primary_key=["k"], options={"commit.max-retries": "0"})
    assert server.door is not None
    place = f"PUT /{bucket}/deep/warehouse/default.db/t"
    table.append(rows((1, "a", 1.0)))
    server.door.lost.append(f"{place}/snapshot/snapshot-2")
    assert table.append(rows((2, "a", 1.0))).snapshot_id == 2
    assert [s.id for s in table.snapshots()] == [1, 2]
    server.door.broken.append(f"{place}/snapshot/snapshot-3")
    with pytest.raises(PaimonError) as e:
        table.append(rows((3, "a", 1.0)))
    assert e.value.kind is ErrorKind.COMMIT_OUTCOME_UNKNOWN
    server.door.broken.clear()
    assert found(table, columns=["k"]) == [(1,), (2,)]
    table.append(rows((3, "a", 1.0)))
    assert found(table, columns=["k"]) == [(1,), (2,), (3,)]


def test_a_store_failing_in_mid_write_leaves_the_table_as_it_was(
    catalog: CatalogHandle, server: S3Server, bucket: str
) -> None:
    table = catalog.create_table("t", SCHEMA, primary_key=["k"])
    table.append(rows((1, "a", 1.0)))
    assert server.door is not None
    for part in ("bucket-0", "manifest"):
        server.door.broken[:] = [f"PUT /{bucket}/deep/warehouse/default.db/t/{part}"]
        with pytest.raises(PaimonError) as e:
            table.append(rows((2, "a", 1.0)))
        assert e.value.kind is ErrorKind.STORE_UNAVAILABLE
        server.door.broken.clear()
        assert found(table, columns=["k"]) == [(1,)]


def test_writers_of_several_clients_lose_nothing(server: S3Server, bucket: str) -> None:
    root = f"s3://{bucket}/w"
    paimon_spark.connect(root, server.options).create_table("t", SCHEMA, options={"commit.max-retries": "50"})

    def work(writer: int) -> None:
        table = paimon_spark.connect(root, server.options).table("t")
        for n in range(4):
            table.append(rows((writer * 10 + n, "a", 1.0)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    table = paimon_spark.connect(root, server.options).table("t")
    assert found(table, columns=["k"]) == [(w * 10 + n,) for w in range(4) for n in range(4)]
    assert [s.kind for s in table.snapshots()].count("APPEND") == 16


def test_no_table_is_created_where_commits_could_be_lost(catalog: CatalogHandle, server: S3Server, bucket: str) -> None:
    assert server.door is not None
    server.door.honours_conditions = False
    with pytest.raises(PaimonError, match="If-None-Match") as e:
        catalog.create_table("t", SCHEMA)
    assert e.value.kind is ErrorKind.UNSUPPORTED_STORE
    assert catalog.list_tables() == []


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"s3.access-key": "AKIAWRONG"}, ErrorKind.STORE_ACCESS_DENIED),
        ({"s3.endpoint": "http://127.0.0.1:9"}, ErrorKind.STORE_UNAVAILABLE),
        ({"bucket": "no-such-bucket"}, ErrorKind.BUCKET_NOT_FOUND),
    ],
)
def test_a_wrong_catalog_is_told_within_seconds(server: S3Server, change: dict[str, str], kind: ErrorKind) -> None:
    options = server.options | change
    catalog = paimon_spark.connect(f"s3://{options.pop('bucket', 'some-bucket')}/w", options)
    actions: list[Any] = [
        catalog.list_databases,
        catalog.list_tables,
        lambda: catalog.table("t"),
        lambda: catalog.create_table("t", SCHEMA),
        lambda: catalog.drop_table("t"),
    ]
    for action in actions:
        with told_within(10), pytest.raises(PaimonError) as e:
            action()
        assert e.value.kind is kind
        assert SECRET_KEY not in str(e.value)


def test_access_is_never_stored_with_a_table(catalog: CatalogHandle, server: S3Server, bucket: str) -> None:
    for key in ("s3.secret-key", "fs.s3a.secret.key"):
        with pytest.raises(OptionError, match="belongs to the catalog"):
            catalog.create_table("t", SCHEMA, options={key: SECRET_KEY})
    catalog.create_table("t", SCHEMA).append(rows((1, "a", 1.0)))
    client = server.client()
    for key in server.keys(bucket):
        assert SECRET_KEY.encode() not in client.get_object(Bucket=bucket, Key=key)["Body"].read()


def test_the_example_of_the_documentation_runs(
    server: S3Server, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs/s3.md").read_text(encoding="utf-8")
    [script] = re.findall(r"```python\n(import paimon_spark\n.*?)```", page, re.DOTALL)
    for example, real in {
        "s3://my-bucket/warehouse": f"s3://{bucket}/warehouse",
        "http://localhost:9000": server.endpoint,
        "my-access-key": server.access_key,
        "my-secret-key": SECRET_KEY,
    }.items():
        assert example in script
        script = script.replace(example, real)
    exec(compile(script, "docs/s3.md", "exec"), {})  # noqa: S102
    assert "'state': 'paid'" in capsys.readouterr().out
