"""The targets, as ratios to a peer in the same run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.kinds import KINDS, PLAIN, WITH_VECTORS, step_of
from benchmarks.rounds import AFTER, BEFORE, MARKING, Results
from benchmarks.session import Cost
from benchmarks.workload import Data, queries

OURS = "paimon-spark"


@dataclass(frozen=True, slots=True)
class Target:
    """Maximum cost of one of our steps, relative to that of the peer's step, which has the same name unless given."""

    step: str
    peer: str
    ratio: float
    peer_step: str = ""


TARGETS: Sequence[Target] = (
    Target("load", "paimon", 0.55),
    Target("load", "iceberg", 1.0),
    Target("upsert", "paimon", 0.8),
    Target("upsert", "delta", 0.2),
    Target("upsert", "iceberg", 1 / 3),
    Target(f"scan {BEFORE}", "paimon", 0.55),
    Target(f"scan {BEFORE}", "iceberg", 1.0),
    Target(f"selective {BEFORE}", "paimon", 0.8),
    Target(f"lookup {BEFORE}", "paimon", 0.8),
    Target(f"join {BEFORE}", "paimon", 0.7),
    Target("compact", "paimon", 0.6),
    Target("compact", "iceberg", 1.0),
    Target(f"scan {AFTER}", "parquet", 1.1),
    Target(f"scan {AFTER}", "iceberg", 1.0),
    Target(f"selective {AFTER}", "paimon", 0.8),
    Target(f"lookup {AFTER}", "paimon", 0.8),
    Target(f"join {AFTER}", "paimon", 0.7),
    Target("delete", "paimon", 0.4),
    Target(MARKING, "iceberg", 1.0, "delete"),
)
KIND_STEPS = ("load", "upsert", f"scan {BEFORE}", "compact")
KIND_RATIO = 0.6
"""Maximum cost of the steps of each kind of table, relative to Paimon's."""
VECTORS_RATIO = 1.1
"""Maximum cost of a scan with deletion vectors, relative to that of plain Parquet files with the same rows."""
COUNT_SECONDS = 0.3
PLANNING_MILLIS = 25.0
"""Maximum of the median over the queries of a round."""
QUERY_STEPS = [f"{query.name} {when}" for query in queries(Data("", 0)) for when in (BEFORE, AFTER)]
DISK_RATIO = 0.8
UNITS = ("cpu", "wall")
Costs = Mapping[str, Mapping[str, Sequence[Cost]]]
"""The costs of each step, by engine."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a target: the median, smallest and largest figure of the rounds, and whether it is reached."""

    what: str
    target: float
    middle: float
    low: float
    high: float

    @property
    def word(self) -> str:
        """Return the outcome in a word; a miss counts as reached if a round reached it."""
        if self.middle <= self.target:
            return "reached"
        return "within the spread" if self.low <= self.target else "missed"


def verdicts(results: Results) -> list[Verdict]:
    """Return the outcome of every target whose two sides were measured."""
    ours = results.costs.get(OURS, {})
    found = [
        verdict
        for target in (*TARGETS, *(kind_target(kind, step) for kind in KINDS for step in KIND_STEPS))
        for unit in UNITS
        if (verdict := outcome(target, results.costs, unit)) is not None
    ]
    found += _vector_verdicts(ours)
    counts = [c.wall for c in ours.get(f"count {AFTER}", [])]
    if counts:
        found.append(_verdict(f"count {AFTER}, wall seconds", COUNT_SECONDS, counts))
    plans = [median(times) for times in zip(*(_planning(ours[s]) for s in QUERY_STEPS if s in ours), strict=False)]
    if plans:
        found.append(_verdict("planning, wall milliseconds", PLANNING_MILLIS, plans))
    sizes = list(zip(results.disk.get(OURS, []), results.disk.get("paimon", []), strict=False))
    if sizes:
        found.append(_verdict("bytes on disk after the load, to paimon", DISK_RATIO, [a / b for a, b in sizes]))
    return found


def _planning(costs: Sequence[Cost]) -> list[float]:
    return [1000 * c.planning for c in costs if c.planning is not None]


def kind_target(kind: str, step: str) -> Target:
    """Return the target of a step of a kind of table."""
    return Target(step_of(kind, step), "paimon", KIND_RATIO)


def outcome(target: Target, costs: Costs, unit: str) -> Verdict | None:
    """Return the outcome of a target in one of the `UNITS`, or None if a side was not measured."""
    mine = costs.get(OURS, {}).get(target.step, [])
    theirs = costs.get(target.peer, {}).get(target.peer_step or target.step, [])
    ratios = _ratios(mine, theirs, unit)
    return _verdict(f"{target.step}, {unit}, to {target.peer}", target.ratio, ratios) if ratios else None


def _vector_verdicts(ours: Mapping[str, Sequence[Cost]]) -> Iterator[Verdict]:
    for kind in KINDS:
        step = step_of(kind, WITH_VECTORS)
        for unit in UNITS:
            ratios = _ratios(ours.get(step, []), ours.get(step_of(kind, PLAIN), []), unit)
            if ratios:
                yield _verdict(f"{step}, {unit}, to plain Parquet", VECTORS_RATIO, ratios)


def _ratios(mine: Sequence[Cost], theirs: Sequence[Cost], unit: str) -> list[float]:
    return [_of(a, unit) / max(_of(b, unit), 1e-9) for a, b in zip(mine, theirs, strict=False)]


def _of(cost: Cost, unit: str) -> float:
    return cost.cpu if unit == "cpu" else cost.wall


def _verdict(what: str, target: float, figures: Sequence[float]) -> Verdict:
    return Verdict(what, target, median(figures), min(figures), max(figures))
