"""`python -m benchmarks.long_stream`: memory, files and CPU of a stream of many small batches, as it goes on.

Each batch upserts rows with keys from all over a table with default options. A line tells, after each hundred batches,
what each process has resident, what the table and the checkpoint consist of, and what one of these batches took.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.engines import SESSION
from benchmarks.process_tree import Process, cpu_seconds, tree
from benchmarks.report import save

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_MB = 1 << 20
_TABLE = "paimon.bench.upserted"
_ROLES = ("jvm", "engine", "workers", "program")
_POLL_SECONDS = 0.02
_PATIENCE_SECONDS = 300
_FIELDS = (
    "batches",
    "CPU s/batch",
    "s/batch",
    "JVM MB",
    "heap",
    "engine",
    "workers",
    "number",
    "open",
    "data",
    "snapshots",
    "manifests",
    "checkpoint",
)


class StalledError(Exception):
    """The stream has run no batch for minutes, or has ended."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a stream was after a number of batches.

    `cpu` and `wall` are seconds of one of the batches since the last measurement; `resident` is in bytes, by role;
    `heap` is what the JVM retains after a collection; `files` counts those of the table, by directory, and those of the
    checkpoint.
    """

    batches: int
    cpu: float
    wall: float
    resident: dict[str, int]
    heap: int
    workers: int
    open_files: int
    files: dict[str, int]

    def line(self) -> str:
        """Return the figures as a line of a table."""
        data = self.files.get("data", 0)
        found = (
            f"{self.batches:,}",
            f"{self.cpu:.3f}",
            f"{self.wall:.3f}",
            *(f"{n / _MB:.0f}" for n in (self.resident["jvm"], self.heap)),
            *(f"{self.resident[role] / _MB:.0f}" for role in ("engine", "workers")),
            *(f"{n:,}" for n in (self.workers, self.open_files, data)),
            *(f"{self.files.get(name, 0):,}" for name in ("snapshot", "manifest", "checkpoint")),
        )
        return _row(found)


def _row(cells: tuple[str, ...]) -> str:
    return "".join(c.rjust(max(len(name), 6) + 2) for c, name in zip(cells, _FIELDS, strict=True))


def _role(process: Process) -> str:
    if process.java:
        return "jvm"
    try:
        command = Path(f"/proc/{process.pid}/cmdline").read_text()
    except OSError:
        return "program"
    return "engine" if "paimon_spark.bridge" in command else "workers" if "pyspark.daemon" in command else "program"


def _open_files(pid: int) -> int:
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return 0


def _count(table: Path, checkpoint: Path) -> dict[str, int]:
    found: dict[str, int] = {"checkpoint": sum(f.is_file() for f in checkpoint.rglob("*"))}
    for file in table.rglob("*"):
        if file.is_file():
            place = file.relative_to(table).parts[0]
            name = "data" if place.startswith("bucket-") else place
            found[name] = found.get(name, 0) + 1
    return found


class LongStream:
    """A stream into a new table, and its measurements."""

    def __init__(self, spark: SparkSession, work: Path, *, rows: int, keys: int, options: str) -> None:
        self._spark, self._work = spark, work
        spark.sql("CREATE DATABASE IF NOT EXISTS paimon.bench")
        given = f"'primary-key' = 'id'{', ' if options else ''}{options}"
        spark.sql(f"CREATE TABLE {_TABLE} (id BIGINT NOT NULL, v BIGINT, s STRING) TBLPROPERTIES ({given})")
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 1)
        upserts = source.load().selectExpr(
            f"pmod(xxhash64(value), {keys}L) AS id", "value AS v", "substring(sha2(string(value), 256), 1, 16) AS s"
        )
        writer = upserts.writeStream.outputMode("update").option("checkpointLocation", str(work / "checkpoint"))
        self._query: StreamingQuery = writer.toTable(_TABLE)
        self._cpu, self._wall, self._batches = self._spent(), time.perf_counter(), 0

    def measure(self, batches: int, every: int, until: float) -> Iterator[Measured]:
        """Yield what the stream is after every so many batches, as long as there is time."""
        for target in range(every, batches + 1, every):
            self._await(target)
            yield self._measured()
            if time.monotonic() > until:
                return

    def close(self) -> None:
        """Stop the stream."""
        self._query.stop()

    def _done(self) -> int:
        progress: Any = self._query.lastProgress
        return 0 if progress is None else int(progress["batchId"]) + 1

    def _await(self, batches: int) -> None:
        known, since = self._done(), time.monotonic()
        while known < batches:
            time.sleep(_POLL_SECONDS * max(1, min(20, batches - known)))
            done = self._done()
            if done != known:
                known, since = done, time.monotonic()
            if not self._query.isActive or time.monotonic() - since > _PATIENCE_SECONDS:
                raise StalledError(f"the stream has run {known} batches: {self._query.exception()}")

    def _spent(self) -> float:
        return cpu_seconds(os.getpid())

    def _measured(self) -> Measured:
        cpu, wall, done = self._spent(), time.perf_counter(), self._done()
        new = max(done - self._batches, 1)
        members = tree(os.getpid())
        roles = [_role(p) for p in members]
        resident = {role: sum(p.resident for p, r in zip(members, roles, strict=True) if r == role) for role in _ROLES}
        served = [p.pid for p, r in zip(members, roles, strict=True) if r in ("jvm", "engine")]
        found = Measured(
            batches=done,
            cpu=(cpu - self._cpu) / new,
            wall=(wall - self._wall) / new,
            resident=resident,
            heap=self._heap(),
            workers=roles.count("workers"),
            open_files=sum(map(_open_files, served)),
            files=_count(self._work / "warehouse/bench.db/upserted", self._work / "checkpoint"),
        )
        self._cpu, self._wall, self._batches = self._spent(), time.perf_counter(), self._done()
        return found

    def _heap(self) -> int:
        jvm: Any = self._spark._jvm
        jvm.java.lang.System.gc()
        runtime = jvm.java.lang.Runtime.getRuntime()
        return int(runtime.totalMemory() - runtime.freeMemory())


def _session(work: Path, heap: str) -> SparkSession:
    from pyspark.sql import SparkSession

    import paimon_spark

    builder = SparkSession.builder.appName("long stream")
    for key, value in {**SESSION, "spark.driver.memory": heap, "spark.local.dir": str(work / "local")}.items():
        builder = builder.config(key, value)
    builder = paimon_spark.configure(builder, catalog="paimon", warehouse=str(work / "warehouse"))
    session: SparkSession = builder.getOrCreate()
    return session


def main() -> int:
    """Run the stream, and print a line after each hundred batches."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long_stream", description=__doc__)
    parser.add_argument("--batches", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=1000, help="rows of a batch")
    parser.add_argument("--keys", type=int, default=100_000, help="different keys of all batches")
    parser.add_argument("--every", type=int, default=100, help="batches between two measurements")
    parser.add_argument("--minutes", type=float, default=60, help="no further hundred is begun after this time")
    parser.add_argument("--options", default="", help="of the table: \"'snapshot.num-retained.max' = '20'\"")
    parser.add_argument("--heap", default="2g", help="of the JVM")
    parser.add_argument("--out", type=Path, help="a directory for the figures as JSON")
    args = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="bench-long-stream-"))
    until = time.monotonic() + 60 * args.minutes
    found: list[Measured] = []
    spark = _session(work, args.heap)
    try:
        stream = LongStream(spark, work, rows=args.rows, keys=args.keys, options=args.options)
        sys.stdout.write(_row(_FIELDS) + "\n")
        for measured in stream.measure(args.batches, args.every, until):
            found.append(measured)
            sys.stdout.write(measured.line() + "\n")
            sys.stdout.flush()
        stream.close()
    finally:
        spark.stop()
        shutil.rmtree(work, ignore_errors=True)
    if args.out:
        save(args.out, "long_stream.json", {"arguments": vars(args) | {"out": None}, "measured": [*map(asdict, found)]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
