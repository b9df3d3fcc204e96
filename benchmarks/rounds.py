"""The rounds of the benchmark: every step on every engine in turn, the answers compared."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.commits import Growths
from benchmarks.connections import Rates
from benchmarks.engines import Engine
from benchmarks.latency import Latencies
from benchmarks.rescales import Rescales
from benchmarks.session import Cost, EngineFailedError, EngineSession
from benchmarks.streams import Streams
from benchmarks.workload import DELETE, INSERT, TRAVEL, UPSERTS, Data, queries

BEFORE = "before compaction"
AFTER = "after compaction"
_DROP = "DROP TABLE IF EXISTS {t}"
MARKING = "delete by deletion vectors"


@dataclass(frozen=True, slots=True)
class Tables:
    """The names of a round's table and of the table that it is joined with, and the version after the load."""

    database: str
    number: int
    data: Data
    version: str = ""

    def fill(self, statement: str, source: str = "") -> str:
        """Return a statement with the names put in."""
        table = f"{self.database}.t{self.number}"
        return statement.format(
            t=table,
            u=f"{self.database}.other",
            name=table.partition(".")[2],
            source=self.data.source(source),
            final=self.data.source("final"),
            version=self.version,
        )


@dataclass(frozen=True, slots=True)
class Step:
    """A step: unmeasured statements, then measured ones; `answered` if all engines must return equal rows."""

    name: str
    prepare: Callable[[Engine, Tables], Sequence[str]]
    measure: Callable[[Engine, Tables], Sequence[str]]
    answered: bool = False


def _nothing(_engine: Engine, _tables: Tables) -> Sequence[str]:
    return ()


def steps(data: Data) -> Iterator[Step]:
    """Yield the steps of a round, in order; an engine without statements for a step skips it."""
    yield Step("load", lambda e, t: [t.fill(e.create)], lambda _, t: [t.fill(INSERT, "load")])
    for number in range(1, UPSERTS + 1):
        yield _upsert(f"upsert{number}")
    for query in queries(data):
        yield _query(query.name, BEFORE, query.text, only_if=lambda e: e.merges_on_read)
    yield Step("compact", _nothing, lambda e, t: [t.fill(s) for s in e.compact])
    for query in queries(data):
        yield _query(query.name, AFTER, query.text, only_if=lambda _: True)
    yield Step("time travel", _nothing, lambda e, t: [t.fill(TRAVEL)] if e.load_version else (), answered=True)
    yield Step("delete", _nothing, lambda e, t: [t.fill(DELETE)] if e.deletes else ())
    yield Step(MARKING, _marking, lambda e, t: [t.fill(_marked(DELETE))] if e.marking_layout else ())
    yield Step("merge", _nothing, lambda e, t: [t.fill(e.merge, "merge")] if e.merge else ())


def _marking(engine: Engine, tables: Tables) -> Sequence[str]:
    if not engine.marking_layout:
        return ()
    return [tables.fill(_marked(engine.create_marking)), tables.fill(_marked(INSERT), "load")]


def _marked(statement: str) -> str:
    """Return a statement about the table in which a DELETE marks rows."""
    return statement.replace("{t}", "{t}_marking")


def _upsert(source: str) -> Step:
    return Step("upsert", _nothing, lambda e, t: [t.fill(e.upsert, source)])


def _query(name: str, when: str, text: str, only_if: Callable[[Engine], bool]) -> Step:
    return Step(f"{name} {when}", _nothing, lambda e, t: [t.fill(text)] if only_if(e) else (), answered=True)


@dataclass(slots=True)
class Results:
    """Measurements: the costs of each step by engine in the order of the rounds, and failures."""

    costs: dict[str, dict[str, list[Cost]]] = field(default_factory=dict)
    disk: dict[str, list[int]] = field(default_factory=dict)
    startup: dict[str, list[float]] = field(default_factory=dict)
    first: dict[str, dict[str, list[tuple[float, float]]]] = field(default_factory=dict)
    latencies: Latencies = field(default_factory=Latencies)
    growths: Growths = field(default_factory=Growths)
    streams: Streams = field(default_factory=Streams)
    rates: Rates = field(default_factory=Rates)
    rescales: Rescales = field(default_factory=Rescales)
    failures: list[str] = field(default_factory=list)

    def add(self, engine: str, step: str, cost: Cost) -> None:
        """Record the cost of a step on an engine."""
        self.costs.setdefault(engine, {}).setdefault(step, []).append(cost)


class Rounds:
    """The sessions of all engines, and their rounds."""

    def __init__(self, engines: Sequence[Engine], data: Data, work: Path, report: Callable[[str], None]) -> None:
        self._report = report
        self.results = Results()
        self.sessions: list[EngineSession] = []
        for engine in engines:
            report(f"starting {engine.label}")
            session = EngineSession(engine, work / engine.name, work / f"{engine.name}.log")
            self.sessions.append(session)
            tables = Tables(engine.database, 0, data)
            session.run(
                f"CREATE DATABASE {engine.database}",
                tables.fill(engine.create_other),
                tables.fill("INSERT INTO {u} SELECT * FROM {source}", "other"),
            )

    def run(self, number: int, data: Data, *, measured: bool) -> None:
        """Run all steps once; an unmeasured round warms the sessions up."""
        tables = {s.engine.name: Tables(s.engine.database, number, data) for s in self.sessions}
        failed: set[str] = set()
        turn = number % len(self.sessions)
        for step in steps(data):
            answers: dict[str, object] = {}
            for session in self.sessions[turn:] + self.sessions[:turn]:
                name = session.engine.name
                if name in failed:
                    continue
                try:
                    cost = self._step(session, step, tables)
                except EngineFailedError as e:
                    failed.add(name)
                    self.results.failures.append(f"{step.name}: {e}")
                    self._report(f"  {step.name}: {e}")
                    continue
                if cost is None:
                    continue
                answers[name] = cost.rows
                if measured:
                    self.results.add(name, step.name, cost)
            if step.answered and len(set(answers.values())) > 1:
                self.results.failures.append(f"{step.name}: answers differ: {answers}")
            self._report(f"  {step.name}")
        self._drop(tables)

    def close(self) -> None:
        """End all sessions."""
        for session in self.sessions:
            session.close()

    def _step(self, session: EngineSession, step: Step, tables: dict[str, Tables]) -> Cost | None:
        engine = session.engine
        names = tables[engine.name]
        prepare, measure = step.prepare(engine, names), step.measure(engine, names)
        if prepare:
            session.run(*prepare)
        if not measure:
            return None
        cost = session.run(*measure)
        if step.name == "load":
            self.results.disk.setdefault(engine.name, []).append(_size_of(session.warehouse, names))
            tables[engine.name] = replace(names, version=_version(session, names))
        return cost

    def _drop(self, tables: dict[str, Tables]) -> None:
        for session in self.sessions:
            names = tables[session.engine.name]
            with suppress(EngineFailedError):  # the session has ended, and its steps have failed
                session.run(names.fill(_DROP), names.fill(_marked(_DROP)))
            for directory in session.warehouse.glob(f"**/t{names.number}"):
                shutil.rmtree(directory, ignore_errors=True)


def _version(session: EngineSession, names: Tables) -> str:
    version = session.engine.load_version or ""
    if version.startswith("SELECT"):
        return session.run(names.fill(version)).rows[0][0]
    return version


def _size_of(warehouse: Path, names: Tables) -> int:
    (table,) = (d for d in warehouse.glob(f"**/t{names.number}") if d.is_dir())
    return sum(f.stat().st_size for f in table.rglob("*") if f.is_file())
