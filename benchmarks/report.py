"""The measurements as a table for the terminal and as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import latency
from benchmarks.engines import Engine
from benchmarks.kinds import RESULTS as KINDS_RESULTS
from benchmarks.kinds import is_of_kind
from benchmarks.rounds import Results
from benchmarks.session import Cost
from benchmarks.streams import BATCH_ROWS, figures
from benchmarks.targets import verdicts

_MB = 1 << 20


def machine(now: datetime) -> dict[str, Any]:
    """Return the environment of the measurements."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpus": os.cpu_count(),
        "memory_mb": memory // _MB,
        "load_average": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "system": platform.platform(),
        "time": now.isoformat(timespec="seconds"),
    }


def save(directory: Path, name: str, figures: Mapping[str, Any]) -> None:
    """Write figures into a directory as JSON, with the current environment unless they have one."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_text(json.dumps({**machine(datetime.now(UTC)), **figures}, indent=1) + "\n")


def as_figures(results: Results, engines: Sequence[Engine], about: dict[str, Any]) -> dict[str, Any]:
    """Return all measurements but those of kinds of tables, without the results of the queries."""
    return {
        **_measured(results, engines, about, lambda what: not is_of_kind(what)),
        "bytes_on_disk": results.disk,
        "startup_seconds": results.startup,
        "first_statement_seconds": results.first,
        "small_statements_milliseconds": results.latencies.as_figures(),
        "many_commits_milliseconds": results.growths.as_figures(),
        "streams": figures(results.streams),
        "connections": results.rates.as_figures(),
        "failures": results.failures,
    }


def kind_figures(results: Results, engines: Sequence[Engine], about: dict[str, Any]) -> dict[str, Any]:
    """Return the measurements of kinds of tables, without the results of the queries."""
    return _measured(results, engines, about, is_of_kind)


def _measured(
    results: Results, engines: Sequence[Engine], about: dict[str, Any], is_wanted: Callable[[str], bool]
) -> dict[str, Any]:
    """Return the costs of the wanted steps and the outcomes of their targets."""
    costs = {
        engine: {
            step: [{k: v for k, v in asdict(c).items() if k != "rows"} for c in found]
            for step, found in by_step.items()
            if is_wanted(step)
        }
        for engine, by_step in results.costs.items()
    }
    return {
        **about,
        "engines": {e.name: e.label for e in engines},
        "costs": costs,
        "targets": [{**asdict(v), "outcome": v.word} for v in verdicts(results) if is_wanted(v.what)],
    }


def as_text(results: Results, engines: Sequence[Engine], about: dict[str, Any]) -> str:
    """Return the tables for the terminal: costs, planning, memory, disk, targets."""
    lines = [
        f"{about['rows']:,} rows, {about['rounds']} rounds, {about['cpus']} CPUs",
        f"load average {about['load_average']} before, {about['load_average_after']} after",
        "",
        "CPU seconds of all processes (wall seconds), medians; ± half of what lies between the rounds",
    ]
    lines += _table(results, engines, _cost_cell)
    lines += ["", "Planning, wall milliseconds"]
    lines += _table(results, engines, _planning_cell)
    lines += ["", "Resident memory at its peak, MB: JVM + Python"]
    lines += _table(
        results, engines, lambda costs: f"{max(c.java for c in costs) // _MB} + {max(c.python for c in costs) // _MB}"
    )
    lines += ["", "Bytes on disk after the load, MB"]
    lines += [f"  {e.label:<40} {median(results.disk[e.name]) / _MB:8.1f}" for e in engines if e.name in results.disk]
    lines += ["", "spark-sql -e 'select 1', wall seconds"]
    lines += [f"  {name:<40} {median(seconds):8.2f}" for name, seconds in results.startup.items()]
    lines += _small_statements(results, engines)
    lines += ["", "Targets: median (best .. worst round)"]
    for verdict in verdicts(results):
        spread = f"({verdict.low:.2f} .. {verdict.high:.2f})"
        lines.append(f"  {verdict.what:<58} ≤ {verdict.target:.2f}   {verdict.middle:5.2f} {spread:<16} {verdict.word}")
    lines += results.latencies.verdicts()
    lines += [f"FAILED {failure}" for failure in results.failures]
    return "\n".join(lines)


def _small_statements(results: Results, engines: Sequence[Engine]) -> list[str]:
    lines = []
    if results.first:
        lines += ["", "The first statement of a session, CPU seconds (wall seconds), medians"]
        for name, by_engine in results.first.items():
            middle = {e: (median(c for c, _ in found), median(w for _, w in found)) for e, found in by_engine.items()}
            lines += ["  " + f"{name:<28}" + "".join(f"{f'{e} {c:.2f} ({w:.2f})':>30}" for e, (c, w) in middle.items())]
    if results.latencies.times:
        lines += ["", "Small statements in a warm session, wall milliseconds: median / 95 of 100 (CPU on average)"]
        lines += latency.as_text(results.latencies, engines)
    if results.growths.found:
        names = ", then ".join(next(iter(results.growths.found.values())))
        lines += [
            "",
            f"Before and after {results.growths.commits:,} commits, wall (CPU) milliseconds, CPU ratio: {names}",
        ]
        lines += results.growths.as_text()
    if results.streams.writes:
        lines += ["", f"Streaming upserts, {results.streams.batches} batches of {BATCH_ROWS:,} rows"]
        lines += results.streams.as_text()
    if results.rescales.costs:
        lines += ["", "Compaction and rescale of the same table, CPU seconds (wall seconds), medians"]
        lines += results.rescales.as_text()
    if results.rates.found:
        lines += ["", "Eight connections to a Thrift server at once, queries per second (CPU milliseconds of each)"]
        lines += results.rates.as_text()
    return lines


def write(results: Results, engines: Sequence[Engine], about: dict[str, Any], directory: Path) -> None:
    """Write both forms into a directory; the figures of kinds of tables, if there are any, into a file of their own."""
    save(directory, "bench.json", as_figures(results, engines, about))
    if any(is_of_kind(step) for by_step in results.costs.values() for step in by_step):
        save(directory, KINDS_RESULTS, kind_figures(results, engines, about))
    (directory / "bench.txt").write_text(as_text(results, engines, about) + "\n")


def _cost_cell(costs: Sequence[Cost]) -> str:
    cpu = [c.cpu for c in costs]
    return f"{median(cpu):.2f} ({median(c.wall for c in costs):.2f}) ±{(max(cpu) - min(cpu)) / 2:.2f}"


def _planning_cell(costs: Sequence[Cost]) -> str | None:
    found = [c.planning for c in costs if c.planning is not None]
    return f"{median(found) * 1000:.0f}" if found else None


def _table(results: Results, engines: Sequence[Engine], cell: Callable[[Sequence[Cost]], str | None]) -> list[str]:
    names = list(dict.fromkeys(step for e in engines for step in results.costs.get(e.name, {})))
    rows = [["", *(e.name for e in engines)]]
    for step in names:
        found = [results.costs.get(e.name, {}).get(step, []) for e in engines]
        cells = [cell(costs) if costs else None for costs in found]
        if any(cells):
            rows.append([step, *(text or "-" for text in cells)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
