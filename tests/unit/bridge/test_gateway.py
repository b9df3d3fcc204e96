"""Authentication between the JVM and the engine: without the secret, a process gets no information."""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from paimon_spark.bridge.gateway import SIZE, is_greeted

SECRET = "5a" * 32


@pytest.fixture
def line() -> Iterator[tuple[socket.socket, Future[bool]]]:
    """A connection to a server that requires `SECRET`, and whether it was accepted."""
    ours, theirs = socket.socketpair()
    with ours, theirs, theirs.makefile("rb") as stream, ThreadPoolExecutor(1) as pool:
        yield ours, pool.submit(is_greeted, theirs, stream, SECRET)
        ours.close()


def prove(who: bytes, *numbers: bytes, secret: str = SECRET) -> bytes:
    return hmac.new(secret.encode(), who + b"".join(numbers), hashlib.sha256).digest()


def read(s: socket.socket, n: int) -> bytes:
    found = b""
    while len(found) < n and (more := s.recv(n - len(found))):
        found += more
    return found


Line = tuple[socket.socket, "Future[bool]"]


def test_the_secret_authenticates_both_sides(line: Line) -> None:
    s, greeted = line
    mine = os.urandom(SIZE)
    s.sendall(mine)
    theirs, proof = read(s, SIZE), read(s, SIZE)
    assert proof == prove(b"engine", mine, theirs)
    s.sendall(prove(b"jvm", theirs, mine))
    assert greeted.result(10)


ANSWERS: dict[str, Callable[[bytes, bytes, bytes], bytes]] = {
    "nothing": lambda mine, theirs, proof: b"",
    "a part": lambda mine, theirs, proof: prove(b"jvm", theirs, mine)[:-1],
    "the wrong secret": lambda mine, theirs, proof: prove(b"jvm", theirs, mine, secret="00" * 32),
    "the proof sent back": lambda mine, theirs, proof: proof,
    "the numbers exchanged": lambda mine, theirs, proof: prove(b"jvm", mine, theirs),
    "the other side's name": lambda mine, theirs, proof: prove(b"engine", theirs, mine),
    "py4j's own greeting": lambda mine, theirs, proof: f"A\n{SECRET}\ne\n".encode(),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_nobody_else_does(line: Line, answer: str) -> None:
    s, greeted = line
    mine = os.urandom(SIZE)
    s.sendall(mine)
    theirs, proof = read(s, SIZE), read(s, SIZE)
    s.sendall(ANSWERS[answer](mine, theirs, proof))
    s.shutdown(socket.SHUT_WR)
    assert not greeted.result(10)


def test_a_conversation_that_was_overheard_is_of_no_use(line: Line) -> None:
    s, greeted = line
    mine, overheard = bytes(SIZE), bytes(range(SIZE))
    s.sendall(mine + prove(b"jvm", overheard, mine))
    assert read(s, SIZE) != overheard
    assert not greeted.result(10)


def test_who_hangs_up_at_once_is_no_failure(line: Line) -> None:
    s, greeted = line
    s.close()
    assert greeted.result(10) is False
