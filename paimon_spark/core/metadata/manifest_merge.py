"""Manifest merging: the same entries in fewer, larger files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paimon_spark.core.metadata.manifest_store import ManifestStore, may_hold_partition
from paimon_spark.core.metadata.netting import DeletedEntries, merge_entries
from paimon_spark.spec.manifest import ManifestEntry, ManifestFileMeta


def merge_manifests(store: ManifestStore, metas: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
    """Return an equivalent list of fewer, larger manifests; new ones are written through `store`."""
    full = _merge_full(store, metas)
    return full if full is not None else _merge_minor(store, metas)


@dataclass(frozen=True, slots=True)
class FullMerge:
    """A merge of all manifests that are small or have DELETE entries.

    Attributes:
        kept: manifests that stay as they are.
        merged: manifests that are replaced.
        entries: the entries of the new manifests, all live.
    """

    kept: list[ManifestFileMeta]
    merged: list[ManifestFileMeta]
    entries: list[ManifestEntry]


def plan_full_merge(store: ManifestStore, metas: Sequence[ManifestFileMeta]) -> FullMerge:
    """Return the merge of all manifests that are smaller than the target size, or lose entries; nothing is written."""
    changing = _changing(store, metas)
    deleted = DeletedEntries(e for m in metas if m.num_deleted_files for e in store.read(m))
    partitions = {identity.partition for identity in deleted.identities}
    types = [f.type for f in store.table.schema.partition_fields]
    plan = FullMerge([], [], [])
    for meta in metas:
        if meta.file_name not in changing and not (partitions and may_hold_partition(meta, partitions, types)):
            plan.kept.append(meta)
            continue
        entries = store.read(meta)
        live = list(deleted.live(entries))
        if meta.file_name not in changing and len(live) == len(entries):
            plan.kept.append(meta)
        else:
            plan.merged.append(meta)
            plan.entries.extend(live)
    return plan


def _changing(store: ManifestStore, metas: Sequence[ManifestFileMeta]) -> set[str]:
    target = store.table.options.manifest_target_file_size
    return {m.file_name for m in metas if m.num_deleted_files or m.file_size < target}


def _merge_full(store: ManifestStore, metas: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta] | None:
    changing = _changing(store, metas)
    size = sum(m.file_size for m in metas if m.file_name in changing)
    if size < store.table.options.manifest_full_compaction_threshold_size or len(metas) < 2:
        return None
    plan = plan_full_merge(store, metas)
    return plan.kept + store.write(plan.entries)


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
