"""The figures as SVG plots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

import matplotlib as mpl
from matplotlib import pyplot

from benchmarks.engines import Engine
from benchmarks.rounds import AFTER, BEFORE, Results

_STEPS = {
    "writes": ("load", "upsert", "compact", "delete", "merge"),
    "reads": (f"scan {BEFORE}", f"scan {AFTER}", f"selective {AFTER}", f"lookup {AFTER}", f"join {AFTER}"),
}


def plot(results: Results, engines: Sequence[Engine], directory: Path) -> None:
    """Draw the CPU seconds of writes and of reads, one bar per engine, with the spread over the rounds as a line."""
    mpl.rcParams["svg.hashsalt"] = "paimon-spark"
    for name, steps in _STEPS.items():
        figure, axes = pyplot.subplots(figsize=(10, 4.5), layout="constrained")
        width = 0.8 / len(engines)
        for place, engine in enumerate(engines):
            found = [[c.cpu for c in results.costs.get(engine.name, {}).get(step, [])] for step in steps]
            middle = [median(cpu) if cpu else 0.0 for cpu in found]
            below = [m - min(cpu, default=0.0) if cpu else 0.0 for m, cpu in zip(middle, found, strict=True)]
            above = [max(cpu) - m if cpu else 0.0 for m, cpu in zip(middle, found, strict=True)]
            where = [i + (place - (len(engines) - 1) / 2) * width for i in range(len(steps))]
            bars = axes.bar(where, middle, width, yerr=(below, above), label=engine.label, error_kw={"linewidth": 0.8})
            axes.bar_label(bars, [f"{m:.3g}" if m else "" for m in middle], fontsize=7, padding=1)
        axes.set_xticks(range(len(steps)), [s.replace(" ", "\n", 1) for s in steps])
        axes.set_ylabel("CPU seconds of all processes")
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside upper center", ncols=len(engines), frameon=False, fontsize=9)
        figure.savefig(directory / f"{name}.svg", metadata={"Date": None})
        pyplot.close(figure)
