"""Fuzz every target for some minutes: ``python -m tests.fuzz.run --minutes 10 [target …]``; ``--replay FILE`` runs one input.

Each target runs in a process of its own, guided by coverage where atheris is installed, else by seeded mutation. A process
that dies or hangs is a finding too: what it was working on is kept beside its findings.
"""

from __future__ import annotations

import argparse
import importlib.util
import mmap
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SAVED = ROOT / "build" / "fuzz"
ADDRESS_SPACE = 4 << 30
GRACE = 300
_HEAD = 8
_ROOM = 1 << 17


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the targets of the arguments; return 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--plain", action="store_true", help="do not use atheris even if it is there")
    parser.add_argument("--replay", type=Path)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.replay:
        return _replay(given.replay)
    if given.child:
        return _child(given)
    known = _names()
    names = given.targets or known
    if unknown := set(names) - set(known):
        parser.error(f"there is no target {', '.join(sorted(unknown))}; the targets are {', '.join(sorted(known))}")
    guided = not given.plain and importlib.util.find_spec("atheris") is not None
    print(
        f"{len(names)} targets, {given.minutes} minutes each, {'atheris' if guided else f'seed {given.seed}'}",
        flush=True,
    )
    with ThreadPoolExecutor(given.processes) as pool:
        return int(any(list(pool.map(lambda n: _parent(n, given, guided=guided), names))))


def _names() -> list[str]:
    from tests.fuzz.targets import TARGETS

    return [t.name for t in TARGETS]


def _replay(path: Path) -> int:
    """Run one saved input; its directory is the target's name."""
    from tests.fuzz.harness import Finding, check
    from tests.fuzz.targets import BY_NAME

    try:
        accepted = check(BY_NAME[path.parent.name], path.read_bytes())
    except Finding as e:
        import traceback

        traceback.print_exception(e)
        return 1
    print(f"{path}: {'accepted' if accepted else 'refused'}, as it should be")
    return 0


def _parent(name: str, given: argparse.Namespace, *, guided: bool) -> bool:
    """Fuzz one target in a separate process; return whether there was a finding."""
    place = SAVED / name
    place.mkdir(parents=True, exist_ok=True)
    current = place / "current"
    current.write_bytes(bytes(_HEAD + _ROOM))
    options = ["--minutes", str(given.minutes), "--seed", str(given.seed), *(() if guided else ("--plain",))]
    command = [sys.executable, "-m", "tests.fuzz.run", "--child", *options, name]
    log = place / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT)
        code = awaited(process, current, GRACE)
    text = log.read_text(errors="replace")
    lines = [line for line in text.splitlines() if line.startswith(("input", "replay", "runs", "Done ", f"{name}: "))]
    if code == 0:
        print(f"{name}: nothing found; {(lines or ['?'])[-1]}", flush=True)
        return False
    if not any(line.startswith("replay") for line in lines):
        kept = place / f"died-{code}.bin"
        raw = current.read_bytes()
        kept.write_bytes(raw[_HEAD : _HEAD + int.from_bytes(raw[:_HEAD], "little")])
        lines = [f"{name}: the process ended with code {code}; see {log}", f"replay: make replay INPUT={kept}"]
    print("\n".join(dict.fromkeys(lines)), flush=True)
    return True


def awaited(process: subprocess.Popen[bytes], current: Path, grace: float) -> int:
    """Wait for a process, however busy the machine is; kill it when what it works on has not changed for too long."""
    known, since = b"", time.monotonic()
    while True:
        try:
            return process.wait(5)
        except subprocess.TimeoutExpired:
            now = current.read_bytes()
        if now != known:
            known, since = now, time.monotonic()
        elif time.monotonic() - since > grace:
            process.kill()


def _child(given: argparse.Namespace) -> int:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    name = given.targets[0]
    if not given.plain:
        return _guided(name, given)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    from tests.fuzz.harness import check, mutated
    from tests.fuzz.targets import BY_NAME

    target, note = BY_NAME[name], _Note(name)
    rng = random.Random(f"{name} {given.seed}")
    known, end, runs = list(target.samples), time.monotonic() + given.minutes * 60, 0
    while time.monotonic() < end:
        data = mutated(target, rng, rng.choice(known))
        note.write(data)
        if check(target, data) and len(data) < 4096:
            known = [*known[-500:], *target.samples, data] if len(known) > 1000 else [*known, data]
        runs += 1
    print(f"runs: {runs}")
    return 0


def _guided(name: str, given: argparse.Namespace) -> int:
    import atheris

    with atheris.instrument_imports(include=["paimon_spark"]):
        from tests.fuzz.harness import Finding, check, mutated
        from tests.fuzz.targets import BY_NAME

    target, note, runs = BY_NAME[name], _Note(name), [0]
    corpus = SAVED / name / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for i, data in enumerate(target.samples):
        (corpus / f"sample-{i}").write_bytes(data)

    def one(data: bytes) -> None:
        runs[0] += 1
        note.write(data)
        try:
            check(target, data)
        except Finding as e:
            print(e, flush=True)
            os._exit(1)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < 0.5:
            return bytes(atheris.Mutate(data, most))[:most]
        return mutated(target, rng, data)[:most]

    options: list[Any] = [
        f"-max_total_time={int(given.minutes * 60)}",
        f"-seed={given.seed % 2**31}",
        "-timeout=60",
        "-rss_limit_mb=3000",
        "-max_len=65536",
        f"-artifact_prefix={SAVED / name}/atheris-",
        str(corpus),
    ]
    atheris.Setup([sys.argv[0], *options], one, custom_mutator=mutate)
    atheris.Fuzz()
    return 0


class _Note:
    """Where a process writes what it is working on, so that it is known even if the process dies."""

    def __init__(self, name: str) -> None:
        with (SAVED / name / "current").open("r+b") as f:
            self._map = mmap.mmap(f.fileno(), _HEAD + _ROOM)

    def write(self, data: bytes) -> None:
        data = data[:_ROOM]
        self._map[: _HEAD + len(data)] = len(data).to_bytes(_HEAD, "little") + data


if __name__ == "__main__":
    raise SystemExit(main())
