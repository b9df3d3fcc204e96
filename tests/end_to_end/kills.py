"""Kill the processes of a Spark program at random moments, and look at its tables after each death."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from queue import Empty, SimpleQueue
from random import Random
from threading import Thread

from paimon_spark.api.table import TableHandle
from paimon_spark.testing.invariants import leaked
from paimon_spark.testing.ledger import Account
from paimon_spark.testing.processes import KINDS, create_trial_table, ledger_path
from paimon_spark.testing.trials_of_processes import faults_at_rest, faults_of_cleaning
from tests.conftest import SESSION
from tests.end_to_end.loop import ANSWER, OPTIONS
from tests.end_to_end.programs import ROOT, spark_environ

ENGINE, WORKER, JVM = "engine", "worker", "jvm"
ACTIONS = "write,write,write,delete,compact,compact,expire"
_PATIENCE_SECONDS = 600
_LIFE_SECONDS = {ENGINE: 2.0, WORKER: 1.0, JVM: 2.5}
_REST_SECONDS = 2.0
"""For how long at most a worker still writes when its engine has died."""
_ABORT_SECONDS = 30.0
"""For how long at most the other workers of a statement clean up when it has failed."""
_LONE = "local[2]"
_RETRYING = "local[2,4]"


class Program:
    """`loop.py` as a process, and the processes that it has started."""

    def __init__(
        self,
        warehouses: str | Path,
        place: Path,
        master: str,
        number: int = 1,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Start it, without waiting; `options` of the catalogs open the store that the warehouses are on."""
        self.master = master
        self.log = place / f"program-{number}.log"
        settings = {k: v for k, v in SESSION.items() if k != "spark.master"}
        settings["spark.driver.extraJavaOptions"] = "-XX:TieredStopAtLevel=1"
        arguments = " ".join(f"--conf {k}={v}" for k, v in settings.items())
        loop = [sys.executable, "-m", "tests.end_to_end.loop", str(warehouses), str(place), master, str(number)]
        path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH", "")) if p)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                loop,
                cwd=place,
                env=spark_environ()
                | {
                    "PYTHONPATH": path,
                    "PYSPARK_SUBMIT_ARGS": f"{arguments} pyspark-shell",
                    OPTIONS: json.dumps(dict(options or {})),
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
            )
        self._answers: SimpleQueue[str] = SimpleQueue()
        Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            if line.startswith(ANSWER):
                self._answers.put(line[len(ANSWER) :].rstrip("\n"))
        self._answers.put("dead")

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")

    def speaks(self, until: float) -> bool:
        """Wait for an answer, but not longer than until a moment of the monotonic clock; return whether there is one."""
        while self._answers.empty() and time.monotonic() < until:
            time.sleep(0.05)
        return not self._answers.empty()

    def hear(self, what: str) -> str:
        """Wait for an answer that begins with a word, and return the rest of it."""
        try:
            answer = self._answers.get(timeout=_PATIENCE_SECONDS)
        except Empty:
            raise AssertionError(f"no answer within {_PATIENCE_SECONDS} s\n{self._last_words()}") from None
        assert answer.startswith(what), f"'{answer}' instead of '{what}'\n{self._last_words()}"
        return answer[len(what) :].strip()

    def _last_words(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-4000:]

    def descendants(self) -> dict[int, str]:
        """Return the commands of all processes below this one, by id."""
        return descendants_of(self._process.pid)

    def pids(self, role: str) -> list[int]:
        """Return the processes of a role: the JVM, its engine, or the Python workers of tasks."""
        return pids_of(self._process.pid, role)

    def end(self) -> None:
        """Let it end by itself; what remains after that is killed."""
        below = self.descendants()
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.await_gone(below)

    def await_gone(self, below: dict[int, str]) -> None:
        """Wait until processes are gone, each of which ends by itself when its parent dies."""
        limit = time.monotonic() + _PATIENCE_SECONDS
        while left := [c for pid, c in below.items() if _processes().get(pid, (0, ""))[1] == c]:
            assert time.monotonic() < limit, f"still there: {left}"
            time.sleep(0.1)


def descendants_of(process: int) -> dict[int, str]:
    """Return the commands of all processes below one, by id."""
    parents, found, new = _processes(), dict[int, str](), {process}
    while new:
        new = {pid for pid, (parent, _) in parents.items() if parent in new}
        found |= {pid: parents[pid][1] for pid in new}
    return found


def pids_of(process: int, role: str) -> list[int]:
    """Return the processes of a role below one: the JVM, its engine, or the Python workers of tasks."""
    parents, below = _processes(), descendants_of(process)
    if role == WORKER:
        daemons = {pid for pid, command in below.items() if "pyspark.daemon" in command}
        return [pid for pid in daemons if parents.get(pid, (0, ""))[0] in daemons]
    marks = {ENGINE: "paimon_spark.bridge", JVM: "org.apache.spark.deploy.SparkSubmit"}
    return [pid for pid, command in below.items() if marks[role] in command and "bash" not in command.split()[0]]


def _processes() -> dict[int, tuple[int, str]]:
    """Return parent and command of every process that is not dead."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if state != "Z" and command:
                found[int(entry.name)] = (int(parent), command)
    return found


@dataclass
class RunStats:
    """What a trial did."""

    killed: Counter[str] = field(default_factory=Counter)
    hit: Counter[str] = field(default_factory=Counter)
    """Kills that a statement noticed, by role."""
    acknowledged: int = 0
    statements: int = 0
    seconds: float = 0

    def __str__(self) -> str:
        kills = ", ".join(f"{n} {role}s" for role, n in self.killed.items())
        hits = " and ".join(f"{n} {role}s" for role, n in self.hit.items())
        return f"killed {kills}, of which {hits} failed a statement; {self.statements} statements and {self.acknowledged} writes acknowledged"


class Trial:
    """Tables of all kinds, and a program to be killed."""

    def __init__(self, place: Path, seed: int) -> None:
        """Create the tables."""
        self._place, self._warehouses, self._random = place, place / "warehouses", Random(seed)
        self._tables: dict[str, TableHandle] = {}
        for kind in KINDS:
            (place / kind).mkdir()
            self._tables[kind] = create_trial_table(str(self._warehouses / kind), kind)
        self.tally = RunStats()

    def run(self, *, engines: int, workers: int, jvms: int) -> RunStats:
        """Kill so many of each, in a random order; the program is started again when its JVM was killed."""
        started, lives = time.monotonic(), max(jvms, 1)
        cheap = [ENGINE] * engines + [WORKER] * workers
        self._random.shuffle(cheap)
        for life in range(lives):
            program = Program(self._warehouses, self._place, _RETRYING if life % 3 == 2 else _LONE)
            program.hear("ready")
            for kind in KINDS:
                self._write_one(program, kind)
            for before, role in pairwise([WORKER, *cheap[life::lives]]):
                if (before, role) == (ENGINE, WORKER):
                    time.sleep(_REST_SECONDS)
                self._kill_one(program, role)
            if jvms:
                self._kill_jvm(program)
            else:
                program.end()
        self._settle()
        self.tally.seconds = time.monotonic() - started
        return self.tally

    def _write_one(self, program: Program, kind: str) -> None:
        """Write one batch that nothing disturbs."""
        program.tell(f"go {kind} 0 write")
        program.hear("begun")
        program.tell("stop")
        done, _, failure = program.hear("over").partition(" ")
        assert not failure, failure
        self.tally.statements += int(done)

    def _kill_one(self, program: Program, role: str) -> None:
        kind = self._random.choice(sorted(KINDS))
        before = leaked(self._tables[kind].load())
        self._begin(program, kind)
        self._wait_and_kill(program, role)
        program.tell("stop")
        done, _, failure = program.hear("over").partition(" ")
        self.tally.statements += int(done)
        self.tally.hit[role] += bool(failure)
        _check_failure(role, failure)
        self._look(kind, f"{role} {self.tally.killed[role]}: {failure}")
        if role == WORKER and program.master == _LONE:
            limit = time.monotonic() + _ABORT_SECONDS
            while left := leaked(self._tables[kind].load()) - before:
                assert time.monotonic() < limit, f"a failed statement leaves {sorted(left)[:3]}: {failure}"
                time.sleep(0.1)

    def _kill_jvm(self, program: Program) -> None:
        kind = self._random.choice(sorted(KINDS))
        below = program.descendants()
        self._begin(program, kind)
        self._wait_and_kill(program, JVM)
        program.hear("dead")
        program.end()
        program.await_gone(below)
        self._look(kind, f"{JVM} {self.tally.killed[JVM]}")

    def _begin(self, program: Program, kind: str) -> None:
        program.tell(f"go {kind} {self._random.randrange(1 << 30)} {ACTIONS}")
        program.hear("begun")

    def _wait_and_kill(self, program: Program, role: str) -> None:
        time.sleep(self._random.random() * _LIFE_SECONDS[role])
        limit = time.monotonic() + _PATIENCE_SECONDS
        while not (alive := program.pids(role)):
            assert time.monotonic() < limit, f"there is no {role}"
            time.sleep(0.01)
        try:
            os.kill(self._random.choice(sorted(alive)), signal.SIGKILL)
        except ProcessLookupError:  # a worker that has just ended
            self._wait_and_kill(program, role)
        else:
            self.tally.killed[role] += 1

    def _look(self, kind: str, moment: str) -> None:
        faults = faults_at_rest(self._tables[kind], self._account(kind))
        assert not faults, f"after {moment}, {kind}: {faults}"

    def _account(self, kind: str) -> Account:
        return Account.of([ledger_path(self._place / kind, 1)])

    def _settle(self) -> None:
        """Clean up, and look once more."""
        for kind, table in self._tables.items():
            faults = faults_of_cleaning(table) + faults_at_rest(table, self._account(kind))
            assert not faults, f"in the end, {kind}: {faults}"
            self.tally.acknowledged += self._account(kind).acknowledged


def _check_failure(role: str, failure: str) -> None:
    """A statement may fail only with a code for its cause."""
    expected = {ENGINE: "ENGINE_FAILED", WORKER: "WORKER_FAILED"}
    assert not failure or expected[role] in failure, failure
