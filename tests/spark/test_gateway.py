"""The ports between the JVM and the engine: on this machine only; the JVM's is closed to who does not know the secret."""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.test_engine import engine_pid

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


def say(port: int, *lines: str) -> str:
    """Send lines to a port and return what comes back before it closes, or before nothing more comes."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
        s.sendall("".join(f"{line}\n" for line in lines).encode())
        s.settimeout(3)
        found = b""
        try:
            while more := s.recv(4096):
                found += more
        except (TimeoutError, ConnectionResetError):
            pass
    return found.decode()


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
    answer = say(port, *greeting, "c", "z:java.lang.System", "lineSeparator", "e")
    assert "!ys" not in answer
    assert "!yv" not in answer


def test_who_knows_the_secret_is_answered(engine: int) -> None:
    known = environ(engine)
    assert len(known["PYSPARK_GATEWAY_SECRET"]) >= 32
    greeting = ["A", known["PYSPARK_GATEWAY_SECRET"]]
    answer = say(int(known["PYSPARK_GATEWAY_PORT"]), *greeting, "c", "z:java.lang.System", "lineSeparator", "e")
    assert "!yv" in answer
    assert "!ys" in answer


def test_the_secret_is_not_on_any_command_line(engine: int) -> None:
    secret = environ(engine)["PYSPARK_GATEWAY_SECRET"]
    for pid in (engine, jvm_pid(engine)):
        assert secret.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
