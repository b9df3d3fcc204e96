"""System tables of a table's history and definition: snapshots, schemas, tags and others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from paimon_spark.core.metadata.refs import RefStore, branch_name, branches
from paimon_spark.core.metadata.statistics import statistics_of
from paimon_spark.core.system.context import SystemContext
from paimon_spark.core.system.render import flat_json, local_time, text_list
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.types import field_to_json, type_text

Row = tuple[Any, ...]
_FIELD_OPTION_PARTS = 3


def snapshots(context: SystemContext) -> Iterator[Row]:
    """Yield one row per snapshot."""
    store = context.table.snapshots
    for snapshot_id in store.ids():
        s = store.find(snapshot_id)
        if s is not None:
            yield _snapshot_row(s, context)


def _snapshot_row(s: Snapshot, context: SystemContext) -> Row:
    return (
        s.id,
        s.schema_id,
        s.commit_user,
        s.commit_identifier,
        str(s.commit_kind),
        local_time(s.time_millis, context.zone),
        s.base_manifest_list,
        s.delta_manifest_list,
        s.changelog_manifest_list,
        s.total_record_count,
        s.delta_record_count,
        s.changelog_record_count,
        s.watermark,
        s.next_row_id,
        s.operation,
    )


def schemas(context: SystemContext) -> Iterator[Row]:
    """Yield one row per schema version."""
    store = context.table.schema_store
    for schema_id in store.ids():
        s = store.get(schema_id)
        yield (
            s.id,
            flat_json([field_to_json(f) for f in s.fields]),
            flat_json(list(s.partition_keys)),
            flat_json(list(s.primary_keys)),
            flat_json(dict(s.options)),
            s.comment,
            local_time(s.time_millis or 0, context.zone),
        )


def options(context: SystemContext) -> Iterator[Row]:
    """Yield the stored options of the newest schema."""
    newest = context.table.schema_store.latest() or context.table.schema
    yield from newest.options.items()


def tags(context: SystemContext) -> Iterator[Row]:
    """Yield one row per tag, ordered by name."""
    for name, tag in RefStore.of(context.table).tags().items():
        s = tag.snapshot
        yield (
            name,
            s.id,
            s.schema_id,
            local_time(s.time_millis, context.zone),
            s.total_record_count,
            tag.create_time,
            tag.time_retained_text,
        )


def branch_rows(context: SystemContext) -> Iterator[Row]:
    """Yield one row per branch except main; its time is that of the directory."""
    for directory in branches(context.table):
        yield (branch_name(directory), local_time(directory.mtime_ms, context.zone))


def consumers(context: SystemContext) -> Iterator[Row]:
    """Yield one row per consumer."""
    yield from RefStore.of(context.table).consumers().items()


def statistics(context: SystemContext) -> Iterator[Row]:
    """Yield the statistics of the last ANALYZE that are valid for the snapshot."""
    found = statistics_of(context.table, context.snapshot)
    if found is not None:
        yield (
            found.snapshot_id,
            found.schema_id,
            found.merged_record_count,
            found.merged_record_size,
            found.columns_json,
        )


def aggregation_fields(context: SystemContext) -> Iterator[Row]:
    """Yield one row per column with its `fields.<column>.…` options."""
    schema = context.table.schema_store.latest() or context.table.schema
    keys = [(k.split("."), k, v) for k, v in schema.options.items()]
    keys = [k for k in keys if len(k[0]) >= _FIELD_OPTION_PARTS and k[0][0] == "fields"]
    for f in schema.fields:
        own = [(key, value) for parts, key, value in keys if parts[1] == f.name]
        functions, names = text_list(v for _, v in own), text_list(k for k, _ in own)
        yield (f.name, type_text(f.type), functions, names, f.description)
