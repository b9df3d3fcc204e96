"""What happened to a table: its snapshots, long-lived changelogs, tags and branches in one timeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import ProtectingRef, RefKind, branch_name, branches, readable_refs, ref_path
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.kinds import FileKind
from paimon_spark.spec.snapshot import Snapshot

BRANCH = "branch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What a commit added and removed; rows are those in files. A file that changes its level is both."""

    files_added: int = 0
    files_removed: int = 0
    rows_added: int = 0
    rows_removed: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event: `what` is snapshot, changelog, tag or branch; `changed` is None if the manifests have expired."""

    millis: int
    branch: str
    what: str
    name: str
    snapshot: Snapshot | None = None
    changed: Changed | None = None


@translate_io_errors()
def history(table: Table) -> list[Event]:
    """Return the events of a table and all its branches, the oldest first."""
    refs, _ = readable_refs(table)
    store = ManifestStore(table)
    events = [_event(table, store, ref) for ref in refs]
    events += (
        Event(millis=_created(table, directory.path), branch=branch_name(directory), what=BRANCH, name="")
        for directory in branches(table)
    )
    return sorted(events, key=lambda e: (e.millis, e.snapshot.id if e.snapshot else 0, e.what, e.branch, e.name))


def _created(table: Table, directory: str) -> int:
    """Return when a branch was created: the time of its oldest schema."""
    return min((s.mtime_ms for s in table.file_io.list(f"{directory}/schema")), default=0)


def _event(table: Table, store: ManifestStore, ref: ProtectingRef) -> Event:
    snapshot = ref.snapshot
    if ref.kind is RefKind.TAG:
        millis = table.file_io.status(ref_path(table, ref)).mtime_ms
        return Event(millis=millis, branch=ref.branch, what=str(ref.kind), name=ref.name, snapshot=snapshot)
    return Event(
        millis=snapshot.time_millis,
        branch=ref.branch,
        what=str(ref.kind),
        name=ref.name,
        snapshot=snapshot,
        changed=changes_of(store, snapshot),
    )


def changes_of(store: ManifestStore, snapshot: Snapshot) -> Changed | None:
    """Return what a commit changed; None if its manifests cannot be read."""
    sums = np.zeros((2, 3), np.int64)
    try:
        metas = store.read_list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
        for meta in metas:
            columns = store.open(meta).entry_columns()
            for kind in FileKind:
                chosen = columns.kind == kind
                sums[kind] += (chosen.sum(), columns.rows[chosen].sum(), columns.size[chosen].sum())
    except CorruptTableError:
        return None
    (added, rows, size), (removed, rows_gone, size_gone) = sums.tolist()
    return Changed(
        files_added=added,
        files_removed=removed,
        rows_added=rows,
        rows_removed=rows_gone,
        bytes_added=size,
        bytes_removed=size_gone,
    )


def properties_text(properties: Mapping[str, str] | None) -> str | None:
    """Return the properties of a snapshot as ``a=b, c=d``."""
    return ", ".join(f"{k}={v}" for k, v in sorted(properties.items())) if properties else None
