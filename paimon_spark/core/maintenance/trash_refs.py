"""The references in the trash, and those whose files are still in the table: they are kept for an undo."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from paimon_spark.core.maintenance.trash import TrashKind, TrashPaths, TrashRecord, TrashState, runs
from paimon_spark.core.maintenance.trash_check import lists_of
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import ProtectingRef, RefKind
from paimon_spark.core.metadata_io import in_parallel
from paimon_spark.core.table import Table
from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.paths import MAIN_BRANCH
from paimon_spark.spec.refs import parse_tag
from paimon_spark.spec.snapshot import parse_snapshot

CONSUMER = "consumer"
BRANCH_FILE = re.compile(r"branch/branch-([^/]+)/(.+)")
_REFERENCE = re.compile(
    r"(snapshot|changelog)/(?:snapshot|changelog)-(\d{1,19})|(tag|consumer)/(?:tag|consumer)-([^/]+)"
)


def reference_of(table: Table, path: str) -> tuple[str, str] | None:
    """Return kind and name of a snapshot, changelog, tag or consumer file of the table's branch; None for others."""
    root = f"{table.paths.metadata_root}/"
    found = _REFERENCE.fullmatch(path[len(root) :]) if path.startswith(root) else None
    return None if found is None else (found[1] or found[3], found[2] or found[4])


def read_ref(table: Table, path: str, kept: str) -> ProtectingRef | None:
    """Return the snapshot, changelog or tag that the trash keeps at `kept`; None for other files.

    Raises:
        CorruptTableError: the file is malformed.
        FileNotFoundError: it does not exist.
    """
    found = reference_of(table, path)
    if found is None or found[0] == CONSUMER:
        return None
    kind, data = RefKind(found[0]), table.file_io.read(kept)
    snapshot = parse_tag(data, path).snapshot if kind is RefKind.TAG else parse_snapshot(data, path)[0]
    return ProtectingRef(kind, table.branch, found[1], snapshot)


def kept_refs(table: Table) -> list[ProtectingRef]:
    """Return the references that rollbacks and deletions of branches have moved to the trash.

    Those whose manifests are not in the table are left out: their files are in the trash, too, or are lost.
    """
    refs = [ref for record in runs(table) for ref in _refs(table, record)]
    if not refs:
        return []
    there, store = frozenset(s.name for s in table.file_io.list(table.paths.manifest_dir)), ManifestStore(table)
    return [ref for ref in refs if _has_manifests(store, ref, there)]


def _refs(table: Table, record: TrashRecord) -> list[ProtectingRef]:
    if record.kind is TrashKind.PURGE or record.state is TrashState.EMPTYING:
        return []
    found = in_parallel(lambda at: _ref_at(table, record, *at), list(_files(table, record)))
    return [ref for ref in found if ref is not None]


def _files(table: Table, record: TrashRecord) -> Iterator[tuple[str, str]]:
    """Yield branch and place of the files of a run that may be references."""
    files = TrashPaths(table).files(record.run)
    root = files if record.kind is TrashKind.ROLLBACK else f"{files}/branch"
    for status in table.file_io.list_recursive(root):
        found = BRANCH_FILE.fullmatch(status.path[len(files) + 1 :])
        yield found[1] if found is not None else MAIN_BRANCH, status.path


def _ref_at(table: Table, record: TrashRecord, branch: str, kept: str) -> ProtectingRef | None:
    try:
        return read_ref(replace(table, branch=branch), TrashPaths(table).original(record.run, kept), kept)
    except (CorruptTableError, FileNotFoundError):
        return None


def _has_manifests(store: ManifestStore, ref: ProtectingRef, there: frozenset[str]) -> bool:
    """Return whether all manifest lists and manifests of a reference are in the table and can be read."""
    lists = list(lists_of(ref))
    index = ref.snapshot.index_manifest if ref.kind is not RefKind.CHANGELOG else None
    if not there.issuperset(lists) or (index is not None and index not in there):
        return False
    try:
        return all(meta.file_name in there for name in lists for meta in store.read_list(name))
    except CorruptTableError:
        return False
