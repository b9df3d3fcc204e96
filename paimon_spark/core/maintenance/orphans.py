"""Directories that may hold orphan files, and the listing of old files in them.

Only directories of the table format are listed: manifests, index files, statistics, buckets at their depth below the
data root, and unknown files beside snapshots. All other files in the table directory are left alone. Symbolic links
are not followed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from paimon_spark.core.cancellation import checkpoint
from paimon_spark.core.metadata.branches import branch_exists, incomplete_branch
from paimon_spark.core.metadata.refs import branch_name, branches
from paimon_spark.core.table import Table
from paimon_spark.fs.base import FileIO, FileStatus
from paimon_spark.spec.paths import BUCKET_PREFIX, MAIN_BRANCH, TablePaths

_HINTS = ("LATEST", "EARLIEST")
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tmp")
_MANAGED_BLOB = ".managed.blob"
_WAITS = (0.1, 0.4, 1.5)
"""Seconds to wait for a branch that is being created or deleted, before each further look."""


class Rule(StrEnum):
    """Which files of a directory are orphan candidates."""

    ALL = "all"
    """All files; each may be referenced."""
    STRAYS = "strays"
    """Files other than hints and ``prefix…``; never referenced."""
    TEMPORARY = "temporary"
    """Temporary files of interrupted writers; never referenced."""
    PARTITIONS = "partitions"
    """No files; the `k=v` directories below it are listed and, at depth 0, the bucket directories."""


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory to list. `depth` is the number of partition levels below it."""

    path: str
    rule: Rule
    prefix: str = ""
    depth: int = 0
    removable: bool = False
    """The directory itself is removed once it is empty."""

    def to_plain(self) -> list[str | int]:
        """Return the directory as plain JSON values."""
        return [self.path, str(self.rule), self.prefix, self.depth, int(self.removable)]

    @classmethod
    def from_plain(cls, raw: list[str | int]) -> Directory:
        """Rebuild a directory from the output of `to_plain`."""
        path, rule, prefix, depth, removable = raw
        return cls(str(path), Rule(str(rule)), str(prefix), int(depth), bool(removable))


@dataclass(frozen=True, slots=True)
class Candidate:
    """An old file; `needed` means that it may be referenced, so the manifests must be checked."""

    path: str
    size: int
    needed: bool


@dataclass(slots=True)
class Listing:
    """Old files, and the number of entries of each old directory that may be removed."""

    files: list[Candidate] = field(default_factory=list)
    directories: dict[str, int] = field(default_factory=dict)

    def add(self, other: Listing) -> None:
        """Add the contents of another listing."""
        self.files += other.files
        self.directories |= other.directories


def directories(table: Table, *, with_branches: bool = True) -> list[Directory]:
    """Return the directories of a table, and of all its branches, that may hold orphan files.

    Raises:
        CorruptTableError: a branch has no schema, so its files are unknown.
    """
    paths = replace(table, branch=MAIN_BRANCH).paths
    found = [Directory(d, Rule.ALL) for d in (paths.manifest_dir, paths.index_dir, paths.statistics_dir)]
    found.append(Directory(paths.data_root, Rule.PARTITIONS, depth=len(table.schema.partition_keys)))
    for branch in (MAIN_BRANCH, *(_complete_branches(table) if with_branches else ())):
        found += _metadata_directories(replace(table, branch=branch).paths)
    return found


def _complete_branches(table: Table) -> list[str]:
    """Return the branches of a table, all of which have a schema."""
    for wait in (*_WAITS, None):
        names = [branch_name(d) for d in branches(table)]
        incomplete = [n for n in names if not branch_exists(table, n)]
        if not incomplete:
            return names
        if wait is not None:
            time.sleep(wait)
    raise incomplete_branch(table.identifier.base, incomplete[0])


def is_temporary(name: str) -> bool:
    """Return whether a file is what an interrupted write has left."""
    return _TEMPORARY.fullmatch(name) is not None


def _metadata_directories(paths: TablePaths) -> Iterator[Directory]:
    yield Directory(paths.snapshot_dir, Rule.STRAYS, "snapshot-")
    yield Directory(paths.changelog_dir, Rule.STRAYS, "changelog-")
    for directory in (paths.schema_dir, paths.tag_dir, paths.tag_success_dir, paths.consumer_dir):
        yield Directory(directory, Rule.TEMPORARY)


def spread(file_io: FileIO, found: list[Directory], wanted: int, older_than: int) -> tuple[list[Directory], Listing]:
    """Expand partition directories until there are about `wanted`; return the directories and the listing so far."""
    listing = Listing()
    while len(found) < wanted and any(p.rule is Rule.PARTITIONS for p in found):
        below: list[Directory] = []
        for directory in found:
            below += (
                _look(file_io, directory, older_than, listing) if directory.rule is Rule.PARTITIONS else [directory]
            )
        found = below
    return found, listing


def list_old(file_io: FileIO, found: Iterable[Directory], older_than: int) -> Listing:
    """List directories and everything below them.

    Args:
        file_io: the store.
        found: directories to list.
        older_than: epoch milliseconds; files and directories modified at this time or later are left out.
    """
    listing, left = Listing(), list(found)
    while left:
        directory = left.pop()
        left += _look(file_io, directory, older_than, listing)
    return listing


def _look(file_io: FileIO, directory: Directory, older_than: int, listing: Listing) -> list[Directory]:
    """Add the content of one directory to the listing; return the directories below it."""
    checkpoint()
    entries = file_io.list(directory.path)
    if directory.removable:
        listing.directories[directory.path] = len(entries)
    if directory.rule is Rule.PARTITIONS:
        return _below(directory, entries, older_than)
    needed = directory.rule is Rule.ALL
    old = (e for e in entries if not e.is_dir and not e.is_link and e.mtime_ms < older_than)
    listing.files += [Candidate(e.path, e.size, needed) for e in old if _is_candidate(directory, e.name)]
    return []


def _below(directory: Directory, entries: list[FileStatus], older_than: int) -> list[Directory]:
    directories = [e for e in entries if e.is_dir and not e.is_link]
    if directory.depth:
        return [
            Directory(e.path, Rule.PARTITIONS, depth=directory.depth - 1, removable=e.mtime_ms < older_than)
            for e in directories
            if "=" in e.name
        ]
    buckets = [e for e in directories if e.name.startswith(BUCKET_PREFIX)]
    return [Directory(e.path, Rule.ALL, removable=e.mtime_ms < older_than) for e in buckets]


def _is_candidate(directory: Directory, name: str) -> bool:
    if directory.rule is Rule.TEMPORARY:
        return is_temporary(name)
    if directory.rule is Rule.STRAYS:
        return not name.startswith(directory.prefix) and name not in _HINTS
    return not name.endswith(_MANAGED_BLOB)


def emptied(listing: Listing, going: Iterable[str]) -> list[str]:
    """Return the directories that are empty once the files in `going` are deleted, deepest first."""
    left = dict(listing.directories)
    for path in going:
        parent = path.rpartition("/")[0]
        if parent in left:
            left[parent] -= 1
    found: list[str] = []
    for directory in sorted(left, key=lambda d: d.count("/"), reverse=True):
        if left[directory] == 0:
            found.append(directory)
            parent = directory.rpartition("/")[0]
            if parent in left:
                left[parent] -= 1
    return found
