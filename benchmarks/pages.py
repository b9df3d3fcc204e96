"""`python -m benchmarks.pages`: write the tables of docs/performance.md from the files of results.

A table is between the comments `<!-- table: NAME -->` and `<!-- end of table -->`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import cancels, maintenance, orphans, rescales
from benchmarks.engines import PEERS
from benchmarks.kinds import KINDS, STEPS, step_of
from benchmarks.kinds import RESULTS as KINDS_RESULTS
from benchmarks.rounds import AFTER, BEFORE, MARKING
from benchmarks.session import Cost
from benchmarks.targets import KIND_STEPS, UNITS, Costs, Verdict, kind_target, outcome

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "performance.md"
RESULTS = ROOT / "benchmarks" / "results"
_TABLE = re.compile(r"(?P<head><!-- table: (?P<name>\w+) -->\n).*?(?P<tail><!-- end of table -->)", re.DOTALL)
_MB = 1 << 20
_NOTHING = "\u2013"
_WORKLOAD = {
    "load": "load",
    "upsert": "upsert of a tenth",
    f"scan {BEFORE}": "scan of all columns before compaction",
    f"selective {BEFORE}": "range of 1 % before compaction",
    f"lookup {BEFORE}": "lookup of a key before compaction",
    f"count {BEFORE}": "`count(*)` before compaction",
    f"join {BEFORE}": "join before compaction",
    "compact": "full compaction",
    f"scan {AFTER}": "scan after compaction",
    f"selective {AFTER}": "range after compaction",
    f"lookup {AFTER}": "lookup after compaction",
    f"count {AFTER}": "`count(*)` after compaction",
    f"join {AFTER}": "join after compaction",
    "time travel": "time travel to the state after the load",
    "delete": "DELETE of 1 %",
    MARKING: "DELETE of 1 % of the loaded rows, marked in deletion vectors",
    "merge": "MERGE INTO of a tenth",
}
_STEPS = {
    rescales.COMPACT: "`CALL sys.compact`",
    rescales.RESCALE: "`CALL sys.rescale` from {0} to {1} buckets",
    rescales.SCAN: "scan after the rescale",
    rescales.WRITE: "upsert of a tenth after the rescale",
}


def workload(figures: Mapping[str, Any]) -> list[str]:
    """Return the table of the workload: medians of CPU seconds, and of wall seconds in brackets."""
    engines, costs = figures["engines"], figures["costs"]
    measured = {step: text for step, text in _WORKLOAD.items() if any(step in found for found in costs.values())}
    rows = [
        [text, *(_seconds(costs.get(name, {}).get(step, [])) for name in engines)] for step, text in measured.items()
    ]
    disk = figures["bytes_on_disk"]
    rows.append(
        [
            "megabytes on disk after the load",
            *(f"{median(disk[n]) / _MB:,.0f}" if n in disk else _NOTHING for n in engines),
        ]
    )
    peaks = ([c for step in measured for c in costs.get(name, {}).get(step, [])] for name in engines)
    rows.append(["peak memory of JVM + Python, MB", *(_peak(found) for found in peaks)])
    return _lines(engines.values(), rows)


def kinds(figures: Mapping[str, Any]) -> list[str]:
    """Return the table of the kinds of tables: medians of CPU seconds, with those of Paimon in brackets."""

    def cell(found: Sequence[Mapping[str, float]]) -> str:
        return f"{median(c['cpu'] for c in found):.2f}"

    return _beside_peer(figures, STEPS, cell)


def kind_plans(figures: Mapping[str, Any]) -> list[str]:
    """Return the table of the planning of queries of each kind: medians in milliseconds, with Paimon's in brackets."""

    def cell(found: Sequence[Mapping[str, float]]) -> str:
        return f"{1000 * median(c['planning'] for c in found):.0f}"

    return _beside_peer(figures, [s for s in STEPS if s.startswith(("scan", "lookup"))], cell)


def kind_ratios(figures: Mapping[str, Any]) -> list[str]:
    """Return the table of the ratios to Paimon: the range of the kinds, and those that miss the target."""
    costs, rows = _costs(figures), []
    for step in KIND_STEPS:
        for unit in UNITS:
            outcomes = ((kind, outcome(kind_target(kind, step), costs, unit)) for kind in KINDS)
            found = {kind: verdict for kind, verdict in outcomes if verdict is not None}
            if found:
                middles = sorted(v.middle for v in found.values())
                name = f"{step}, {'CPU' if unit == 'cpu' else 'wall'}"
                missing = (_of_outcome(found, word) for word in ("within the spread", "missed"))
                rows.append([name, f"{middles[0]:.2f} to {middles[-1]:.2f}", *missing])
    heads = ("best to worst", "above the target, but not in every round", "above the target in every round")
    return _lines(heads, rows)


def _of_outcome(found: Mapping[str, Verdict], word: str) -> str:
    return ", ".join(f"{kind} ({v.middle:.2f})" for kind, v in found.items() if v.word == word) or _NOTHING


def _costs(figures: Mapping[str, Any]) -> Costs:
    return {
        engine: {step: [Cost(**c, rows=()) for c in found] for step, found in by_step.items()}
        for engine, by_step in figures["costs"].items()
    }


def _beside_peer(
    figures: Mapping[str, Any], steps: Sequence[str], cell: Callable[[Sequence[Mapping[str, float]]], str]
) -> list[str]:
    own, peer = (figures["costs"].get(name, {}) for name in PEERS)
    rows = []
    for kind in KINDS:
        names = [step_of(kind, step) for step in steps]
        if any(n in own for n in names):
            cells = [(own.get(n), peer.get(n)) for n in names]
            rows.append([kind, *(f"{cell(a)} ({cell(b)})" if a and b else _NOTHING for a, b in cells)])
    return _lines(steps, rows)


def core(figures: Mapping[str, Any]) -> list[str]:
    """Return the table of the parts of the core: units per second and core, and those of the lower bound of each."""

    def rate(units: float, unit: str) -> str:
        return f"{units / 1e6:.1f} million {unit}" if units >= 1e6 else f"{units / 1e3:,.0f} thousand {unit}"

    rows = []
    for f in figures["figures"]:
        bound = f"{f['floor']}: {rate(f['units'] / f['floor_seconds'], f['unit'])}" if f["floor"] else _NOTHING
        target = rate(f["target"], f["unit"]) if f["target"] else _NOTHING
        rows.append([f["name"], rate(f["rate"], f["unit"]), target, bound])
    return _lines(("a second and core", "target", "lower bound of the cost"), rows)


def memory(figures: Mapping[str, Any]) -> list[str]:
    """Return the table of the peak memory of operations on one bucket, beyond the process itself, by its size."""
    return _grown(figures, lambda size: "rows, " in size)


def kind_memory(figures: Mapping[str, Any]) -> list[str]:
    """Return the table of the peak memory of operations on other kinds of tables, beyond the process itself."""
    return _grown(figures, lambda size: size.endswith(" rows"))


def _grown(figures: Mapping[str, Any], is_wanted: Callable[[str], bool]) -> list[str]:
    peaks = [p for p in figures["peaks"] if p["before_mb"] and is_wanted(p["size"])]
    grown = {(p["what"], p["size"]): f"{p['peak_mb'] - p['before_mb']:,.0f} MB" for p in peaks}
    sizes = list(dict.fromkeys(size for _, size in grown))
    names = dict.fromkeys(what for what, _ in grown)
    return _lines(sizes, ([name, *(grown.get((name, size), _NOTHING) for size in sizes)] for name in names))


def rescale_steps(figures: Mapping[str, Any]) -> list[str]:
    """Return the table of rescales beside compactions, and what a peer cannot do below it."""
    engines = {name: figures["engines"][name] for name in PEERS if name in figures["engines"]}
    rows = []
    for step, text in _STEPS.items():
        found = (figures["steps"].get(name, {}).get(step) for name in engines)
        cells = ([c] if c else [] for c in found)
        rows.append([text.format(*figures["buckets"]), *map(_seconds, cells)])
    return [*_lines(engines.values(), rows), *(f"\n{note}" for note in figures["notes"])]


def cleaning(figures: Mapping[str, Any]) -> list[str]:
    """Return the table of orphan cleaning."""
    rows = [
        [c["operation"], f"{c['seconds']:.1f}", f"{c['wall']:.1f}", f"{c['memory_mb']:,.0f}"] for c in figures["costs"]
    ]
    return _lines(("CPU seconds", "wall seconds", "peak MB"), rows)


def cancelled(figures: Mapping[str, Any]) -> list[str]:
    """Return the table of cancelled CALLs."""
    rows = [
        [
            f"`{name}`",
            f"{figures['whole'][name]:.1f}",
            f"{len(found)}",
            f"{figures['completed'][name]}",
            f"{median(found):.2f}",
            f"{max(found):.2f}",
        ]
        for name, found in figures["seconds"].items()
    ]
    return _lines(("runs, s", "cancels", "of these completed", "p50, s", "max, s"), rows)


TABLES: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], list[str]]]] = {
    "workload": ("bench.json", workload),
    "kinds": (KINDS_RESULTS, kinds),
    "kind_plans": (KINDS_RESULTS, kind_plans),
    "kind_ratios": (KINDS_RESULTS, kind_ratios),
    "core": ("core.json", core),
    "memory": ("memory.json", memory),
    "kind_memory": ("memory.json", kind_memory),
    "maintenance": (maintenance.RESULTS, rescale_steps),
    "orphans": (orphans.RESULTS, cleaning),
    "cancels": (cancels.RESULTS, cancelled),
}
"""The tables: the file of results of each, and what renders it."""


def written(page: str, results: Path = RESULTS) -> str:
    """Return a page with its tables as of the results; a table without results stays."""

    def table(found: re.Match[str]) -> str:
        name, render = TABLES[found["name"]]
        if not (results / name).exists():
            return found[0]
        figures = json.loads((results / name).read_text(encoding="utf-8"))
        return found["head"] + "\n".join(["", *render(figures), ""]) + "\n" + found["tail"]

    return _TABLE.sub(table, page)


def _seconds(costs: Sequence[Mapping[str, float]]) -> str:
    if not costs:
        return _NOTHING
    return f"{_number(median(c['cpu'] for c in costs))} ({_number(median(c['wall'] for c in costs))})"


def _number(seconds: float) -> str:
    return f"{seconds:.1f}" if seconds >= 0.095 else f"{seconds:.2f}"


def _peak(costs: Sequence[Mapping[str, int]]) -> str:
    if not costs:
        return _NOTHING
    return f"{max(c['java'] for c in costs) // _MB:,} + {max(c['python'] for c in costs) // _MB:,}"


def _lines(head: Iterable[str], rows: Iterable[Sequence[str]]) -> list[str]:
    names = list(head)
    rule = f"|---|{'---:|' * len(names)}"
    return [f"| | {' | '.join(names)} |", rule, *(f"| {' | '.join(row)} |" for row in rows)]


def main() -> int:
    """Rewrite the page."""
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"written: {PAGE}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
