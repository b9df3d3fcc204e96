"""compact_database."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.calls.context import CallContext
from paimon_spark.calls.run import run_call
from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.core.cancellation import cancellable
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import ArgumentError, OptionError, PaimonError, StatementCancelledError
from paimon_spark.spec.evolution import new_schema
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.types import DataField, parse_atomic
from paimon_spark.testing.tables import read_arrow
from tests.unit.core.history import leaked, lost
from tests.unit.procedures.calling import NOW, REGISTRY

NAMES = ("db1.ignore", "db1.table_a", "db1.table_b", "db2.table_c", "other.table_d")
RUNS = 3


class Warehouse:
    """Five tables in three databases, with three files in each of two buckets."""

    def __init__(self, path: Path) -> None:
        self.catalog = open_catalog({"warehouse": str(path)})
        self.runner: LocalRunner = LocalRunner()
        self.kinds: list[tuple[str, int]] = []
        for name in NAMES:
            self.catalog.create_database(name.split(".")[0], ignore_if_exists=True)
            columns = [DataField(0, "k", parse_atomic("INT")), DataField(1, "v", parse_atomic("INT"))]
            options = {"bucket": "2", "write-only": "true"}
            schema = new_schema(columns, primary_keys=["k"], options=options)
            table = self.catalog.create_table(Identifier.parse(name), schema)
            for n in range(RUNS):
                self.insert(table, n)

    def insert(self, table: Table, n: int) -> None:
        write_arrow(table, pa.table({"k": pa.array(range(4), pa.int32()), "v": pa.array([n] * 4, pa.int32())}))

    def table(self, name: str) -> Table:
        return self.catalog.load_table(Identifier.parse(name))

    def call(self, arguments: str) -> list[dict[str, Any]]:
        ctx = CallContext(
            catalog=self.catalog,
            catalog_name="paimon",
            runner=self.runner,
            clock_millis=lambda: NOW,
        )
        statement = arguments if "CALL" in arguments else f"CALL sys.compact_database({arguments})"
        result = run_call(statement, ctx, REGISTRY)
        return [dict(zip([c for c, _ in result.columns], row, strict=True)) for row in result.rows]

    def compacted(self) -> set[str]:
        return {n for n in NAMES if self.table(n).snapshots.latest_id() == RUNS + 1}

    def check(self) -> None:
        """Nothing is lost, nothing left behind, and the rows are those of the last write."""
        clear_cache()
        for name in NAMES:
            table = self.table(name)
            assert (lost(table), leaked(table)) == (set(), set()), name
            assert sorted(r["v"] for r in read_arrow(table).to_pylist()) == [RUNS - 1] * 4


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path)


class Counting(LocalRunner):
    """Notes each job."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[tuple[str, int]] = []

    def run(self, kind: str, payloads: Sequence[str], *, description: str) -> Iterator[str]:
        self.jobs.append((kind, len(payloads)))
        return super().run(kind, payloads, description=description)


GUIDE = "'db1|db2', 'combined', 'table_.*', 'ignore', 'sink.parallelism=4'"


@pytest.mark.parametrize(
    ("arguments", "tables"),
    [
        ("", set(NAMES)),
        ("'db1'", {"db1.ignore", "db1.table_a", "db1.table_b"}),
        ("'db1|db2', 'divided'", set(NAMES) - {"other.table_d"}),
        ("'', '', 'table_.*'", set(NAMES) - {"db1.ignore"}),
        ("'', 'COMBINED', 'db1.table_a|table_c'", {"db1.table_a", "db2.table_c"}),
        (GUIDE, {"db1.table_a", "db1.table_b", "db2.table_c"}),
        ("including_databases => 'db.', excluding_tables => 'db1.*'", {"db2.table_c"}),
        ("including_tables => 'table', options => 'target-file-size=1 mb'", set()),
        ("'nosuch'", set()),
        ("'', '', '', '', '', '1 h', 'minor'", set()),
    ],
)
def test_which_tables(warehouse: Warehouse, arguments: str, tables: set[str]) -> None:
    first, *rest = warehouse.call(arguments)
    wanted = tables or {r["table"] for r in rest}
    assert first["result"].startswith(f"Compact database finished. Success: {len(wanted)}, Failed: 0")
    assert {r["table"] for r in rest} == wanted
    assert {r["result"] for r in rest} <= {"done", "nothing to do"}
    assert warehouse.compacted() == tables
    assert all(r["files_in"] == 2 * RUNS and r["snapshot_after"] == RUNS + 1 for r in rest if r["status"] == "done")
    warehouse.check()


@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        ("'otter'", "No database matches 'otter'. Did you mean 'other'?"),
        ("'db1|zzz'", "No database matches 'zzz'."),
        ("'', '', 'tabel_a|table_b'", "No table matches 'tabel_a'. Did you mean 'table_a'?"),
        ("'db1', '', 'x(y|z)'", "No table matches 'x(y|z)'."),
    ],
)
def test_names_that_match_nothing(warehouse: Warehouse, arguments: str, note: str) -> None:
    planned = warehouse.call(f"EXPLAIN CALL sys.compact_database({arguments})")
    assert [a["reason"] for a in planned if a["action"] == "warn"] == [note]
    (first, *_) = warehouse.call(arguments)
    assert first["result"].partition("Failed: 0. ")[2] == note


def test_combined_is_one_job(warehouse: Warehouse) -> None:
    for mode, jobs in (("combined", [("compact_guarded", 10)]), ("divided", [])):
        warehouse.runner = runner = Counting()
        warehouse.call(f"mode => '{mode}'")
        assert runner.jobs == jobs
    for name in NAMES:
        warehouse.insert(warehouse.table(name), 9)
    warehouse.runner = runner = Counting()
    warehouse.call("mode => 'divided'")
    assert runner.jobs == [("compact", 2)] * 5


def test_a_dry_run_changes_nothing(warehouse: Warehouse) -> None:
    actions = warehouse.call("CALL sys.compact_database(including_databases => 'db2', dry_run => true)")
    assert len(actions) == 2 * RUNS
    assert warehouse.call("EXPLAIN CALL sys.compact_database('db2')") == actions
    assert warehouse.compacted() == set()


@pytest.mark.parametrize("mode", ["divided", "combined"])
def test_a_failure_stays_with_its_table(warehouse: Warehouse, mode: str) -> None:
    planning, running = warehouse.table("db1.table_a"), warehouse.table("db1.table_b")
    latest = planning.snapshots.latest()
    assert latest is not None
    planning.file_io.write(planning.paths.manifest(latest.delta_manifest_list), b"junk")
    victim = next(p for p in running.file_io.list_recursive(running.path) if p.name.startswith("data-"))
    content = running.file_io.read(victim.path)
    running.file_io.write(victim.path, b"junk")
    clear_cache()
    first, *rest = warehouse.call(f"'', '{mode}'")
    assert first["result"] == "Compact database finished. Success: 3, Failed: 2"
    failed = {r["table"]: r["result"] for r in rest if r["status"] == "failed"}
    assert set(failed) == {"db1.table_a", "db1.table_b"}
    assert "CORRUPT" in failed["db1.table_a"]
    assert latest.delta_manifest_list in failed["db1.table_a"]
    assert warehouse.compacted() == set(NAMES) - set(failed)
    running.file_io.write(victim.path, content)
    clear_cache()
    assert (lost(running), leaked(running)) == (set(), set())


class Meddling(LocalRunner):
    """Commits to a table before any task runs, as another job would."""

    def __init__(self, warehouse: Warehouse, name: str) -> None:
        super().__init__()
        self._do = lambda: warehouse.insert(warehouse.table(name), RUNS - 1)
        self._done = False

    def run(self, kind: str, payloads: Sequence[str], *, description: str) -> Iterator[str]:
        if not self._done:
            self._done = True
            self._do()
        yield from super().run(kind, payloads, description=description)


def test_a_table_that_moved_is_planned_again(warehouse: Warehouse) -> None:
    warehouse.runner = Meddling(warehouse, "other.table_d")
    rows = {r["table"]: r for r in warehouse.call("")}
    assert rows["other.table_d"]["files_in"] == 2 * (RUNS + 1)
    assert rows["db1.table_a"]["files_in"] == 2 * RUNS


class Stopping(LocalRunner):
    """Cancels the statement with the third task."""

    def __init__(self, flag: threading.Event) -> None:
        super().__init__()
        self._flag = flag
        self._count = 0

    def run(self, kind: str, payloads: Sequence[str], *, description: str) -> Iterator[str]:
        for result in super().run(kind, payloads, description=description):
            self._count += 1
            if self._count == 3:
                self._flag.set()
            yield result


@pytest.mark.parametrize("mode", ["divided", "combined"])
def test_a_cancelled_call_ends_and_leaves_no_file(warehouse: Warehouse, mode: str) -> None:
    flag = threading.Event()
    warehouse.runner = Stopping(flag)
    with cancellable(flag), pytest.raises(StatementCancelledError):
        warehouse.call(f"'', '{mode}'")
    assert warehouse.compacted() == {NAMES[0]}
    warehouse.check()


class Broken(LocalRunner):
    """Loses its workers after a number of tasks."""

    def run(self, kind: str, payloads: Sequence[str], *, description: str) -> Iterator[str]:
        for n, result in enumerate(super().run(kind, payloads, description=description)):
            if n == 3:
                raise RuntimeError("worker lost\nand more")
            yield result


def test_a_job_that_breaks_fails_only_what_it_had_not_done(warehouse: Warehouse) -> None:
    warehouse.runner = Broken()
    first, *rest = warehouse.call("mode => 'combined'")
    assert first["result"] == "Compact database finished. Success: 1, Failed: 4"
    assert {r["result"] for r in rest[1:]} == {"failed: RuntimeError: worker lost"}
    assert warehouse.compacted() == {NAMES[0]}
    warehouse.check()


@pytest.mark.parametrize(
    ("arguments", "error", "part"),
    [
        ("'['", ArgumentError, "including_databases is '['"),
        ("including_tables => '('", ArgumentError, "including_tables"),
        ("excluding_tables => '*'", ArgumentError, "excluding_tables"),
        ("mode => 'combine'", ArgumentError, "Did you mean 'combined'"),
        ("options => 'target-file-size=much'", OptionError, "much"),
        ("options => 'scan.bucket=0'", OptionError, "does not apply to a CALL"),
        ("options => 'nope'", ArgumentError, "nope"),
        ("partition_idle_time => 'soon'", ArgumentError, "partition_idle_time"),
        ("compact_strategy => 'half'", ArgumentError, "half"),
    ],
)
def test_wrong_arguments_are_errors_and_change_nothing(
    warehouse: Warehouse, arguments: str, error: type[PaimonError], part: str
) -> None:
    with pytest.raises(error) as caught:
        warehouse.call(arguments)
    assert part in str(caught.value)
    assert warehouse.compacted() == set()
