"""Branches of a table: their names, existence, and the table on another branch.

A branch is a directory with its own schemas, snapshots, tags, consumers and changelogs. It exists once it has a schema:
a directory without one is what an interrupted creation or deletion left.
"""

from __future__ import annotations

from dataclasses import replace

from paimon_spark.core.metadata.refs import branch_name, branches
from paimon_spark.core.schemas import SchemaStore
from paimon_spark.core.table import Table
from paimon_spark.errors import AlreadyExistsError, CorruptTableError, ErrorKind, NotFoundError, suggestion
from paimon_spark.spec.identifier import Identifier, is_one_name, shown
from paimon_spark.spec.paths import MAIN_BRANCH
from paimon_spark.spec.privileges import Privilege

BRANCH_OPTIONS = (
    "scan.fallback-branch",
    "scan.primary-branch",
    "scan.fallback-snapshot-branch",
    "scan.fallback-delta-branch",
)
"""Options that name a branch which the table's reads need."""


def on_branch(table: Table, name: str) -> Table:
    """Return the table on another branch at its latest schema and with its options, or the table if it is on it.

    Raises:
        NotFoundError: there is no such branch.
    """
    if name == table.branch:
        return table
    schema = branch_schemas(table, name).latest() if is_one_name(name) else None
    if schema is None:
        raise no_such_branch(table, name)
    branch = None if name == MAIN_BRANCH else name
    identifier = replace(table.identifier, branch=branch)
    found = Table.of(identifier, table.path, schema, table.file_io)
    access = None if table.access is None else table.access.on_branch(identifier)
    return replace(found, zone=table.zone, manifest_cache=table.manifest_cache, access=access)


def require_branches(table: Table, *names: str) -> None:
    """Return if the user may change branches of the table, whether they exist or not.

    Raises:
        AccessDeniedError: the user does not have the privilege INSERT on one of them.
    """
    if table.access is not None:
        for name in names:
            identifier = replace(table.identifier, branch=None if name == MAIN_BRANCH else name)
            table.access.on_branch(identifier).require(Privilege.INSERT)


def branch_schemas(table: Table, name: str) -> SchemaStore:
    """Return the schemas of a branch, whether it exists or not."""
    return SchemaStore(table.file_io, replace(table, branch=name).paths)


def branch_names(table: Table) -> list[str]:
    """Return the names of all branches except main, sorted; incomplete ones are left out."""
    found = sorted(branch_name(d) for d in branches(table))
    return [name for name in found if branch_schemas(table, name).ids()]


def branch_exists(table: Table, name: str) -> bool:
    """Return whether a branch exists."""
    return is_one_name(name) and bool(branch_schemas(table, name).ids())


def incomplete_branch(table: Identifier, name: str) -> CorruptTableError:
    """Return the error for a branch without a schema."""
    return CorruptTableError(
        f"The branch '{name}' of table {table.full_name} has no schema: its creation or deletion was interrupted.",
        hint=f"CALL sys.delete_branch('{table.full_name}', '{name}') deletes what is left of it. If the trash "
        "has that deletion, sys.undo then restores the branch.",
    )


def no_such_branch(table: Table, name: str) -> NotFoundError:
    """Return the error for a missing branch."""
    return NotFoundError(
        f"Table {table.identifier.base.full_name} has no branch {shown(name)}.",
        hint=suggestion(name, branch_names(table)) or "It has no branches.",
        kind=ErrorKind.BRANCH_NOT_FOUND,
    )


def branch_exists_error(table: Table, name: str) -> AlreadyExistsError:
    """Return the error for an existing branch."""
    return AlreadyExistsError(
        f"Table {table.identifier.base.full_name} already has a branch '{name}'.",
        hint="Pick another name, or delete the branch first.",
        kind=ErrorKind.BRANCH_EXISTS,
    )
