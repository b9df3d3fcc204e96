"""The trash on an object store: files are copied within the store, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import paimon_spark
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.run import run_call
from paimon_spark.catalog.filesystem import FileSystemCatalog
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import ConflictError, UnsupportedError
from paimon_spark.fs.resolve import file_io_for
from paimon_spark.fs.s3 import S3FileIO
from paimon_spark.testing.invariants import violations
from tests.stores import S3Server, moto_server
from tests.unit.api.test_table import SCHEMA, rows
from tests.unit.procedures.calling import NOW, REGISTRY


class Interrupted(S3FileIO):
    """A store on which something happens right before the first file of a name is created."""

    __slots__ = ()
    name = ""
    then: Callable[[], object] | None = None

    @classmethod
    def before(cls, name: str, then: Callable[[], object]) -> None:
        cls.name, cls.then = name, then

    def _happen(self, path: str) -> None:
        then = type(self).then
        if then is not None and path.endswith(self.name):
            type(self).then = None
            then()

    def create_exclusive(self, path: str, data: bytes) -> bool:
        self._happen(path)
        return S3FileIO.create_exclusive(self, path, data)

    def _copy_all(self, old: str, new: str, tails: Sequence[str]) -> None:
        self._happen(new)
        S3FileIO._copy_all(self, old, new, tails)


class WithLarge(S3FileIO):
    """A store that reports a size of six GiB for an object."""

    __slots__ = ()

    def _head(self, path: str) -> dict[str, Any] | None:
        found = S3FileIO._head(self, path)
        return found if found is None or "data-large" not in path else {**found, "ContentLength": 6 << 30}


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with moto_server() as running:
        yield running


def context_of(warehouse: str, server: S3Server, file_io: S3FileIO) -> CallContext:
    return CallContext(
        catalog=FileSystemCatalog(warehouse, server.options, file_io),
        catalog_name="paimon",
        runner=LocalRunner(),
        clock_millis=lambda: NOW,
        current_database="db",
    )


def store_of(warehouse: str, server: S3Server) -> S3FileIO:
    store = file_io_for(warehouse, server.options)
    assert isinstance(store, S3FileIO)
    return store


def test_an_undo_overwrites_no_commit(server: S3Server) -> None:
    warehouse = f"s3://{server.bucket()}/warehouse"
    catalog = paimon_spark.connect(warehouse, server.options)
    catalog.create_database("db")
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"], options={"bucket": "1", "write-only": "true"})
    for n in range(4):
        table.upsert(rows((n, "a", 1.0)))
    context = context_of(warehouse, server, Interrupted(store_of(warehouse, server).settings))
    run_call("CALL sys.rollback_to('t', 2)", context, REGISTRY)
    Interrupted.before("/snapshot/snapshot-3", lambda: table.upsert(rows((99, "concurrent", 9.0))))
    with pytest.raises(ConflictError, match="snapshot-3 exists again"):
        run_call("CALL sys.undo('t', 'last')", context, REGISTRY)
    assert sorted(table.to_arrow()["k"].to_pylist()) == [0, 1, 99]
    assert table.load().snapshots.listed_ids() == [1, 2, 3]


def test_large_objects_need_trash_false(server: S3Server) -> None:
    warehouse = f"s3://{server.bucket()}/warehouse"
    catalog = paimon_spark.connect(warehouse, server.options)
    catalog.create_database("db")
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"], options={"bucket": "1"}).load()
    large = f"{table.path}/bucket-0/data-large.parquet"
    table.file_io.write(large, b"large")
    context = context_of(warehouse, server, WithLarge(store_of(warehouse, server).settings))
    with pytest.raises(UnsupportedError, match=r"5 GiB.*trash => false"):
        run_call("CALL sys.remove_orphan_files('t')", context, REGISTRY)
    assert table.file_io.exists(large)
    run_call("CALL sys.remove_orphan_files(table => 't', trash => false)", context, REGISTRY)
    assert not table.file_io.exists(large)


def test_removals_are_undone_on_s3(server: S3Server) -> None:
    warehouse = f"s3://{server.bucket()}/warehouse"
    catalog = paimon_spark.connect(warehouse, server.options)
    catalog.create_database("db")
    table = catalog.create_table("db.t", SCHEMA, primary_key=["k"], options={"bucket": "1", "write-only": "true"})
    for n in range(4):
        table.upsert(rows((n, "a", 1.0), (9, "b", float(n))))
    table.create_tag("last")
    context = context_of(warehouse, server, store_of(warehouse, server))
    before = table.to_arrow().sort_by("k")
    for text in ("rollback_to('t', 2)", "purge_files('t')", "delete_tag(table => 't', tag => 'last', trash => true)"):
        run_call(f"CALL sys.{text}", context, REGISTRY)
        run_call("CALL sys.undo('t', 'last')", context, REGISTRY)
        assert table.to_arrow().sort_by("k").equals(before)
        assert table.tags() == {"last": 4}
        assert violations(table.load()) == []
    loaded = table.load()
    for n in range(10):
        loaded.file_io.write(f"{loaded.path}/bucket-0/data-left-{n}.parquet", b"left")
    assert server.door is not None
    server.door.seen.clear()
    run_call("CALL sys.remove_orphan_files('t')", context, REGISTRY)
    about = [request for request in server.door.seen if "data-left-3" in request]
    assert len(about) <= 5, about
    (run,) = run_call("CALL sys.trash('t')", context, REGISTRY).rows
    assert run[7] >= 10
