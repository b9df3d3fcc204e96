"""Rescales beside compactions, on this project and on Paimon.

Each round loads a table with upserts, compacts it, doubles its buckets, reads it and writes to it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median

from benchmarks.engines import PEERS, Engine
from benchmarks.session import Cost, EngineFailedError, EngineSession
from benchmarks.workload import BUCKETS, INSERT, Data, queries

COMPACT, RESCALE = "compact", "rescale"
SCAN, WRITE = "scan after the rescale", "upsert after the rescale"
_BUCKETS_AFTER = 2 * BUCKETS
_UPSERTS = ("upsert1", "upsert2")
_WIDEN = f"ALTER TABLE {{t}} SET TBLPROPERTIES ('bucket' = '{_BUCKETS_AFTER}')"
_RESCALE = f"CALL paimon.sys.rescale(table => '{{name}}', bucket_num => {_BUCKETS_AFTER})"


@dataclass(slots=True)
class Rescales:
    """The costs of each step by engine, what a peer cannot do, and failures."""

    rows: int = 0
    costs: dict[str, dict[str, list[Cost]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def as_figures(self) -> dict[str, object]:
        """Return the figures for the file of results: medians of the rounds."""
        steps = {
            engine: {
                step: {
                    "cpu": median(c.cpu for c in found),
                    "wall": median(c.wall for c in found),
                    "python": max(c.python for c in found),
                    "rounds": len(found),
                }
                for step, found in by_step.items()
            }
            for engine, by_step in self.costs.items()
        }
        return {"rows": self.rows, "buckets": [BUCKETS, _BUCKETS_AFTER], "steps": steps, "notes": self.notes}

    def as_text(self) -> list[str]:
        """Return the table for the terminal."""
        names = [name for name in PEERS if name in self.costs]
        lines = [f"  {'':<26}" + "".join(f"{name:>22}" for name in names)]
        for step in (COMPACT, RESCALE, SCAN, WRITE):
            cells = [_cell(self.costs[name].get(step, [])) for name in names]
            lines.append(f"  {step:<26}" + "".join(f"{cell:>22}" for cell in cells))
        return [*lines, *(f"  NOTE {note}" for note in self.notes)]


def _cell(costs: Sequence[Cost]) -> str:
    return f"{median(c.cpu for c in costs):.2f} ({median(c.wall for c in costs):.2f})" if costs else "-"


def measure(
    sessions: Sequence[EngineSession], data: Data, report: Callable[[str], None], *, rounds: int, warm: Data
) -> Rescales:
    """Run the rounds on the engines that have rescales, each round beginning with another engine.

    The first round warms up. An engine ends its round with the first step that fails. For a peer this is a note: some
    releases of Paimon have no rescale, or refuse to write to the table after it.
    """
    found = Rescales(data.rows)
    chosen = [s for s in sessions if s.engine.name in PEERS]
    for number in range(rounds + 1):
        turn = number % max(1, len(chosen))
        costs = {s.engine.name: _round(s, data if number else warm, found) for s in (*chosen[turn:], *chosen[:turn])}
        answers = {name: of[SCAN].rows for name, of in costs.items() if SCAN in of}
        if len(set(answers.values())) > 1:
            found.failures.append(f"{SCAN}: answers differ: {answers}")
        for name, of in costs.items() if number else ():
            for step, cost in of.items():
                found.costs.setdefault(name, {}).setdefault(step, []).append(cost)
        report(f"  rescale and compact, {f'round {number} of {rounds}' if number else 'a round that warms up'}")
    return found


def _round(session: EngineSession, data: Data, found: Rescales) -> dict[str, Cost]:
    """Run one round, and return the costs of the steps that succeeded."""
    step, costs = "load", {}
    table = f"{session.engine.database}_rescaled.t"
    try:
        for step, prepare, statements in _steps(session.engine, table, data):
            session.run(*prepare)
            if statements:
                costs[step] = session.run(*statements)
    except EngineFailedError as e:
        words = found.failures if session.engine.name == PEERS[0] else found.notes
        words += [text for text in [f"{step}: {e}"] if text not in words]
    with suppress(EngineFailedError):
        session.run(f"DROP TABLE IF EXISTS {table}")
    return costs


def _steps(engine: Engine, table: str, data: Data) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
    """Yield each step with the statements before it and the measured ones."""
    bare = table.partition(".")[2]

    def insert(source: str) -> str:
        return INSERT.format(t=table, source=data.source(source))

    start = [f"CREATE DATABASE IF NOT EXISTS {table.rpartition('.')[0]}", engine.create.format(t=table)]
    yield "load", [*start, insert("load"), *map(insert, _UPSERTS)], ()
    yield COMPACT, (), [s.format(name=bare) for s in engine.compact]
    yield RESCALE, [_WIDEN.format(t=table)], [_RESCALE.format(name=bare)]
    yield SCAN, (), [next(q.text for q in queries(data) if q.name == "scan").format(t=table)]
    yield WRITE, (), [insert("upsert3")]
