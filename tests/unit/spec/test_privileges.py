"""What privileges are of: objects and their names, and the files of a table and of its branches."""

from __future__ import annotations

import pytest

from paimon_spark.errors import AccessDeniedError
from paimon_spark.spec.privileges import CATALOG, Grants, Privilege, Securable, TableAccess, grantable_on

COVERING = (
    (CATALOG, ("",)),
    (Securable("db"), ("db", "")),
    (Securable("db", "t"), ("db.t", "db", "")),
    (Securable("db", "t$branch_b.1"), ("db.t$branch_b.1", "db.t", "db", "")),
    (Securable("a.b"), ("`a.b`", "")),
    (Securable("a.b", "c.d"), ("`a.b`.c.d", "`a.b`", "")),
    (Securable("`a", "b`.c"), ("```a`.b`.c", "```a`", "")),
)


@pytest.mark.parametrize(("on", "names"), COVERING)
def test_where_privileges_come_from(on: Securable, names: tuple[str, ...]) -> None:
    assert on.covering == names
    for name in names:
        assert Grants("u", {name: frozenset(["SELECT"])}).has(Privilege.SELECT, on)
    assert not Grants("u", {"db.t.x": frozenset(["SELECT"]), "d": frozenset(["SELECT"])}).has(Privilege.SELECT, on)
    assert not Grants("u", {"": frozenset(["INSERT"])}).has(Privilege.SELECT, on)


def test_what_a_privilege_is_granted_on() -> None:
    found = {p: len(grantable_on(p)) for p in Privilege}
    assert [p for p, n in found.items() if n == 1] == ["CREATE_DATABASE", "ADMIN"]
    assert [p for p, n in found.items() if n == 3] == ["SELECT", "INSERT", "ALTER_TABLE", "DROP_TABLE"]


TABLE = "/w/db.db/t"


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("/snapshot/snapshot-1", "db.t"),
        ("/schema/schema-0", "db.t"),
        ("/tag/tag-a", "db.t"),
        ("/branch/branch-c", "db.t$branch_c"),
        ("/branch/branch-c/snapshot/LATEST", "db.t$branch_c"),
        ("/branch/branch-b/tag/tag-a", "db.t$branch_b"),
        ("/manifest/manifest-1-0", "db.t$branch_b"),
        ("/dt=1/bucket-0/data-1-0.parquet", "db.t$branch_b"),
    ],
)
def test_which_branch_a_file_belongs_to(path: str, owner: str) -> None:
    def access(name: str) -> TableAccess:
        grants = Grants("u", {name: frozenset(["INSERT"])})
        return TableAccess(grants, Securable("db", "t$branch_b"), TABLE)

    for granted in ("db.t", owner):
        access(granted).check_change(TABLE + path)
    if owner != "db.t$branch_b":
        with pytest.raises(AccessDeniedError):
            access("db.t$branch_b").check_change(TABLE + path)
