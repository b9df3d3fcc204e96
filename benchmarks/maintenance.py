"""`python -m benchmarks.maintenance`: rescales beside compactions, on this project and on Paimon; orphan cleaning."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks import engines, orphans
from benchmarks.report import save
from benchmarks.rescales import Rescales, measure
from benchmarks.session import EngineSession
from benchmarks.staging import WARM_UP_ROWS, stage
from benchmarks.workload import Data

RESULTS = "maintenance.json"


def write(found: Rescales, directory: Path, labels: Mapping[str, str]) -> None:
    """Write the figures into a directory."""
    save(directory, RESULTS, {**found.as_figures(), "engines": dict(labels), "failures": found.failures})


def clean_orphans(files: int, directory: Path, report: Callable[[str], None]) -> None:
    """Measure the cleaning of as many orphans as there are live files, and write the figures."""
    report(f"orphan cleaning, {files:,} live files and as many orphans")
    shape, costs = orphans.measure(files, files)
    report("\n".join(orphans.lines(shape, files, costs)))
    save(directory, orphans.RESULTS, {"files": files, "orphans": files, "costs": [asdict(c) for c in costs]})


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of these measurements."""
    parser.add_argument(
        "--rescale", action=argparse.BooleanOptionalAction, default=True, help="rescales beside compactions"
    )
    parser.add_argument(
        "--orphans", type=int, default=0, help="clean so many orphans beside as many live files, as 1000000"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure without the rest of `python -m benchmarks`; the exit code is 0 if this project did every step."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.maintenance", description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", type=Path, default=Path("build/bench"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    engines.peer_options(parser)
    options(parser)
    args = parser.parse_args(arguments)
    failures: list[str] = []
    if args.rescale:
        failures = _rescales(args)
    if args.orphans:
        clean_orphans(args.orphans, args.out, _report)
    return 1 if failures else 0


def _rescales(args: argparse.Namespace) -> list[str]:
    data, warm = (Data(str((args.work / f"data-{rows}").resolve()), rows) for rows in (args.rows, WARM_UP_ROWS))
    for each in (data, warm):
        stage(each, args.work, _report)
    work = args.work.resolve()
    chosen = [engines.ours(), engines.paimon(args.peer_jar, str(Path(args.peer_python).absolute()))]
    sessions = [EngineSession(e, work / f"{e.name}-maintenance", work / f"{e.name}-maintenance.log") for e in chosen]
    found = measure(sessions, data, _report, rounds=args.rounds, warm=warm)
    for session in sessions:
        session.close()
    write(found, args.out, {e.name: e.label for e in chosen})
    sys.stdout.write("\n".join([*found.as_text(), *(f"FAILED {f}" for f in found.failures)]) + "\n")
    return found.failures


def _report(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
