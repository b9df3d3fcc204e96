"""`python -m benchmarks.orphans`: orphan cleaning of a table directory with many files.

The files are empty; the manifests are real. Listing, planning and moving run in one separate process, and the undo in
another; their CPU seconds and peak memory are printed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from benchmarks.report import save
from benchmarks.scaling import Cost, _timed, alone
from benchmarks.synthetic import Shape, build, open_synthetic
from paimon_spark.core.maintenance.trash import TrashRun, new_record
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.scan.scan import live_entries
from paimon_spark.core.table import Table
from paimon_spark.engine.expiry.orphans import execute_orphans, plan_orphans
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.trash import LAST, get_run
from paimon_spark.engine.undo import execute_undo, plan_undo

RESULTS = "orphans.json"
_THREADS = 2
_DAY_MILLIS = 86_400_000


def make(place: Path, shape: Shape, *, orphans: int) -> list[Cost]:
    """Build a table whose data files exist, with the requested number of orphans."""
    build(place, shape)
    table = open_synthetic(place, shape).table
    latest = table.snapshots.latest()
    if latest is None:
        raise RuntimeError("the table is empty")
    store, made = ManifestStore(table), set[str]()
    for entry in live_entries(store, store.data_manifests(latest)):
        path = table.paths.data_file(entry.partition, entry.bucket, entry.file)
        directory = path.rpartition("/")[0]
        if directory not in made:
            Path(directory).mkdir(parents=True, exist_ok=True)
            made.add(directory)
        Path(path).touch()
    places = sorted(made)
    for number in range(orphans):
        Path(places[number % len(places)], f"data-orphan-{number:032d}-0.parquet").touch()
    return []


def clean(place: Path, shape: Shape, *, trash: bool) -> list[Cost]:
    """Find the orphans, and move them to the trash or delete them."""
    table = open_synthetic(place, shape).table
    now = time.time_ns() // 1_000_000 + 2 * _DAY_MILLIS

    def run_of(of: Table) -> TrashRun | None:
        return TrashRun(of, new_record(of, "remove_orphan_files", clock_millis=now)) if trash else None

    costs: list[Cost] = []

    def plan() -> None:
        found.append(plan_orphans([table], LocalRunner(_THREADS), clock_millis=now, parallelism=64))

    found: list[object] = []
    body: Callable[[], object] = plan
    costs.append(_timed("plan", body))
    orphans = found[0]
    costs.append(_timed("move to the trash" if trash else "delete", partial(execute_orphans, orphans, run_of)))  # type: ignore[arg-type]
    return costs


def undo(place: Path, shape: Shape) -> list[Cost]:
    """Restore the orphans from the trash."""
    table = open_synthetic(place, shape).table

    def restore() -> None:
        execute_undo(plan_undo(table, get_run(table, LAST)))

    return [_timed("undo", restore)]


def measure(files: int, orphans: int, *, trash: bool = True) -> tuple[Shape, list[Cost]]:
    """Build a table with so many live files and orphans in a temporary directory, and clean it."""
    work, shape = Path(tempfile.mkdtemp(prefix="bench-orphans-")), Shape.of_files(files)
    try:
        alone(partial(make, orphans=orphans), work / "table", shape)
        costs = alone(partial(clean, trash=trash), work / "table", shape)
        return shape, [*costs, *(alone(undo, work / "table", shape) if trash else ())]
    finally:
        shutil.rmtree(work, ignore_errors=True)


def lines(shape: Shape, orphans: int, costs: Sequence[Cost]) -> list[str]:
    """Return the figures for a terminal."""
    return [
        f"{shape.text}, {orphans:,} orphans",
        *(f"  {c.operation:<32} {c.seconds:9.3f} s CPU {c.wall:9.3f} s {c.memory_mb:8,.0f} MB" for c in costs),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.orphans", description=__doc__)
    parser.add_argument("--files", type=int, default=1_000_000, help="live files")
    parser.add_argument("--orphans", type=int, default=1_000_000, help="files that nothing references")
    parser.add_argument("--delete", action="store_true", help="delete the orphans instead of moving them to the trash")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args(arguments)
    shape, costs = measure(args.files, args.orphans, trash=not args.delete)
    sys.stdout.writelines(f"{line}\n" for line in lines(shape, args.orphans, costs))
    save(args.out, RESULTS, {"files": args.files, "orphans": args.orphans, "costs": [asdict(c) for c in costs]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
