"""Privileges of a warehouse: each operation with exactly the privilege that it requires, and without it."""

from __future__ import annotations

import pickle
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.catalog import CatalogHandle
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.run import run_call
from paimon_spark.catalog.filesystem import FileSystemCatalog
from paimon_spark.catalog.privilege_tables import CLAIM_MILLIS, PRIVILEGE_TABLE, PrivilegeTables, password_hash
from paimon_spark.catalog.privileged import PrivilegedCatalog
from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.table import Table
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.streaming.source import StreamSource
from paimon_spark.engine.streaming.start import first_offset
from paimon_spark.errors import AccessDeniedError, ConflictError, ErrorKind, PaimonError
from paimon_spark.fs.base import FileIO
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.evolution import SetComment, new_schema
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.privileges import ANONYMOUS, CATALOG, Privilege, Securable
from paimon_spark.spec.types import DataField, parse_atomic
from paimon_spark.spec.view import View
from paimon_spark.testing.faults import WRITES, FaultFileIO
from tests.unit.procedures.calling import REGISTRY

ROWS = pa.table({"k": pa.array([1, 2, 3], pa.int64()), "p": ["a", "a", "b"]})
PASSWORD = "of root"  # noqa: S105


class Guarded:
    """A warehouse with privileges, and its users."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        owner = paimon_spark.connect(self.path)
        for database in ("db", "db2"):
            owner.create_database(database)
        for name, keys in {"db.t": ["k", "p"], "db.other": [], "db2.t": ["k", "p"]}.items():
            options = {"bucket": "1"} if keys else {}
            owner.create_table(name, ROWS.schema, primary_key=keys, partition_by=["p"], options=options)
            owner.table(name).append(ROWS)
            owner.table(name).append(ROWS)
        owner.table("db.t").create_tag("old", 1)
        self.catalog().create_view(Identifier("db", "v"), View("SELECT 1", [], {}, {}, None))
        self.call(f"init_file_based_privilege('{PASSWORD}')", "anonymous", "anonymous")
        self.call("create_privileged_user('u', 'of u')")

    @classmethod
    def at(cls, path: Path) -> Guarded:
        """Return an existing warehouse."""
        found = cls.__new__(cls)
        found.path = str(path)
        return found

    def options(self, user: str, password: str = "") -> dict[str, str]:
        return {"warehouse": self.path, "user": user, "password": password or f"of {user}"}

    def catalog(self, user: str = "root", password: str = "") -> Any:
        return open_catalog(self.options(user, password))

    def handle(self, user: str = "u") -> CatalogHandle:
        return CatalogHandle(self.catalog(user))

    def call(self, text: str, user: str = "root", password: str = "") -> list[dict[str, Any]]:
        ctx = CallContext(
            catalog=self.catalog(user, password),
            catalog_name="paimon",
            runner=LocalRunner(),
            clock_millis=lambda: 4_102_444_800_000,
            current_database="db",
        )
        result = run_call(text if "CALL" in text else f"CALL sys.{text}", ctx, REGISTRY)
        return [dict(zip([c for c, _ in result.columns], row, strict=True)) for row in result.rows]

    def grant(self, privilege: str, *on: str, user: str = "u") -> None:
        named = "".join(f", '{part}'" for part in on)
        self.call(f"grant_privilege_to_user('{user}', '{privilege}'{named})")

    def revoke(self, privilege: str, *on: str, user: str = "u") -> None:
        named = "".join(f", '{part}'" for part in on)
        self.call(f"revoke_privilege_from_user('{user}', '{privilege}'{named})")

    def state(self) -> dict[str, bytes]:
        """Return every file of the databases."""
        return {str(f): f.read_bytes() for f in Path(self.path).glob("*.db/**/*") if f.is_file()}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(Guarded(tmp_path_factory.mktemp("guarded") / "warehouse").path)


@pytest.fixture
def lake(tmp_path: Path, template: Path) -> Guarded:
    clear_cache()
    shutil.copytree(template, tmp_path / "warehouse")
    return Guarded.at(tmp_path / "warehouse")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Guarded:
    """A warehouse for tests that leave it as it was."""
    return Guarded(tmp_path_factory.mktemp("shared") / "warehouse")


def stream(lake: Guarded) -> object:
    source = StreamSource(table_of(lake))
    source.check()
    return source.read(first_offset(source.table, None), first_offset(source.table, None))


def table_of(lake: Guarded) -> Table:
    found: Table = lake.catalog("u").load_table(Identifier("db", "t"))
    return found


def new_table(lake: Guarded, name: str) -> object:
    schema = new_schema([DataField(0, "k", parse_atomic("INT"))], now_millis=0)
    return lake.catalog("u").create_table(Identifier.parse(name), schema)


def make_view(lake: Guarded, name: str, *, replace: bool = False) -> None:
    lake.catalog("u").create_view(Identifier("db", name), View("SELECT 2", [], {}, {}, None), replace=replace)


Operation = Callable[[Guarded], Any]
TABLE, DATABASE = ("db", "t"), ("db",)
OPERATIONS: dict[str, tuple[str, tuple[str, ...], Operation]] = {
    "read": ("SELECT", TABLE, lambda w: w.handle().table("db.t").to_arrow()),
    "count": ("SELECT", TABLE, lambda w: w.handle().table("db.t").count()),
    "read a tag": ("SELECT", TABLE, lambda w: w.handle().table("db.t").to_arrow(version="old")),
    "stream": ("SELECT", TABLE, stream),
    "files": ("SELECT", TABLE, lambda w: w.handle().table("db.t").inspect("files")),
    "partitions": ("SELECT", TABLE, lambda w: w.handle().table("db.t").inspect("partitions")),
    "diff": ("SELECT", TABLE, lambda w: w.call("diff('t', '1')", "u")),
    "copy from": ("SELECT", TABLE, lambda w: w.call("EXPLAIN CALL sys.copy('t', 'copied')", "u")),
    "append": ("INSERT", TABLE, lambda w: w.handle().table("db.t").append(ROWS)),
    "overwrite": ("INSERT", TABLE, lambda w: w.handle().table("db.t").overwrite(ROWS)),
    "compact": ("INSERT", TABLE, lambda w: w.handle().table("db.t").compact()),
    "create a tag": ("INSERT", TABLE, lambda w: w.handle().table("db.t").create_tag("new")),
    "delete a tag": ("INSERT", TABLE, lambda w: w.handle().table("db.t").delete_tag("old")),
    "roll back": ("INSERT", TABLE, lambda w: w.handle().table("db.t").rollback_to(1)),
    "alter": ("ALTER_TABLE", TABLE, lambda w: w.catalog("u").alter_table(Identifier(*TABLE), [SetComment("c")])),
    "set a default": ("ALTER_TABLE", TABLE, lambda w: w.call("alter_column_default_value('t', 'p', 'x')", "u")),
    "rename": ("ALTER_TABLE", TABLE, lambda w: w.catalog("u").rename_table(Identifier(*TABLE), Identifier("db", "r"))),
    "drop": ("DROP_TABLE", TABLE, lambda w: w.catalog("u").drop_table(Identifier(*TABLE))),
    "create": ("CREATE_TABLE", DATABASE, lambda w: new_table(w, "db.new")),
    "create a view": ("CREATE_TABLE", DATABASE, lambda w: make_view(w, "w")),
    "replace a view": ("ALTER_TABLE", ("db", "v"), lambda w: make_view(w, "v", replace=True)),
    "rename a view": (
        "ALTER_TABLE",
        ("db", "v"),
        lambda w: w.catalog("u").rename_view(Identifier("db", "v"), Identifier("db", "w")),
    ),
    "drop a view": ("DROP_TABLE", ("db", "v"), lambda w: w.catalog("u").drop_view(Identifier("db", "v"))),
    "drop a database": ("DROP_DATABASE", DATABASE, lambda w: w.catalog("u").drop_database("db", cascade=True)),
    "create a database": ("CREATE_DATABASE", (), lambda w: w.catalog("u").create_database("new")),
    "create a user": ("ADMIN", (), lambda w: w.call("create_privileged_user('v', 'x')", "u")),
    "drop a user": ("ADMIN", (), lambda w: w.call("drop_privileged_user('v')", "u")),
    "grant": ("ADMIN", (), lambda w: w.call("grant_privilege_to_user('u', 'SELECT')", "u")),
    "revoke": ("ADMIN", (), lambda w: w.call("revoke_privilege_from_user('u', 'ADMIN')", "u")),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_without_its_privilege(name: str, shared: Guarded) -> None:
    privilege, on, run = OPERATIONS[name]
    others = [p for p in Privilege if p != privilege]
    before = shared.state()
    for other in others:
        shared.grant(other)
    try:
        with pytest.raises(AccessDeniedError) as e:
            run(shared)
    finally:
        for other in others:
            shared.revoke(other)
    what = {0: "the catalog", 1: "database db", 2: f"table {'.'.join(on)}"}[len(on)]
    arguments = ", ".join(f"'{a}'" for a in ("u", privilege, *on))
    assert str(e.value) == (
        f"[PRIVILEGE_MISSING] User 'u' does not have the privilege {privilege} on {what}. Let a user with the "
        f"privilege ADMIN run: CALL sys.grant_privilege_to_user({arguments})."
    )
    assert shared.state() == before


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_with_exactly_its_privilege(name: str, lake: Guarded) -> None:
    privilege, on, run = OPERATIONS[name]
    lake.grant(privilege, *on)
    before, databases = lake.state(), lake.catalog().list_databases()
    run(lake)
    changed = lake.state() != before or lake.catalog().list_databases() != databases
    assert changed == (privilege not in {"SELECT", "ADMIN"})  # privileges are not in a database


def test_rows_change_with_select_and_insert(lake: Guarded) -> None:
    table = lake.handle().table
    for privilege, missing in (("SELECT", "INSERT"), ("INSERT", "SELECT")):
        lake.grant(privilege, "db")
        for name in ("db.t", "db.other"):
            with pytest.raises(AccessDeniedError, match=f"the privilege {missing} on table {name}"):
                table(name).delete("k = 1")
        lake.revoke(privilege, "db")
    lake.grant("SELECT", "db")
    lake.grant("INSERT", "db")
    for name in ("db.t", "db.other"):
        table(name).delete("k = 1")
        assert table(name).count("k = 1") == 0


def test_every_bucket_mode_takes_rows_with_insert(lake: Guarded) -> None:
    kinds = {
        "fixed": (["k", "p"], {"bucket": "2", "changelog-producer": "lookup"}),
        "dynamic": (["k", "p"], {"bucket": "-1"}),
        "moving": (["k"], {"bucket": "-1"}),
        "postponed": (["k", "p"], {"bucket": "-2"}),
        "vectors": (["k", "p"], {"bucket": "1", "deletion-vectors.enabled": "true"}),
        "unaware": ([], {}),
    }
    root = lake.handle("root")
    for name, (keys, options) in kinds.items():
        root.create_table(f"db.{name}", ROWS.schema, primary_key=keys, partition_by=["p"], options=options)
    lake.grant("INSERT", "db")
    for name in kinds:
        for _ in range(2):
            lake.handle().table(f"db.{name}").append(ROWS)
        if name == "postponed":
            lake.handle().table("db.postponed").compact()
        assert root.table(f"db.{name}").count() == (6 if name == "unaware" else 3)


def test_privileges_are_those_of_the_object_and_around_it(lake: Guarded) -> None:
    lake.grant("SELECT", "db")
    assert lake.handle().table("db.t").count() == 3
    with pytest.raises(AccessDeniedError, match=r"on table db2.t"):
        lake.handle().table("db2.t").count()
    lake.grant("SELECT")
    lake.revoke("SELECT", "db")
    assert lake.handle().table("db2.t").count() == 3
    lake.grant("SELECT", "db", "t")
    assert lake.call("revoke_privilege_from_user('u', 'SELECT')")[1]["result"] == "Number of privileges revoked: 2"
    for name in ("db.t", "db2.t"):
        with pytest.raises(AccessDeniedError):
            lake.handle().table(name).count()


def test_a_database_is_not_one_whose_name_begins_so(lake: Guarded) -> None:
    lake.grant("SELECT", "db")
    lake.grant("SELECT", "db2")
    lake.revoke("SELECT", "db")
    assert lake.handle().table("db2.t").count() == 3
    lake.catalog().drop_database("db", cascade=True)
    assert lake.handle().table("db2.t").count() == 3


def test_privileges_follow_a_renamed_table(lake: Guarded) -> None:
    lake.grant("SELECT", "db", "t")
    lake.catalog().rename_table(Identifier("db", "t"), Identifier("db2", "moved"))
    assert lake.handle().table("db2.moved").count() == 3
    lake.handle("root").create_table("db.t", ROWS.schema)
    with pytest.raises(AccessDeniedError):
        lake.handle().table("db.t").count()


def test_a_renamed_table_needs_its_new_database(lake: Guarded) -> None:
    lake.grant("ALTER_TABLE", "db", "t")
    rename = lake.catalog("u").rename_table
    with pytest.raises(AccessDeniedError, match="CREATE_TABLE on database db2"):
        rename(Identifier("db", "t"), Identifier("db2", "moved"))
    lake.grant("CREATE_TABLE", "db2")
    rename(Identifier("db", "t"), Identifier("db2", "moved"))


def test_privileges_end_with_the_table(lake: Guarded) -> None:
    lake.grant("SELECT", "db", "t")
    lake.catalog().drop_table(Identifier("db", "t"))
    lake.handle("root").create_table("db.t", ROWS.schema)
    with pytest.raises(AccessDeniedError):
        lake.handle().table("db.t").count()


def test_privileges_left_by_an_interrupted_statement(lake: Guarded) -> None:
    owner = lake.catalog()
    without_privileges = owner.inner
    for privilege, *on in (("SELECT", "db", "t"), ("SELECT", "db", "v"), ("SELECT", "db2"), ("INSERT", "db2", "t")):
        lake.grant(privilege, *on)
    without_privileges.drop_table(Identifier("db", "t"))  # as if a process had ended before it removed the privileges
    without_privileges.drop_view(Identifier("db", "v"))
    without_privileges.drop_database("db2", cascade=True)
    entries = owner.privileges.entries
    assert entries(CATALOG, user="u").num_rows == 4
    owner.rename_table(Identifier("db", "other"), Identifier("db", "t"))
    owner.create_view(Identifier("db", "v"), View("SELECT 1", [], {}, {}, None))
    assert entries(Securable("db"), user="u").num_rows == 0
    owner.create_database("db2")
    assert entries(CATALOG, user="u").num_rows == 0
    lake.grant("SELECT", "db", "t")
    owner.create_table(Identifier("db", "t"), owner.load_table(Identifier("db", "t")).schema, ignore_if_exists=True)
    assert entries(CATALOG, user="u").num_rows == 1


def test_privileges_end_with_tables_of_a_database_that_stays(lake: Guarded) -> None:
    lake.call("create_branch('t', 'b')")
    for on in (("db",), ("db", "t"), ("db", "t$branch_b"), ("db2", "t")):
        lake.grant("SELECT", *on)
    stray = Path(lake.path) / "db.db" / "stray" / "file"
    stray.parent.mkdir()
    stray.write_text("")
    with pytest.raises(PaimonError, match="stray"):
        lake.catalog().drop_database("db", cascade=True)
    left = lake.catalog().privileges.entries(CATALOG)
    assert sorted(left.column("identifier").to_pylist()) == ["db", "db2.t"]


def test_a_branch_has_the_privileges_of_its_table(lake: Guarded) -> None:
    lake.call("create_branch(table => 't', branch => 'dev', snapshot_id => 1)")
    lake.grant("SELECT", "db", "t$branch_dev")
    assert lake.handle().table("db.t$branch_dev").count() == 3
    with pytest.raises(AccessDeniedError):
        lake.handle().table("db.t").count()
    other = {"scan.fallback-branch": "main"}
    with pytest.raises(AccessDeniedError, match=r"the privilege SELECT on table db\.t\."):
        lake.handle().table("db.t$branch_dev", other).count()
    lake.revoke("SELECT", "db", "t")
    lake.grant("SELECT", "db", "t")
    assert lake.handle().table("db.t$branch_dev").count() == 3
    assert lake.handle().table("db.t$branch_dev", other).count() == 3


def test_a_branch_gives_no_privileges_on_others(lake: Guarded) -> None:
    for name in ("dev", "other"):
        lake.call(f"create_branch(table => 't', branch => '{name}', snapshot_id => 1)")
    lake.grant("SELECT", "db", "t$branch_dev")
    lake.grant("INSERT", "db", "t$branch_dev")
    lake.handle().table("db.t$branch_dev").append(ROWS)
    lake.handle().table("db.t$branch_dev").compact()
    lake.handle().table("db.t$branch_dev").create_tag("mine")
    before = lake.state()
    for call in (
        "delete_branch('t$branch_dev', 'other')",
        "delete_branch('t$branch_dev', 'dev,other')",
        "rename_branch('t$branch_dev', 'other', 'more')",
        "rename_branch('t$branch_dev', 'dev', 'more')",
        "create_branch('t$branch_dev', 'more')",
        "fast_forward('t$branch_dev', 'dev')",
        "fast_forward('t$branch_dev', 'other')",
        "merge_branch('t$branch_dev', 'other', 'dev')",
        "merge_branch('t$branch_dev', 'dev')",
    ):
        with pytest.raises(AccessDeniedError, match=r"privilege INSERT on table db\.t"):
            lake.call(call, "u")
    assert lake.state() == before
    lake.call("delete_branch('t$branch_dev', 'dev')", "u")
    assert lake.call("EXPLAIN CALL sys.fast_forward('t', 'other')")


def test_a_database_with_the_name_of_a_table(lake: Guarded) -> None:
    owner = lake.handle("root")
    owner.create_database("db.t")
    owner.create_table("`db.t`.u", ROWS.schema)
    owner.table("`db.t`.u").append(ROWS)
    lake.grant("SELECT", "db", "t")
    with pytest.raises(AccessDeniedError, match=r"table `db\.t`\.u"):
        lake.handle().table("`db.t`.u").count()
    lake.grant("SELECT", "db.t")
    lake.revoke("SELECT", "db", "t")
    assert lake.handle().table("`db.t`.u").count() == 3
    lake.catalog().drop_database("db.t", cascade=True)
    lake.grant("SELECT", "db", "t")
    assert lake.handle().table("db.t").count() == 3


def test_everybody_sees_definitions(lake: Guarded) -> None:
    anonymous = paimon_spark.connect(lake.path)
    assert anonymous.list_databases() == ["db", "db2", "default"]
    assert anonymous.list_tables("db") == ["other", "t"]
    table = anonymous.table("db.t")
    assert table.schema.names == ["k", "p"]
    assert table.inspect("schemas").num_rows == 1
    assert table.inspect("options").num_rows == 1
    for show in (table.snapshots, table.tags, table.to_arrow, lambda: table.inspect("snapshots")):
        with pytest.raises(AccessDeniedError, match=r"User 'anonymous' .* Log in by the catalog options"):
            show()


def test_a_wrong_password(lake: Guarded) -> None:
    for user, password in {"u": "other", "root": "other", "nobody": "x"}.items():
        catalog = lake.catalog(user, password)
        for refused in (
            lambda c=catalog: c.load_table(Identifier("db", "t")),
            lambda c=catalog: c.create_database("new"),
        ):
            with pytest.raises(AccessDeniedError) as e:
                refused()
            assert e.value.kind is ErrorKind.LOGIN_FAILED
            assert password not in str(e.value).replace(lake.path, "")
        assert catalog.list_databases() == ["db", "db2", "default"]


def test_passwords_are_never_shown(lake: Guarded) -> None:
    shown = (
        repr(lake.catalog())
        + repr(table_of(lake))
        + str(lake.call("EXPLAIN CALL sys.create_privileged_user('x', 'y1')"))
    )
    assert PASSWORD not in shown
    assert "y1" not in shown
    users = lake.catalog().privileges.user_table()
    assert not any(PASSWORD.encode() in f.read_bytes() for f in Path(users.path).rglob("data-*"))


def test_changes_count_at_once_in_open_catalogs(lake: Guarded) -> None:
    open_one = lake.handle()
    lake.grant("SELECT", "db", "t")
    assert open_one.table("db.t").count() == 3
    lake.revoke("SELECT", "db", "t")
    with pytest.raises(AccessDeniedError):
        open_one.table("db.t").count()
    lake.call("drop_privileged_user('u')")
    with pytest.raises(AccessDeniedError, match="LOGIN_FAILED"):
        open_one.table("db.t")


def test_a_user_who_comes_back_has_nothing(lake: Guarded) -> None:
    lake.grant("SELECT")
    lake.call("drop_privileged_user('u')")
    lake.call("create_privileged_user('u', 'of u')")
    with pytest.raises(AccessDeniedError, match="PRIVILEGE_MISSING"):
        lake.handle().table("db.t").count()
    lake.catalog().privileges.put("v", CATALOG, Privilege.SELECT)  # as left by an interrupted drop
    lake.call("create_privileged_user('v', 'of v')")
    with pytest.raises(AccessDeniedError, match="PRIVILEGE_MISSING"):
        lake.handle("v").table("db.t").count()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("init_file_based_privilege('x')", "has privileges already"),
        ("create_privileged_user('u', 'x')", "User 'u' exists already"),
        ("drop_privileged_user('root')", "The user 'root' cannot be dropped"),
        ("drop_privileged_user('anonymous')", "The user 'anonymous' cannot be dropped"),
        ("grant_privilege_to_user('root', 'SELECT')", "The privileges of 'root' cannot be changed"),
        ("grant_privilege_to_user('nobody', 'SELECT')", "User 'nobody' does not exist"),
        ("grant_privilege_to_user('u', 'SELEKT')", "There is no privilege 'SELEKT'. Did you mean 'SELECT'?"),
        ("grant_privilege_to_user('u', 'ADMIN', 'db')", "ADMIN cannot be granted on a database"),
        ("grant_privilege_to_user('u', 'CREATE_TABLE', 'db', 't')", "CREATE_TABLE cannot be granted on a table"),
        ("grant_privilege_to_user('u', 'SELECT', 'no')", "Database 'no' does not exist"),
        ("grant_privilege_to_user('u', 'SELECT', 'db', 'no')", "Table 'db.no' does not exist"),
        ("grant_privilege_to_user('u', 'SELECT', 'db', 't$files')", "is a system table"),
        ("grant_privilege_to_user(username => 'u', privilege => 'SELECT', table => 't')", "requires 'database'"),
        ("revoke_privilege_from_user('u', 'SELECT')", "does not have the privilege SELECT on the catalog"),
    ],
)
def test_calls_that_are_wrong(text: str, told: str, shared: Guarded) -> None:
    with pytest.raises(PaimonError) as e:
        shared.call(text)
    assert told in str(e.value)


def test_a_user_who_does_not_exist_is_dropped(shared: Guarded) -> None:
    (row,) = shared.call("drop_privileged_user('nobody')")
    assert (row["result"], row["status"]) == ("User nobody is dropped.", "nothing to do: there is no user 'nobody'")


def test_plans_of_privileges_change_nothing(shared: Guarded) -> None:
    for text in (
        "create_privileged_user('x', 'y')",
        "drop_privileged_user('u')",
        "grant_privilege_to_user('u', 'SELECT')",
    ):
        assert len(shared.call(f"EXPLAIN CALL sys.{text}")) == 1
    assert not shared.catalog().privileges.has_user("x")
    assert shared.catalog("u").privileges.grants().privileges == {}


def test_calls_without_privileges_in_the_warehouse(tmp_path: Path) -> None:
    clear_cache()
    paimon_spark.connect(str(tmp_path)).create_database("db")
    lake = Guarded.at(tmp_path)
    for text in ("create_privileged_user('u', 'x')", "grant_privilege_to_user('u', 'SELECT')"):
        with pytest.raises(PaimonError, match=r"has no privileges. Begin with CALL sys.init_file_based_privilege"):
            lake.call(text)


def test_many_changes_are_compacted_and_expire(lake: Guarded) -> None:
    for _ in range(12):
        lake.grant("SELECT", "db", "t")
        lake.grant("INSERT", "db", "t")
        lake.revoke("SELECT", "db", "t")
    tables = lake.catalog().privileges
    assert tables.entries(Securable()).to_pylist() == [
        {"name": "u", "entity_type": "USER", "identifier": "db.t", "privilege": "INSERT"}
    ]
    assert lake.handle("root").table("db.t").count() == 3


class Nth:
    """Fails every change of the store from the nth on, as if the process had died."""

    def __init__(self, at: int) -> None:
        self.at, self.changes = at, 0

    def choose(self, operation: str, path: str) -> None:
        del path
        if operation in WRITES:
            self.changes += 1
            if self.changes >= self.at:
                raise KeyboardInterrupt


def in_memory(file_io: FileIO, user: str = ANONYMOUS, password: str = ANONYMOUS) -> PrivilegedCatalog:
    inner = FileSystemCatalog("/wh", {}, file_io)
    return PrivilegedCatalog(inner, PrivilegeTables("/wh", file_io, user, password_hash(password)))


def test_an_interrupted_begin_is_repeated() -> None:
    users = [("root", password_hash("pw")), ("anonymous", password_hash("anonymous"))]
    for at in range(1, 30):
        clear_cache()
        store = InMemoryFileIO()
        died = Nth(at)
        try:
            in_memory(FaultFileIO(store, died)).privileges.create(users, 0)
        except KeyboardInterrupt:
            enabled = in_memory(store).privileges.enabled()
            if not enabled:
                assert in_memory(store).privileges.grants() is None
                assert in_memory(store).privileges.create(users, CLAIM_MILLIS)
        root = in_memory(store, "root", "pw")
        assert root.require(CATALOG, Privilege.ADMIN)
        if died.changes < at:
            break
    assert at > 5


class Meeting:
    """A store on which two threads wait for each other before they create their first files."""

    def __init__(self, inner: FileIO) -> None:
        self.inner, self.left, self.barrier = inner, [1, 2], threading.Barrier(2)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def create_exclusive(self, path: str, data: bytes) -> bool:
        if self.left:
            self.left.pop()
            self.barrier.wait(10)
        return self.inner.create_exclusive(path, data)


@pytest.mark.parametrize("local", [False, True])
def test_one_of_two_begins_wins(tmp_path: Path, local: bool) -> None:
    root = str(tmp_path) if local else "/wh"
    store = Meeting(LocalFileIO() if local else InMemoryFileIO())

    def begin(password: str) -> bool | PaimonError:
        tables = PrivilegeTables(root, store)
        try:
            return tables.create([("root", password_hash(password)), (ANONYMOUS, password_hash(ANONYMOUS))], 0)
        except ConflictError as e:
            return e

    with ThreadPoolExecutor(2) as pool:
        ended = dict(zip("ab", pool.map(begin, "ab"), strict=True))
    assert sorted(v is True for v in ended.values()) == [False, True]
    for password, outcome in ended.items():
        tables = PrivilegeTables(root, store, "root", password_hash(password))
        if outcome is True:
            assert tables.grants() is not None
        else:
            assert outcome is False or "COMMIT_CONFLICT" in str(outcome)
            with pytest.raises(AccessDeniedError, match="LOGIN_FAILED"):
                tables.grants()


def test_an_interrupted_begin_holds_others_up() -> None:
    store, users = InMemoryFileIO(), [("root", password_hash("pw"))]
    with pytest.raises(KeyboardInterrupt):
        in_memory(FaultFileIO(store, Nth(4))).privileges.create(users, 0)
    with pytest.raises(ConflictError, match=r"after ten minutes, or delete /wh/user.sys/claim"):
        in_memory(store).privileges.create(users, CLAIM_MILLIS - 1)
    assert in_memory(store).privileges.create(users, CLAIM_MILLIS)


def test_half_of_the_tables_refuses_everything() -> None:
    store = InMemoryFileIO()
    catalog = in_memory(store, "root", "pw")
    catalog.privileges.create([("root", password_hash("pw"))], 0)
    store.delete_dir("/wh/user.sys")
    with pytest.raises(PaimonError, match=r"CORRUPT_METADATA.*user.sys is missing"):
        catalog.create_database("db")


class Counter:
    """Counts the operations on the tables of privileges."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def choose(self, operation: str, path: str) -> None:
        if ".sys" in path:
            self.seen.append(operation)


def test_a_warehouse_without_privileges_is_asked_once() -> None:
    counter, now = Counter(), [0.0]
    store = FaultFileIO(InMemoryFileIO(), counter)
    tables = PrivilegeTables("/wh", store, monotonic=lambda: now[0])
    catalog = PrivilegedCatalog(FileSystemCatalog("/wh", {}, store), tables)
    handle = CatalogHandle(catalog)
    handle.create_database("db")
    handle.create_table("db.t", ROWS.schema)
    for _ in range(3):
        handle.table("db.t").append(ROWS)
        handle.table("db.t").to_arrow()
    assert counter.seen == ["exists"]
    now[0] = 10.0
    handle.table("db.t")
    assert counter.seen == ["exists", "exists"]
    assert not store.exists(f"/wh/{PRIVILEGE_TABLE}")


def test_a_login_ends_with_the_protection() -> None:
    clear_cache()
    store, now = InMemoryFileIO(), [0.0]
    tables = PrivilegeTables("/wh", store, "root", password_hash("one"), monotonic=lambda: now[0])
    for password in ("one", "two"):
        assert tables.create([("root", password_hash(password))], 0)
        if password == "one":  # noqa: S105
            assert tables.grants() is not None
            for path in tables.paths:
                store.delete_dir(path)
            now[0] = 10.0
            assert tables.grants() is None
    with pytest.raises(AccessDeniedError, match="password is wrong"):
        tables.grants()


def test_tables_travel_to_other_processes(shared: Guarded) -> None:
    table = table_of(shared)
    assert pickle.loads(pickle.dumps(table)) == table
    with pytest.raises(AccessDeniedError):
        pickle.loads(pickle.dumps(table)).snapshots.latest()
