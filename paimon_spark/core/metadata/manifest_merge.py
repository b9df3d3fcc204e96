"""Manifest merging: the same entries in fewer, larger files."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_spark.core.metadata.manifest_store import ManifestStore, may_hold_partition
from paimon_spark.core.metadata.netting import DeletedEntries, merge_entries
from paimon_spark.spec.manifest import ManifestEntry, ManifestFileMeta


def merge_manifests(store: ManifestStore, metas: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
    """Return an equivalent list of fewer, larger manifests; new ones are written through `store`."""
    full = _merge_full(store, metas)
    return full if full is not None else _merge_minor(store, metas)


def _merge_full(store: ManifestStore, metas: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta] | None:
    options = store.table.options
    changing = {m.file_name for m in metas if m.num_deleted_files or m.file_size < options.manifest_target_file_size}
    size = sum(m.file_size for m in metas if m.file_name in changing)
    if size < options.manifest_full_compaction_threshold_size or len(metas) < 2:
        return None
    deleted = DeletedEntries(e for m in metas if m.num_deleted_files for e in store.read(m))
    partitions = {identity.partition for identity in deleted.identities}
    types = [f.type for f in store.table.schema.partition_fields]
    kept: list[ManifestFileMeta] = []
    rewritten: list[ManifestEntry] = []
    for meta in metas:
        if meta.file_name not in changing and not (partitions and may_hold_partition(meta, partitions, types)):
            kept.append(meta)
            continue
        entries = store.read(meta)
        live = list(deleted.live(entries))
        if meta.file_name not in changing and len(live) == len(entries):
            kept.append(meta)
        else:
            rewritten += live
    return kept + store.write(rewritten)


def _merge_minor(store: ManifestStore, metas: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
    """Merge adjacent manifests below the target size once they reach it together, or once there are many.

    A manifest that reaches the target on its own is not merged: otherwise each commit would rewrite a large manifest
    only to merge a small one into it.
    """
    target = store.table.options.manifest_target_file_size
    out: list[ManifestFileMeta] = []
    group: list[ManifestFileMeta] = []
    size = 0
    for meta in metas:
        if meta.file_size >= target:
            out += [*_merge_many(store, group), meta]
            group, size = [], 0
            continue
        group.append(meta)
        size += meta.file_size
        if size >= target:
            out += _merge_group(store, group)
            group, size = [], 0
    return out + _merge_many(store, group)


def _merge_many(store: ManifestStore, group: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
    many = len(group) >= store.table.options.manifest_merge_min_count
    return _merge_group(store, group) if many else list(group)


def _merge_group(store: ManifestStore, group: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
    if len(group) == 1:
        return list(group)
    return store.write(merge_entries(e for m in group for e in store.read(m)))
