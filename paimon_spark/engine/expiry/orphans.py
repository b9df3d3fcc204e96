"""Orphan file removal: deletes old files of a table that no snapshot, tag or changelog of any branch references.

Directories are listed by tasks in parallel. Old files are then checked against all protecting references; unreferenced
files are the plan. References are checked again right before the deletion, because a commit may have published an old
file meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from paimon_spark.core.maintenance.deletion import DELETE, WARN, Action, Deleted, SafeDeleter
from paimon_spark.core.maintenance.orphans import Directory, Listing, directories, emptied, spread
from paimon_spark.core.maintenance.trash import TrashRun
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.engine.listing_tasks import DIRECTORIES_A_TASK, list_directories
from paimon_spark.engine.runner import TaskRunner
from paimon_spark.errors import ArgumentError, UnsupportedError
from paimon_spark.spec.paths import MAIN_BRANCH

DAY_MILLIS = 24 * 60 * 60 * 1000
_ELSEWHERE = ("data-file.external-paths", "global-index.external-path")


@dataclass(frozen=True, slots=True)
class TableOrphans:
    """Orphans of one table: `checked` files were checked against the manifests, `strays` can never be referenced."""

    table: Table
    checked: tuple[Action, ...] = ()
    strays: tuple[Action, ...] = ()
    directories: tuple[Action, ...] = ()
    warnings: tuple[Action, ...] = ()

    @property
    def files(self) -> list[Action]:
        """Return the files to delete."""
        return [*self.checked, *self.strays]


@dataclass(frozen=True, slots=True)
class OrphanPlan:
    """The orphans of each table."""

    tables: tuple[TableOrphans, ...] = ()

    @property
    def files(self) -> list[Action]:
        """Return the files to delete."""
        return [a for t in self.tables for a in t.files]

    @property
    def actions(self) -> list[Action]:
        """Return all actions."""
        return [a for t in self.tables for a in (*t.warnings, *t.files, *t.directories)]


@dataclass(frozen=True, slots=True)
class OrphanResult:
    """The number and size of deleted files. Directories do not count."""

    files: int = 0
    bytes: int = 0


@translate_io_errors()
def plan_orphans(
    tables: Sequence[Table],
    runner: TaskRunner,
    *,
    clock_millis: int,
    older_than: int | None = None,
    parallelism: int | None = None,
) -> OrphanPlan:
    """Find the orphans of tables in one store; nothing is changed.

    Args:
        tables: the tables; all their branches are included.
        runner: runs the listing tasks.
        clock_millis: current time.
        older_than: epoch milliseconds; a day ago by default. A writer that finished a file before that time and has not
            committed it yet would lose the file.
        parallelism: number of listing tasks; by default, as the number of directories needs.

    Raises:
        ArgumentError: `older_than` is not in the past, or `parallelism` is not positive.
        UnsupportedError: a table does not store its data in Paimon files.
        CorruptTableError: the referenced files of a table cannot be determined, so nothing of it may be deleted.
    """
    bound = clock_millis - DAY_MILLIS if older_than is None else older_than
    if bound >= clock_millis:
        raise ArgumentError(
            "older_than is not in the past.",
            hint="Files that are being written now would be deleted. Give a time that every running writer started "
            "after.",
        )
    if parallelism is not None and parallelism < 1:
        raise ArgumentError(f"parallelism is {parallelism}.", hint="Give 1 or more.")
    mains = [_main(t) for t in tables]
    found = _list(mains, runner, bound, parallelism)
    return OrphanPlan(tuple(_judge(t, found[n]) for n, t in enumerate(mains)))


def list_files(table: Table, runner: TaskRunner, older_than: int) -> Listing:
    """Return the files of a table, except references and the metadata of branches, and directories that may go.

    Raises:
        UnsupportedError: the table does not store its data in Paimon files.
    """
    return _list([_main(table)], runner, older_than, None, with_branches=False)[0]


def _main(table: Table) -> Table:
    if not table.is_file_store:
        raise UnsupportedError(
            f"{table.name} is not a table of Paimon's files: its 'type' is '{table.options.word('type')}'.",
            hint="Its files belong to the program that wrote them.",
        )
    return replace(table, branch=MAIN_BRANCH)


def _list(
    tables: Sequence[Table], runner: TaskRunner, bound: int, parallelism: int | None, *, with_branches: bool = True
) -> list[Listing]:
    listed = [Listing() for _ in tables]
    stores: dict[str, list[tuple[int, Directory]]] = {}
    for number, table in enumerate(tables):
        start = directories(table, with_branches=with_branches)
        found, seen = spread(table.file_io, start, parallelism or DIRECTORIES_A_TASK, bound)
        listed[number].add(seen)
        stores.setdefault(json.dumps(dict(table.file_io.to_config())), []).extend((number, p) for p in found)
    names = tables[0].name if len(tables) == 1 else f"{len(tables)} tables"
    for work in stores.values():
        file_io = tables[work[0][0]].file_io
        lists = list_directories(file_io, work, runner, older_than=bound, parallelism=parallelism, of=names)
        for number, listing in lists:
            listed[number].add(listing)
    return listed


def _judge(table: Table, listing: Listing) -> TableOrphans:
    listing.files.sort(key=lambda c: c.path)
    old = [Action(DELETE, c.path, c.size, "nothing refers to it") for c in listing.files if c.needed]
    strays = [Action(DELETE, c.path, c.size, "a writer left it behind") for c in listing.files if not c.needed]
    listing.files.clear()  # the actions have all of it, and there may be millions
    checked = SafeDeleter(table).unreachable(old)
    directories = emptied(listing, (a.path for a in (*checked, *strays)))
    return TableOrphans(
        table,
        tuple(checked),
        tuple(strays),
        tuple(Action(DELETE, d, 0, "nothing is left in it") for d in directories),
        _warnings(table),
    )


def _warnings(table: Table) -> tuple[Action, ...]:
    given = [(key, value) for key in _ELSEWHERE if (value := (table.options.get(key) or "").strip())]
    return tuple(Action(WARN, value, 0, f"'{key}' is not looked at") for key, value in given)


def no_trash(table: Table) -> TrashRun | None:
    """Return None: the files are deleted for good."""
    del table
    return None


@translate_io_errors()
def execute_orphans(plan: OrphanPlan, trash_of: Callable[[Table], TrashRun | None] = no_trash) -> OrphanResult:
    """Delete the planned files, except those that have become referenced.

    Args:
        plan: the plan.
        trash_of: returns the run of the trash that takes the files of a table.
    """
    total = Deleted()
    for work in plan.tables:
        deleter = SafeDeleter(work.table, trash_of(work.table))
        deleted = deleter.delete(deleter.unreachable(work.checked)) + deleter.delete(work.strays)
        for directory in work.directories:
            work.table.file_io.delete_empty_dir(directory.path)
        total += deleted
    return OrphanResult(total.files, total.bytes)
