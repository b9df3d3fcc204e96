"""Stages the data sets of the workload as Parquet, which every engine loads from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.engines import parquet
from benchmarks.session import EngineSession
from benchmarks.workload import Data, staged

WARM_UP_ROWS = 100_000


def stage(data: Data, work: Path, report: Callable[[str], None]) -> None:
    """Write the data sets, unless an earlier run has written them."""
    done = Path(data.root) / "_STAGED"
    if done.exists():
        return
    report(f"staging {data.rows:,} rows")
    session = EngineSession(parquet(), work.resolve() / "staging", work.resolve() / "staging.log")
    for name, query in staged(data).items():
        session.write(query, data.path(name))
    session.close()
    done.touch()
