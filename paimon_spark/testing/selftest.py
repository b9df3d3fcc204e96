"""The self-test for users: runs the trials of this package on their machine and store, with their seed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from paimon_spark.errors import PaimonError
from paimon_spark.fs.resolve import file_io_for
from paimon_spark.testing.faults import Mode
from paimon_spark.testing.history import History, random_step
from paimon_spark.testing.processes import KINDS as TABLE_KINDS
from paimon_spark.testing.scenarios import KINDS, SCENARIOS
from paimon_spark.testing.trials import Prepared, numbers, prepare, trial
from paimon_spark.testing.trials_of_processes import concurrency_trial, crash_loop

_STEPS = 25
_FAULTS = 10
_KILLS = 3
_WRITERS = 4
_TRIAL_SECONDS = 3.0


@dataclass(slots=True)
class RunStats:
    """Counters, complaints and duration of one part of a run."""

    counts: dict[str, int] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    seconds: float = 0

    def add(self, what: str, n: int) -> None:
        """Add to a counter."""
        self.counts[what] = self.counts.get(what, 0) + n

    @property
    def summary(self) -> str:
        """Return the counters as text."""
        return ", ".join(f"{n} {what}" for what, n in self.counts.items())


@dataclass(frozen=True, slots=True)
class TimeBudget:
    """The context of one turn of a part: random generator, empty directories, and end time.

    Attributes:
        directory: local directory for ledgers.
        warehouse: location of the tables.
        options: catalog options of the warehouse.
    """

    random: Random
    directory: Path
    warehouse: str
    options: Mapping[str, str]
    name: str
    until: float


Part = Callable[[TimeBudget, RunStats], None]


def histories(turn: TimeBudget, stats: RunStats) -> None:
    """Execute random operations on a table and compare it with a model after each."""
    random, kind = turn.random, turn.random.choice(sorted(KINDS))
    options = {"file.format": random.choice(["parquet", "orc"]), "num-sorted-run.compaction-trigger": "3"}
    store = file_io_for(turn.warehouse, turn.options) if random.random() < 0.2 else None
    history = History(
        kind,
        file_io=store,
        warehouse=turn.warehouse,
        threads=random.choice([1, 3]),
        options=options,
    )
    done: list[str] = []
    stats.add("tables", 1)
    for _ in range(_STEPS):
        done.append(random_step(history, random))
        stats.add("steps", 1)
        found = history.complaints()
        if found:
            stats.complaints.append(f"{turn.name}, {kind}: after {' / '.join(done)}: {found[0]}")
            return
        if store is not None and time.monotonic() >= turn.until:
            return  # a remote store is slow


def faults(turn: TimeBudget, stats: RunStats) -> None:
    """Inject faults into single operations of a scenario."""
    random = turn.random
    name = random.choice(sorted(SCENARIOS))
    prepared = _prepared(name)
    for _ in range(_FAULTS):
        mode = random.choice([m for m in Mode if m is not Mode.SLOW])
        possible = numbers(prepared, mode)
        if not possible:
            continue
        found = trial(prepared, random.choice(possible), mode)
        stats.add("operations made to fail", 1)
        stats.complaints += (f"{turn.name}, {name}: {mode} ({found.fired}): {c}" for c in found.complaints)


def kills(turn: TimeBudget, stats: RunStats) -> None:
    """Repeatedly kill a process that writes, compacts and expires."""
    kind = turn.random.choice(sorted(TABLE_KINDS))
    seed = turn.random.randrange(1 << 30)
    outcome = crash_loop(
        turn.warehouse, turn.directory, kind=kind, kills=_KILLS, seed=seed, options=turn.options, until=turn.until
    )
    stats.add("processes killed", outcome.kills)
    stats.add("acknowledged writes", outcome.acknowledged)
    stats.complaints += (f"{turn.name}, {kind}: {c}" for c in outcome.complaints)


def concurrency(turn: TimeBudget, stats: RunStats) -> None:
    """Run concurrent processes on one table."""
    kind = turn.random.choice(sorted(TABLE_KINDS))
    outcome = concurrency_trial(
        turn.warehouse, turn.directory, kind=kind, writers=_WRITERS, seconds=_TRIAL_SECONDS, options=turn.options
    )
    stats.add("trials", 1)
    stats.add("acknowledged writes", outcome.acknowledged)
    stats.add("snapshots", outcome.snapshots)
    stats.complaints += (f"{turn.name}, {kind}: {c}" for c in outcome.complaints)


PARTS: Mapping[str, Part] = {"histories": histories, "faults": faults, "kills": kills, "concurrency": concurrency}
_READY: dict[str, Prepared] = {}


def _prepared(name: str) -> Prepared:
    if name not in _READY:
        _READY[name] = prepare(SCENARIOS[name])
    return _READY[name]


def selftest(
    seed: int,
    seconds: float,
    directory: Path,
    parts: Mapping[str, Part] = PARTS,
    clock: Callable[[], float] = time.monotonic,
    *,
    location: str | None = None,
    options: Mapping[str, str] | None = None,
) -> dict[str, RunStats]:
    """Run all parts at least once, then the part with the least total time, until the time is up.

    Args:
        seed: random seed; fixes everything except OS scheduling.
        seconds: duration.
        directory: a local directory; each turn has a directory of its own in it.
        parts: parts to run.
        clock: returns seconds.
        location: location of the tables; below `directory` by default.
        options: catalog options of `location`.
    """
    base = str(directory) if location is None else location.rstrip("/")
    tallies = {name: RunStats() for name in parts}
    turns = dict.fromkeys(parts, 0)
    until = clock() + seconds
    while clock() < until or not all(turns.values()):
        name = min(parts, key=lambda p: (turns[p] > 0, tallies[p].seconds))
        turns[name] += 1
        turn_name = f"{name} {turns[name]} of seed {seed}"
        fresh = f"{name}-{turns[name]}"
        own = directory / fresh
        own.mkdir(parents=True, exist_ok=True)
        turn = TimeBudget(Random(turn_name), own, f"{base}/{fresh}/warehouse", options or {}, turn_name, until)
        began, stats = clock(), tallies[name]
        try:
            parts[name](turn, stats)
        except PaimonError as e:
            stats.complaints.append(f"{turn_name}: {e}")
        stats.seconds += clock() - began
    return tallies


def report_lines(tallies: Mapping[str, RunStats]) -> list[str]:
    """Return the report: one line per part, then all complaints."""
    width = max(map(len, tallies))
    wide = max(len(t.summary) for t in tallies.values())
    lines = []
    for name, t in tallies.items():
        verdict = f"{len(t.complaints)} wrong" if t.complaints else "ok"
        lines.append(f"{name:<{width}}  {t.summary:<{wide}}  {t.seconds:6.1f} s  {verdict}")
    complaints = [c for t in tallies.values() for c in t.complaints]
    if not complaints:
        return [*lines, "", "Nothing was lost, nothing was half visible."]
    return [*lines, "", *complaints]
