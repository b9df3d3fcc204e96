"""Why a file is there: which commit wrote it, what removed it, who needs it, or since when it is an orphan."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from paimon_spark.core.maintenance.reachability import Reachability, ReadManifests, file_names
from paimon_spark.core.maintenance.trash import MalformedRun, TrashPaths, TrashRecord, TrashState, all_runs, run_files
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import (
    ProtectingRef,
    RefKind,
    RefStore,
    branch_name,
    branches,
    readable_refs,
    ref_path,
)
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.engine.health.findings import call, sql_name
from paimon_spark.engine.health.history_checks import expiry_ends
from paimon_spark.engine.health.listing import listings_of
from paimon_spark.engine.health.references import ReferencedFiles
from paimon_spark.engine.runner import TaskRunner
from paimon_spark.errors import CorruptTableError
from paimon_spark.fs.base import FileStatus
from paimon_spark.spec.kinds import FileKind
from paimon_spark.spec.manifest import ManifestEntry
from paimon_spark.spec.paths import MAIN_BRANCH
from paimon_spark.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One fact about a file, the snapshot it is about, and when it happened."""

    fact: str
    reference: str | None = None
    snapshot: Snapshot | None = None
    millis: int | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class _Change:
    ref: ProtectingRef
    entry: ManifestEntry


@translate_io_errors()
def why(table: Table, file: str, runner: TaskRunner, now: int) -> list[Fact]:
    """Return what is known about a file.

    Args:
        table: the table.
        file: the name or the path of a data, index or metadata file.
        runner: runs the listing tasks.
        now: current time.
    """
    name = file.rstrip("/").rpartition("/")[2]
    refs, errors = readable_refs(table)
    own = [r for r in refs if ref_path(table, r).rpartition("/")[2] == name]
    broken = list(_broken_facts(table, name, {ref_path(table, r) for r in own}, errors))
    if own:
        there = _existence(name, table.file_io.status(ref_path(table, own[0])))
        return [*broken, there, *_own_facts(table, own, refs, now)]
    if broken:
        return broken
    definition = next(_beside(table, name, _DEFINITIONS), None)
    if definition is not None:
        return [_existence(name, definition), Fact(fact="is", detail=_DEFINITIONS[name.partition("-")[0]])]
    changes = list(_changes(table, name, refs))
    needing, unreadable = _needing(table, name, refs)
    status = _status(table, name, changes, runner)
    trashed = _trashed(table, name) if status is None else []
    facts = trashed or [_existence(name, status)]
    facts += (_change_fact(table, c) for c in changes)
    facts += (_need_fact(table, r, refs, now) for r in needing)
    doubts = [*(e.message for e in errors), *unreadable]
    facts += (Fact(fact="unreadable", detail=message) for message in dict.fromkeys(doubts))
    if needing or status is None or doubts:
        return facts
    removed = [c.ref.snapshot.time_millis for c in changes if c.entry.kind is FileKind.DELETE]
    since = max(removed, default=status.mtime_ms)
    detail = (
        "it was removed, and the snapshots from before have expired; remove_orphan_files deletes it"
        if removed
        else "no snapshot, tag, branch or changelog names it; remove_orphan_files deletes it once it is older than a "
        "day, unless a running writer commits it before"
    )
    return [*facts, Fact(fact="orphan", millis=since, detail=detail)]


def _changes(table: Table, name: str, refs: Iterable[ProtectingRef]) -> Iterator[_Change]:
    """Yield the commits that added or removed a file, in order, of those whose manifests still exist."""
    store, seen = ManifestStore(table), set[str]()
    commits = [r for r in refs if r.kind is not RefKind.TAG]
    for ref in sorted(commits, key=lambda r: (r.snapshot.time_millis, r.snapshot.id, r.branch != MAIN_BRANCH)):
        s = ref.snapshot
        for manifest_list in (s.delta_manifest_list, s.changelog_manifest_list):
            if manifest_list is None or manifest_list in seen:
                continue
            seen.add(manifest_list)
            try:
                metas = store.read_list(manifest_list)
                for meta in metas:
                    manifest = store.open(meta)
                    every = np.arange(len(manifest), dtype=np.int64)
                    near = [row for row, own in manifest.names(every) if name.startswith(own)]
                    for entry in manifest.entries(np.array(near, np.int64)):
                        if name in file_names(entry):
                            yield _Change(ref, entry)
            except CorruptTableError:
                continue


def _needing(table: Table, name: str, refs: Sequence[ProtectingRef]) -> tuple[list[ProtectingRef], list[str]]:
    """Return the references that need a file, and why others cannot be read.

    Only indexes beside data files require that entries are decoded.
    """
    referenced = ReferencedFiles(table, refs, only=name)
    unreadable = [f"{u.ref.label} cannot be read: {u.error.message}" for u in referenced.unreadable]
    if len(referenced.files):
        return [ref for ref in refs if referenced.of(ref).any()], unreadable
    known, store = ReadManifests([name]), ManifestStore(table)
    found = [ref for ref in referenced.refs if name in Reachability(store, [ref], known).data_refs([name])]
    return found, unreadable


_DEFINITIONS = {
    "schema": "a schema: snapshots and data files refer to it by its number, and no cleaning deletes it",
    "consumer": "the progress of a consumer: delete it with reset_consumer",
    "LATEST": "a hint to the latest snapshot; commits write it",
    "EARLIEST": "a hint to the earliest snapshot; expiries write it",
}
"""What the files beside snapshots are, by the beginning of the name."""
_REFERENCES = frozenset(RefKind)
"""The beginnings of the names of references."""


def _beside(table: Table, name: str, beginnings: Container[str]) -> Iterator[FileStatus]:
    """Yield the metadata files of that name, that of the table's branch first."""
    if name.partition("-")[0] not in beginnings:
        return
    for branch in dict.fromkeys((table.branch, MAIN_BRANCH, *map(branch_name, branches(table)))):
        p = replace(table, branch=branch).paths
        for directory in (p.schema_dir, p.consumer_dir, p.snapshot_dir, p.tag_dir, p.changelog_dir):
            yield from (s for s in table.file_io.list(directory) if s.name == name and not s.is_dir)


def _broken_facts(
    table: Table, name: str, readable: Container[str], errors: Iterable[CorruptTableError]
) -> Iterator[Fact]:
    """Yield that snapshot, tag and changelog files exist although they cannot be read, and why they cannot."""
    reasons = [e.message for e in errors]
    for found in _beside(table, name, _REFERENCES):
        if found.path not in readable:
            yield _existence(name, found)
            yield from (Fact(fact="unreadable", detail=reason) for reason in reasons if found.path in reason)


def _trashed(table: Table, name: str) -> list[Fact]:
    """Return the runs of the trash that hold a file of that name."""
    paths, found = TrashPaths(table), list[Fact]()
    for run in all_runs(table):
        for kept in run_files(table, run.run):
            if kept.name == name and not kept.is_dir:
                where = f"{paths.original(run.run, kept.path)} ({kept.size} bytes) is in the trash"
                text = f"{where}; {_way_back(table, run)}"
                found.append(Fact(fact="in the trash", reference=f"run {run.run}", millis=kept.mtime_ms, detail=text))
    return found


def _way_back(table: Table, run: TrashRecord | MalformedRun) -> str:
    if isinstance(run, MalformedRun):
        return f"no CALL restores it: {run.error.message}"
    if run.state is TrashState.EMPTYING:
        return "the deletion of the run has begun, so it cannot be restored"
    return f"{call('undo', table=sql_name(table), run=run.run)} restores it"


def _status(table: Table, name: str, changes: Iterable[_Change], runner: TaskRunner) -> FileStatus | None:
    """Return the status of the file, which is looked for in all directories if no entry says where it is."""
    for change in changes:
        paths = table.paths.file_paths(change.entry.partition, change.entry.bucket, change.entry.file)
        for path in paths:
            if path.rpartition("/")[2] == name and table.file_io.exists(path):
                return table.file_io.status(path)
    for listing in listings_of(replace(table, branch=MAIN_BRANCH), runner):
        for found in listing.files:
            if found.path.rpartition("/")[2] == name:
                return table.file_io.status(found.path)
    return None


def _existence(name: str, status: FileStatus | None) -> Fact:
    if status is None:
        return Fact(fact="missing", detail=f"no directory of the table holds {name}")
    return Fact(fact="exists", millis=status.mtime_ms, detail=f"{status.path} ({status.size} bytes)")


def _change_fact(table: Table, change: _Change) -> Fact:
    s, entry = change.ref.snapshot, change.entry
    place = table.partition_text(entry.partition)
    where = f"{place + ', ' if place else ''}bucket {entry.bucket}, level {entry.file.level}"
    return Fact(
        fact="added by" if entry.kind is FileKind.ADD else "removed by",
        reference=change.ref.label,
        snapshot=s,
        millis=s.time_millis,
        detail=f"{s.operation or s.commit_kind} of {s.commit_user}: {entry.file.row_count} rows in {where}",
    )


def _need_fact(table: Table, ref: ProtectingRef, refs: Iterable[ProtectingRef], now: int) -> Fact:
    return Fact(
        fact="needed by",
        reference=ref.label,
        snapshot=ref.snapshot,
        millis=ref.snapshot.time_millis,
        detail=_reason(table, ref, refs, now),
    )


def _own_facts(table: Table, own: Iterable[ProtectingRef], refs: Iterable[ProtectingRef], now: int) -> Iterator[Fact]:
    """Yield why references whose own file it is are there; branches have files of the same name."""
    for ref in own:
        yield replace(_need_fact(table, ref, refs, now), fact="is")


def _reason(table: Table, ref: ProtectingRef, refs: Iterable[ProtectingRef], now: int) -> str:
    """Return why a reference is still there."""
    if ref.kind is RefKind.TAG:
        return "a tag keeps its files until it is deleted or its retention ends"
    if ref.kind is RefKind.CHANGELOG:
        return "a long-lived changelog keeps its files until 'changelog.time-retained' ends"
    place = replace(table, branch=ref.branch)
    own = sorted(
        (r.snapshot for r in refs if r.kind is RefKind.SNAPSHOT and r.branch == ref.branch), key=lambda s: s.id
    )
    consumers = RefStore.of(place).needed_snapshots()
    end, free = expiry_ends(place, own, now, consumers)
    if own and ref.snapshot.id == own[-1].id:
        return "it is the latest snapshot"
    if ref.snapshot.id < end:
        return "the snapshot may expire: expire_snapshots deletes it"
    if ref.snapshot.id < free:
        names = sorted(name for name, first in consumers.items() if first <= ref.snapshot.id)
        return f"consumer {', '.join(repr(n) for n in names)} has not read the snapshot"
    options = table.options
    return (
        f"the snapshot is retained: 'snapshot.time-retained' = '{options.get('snapshot.time-retained')}', "
        f"'snapshot.num-retained.min' = {options.snapshot_num_retained_min}"
    )
