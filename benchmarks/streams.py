"""Streaming upserts into a large table, reads of their changelog, and an idle stream.

All sinks get the same batches of new and existing keys from Parquet files, one file per batch: this project's and
Paimon's by their streaming writes, Iceberg's and Delta's by a MERGE in foreachBatch. The latency of a batch is the
duration of its trigger, from the listing of its file to the commit that makes its rows visible.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.engines import PEERS
from benchmarks.session import EngineFailedError, EngineSession
from benchmarks.workload import MERGE, row_query

BATCHES = 100
BATCH_ROWS = 10_000
TABLE_ROWS = 2_000_000
IDLE_SECONDS = 20
_QUIET_SECONDS = 20
"""A session needs so long after a query to clean up, and a stream to pause as long as it ever does between polls."""
TARGETS = {"paimon": 0.6, "delta": 0.25}
"""Maximum CPU of a batch, relative to a peer."""
AIM_IDLE = 0.01
"""Maximum share of a core of an idle stream, beyond that of its session without one."""
_LOGGED = "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '4', 'changelog-producer' = 'input')"


@dataclass(frozen=True, slots=True)
class Streamed:
    """The cost of one engine: CPU seconds per batch, rows per second, and milliseconds of each trigger."""

    cpu: float
    rate: float
    triggers: list[float]

    def percentile(self, share: float) -> float:
        """Return this percentile of the milliseconds of the batches."""
        ordered = sorted(self.triggers)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


@dataclass(slots=True)
class Streams:
    """Measurements by engine, and failures."""

    batches: int = 0
    writes: dict[str, Streamed] = field(default_factory=dict)
    reads: dict[str, tuple[float, float]] = field(default_factory=dict)
    """CPU and wall seconds of the changelog of all batches."""
    idle: dict[str, float] = field(default_factory=dict)
    """The share of a core, beyond that of the session without a stream."""
    failures: list[str] = field(default_factory=list)

    def as_figures(self) -> dict[str, object]:
        """Return the figures for the file of results."""
        writes = {
            name: {"cpu": s.cpu, "rows_per_second": s.rate, "p50": s.percentile(0.5), "p99": s.percentile(0.99)}
            for name, s in self.writes.items()
        }
        reads = {name: {"cpu": cpu, "wall": wall} for name, (cpu, wall) in self.reads.items()}
        return {"batches": self.batches, "upserts": writes, "changelog": reads, "idle_share_of_a_core": self.idle}

    def as_text(self) -> list[str]:
        """Return the table for the terminal."""
        lines = [
            f"  {name:<14}{s.cpu:8.2f} CPU s a batch{s.rate:10,.0f} rows/s{s.percentile(0.5):8.0f} ms p50"
            f"{s.percentile(0.99):8.0f} ms p99"
            for name, s in self.writes.items()
        ]
        own = self.writes.get(PEERS[0])
        for name, target in TARGETS.items():
            if own is not None and name in self.writes:
                ratio = own.cpu / self.writes[name].cpu
                word = "reached" if ratio <= target else "missed"
                lines.append(f"  CPU of a batch, to that of {name:<12} ≤ {target:.2f} {ratio:7.2f} {word}")
        lines += [
            f"  {name:<14}{cpu:8.2f} CPU s, {wall:.2f} s for the changelog of all batches"
            for name, (cpu, wall) in self.reads.items()
        ]
        for name, share in self.idle.items():
            word = f" ≤ {AIM_IDLE:.0%} {'reached' if share <= AIM_IDLE else 'missed'}" if name == PEERS[0] else ""
            lines.append(f"  {name:<14}{share:8.2%} of a core when idle{word}")
        return lines


def measure(
    sessions: Sequence[EngineSession],
    work: Path,
    report: Callable[[str], None],
    *,
    batches: int = BATCHES,
    table_rows: int = TABLE_ROWS,
) -> Streams:
    """Run the streams on all engines that change tables."""
    found = Streams(batches)
    changing = [s for s in sessions if s.engine.deletes]
    if not changing:
        return found
    sources = work / f"streams-{batches}-{table_rows}"
    _stage(changing[0], sources, batches, table_rows)
    for session in changing:
        try:
            _measure(session, sources, found, table_rows)
        except EngineFailedError as e:
            found.failures.append(f"streams: {e}")
        report(f"  {batches} batches on {session.engine.label}")
    return found


def _stage(session: EngineSession, sources: Path, batches: int, table_rows: int) -> None:
    """Write the files of the batches, unless they exist: each has rows all over the table, a tenth of them new."""
    done = sources / "_STAGED"
    if done.exists():
        return
    shutil.rmtree(sources, ignore_errors=True)
    for number in range(batches):
        ids = f"SELECT pmod(xxhash64(id, {number}), {table_rows * 11 // 10}L) AS id FROM range(0, {BATCH_ROWS}, 1, 1)"
        ids = f"SELECT /*+ COALESCE(1) */ DISTINCT id FROM ({ids})"
        session.write(row_query(ids, number + 1), str(sources / f"batch-{number:05}"))
    done.touch()


def _measure(session: EngineSession, sources: Path, found: Streams, table_rows: int) -> None:
    engine = session.engine
    db, own = f"{engine.database}_streams", engine.name in PEERS
    table = f"{db}.target"
    layout = _LOGGED if own else engine.layout
    session.run(
        f"CREATE DATABASE IF NOT EXISTS {db}",
        engine.create.replace(engine.layout, layout).format(t=table),
        f"INSERT INTO {table} {row_query(f'SELECT id FROM range({table_rows})', 0)}",
    )
    place = session.warehouse / "stream-checkpoints"
    location = str(session.warehouse / f"paimon/{db.partition('.')[2]}.db/target") if own else ""
    sink: dict[str, Any] = {"source": f"{sources}/batch-*", "checkpoint": str(place / "write")}
    if own:
        sink |= {"table": table} if engine.name == PEERS[0] else {"path": location}
    else:
        sink["merge"] = MERGE.format(t=table, source="stream_batch")
    cpu, answer = session.stream({"write": sink})
    triggers = [float(t) for t in answer["triggers"]]
    rows = sum(answer["rows_of"])
    found.writes[engine.name] = Streamed(cpu / max(len(triggers), 1), rows / answer["seconds"], triggers)
    if own:
        cpu, answer = session.stream({"read": {"path": location, "from": "2", "checkpoint": str(place / "read")}})
        found.reads[engine.name] = (cpu, answer["seconds"])
        alone = _idle_cpu(session)
        session.stream({"idle": {"path": location, "checkpoint": str(place / "idle")}})
        found.idle[engine.name] = max(_idle_cpu(session) - alone, 0.0) / IDLE_SECONDS
        session.stream({"stop": {}})
    session.run(f"DROP DATABASE {db} CASCADE")


def _idle_cpu(session: EngineSession) -> float:
    session.cpu_while_idle(_QUIET_SECONDS)
    return session.cpu_while_idle(IDLE_SECONDS)


def options(parser: Any) -> None:
    """Add the options of this step to the command line."""
    parser.add_argument(
        "--streams", type=int, default=BATCHES, help=f"batches of {BATCH_ROWS:,} rows as a stream; 0 leaves them out"
    )
    parser.add_argument("--stream-table", type=int, default=TABLE_ROWS, help="rows of the table that a stream upserts")


def figures(streams: Streams) -> Mapping[str, object]:
    """Return the figures of a run, empty without one."""
    return streams.as_figures() if streams.writes else {}
