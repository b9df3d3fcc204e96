"""The ports between the JVM and the engine: on this machine only, and closed to processes without the secrets."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import socket
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark import InheritableThread
from pyspark.sql import SparkSession

from tests.spark.test_engine import bridge_class, engine_pid
from tests.variants import mostly_slow

LISTENING = "0A"


def environ(pid: int) -> dict[str, str]:
    parts = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(p.split("=", 1) for p in parts if "=" in p)


def listening(pid: int) -> list[tuple[str, int]]:
    """Return address and port of every socket on which a process listens."""
    links = [p.readlink().name for p in Path(f"/proc/{pid}/fd").iterdir() if p.is_symlink()]
    inodes = {name[len("socket:[") : -1] for name in links if name.startswith("socket:[")}
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and fields[9] in inodes:
                address, port = fields[1].split(":")
                found.append((_address(address), int(port, 16)))
    return found


def _address(text: str) -> str:
    words = [bytes.fromhex(text[i : i + 8])[::-1] for i in range(0, len(text), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def jvm_pid(engine: int) -> int:
    fields = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{engine}/status").read_text().splitlines() if ":\t" in line
    )
    return int(fields["PPid"])


def say(port: int, *parts: bytes) -> bytes:
    """Send bytes to a port and return what comes back before it closes, or before nothing more comes.

    pyspark's own port for accumulators serves one connection at a time; who finds it taken is not even let in.
    """
    found = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=3) as s:
            for part in parts:
                s.sendall(part)
            while more := s.recv(4096):
                found += more
    except (TimeoutError, ConnectionError):
        pass
    return found


def lines(*texts: str) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode()


@pytest.fixture
def engine(spark: SparkSession) -> int:
    spark.sql("SHOW TABLES").collect()
    return engine_pid(spark)


def test_both_processes_listen_on_this_machine_only(engine: int) -> None:
    gateway = int(environ(engine)["PYSPARK_GATEWAY_PORT"])
    of_engine, of_jvm = listening(engine), {p: a for a, p in listening(jvm_pid(engine))}
    assert of_engine
    assert all(ipaddress.ip_address(a).is_loopback for a, _ in of_engine)
    assert ipaddress.ip_address(of_jvm[gateway]).is_loopback


GREETINGS = [
    [],
    ["A", "wrong"],
    ["A", ""],
]


@pytest.mark.parametrize("greeting", GREETINGS, ids=["none", "wrong", "empty"])
def test_the_jvm_refuses_who_does_not_know_the_secret(engine: int, greeting: list[str]) -> None:
    port = int(environ(engine)["PYSPARK_GATEWAY_PORT"])
    answer = say(port, lines(*greeting, "c", "z:java.lang.System", "lineSeparator", "e"))
    assert b"!ys" not in answer
    assert b"!yv" not in answer


def test_who_knows_the_secret_is_answered(engine: int) -> None:
    known = environ(engine)
    assert len(known["PYSPARK_GATEWAY_SECRET"]) >= 32
    greeting = ["A", known["PYSPARK_GATEWAY_SECRET"]]
    port = int(known["PYSPARK_GATEWAY_PORT"])
    answer = say(port, lines(*greeting, "c", "z:java.lang.System", "lineSeparator", "e"))
    assert b"!yv" in answer
    assert b"!ys" in answer


REQUEST = lines("c", "p0", "apply", "snonsense", "n", "e")
"""What the JVM says to the engine when it has a question; this one is answered with an error of the engine's."""
GREETING = 64
"""The bytes that an engine says of itself: a number and a proof."""


def prove(secret: str, who: bytes, *numbers: bytes) -> bytes:
    return hmac.new(secret.encode(), who + b"".join(numbers), hashlib.sha256).digest()


def ask(port: int, secret: str) -> bytes:
    """Authenticate to the engine as the JVM does, send a request, and return the response."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as s, s.makefile("rb") as stream:
        mine = os.urandom(32)
        s.sendall(mine)
        theirs, proof = stream.read(32), stream.read(32)
        assert len(proof) == 32, "not the port for requests"
        s.sendall(prove(secret, b"jvm", theirs, mine) + REQUEST)
        try:
            return stream.readline()
        except ConnectionError:
            return b""


def request_port(engine: int) -> int:
    found = [port for _, port in listening(engine) if len(say(port, bytes(32))) == GREETING]
    assert len(found) == 1
    return found[0]


STRANGERS: dict[str, list[bytes]] = {
    "nothing": [],
    "py4j": [REQUEST],
    "py4j with an empty secret": [lines("A", "", "e"), REQUEST],
    "py4j with a wrong secret": [lines("A", "00" * 32, "e"), REQUEST],
    "a wrong proof": [bytes(64), REQUEST],
    "garbage collection": [lines("g", "p0", "e")],
    "noise": [bytes(range(256)) * 40],
}


@pytest.mark.parametrize("stranger", mostly_slow(STRANGERS, "py4j with a wrong secret", "a wrong proof", "noise"))
def test_no_port_of_the_engine_answers_a_stranger(engine: int, stranger: str) -> None:
    ports = {port for _, port in listening(engine)}
    assert ports
    for port in ports:
        assert len(say(port, *STRANGERS[stranger])) in (0, GREETING)


def test_the_secret_of_the_jvm_port_does_not_open_the_engine(engine: int) -> None:
    known = environ(engine)
    assert known["PYSPARK_GATEWAY_SECRET"] != known["PAIMON_SPARK_GREETING"]
    port = request_port(engine)
    assert ask(port, known["PYSPARK_GATEWAY_SECRET"]) == b""
    assert ask(port, known["PAIMON_SPARK_GREETING"]).startswith(b"!ys")


def test_silent_strangers_do_not_block_the_engine(engine: int, spark: SparkSession) -> None:
    port = request_port(engine)
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: spark.sql("SHOW TABLES").collect(), range(8)))
    assert found == [[]] * 8
    for s in silent:
        s.close()


def connections(engine: int) -> int:
    """Return the number of sockets of the engine."""
    return sum(p.readlink().name.startswith("socket:") for p in Path(f"/proc/{engine}/fd").iterdir() if p.is_symlink())


def test_connections_of_ended_threads_are_closed(engine: int, spark: SparkSession) -> None:
    """Each InheritableThread has a thread of the JVM, which ends with it, as those of a Thrift server do."""
    before = connections(engine)
    for _ in range(15):
        thread = InheritableThread(target=lambda: spark.sql("SHOW TABLES").collect())
        thread.start()
        thread.join()
    assert connections(engine) < before + 8


def test_the_jvm_tells_nothing_to_who_is_not_the_engine(spark: SparkSession) -> None:
    """Somebody who gets hold of the port of an engine that died."""
    jvm: Any = spark._jvm
    gateway = spark.sparkContext._gateway
    with socket.create_server(("127.0.0.1", 0)) as impostor, ThreadPoolExecutor(1) as pool:
        heard = pool.submit(_pretend, impostor)
        create = bridge_class(spark, "EngineClient").getConstructors()[0]
        values = [None, impostor.getsockname()[1], jvm.py4j.GatewayServer.defaultAddress(), None, "ab" * 32]
        arguments = gateway.new_array(jvm.java.lang.Object, len(values))
        for i, value in enumerate(values):
            arguments[i] = value
        with pytest.raises(Exception, match="Another process listens"):
            create.newInstance(arguments).sendCommand("c\np0\napply\nssecret things\ne\n")
        assert len(heard.result(10)) == 32


def _pretend(impostor: socket.socket) -> bytes:
    connected, _ = impostor.accept()
    with connected:
        connected.settimeout(5)
        found = connected.recv(4096)
        connected.sendall(bytes(64))
        try:
            while more := connected.recv(4096):
                found += more
        except ConnectionError:
            pass
    return found


def test_the_log_of_the_engine_is_its_users(engine: int) -> None:
    log = Path(f"/proc/{engine}/fd/2").readlink()
    assert log.name.startswith("engine-")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["PYSPARK_GATEWAY_SECRET", "PAIMON_SPARK_GREETING"])
def test_no_secret_is_on_any_command_line(engine: int, name: str) -> None:
    for pid in (engine, jvm_pid(engine)):
        assert environ(engine)[name].encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
