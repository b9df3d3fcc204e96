"""Creation, renaming and deletion of branches.

A branch shares the data files of the table. Creating one copies metadata only; deleting one leaves its own data files
to orphan removal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from paimon_spark.core.cancellation import uninterrupted
from paimon_spark.core.maintenance.deletion import DELETE, WRITE, Action, Deleted, SafeDeleter
from paimon_spark.core.maintenance.orphans import is_temporary
from paimon_spark.core.maintenance.trash import TrashRun
from paimon_spark.core.metadata.branches import (
    BRANCH_OPTIONS,
    branch_exists,
    branch_exists_error,
    branch_schemas,
    no_such_branch,
    require_branches,
)
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import RefStore, branch_name, branches
from paimon_spark.core.metadata_io import create_once, delete_best_effort, read_needed, translate_io_errors
from paimon_spark.core.schemas import SchemaStore
from paimon_spark.core.table import Table
from paimon_spark.errors import (
    AlreadyExistsError,
    ArgumentError,
    ErrorKind,
    NotFoundError,
    PaimonError,
    UsageError,
)
from paimon_spark.spec.paths import MAIN_BRANCH
from paimon_spark.spec.refs import Tag, check_branch_name
from paimon_spark.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class NewFile:
    """A metadata file of a branch to be written."""

    path: str
    data: bytes
    reason: str

    @property
    def action(self) -> Action:
        """Return the action that writes the file."""
        return Action(WRITE, self.path, len(self.data), self.reason)


@dataclass(frozen=True, slots=True)
class CreateBranchPlan:
    """A branch to create: its files in the order of writing. There are none if the branch exists and may stay."""

    name: str
    files: tuple[NewFile, ...] = ()
    snapshot: Snapshot | None = None

    @property
    def actions(self) -> tuple[Action, ...]:
        """Return all actions."""
        return tuple(f.action for f in self.files)


@dataclass(frozen=True, slots=True)
class DeleteBranchesPlan:
    """Branches to delete, with all their metadata files."""

    names: tuple[str, ...]
    actions: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True)
class RenameBranchPlan:
    """A branch to rename."""

    name: str
    new_name: str
    actions: tuple[Action, ...] = ()


@translate_io_errors()
def plan_create_branch(
    table: Table, name: str, *, tag: str | None = None, snapshot_id: int | None = None, if_not_exists: bool = False
) -> CreateBranchPlan:
    """Plan a branch: at a tag, at a snapshot, or empty with the table's schemas; nothing is changed.

    Args:
        table: the table on the branch that the new one starts from.
        name: name of the new branch; surrounding blanks are stripped.
        tag: the tag to start from; the branch gets a copy of it.
        snapshot_id: the snapshot to start from.
        if_not_exists: accept an existing branch of that name.

    Raises:
        ArgumentError: the name is invalid, or both a tag and a snapshot are given.
        AlreadyExistsError: the branch exists.
        NotFoundError: there is no such tag or snapshot.
        CorruptTableError: the manifests of the snapshot cannot be read.
        AccessDeniedError: the user may not change the new branch.
    """
    name = check_branch_name(name)
    require_branches(table, name)
    if tag is not None and snapshot_id is not None:
        raise ArgumentError(
            f"The branch '{name}' cannot start from both the tag '{tag}' and snapshot {snapshot_id}.",
            hint="Give one of them.",
        )
    if branch_exists(table, name):
        if if_not_exists:
            return CreateBranchPlan(name)
        raise branch_exists_error(table, name)
    base = RefStore.of(table).get_tag(tag) if tag is not None else None
    snapshot = base.snapshot if base is not None else None
    if snapshot_id is not None:
        snapshot = table.snapshots.get(snapshot_id)
    if snapshot is not None:
        ManifestStore(table).data_manifests(snapshot)
    files = (*_state_files(table, name, snapshot, tag, base), *_schema_files(table, name, snapshot))
    _check_remains(table, name, files)
    return CreateBranchPlan(name, files, snapshot)


def _check_remains(table: Table, name: str, files: tuple[NewFile, ...]) -> None:
    """Raise if the directory of a missing branch contains files that are not of the new branch."""
    wanted, found = {f.path for f in files}, table.file_io.list_recursive(table.paths.branch_dir(name))
    left = [s.path for s in found if s.path not in wanted and not is_temporary(s.name)]
    if left:
        raise AlreadyExistsError(
            f"The branch '{name}' of table {table.identifier.base.full_name} is incomplete: it has no schema, but the "
            f"file {left[0]}.",
            hint=f"Delete it first: CALL sys.delete_branch('{table.identifier.base.full_name}', '{name}').",
            kind=ErrorKind.BRANCH_EXISTS,
        )


def _state_files(
    table: Table, name: str, snapshot: Snapshot | None, tag: str | None, content: Tag | None
) -> Iterable[NewFile]:
    paths = replace(table, branch=name).paths
    if tag is not None and content is not None:
        yield NewFile(paths.tag(tag), content.to_json().encode(), f"tag '{tag}' of branch '{name}'")
    if snapshot is not None:
        reason = f"branch '{name}' starts at snapshot {snapshot.id}"
        yield NewFile(paths.snapshot(snapshot.id), snapshot.to_json().encode(), reason)


def _schema_files(table: Table, name: str, snapshot: Snapshot | None) -> Iterable[NewFile]:
    """Yield the schemas that the branch needs, the latest first: the branch exists once it has that one."""
    paths, ids = replace(table, branch=name).paths, table.schema_store.ids()
    for schema_id in reversed([i for i in ids if snapshot is None or i <= snapshot.schema_id]):
        data = read_needed(table.file_io, table.paths.schema(schema_id), "schema file")
        yield NewFile(paths.schema(schema_id), data, f"schema {schema_id} of branch '{name}'")


@uninterrupted()
@translate_io_errors()
def execute_create_branch(table: Table, plan: CreateBranchPlan) -> bool:
    """Write the files of a branch; return False if there was nothing to do.

    Raises:
        AlreadyExistsError: the branch was created since planning.
        NotFoundError: its tag or snapshot is gone since planning; no branch was created.
    """
    if not plan.files:
        return False
    if branch_exists(table, plan.name):
        raise branch_exists_error(table, plan.name)
    own: list[str] = []
    try:
        for file in plan.files:
            there = table.file_io.exists(file.path)
            if not create_once(table.file_io, file.path, file.data):
                raise branch_exists_error(table, plan.name)
            own += [] if there else [file.path]
        _check_start(table, plan)
    except (PaimonError, OSError):
        delete_best_effort(table.file_io, reversed(own))
        raise
    return True


def _check_start(table: Table, plan: CreateBranchPlan) -> None:
    """Raise unless the start of a new branch still exists after the branch was written.

    Whatever removes a snapshot or tag reads the references that protect its files afterwards. It therefore either sees
    the branch, or is detected here.
    """
    if plan.snapshot is None:
        return
    refs, wanted = RefStore.of(table), plan.snapshot.id
    tagged = any(t.snapshot.id == wanted for t in refs.tags().values())
    if not tagged and not table.snapshots.exists(wanted):
        raise NotFoundError(
            f"Snapshot {wanted} of table {table.name} expired while branch '{plan.name}' was created.",
            hint="The branch was not created. Start from a newer snapshot.",
            kind=ErrorKind.SNAPSHOT_NOT_FOUND,
        )


@translate_io_errors()
def plan_delete_branches(table: Table, names: str) -> DeleteBranchesPlan:
    """Plan the deletion of branches, given as comma-separated text; nothing is changed.

    Raises:
        ArgumentError: no name is given, or one is the main branch.
        NotFoundError: there is no such branch.
        UsageError: an option of the table names the branch.
        AccessDeniedError: the user may not change the branch.
    """
    asked = list(dict.fromkeys(n.strip() for n in names.split(",") if n.strip()))
    if not asked:
        raise ArgumentError("No branch name is given.", hint="Give one name, or several separated by commas.")
    there = {branch_name(d) for d in branches(table)}
    for name in asked:
        _check_not_main(name, "deleted")
        require_branches(table, name)
        if name not in there and not branch_exists(table, name):
            raise no_such_branch(table, name)
        _check_unused(table, name, "deleted")
    return DeleteBranchesPlan(tuple(asked), tuple(a for name in asked for a in _branch_files(table, name)))


def _branch_files(table: Table, name: str) -> list[Action]:
    files = table.file_io.list_recursive(table.paths.branch_dir(name))
    return [Action(DELETE, s.path, s.size, f"branch '{name}' is deleted") for s in files]


@uninterrupted()
@translate_io_errors()
def execute_delete_branches(table: Table, plan: DeleteBranchesPlan, trash: TrashRun | None = None) -> Deleted:
    """Delete the metadata of branches, schemas first: without them a branch does not exist.

    The trash takes the files, if there is one, also those written to the branch since planning.
    """
    deleter, deleted = SafeDeleter(table, trash), Deleted()
    for name in plan.names:
        directory = table.paths.branch_dir(name)
        schemas = f"{directory}/schema/"
        own = [a for a in plan.actions if a.path.startswith(f"{directory}/")]
        deleted += deleter.delete([a for a in own if a.path.startswith(schemas)])
        deleted += deleter.delete([a for a in own if not a.path.startswith(schemas)])
        if trash is not None:
            deleted += deleter.delete(_branch_files(table, name))
        table.file_io.delete_dir(directory)
    return deleted


@translate_io_errors()
def plan_rename_branch(table: Table, name: str, new_name: str) -> RenameBranchPlan:
    """Plan the renaming of a branch; nothing is changed.

    Raises:
        ArgumentError: a name is invalid.
        NotFoundError: there is no such branch.
        AlreadyExistsError: a branch of the new name exists.
        UsageError: an option of the table names the branch.
        AccessDeniedError: the user may not change one of the branches.
    """
    name, new_name = name.strip(), check_branch_name(new_name)
    _check_not_main(name, "renamed")
    require_branches(table, name, new_name)
    if not branch_exists(table, name):
        raise no_such_branch(table, name)
    if branch_exists(table, new_name):
        raise branch_exists_error(table, new_name)
    _check_unused(table, name, "renamed")
    paths = table.paths
    actions = (
        Action(WRITE, paths.branch_dir(new_name), 0, f"new name of branch '{name}'"),
        Action(DELETE, paths.branch_dir(name), 0, f"it is called '{new_name}' now"),
    )
    return RenameBranchPlan(name, new_name, actions)


@uninterrupted()
@translate_io_errors()
def execute_rename_branch(table: Table, plan: RenameBranchPlan) -> None:
    """Rename the directory of a branch.

    Raises:
        AlreadyExistsError: a branch of the new name was created since planning.
    """
    old, new = table.paths.branch_dir(plan.name), table.paths.branch_dir(plan.new_name)
    if not branch_exists(table, plan.new_name):
        table.file_io.delete_dir(new)
    if not table.file_io.rename(old, new):
        raise branch_exists_error(table, plan.new_name)


def _check_not_main(name: str, verb: str) -> None:
    if name == MAIN_BRANCH:
        raise ArgumentError(
            f"The branch '{MAIN_BRANCH}' cannot be {verb}: it is the table itself.", hint="Name another branch."
        )


def _check_unused(table: Table, name: str, verb: str) -> None:
    """Raise if an option of the main branch names the branch."""
    main: SchemaStore = branch_schemas(table, MAIN_BRANCH)
    schema = main.latest()
    options = {} if schema is None else schema.options
    for key in BRANCH_OPTIONS:
        if options.get(key, "").strip() == name:
            raise UsageError(
                f"The branch '{name}' cannot be {verb}: the table option '{key}' names it, and reads need it.",
                hint=f"Remove the option first: ALTER TABLE … UNSET TBLPROPERTIES ('{key}').",
            )
