"""migrate_table, migrate_database and migrate_file, with files as Spark writes them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from paimon_spark.core.cancellation import cancellable
from paimon_spark.engine.migrate import SourceTable, execute_migrate, inspect_files, plan_migrate
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import ConflictError, EngineError, PaimonError, StatementCancelledError, UnsupportedError
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.types import DataField, parse_atomic
from paimon_spark.testing.faults import FaultFileIO, Mode, Nth
from tests.unit.procedures.test_copying import interrupt
from tests.unit.procedures.warehouse import Warehouse

ROWS = [(1, "a"), (2, "a"), (3, "b c"), (4, None)]


class Session:
    """Tables in the directories of `root`, each with the columns k and p."""

    def __init__(self, root: Path, kind: str = "parquet") -> None:
        self.root, self.kind = root, kind
        self.tables: set[str] = set()

    def write(self, name: str, rows: list[tuple[int, str | None]]) -> None:
        self.tables.add(name)
        for n, (k, p) in enumerate(rows):
            value = "__HIVE_DEFAULT_PARTITION__" if p is None else p.replace(" ", "%20")
            directory = self.root / name / f"p={value}"
            directory.mkdir(parents=True, exist_ok=True)
            table = pa.table({"k": pa.array([k], pa.int32())})
            path = str(directory / f"part-{n}-{k}.snappy.{self.kind}")
            pq.write_table(table, path) if self.kind == "parquet" else pyarrow.orc.write_table(table, path)

    def describe_source(self, name: str) -> SourceTable:
        bare = name.replace("`", "").rpartition(".")[2]
        files = sorted(str(f) for f in (self.root / bare).rglob("part-*"))
        fields = (DataField(0, "k", parse_atomic("INT")), DataField(0, "p", parse_atomic("STRING")))
        return SourceTable(name, str(self.root / bare), self.kind, fields, ("p",), tuple(files))

    def list_sources(self, database: str) -> list[str]:
        return sorted(self.tables)

    def drop_source(self, name: str) -> None:
        self.tables.remove(name.replace("`", "").rpartition(".")[2])


@pytest.fixture
def lake(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "wh")


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_a_table_is_migrated(lake: Warehouse, tmp_path: Path, kind: str) -> None:
    session = Session(tmp_path, kind)
    session.write("t", ROWS)
    plan = lake.call("EXPLAIN CALL sys.migrate_table('hive', 'db.t')", session)
    assert [a["action"] for a in plan] == ["write"] * 5 + ["drop table"]
    assert (session.tables, lake.catalog.list_tables("db")) == ({"t"}, [])
    (row,) = lake.call("migrate_table('hive', 'db.t')", session)
    assert (row["result"], row["status"], row["files_out"], row["rows"]) == (True, "done", 4, 4)
    assert session.tables == set()
    assert lake.rows("db.t") == sorted(ROWS, key=str)
    lake.insert("db.t", (5, "a"))
    lake.call("compact('t')")
    assert len(lake.rows("db.t")) == 5
    assert lake.catalog.load_table(Identifier.parse("db.t")).options.get("file.format") == kind


def test_the_source_stays_and_a_repeated_call_adds_what_is_new(lake: Warehouse, tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.write("t", ROWS)
    call = "migrate_table(source_type => 'hive', table => 'db.t', target_table => 'u', delete_origin => false)"
    lake.call(call, session)
    (row,) = lake.call(call, session)
    assert (row["status"], row["snapshot_after"]) == ("nothing to do", 1)
    session.write("t", [(7, "a")])
    (row,) = lake.call(call, session)
    assert (row["files_out"], row["snapshot_before"], row["snapshot_after"]) == (1, 1, 2)
    assert len(lake.rows("db.u")) == 5
    lake.catalog.drop_table(Identifier.parse("db.u"))
    assert len(session.describe_source("db.t").files) == 5
    assert pq.read_table(session.describe_source("db.t").files[0]).num_rows == 1


def test_files_are_added_to_a_table(lake: Warehouse, tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.write("t", ROWS)
    lake.create("db.u", keys=(), bucket="-1")
    lake.insert("db.u", (9, "z"))
    (row,) = lake.call("migrate_file('hive', 'db.t', 'db.u', true, 2)", session)
    assert (row["status"], row["snapshot_after"]) == ("done", 2)
    assert len(lake.rows("db.u")) == 5


def test_options_and_a_database(lake: Warehouse, tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.write("t", ROWS)
    session.write("u", ROWS[:1])
    lake.create("db.u")
    rows = lake.call("migrate_database('hive', 'db', 'target-file-size=64 mb', 1)", session)
    assert {r["result"] for r in rows} == {"migrated 1 tables; 1 failed"}
    assert [(r["table"], r["error"] is None) for r in rows] == [(None, True), ("db.t", True), ("db.u", False)]
    assert rows[0]["status"] == "failed"
    assert session.tables == {"u"}
    assert lake.catalog.load_table(Identifier.parse("db.t")).options.get("target-file-size") == "64 mb"


def test_a_cancelled_migration_of_a_database_ends(lake: Warehouse, tmp_path: Path) -> None:
    flag = threading.Event()

    class Cancelled(LocalRunner):
        def run(self, kind: str, payloads: Sequence[str], *, description: str) -> Iterator[str]:
            flag.set()
            return super().run(kind, payloads, description=description)

    session = Session(tmp_path)
    for name in ("t", "u"):
        session.write(name, ROWS)
    with cancellable(flag), pytest.raises(StatementCancelledError):
        lake.call("migrate_database('hive', 'db')", session, Cancelled())
    assert (session.tables, lake.catalog.list_tables("db")) == ({"t", "u"}, [])
    lake.call("migrate_database('hive', 'db')", session)
    assert (session.tables, len(lake.rows("db.t")), len(lake.rows("db.u"))) == (set(), 4, 4)


def test_a_source_that_changes_meanwhile_is_kept(lake: Warehouse, tmp_path: Path) -> None:
    class Changing(Session):
        def describe_source(self, name: str) -> SourceTable:
            found = super().describe_source(name)
            self.write("t", [(7, "late")])
            return found

    session = Changing(tmp_path)
    session.write("t", ROWS)
    with pytest.raises(ConflictError, match="was not dropped"):
        lake.call("migrate_table('hive', 'db.t')", session)
    assert session.tables == {"t"}
    assert len(lake.rows("db.t")) == 4


@pytest.mark.parametrize("removal", ["drop_partition('db.u', 'p=a')", "compact('db.u')"])
def test_what_was_removed_is_migrated_again(lake: Warehouse, tmp_path: Path, removal: str) -> None:
    session = Session(tmp_path)
    session.write("t", [(i, "a") for i in range(6)])
    call = "migrate_table(source_type => 'hive', table => 'db.t', target_table => 'u', delete_origin => false)"
    lake.call(call, session)
    lake.call(removal)
    left = lake.rows("db.u")
    (row,) = lake.call(call, session)
    assert (row["status"], row["rows"]) == ("done", 6)
    assert len(lake.rows("db.u")) == len(left) + 6
    (row,) = lake.call(call, session)
    assert row["status"] == "nothing to do"


def test_a_file_that_replaced_a_migrated_one_is_added(lake: Warehouse, tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.write("t", [(1, "a")])
    lake.call("migrate_table('hive', 'db.t', 'u')", session)
    Path(session.describe_source("db.t").files[0]).unlink()
    session.tables.add("t")
    pq.write_table(
        pa.table({"k": pa.array(range(100), pa.int32())}), tmp_path / "t" / "p=a" / "part-0-1.snappy.parquet"
    )
    (row,) = lake.call("migrate_table('hive', 'db.t', 'u')", session)
    assert (row["rows"], len(lake.rows("db.u"))) == (100, 101)


class Interrupted(LocalRunner):
    """Tasks after which the statement is interrupted."""

    def run(self, *given: Any, **named: Any) -> Iterator[str]:
        yield from super().run(*given, **named)
        raise KeyboardInterrupt


def test_migrations_at_once_add_each_file_once(lake: Warehouse, tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.write("t", ROWS)
    table, source = lake.create("db.u", keys=(), bucket="-1"), session.describe_source("db.t")
    plans = [plan_migrate(source, table.file_io, table, exists=True, drops=False) for _ in range(3)]
    rows = dict.fromkeys(source.files, 1)
    assert execute_migrate(plans[0], table, LocalRunner(), None, rows).rows == 4
    with pytest.raises(KeyboardInterrupt):
        execute_migrate(plans[1], table, Interrupted(), None, rows)
    assert execute_migrate(plans[2], table, LocalRunner(), None, rows).files == 0
    assert lake.rows("db.u") == sorted(ROWS, key=str)
    assert len(list(Path(table.path).rglob("data-*"))) == 4


def test_an_interrupt_after_the_commit_keeps_the_files(lake: Warehouse, tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.write("t", ROWS)
    table, source = lake.create("db.u", keys=(), bucket="-1"), session.describe_source("db.t")
    broken = replace(table, file_io=FaultFileIO(table.file_io, watch=interrupt))
    plan = plan_migrate(source, table.file_io, broken, exists=True, drops=False)
    with pytest.raises(KeyboardInterrupt):
        execute_migrate(plan, broken, LocalRunner(), None, inspect_files(plan, LocalRunner(), None))
    assert lake.rows("db.u") == sorted(ROWS, key=str)


@pytest.mark.parametrize("mode", [Mode.CRASH_BEFORE, Mode.CRASH_AFTER])
@pytest.mark.parametrize("n", range(1, 24, 4))
def test_an_interrupted_call_is_completed_by_the_next(lake: Warehouse, tmp_path: Path, n: int, mode: Mode) -> None:
    session = Session(tmp_path)
    session.write("t", ROWS)
    store = lake.file_io
    lake.file_io = FaultFileIO(store, Nth(n, mode))
    with contextlib.suppress(PaimonError, OSError):
        lake.call("migrate_table('hive', 'db.t', '', 'commit.max-retries=0')", session)
    lake.file_io = store
    if session.tables:
        lake.call("migrate_table('hive', 'db.t')", session)
    assert session.tables == set()
    assert lake.rows("db.t") == sorted(ROWS, key=str)


class Durable(LocalFileIO):
    """A store that records what was synchronised."""

    synced: ClassVar[set[str]] = set()

    def sync(self, paths: Sequence[str]) -> None:
        """Record the files and their directories."""
        Durable.synced |= {p for path in paths for p in (path, path.rpartition("/")[0])}


def test_files_and_directories_are_durable_first(lake: Warehouse, tmp_path: Path) -> None:
    session, seen = Session(tmp_path), []

    def check(operation: str, path: str) -> None:
        if operation == "create_exclusive" and path.endswith("snapshot-1"):
            files = list(Path(table.path).rglob("data-*"))
            directories = {d for f in files for d in f.parents if d.is_relative_to(Path(table.path).parent)}
            seen.append((len(files), {str(p) for p in (*files, *directories)} <= Durable.synced))

    session.write("t", ROWS)
    table = replace(lake.create("db.u", keys=(), bucket="-1"), file_io=FaultFileIO(Durable(), watch=check))
    plan = plan_migrate(session.describe_source("db.t"), LocalFileIO(), table, exists=True, drops=True)
    execute_migrate(plan, table, LocalRunner(), None, inspect_files(plan, LocalRunner(), None))
    assert seen == [(4, True)]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("migrate_table('iceberg', 'db.t')", "the only choice is hive"),
        ("migrate_table('hive', 'db.t', 'keyed')", "has a primary key or buckets"),
        ("migrate_table('hive', 'db.t', 'other')", "columns or partition columns differ"),
        ("migrate_table('hive', 'db.t', 'keyed', 'file.format=orc')", "Options are given"),
        ("migrate_table('hive', 'db.t', '', 'bucket=2,bucket-key=k')", "primary key or buckets"),
        ("migrate_table('hive', 'db.t', '', '', 0)", "parallelism is 0"),
        ("migrate_file('hive', 'db.t', 'new')", "does not exist"),
    ],
)
def test_what_is_refused_changes_nothing(lake: Warehouse, tmp_path: Path, text: str, part: str) -> None:
    session = Session(tmp_path)
    session.write("t", ROWS)
    lake.create("db.keyed")
    lake.call("migrate_table('hive', 'db.t', 'other', '', 1, false)", Unpartitioned(tmp_path))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(PaimonError, match=part):
        lake.call(text, session)
    assert (sorted(tmp_path.rglob("*")), session.tables) == (before, {"t"})


class Unpartitioned(Session):
    """The same files without partition columns."""

    def describe_source(self, name: str) -> SourceTable:
        found = super().describe_source(name)
        return replace(found, fields=found.fields[:1], partition_keys=(), files=(), location=str(self.root))


class Broken(Session):
    """A table with a file that is none of its format."""

    def describe_source(self, name: str) -> SourceTable:
        found: Any = super().describe_source(name)
        Path(found.files[-1]).write_bytes(b"not a file of columns")
        return found


def test_a_damaged_file_leaves_no_table(lake: Warehouse, tmp_path: Path) -> None:
    session = Broken(tmp_path)
    session.write("t", ROWS)
    with pytest.raises(PaimonError, match=r"part-|data-"):
        lake.call("migrate_table('hive', 'db.t')", session)
    assert (lake.catalog.list_tables("db"), session.tables) == ([], {"t"})
    assert len(session.describe_source("db.t").files) == 4


class Legacy(Session):
    """A table whose dates Spark wrote for its release 2."""

    def describe_source(self, name: str) -> SourceTable:
        found: Any = super().describe_source(name)
        table = pa.table({"k": pa.array([1], pa.int32())})
        marked = table.replace_schema_metadata({"org.apache.spark.legacyDateTime": ""})
        pq.write_table(marked, found.files[0])
        return found


def test_the_hybrid_calendar_is_refused(lake: Warehouse, tmp_path: Path) -> None:
    session = Legacy(tmp_path)
    session.write("t", ROWS)
    with pytest.raises(PaimonError, match="hybrid Julian and Gregorian calendar"):
        lake.call("migrate_table('hive', 'db.t')", session)
    assert lake.catalog.list_tables("db") == []


class OtherNames(Session):
    """A table with a file whose column has another name."""

    def describe_source(self, name: str) -> SourceTable:
        found: Any = super().describe_source(name)
        pq.write_table(pa.table({"K": pa.array([1], pa.int32())}), found.files[0])
        return found


def test_columns_of_other_names_are_refused(lake: Warehouse, tmp_path: Path) -> None:
    session = OtherNames(tmp_path)
    session.write("t", ROWS)
    with pytest.raises(PaimonError, match="the column 'K'; the columns of the table are k, p"):
        lake.call("migrate_table('hive', 'db.t')", session)
    assert (lake.catalog.list_tables("db"), session.tables) == ([], {"t"})


class OtherTypes(Session):
    """A table with a file whose column has another type."""

    stored: pa.DataType = pa.int64()

    def describe_source(self, name: str) -> SourceTable:
        found: Any = super().describe_source(name)
        path, column = found.files[-1], pa.table({"k": pa.array([1], pa.int32()).cast(self.stored)})
        pq.write_table(column, path) if self.kind == "parquet" else pyarrow.orc.write_table(column, path)
        return found


@pytest.mark.parametrize("kind", ["parquet", "orc"])
@pytest.mark.parametrize("stored", [pa.int64(), pa.string()])
def test_other_types_are_refused_first(lake: Warehouse, tmp_path: Path, kind: str, stored: pa.DataType) -> None:
    session = OtherTypes(tmp_path, kind)
    session.write("t", ROWS)
    session.stored = stored
    table = lake.create("db.u", keys=(), bucket="-1")
    before = sorted(Path(table.path).rglob("*"))
    for call in ("migrate_table('hive', 'db.t')", "migrate_file('hive', 'db.t', 'db.u')"):
        with pytest.raises(UnsupportedError, match=rf"part-.* stores the column 'k' as {stored}, .* not read as INT"):
            lake.call(call, session)
    assert (lake.catalog.list_tables("db"), session.tables) == (["u"], {"t"})
    assert sorted(Path(table.path).rglob("*")) == before


def test_it_requires_spark(lake: Warehouse) -> None:
    with pytest.raises(EngineError, match="requires Spark"):
        lake.call("migrate_table('hive', 'db.t')")
