"""Users and privileges that Paimon wrote are honoured here, and those written here by Paimon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.api.catalog import CatalogHandle
from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.errors import AccessDeniedError, PaimonError
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.privileges import Securable
from tests.peers.java_peer import run_steps, try_steps
from tests.unit.catalog.test_privileges import Guarded

pytestmark = [pytest.mark.peer, pytest.mark.slow]

ROOT = {"user": "root", "password": "of root"}
USERS: tuple[dict[str, str], ...] = ({}, {"user": "u", "password": "of u"}, {"user": "v", "password": "of v"}, ROOT)
TABLES = ("db.a", "db.b", "db2.a")
GRANTS = (
    ("u", "SELECT", ["db"]),
    ("u", "INSERT", ["db", "a"]),
    ("v", "INSERT", []),
    ("v", "SELECT", ["db2", "a"]),
    ("anonymous", "SELECT", ["db", "b"]),
)
Outcome = tuple[str, str, str, bool]


def tried(warehouse: Path) -> list[Outcome]:
    """Read and write every table as every user, here; return what is possible."""
    found: list[Outcome] = []
    for user in USERS:
        handle = CatalogHandle(open_catalog({"warehouse": str(warehouse), **user}))
        for table in TABLES:
            for what in ("read", "write"):
                try:
                    if what == "read":
                        handle.table(table).to_arrow()
                    else:
                        handle.table(table).append(pa.table({"k": pa.array([1], pa.int32()), "v": ["x"]}))
                except AccessDeniedError:
                    found.append((user.get("user", ""), table, what, False))
                else:
                    found.append((user.get("user", ""), table, what, True))
    return found


def tried_by_paimon(warehouse: Path) -> list[Outcome]:
    """Return what is possible in Paimon."""
    cases = [(user, table, what) for user in USERS for table in TABLES for what in ("read", "write")]
    steps = [{"do": what, "table": table, "rows": [[1, "x"]], **user} for user, table, what in cases]
    answers = try_steps(warehouse, steps, program="PrivilegePeer")
    assert {a["error"].partition(":")[0] for a in answers if "error" in a} == {"NoPrivilegeException"}
    return [(u.get("user", ""), t, w, "error" not in a) for (u, t, w), a in zip(cases, answers, strict=True)]


def created() -> list[dict[str, Any]]:
    columns = [["k", "INT NOT NULL"], ["v", "STRING"]]
    return [
        {"do": "create", "table": t, "columns": columns, "primaryKey": ["k"], "options": {"bucket": "1"}}
        for t in TABLES
    ]


def test_both_sides_decide_alike(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    users = [{"do": "createUser", "name": n, "secret": f"of {n}", **ROOT} for n in ("u", "v")]
    grants = [{"do": "grant", "name": n, "privilege": p, "on": on, **ROOT} for n, p, on in GRANTS]
    begin = {"do": "init", "root": ROOT["password"]}
    run_steps(theirs, [*created(), begin, *users, *grants], program="PrivilegePeer")
    run_steps(ours, created())
    lake = Guarded.at(ours)
    lake.call(f"init_file_based_privilege('{ROOT['password']}')", "anonymous", "anonymous")
    for name in ("u", "v"):
        lake.call(f"create_privileged_user('{name}', 'of {name}')")
    for name, privilege, on in GRANTS:
        lake.grant(privilege, *on, user=name)
    expected = tried(theirs)
    assert [ok for *_, ok in expected].count(True) == 14
    assert tried(ours) == expected
    assert tried_by_paimon(theirs) == expected
    assert tried_by_paimon(ours) == expected


def test_both_sides_change_what_the_other_stored(tmp_path: Path) -> None:
    run_steps(tmp_path, [*created(), {"do": "init", "root": "of root"}], program="PrivilegePeer")
    lake = Guarded.at(tmp_path)
    lake.call("create_privileged_user('u', 'of u')")
    for _ in range(4):
        lake.grant("SELECT", "db")
        lake.grant("INSERT", "db", "a")
        steps = [
            {"do": "grant", "name": "u", "privilege": "SELECT", "on": ["db2"], **ROOT},
            {"do": "revoke", "name": "u", "privilege": "INSERT", "on": ["db", "a"], **ROOT},
            {"do": "read", "table": "db.a", "user": "u", "password": "of u"},
        ]
        assert run_steps(tmp_path, steps, program="PrivilegePeer")[1]["revoked"] == 1
        entries = lake.catalog().privileges.entries(Securable(), user="u").to_pylist()
        assert sorted((e["identifier"], e["privilege"]) for e in entries) == [("db", "SELECT"), ("db2", "SELECT")]
        lake.revoke("SELECT", "db2")
    run_steps(tmp_path, [{"do": "dropUser", "name": "u", **ROOT}], program="PrivilegePeer")
    with pytest.raises(PaimonError, match="LOGIN_FAILED"):
        lake.handle().table("db.a").count()


def test_a_renamed_and_a_dropped_table(tmp_path: Path) -> None:
    run_steps(tmp_path, [*created(), {"do": "init", "root": "of root"}], program="PrivilegePeer")
    lake = Guarded.at(tmp_path)
    lake.call("create_privileged_user('u', 'of u')")
    for table in ("a", "b"):
        lake.grant("SELECT", "db", table)
    root = lake.catalog()
    root.rename_table(*(Identifier.parse(n) for n in ("db.a", "db.c")))
    root.drop_table(Identifier.parse("db.b"))
    user = {"user": "u", "password": "of u"}
    steps = [{"do": "read", "table": "db.c", **user}, created()[1] | ROOT, {"do": "read", "table": "db.b", **user}]
    kept, _, lost = try_steps(tmp_path, steps, program="PrivilegePeer")
    assert kept == {"rows": []}
    assert "doesn't have privilege SELECT on table db.b" in lost["error"]
