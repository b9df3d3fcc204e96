"""Tables with a changelog, and what their changelog files and deletion vectors hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.merge.config import SYSTEM_FIELDS
from paimon_spark.core.metadata.deletion_vectors import vector_refs
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.spec.kinds import SEQUENCE_NUMBER, VALUE_KIND, RowKind
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.testing.tables import new_table
from tests.small_tables import option_keys

SHORT = {k.short: int(k) for k in RowKind}
COLUMNS = {"k": "INT", "v": "STRING"}


def keyed(columns: dict[str, str] = COLUMNS, **options: str) -> Table:
    given = option_keys(options)
    return new_table(columns, primary_key=["k"], options={"bucket": "1", **given})


def put(table: Table, *rows: tuple[Any, ...], **how: Any) -> None:
    """Write rows of values; a text that begins with + or - in front of one is its kind."""
    kinds = [r[0] if isinstance(r[0], str) and r[0] in SHORT else "+I" for r in rows]
    values = [r[1:] if r[0] in SHORT else r for r in rows]
    schema = to_arrow_schema(table.schema.fields)
    columns = [pa.array(c, t) for c, t in zip(zip(*values, strict=True), schema.types, strict=True)]
    batch = pa.table(dict(zip(schema.names, columns, strict=True)))
    batch = batch.append_column(ROW_KIND, pa.array([SHORT[k] for k in kinds], pa.int8()))
    write_arrow(table, batch, **how)


def compact(table: Table, strategy: Strategy = Strategy.FULL) -> None:
    execute_compaction(plan_compaction(table, strategy=strategy), LocalRunner())


def snapshots(table: Table) -> list[Snapshot]:
    return [table.snapshots.get(i) for i in range(1, (table.snapshots.latest_id() or 0) + 1)]


def changes_in(table: Table, snapshot: Snapshot) -> list[tuple[Any, ...]]:
    """Return the rows of the changelog of a snapshot in file order, each with its kind in front."""
    out: list[tuple[Any, ...]] = []
    for entry in ManifestStore(table).changelog_entries(snapshot):
        files = BucketFiles(table, entry.partition, entry.bucket)
        for rows in files.chunks(entry.file, (*SYSTEM_FIELDS, *table.schema.fields)):
            for row in rows.drop_columns([SEQUENCE_NUMBER]).to_pylist():
                kind = RowKind(row.pop(VALUE_KIND)).short
                out.append((kind, *row.values()))
    assert sum(e.file.row_count for e in ManifestStore(table).changelog_entries(snapshot)) == len(out)
    assert (snapshot.changelog_record_count or 0) == len(out)
    return out


def changes(table: Table) -> list[list[tuple[Any, ...]]]:
    """Return the changelog of each snapshot that has one."""
    found = (changes_in(table, s) for s in snapshots(table))
    return [c for c in found if c]


def deleted_positions(table: Table) -> dict[str, int]:
    """Return how many rows of each data file are marked as deleted."""
    latest = table.snapshots.latest()
    assert latest is not None
    refs = vector_refs(table, ManifestStore(table).read_index(latest.index_manifest))
    return {key.file_name: ref.cardinality or 0 for key, ref in refs.items()}


def kinds_of(table: Table) -> Sequence[str]:
    return [s.commit_kind.value for s in snapshots(table)]
