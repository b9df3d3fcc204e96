"""S3 servers: moto in this process, behind a proxy that checks keys and injects faults, and a real one."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.bridge.jars import cache_dir
from paimon_spark.fs.base import FileIO
from paimon_spark.fs.resolve import file_io_for
from paimon_spark.testing.conformance import FileIOTests
from tests.end_to_end.programs import free_port

Answer = Iterable[bytes]
Start = Callable[..., Any]
App = Callable[[dict[str, Any], Start], Answer]
ACCESS_KEY = "AKIATESTACCESSKEY"
SECRET_KEY = "test/secret+key-4711"  # noqa: S105


@dataclass
class Door:
    """The proxy of moto: it checks the access key, makes conditional writes atomic, and injects faults on request."""

    app: App
    honours_conditions: bool = True
    lost: list[str] = field(default_factory=list)
    """Beginnings of `METHOD /bucket/key` whose next answer gets lost after it took effect; each works once."""
    broken: list[str] = field(default_factory=list)
    """Beginnings of requests that always fail, before they take effect."""
    full: list[str] = field(default_factory=list)
    """Beginnings of requests that find no room in the store."""
    seen: list[str] = field(default_factory=list)
    agents: set[str] = field(default_factory=set)
    """The programs that have asked, by their own names."""
    _writing: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, environ: dict[str, Any], start: Start) -> Answer:
        request = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
        self.seen.append(request)
        self.agents.add(environ.get("HTTP_USER_AGENT", ""))
        credential = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].partition("/")[0]
        if credential != ACCESS_KEY:
            return _fail(start, "403 Forbidden", "InvalidAccessKeyId" if credential else "AccessDenied")
        if not self.honours_conditions:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        if any(request.startswith(b) for b in self.broken):
            return _fail(start, "503 Service Unavailable", "SlowDown")
        if any(request.startswith(b) for b in self.full):
            return _fail(start, "507 Insufficient Storage", "XMinioStorageFull")
        return self._answer(environ, start, request)

    def _answer(self, environ: dict[str, Any], start: Start, request: str) -> Answer:
        loses = next((b for b in self.lost if request.startswith(b)), None)
        if loses is not None:
            self.lost.remove(loses)
            list(self.app(environ, lambda *_: lambda _: None))
            return _fail(start, "500 Internal Server Error", "InternalError")
        if environ["REQUEST_METHOD"] in ("PUT", "POST"):
            with self._writing:
                return list(self.app(environ, start))
        return self.app(environ, start)


def _fail(start: Start, status: str, code: str) -> Answer:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>as told</Message></Error>".encode()
    start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
    return [body]


@dataclass(frozen=True)
class S3Server:
    """A server that runs, and how to reach it."""

    endpoint: str
    door: Door | None = None
    access_key: str = ACCESS_KEY
    secret_key: str = SECRET_KEY

    @property
    def options(self) -> dict[str, str]:
        """Return the options of a catalog on this server."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.access-key": self.access_key,
            "s3.secret-key": self.secret_key,
            "s3.path.style.access": "true",
        }

    def client(self) -> Any:
        """Return a client of its own library, to look at the server from outside."""
        return _client(self.endpoint, self.access_key, self.secret_key)

    def bucket(self) -> str:
        """Create a bucket and return its name."""
        name = f"b{uuid.uuid4().hex[:16]}"
        self.client().create_bucket(Bucket=name)
        return name

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """Return the keys in a bucket."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [o["Key"] for page in pages for o in page.get("Contents", ())]


class S3Tests(FileIOTests):
    """The contract of a FileIO, on the server that the fixture `server` of a module runs."""

    scheme = "s3"

    @pytest.fixture(autouse=True)
    def running(self, server: S3Server) -> None:
        """Note the server."""
        self.server = server

    def make(self, tmp_path: Path) -> tuple[FileIO, str]:
        """Return a new bucket."""
        root = f"{self.scheme}://{self.server.bucket()}/w"
        io = file_io_for(root, self.server.options)
        io.mkdirs(root)
        return io, root


@lru_cache
def _client(endpoint: str, access_key: str, secret_key: str) -> Any:
    import botocore.session
    from botocore.config import Config

    return botocore.session.get_session().create_client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        config=Config(s3={"addressing_style": "path"}),
    )


@contextmanager
def moto_server() -> Iterator[S3Server]:
    """Run moto's server on a free port of this machine until the block ends."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    door = Door(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, door, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield S3Server(f"http://127.0.0.1:{server.server_port}", door)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


VERSITYGW = "github.com/versity/versitygw/cmd/versitygw"
VERSITYGW_RELEASE = "v1.8.0"


@contextmanager
def real_server(directory: Path) -> Iterator[S3Server]:
    """Run versitygw, a server written in Go, over `directory`; it is built once and kept. Without Go the test is skipped.

    It listens on this machine only, and keeps the objects' metadata beside them, so that any file system will do.
    """
    program = _built()
    objects, metadata, port = directory / "objects", directory / "metadata", free_port()
    for place in (objects, metadata):
        place.mkdir()
    keys = {"ROOT_ACCESS_KEY_ID": ACCESS_KEY, "ROOT_SECRET_ACCESS_KEY": SECRET_KEY}
    address = f"127.0.0.1:{port}"
    command = [program, "--quiet", "--port", address, "posix", "--sidecar", metadata, objects]
    log = directory / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, env={**os.environ, **keys}, stdout=out, stderr=subprocess.STDOUT)
    try:
        until = time.monotonic() + 60
        while socket.socket().connect_ex(("127.0.0.1", port)) != 0:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, "the server does not listen"
            time.sleep(0.1)
        yield S3Server(f"http://{address}")
    finally:
        process.terminate()
        process.wait(30)


def _built() -> Path:
    program = cache_dir() / f"versitygw-{VERSITYGW_RELEASE}" / "versitygw"
    if not program.exists():
        go = shutil.which("go")
        if go is None:
            pytest.skip(f"no Go to build versitygw, a store of S3: install Go, or put the program at {program}")
        environ = {**os.environ, "GOBIN": str(program.parent)}
        done = subprocess.run(
            [go, "install", f"{VERSITYGW}@{VERSITYGW_RELEASE}"],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            pytest.skip(f"versitygw cannot be built: {done.stderr[-300:]}")
    return program


@contextmanager
def told_within(seconds: float) -> Iterator[None]:
    """Fail if what happens in the block chooses to wait for longer; a machine that is busy may take its time as well."""
    waits: list[float] = []
    sleep, started = time.sleep, time.monotonic()

    def wait(length: float) -> None:
        waits.append(length)
        sleep(length)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", wait)
        yield
    assert sum(waits) < seconds, waits
    assert time.monotonic() - started < 60 + seconds


@dataclass(frozen=True)
class Ground:
    """Where tables of a test can be: an empty directory of a store, and the catalog options to reach it."""

    location: str
    options: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def _local(directory: Path) -> Iterator[Ground]:
    yield Ground(str(directory / "tables"))


@contextmanager
def _moto(_: Path) -> Iterator[Ground]:
    with moto_server() as server:
        yield Ground(f"s3://{server.bucket()}/tables", server.options)


@contextmanager
def _real(directory: Path) -> Iterator[Ground]:
    (directory / "store").mkdir()
    with real_server(directory / "store") as server:
        yield Ground(f"s3://{server.bucket()}/tables", server.options)


LOCAL, MOTO, REAL = "local", "moto", "versitygw"
STORES: Mapping[str, Callable[[Path], AbstractContextManager[Ground]]] = {LOCAL: _local, MOTO: _moto, REAL: _real}
"""By name, the stores to try tables on; each is given a local directory for what it needs."""
