"""`python -m benchmarks`: run the workload on all engines and report its cost (`make bench`)."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import commits, connections, latency, maintenance, report, rescales, streams
from benchmarks import engines as known
from benchmarks.engines import PEERS, Engine
from benchmarks.kinds import KINDS, KindRounds
from benchmarks.plots import plot
from benchmarks.rounds import Rounds
from benchmarks.staging import WARM_UP_ROWS, stage
from benchmarks.startup import first_statements, startup_seconds
from benchmarks.workload import Data


def main() -> int:
    """Run the benchmark; the exit code is 0 if all engines gave equal answers, whatever the figures."""
    args = _arguments()
    data = Data(str((args.work / f"data-{args.rows}").resolve()), args.rows)
    warm = Data(str((args.work / f"data-{WARM_UP_ROWS}").resolve()), WARM_UP_ROWS)
    chosen = _engines(args)
    for each in (data, warm):
        stage(each, args.work, _report)
    about = {**report.machine(datetime.now(UTC)), "rows": args.rows, "rounds": args.rounds}
    rounds = Rounds(chosen, data, args.work.resolve(), _report)
    for number in range(args.rounds + 1):
        _report(f"round {number} of {args.rounds}" if number else "a round that warms up")
        rounds.run(number, data if number else warm, measured=number > 0)
    peers = [session for session in rounds.sessions if session.engine.name in PEERS]
    kinds = KindRounds(peers, data, rounds.results, _report)
    for name in args.kinds:
        for number in range(args.rounds):
            _report(f"{name}, round {number + 1} of {args.rounds}")
            kinds.run(name, number)
    results = rounds.results
    if args.rescale:
        _report("rescales beside compactions")
        results.rescales = rescales.measure(rounds.sessions, data, _report, rounds=args.rounds, warm=warm)
        results.failures += results.rescales.failures
    _small(args, rounds)
    rounds.close()
    results.startup = startup_seconds(args.rounds, args.work.resolve())
    if args.latency:
        _report("first statements of sessions, and connections to servers")
        results.first, failures = first_statements(chosen, args.rounds, args.work.resolve())
        results.rates = connections.measure(chosen, args.work.resolve(), _report)
        results.failures += failures + results.rates.failures
    if args.orphans:
        maintenance.clean_orphans(args.orphans, args.out, _report)
    about["load_average_after"] = round(os.getloadavg()[0], 2)
    report.write(results, chosen, about, args.out)
    if args.rescale:
        maintenance.write(results.rescales, args.out, {e.name: e.label for e in chosen if e.name in PEERS})
    plot(results, chosen, args.out)
    sys.stdout.write(report.as_text(results, chosen, about) + f"\n\nwritten to {args.out}\n")
    return 1 if results.failures else 0


def _small(args: argparse.Namespace, rounds: Rounds) -> None:
    """Measure small statements, and their cost after many commits."""
    results = rounds.results
    if args.latency:
        _report("small statements")
        results.latencies = latency.measure(rounds.sessions, _report)
        results.failures += results.latencies.failures
    if args.commits:
        results.growths = commits.measure(rounds.sessions, _report, commits=args.commits)
        results.failures += results.growths.failures
    if args.streams:
        results.streams = streams.measure(
            rounds.sessions, args.work.resolve(), _report, batches=args.streams, table_rows=args.stream_table
        )
        results.failures += results.streams.failures


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds; one more warms up")
    parser.add_argument("--engines", default="paimon-spark,paimon,iceberg,delta,parquet")
    parser.add_argument("--kinds", type=_kinds, default=tuple(KINDS), help="kinds of tables, or none; all by default")
    parser.add_argument(
        "--latency", action=argparse.BooleanOptionalAction, default=True, help="small statements, 50 times each"
    )
    parser.add_argument(
        "--commits", type=int, default=commits.COMMITS, help="commits of 100 rows to one table; 0 leaves them out"
    )
    streams.options(parser)
    maintenance.options(parser)
    known.peer_options(parser)
    parser.add_argument("--work", type=Path, default=Path("build/bench"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    return parser.parse_args()


def _kinds(text: str) -> tuple[str, ...]:
    names = tuple(n.strip() for n in text.split(",") if n.strip() not in ("", "none"))
    if unknown := [n for n in names if n not in KINDS]:
        raise argparse.ArgumentTypeError(f"no kind is named {unknown[0]}; there are {', '.join(KINDS)}")
    return names


def _engines(args: argparse.Namespace) -> list[Engine]:
    peer_python = str(Path(args.peer_python).absolute())
    every = [known.ours(), known.paimon(args.peer_jar, peer_python), known.iceberg(), known.delta(), known.parquet()]
    by_name = {e.name: e for e in every}
    names = args.engines.split(",")
    if unknown := [n for n in names if n not in by_name]:
        sys.exit(f"No engine is named {unknown[0]}; there are {', '.join(by_name)}.")
    return [by_name[n] for n in names]


def _report(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
