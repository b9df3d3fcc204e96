"""Latency of small statements in a warm session, each repeated in short turns on each engine.

The turns are short so that other load of the machine affects all engines equally.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from benchmarks.engines import Engine
from benchmarks.session import EngineFailedError, EngineSession

REPEATS = 50
WARM_UP = 10
TURN = 10
TABLES = 1_000
TARGET = 0.8
"""Maximum time of a statement, relative to the fastest peer."""
_ROWS = ", ".join(f"({n}, 'row {n}', {n}.5)" for n in range(10))
_COLUMNS = "id BIGINT NOT NULL, name STRING, amount DOUBLE"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement: its text, in which `{n}` is the number of the run, and the statements that prepare it."""

    name: str
    text: str
    prepare: tuple[str, ...] = ()
    runs_on: Callable[[Engine], bool] = lambda _: True


def _tags(engine: Engine) -> bool:
    return engine.name in ("paimon-spark", "paimon")


def statements() -> Sequence[Statement]:
    """Return the statements, in their order."""
    small = ("CREATE TABLE {db}.small ({columns}) {layout}", f"INSERT INTO {{db}}.small VALUES {_ROWS}")
    return (
        Statement("SELECT of 10 rows", "SELECT * FROM {db}.small ORDER BY id", small),
        Statement("lookup of a key", "SELECT * FROM {db}.small WHERE id = {n} % 10"),
        Statement("count(*)", "SELECT count(*) FROM {db}.small"),
        Statement("DESCRIBE", "DESCRIBE {db}.small"),
        Statement("INSERT of a row", "INSERT INTO {db}.small VALUES (1000 + {n}, 'new', 0.5)"),
        Statement("UPDATE of a row", "UPDATE {db}.small SET amount = amount + 1 WHERE id = {n} % 10"),
        Statement("create_tag", "CALL paimon.sys.create_tag(table => '{name}.small', tag => 'tag-{n}')", runs_on=_tags),
        Statement("CREATE TABLE", "CREATE TABLE {db}.made{n} ({columns}) {layout}"),
    )


SHOW_TABLES = "SHOW TABLES of a thousand"


def _listing(tables: int) -> Statement:
    made = tuple(f"CREATE TABLE {{db}}.listed{n} ({{columns}}) {{layout}}" for n in range(tables))
    return Statement(SHOW_TABLES, "SHOW TABLES IN {db}", made)


@dataclass(slots=True)
class Times:
    """Wall milliseconds of each run, and CPU milliseconds of one run on average."""

    wall: list[float]
    cpu: float

    def percentile(self, share: float) -> float:
        """Return this percentile of the wall milliseconds."""
        ordered = sorted(self.wall)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


@dataclass(slots=True)
class Latencies:
    """Measurements by statement and engine, and failures."""

    times: dict[str, dict[str, Times]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def ratios(self) -> dict[str, float]:
        """Return our median by statement, relative to that of the fastest peer."""
        found = {}
        for name, by_engine in self.times.items():
            peers = [t.percentile(0.5) for engine, t in by_engine.items() if engine not in ("paimon-spark", "parquet")]
            if "paimon-spark" in by_engine and peers:
                found[name] = by_engine["paimon-spark"].percentile(0.5) / min(peers)
        return found

    def verdicts(self) -> list[str]:
        """Return a line for each statement with a peer: its target, and whether that was reached."""
        return [
            f"  {name:<58} ≤ {TARGET:.2f}   {ratio:5.2f} {'reached' if ratio <= TARGET else 'missed'}"
            for name, ratio in self.ratios().items()
        ]

    def as_figures(self) -> dict[str, Mapping[str, Mapping[str, float]]]:
        """Return the figures for the file of results, in milliseconds."""
        return {
            name: {
                engine: {"p50": t.percentile(0.5), "p95": t.percentile(0.95), "least": min(t.wall), "cpu": t.cpu}
                for engine, t in by_engine.items()
            }
            for name, by_engine in self.times.items()
        }


def measure(
    sessions: Sequence[EngineSession],
    report: Callable[[str], None],
    *,
    repeats: int = REPEATS,
    tables: int = TABLES,
) -> Latencies:
    """Run the statements on all engines that change tables."""
    found = Latencies()
    changing = [s for s in sessions if s.engine.deletes]
    for session in changing:
        with suppress(EngineFailedError):
            session.run(f"CREATE DATABASE {database(session)}")
    for statement in [*statements(), _listing(tables)]:
        chosen = [s for s in changing if statement.runs_on(s.engine)]
        _measure(chosen, statement, found, repeats)
        report(f"  {statement.name}")
    for session in changing:
        with suppress(EngineFailedError):
            session.run(f"DROP DATABASE {database(session)} CASCADE")
    return found


def as_text(found: Latencies, engines: Sequence[Engine]) -> list[str]:
    """Return the table for the terminal."""
    names = [e.name for e in engines if any(e.name in by_engine for by_engine in found.times.values())]
    lines = [f"  {'':<28}" + "".join(f"{n:>20}" for n in names) + "   to the fastest peer"]
    ratios = found.ratios()
    for name, by_engine in found.times.items():
        cells = ""
        for engine in names:
            t = by_engine.get(engine)
            cell = f"{t.percentile(0.5):.0f} / {t.percentile(0.95):.0f} ({t.cpu:.0f})" if t else "-"
            cells += f"{cell:>20}"
        ratio = f"   {ratios[name]:.2f}" if name in ratios else ""
        lines.append(f"  {name:<28}{cells}{ratio}")
    return lines


def _measure(sessions: Sequence[EngineSession], statement: Statement, found: Latencies, repeats: int) -> None:
    """Run a statement on all engines in turn; an engine that fails is left out."""
    wall: dict[str, list[float]] = {}
    cpu: dict[str, float] = {}
    failed: set[str] = set()
    for first in range(-WARM_UP, repeats, TURN):
        for session in sessions:
            name = session.engine.name
            if name in failed:
                continue
            numbers = range(first, min(first + TURN, repeats) if first >= 0 else 0)
            try:
                if first < 0 and statement.prepare:
                    session.run(*(filled(session, text) for text in statement.prepare))
                took, used = session.each([filled(session, statement.text, WARM_UP + n) for n in numbers])
            except EngineFailedError as e:
                failed.add(name)
                found.failures.append(f"{statement.name}: {e}")
                continue
            if first >= 0:
                wall.setdefault(name, []).extend(1000 * seconds for seconds in took)
                cpu[name] = cpu.get(name, 0.0) + 1000 * used
    for name in wall.keys() - failed:
        found.times.setdefault(statement.name, {})[name] = Times(wall[name], cpu[name] / len(wall[name]))


def database(session: EngineSession) -> str:
    """Return the database of the small tables, with its catalog."""
    return f"{session.engine.database}_small"


def filled(session: EngineSession, text: str, n: int = 0) -> str:
    """Return the statement of an engine, with its number."""
    db = database(session)
    name, layout = db.partition(".")[2], session.engine.small_layout
    return text.format(db=db, name=name, columns=_COLUMNS, layout=layout, n=n)
