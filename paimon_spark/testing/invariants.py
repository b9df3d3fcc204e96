"""Invariants that each table must satisfy at any time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from paimon_spark.core.clustered_files import has_unsorted_keys
from paimon_spark.core.levels import sections
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import ProtectingRef, RefKind, protecting_refs, ref_path
from paimon_spark.core.scan.scan import live_entries
from paimon_spark.core.table import Table
from paimon_spark.spec.global_indexes import GlobalIndexKind
from paimon_spark.spec.kinds import FileKind, FileSource, Operation
from paimon_spark.spec.manifest import DELETION_VECTORS_INDEX, HASH_INDEX, ManifestEntry
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.stored_json import json_object

_OWN = ("schema", "snapshot", "tag", "branch", "consumer", "changelog", ".trash")
"""Directories that hold neither data nor manifests."""


def needed(table: Table) -> set[str]:
    """Return all data and metadata files that a snapshot, tag or changelog references."""
    store, paths, found = ManifestStore(table), table.paths, set()
    for holder in protecting_refs(table):
        s = holder.snapshot
        if holder.kind is RefKind.CHANGELOG:
            found |= _needed_by_changelog(table, s)
            continue
        lists = [s.base_manifest_list, s.delta_manifest_list]
        metas = store.data_manifests(s)
        if holder.kind is RefKind.SNAPSHOT and s.changelog_manifest_list is not None:
            lists.append(s.changelog_manifest_list)
            metas += store.read_list(s.changelog_manifest_list)
        found |= {paths.manifest(n) for n in (*lists, *(m.file_name for m in metas))}
        for e in live_entries(store, metas):
            found |= {paths.data_file(e.partition, e.bucket, e.file), *paths.extra_files(e.partition, e.bucket, e.file)}
        if s.index_manifest is not None:
            found.add(paths.manifest(s.index_manifest))
            found |= {paths.index_file(i.partition, i.bucket, i.file) for i in store.read_index(s.index_manifest)}
        if s.statistics is not None:
            found.add(paths.statistics(s.statistics))
    return found


def _needed_by_changelog(table: Table, changelog: Snapshot) -> set[str]:
    """Return the files of a long-lived changelog: its changelog files or, if it has none, the files that it wrote."""
    store, paths = ManifestStore(table), table.paths
    own = changelog.changelog_manifest_list
    name = changelog.delta_manifest_list if own is None else own
    metas = store.read_list(name)
    added = [e for m in metas for e in store.read(m) if e.kind is FileKind.ADD]
    written = [e for e in added if own is not None or e.file.file_source is not FileSource.COMPACT]
    files = {p for e in written for p in paths.file_paths(e.partition, e.bucket, e.file)}
    return files | {paths.manifest(n) for n in (name, *(m.file_name for m in metas))}


def present(table: Table) -> set[str]:
    """Return all existing data and metadata files, except temporary ones."""
    roots = [s for s in table.file_io.list(table.path) if s.is_dir]
    found = (f for r in roots if r.name not in _OWN for f in table.file_io.list_recursive(r.path))
    return {f.path for f in found if not f.name.startswith(".")}


def lost(table: Table) -> set[str]:
    """Return the files that are referenced but missing."""
    return needed(table) - present(table)


def leaked(table: Table) -> set[str]:
    """Return the files that are not referenced."""
    return present(table) - needed(table)


def violations(table: Table) -> list[str]:
    """Return the violated invariants of a table without running writers; empty if there are none.

    Snapshot ids have no gaps. All files that a snapshot, tag or changelog references exist and have the recorded size.
    Key ranges within a level from 1 up do not overlap, so that no key has two valid rows. Deletion vectors belong to
    existing files. The row count of a snapshot is that of its files. Operations and index types are names known to
    Paimon.
    """
    clear_cache()
    ids = table.snapshots.ids()
    gaps = [b for a, b in pairwise(ids) if b != a + 1]
    found = [f"snapshots with gaps: {ids}"] if gaps else []
    missing = sorted(lost(table))
    if missing:
        return [*found, f"{len(missing)} files are missing: {missing[:3]}"]
    for holder in protecting_refs(table):
        found += (f"{holder.label}: {fault}" for fault in _foreign_names(table, holder))
        if holder.kind is not RefKind.CHANGELOG:
            found += (f"{holder.label}: {fault}" for fault in _faults(table, holder))
    latest = table.snapshots.latest_id()
    if ids and latest != ids[-1]:
        found.append(f"the newest snapshot is {ids[-1]}, but readers find {latest}")
    return found


def _foreign_names(table: Table, holder: ProtectingRef) -> Iterator[str]:
    operation = json_object(table.file_io.read(ref_path(table, holder))).get("operation")
    if operation not in {None, *Operation}:
        yield f"its operation '{operation}' is none of Paimon's"
    if holder.kind is RefKind.CHANGELOG:
        return  # it keeps the files of its changes, but not the index of its snapshot
    for item in ManifestStore(table).read_index(holder.snapshot.index_manifest):
        if item.file.index_type not in (HASH_INDEX, DELETION_VECTORS_INDEX, *GlobalIndexKind):
            yield f"its index file {item.file.file_name} has the type '{item.file.index_type}'"


def _faults(table: Table, holder: ProtectingRef) -> Iterator[str]:
    store = ManifestStore(table)
    entries = list(live_entries(store, store.data_manifests(holder.snapshot)))
    yield from _file_faults(table, entries)
    rows = sum(e.file.row_count for e in entries)
    if rows != holder.snapshot.total_record_count:
        yield f"records {holder.snapshot.total_record_count} rows, its files have {rows}"
    if table.is_primary_key_table and not has_unsorted_keys(table):
        yield from _level_faults(table, entries)
    names = {e.file.file_name for e in entries}
    for item in store.read_index(holder.snapshot.index_manifest):
        dangling = [r.data_file for r in item.file.deletion_ranges or () if r.data_file not in names]
        if dangling:
            yield f"a deletion vector of {dangling} without its file"


def _file_faults(table: Table, entries: list[ManifestEntry]) -> Iterator[str]:
    for e in entries:
        path = table.paths.data_file(e.partition, e.bucket, e.file)
        size = table.file_io.status(path).size
        if size != e.file.file_size:
            yield f"{path} has {size} bytes instead of {e.file.file_size}"


def _level_faults(table: Table, entries: list[ManifestEntry]) -> Iterator[str]:
    levels: dict[tuple[bytes, int, int], list[ManifestEntry]] = {}
    for e in entries:
        if e.file.level:
            levels.setdefault((e.partition, e.bucket, e.file.level), []).append(e)
    for (_, bucket, level), same in levels.items():
        if any(len(s) > 1 for s in sections([e.file for e in same], table.key_types)):
            yield f"bucket {bucket} has overlapping keys in level {level}"
