"""Many commits to one table with default options: the cost of the same statements before and after them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.engines import PEERS
from benchmarks.latency import database, filled
from benchmarks.session import EngineFailedError, EngineSession

COMMITS = 1_000
ROWS = 100
REPEATS = 20
TARGET = 1.3
"""Maximum cost of a statement after the commits, relative to its cost before them."""
_BATCH = 50
_FIRST = 20
"""Number of commits of the warm-up, before the first measurement."""
_CREATE = "CREATE TABLE {db}.many (id BIGINT NOT NULL, name STRING, amount DOUBLE) TBLPROPERTIES ('primary-key' = 'id')"
_INSERT = (
    "INSERT INTO {db}.many SELECT id * 7919 % 100003, concat('row ', id), id * 0.5 "
    f"FROM range({{n}} * {ROWS}, {{n}} * {ROWS} + {ROWS})"
)
_KEY = f"{{n}}L % {_FIRST * ROWS} * 7919 % 100003"
"""The key of a row that is there from the warm-up on."""
STATEMENTS: Mapping[str, str] = {
    "INSERT of 100 rows": _INSERT,
    "lookup of a key": f"SELECT * FROM {{db}}.many WHERE id = {_KEY}",
    "sum over the table": "SELECT sum(amount) FROM {db}.many WHERE id > {n}",
    "count(*)": "SELECT count(*) FROM {db}.many",
    "UPDATE of a row": f"UPDATE {{db}}.many SET amount = amount + 1 WHERE id = {_KEY}",
    "DESCRIBE": "DESCRIBE {db}.many",
}


@dataclass(frozen=True, slots=True)
class Growth:
    """Milliseconds of a statement before and after the commits: median of the wall times, CPU on average."""

    wall: tuple[float, float]
    cpu: tuple[float, float]

    @property
    def ratio(self) -> float:
        """Return the CPU cost after the commits relative to that before."""
        return self.cpu[1] / self.cpu[0] if self.cpu[0] else 0.0


@dataclass(slots=True)
class Growths:
    """Measurements by statement and engine, and failures."""

    commits: int = 0
    found: dict[str, dict[str, Growth]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def as_figures(self) -> dict[str, object]:
        """Return the figures for the file of results, in milliseconds."""
        rows = {
            name: {e: {"wall": g.wall, "cpu": g.cpu, "ratio": g.ratio} for e, g in by_engine.items()}
            for name, by_engine in self.found.items()
        }
        return {"commits": self.commits, "statements": rows}

    def as_text(self) -> list[str]:
        """Return the table for the terminal."""
        lines = []
        for name, by_engine in self.found.items():
            cells = "".join(
                f"{f'{g.wall[0]:.0f} to {g.wall[1]:.0f} ({g.cpu[0]:.0f} to {g.cpu[1]:.0f}) {g.ratio:.2f}':>36}"
                for g in by_engine.values()
            )
            own = by_engine.get(PEERS[0])
            word = f"   {'reached' if own.ratio <= TARGET else 'missed'}" if own else ""
            lines.append(f"  {name:<22}{cells}{word}")
        return lines


def measure(sessions: Sequence[EngineSession], report: Callable[[str], None], *, commits: int = COMMITS) -> Growths:
    """Make the commits on the engines that can, and measure the statements before and after them."""
    found = Growths(commits)
    for session in sessions:
        if session.engine.name in PEERS:
            try:
                _measure(session, found, commits)
            except EngineFailedError as e:
                found.failures.append(f"{commits} commits: {e}")
            report(f"  {commits} commits on {session.engine.label}")
    return found


def _measure(session: EngineSession, found: Growths, commits: int) -> None:
    session.run(f"CREATE DATABASE IF NOT EXISTS {database(session)}", filled(session, _CREATE))
    session.each(_texts(session, _INSERT, range(_FIRST)))
    _all(session, 1_000_000)
    before = _all(session, 2_000_000)
    for first in range(_FIRST, commits, _BATCH):
        session.each(_texts(session, _INSERT, range(first, min(first + _BATCH, commits))))
    after = _all(session, 3_000_000)
    for name in STATEMENTS:
        (wall, cpu), (late_wall, late_cpu) = before[name], after[name]
        found.found.setdefault(name, {})[session.engine.name] = Growth((wall, late_wall), (cpu, late_cpu))
    session.run(f"DROP DATABASE {database(session)} CASCADE")


def _all(session: EngineSession, start: int) -> dict[str, tuple[float, float]]:
    """Return for each statement the median of the wall milliseconds, and CPU milliseconds on average."""
    found = {}
    for name, text in STATEMENTS.items():
        wall, cpu = session.each(_texts(session, text, range(start, start + REPEATS)))
        found[name] = (1000 * median(wall), 1000 * cpu / REPEATS)
    return found


def _texts(session: EngineSession, text: str, numbers: range) -> list[str]:
    return [filled(session, text, n) for n in numbers]
