"""Rewriting of deletion vector index files in a commit.

If a data file is removed or gets another vector, its vector is dropped from the index file, and the other vectors move
to a new one. Every attempt does this with the current index files, so that commits that delete rows of different data
files do not conflict. A bucket without vectors keeps an empty index file, as in Paimon.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from paimon_spark.core.commit.change_set import Change
from paimon_spark.core.commit.conflict_detection import VectorChanged, vector_conflict
from paimon_spark.core.metadata.deletion_vectors import StoredVectors, VectorRef, VectorWriter, vector_refs
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.table import Table
from paimon_spark.spec.kinds import BucketMode, FileKind
from paimon_spark.spec.manifest import DELETION_VECTORS_INDEX, BucketKey, DataFileKey, IndexManifestEntry


@dataclass(frozen=True, slots=True)
class RewrittenVectors:
    """A change that names every index file.

    `superseded` are paths of index files of its messages whose vectors were written again, joined with others. They can
    be deleted once the change is committed; another attempt may still need them.
    """

    change: Change
    superseded: tuple[str, ...] = ()


def rewrite_deletion_vectors(
    store: ManifestStore, live: Sequence[IndexManifestEntry], change: Change
) -> RewrittenVectors | VectorChanged:
    """Return the change with all changes of deletion vectors, or the conflict that prevents it.

    Index files are written through `store`.

    Args:
        store: manifests of the table.
        live: the table's index entries now.
        change: the change of the messages; index files that it removes by name are not rewritten.
    """
    touched = change.data_files_with_new_vectors | change.removed
    if not touched:
        return RewrittenVectors(change)
    affected = _affected(store.table, live, change)
    refs = vector_refs(store.table, affected)
    vectors = StoredVectors(store.table.file_io)
    now = {key: vectors.fingerprint(key.file_name, ref) for key, ref in refs.items() if key in touched}
    conflict = vector_conflict(touched, change.vectors_seen, now)
    if conflict is not None:
        return conflict
    staying = {key: ref for key, ref in refs.items() if key not in touched}
    removed = [replace(e, kind=FileKind.DELETE) for e in affected]
    added, superseded = list(change.index_changes), []
    if not _by_file(store.table):
        joined = _joined(change, staying)
        staying |= vector_refs(store.table, joined)
        added = [e for e in added if e not in joined]
        paths = store.table.paths
        superseded = [paths.index_file(e.partition, e.bucket, e.file) for e in joined]
    emptied = set() if _by_file(store.table) else _emptied(affected, added, staying)
    rewritten = _rewritten(store, staying, emptied, vectors)
    return RewrittenVectors(replace(change, index_changes=(*removed, *added, *rewritten)), tuple(superseded))


def _by_file(table: Table) -> bool:
    """Return whether index files are identified by name; otherwise a bucket has a single one."""
    return table.bucket_mode is BucketMode.BUCKET_UNAWARE


def _affected(table: Table, live: Iterable[IndexManifestEntry], change: Change) -> list[IndexManifestEntry]:
    """Return the index files to rewrite, without those that the change removes by name."""
    given_up = {e.file.file_name for e in change.index_changes if e.kind is FileKind.DELETE}
    replaced = set() if _by_file(table) else {key.bucket_key for key in change.data_files_with_new_vectors}
    touched = change.data_files_with_new_vectors | change.removed
    return [
        e
        for e in live
        if e.file.index_type == DELETION_VECTORS_INDEX
        and e.file.file_name not in given_up
        and (e.bucket_key in replaced or not touched.isdisjoint(_data_files(e)))
    ]


def _data_files(entry: IndexManifestEntry) -> set[DataFileKey]:
    return {DataFileKey(entry.partition, entry.bucket, r.data_file) for r in entry.file.deletion_ranges or ()}


def _joined(change: Change, staying: Iterable[DataFileKey]) -> list[IndexManifestEntry]:
    """Return the new index files of buckets that have more vectors: a bucket has a single index file."""
    others = {key.bucket_key for key in staying}
    new: dict[BucketKey, list[IndexManifestEntry]] = defaultdict(list)
    for e in change.index_changes:
        if e.kind is FileKind.ADD and e.file.index_type == DELETION_VECTORS_INDEX:
            new[e.bucket_key].append(e)
    return [e for key, entries in new.items() if key in others or len(entries) > 1 for e in entries]


def _emptied(
    affected: Iterable[IndexManifestEntry], added: Iterable[IndexManifestEntry], staying: Iterable[DataFileKey]
) -> set[BucketKey]:
    """Return the buckets whose vectors are all removed."""
    filled = {e.bucket_key for e in added if e.file.index_type == DELETION_VECTORS_INDEX}
    return {e.bucket_key for e in affected} - filled - {key.bucket_key for key in staying}


def _rewritten(
    store: ManifestStore, staying: dict[DataFileKey, VectorRef], emptied: Iterable[BucketKey], vectors: StoredVectors
) -> list[IndexManifestEntry]:
    """Write vectors into new files of their buckets, unchanged, and files without vectors for those without."""
    buckets: dict[BucketKey, list[tuple[str, VectorRef]]] = {key: [] for key in emptied}
    for key, ref in staying.items():
        buckets.setdefault(key.bucket_key, []).append((key.file_name, ref))
    out: list[IndexManifestEntry] = []
    for (partition, bucket), items in buckets.items():
        writer = VectorWriter(store.table, partition, bucket, store.write_index_file)
        writer.add_nothing()
        for name, ref in items:
            writer.take_over(name, ref, vectors)
        out += (IndexManifestEntry(FileKind.ADD, partition, bucket, f) for f in writer.close())
    return out
