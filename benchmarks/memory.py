"""`python -m benchmarks.memory`: the memory of tasks and planning as tables grow (`make bench-memory`)."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import chain
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.core import many_files, sample
from benchmarks.engines import ours
from benchmarks.long_values import STEPS, LongValue, alone, high_water
from benchmarks.merge_kinds import MERGE_KINDS
from benchmarks.report import save
from benchmarks.session import EngineSession
from benchmarks.workload import row_query
from paimon_spark import connect
from paimon_spark.bridge.launcher import worker_environment
from paimon_spark.core.read.superseded_rows import superseded_rows
from paimon_spark.engine.select import plan_select

_MB = 1 << 20
_BATCH = 1_000_000
_TABLE = "bench.t"
NO_OPTIONS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Peak:
    """The peak resident memory of a separate process, and its memory at the start."""

    what: str
    size: str
    peak_mb: float
    before_mb: float

    def line(self) -> str:
        """Return the figure as a line of a table."""
        grown = self.peak_mb - self.before_mb
        return f"  {self.what:<34} {self.size:>28} {self.peak_mb:8.0f} MB, {grown:6.0f} MB more than at its start"


def _measured(body: Callable[[Path], object], place: Path) -> tuple[float, float]:
    before = high_water()
    body(place)
    return high_water(), before


def _alone(body: Callable[[Path], object], place: Path) -> tuple[float, float]:
    """Run a body in a new process; return its peak and initial memory in MB."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measured, body, place).result()


def bucket_of(place: Path, rows: int, options: Mapping[str, str] = NO_OPTIONS, *, compacted: bool = False) -> None:
    """Create a table of one bucket with `rows` rows: sorted runs of a million, and a tenth of them upserted again.

    Args:
        place: the warehouse.
        rows: number of rows.
        options: options of the table.
        compacted: whether the rows are at the top level before the tenth is upserted.
    """
    catalog = connect(place)
    catalog.create_database("bench", ignore_if_exists=True)
    shape = sample(1).schema
    schema = shape.set(0, pa.field("id", pa.int64(), nullable=False))
    settings = {"bucket": "1", "write-only": "true", **options}
    table = catalog.create_table(_TABLE, schema, primary_key=["id"], options=settings)
    for start in range(0, rows, _BATCH):
        table.upsert(_spread(min(_BATCH, rows - start), rows, start))
    if compacted:
        table.compact()
    table.upsert(_spread(rows // 10, rows, 0))


def _spread(count: int, rows: int, seed: int) -> pa.Table:
    """Return rows with keys spread over the bucket, so that all sorted runs overlap."""
    keys = np.random.default_rng(seed).integers(0, rows * 2, count)
    return sample(count, seed).set_column(0, "id", pa.array(keys))


def merge(place: Path) -> None:
    """Read a whole bucket through the merge, batch by batch."""
    for _ in connect(place).table(_TABLE).to_reader():
        pass


def find_superseded(place: Path) -> None:
    """Find the rows of a whole bucket that the merge drops, by their keys alone."""
    table = connect(place).table(_TABLE).load()
    for split in plan_select(table).splits:
        for _ in superseded_rows(table, split):
            pass


def compact(place: Path) -> None:
    """Compact the bucket fully."""
    connect(place).table(_TABLE).compact()


_OF_A_BUCKET: dict[str, Callable[[Path], None]] = {
    "merge on read of a bucket": merge,
    "the same on its keys alone": find_superseded,
    "full compaction of a bucket": compact,
}


def look_up(place: Path) -> None:
    """Compact the new rows of the bucket, with a lookup in the upper levels."""
    if connect(place).table(_TABLE).compact(full=False).snapshot_id is None:
        raise RuntimeError("nothing was compacted")


def plan(place: Path) -> None:
    """Plan a scan of all files."""
    plan_select(connect(place).table("bench.files").load())


def list_files(place: Path, files: int) -> None:
    """Create a table that lists many files."""
    connect(place).create_database("bench")
    many_files(place, files)


def _tasks(sizes: list[int], work: Path) -> Iterator[Peak]:
    for rows in sizes:
        place = work / f"rows-{rows}"
        bucket_of(place, rows)
        size = sum(f.stat().st_size for f in place.rglob("*.parquet")) // _MB
        for name, body in _OF_A_BUCKET.items():
            yield Peak(name, f"{rows:,} rows, {size} MB", *_alone(body, place))
        shutil.rmtree(place)


def _kinds(sizes: list[int], work: Path) -> Iterator[Peak]:
    """Measure merges, full compactions and lookups of each kind of table."""
    for rows in sizes:
        for number, (name, kind) in enumerate(MERGE_KINDS.items()):
            place = work / f"kind-{number}-{rows}"
            bucket_of(place, rows, kind.options, compacted=bool(kind.lookup_rate))
            bodies = {"lookup": look_up} if kind.lookup_rate else {"merge": merge, "full compaction": compact}
            for what, body in bodies.items():
                yield Peak(f"{what}, {name}", f"{rows:,} rows", *_alone(body, place))
            shutil.rmtree(place)


def _plans(sizes: list[int], work: Path) -> Iterator[Peak]:
    for files in sizes:
        place = work / f"files-{files}"
        list_files(place, files)
        yield Peak("plan of a scan", f"{files:,} files", *_alone(plan, place))
        shutil.rmtree(place)


def _load(rows: int, work: Path) -> Iterator[Peak]:
    engine = ours()
    session = EngineSession(engine, work / "load", work / "load.log", {"spark.driver.memory": "2g"})
    table = f"{engine.database}.t"
    session.run(f"CREATE DATABASE {engine.database}", engine.create.format(t=table))
    cost = session.run(f"INSERT INTO {table} {row_query(f'SELECT id FROM range({rows})', 0)}")
    (answer,) = session.run(f"SELECT count(*) FROM {table}").rows
    session.close()
    if answer != (str(rows),):
        raise RuntimeError(f"{rows} rows were loaded, {answer[0]} are there")
    yield Peak("load with 2 GB of heap, the JVM", f"{rows:,} rows", cost.java / _MB, 0)
    yield Peak("load with 2 GB of heap, all Python", f"{rows:,} rows", cost.python / _MB, 0)


def _long_values(megabytes: int, work: Path) -> Iterator[Peak]:
    if not megabytes:
        return
    for file_format, kind in (("parquet", "STRING"), ("orc", "BYTES"), ("avro", "STRING")):
        value = LongValue(work / file_format, file_format, kind, keyed=True, size=megabytes << 20)
        value.make()
        for step in STEPS:
            grown = alone(step, value) * megabytes
            yield Peak(f"{step} one value in {file_format}", f"{megabytes} MB {kind}", grown, 0)


def main() -> int:
    """Measure everything, with the environment of Python workers, and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--rows", default="2000000,8000000,32000000", help="sizes of a bucket")
    parser.add_argument("--kinds", default="5000000", help="sizes of a bucket of each kind of table")
    parser.add_argument("--files", default="10000,100000,1000000", help="sizes of a plan")
    parser.add_argument("--load", type=int, default=50_000_000)
    parser.add_argument("--value", type=int, default=64, help="MB of one very long value; 0 leaves it out")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    os.environ.update(worker_environment({}, os.environ))
    work = Path(tempfile.mkdtemp(prefix="bench-memory-"))
    found: list[Peak] = []
    try:
        parts = (
            _long_values(args.value, work),
            _plans(_numbers(args.files), work),
            _tasks(_numbers(args.rows), work),
            _kinds(_numbers(args.kinds), work),
            _load(args.load, work),
        )
        for peak in chain.from_iterable(parts):
            found.append(peak)
            sys.stdout.write(peak.line() + "\n")
            sys.stdout.flush()
    finally:
        shutil.rmtree(work, ignore_errors=True)
    save(args.out, "memory.json", {"peaks": [asdict(p) for p in found]})
    return 0


def _numbers(text: str) -> list[int]:
    return [int(n) for n in text.split(",") if n]


if __name__ == "__main__":
    sys.exit(main())
