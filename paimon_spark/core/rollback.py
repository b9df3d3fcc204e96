"""Where a rollback goes to, and what stands above that place."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.core.manifests import ManifestStore
from paimon_spark.core.refs import RefStore
from paimon_spark.core.table import Table
from paimon_spark.errors import ErrorKind, NotFoundError
from paimon_spark.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Target:
    """The snapshot to go back to. `expired` means that only a tag still has it; `tag` is that tag's name."""

    snapshot: Snapshot
    tag: str | None = None
    expired: bool = False


@dataclass(frozen=True, slots=True)
class Above:
    """What a rollback removes: all in the order of removal."""

    snapshots: tuple[int, ...] = ()
    changelogs: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()


def find_target(table: Table, *, snapshot_id: int | None = None, tag: str | None = None) -> Target:
    """Return the target of a rollback; a tag wins over an id. An id that has expired is looked up among the tags.

    Raises:
        NotFoundError: there is no such snapshot or tag, or the table has no snapshot at all.
        CorruptTableError: the target's manifests cannot be read, so going back to it would lose the table.
    """
    target = _tagged(table, tag) if tag is not None else _numbered(table, snapshot_id)
    ManifestStore(table).data_manifests(target.snapshot)
    return target


def above(table: Table, snapshot_id: int) -> Above:
    """Return what is newer than a snapshot on the table's branch."""
    refs = RefStore.of(table)
    tagged = sorted(((t.snapshot.id, n) for n, t in refs.tags().items() if t.snapshot.id > snapshot_id), reverse=True)
    return Above(
        snapshots=tuple(i for i in reversed(table.snapshots.ids()) if i > snapshot_id),
        changelogs=tuple(i for i in reversed(refs.changelog_ids()) if i > snapshot_id),
        tags=tuple(name for _, name in tagged),
    )


def _tagged(table: Table, name: str) -> Target:
    found = RefStore.of(table).get_tag(name).snapshot
    return Target(found, name, expired=not table.snapshots.exists(found.id))


def _numbered(table: Table, snapshot_id: int | None) -> Target:
    if snapshot_id is None:
        raise NotFoundError("No snapshot or tag is given.", hint="Give one.", kind=ErrorKind.SNAPSHOT_NOT_FOUND)
    found = table.snapshots.find(snapshot_id)
    if found is not None:
        return Target(found)
    for name, tag in RefStore.of(table).tags().items():
        if tag.snapshot.id == snapshot_id:
            return Target(tag.snapshot, name, expired=True)
    return Target(table.snapshots.get(snapshot_id))
