"""`python -m benchmarks.cancels`: seconds from the cancel of a CALL until it ends in its session.

Each CALL is cancelled at several moments of its run, on a fresh copy of its table. If it fails, the table must give the
same rows as before and have the same latest snapshot. A CALL that has begun to publish its result completes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from benchmarks import engines
from benchmarks.engines import Engine
from benchmarks.report import save
from benchmarks.session import EngineFailedError, EngineSession
from benchmarks.workload import row_query

RESULTS = "cancels.json"
MOMENTS = (0.0, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)
"""When a CALL is cancelled, as a share of its duration without a cancel."""
_OLD_S = 1_600_000_000
_ORPHANS = 30_000
_INSERTS = 100
_PLAIN_FILES = 400
_TARGET = "cancelled_target"
_SOURCE = "default.cancelled_source"
_COPY = "bench.t"


@dataclass(frozen=True, slots=True)
class Case:
    """A CALL on a copy of a template, or on Spark's own table without one; `prepare` runs before it."""

    procedure: str
    template: str | None
    call: str
    prepare: tuple[str, ...] = ()
    orphans: int = 0

    @property
    def table(self) -> str:
        """Return the table that must not change."""
        return f"spark_catalog.{_SOURCE}" if self.template is None else f"paimon.{_COPY}"


_INDEXED = f"ALTER TABLE paimon.{_COPY} SET TBLPROPERTIES ('file-index.bloom-filter.columns' = 'id,b,code,text')"
_WIDER = f"ALTER TABLE paimon.{_COPY} SET TBLPROPERTIES ('bucket' = '8')"
_NO_TARGET = f"DROP TABLE IF EXISTS paimon.bench.{_TARGET}"
_CLONE = (
    f"clone(`database` => 'bench', `table` => 't', target_database => 'bench', target_table => '{_TARGET}',"
    " clone_from => 'paimon')"
)
_EXPIRE = f"expire_snapshots(table => '{_COPY}', retain_max => 1, retain_min => 1, older_than => '2099-01-01 00:00:00')"
_MIGRATE = (
    f"migrate_table(source_type => 'hive', table => '{_SOURCE}', target_table => 'bench.{_TARGET}',"
    " delete_origin => false)"
)
CASES = (
    Case("compact", "large", f"compact('{_COPY}')"),
    Case("rescale", "large", f"rescale(table => '{_COPY}', bucket_num => 8)", (_WIDER,)),
    Case("rewrite_file_index", "large", f"rewrite_file_index('{_COPY}')", (_INDEXED,)),
    Case("clone", "files", _CLONE, (_NO_TARGET,)),
    Case("remove_orphan_files", "files", f"remove_orphan_files('{_COPY}')", orphans=_ORPHANS),
    Case("expire_snapshots", "files", _EXPIRE, (f"INSERT OVERWRITE paimon.{_COPY} VALUES (1, 1)",)),
    Case("migrate_table", None, _MIGRATE, (_NO_TARGET,)),
)


@dataclass(slots=True)
class Cancels:
    """The seconds of each cancel by procedure, how many CALLs completed, how long they run, and what was wrong."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    completed: dict[str, int] = field(default_factory=dict)
    whole: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def as_text(self) -> list[str]:
        """Return the figures for a terminal."""
        return [
            f"  {name:<22} runs {self.whole[name]:6.2f} s, cancels {len(found):>3}, "
            f"p50 {median(found):5.2f} s, max {max(found):5.2f} s, completed {self.completed[name]}"
            for name, found in self.seconds.items()
            if found
        ]


class _Lab:
    """A session with the templates, and the copy that the CALLs change."""

    def __init__(self, engine: Engine, work: Path, rows: int, cases: Sequence[Case]) -> None:
        self._session = EngineSession(engine, work / "cancels", work / "cancels.log")
        self._database = work / "cancels" / "paimon" / "bench.db"
        self._session.run("CREATE DATABASE IF NOT EXISTS paimon.bench")
        for template in {c.template for c in cases}:
            self._session.run(*_template(engine, template, rows))

    def prepare(self, case: Case) -> tuple[object, ...]:
        """Make a fresh copy of the template of a case, and return its state."""
        if case.template is not None:
            copy = self._database / _COPY.partition(".")[2]
            self._session.run(f"DROP TABLE IF EXISTS paimon.{_COPY}")
            shutil.copytree(self._database / case.template, copy)
            _plant(copy, case.orphans)
        self._session.run(*case.prepare)
        return self.state(case)

    def state(self, case: Case) -> tuple[object, ...]:
        """Return a sum over the rows of the table of a case, and its latest snapshot."""
        rows = self._session.run(f"SELECT count(*), sum(id) FROM {case.table}").rows
        if case.template is None:
            return (rows,)
        latest = "SELECT max(snapshot_id) FROM paimon.bench.`t$snapshots`"
        return rows, self._session.run(latest).rows

    def seconds(self, case: Case) -> float:
        """Return how long a CALL takes."""
        return self._session.run(f"CALL paimon.sys.{case.call}").wall

    def cancelled(self, case: Case, after: float) -> tuple[float | None, bool]:
        """Cancel a CALL after some seconds; return those until it ended, None if it had, and whether it failed."""
        return self._session.cancelled(f"CALL paimon.sys.{case.call}", after)

    def close(self) -> None:
        """End the session."""
        self._session.close()


def _template(engine: Engine, name: str | None, rows: int) -> Iterator[str]:
    """Yield the statements that create a template, or Spark's own table."""
    if name == "large":
        yield engine.create.format(t="paimon.bench.large")
        for number in range(3):
            yield f"INSERT INTO paimon.bench.large {row_query(f'SELECT id FROM range({rows})', number)}"
    elif name == "files":
        options = "PARTITIONED BY (p) TBLPROPERTIES ('write-only' = 'true')"
        yield f"CREATE TABLE paimon.bench.files (id BIGINT, p INT) {options}"
        row = "SELECT /*+ COALESCE(1) */ id + {n}, CAST(id AS INT) FROM range(10)"
        for number in range(_INSERTS):
            yield f"INSERT INTO paimon.bench.files {row.format(n=number)}"
    else:
        plain = f"SELECT /*+ REPARTITION({_PLAIN_FILES}) */ id FROM range({_PLAIN_FILES * 10})"
        yield f"CREATE TABLE spark_catalog.{_SOURCE} USING parquet AS {plain}"


def _plant(table: Path, orphans: int) -> None:
    """Make old files that nothing references."""
    for number in range(orphans):
        path = table / f"p={number % 10}" / "bucket-0" / f"data-orphan-{number}-0.parquet"
        path.touch()
        os.utime(path, (_OLD_S, _OLD_S))


def measure(engine: Engine, work: Path, report: Callable[[str], None], *, rows: int, cases: Sequence[Case]) -> Cancels:
    """Cancel each CALL at all moments."""
    lab, found = _Lab(engine, work, rows, cases), Cancels()
    for case in cases:
        for _ in range(2):  # the first is slower
            lab.prepare(case)
            found.whole[case.procedure] = lab.seconds(case)
        for moment in MOMENTS:
            _cancel_once(lab, case, moment, found)
        report("\n".join(found.as_text()[-1:]))
    lab.close()
    return found


def _cancel_once(lab: _Lab, case: Case, moment: float, found: Cancels) -> None:
    before = lab.prepare(case)
    try:
        seconds, failed = lab.cancelled(case, moment * found.whole[case.procedure])
    except EngineFailedError as e:
        found.failures.append(f"{case.procedure} at {moment}: {e}")
        return
    if seconds is None:
        return  # it was faster this time
    found.seconds.setdefault(case.procedure, []).append(seconds)
    found.completed[case.procedure] = found.completed.get(case.procedure, 0) + (not failed)
    after = lab.state(case)
    if failed and after != before:
        found.failures.append(f"{case.procedure} at {moment}: {before} before, {after} after")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the figures; the exit code is 0 if every table was as before."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cancels", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the table that is compacted")
    parser.add_argument("--only", default="", help="procedures, separated by commas")
    parser.add_argument("--work", type=Path, default=Path("build/bench"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args(arguments)
    chosen = [c for c in CASES if not args.only or c.procedure in args.only.split(",")]
    found = measure(engines.ours(), args.work.resolve(), _report, rows=args.rows, cases=chosen)
    save(args.out, RESULTS, {"rows": args.rows, **asdict(found)})
    sys.stdout.write("\n".join([*found.as_text(), *(f"FAILED {f}" for f in found.failures)]) + "\n")
    return 1 if found.failures else 0


def _report(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
