"""Buckets of an S3 store, on moto's server."""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moto.s3.models import s3_backends

from paimon_spark.errors import ErrorKind, OutcomeUnknownError, StoreError, UnsupportedError
from paimon_spark.fs import s3, s3_streams
from paimon_spark.fs.base import FileIO
from paimon_spark.fs.resolve import file_io_for, file_io_from_config
from tests.stores import SECRET_KEY, Door, S3Server, S3Tests, moto_server, told_within


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with moto_server() as running:
        yield running


@pytest.fixture
def door(server: S3Server) -> Iterator[Door]:
    door = server.door
    assert door is not None
    yield door
    door.honours_conditions = True
    door.lost.clear()
    door.broken.clear()
    door.full.clear()


@pytest.fixture
def root(server: S3Server) -> str:
    return f"s3://{server.bucket()}/w"


@pytest.fixture
def store(server: S3Server, root: str) -> FileIO:
    return file_io_for(root, server.options)


class TestS3(S3Tests):
    """A bucket by Paimon's name of the scheme."""


class TestS3a(S3Tests):
    """A bucket by Hadoop's name of the scheme."""

    scheme = "s3a"


def test_the_server_of_these_tests_honours_conditional_writes(server: S3Server) -> None:
    """All tests of commits on S3 would prove nothing on a server that ignores the condition."""
    from botocore.exceptions import ClientError

    client, bucket = server.client(), server.bucket()
    client.put_object(Bucket=bucket, Key="k", Body=b"1", IfNoneMatch="*")
    with pytest.raises(ClientError, match="PreconditionFailed"):
        client.put_object(Bucket=bucket, Key="k", Body=b"2", IfNoneMatch="*")
    assert client.get_object(Bucket=bucket, Key="k")["Body"].read() == b"1"


def test_a_lost_answer_of_a_create_is_found_out(store: FileIO, root: str, door: Door) -> None:
    store.create_exclusive(f"{root}/first", b"")
    door.lost.append(f"PUT /{root[5:]}/snapshot-1")
    assert store.create_exclusive(f"{root}/snapshot-1", b"mine")
    assert not door.lost
    assert store.read(f"{root}/snapshot-1") == b"mine"
    assert not store.create_exclusive(f"{root}/snapshot-1", b"mine")


def test_a_store_without_room_has_created_nothing(store: FileIO, root: str, door: Door) -> None:
    store.create_exclusive(f"{root}/first", b"")
    door.full.append(f"PUT /{root[5:]}/snapshot-1")
    for write in (store.create_exclusive, store.write):
        with pytest.raises(StoreError, match="is full") as e:
            write(f"{root}/snapshot-1", b"mine")
        assert (e.value.kind, e.value.refused) == (ErrorKind.STORE_FULL, True)
    assert not store.exists(f"{root}/snapshot-1")


def test_a_create_that_failed_before_its_effect_is_not_done(store: FileIO, root: str, door: Door) -> None:
    store.create_exclusive(f"{root}/first", b"")
    door.broken.append(f"PUT /{root[5:]}/snapshot-1")
    with pytest.raises(OutcomeUnknownError):
        store.create_exclusive(f"{root}/snapshot-1", b"mine")
    door.broken.clear()
    assert not store.exists(f"{root}/snapshot-1")


def test_a_store_that_cannot_tell_leaves_the_outcome_open(store: FileIO, root: str, door: Door) -> None:
    store.create_exclusive(f"{root}/first", b"")
    door.broken += [f"PUT /{root[5:]}/snapshot-1", f"HEAD /{root[5:]}/snapshot-1"]
    with pytest.raises(OutcomeUnknownError, match="snapshot-1"):
        store.create_exclusive(f"{root}/snapshot-1", b"mine")


def test_a_store_without_conditional_writes_is_refused(server: S3Server, store: FileIO, root: str, door: Door) -> None:
    door.honours_conditions = False
    with pytest.raises(UnsupportedError, match="If-None-Match") as e:
        store.create_exclusive(f"{root}/t/schema/schema-0", b"{}")
    assert e.value.kind is ErrorKind.UNSUPPORTED_STORE
    assert server.keys(root.split("/")[2]) == []


def test_conditions_are_tried_once_a_process_and_leave_nothing(server: S3Server, store: FileIO, root: str) -> None:
    s3._checked.clear()
    assert store.create_exclusive(f"{root}/a", b"1")
    assert (server.endpoint, root.split("/")[2]) in s3._checked
    assert server.door is not None
    before = len(server.door.seen)
    assert store.create_exclusive(f"{root}/b", b"1")
    assert [r.split()[0] for r in server.door.seen[before:]] == ["PUT"]
    assert server.keys(root.split("/")[2]) == ["w/a", "w/b"]


def test_large_files_go_in_parts_with_bounded_memory(server: S3Server, store: FileIO, root: str) -> None:
    chunk = os.urandom(1 << 20)
    with store.open_output(f"{root}/big") as out:
        for _ in range(20):
            out.write(chunk)
        assert out.tell() == 20 << 20
    assert store.status(f"{root}/big").size == 20 << 20
    assert store.read_range(f"{root}/big", (1 << 20) - 1, 2) == chunk[-1:] + chunk[:1]
    assert not server.client().list_multipart_uploads(Bucket=root.split("/")[2]).get("Uploads")


def test_no_more_than_three_parts_are_held(store: FileIO, root: str) -> None:
    assert isinstance(store, s3.S3FileIO)
    part = store.settings.part_bytes
    out = s3_streams.ObjectOutput(store.settings, f"{root}/f", *s3.split(f"{root}/f"), {})
    for _ in range(4):
        out.write(bytes(part))
        running = sum(not p.done() for p in out._parts)
        assert running <= s3_streams.IN_FLIGHT
        assert len(out._buffer) < part
    out.close()
    assert store.status(f"{root}/f").size == 4 * part


def test_a_failed_part_fails_the_file_and_leaves_no_upload(
    server: S3Server, store: FileIO, root: str, door: Door
) -> None:
    door.broken.append(f"PUT /{root[5:]}/big")
    with pytest.raises(StoreError, match="SlowDown"), store.open_output(f"{root}/big") as out:  # noqa: PT012
        for _ in range(20):
            out.write(bytes(1 << 20))
    door.broken.clear()
    assert not store.exists(f"{root}/big")
    assert not server.client().list_multipart_uploads(Bucket=root.split("/")[2]).get("Uploads")


def test_a_file_that_nobody_closes_never_appears(server: S3Server, store: FileIO, root: str) -> None:
    assert isinstance(store, s3.S3FileIO)
    for size in (10, 20 << 20):
        out = s3_streams.ObjectOutput(store.settings, f"{root}/f", *s3.split(f"{root}/f"), {})
        out.write(bytes(size))
        del out
        gc.collect()
    assert server.keys(root.split("/")[2]) == []
    assert not server.client().list_multipart_uploads(Bucket=root.split("/")[2]).get("Uploads")


def test_columns_are_read_by_ranges(server: S3Server, store: FileIO, root: str) -> None:
    rows = 400_000
    table = pa.table({"a": range(rows), "b": [os.urandom(8)] * rows, "c": range(rows)})
    with store.open_output(f"{root}/f.parquet") as out:
        pq.write_table(table, out, compression="none", use_dictionary=False)
    size = store.status(f"{root}/f.parquet").size
    assert server.door is not None
    before = len(server.door.seen)
    with store.open_input(f"{root}/f.parquet") as source:
        assert source.size() == size
        assert pq.ParquetFile(source).read(columns=["c"]).column("c").to_pylist()[-1] == rows - 1
    assert len(server.door.seen) - before <= 6
    with store.open_input(f"{root}/f.parquet") as source:
        assert pq.read_table(source).equals(table)


def test_directories_of_other_programs_go_with_the_rest(server: S3Server, store: FileIO, root: str) -> None:
    client, bucket = server.client(), root.split("/")[2]
    for key in ("w/t/", "w/t/snapshot/", "w/t/a//b", "w/t/x y/ü+%20&?#", "w/tail"):
        client.put_object(Bucket=bucket, Key=key, Body=b"1" if not key.endswith("/") else b"")
    assert [(s.name, s.is_dir) for s in store.list(f"{root}/t")] == [("a", True), ("snapshot", True), ("x y", True)]
    assert store.list(f"{root}/t/snapshot") == []
    assert store.read(f"{root}/t/x y/ü+%20&?#") == b"1"
    assert [s.path for s in store.list_recursive(f"{root}/t")] == [f"{root}/t/a//b", f"{root}/t/x y/ü+%20&?#"]
    store.delete_dir(f"{root}/t")
    assert server.keys(bucket) == ["w/tail"]


def test_more_files_than_an_answer_holds(server: S3Server, store: FileIO, root: str) -> None:
    backend, bucket = s3_backends["123456789012"]["aws"], root.split("/")[2]
    for i in range(1203):
        backend.put_object(bucket, f"w/t/f{i:04d}", b"")  # through its door that would take a while
    assert len(store.list(f"{root}/t")) == 1203
    assert len(list(store.list_recursive(root))) == 1203
    store.delete_dir(f"{root}/t")
    assert server.keys(bucket) == []


def test_names_that_no_key_can_have_are_not_there(store: FileIO, root: str) -> None:
    path = f"{root}/{'n' * 1100}"
    assert not store.exists(path)
    assert (store.list(path), list(store.list_recursive(path)), store.delete(path)) == ([], [], False)
    with pytest.raises(FileNotFoundError):
        store.read(path)
    with pytest.raises(OSError, match="too long"):
        store.write(path, b"1")


def test_a_rename_that_fails_leaves_the_source_alone(server: S3Server, store: FileIO, root: str, door: Door) -> None:
    for name in ("data/f1", "data/f2", "schema/schema-0"):
        store.write(f"{root}/old/{name}", name.encode())
    door.broken.append(f"PUT /{root[5:]}/new/schema")
    with pytest.raises(StoreError):
        store.rename(f"{root}/old", f"{root}/new")
    door.broken.clear()
    bucket = root.split("/")[2]
    assert server.keys(bucket) == ["w/old/data/f1", "w/old/data/f2", "w/old/schema/schema-0"]
    assert store.rename(f"{root}/old", f"{root}/new")
    assert server.keys(bucket) == ["w/new/data/f1", "w/new/data/f2", "w/new/schema/schema-0"]


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({"s3.access-key": "AKIAWRONGWRONGWRONG"}, ErrorKind.STORE_ACCESS_DENIED, "s3.access-key"),
        ({"s3.endpoint": "http://127.0.0.1:9"}, ErrorKind.STORE_UNAVAILABLE, "does not answer"),
        ({}, ErrorKind.BUCKET_NOT_FOUND, "no bucket 'nosuchbucket'"),
    ],
)
def test_failures_are_told_within_seconds_and_without_keys(
    server: S3Server, change: dict[str, str], kind: ErrorKind, text: str
) -> None:
    options = server.options | change
    io = file_io_for("s3://nosuchbucket/w", options)
    for action in (io.read, io.exists, io.list, io.open_input, lambda p: io.write(p, b"1")):
        with told_within(8), pytest.raises(StoreError) as e:
            action("s3://nosuchbucket/w/f")
        assert e.value.kind is kind
        assert text in str(e.value) + e.value.hint
        assert options["s3.access-key"] not in str(e.value)
        assert SECRET_KEY not in repr(e.value)


def test_secrets_are_in_no_text(server: S3Server, store: FileIO, root: str) -> None:
    assert isinstance(store, s3.S3FileIO)
    for text in (repr(store), str(store), f"{store}", repr(store.settings), repr([store])):
        assert server.access_key not in text
        assert SECRET_KEY not in text
    again = file_io_from_config(store.to_config())
    assert again == store
    assert pickle.loads(pickle.dumps(store)) == store


def test_store_errors_travel_between_processes() -> None:
    error = StoreError("No answer.", hint="Try again.", kind=ErrorKind.STORE_UNAVAILABLE)
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, OSError)
    assert (str(again), again.kind, again.errno) == (str(error), error.kind, error.errno)
    assert str(error) == "[STORE_UNAVAILABLE] No answer. Try again."
