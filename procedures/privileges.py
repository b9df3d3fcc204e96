"""Procedures for file-based privileges: users, and what they may do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Column, Param, ParamType, procedure
from paimon_spark.calls.report import DONE, NOTHING_TO_DO, Report
from paimon_spark.catalog.privilege_tables import PrivilegeTables, password_hash
from paimon_spark.catalog.privileged import PrivilegedCatalog
from paimon_spark.core.maintenance.deletion import DELETE, WRITE, Action
from paimon_spark.core.table import Table
from paimon_spark.engine.privileges import compact_and_expire
from paimon_spark.errors import (
    AlreadyExistsError,
    ArgumentError,
    ErrorKind,
    NotFoundError,
    UnsupportedError,
    UsageError,
    suggestion,
)
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.privileges import ANONYMOUS, CATALOG, ROOT, Privilege, Securable, grantable_on

_RESULT = Column("result", "string", "what was done; a failed CALL raises an error", nullable=False)
_USERNAME = Param("username", ParamType.STRING, "The name of the user.", required=True)
_GRANT = (
    _USERNAME,
    Param("privilege", ParamType.STRING, f"One of {', '.join(Privilege)}.", required=True),
    Param("database", ParamType.STRING, "The database, or that of the table.", default="the whole catalog"),
    Param("table", ParamType.STRING, "The table, view or branch, without its database.", default="the whole database"),
)


def _catalog(ctx: CallContext) -> PrivilegedCatalog:
    if isinstance(ctx.catalog, PrivilegedCatalog):
        return ctx.catalog
    raise UnsupportedError("This catalog has no privileges.", hint="Use a catalog with a warehouse directory.")


def _administered(ctx: CallContext) -> PrivilegedCatalog:
    """Return the catalog of a user who has the privilege ADMIN.

    Raises:
        UsageError: the warehouse has no privileges.
        AccessDeniedError: the user does not have ADMIN.
    """
    catalog = _catalog(ctx)
    if not catalog.require(CATALOG, Privilege.ADMIN):
        raise UsageError(
            f"The warehouse {catalog.warehouse} has no privileges.",
            hint="Begin with CALL sys.init_file_based_privilege('<password of root>').",
        )
    return catalog


def _report(plan: Plan[_Work], table: Table, rows: Sequence[str]) -> Report:
    """Return the report of a CALL that changed a table of privileges, after its upkeep."""
    work = plan.payload
    compact_and_expire(table)
    return Report(
        result_rows=[(row,) for row in rows],
        snapshot_before=work.before,
        snapshot_after=table.snapshots.latest_id(),
        rows=work.rows,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """A change, and the newest snapshot of its table before it."""

    tables: PrivilegeTables
    user: str = ""
    password: bytes = b""
    privilege: Privilege = Privilege.SELECT
    on: Securable = CATALOG
    entries: pa.Table | None = None
    before: int | None = None
    rows: int = 1


@procedure(
    name="init_file_based_privilege",
    summary="Protect a warehouse by privileges of users.",
    params=(Param("root_password", ParamType.STRING, "The password of the user `root`.", required=True),),
    columns=(_RESULT,),
    example="CALL sys.init_file_based_privilege('the password of root');",
)
class InitFileBasedPrivilege:
    """Create the tables `user.sys` and `privilege.sys` in the warehouse, with the users `root` and `anonymous`.

    From then on, operations require [privileges](../privileges.md). The user `root` has all of them; `anonymous`, the
    user of catalogs without the catalog options `user` and `password`, has none. Catalogs that are open in other
    processes notice it within ten seconds, those of Paimon when they are created again. Of concurrent CALLs, one
    succeeds, and the others fail with `COMMIT_CONFLICT` or since the warehouse has privileges.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Work]:
        """Check that the warehouse has no privileges."""
        tables = _catalog(ctx).privileges
        tables.forget()
        if tables.enabled():
            raise _has_privileges(tables)
        reason = "the warehouse gets privileges, and the users root and anonymous"
        actions = tuple(Action(WRITE, path, 0, reason) for path in tables.paths)
        return Plan(actions, _Work(tables=tables, password=password_hash(args.text("root_password")), rows=2))

    def execute(self, ctx: CallContext, plan: Plan[_Work]) -> Report:
        """Create the tables."""
        tables = plan.payload.tables
        first = [(ROOT, plan.payload.password), (ANONYMOUS, password_hash(ANONYMOUS))]
        if not tables.create(first, ctx.clock_millis()):
            raise _has_privileges(tables)
        sentence = "Privilege system is successfully enabled. Please drop and re-create the catalog."
        return _report(plan, tables.user_table(), [sentence])


def _has_privileges(tables: PrivilegeTables) -> UsageError:
    return UsageError(
        f"The warehouse {tables.warehouse} has privileges already.",
        hint="Log in as root, or as another user with the privilege ADMIN, to change them.",
    )


@procedure(
    name="create_privileged_user",
    summary="Create a user, who has no privileges at first.",
    params=(_USERNAME, Param("password", ParamType.STRING, "The password of the user.", required=True)),
    columns=(_RESULT,),
    example="CALL sys.create_privileged_user('etl', 'the password of etl');",
)
class CreatePrivilegedUser:
    """Create a user of a warehouse with [privileges](../privileges.md); requires the privilege ADMIN.

    The SHA-256 of the password is stored. To change a password, drop the user and create it again.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Work]:
        """Check that there is no such user."""
        tables, user = _administered(ctx).privileges, args.text("username")
        if tables.has_user(user):
            raise AlreadyExistsError(
                f"User '{user}' exists already.",
                hint="Choose another name, or drop the user first.",
                kind=ErrorKind.INVALID_ARGUMENT,
            )
        table = tables.user_table()
        work = _Work(
            tables=tables,
            user=user,
            password=password_hash(args.text("password")),
            before=table.snapshots.latest_id(),
        )
        return Plan((Action(WRITE, table.path, 0, f"the user {user} is added"),), work)

    def execute(self, ctx: CallContext, plan: Plan[_Work]) -> Report:
        """Add the user."""
        del ctx
        work = plan.payload
        work.tables.delete(work.tables.entries(CATALOG, user=work.user))  # what an interrupted drop has left
        work.tables.put_users([(work.user, work.password)])
        return _report(plan, work.tables.user_table(), [f"User {work.user} is created without any privileges."])


@procedure(
    name="drop_privileged_user",
    summary="Drop a user and the user's privileges.",
    params=(_USERNAME,),
    columns=(_RESULT,),
    example="CALL sys.drop_privileged_user('etl');",
)
class DropPrivilegedUser:
    """Drop a user of a warehouse with [privileges](../privileges.md); requires the privilege ADMIN.

    The users `root` and `anonymous` cannot be dropped. A user who does not exist is not an error.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Work]:
        """Find the user."""
        tables, user = _administered(ctx).privileges, args.text("username")
        if user in (ROOT, ANONYMOUS):
            raise ArgumentError(f"The user '{user}' cannot be dropped.", hint="Every warehouse with privileges has it.")
        table, known = tables.user_table(), tables.has_user(user)
        action = Action(DELETE, table.path, 0, f"the user {user} is removed, with all privileges")
        work = _Work(tables=tables, user=user, before=table.snapshots.latest_id(), rows=int(known))
        return Plan((action,) if known else (), work)

    def execute(self, ctx: CallContext, plan: Plan[_Work]) -> Report:
        """Remove the user, then the privileges."""
        del ctx
        work = plan.payload
        sentence = f"User {work.user} is dropped."
        if not plan.actions:
            return Report(result_rows=[(sentence,)], status=f"{NOTHING_TO_DO}: there is no user '{work.user}'")
        work.tables.delete_user(work.user)
        compact_and_expire(work.tables.privilege_table())
        return _report(plan, work.tables.user_table(), [sentence])


@procedure(
    name="grant_privilege_to_user",
    summary="Give a user a privilege on the catalog, a database or a table.",
    params=_GRANT,
    columns=(_RESULT,),
    example="CALL sys.grant_privilege_to_user('etl', 'INSERT', 'shop', 'orders');",
)
class GrantPrivilegeToUser:
    """Give a user a [privilege](../privileges.md); requires the privilege ADMIN.

    A privilege on a database holds for all its tables, one on the catalog for all databases, those that are created
    later included. A privilege on a table holds for its branches.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Work]:
        """Check the user, the privilege and the object."""
        catalog, user, privilege, on = _grant(ctx, args)
        if on.kind not in grantable_on(privilege):
            raise ArgumentError(
                f"The privilege {privilege} cannot be granted on a {on.kind}.",
                hint=f"It can be granted on a {' or a '.join(grantable_on(privilege))}.",
            )
        _check_exists(catalog, on)
        table = catalog.privileges.privilege_table()
        action = Action(WRITE, table.path, 0, f"{user} gets {privilege} on the {on}")
        work = _Work(
            tables=catalog.privileges, user=user, privilege=privilege, on=on, before=table.snapshots.latest_id()
        )
        return Plan((action,), work)

    def execute(self, ctx: CallContext, plan: Plan[_Work]) -> Report:
        """Add the privilege."""
        del ctx
        work = plan.payload
        work.tables.put(work.user, work.on, work.privilege)
        sentence = f"User {work.user} is granted with privilege {work.privilege} on {_object(work.on)}."
        return _report(plan, work.tables.privilege_table(), [sentence])


@procedure(
    name="revoke_privilege_from_user",
    summary="Take a privilege on the catalog, a database or a table from a user.",
    params=_GRANT,
    columns=(_RESULT,),
    example="CALL sys.revoke_privilege_from_user('etl', 'INSERT', 'shop', 'orders');",
)
class RevokePrivilegeFromUser:
    """Take a [privilege](../privileges.md) from a user, on an object and on everything in it; requires ADMIN.

    A privilege that the user has on a database or on the catalog cannot be taken for one of its tables. The second row
    of the result has the number of removed privileges; it is an error if there is none.
    """

    status = f"`{DONE}`"

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Work]:
        """Find the privileges on the object and in it."""
        catalog, user, privilege, on = _grant(ctx, args)
        tables = catalog.privileges
        entries = tables.entries(on, user=user, privilege=privilege)
        if not entries.num_rows:
            raise NotFoundError(
                f"User '{user}' does not have the privilege {privilege} on {_object(on)}.",
                hint="It may be one on what contains the object: revoke it there.",
                kind=ErrorKind.INVALID_ARGUMENT,
            )
        table = tables.privilege_table()
        reason = f"{user} loses {privilege} on "
        names = [n or "the catalog" for n in entries.column("identifier").to_pylist()]
        actions = tuple(Action(DELETE, table.path, 0, reason + name) for name in names)
        work = _Work(
            tables=tables,
            user=user,
            privilege=privilege,
            on=on,
            entries=entries,
            before=table.snapshots.latest_id(),
            rows=entries.num_rows,
        )
        return Plan(actions, work)

    def execute(self, ctx: CallContext, plan: Plan[_Work]) -> Report:
        """Remove the privileges."""
        del ctx
        work = plan.payload
        work.tables.delete(work.entries)
        sentence = f"User {work.user} is revoked with privilege {work.privilege} on {_object(work.on)}."
        count = f"Number of privileges revoked: {work.rows}"
        return _report(plan, work.tables.privilege_table(), [sentence, count])


def _grant(ctx: CallContext, args: Arguments) -> tuple[PrivilegedCatalog, str, Privilege, Securable]:
    """Return the catalog, the user, the privilege and the object of a grant."""
    catalog, user = _administered(ctx), args.text("username")
    name, database, table = args.text("privilege"), args.optional_text("database"), args.optional_text("table")
    try:
        privilege = Privilege(name.strip().upper())
    except ValueError:
        raise ArgumentError(f"There is no privilege '{name}'.", hint=suggestion(name, list(Privilege))) from None
    if table is not None and database is None:
        raise ArgumentError("The argument 'table' requires 'database'.", hint="Name the database of the table, too.")
    if user == ROOT:
        raise ArgumentError(f"The privileges of '{ROOT}' cannot be changed.", hint=f"'{ROOT}' has all privileges.")
    if not catalog.privileges.has_user(user):
        raise NotFoundError(
            f"User '{user}' does not exist.",
            hint=f"Create it first: CALL sys.create_privileged_user('{user}', '<password>').",
            kind=ErrorKind.INVALID_ARGUMENT,
        )
    if database is None or table is None:
        return catalog, user, privilege, Securable(database)
    identifier = Identifier.of((database, table))
    if identifier.system_table is not None:
        raise ArgumentError(
            f"'{identifier.full_name}' is a system table, which has no privileges of its own.",
            hint=f"Name the table itself: '{identifier.data_table.object_name}'.",
        )
    return catalog, user, privilege, Securable.of(identifier)


def _check_exists(catalog: PrivilegedCatalog, on: Securable) -> None:
    if on.database is not None and on.table is not None:
        identifier = Identifier.of((on.database, on.table))
        if catalog.find_view(identifier) is None:
            catalog.load_table(identifier)
    elif on.database is not None and not catalog.database_exists(on.database):
        raise NotFoundError(
            f"Database '{on.database}' does not exist.",
            hint=suggestion(on.database, catalog.list_databases()),
            kind=ErrorKind.DATABASE_NOT_FOUND,
        )


def _object(on: Securable) -> str:
    return "the catalog" if on.database is None else str(on)
