"""References of a table: tags, branches, consumers, long-lived changelogs, and all references that protect files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from paimon_spark.core.metadata_io import THREADS, create_once, in_parallel, read_if_there
from paimon_spark.core.snapshots import SnapshotStore
from paimon_spark.core.table import Table
from paimon_spark.errors import (
    AlreadyExistsError,
    ArgumentError,
    CorruptTableError,
    ErrorKind,
    NotFoundError,
    did_you_mean,
)
from paimon_spark.fs.base import FileIO, FileStatus
from paimon_spark.spec.identifier import MAX_NAME_BYTES, SYSTEM_SEPARATOR, check_new_name, is_one_name, shown
from paimon_spark.spec.paths import MAIN_BRANCH, TablePaths
from paimon_spark.spec.refs import Consumer, Tag, parse_consumer, parse_tag
from paimon_spark.spec.snapshot import TAG, Snapshot, parse_snapshot

_TAG = "tag-"
BRANCH_PREFIX = "branch-"
CONSUMER_PREFIX = "consumer-"
_CHANGELOG = "changelog-"
_LISTINGS = 20
"""How often references are listed again if one vanishes while it is read."""

RefKey = tuple[str, str, str]
"""(kind, branch, name)."""


class RefKind(StrEnum):
    """Kinds of references that protect files."""

    SNAPSHOT = "snapshot"
    TAG = "tag"
    CHANGELOG = "changelog"


@dataclass(frozen=True, slots=True)
class ProtectingRef:
    """A snapshot, tag or long-lived changelog whose files must not be deleted."""

    kind: RefKind
    branch: str
    name: str
    snapshot: Snapshot

    @property
    def key(self) -> RefKey:
        """Return the identity of the reference."""
        return (str(self.kind), self.branch, self.name)

    @property
    def label(self) -> str:
        """Return the reference for messages: ``snapshot 4``, ``tag 'keep'``, ``snapshot 2 of branch 'dev'``."""
        name = f"'{self.name}'" if self.kind is RefKind.TAG else self.name
        where = "" if self.branch == MAIN_BRANCH else f" of branch '{self.branch}'"
        return f"{self.kind} {name}{where}"


@dataclass(frozen=True, slots=True)
class RefStore:
    """The tags, consumers and long-lived changelogs of one branch. Nothing is cached."""

    file_io: FileIO
    paths: TablePaths

    @classmethod
    def of(cls, table: Table) -> RefStore:
        """Return the references of the table's branch."""
        return cls(table.file_io, table.paths)

    # ---- tags

    def tag_names(self) -> list[str]:
        """Return the names of all tags, sorted."""
        return _names(self.file_io.list(self.paths.tag_dir), _TAG)

    def find_tag(self, name: str) -> Tag | None:
        """Return a tag, or None if there is no such file; an invalid file name counts as missing."""
        found = self._tag_file(name)
        return None if found is None else parse_tag(*found)

    def find_tagged_snapshot(self, name: str) -> Snapshot | None:
        """Return the snapshot of a tag, or None if there is no such tag; its retention need not be readable."""
        found = self._tag_file(name)
        return None if found is None else parse_snapshot(*found, TAG)[0]

    def _tag_file(self, name: str) -> tuple[bytes, str] | None:
        """Return the content and the path of a tag's file."""
        if not is_one_name(name):
            return None
        path = self.paths.tag(name)
        if path == self.paths.tag_success_dir and self._is_dir(path):
            return None
        data = _read(self.file_io, path)
        return None if data is None else (data, path)

    def _is_dir(self, path: str) -> bool:
        try:
            return self.file_io.status(path).is_dir
        except (FileNotFoundError, NotADirectoryError):
            return False

    def get_tag(self, name: str) -> Tag:
        """Return a tag.

        Raises:
            NotFoundError: there is no such tag.
        """
        tag = self.find_tag(name)
        if tag is None:
            raise self.no_such_tag(name)
        return tag

    def tags(self) -> dict[str, Tag]:
        """Return all tags, sorted by name; a tag deleted while the tags are read is left out."""
        found = in_parallel(self.find_tag, names := self.tag_names())
        return {name: tag for name, tag in zip(names, found, strict=True) if tag is not None}

    def tag_of(self, snapshot_id: int) -> tuple[str, Snapshot] | None:
        """Return the first tag of an id and its snapshot, or None if there is none.

        Raises:
            ArgumentError: tags hold different snapshots of that id, as after a fast-forward.
        """
        found = [(name, tag.snapshot) for name, tag in self.tags().items() if tag.snapshot.id == snapshot_id]
        for name, snapshot in found[1:]:
            if not snapshot.is_commit_of(found[0][1]):
                raise ArgumentError(
                    f"The tags '{found[0][0]}' and '{name}' hold different snapshots, both with the id {snapshot_id}.",
                    hint="Give the name of a tag.",
                )
        return found[0] if found else None

    def create_tag(self, name: str, tag: Tag) -> None:
        """Create a tag.

        Raises:
            AlreadyExistsError: a tag of that name exists.
        """
        if not create_once(self.file_io, self.paths.tag(name), tag.to_json().encode()):
            raise self.tag_exists(name)

    def replace_tag(self, name: str, tag: Tag) -> None:
        """Overwrite a tag."""
        self.file_io.write(self.paths.tag(name), tag.to_json().encode())

    def no_such_tag(self, name: str) -> NotFoundError:
        """Return the error for a missing tag."""
        known = self.tag_names()
        listed = f"the tags are {', '.join(known)}" if known else "the table has no tags"
        return NotFoundError(
            f"Tag {_quoted(name)} does not exist; {listed}.",
            hint=did_you_mean(name, known),
            kind=ErrorKind.TAG_NOT_FOUND,
        )

    def tag_exists(self, name: str) -> AlreadyExistsError:
        """Return the error for an existing tag."""
        return AlreadyExistsError(
            f"Tag '{name}' already exists.",
            hint="Pick another name, or delete the tag first.",
            kind=ErrorKind.TAG_EXISTS,
        )

    # ---- long-lived changelogs

    def changelog_ids(self) -> list[int]:
        """Return the ids of all long-lived changelogs, sorted."""
        ends = _names(self.file_io.list(self.paths.changelog_dir), _CHANGELOG)
        return sorted(int(e) for e in ends if e.isascii() and e.isdigit())

    def find_changelog(self, snapshot_id: int) -> Snapshot | None:
        """Return a long-lived changelog, or None if it does not exist."""
        path = self.paths.changelog(snapshot_id)
        data = _read(self.file_io, path)
        return None if data is None else parse_snapshot(data, path)[0]

    # ---- consumers

    def consumers(self) -> dict[str, int]:
        """Return the next snapshot of each consumer, by name.

        Raises:
            CorruptTableError: a consumer file is malformed; ignoring its progress could expire unread snapshots.
        """
        return {name: found.next_snapshot for name, found in self._consumers()}

    def needed_snapshots(self) -> dict[str, int]:
        """Return the first snapshot that each consumer needs, by name; no later one must expire either.

        Raises:
            CorruptTableError: as in `consumers`.
        """
        return {name: found.first_needed for name, found in self._consumers()}

    def _consumers(self) -> Iterator[tuple[str, Consumer]]:
        for name in self.consumer_names():
            found = self.find_consumer(name)
            if found is not None:
                yield name, found

    def find_consumer(self, name: str) -> Consumer | None:
        """Return the progress of a consumer, or None if it does not exist."""
        path = self.paths.consumer(name)
        data = _read(self.file_io, path)
        return None if data is None else parse_consumer(data, path)

    def consumer_names(self) -> list[str]:
        """Return the names of all consumers, sorted."""
        return _names(self.file_io.list(self.paths.consumer_dir), CONSUMER_PREFIX)

    def write_consumer(self, name: str, progress: Consumer) -> None:
        """Write the progress of a consumer, replacing the previous one."""
        self.file_io.write(self.paths.consumer(name), progress.to_json().encode())

    def delete_consumer(self, name: str) -> bool:
        """Delete a consumer; return False if it does not exist."""
        return self.file_io.delete(self.paths.consumer(name))

    def consumer_files(self) -> list[FileStatus]:
        """Return the files of all consumers."""
        files = self.file_io.list(self.paths.consumer_dir)
        return [s for s in files if not s.is_dir and s.name.startswith(CONSUMER_PREFIX)]


def check_tag_name(name: str) -> str:
    """Return the name of a new tag, stripped of surrounding blanks.

    Raises:
        ArgumentError: the name is not a valid tag name.
    """
    text = name.strip()
    if not text:
        raise ArgumentError("A tag needs a name, but the name is blank.", hint="Give a name such as 'before_upgrade'.")
    bad = next((c for c in text if c in "/\\," or ord(c) < ord(" ")), None)
    if bad is not None:
        raise ArgumentError(
            f"{shown(text)} cannot be the name of a tag: it contains {bad!r}.",
            hint="Slashes and commas are not allowed: tags are files, and lists of tags are separated by commas.",
        )
    check_new_name(text.replace(SYSTEM_SEPARATOR, "_"), "tag")
    return text


def tag_files(table: Table, name: str) -> tuple[str, ...]:
    """Return the file of a tag and, if the table has success files of tags, its success file."""
    success = (table.paths.tag_success(name),) if table.options.creates_tag_success_files else ()
    return (table.paths.tag(name), *success)


def branches(table: Table) -> list[FileStatus]:
    """Return the directories of all branches except main."""
    found = table.file_io.list(table.paths.branches_dir)
    return [s for s in found if s.is_dir and s.name.startswith(BRANCH_PREFIX)]


def branch_name(directory: FileStatus) -> str:
    """Return the branch name of a directory listed by `branches`."""
    return directory.name.removeprefix(BRANCH_PREFIX)


def protecting_refs(table: Table, *, threads: int = THREADS) -> list[ProtectingRef]:
    """Return every snapshot, tag and long-lived changelog of the table and all its branches.

    Snapshots of the table's own branch come first, then tags, then the rest. If one vanishes after it was listed, its
    files may have become protected by another reference, so all references are listed and read again: after a rollback,
    the next commit reuses an id.

    Args:
        table: the table.
        threads: number of files that are read concurrently.

    Raises:
        CorruptTableError: a reference cannot be read.
    """
    for _ in range(_LISTINGS):
        listed = _listed(table)
        found = [h for h in in_parallel(lambda key: _ref(table, key), listed, threads) if h is not None]
        if len(found) == len(listed):
            return sorted(found, key=lambda h: _order(h, table.branch))
    raise CorruptTableError(
        f"The snapshots and tags of table {table.name} keep changing while they are being read.",
        hint="Wait until other jobs that expire snapshots or delete tags are done, then try again.",
    )


def readable_refs(table: Table) -> tuple[list[ProtectingRef], list[CorruptTableError]]:
    """Return the references of the table and all its branches that can be read, and why the others cannot."""
    found: list[ProtectingRef] = []
    errors: list[CorruptTableError] = []

    def look(key: RefKey) -> ProtectingRef | CorruptTableError | None:
        try:
            return _ref(table, key)
        except CorruptTableError as e:
            return e

    for ref in in_parallel(look, _listed(table)):
        if isinstance(ref, CorruptTableError):
            errors.append(ref)
        elif ref is not None:
            found.append(ref)
    return sorted(found, key=lambda h: _order(h, table.branch)), errors


def ref_path(table: Table, holder: ProtectingRef) -> str:
    """Return the metadata file of a snapshot, tag or long-lived changelog."""
    paths = replace(table, branch=holder.branch).paths
    if holder.kind is RefKind.TAG:
        return paths.tag(holder.name)
    file_of = paths.snapshot if holder.kind is RefKind.SNAPSHOT else paths.changelog
    return file_of(int(holder.name))


def _listed(table: Table) -> list[RefKey]:
    """Return the keys of all references that exist now."""
    found: list[RefKey] = []
    for branch in (MAIN_BRANCH, *map(branch_name, branches(table))):
        place = replace(table, branch=branch)
        refs, store = RefStore.of(place), SnapshotStore(place.file_io, place.paths)
        found += [(RefKind.SNAPSHOT, branch, str(i)) for i in store.listed_ids()]
        found += [(RefKind.TAG, branch, name) for name in refs.tag_names()]
        found += [(RefKind.CHANGELOG, branch, str(i)) for i in refs.changelog_ids()]
    return found


def _ref(table: Table, key: RefKey) -> ProtectingRef | None:
    """Return a reference, or None if it has vanished since it was listed."""
    kind, branch, name = key
    place = replace(table, branch=branch)
    refs = RefStore.of(place)
    snapshot: Snapshot | None
    if kind == RefKind.TAG:
        tag = refs.find_tag(name)
        snapshot = tag.snapshot if tag else None
    elif kind == RefKind.SNAPSHOT:
        snapshot = SnapshotStore(place.file_io, place.paths).find(int(name))
    else:
        snapshot = refs.find_changelog(int(name))
    return None if snapshot is None else ProtectingRef(RefKind(kind), branch, name, snapshot)


def _order(holder: ProtectingRef, branch: str) -> tuple[int, int, str]:
    own = holder.kind is RefKind.SNAPSHOT and holder.branch == branch
    rank = 0 if own else 1 if holder.kind is RefKind.TAG else 2
    return (rank, holder.snapshot.id, holder.branch)


def _names(files: Iterable[FileStatus], prefix: str) -> list[str]:
    return sorted(s.name.removeprefix(prefix) for s in files if not s.is_dir and s.name.startswith(prefix))


def _quoted(name: str) -> str:
    return f"'{name}'" if is_one_name(name) and len(name) <= MAX_NAME_BYTES else shown(name)


def _read(file_io: FileIO, path: str) -> bytes | None:
    return read_if_there(file_io, path)
