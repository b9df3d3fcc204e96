"""`python -m benchmarks.scaling`: the growth of the driver's work with files, buckets, partitions and snapshots.

The data files do not exist, only their metadata (`make bench-scaling`). Every measurement runs in a separate process.
Costs are CPU seconds, which other load of the machine affects little.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from benchmarks.long_values import high_water
from benchmarks.report import save
from benchmarks.synthetic import FIRST_DAY, KEYS_OF_A_FILE, Shape, build, open_synthetic
from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.engine.compaction.compact import Strategy, plan_compaction
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.select import plan_select
from paimon_spark.spec.predicate import Comparison, Predicate, and_

_MILLION = 1_000_000
AXES = {
    "files": "10000,100000,1000000",
    "partitions": "1,100,10000",
    "buckets": "1,100,10000",
    "snapshots": "10,100,1000",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds of one operation, the peak memory of its process until then in MB, and wall seconds."""

    operation: str
    seconds: float
    memory_mb: float
    wall: float = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """The measurements of one table."""

    axis: str
    shape: Shape
    metadata_mb: float
    manifests: int
    costs: tuple[Cost, ...]


def _timed(operation: str, body: Callable[[], object]) -> Cost:
    began, started = time.process_time(), time.perf_counter()
    body()
    return Cost(operation, time.process_time() - began, high_water(), time.perf_counter() - started)


def _day(number: int) -> Predicate:
    return Comparison("=", "day", FIRST_DAY + number)


def one_key(day: int) -> Predicate:
    """Return the filter for a row of a day."""
    return and_(_day(day), Comparison("=", "id", KEYS_OF_A_FILE // 2))


def plans(place: Path, shape: Shape) -> list[Cost]:
    """Plan reads: of one day and one key first, so that their peak memory is not that of the whole table."""
    table = open_synthetic(place, shape).table
    last = _day(shape.partitions - 1)
    keyed = one_key(shape.partitions - 1)
    found = []
    for name, condition in (("plan of one partition, cold", last), ("plan of one key, cold", keyed)):
        clear_cache()
        found.append(_timed(name, partial(plan_select, table, predicate=condition)))
    clear_cache()
    found.append(_timed("plan of the whole table, cold", partial(plan_select, table)))
    found.append(_timed("the same, warm", partial(plan_select, table)))
    found.append(_timed("plan of one partition, warm", partial(plan_select, table, predicate=last)))
    return found


def commits(place: Path, shape: Shape) -> list[Cost]:
    """Commit one more file into the last partition, four times."""
    synthetic = open_synthetic(place, shape)
    clear_cache()
    numbers = iter(range(_MILLION, 2 * _MILLION))

    def commit() -> None:
        FileStoreCommit(synthetic.table).commit([synthetic.one_more(next(numbers))])

    first = _timed("commit of one file, cold", commit)
    others = sorted((_timed("the next commit", commit) for _ in range(3)), key=lambda c: c.seconds)
    return [first, others[1]]


def compactions(place: Path, shape: Shape) -> list[Cost]:
    """Plan compactions without running them."""
    table = open_synthetic(place, shape).table
    last = _day(shape.partitions - 1)
    of_a_day = partial(plan_compaction, table, strategy=Strategy.MINOR, partitions=last)
    clear_cache()
    return [
        _timed("choice for a compaction of one partition", of_a_day),
        _timed("choice for a minor compaction, all", partial(plan_compaction, table, strategy=Strategy.MINOR)),
        _timed("choice for a full compaction", partial(plan_compaction, table, strategy=Strategy.FULL)),
    ]


def expiry(place: Path, shape: Shape) -> list[Cost]:
    """Expire all snapshots but the last one."""
    table = open_synthetic(place, shape).table
    clear_cache()
    config = ExpireConfig(
        retain_max=1,
        retain_min=1,
        older_than_millis=1 << 62,
        max_deletes=1 << 30,
        exact=False,  # as after a commit; files that do not exist would be left out
    )

    def expire() -> None:
        done = execute_expire(table, plan_expire(table, config, clock_millis=1 << 62))
        if done.count < shape.snapshots:
            raise RuntimeError(f"{done.count} snapshots expired")

    return [_timed("expiry of all snapshots but one", expire)]


MEASUREMENTS = (plans, compactions, commits, expiry)
"""In this order: the last two change the table."""


Body = Callable[[Path, Shape], list[Cost]]


def alone(body: Body, place: Path, shape: Shape) -> list[Cost]:
    """Measure in a new process, for its peak memory."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(body, place, shape).result()


def _make(place: Path, shape: Shape) -> list[Cost]:
    return [_timed("build", partial(build, place, shape))]


def measure(axis: str, shape: Shape, work: Path, run: Callable[[Body, Path, Shape], list[Cost]] = alone) -> Row:
    """Build a table and measure everything, each measurement by `run`."""
    place = work / "table"
    run(_make, place, shape)
    manifests = [f for f in place.rglob("manifest/manifest-*") if not f.name.startswith("manifest-list")]
    size = sum(f.stat().st_size for f in manifests) / (1 << 20)
    costs = tuple(cost for body in MEASUREMENTS for cost in run(body, place, shape))
    shutil.rmtree(place)
    return Row(axis, shape, round(size, 1), len(manifests), costs)


def lines(row: Row) -> Iterator[str]:
    """Yield a table's figures for a terminal."""
    yield f"{row.shape.text}: {row.metadata_mb:,.1f} MB in {row.manifests:,} manifests"
    for cost in row.costs:
        yield f"  {cost.operation:<44} {cost.seconds:9.3f} s CPU {cost.memory_mb:8,.0f} MB"


def shapes(axes: dict[str, list[int]], spread: int) -> Iterator[tuple[str, Shape]]:
    """Yield the tables to measure: along each axis one number grows."""
    yield from (("files", Shape.of_files(n)) for n in axes["files"])
    yield from (("partitions", Shape(spread, partitions=n)) for n in axes["partitions"])
    yield from (("buckets", Shape(spread, buckets=n)) for n in axes["buckets"])
    yield from (("snapshots", Shape(spread // 10, 10, 10, snapshots=n)) for n in axes["snapshots"])


def main(arguments: Sequence[str] | None = None, run: Callable[[Body, Path, Shape], list[Cost]] = alone) -> int:
    """Measure tables along each axis and print the figures as they come.

    Args:
        arguments: those of the command line if not given.
        run: runs a measurement.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    for axis, sizes in AXES.items():
        parser.add_argument(f"--{axis}", default=sizes, help=f"along this axis, {sizes} if not given")
    parser.add_argument("--spread", type=int, default=100_000, help="files on the other axes, a tenth for snapshots")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args(arguments)
    axes = {axis: [int(n) for n in getattr(args, axis).split(",") if n] for axis in AXES}
    work = Path(tempfile.mkdtemp(prefix="bench-scaling-"))
    rows: list[Row] = []
    try:
        for axis, shape in shapes(axes, args.spread):
            rows.append(measure(axis, shape, work, run))
            sys.stdout.write("\n".join(lines(rows[-1])) + "\n")
            sys.stdout.flush()
    finally:
        shutil.rmtree(work, ignore_errors=True)
    save(args.out, "scaling.json", {"tables": [asdict(row) for row in rows]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
