"""A few seconds of what `make fuzz` does for hours, and every input that was ever taken wrongly."""

from __future__ import annotations

import contextlib
import random
import subprocess
from pathlib import Path

import pytest

from paimon_spark.errors import ArgumentError, PaimonError
from tests.fuzz import harness, run
from tests.fuzz.harness import KEPT, Finding, Limits, Target
from tests.fuzz.targets import BY_NAME, TARGETS

COUNT = 100
SEED = 20261121
REGRESSIONS = sorted(KEPT.rglob("*.bin"))


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_samples_are_accepted(target: Target) -> None:
    for data in target.samples:
        assert harness.check(target, data), data


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_changed_samples_are_refused_or_understood(target: Target) -> None:
    accepted, refused = harness.run_all(target, harness.inputs(target, SEED, COUNT))
    assert accepted >= len(target.samples)
    assert accepted + refused == COUNT + len(target.samples)


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_inputs_that_were_once_taken_wrongly(path: Path) -> None:
    harness.check(BY_NAME[path.parent.name], path.read_bytes())


def test_inputs_depend_on_the_seed_alone() -> None:
    for target in TARGETS:
        once, again, other = (list(harness.inputs(target, seed, 20)) for seed in (1, 1, 2))
        assert once == again
        assert once != other


def _crash(_: bytes) -> None:
    raise KeyError("x")


def _refuse_everything(data: bytes) -> None:
    raise ArgumentError(repr(data))


def _run_forever(_: bytes) -> None:
    while True:
        with contextlib.suppress(Exception):  # what a careless parser does
            sum(range(1000))


def _hide_hunger(_: bytes) -> None:
    try:
        raise MemoryError
    except MemoryError as e:
        raise PaimonError("too large") from e


def _accept_wrongly(_: bytes) -> None:
    raise AssertionError("came back as another")


@pytest.mark.parametrize(
    ("run", "what"),
    [
        (_crash, "KeyError"),
        (_run_forever, "CPU time"),
        (_hide_hunger, "memory"),
        (_accept_wrongly, "came back as another"),
    ],
)
def test_the_harness_finds_what_it_looks_for(run: harness.Callable[[bytes], None], what: str, tmp_path: Path) -> None:
    limits = Limits(cpu_seconds=0.2, saved=tmp_path)
    with pytest.raises(Finding, match=what) as found:
        harness.check(Target("planted", run, [b"input"]), b"input", limits)
    assert found.value.path.read_bytes() == b"input"
    assert str(found.value.path) in str(found.value)


def test_a_refusal_is_no_finding() -> None:
    assert not harness.check(Target("planted", _refuse_everything, [b"x"]), b"x")


def test_mutations_reach_all_of_an_input() -> None:
    target = Target("planted", _refuse_everything, [b"abcdefgh"])
    rng = random.Random(1)
    seen = {harness.mutated(target, rng, b"abcdefgh") for _ in range(2000)}
    assert len(seen) > 1000
    assert all(any(len(s) > i and s[i : i + 1] != b"abcdefgh"[i : i + 1] for s in seen) for i in range(8))


def test_a_process_that_hangs_is_ended_a_slow_one_is_not(tmp_path: Path) -> None:
    current = tmp_path / "current"
    current.write_bytes(b"input")
    for command, seconds, code in (("sleep 60", 0, -9), ("sleep 6; exit 3", 60, 3)):
        with subprocess.Popen(["sh", "-c", f"exec {command}" if seconds == 0 else command]) as process:
            assert run.awaited(process, current, seconds) == code
