from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.catalog.filesystem import FileSystemCatalog
from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.errors import (
    AlreadyExistsError,
    ArgumentError,
    CorruptTableError,
    ErrorKind,
    NotFoundError,
    OptionError,
    UnsupportedError,
    UsageError,
)
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.evolution import SchemaChange, SetOption, new_schema
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.schema_merge import MergeRules, merging_changes
from paimon_spark.spec.types import STRING, DataField, TypeRoot, atomic, parse_atomic
from paimon_spark.testing.faults import FaultFileIO, Mode, Nth, Recorder
from tests.small_tables import option_keys

T = Identifier("db", "words")
FIELDS = (DataField(0, "k", atomic(TypeRoot.INT)), DataField(1, "v", STRING))


def schema(**options: str) -> TableSchema:
    return new_schema(FIELDS, options=options, now_millis=0)


def catalog(**options: str) -> FileSystemCatalog:
    made = FileSystemCatalog("/wh", option_keys(options), InMemoryFileIO())
    made.create_database("db")
    return made


def test_a_listing_looks_once_into_each_table() -> None:
    made = catalog()
    names = [f"t{i}" for i in range(20)]
    for name in names:
        made.create_table(Identifier("db", name), schema())
    made.file_io.mkdirs("/wh/db.db/none")
    made.file_io.rename("/wh/db.db/t3/schema/schema-0", "/wh/db.db/t3/schema/schema-1")
    recorder = Recorder()
    c = FileSystemCatalog("/wh", {}, FaultFileIO(made.file_io, recorder))
    assert c.list_tables("db") == sorted(names)
    looks = [op for op, path in recorder.log if path.startswith("/wh/db.db/")]
    assert (looks.count("exists"), looks.count("list")) == (21, 2), "only where the first schema is missing"


class TestDatabases:
    def test_the_default_one_appears_and_can_be_dropped(self) -> None:
        c = FileSystemCatalog("/wh", {}, InMemoryFileIO())
        assert c.database_exists("default")
        assert c.list_databases() == ["default"]
        c.drop_database("default")
        assert c.list_databases() == []
        assert FileSystemCatalog("/wh", {"defaultDatabase": "main"}, InMemoryFileIO()).list_databases() == ["main"]

    def test_create_twice(self) -> None:
        c = catalog()
        with pytest.raises(AlreadyExistsError, match="'db'") as caught:
            c.create_database("db")
        assert caught.value.kind is ErrorKind.DATABASE_EXISTS
        c.create_database("db", ignore_if_exists=True)

    def test_a_location_is_refused_and_properties_are_dropped(self, caplog: pytest.LogCaptureFixture) -> None:
        c = catalog()
        with pytest.raises(UnsupportedError, match="location"):
            c.create_database("other", properties={"location": "/elsewhere"})
        with caplog.at_level(logging.WARNING):
            c.create_database("other", properties={"owner": "me", "colour": "red"})
        assert "colour" in caplog.text
        assert c.database_exists("other")

    @pytest.mark.parametrize("name", ["", "a/b", "..", "sys", "a\nb"])
    def test_bad_names(self, name: str) -> None:
        with pytest.raises(ArgumentError):
            catalog().create_database(name)

    def test_drop_needs_cascade_and_never_takes_foreign_files(self) -> None:
        c = catalog()
        c.create_table(T, schema())
        with pytest.raises(UsageError, match=r"'words'.*CASCADE") as caught:
            c.drop_database("db")
        assert caught.value.kind is ErrorKind.DATABASE_NOT_EMPTY
        c.file_io.write("/wh/db.db/notes/readme.txt", b"mine")
        with pytest.raises(UsageError, match="'notes'"):
            c.drop_database("db", cascade=True)
        assert c.list_tables("db") == []
        c.file_io.delete_dir("/wh/db.db/notes")
        c.drop_database("db", cascade=True)
        assert not c.database_exists("db")

    def test_drop_a_missing_one(self) -> None:
        c = catalog()
        with pytest.raises(NotFoundError, match="Did you mean 'db'") as caught:
            c.drop_database("dbb")
        assert caught.value.kind is ErrorKind.DATABASE_NOT_FOUND
        c.drop_database("dbb", ignore_if_not_exists=True)


class TestTables:
    def test_create_load_list_drop(self) -> None:
        c = catalog()
        made = c.create_table(T, schema(**{"file.format": "orc"}))
        assert made.path == "/wh/db.db/words"
        assert c.load_table(T).to_config() == made.to_config()
        assert c.table_exists(T)
        assert c.list_tables("db") == ["words"]
        c.drop_table(T)
        assert not c.table_exists(T)
        assert not c.file_io.exists(made.path)

    def test_create_twice(self) -> None:
        c = catalog()
        c.create_table(T, schema(**{"file.format": "orc"}))
        with pytest.raises(AlreadyExistsError, match=r"db\.words"):
            c.create_table(T, schema())
        assert c.create_table(T, schema(), ignore_if_exists=True).options.file_format == "orc"

    def test_options_of_metastores_are_kept_with_a_warning(self, caplog: pytest.LogCaptureFixture) -> None:
        c, key = catalog(), "metastore.partitioned-table"
        with caplog.at_level(logging.WARNING):
            c.create_table(T, schema(**{key: "true"}))
            c.alter_table(T, [SetOption("metastore.tag-to-partition", "dt")])
            c.alter_table(T, [SetOption("snapshot.num-retained.min", "3")])
            c.alter_table(T, [SetOption(key, "false")])
        assert [r.getMessage().partition(" of table")[0] for r in caplog.records[1:]] == [
            "'metastore.partitioned-table' = 'true'",
            "'metastore.tag-to-partition' = 'dt'",
        ]
        assert "db.words has no effect: a filesystem catalog has no metastore" in caplog.text
        assert dict(c.load_table(T).schema.options)["metastore.tag-to-partition"] == "dt"

    def test_of_two_creators_one_wins(self) -> None:
        c = catalog()

        def create(number: int) -> int | None:
            try:
                c.create_table(T, schema(**{"snapshot.num-retained.min": str(number)}))
            except AlreadyExistsError:
                return None
            return number

        with ThreadPoolExecutor(4) as pool:
            winners = [n for n in pool.map(create, range(1, 5)) if n is not None]
        assert len(winners) == 1

    def test_table_defaults_fill_what_is_not_given(self) -> None:
        c = catalog(**{"table-default.file.format": "orc", "table-default.write-only": "true"})
        made = c.create_table(T, schema(**{"write-only": "false"}))
        assert dict(made.schema.options) == {"file.format": "orc", "write-only": "false"}
        assert c.load_table(T).schema == made.schema

    def test_misses_suggest_the_nearest(self) -> None:
        c = catalog()
        c.create_table(T, schema())
        with pytest.raises(NotFoundError, match="Did you mean 'words'") as caught:
            c.load_table(Identifier("db", "wrods"))
        assert caught.value.kind is ErrorKind.TABLE_NOT_FOUND
        with pytest.raises(NotFoundError, match="Did you mean 'db'") as caught:
            c.load_table(Identifier("dbx", "words"))
        assert caught.value.kind is ErrorKind.DATABASE_NOT_FOUND
        with pytest.raises(NotFoundError, match=r"no branch 'dev'\. It has no branches"):
            c.load_table(Identifier("db", "words", branch="dev"))
        with pytest.raises(NotFoundError):
            c.list_tables("dbx")

    def test_misses_suggest_a_table_of_another_database(self) -> None:
        c = catalog()
        c.create_database("other")
        c.create_database("third")
        c.create_table(T, schema())
        c.create_table(Identifier("third", "words"), schema())
        c.file_io.write("/wh/other.db/words/readme.txt", b"no table")
        for name, meant in (
            ("words", r"Did you mean 'db\.words' or 'third\.words'\?"),
            ("word", r"Did you mean 'db\.words'"),
            ("nothing", r"Create it first: the database 'other2' has no tables\."),
        ):
            c.create_database("other2", ignore_if_exists=True)
            with pytest.raises(NotFoundError, match=meant):
                c.load_table(Identifier("other2", name))
        with pytest.raises(NotFoundError, match=r"There are: 'words'\."):
            c.load_table(Identifier("db", "unlike"))

    def test_a_directory_that_is_no_table(self) -> None:
        c = catalog()
        c.file_io.write("/wh/db.db/words/readme.txt", b"mine")
        assert c.list_tables("db") == []
        assert not c.table_exists(T)
        with pytest.raises(NotFoundError, match=r"is not a Paimon table.*has no schema"):
            c.load_table(T)
        for ignore in (False, True):
            with pytest.raises(NotFoundError, match="is not a Paimon table"):
                c.drop_table(T, ignore_if_not_exists=ignore)
        with pytest.raises(AlreadyExistsError, match=r"'readme\.txt'"):
            c.create_table(T, schema())
        c.file_io.write("/wh/db.db/words/snapshot/snapshot-1", b"{}")
        with pytest.raises(NotFoundError, match=r"It has snapshots: restore its schema files, /wh/db.db/words/schema"):
            c.load_table(T)
        assert c.file_io.exists("/wh/db.db/words/readme.txt")

    def test_a_branch_without_a_schema(self) -> None:
        c = catalog()
        made = c.create_table(T, schema())
        c.file_io.write(f"{made.paths.branch_dir('b')}/snapshot/snapshot-1", b"{}")
        with pytest.raises(CorruptTableError, match=r"The branch 'b' of table db.words has no schema.*delete_branch"):
            c.load_table(Identifier("db", "words", branch="b"))
        with pytest.raises(NotFoundError, match="has no branch 'a'"):
            c.load_table(Identifier("db", "words", branch="a"))

    def test_a_table_may_be_created_over_empty_directories(self) -> None:
        c = catalog()
        c.file_io.mkdirs("/wh/db.db/words/p=1/bucket-0")
        c.file_io.write("/wh/db.db/words/p=2/bucket-0/data", b"mine")
        with pytest.raises(AlreadyExistsError, match=r"words contains 'p=2' but"):
            c.create_table(T, schema())
        c.file_io.delete("/wh/db.db/words/p=2/bucket-0/data")
        assert c.create_table(T, schema()).schema.id == 0

    def test_stray_files_in_the_schema_directory_do_no_harm(self) -> None:
        c = catalog()
        made = c.create_table(T, schema())
        c.file_io.write(f"{made.path}/schema/schema-1.tmp", b"x")
        assert c.load_table(T).schema == made.schema

    def test_drop_a_missing_one(self) -> None:
        c = catalog()
        c.drop_table(T, ignore_if_not_exists=True)
        with pytest.raises(NotFoundError):
            c.drop_table(T)
        with pytest.raises(UsageError, match="cannot be dropped"):
            c.drop_table(Identifier("db", "words", system_table="files"))

    @pytest.mark.parametrize("finish", ["drop", "create", "drop the database"])
    def test_an_interrupted_drop_can_be_completed(self, finish: str) -> None:
        steps = 0
        for n in range(1, 20):
            c = catalog()
            path = c.create_table(T, schema()).path
            c.alter_table(T, [SetOption("file.format", "orc")])
            for name in ("snapshot/snapshot-1", "bucket-0/data", "manifest/manifest"):
                c.file_io.write(f"{path}/{name}", b"x")
            crash = FileSystemCatalog("/wh", {}, FaultFileIO(c.file_io, Nth(n, Mode.CRASH_BEFORE)))
            try:
                crash.drop_table(T)
                break
            except OSError:
                steps += 1
            assert not c.table_exists(T) or c.load_table(T).schema.id == 1, "never an older schema"
            if finish == "create":
                c.drop_table(T) if c.table_exists(T) else None
                if c.file_io.exists(f"{path}/schema/.dropped"):
                    with pytest.raises(AlreadyExistsError, match="being dropped"):
                        c.create_table(T, schema())
                c = replace(c, clock=lambda: time.time() + 3601)
                assert c.create_table(T, schema()).schema.id == 0
                assert [s.path for s in c.file_io.list_recursive(path)] == [f"{path}/schema/schema-0"]
            else:
                if finish == "drop":
                    c.drop_table(T, ignore_if_not_exists=True)
                else:
                    c.drop_database("db", cascade=True)
                assert not list(c.file_io.list_recursive(path))
        assert steps == 9

    def test_rename(self) -> None:
        c = catalog()
        c.create_database("other")
        c.create_table(T, schema())
        c.rename_table(T, Identifier("other", "letters"))
        assert (c.list_tables("db"), c.list_tables("other")) == ([], ["letters"])
        with pytest.raises(NotFoundError):
            c.rename_table(T, Identifier("db", "x"))
        c.create_table(T, schema())
        with pytest.raises(AlreadyExistsError, match=r"other\.letters"):
            c.rename_table(T, Identifier("other", "letters"))
        with pytest.raises(NotFoundError) as caught:
            c.rename_table(T, Identifier("nowhere", "x"))
        assert caught.value.kind is ErrorKind.DATABASE_NOT_FOUND

    def test_alter(self) -> None:
        c = catalog()
        c.create_table(T, schema())
        changed = c.alter_table(T, [SetOption("snapshot.num-retained.min", "3")])
        assert (changed.schema.id, changed.options.snapshot_num_retained_min) == (1, 3)
        assert c.load_table(T).schema == changed.schema

    def test_concurrent_changes_are_all_kept(self) -> None:
        c = catalog()
        c.create_table(T, schema())
        keys = ["snapshot.num-retained.min", "commit.max-retries", "num-levels", "snapshot.expire.limit"]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda k: c.alter_table(T, [SetOption(k, "7")]), keys))
        latest = c.load_table(T).schema
        assert latest.id == 4
        assert {latest.options[k] for k in keys} == {"7"}

    def test_changes_are_those_of_the_schema_that_is_altered(self) -> None:
        c = catalog()
        c.create_table(T, schema())
        seen = []

        def widened(newest: TableSchema) -> list[SchemaChange]:
            if not seen:
                c.alter_table(T, merging_changes(newest, rows("DOUBLE"), MergeRules(widens=True)))
            seen.append(newest.id)
            return merging_changes(newest, rows("BIGINT"), MergeRules(widens=True))

        def rows(k: str) -> tuple[DataField, ...]:
            return (DataField(0, "k", parse_atomic(k)), DataField(1, "n", STRING))

        altered = c.alter_table(T, widened).schema
        assert (seen, altered.id) == ([0, 1], 1), "the rows fit what the other writer made of the table"
        assert altered.field("k").type == parse_atomic("DOUBLE")
        assert altered.field_names == ("k", "v", "n")

    def test_upper_case_where_it_is_not_allowed(self) -> None:
        c = catalog(case_sensitive="false")
        with pytest.raises(ArgumentError, match=r"'Words'.*case-sensitive"):
            c.create_table(Identifier("db", "Words"), schema())
        with pytest.raises(ArgumentError):
            c.create_database("DB2")

    def test_other_kinds_of_tables_are_refused_when_loaded(self) -> None:
        c = catalog()
        made = c.create_table(T, schema())
        text = (
            made.schema.to_json().replace('"options": {', '"options": {"type": "format-table", ', 1).replace(", }", "}")
        )
        c.file_io.write(made.paths.schema(0), text.encode())
        with pytest.raises(UnsupportedError, match="format-table"):
            c.load_table(T)

    def test_dynamic_options(self) -> None:
        c = catalog()
        c.create_table(T, schema())
        assert c.load_table(T, {"scan.snapshot-id": "4"}).options.get("scan.snapshot-id") == "4"

    def test_by_path(self) -> None:
        c = catalog()
        made = c.create_table_at("/elsewhere/t/", schema())
        assert (made.path, made.name) == ("/elsewhere/t", "elsewhere.t")
        assert c.load_table_at("/elsewhere/t").schema == made.schema
        with pytest.raises(NotFoundError, match="is not a Paimon table"):
            c.load_table_at("/elsewhere")
        with pytest.raises(AlreadyExistsError):
            c.create_table_at("/elsewhere/t", schema())
        assert not c.file_io.exists("/elsewhere/default.db")


class TestOpening:
    @pytest.mark.parametrize(
        ("options", "error", "text"),
        [
            ({}, OptionError, "'warehouse' is missing"),
            ({"warehouse": "/wh", "metastore": "hive"}, UnsupportedError, "'hive'"),
            ({"warehouse": "/wh", "lock.enabled": "true"}, UnsupportedError, "lock"),
            ({"warehouse": "s3:///wh"}, OptionError, "does not name a bucket"),
            ({"warehouse": "/wh", "metastore": "filesytem"}, OptionError, "Did you mean 'filesystem'"),
            ({"warehouse": "gs://bucket/wh"}, UnsupportedError, "'gs:'"),
        ],
    )
    def test_refusals(self, options: dict[str, str], error: type[Exception], text: str) -> None:
        with pytest.raises(error, match=text):
            open_catalog(options)

    @pytest.mark.parametrize("prefix", ["", "file:", "file://"])
    def test_local(self, tmp_path: Path, prefix: str) -> None:
        c: Any = open_catalog({"warehouse": f"{prefix}{tmp_path}/wh/"})
        assert not (tmp_path / "wh").exists()
        c.create_database("db")
        c.create_table(T, schema())
        assert (tmp_path / "wh" / "db.db" / "words" / "schema" / "schema-0").is_file()
        assert c.list_databases() == ["db", "default"]

    def test_relative(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        assert open_catalog({"warehouse": "wh"}).warehouse == str(tmp_path / "wh")
        assert open_catalog({"warehouse": "file:wh"}).warehouse == f"file:{tmp_path}/wh"


@pytest.mark.parametrize("location", ["~", "~/warehouse", "file:~/warehouse", "~someone/warehouse"])
def test_a_tilde_is_refused_and_creates_nothing(location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match="begins with '~'") as error:
        open_catalog({"warehouse": location}).list_databases()
    assert location.startswith("~someone") or str(Path.home()) in str(error.value)
    assert list(tmp_path.iterdir()) == []
    assert open_catalog({"warehouse": f"./{location.removeprefix('file:')}"}).list_databases() == ["default"]


@pytest.mark.parametrize(
    ("wrong", "right"), [("case_sensitive", "case-sensitive"), ("defaultDatabse", "defaultDatabase")]
)
def test_a_misspelt_option_is_named(tmp_path: Path, wrong: str, right: str) -> None:
    with pytest.raises(OptionError, match=rf"no catalog option '{wrong}'.*Did you mean '{right}'"):
        open_catalog({"warehouse": str(tmp_path), wrong: "x"})


def test_a_mistyped_warehouse_is_named(tmp_path: Path) -> None:
    right = open_catalog({"warehouse": str(tmp_path / "warehouse")})
    right.create_database("shop")
    wrong = open_catalog({"warehouse": str(tmp_path / "warehose")})
    hint = f"{tmp_path}/warehose did not exist and was created: check its path. Did you mean '{tmp_path}/warehouse'?"
    for missing in (lambda: wrong.list_tables("shop"), lambda: wrong.load_table(Identifier("default", "orders"))):
        with pytest.raises(NotFoundError) as error:
            missing()
        assert hint in str(error.value)
    again = open_catalog({"warehouse": str(tmp_path / "warehose")})
    with pytest.raises(NotFoundError) as error:
        again.list_tables("shop")
    assert "was created" not in str(error.value)
    wrong.create_database("meant")
    with pytest.raises(NotFoundError) as error:
        wrong.list_tables("shop")
    assert "was created" not in str(error.value)
