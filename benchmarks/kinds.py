"""The cost of other kinds of tables than that of the workload, each on this project and on Paimon."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from benchmarks.rounds import AFTER, BEFORE, Results
from benchmarks.session import Cost, EngineFailedError, EngineSession
from benchmarks.workload import BUCKETS, COLUMNS, SCHEMA, Data, queries

RESULTS = "kinds.json"
UPSERTS = 3
STEPS = ("load", "upsert", f"scan {BEFORE}", f"lookup {BEFORE}", "compact", f"scan {AFTER}")
WITH_VECTORS = "scan with vectors"
PLAIN = "scan of a plain copy"
"""The rows of a table with deletion vectors, written anew as plain Parquet."""
_QUERIES = ("scan", "lookup")
_PLAIN_SCANS = 3
_WRITE_ONLY = {"write-only": "true"}
_SEQUENCE_GROUPS = {
    "merge-engine": "partial-update",
    "fields.at.sequence-group": "i,b,d,amount",
    "fields.day.sequence-group": "code,text",
}
_AGGREGATES = {
    "merge-engine": "aggregation",
    **{
        f"fields.{column}.aggregate-function": function
        for column, function in {
            "i": "sum",
            "b": "max",
            "d": "min",
            "amount": "sum",
            "code": "last_value",
            "text": "max",
            "at": "max",
            "day": "last_value",
        }.items()
    },
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of table: its properties beside the primary key, and whether its key is a string."""

    properties: Mapping[str, str]
    text_key: bool = False

    @property
    def has_vectors(self) -> bool:
        """Return whether the table has deletion vectors."""
        return self.properties.get("deletion-vectors.enabled") == "true"

    @property
    def create(self) -> str:
        """Return the statement that creates the table."""
        schema = SCHEMA.replace("id BIGINT", "id STRING") if self.text_key else SCHEMA
        options = {"primary-key": "id", "bucket": str(BUCKETS), **self.properties}
        listed = ", ".join(f"'{k}' = '{v}'" for k, v in options.items())
        return f"CREATE TABLE {{t}} ({schema}) TBLPROPERTIES ({listed})"

    @property
    def insert(self) -> str:
        """Return the statement that writes a data set."""
        columns = ", ".join(("concat('key-', id)" if self.text_key else "id", *COLUMNS[1:]))
        return f"INSERT INTO {{t}} SELECT {columns} FROM {{source}}"


KINDS: Mapping[str, Kind] = {
    "deduplicate": Kind(_WRITE_ONLY),
    "dynamic buckets": Kind({**_WRITE_ONLY, "bucket": "-1"}),
    "ORC": Kind({**_WRITE_ONLY, "file.format": "orc"}),
    "string key": Kind(_WRITE_ONLY, text_key=True),
    "partial-update": Kind({**_WRITE_ONLY, **_SEQUENCE_GROUPS}),
    "aggregation": Kind({**_WRITE_ONLY, **_AGGREGATES}),
    "first-row": Kind({"merge-engine": "first-row"}),
    "deletion vectors": Kind({"deletion-vectors.enabled": "true"}),
    "changelog lookup": Kind({"changelog-producer": "lookup"}),
    "changelog full-compaction": Kind({**_WRITE_ONLY, "changelog-producer": "full-compaction"}),
    "changelog input": Kind({**_WRITE_ONLY, "changelog-producer": "input"}),
}


def step_of(kind: str, step: str) -> str:
    """Return the name of a step of a kind among all steps."""
    return f"{kind}: {step}"


def is_of_kind(step: str) -> bool:
    """Return whether a step, or what a target is about, concerns a kind of table."""
    return any(step.startswith(step_of(kind, "")) for kind in KINDS)


@dataclass(slots=True)
class KindRounds:
    """Runs kinds of tables on the sessions of engines that have them.

    A kind that fails on an engine is skipped there; other kinds and engines continue.
    """

    sessions: Sequence[EngineSession]
    data: Data
    results: Results
    report: Callable[[str], None]

    def run(self, name: str, number: int) -> None:
        """Run one round of a kind on each engine in turn."""
        answers: dict[str, dict[str, object]] = {}
        turn = number % max(1, len(self.sessions))
        for session in (*self.sessions[turn:], *self.sessions[:turn]):
            engine = session.engine.name
            table = f"{session.engine.database}.kind{number}"
            try:
                for step, cost in self._steps(session, KINDS[name], table):
                    self.results.add(engine, step_of(name, step), cost)
                    if step.partition(" ")[0] in _QUERIES:
                        answers.setdefault(step, {})[engine] = cost.rows
            except EngineFailedError as e:
                self.results.failures.append(f"{name}: {e}")
                self.report(f"  {name}: {e}")
            with suppress(EngineFailedError):
                session.run(f"DROP TABLE IF EXISTS {table}")
        for step, by_engine in answers.items():
            if len(set(by_engine.values())) > 1:
                self.results.failures.append(f"{name}: {step}: answers differ: {by_engine}")

    def _steps(self, session: EngineSession, kind: Kind, table: str) -> Iterator[tuple[str, Cost]]:
        data = self.data
        session.run(kind.create.format(t=table))
        yield "load", session.run(kind.insert.format(t=table, source=data.source("load")))
        for number in range(1, UPSERTS + 1):
            yield "upsert", session.run(kind.insert.format(t=table, source=data.source(f"upsert{number}")))
        yield from self._queries(session, kind, table, BEFORE)
        if kind.has_vectors:
            yield from self._beside_plain(session, table)
        bare = table.partition(".")[2]
        yield "compact", session.run(*(s.format(name=bare) for s in session.engine.compact))
        yield from self._queries(session, kind, table, AFTER)

    def _beside_plain(self, session: EngineSession, table: str) -> Iterator[tuple[str, Cost]]:
        scan = next(q.text for q in queries(self.data) if q.name == "scan")
        plain = "spark_catalog.default.plain"
        session.run(f"DROP TABLE IF EXISTS {plain}", f"CREATE TABLE {plain} USING parquet AS SELECT * FROM {table}")
        for _ in range(_PLAIN_SCANS):
            yield PLAIN, session.run(scan.format(t=plain))
            yield WITH_VECTORS, session.run(scan.format(t=table))
        session.run(f"DROP TABLE {plain}")

    def _queries(self, session: EngineSession, kind: Kind, table: str, when: str) -> Iterator[tuple[str, Cost]]:
        for query in queries(self.data):
            if f"{query.name} {when}" in STEPS:
                text = _with_text_key(query.text) if kind.text_key else query.text
                yield f"{query.name} {when}", session.run(text.format(t=table))


def _with_text_key(query: str) -> str:
    head, equals, value = query.partition("WHERE id = ")
    return f"{head}{equals}'key-{value}'" if equals else query.replace("sum(id)", "bit_xor(xxhash64(id))")
