"""What differs between two snapshots: files and rows by partition, columns, options."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.scan.entry_filter import every_entry, select_live
from paimon_spark.core.table import Table
from paimon_spark.engine.health.findings import sql_name
from paimon_spark.engine.health.places import Hashes, Places
from paimon_spark.spec.quoted_text import string_literal
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.types import type_text

_QUERY = "SELECT * FROM paimon_incremental_query(?)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference. `what` is rows, files added, files removed, column, option, comment or query."""

    what: str
    name: str | None = None
    before: str | None = None
    after: str | None = None
    files: int | None = None
    rows: int | None = None
    bytes: int | None = None


@dataclass(slots=True)
class _Sum:
    files: int = 0
    rows: int = 0
    bytes: int = 0


@translate_io_errors()
def difference(table: Table, before: Snapshot, after: Snapshot, texts: tuple[str, str]) -> Iterator[Difference]:
    """Yield what differs between two snapshots of a table.

    Args:
        table: the table.
        before: the first snapshot.
        after: the second snapshot.
        texts: the two as the caller named them, for the query of the changed rows.
    """
    rows = after.total_record_count - before.total_record_count
    yield Difference(what="rows", before=str(before.total_record_count), after=str(after.total_record_count), rows=rows)
    old, new = _places(table, before), _places(table, after)
    for what, snapshot, others in (("files removed", before, new), ("files added", after, old)):
        for partition, total in sorted(_without(table, snapshot, others).items()):
            yield Difference(what=what, name=partition, files=total.files, rows=total.rows, bytes=total.bytes)
    if before.schema_id != after.schema_id:
        yield from schema_differences(table.schema_store.get(before.schema_id), table.schema_store.get(after.schema_id))
    yield _query(table, before, after, texts)


def _query(table: Table, before: Snapshot, after: Snapshot, texts: tuple[str, str]) -> Difference:
    first, second = texts if before.id <= after.id else texts[::-1]
    arguments = ", ".join(map(string_literal, (sql_name(table), first, second)))
    return Difference(what="query", name="the changed rows", after=_QUERY.replace("?", arguments))


def _places(table: Table, snapshot: Snapshot) -> Hashes:
    """Return the sorted hashes of the places of the live files."""
    store, places = ManifestStore(table), Places(table)
    live = select_live(store, store.data_manifests(snapshot), every_entry)
    parts = [places.of_rows(found.manifest, found.rows) for found in live]
    return np.sort(np.concatenate([np.empty(0, np.int64), *parts]))


def _without(table: Table, snapshot: Snapshot, others: Hashes) -> dict[str, _Sum]:
    """Return by partition the sums of the live files whose places are not among others."""
    store, places, sums = ManifestStore(table), Places(table), dict[str, _Sum]()
    for found in select_live(store, store.data_manifests(snapshot), every_entry):
        rows = found.rows[~np.isin(places.of_rows(found.manifest, found.rows), others)]
        columns = found.columns
        for number in np.unique(columns.partition[rows]).tolist():
            own = rows[columns.partition[rows] == number]
            total = sums.setdefault(table.partition_text(columns.partitions[number]), _Sum())
            total.files += len(own)
            total.rows += int(columns.rows[own].sum())
            total.bytes += int(columns.size[own].sum())
    return sums


def schema_differences(before: TableSchema, after: TableSchema) -> Iterator[Difference]:
    """Yield the differences of columns, options and comments between two schemas. Columns are the same by their id."""
    old, new = ({f.id: f for f in s.fields} for s in (before, after))
    for field_id in sorted(old.keys() | new.keys()):
        texts = [
            None if (f := fields.get(field_id)) is None else f"{f.name} {type_text(f.type)}" for fields in (old, new)
        ]
        if texts[0] != texts[1]:
            name = (new.get(field_id) or old[field_id]).name
            yield Difference(what="column", name=name, before=texts[0], after=texts[1])
    orders = [[f.id for f in s.fields if f.id in old and f.id in new] for s in (before, after)]
    if orders[0] != orders[1]:
        names = [", ".join(s.field_names) for s in (before, after)]
        yield Difference(what="column", name="order", before=names[0], after=names[1])
    for key in sorted(before.options.keys() | after.options.keys()):
        values = before.options.get(key), after.options.get(key)
        if values[0] != values[1]:
            yield Difference(what="option", name=key, before=values[0], after=values[1])
    if before.comment != after.comment:
        yield Difference(what="comment", before=before.comment, after=after.comment)
