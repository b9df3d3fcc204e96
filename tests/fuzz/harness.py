"""Runs inputs against a target and reports wrong behaviour.

What may happen to an input: it is refused with an error of ours, or it is accepted and its meaning survives being written
again (each target checks that itself). Everything else is a finding: another exception, an input that takes too long or
too much memory, an accepted input that comes back as another.
"""

from __future__ import annotations

import hashlib
import random
import resource
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paimon_spark.errors import PaimonError

ROOT = Path(__file__).resolve().parents[2]
SAVED = ROOT / "build" / "fuzz"
KEPT = Path(__file__).parent / "regressions"
MOST_BYTES = 1 << 16

Mutation = Callable[[random.Random, bytes], bytes]


@dataclass(frozen=True)
class Target:
    """One parser: valid inputs to begin with, how to change them, and what to do with an input.

    `run` raises a PaimonError for an input that it refuses, and AssertionError for one that it should have refused.
    """

    name: str
    run: Callable[[bytes], Any]
    samples: Sequence[bytes]
    mutations: Sequence[Mutation] = ()
    words: Sequence[bytes] = field(default=())


@dataclass(frozen=True)
class Limits:
    """What an input may cost, and where one goes that was not taken as it should have been.

    Attributes:
        cpu_seconds: CPU time of an input.
        memory: bytes that this process may grow by.
        saved: the directory of findings.
    """

    cpu_seconds: float = 2.0
    memory: int = 256 << 20
    saved: Path = SAVED


DEFAULT_LIMITS = Limits()


class Finding(AssertionError):  # noqa: N818 - not an error of the program that is told of it
    """An input that was not taken as it should have been."""

    def __init__(self, target: str, data: bytes, what: str, saved: Path = SAVED) -> None:
        self.data = data
        self.path = saved / target / f"{hashlib.sha256(data).hexdigest()[:16]}.bin"
        super().__init__(f"{target}: {what}\ninput: {data[:200]!r}\nreplay: make replay INPUT={self.path}")

    def save(self) -> None:
        """Write the input to the file in the message."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(self.data)


class _TooLong(BaseException):
    """Not an Exception: nothing may swallow it."""


def check(target: Target, data: bytes, limits: Limits = DEFAULT_LIMITS) -> bool:
    """Run one input; return whether it was accepted.

    Raises:
        Finding: it was not taken as it should have been; the input is saved.
    """
    finding = _judged(target, data, limits)
    if isinstance(finding, bool):
        return finding
    finding.save()
    raise finding


def _judged(target: Target, data: bytes, limits: Limits) -> bool | Finding:
    def finding(what: str) -> Finding:
        return Finding(target.name, data, what, limits.saved)

    before = _peak()
    try:
        with _time_limit(limits.cpu_seconds):
            target.run(data)
        accepted = True
    except PaimonError as e:
        if any(isinstance(c, MemoryError) for c in _causes(e)):
            return finding(f"it asked for more memory than there is: {e}")
        if len(str(e)) > 20_000 + 4 * len(data):
            return finding(f"the error has {len(str(e))} characters")
        str(e).encode(errors="surrogatepass")
        accepted = False
    except _TooLong:
        return finding(f"it took more than {limits.cpu_seconds} s of CPU time")
    except Exception as e:  # noqa: BLE001 - whatever comes out is the finding
        found = finding(f"{type(e).__name__}: {e}"[:2000])
        found.__cause__ = e
        return found
    grown = _peak() - before
    if grown > limits.memory:
        return finding(f"it took {grown >> 20} MB of memory")
    return accepted


def _causes(e: BaseException) -> Iterator[BaseException]:
    cause = e.__cause__ or e.__context__
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


class _time_limit:  # noqa: N801 - used as a statement
    """Ends the block after some CPU time of this process; only in the main thread."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGPROF, _ring)
        signal.setitimer(signal.ITIMER_PROF, self._seconds)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self._before)


def _ring(_: int, __: object) -> None:
    raise _TooLong


# ------------------------------------------------------------------------------------------------- mutation


def mutated(target: Target, rng: random.Random, data: bytes) -> bytes:
    """Return a changed input: by the target's structure, or by bytes."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        if target.mutations and rng.random() < 0.6:
            data = rng.choice(target.mutations)(rng, data)
        else:
            data = _bytes_changed(rng, data, target)
    return data[:MOST_BYTES]


_NUMBERS = (0, 1, 2, 127, 128, 255, 256, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
_TEXTS = (b"\0", b"\xff", b"\xed\xa0\x80", "\u202e".encode(), b"'", b'"', b"`", b"\\", b"%", b";", b"/", b"..", b"\n")


def _bytes_changed(rng: random.Random, data: bytes, target: Target) -> bytes:
    at = rng.randrange(len(data) + 1)
    end = min(len(data), at + rng.choice((1, 1, 2, 4, 8, 30)))
    kind = rng.randrange(9)
    if kind == 0:
        return data[:at] + data[end:]
    if kind == 1:
        return data[:at] + rng.randbytes(end - at) + data[end:]
    if kind == 2 and at < len(data):
        return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    if kind == 3:
        width = rng.choice((1, 2, 4, 8))
        number = rng.choice(_NUMBERS) + rng.randrange(-1, 2) & (1 << 8 * width) - 1
        return data[:at] + number.to_bytes(width, rng.choice(("little", "big"))) + data[at + width :]
    if kind == 4:
        return data[:at] + data[at:end] * rng.choice((2, 3, 50, 1000)) + data[end:]
    if kind == 5:
        other = rng.choice(target.samples)
        start = rng.randrange(len(other) + 1)
        return data[:at] + other[start : start + rng.choice((1, 8, 100))] + data[end:]
    if kind == 6:
        return data[:at]
    words = (*target.words, *target.words, *_TEXTS)
    return data[:at] + rng.choice(words) + data[end if kind == 7 else at :]


def inputs(target: Target, seed: int, count: int) -> Iterator[bytes]:
    """Yield the samples, then `count` changed ones that depend on nothing but the seed."""
    yield from target.samples
    rng = random.Random(f"{target.name} {seed}")
    for _ in range(count):
        yield mutated(target, rng, rng.choice(target.samples))


def run_all(target: Target, given: Iterable[bytes]) -> tuple[int, int]:
    """Check every input; return how many were accepted and how many refused."""
    accepted = refused = 0
    for data in given:
        if check(target, data):
            accepted += 1
        else:
            refused += 1
    return accepted, refused
