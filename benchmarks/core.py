"""`python -m benchmarks.core`: parts of the table core without Spark, each with its lower bound (`make bench-core`).

The garbage collector is set as in the engine.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as po
import pyarrow.parquet as pq

from benchmarks.merge_kinds import MERGE_KINDS
from benchmarks.process_tree import Usage, resident
from benchmarks.report import save
from paimon_spark import connect
from paimon_spark.api.table import TableHandle
from paimon_spark.bridge.launcher import relax_garbage_collection
from paimon_spark.core.buckets.bucket_hash import hash_rows
from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.compact.rewrite import compact_bucket
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.merge.config import merge_order
from paimon_spark.core.merge.sort_merge import merge_runs
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.scan.scan import live_entries
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import TableWriter
from paimon_spark.engine.compaction.compact import Strategy, plan_compaction
from paimon_spark.engine.insert import plan_write
from paimon_spark.engine.select import plan_select
from paimon_spark.format.arrow_types import fields_from_arrow
from paimon_spark.format.avro.schema import avro_schema
from paimon_spark.format.manifest.codec import read_manifest, write_manifest
from paimon_spark.format.registry import open_reader
from paimon_spark.spec.manifest import ManifestEntry
from paimon_spark.spec.rows import encode_row
from paimon_spark.spec.types import DataField

_RUNS = 5
_CHUNK = 65_536
_NARROW = ["id", "i", "b", "d"]


def _write_avro(rows: pa.Table, path: Path) -> None:
    schema = fastavro.parse_schema(avro_schema(fields_from_arrow(rows.schema)))
    with path.open("wb") as out:
        fastavro.writer(out, schema, rows.to_pylist(), codec="zstandard")


def _read_avro(path: Path, names: list[str]) -> pa.Table:
    with path.open("rb") as stored:
        return pa.Table.from_pylist(list(fastavro.reader(stored))).select(names)


_ENCODERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "parquet": lambda rows, path: pq.write_table(rows, path, compression="zstd"),
    "orc": lambda rows, path: po.write_table(rows, path, compression="zstd"),
    "avro": _write_avro,
}
_DECODERS: dict[str, Callable[[Path, list[str]], pa.Table]] = {
    "parquet": lambda path, names: pq.read_table(path, columns=names, use_threads=False),
    "orc": lambda path, names: po.read_table(path, columns=names),
    "avro": _read_avro,
}
_LIBRARIES = {"parquet": "pyarrow", "orc": "pyarrow", "avro": "fastavro"}


@dataclass(frozen=True, slots=True)
class Figure:
    """A measurement: CPU seconds of one core for `units`, and of the lower bound for the same units, if there is one.

    `target` is the rate to reach, if there is one.
    """

    name: str
    units: int
    unit: str
    seconds: float
    floor: str = ""
    floor_seconds: float = 0.0
    target: float = 0.0

    @property
    def rate(self) -> float:
        """Return units per CPU second."""
        return self.units / self.seconds

    def line(self) -> str:
        """Return the figure as a line of a table."""
        times = f"{self.seconds / self.floor_seconds:5.2f} times {self.floor}" if self.floor_seconds else ""
        reached = "reached" if self.rate >= self.target else "missed"
        target = f"  {reached}: {self.target / 1e6:.2f} M {self.unit}/s" if self.target else ""
        return (
            f"  {self.name:<44} {self.rate / 1e6:9.2f} M {self.unit}/s  {self.seconds * 1000:8.0f} ms  {times}{target}"
        )


def cost(body: Callable[[], object], runs: int = _RUNS) -> float:
    """Return the median CPU seconds of a body, after one run that warms up."""
    body()
    found = []
    for _ in range(runs):
        began = time.process_time()
        body()
        found.append(time.process_time() - began)
    return median(found)


def sample(rows: int, seed: int = 0) -> pa.Table:
    """Return rows in random key order: a bigint key and eight columns of several types."""
    rng = np.random.default_rng(seed)
    words = pa.array([f"code-{n}" for n in range(500)])
    numbers = rng.integers(0, 1 << 60, rows)
    text = pc.binary_join_element_wise(pc.cast(pa.array(numbers), pa.string()), "-text", "")
    return pa.table(
        {
            "id": pa.array(rng.permutation(rows), pa.int64()),
            "i": pa.array((numbers % 1_000_000).astype(np.int32)),
            "b": pa.array(numbers),
            "d": pa.array(rng.random(rows)),
            "amount": pc.cast(pc.cast(pa.array(numbers % 1_000_000_000), pa.decimal128(21, 2)), pa.decimal128(12, 2)),
            "code": words.take(pa.array(numbers % 500)),
            "text": text,
            "at": pa.array(numbers % (1 << 50), pa.timestamp("us")),
            "day": pc.cast(pa.array((numbers % 20_000).astype(np.int32)), pa.date32()),
        }
    )


def table_of(rows: pa.Table, warehouse: Path, name: str, **options: str) -> Table:
    """Return a new table with a primary key for such rows."""
    catalog = connect(warehouse)
    catalog.create_database("bench", ignore_if_exists=True)
    settings = {"bucket": "1", "write-only": "true", **options}
    schema = rows.schema.set(0, pa.field("id", pa.int64(), nullable=False))
    return catalog.create_table(f"bench.{name}", schema, primary_key=["id"], options=settings).load()


def merging(rows: pa.Table, table: Table) -> Iterator[Figure]:
    """Measure the merge of five sorted runs, a large one and four with a tenth of its rows each."""
    runs = _five_runs(rows)
    total = sum(r.num_rows for r in runs)

    def copy() -> object:
        return pa.concat_tables(runs).combine_chunks()

    merged = cost(partial(_merge, runs, table))
    yield Figure("merge of 5 runs, 9 columns", total, "rows", merged, "a copy of the rows", cost(copy))


def merging_kinds(rows: pa.Table, warehouse: Path) -> Iterator[Figure]:
    """Measure the same merge by other merge engines, and compactions with a lookup."""
    runs = _five_runs(rows)
    total = sum(r.num_rows for r in runs)
    for number, (name, kind) in enumerate(MERGE_KINDS.items()):
        table = table_of(rows, warehouse, f"kind_{number}", **kind.options)
        if kind.merge_rate:
            merged = cost(partial(_merge, runs, table))
            yield Figure(f"merge of 5 runs, {name}", total, "rows", merged, target=kind.merge_rate)
        if kind.lookup_rate:
            looked_up, count = _lookup(rows, connect(warehouse).table(f"bench.kind_{number}"))
            yield Figure(f"compaction with lookup, {name}", count, "rows", looked_up, target=kind.lookup_rate)


def _lookup(rows: pa.Table, handle: TableHandle) -> tuple[float, int]:
    """Return the cost of compacting a tenth of some rows below all of them, and the number of rows in the files."""
    handle.upsert(rows)
    handle.compact()
    handle.upsert(rows.slice(0, rows.num_rows // 10))
    table = handle.load().with_options({"write-only": "false"})
    (task,) = plan_compaction(table, strategy=Strategy.MINOR).tasks
    if not task.upper:
        raise RuntimeError("the compaction has no lookup")
    return cost(lambda: compact_bucket(table, task), 3), sum(f.row_count for f in (*task.files, *task.upper))


def _five_runs(rows: pa.Table) -> list[pa.Table]:
    ordered = rows.sort_by("id")
    tenths = [ordered.take(pa.array(np.arange(number, ordered.num_rows, 10))) for number in range(1, 5)]
    return [_run(part, number) for number, part in enumerate([ordered, *tenths])]


def _merge(runs: Sequence[pa.Table], table: Table) -> int:
    return sum(t.num_rows for t in merge_runs([_chunks(r) for r in runs], merge_order(table)))


def _run(rows: pa.Table, sequence: int) -> pa.Table:
    count = rows.num_rows
    numbers = pa.array(np.arange(count, dtype=np.int64) + sequence * count * 10)
    return rows.append_column("_SEQUENCE_NUMBER", numbers).append_column(
        "_VALUE_KIND", pa.array(np.zeros(count, np.int8))
    )


def _chunks(run: pa.Table) -> Iterator[pa.Table]:
    return (run.slice(start, _CHUNK) for start in range(0, run.num_rows, _CHUNK))


def writing(rows: pa.Table, kind: str, warehouse: Path) -> Iterator[Figure]:
    """Measure sorting and writing rows of a bucket, and the encoding alone."""
    ordered, shape = rows.sort_by("id"), f"{kind}, {rows.num_columns} columns"
    table = table_of(rows, warehouse, f"write_{kind}_{rows.num_columns}", **{"file.format": kind})

    def write() -> None:
        plan = plan_write(table).info
        with TableWriter(table, plan) as writer:
            for batch in rows.to_batches(max_chunksize=_CHUNK):
                writer.write(batch)
            writer.finish()

    floor = cost(partial(_ENCODERS[kind], ordered, warehouse / f"floor.{kind}"))
    yield Figure(
        f"sort and write {shape}", rows.num_rows, "rows", cost(write), f"{_LIBRARIES[kind]}'s {kind} encoder", floor
    )


def reading(rows: pa.Table, warehouse: Path) -> Iterator[Figure]:
    """Measure decoding of a written file beside the library of its format."""
    for kind in _LIBRARIES:
        table = table_of(rows, warehouse, f"read_{kind}", **{"file.format": kind})
        handle = connect(warehouse).table(f"bench.read_{kind}")
        handle.upsert(rows)
        paths = sorted(Path(table.path).rglob(f"data-*.{kind}"))
        fields = table.schema.fields

        def ours(table: Table = table, paths: Sequence[Path] = paths, fields: Sequence[DataField] = fields) -> None:
            for path in paths:
                with open_reader(table.file_io, str(path), fields, path.stat().st_size) as reader:
                    for batch in reader.batches():
                        del batch

        def library(kind: str = kind, paths: Sequence[Path] = paths, fields: Sequence[DataField] = fields) -> None:
            for path in paths:
                _DECODERS[kind](path, [f.name for f in fields])

        reader = f"{_LIBRARIES[kind]}'s {kind} reader"
        yield Figure(f"decode {kind}", rows.num_rows, "rows", cost(ours), reader, cost(library))


def hashing(rows: pa.Table, table: Table) -> Iterator[Figure]:
    """Measure the bucket hash of a bigint key and of a string."""
    for name in ("id", "text"):
        batch = rows.select([name]).combine_chunks()
        fields = [table.schema.field(name)]
        floor = cost(partial(pc.count_distinct, batch.column(0)))
        hashed = cost(partial(hash_rows, batch, fields))
        yield Figure(f"bucket hash of {name}", rows.num_rows, "rows", hashed, "Arrow's hash", floor)
    types = [f.type for f in table.schema.fields[:3]]
    values = [(n, n % 1000, n * 3) for n in range(100_000)]
    yield Figure(
        "BinaryRow of 3 fields, one at a time",
        len(values),
        "rows",
        cost(lambda: [encode_row(v, types) for v in values]),
    )


def manifests(entries: Sequence[ManifestEntry]) -> Iterator[Figure]:
    """Measure writing and reading a manifest of many entries."""
    data = write_manifest(entries)
    yield Figure("write a manifest", len(entries), "entries", cost(lambda: write_manifest(entries), 3))
    yield Figure("read a manifest", len(entries), "entries", cost(lambda: read_manifest(data), 3))


def planning(table: Table, files: int) -> Iterator[Figure]:
    """Measure the plan of a table with many files, without and with decoded manifests."""
    snapshot = table.snapshots.latest()
    count = len(ManifestStore(table).data_manifests(snapshot)) if snapshot else 0

    def cold() -> object:
        clear_cache()
        return plan_select(table)

    name = f"plan of {files:,} files in {count:,} manifests"
    before = resident(os.getpid())
    with Usage(os.getpid()) as peak:
        yield Figure(f"{name}, cold", files, "files", cost(cold, 3))
        yield Figure(f"{name}, warm", files, "files", cost(lambda: plan_select(table), 3))
    sys.stderr.write(f"planning took {(peak.python - before) >> 20} MB of memory\n")


def many_files(warehouse: Path, files: int) -> tuple[Table, list[ManifestEntry]]:
    """Return an append table that lists many files, a hundred in a manifest; the files themselves do not exist."""
    handle = connect(warehouse).create_table(
        "bench.files", sample(1).schema, options={"manifest.target-file-size": "4 kb", "write-only": "true"}
    )
    handle.append(sample(10))
    table = handle.load()
    snapshot = table.snapshots.latest()
    if snapshot is None:
        raise RuntimeError("the rows were not committed")
    (first,) = live_entries(ManifestStore(table), ManifestStore(table).data_manifests(snapshot))
    draw = random.Random(0)
    names = (f"data-{uuid.UUID(int=draw.getrandbits(128))}-0.parquet" for _ in range(files))
    entries = [replace(first, file=replace(first.file, file_name=name)) for name in names]
    message = CommitMessage(
        partition=first.partition,
        bucket=first.bucket,
        total_buckets=first.total_buckets,
        new_files=tuple(e.file for e in entries),
    )
    FileStoreCommit(table).commit([message])
    return table, entries


def main() -> int:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.core", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="the size of a write buffer")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    pa.set_cpu_count(1)
    relax_garbage_collection()
    warehouse = Path(tempfile.mkdtemp(prefix="bench-core-"))
    figures: list[Figure] = []
    sys.stdout.write("CPU of one core, medians; the last column is the cost relative to the lower bound\n")
    try:
        for figure in _all(args.rows, args.files, warehouse):
            figures.append(figure)
            sys.stdout.write(figure.line() + "\n")
            sys.stdout.flush()
    finally:
        shutil.rmtree(warehouse, ignore_errors=True)
    measured = [asdict(f) | {"rate": f.rate} for f in figures]
    save(args.out, "core.json", {"rows": args.rows, "figures": measured})
    sys.stdout.write(f"\nwritten to {args.out}\n")
    return 0


def _all(rows: int, files: int, warehouse: Path) -> Iterator[Figure]:
    data = sample(rows)
    table = table_of(data, warehouse, "merged")
    yield from hashing(data, table)
    yield from merging(data, table)
    yield from merging_kinds(data, warehouse)
    for kind in _LIBRARIES:
        yield from writing(data, kind, warehouse)
    yield from writing(data.select(_NARROW), "parquet", warehouse)
    yield from reading(data, warehouse)
    listed, entries = many_files(warehouse, files)
    yield from manifests(entries)
    yield from planning(listed, files)


if __name__ == "__main__":
    sys.exit(main())
