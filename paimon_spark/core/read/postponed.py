"""Reads postponed files: all rows in the order in which they were written, with their kinds.

(docs/spec/semantics.md, B4)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.merge.config import KIND_FIELD
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.scan.splits import Split
from paimon_spark.core.table import Table
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.spec.chain_tables import is_chain_table
from paimon_spark.spec.kinds import CommitKind, FileKind
from paimon_spark.spec.manifest import ManifestEntry
from paimon_spark.spec.snapshot import Snapshot

_ROW_BITS = 32


def replay_order(store: ManifestStore, snapshot: Snapshot, entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Return postponed files in the order of the commits that added them, and of the writers within a commit.

    Files whose snapshots have expired come first, by the time of their creation.
    """
    waiting = {e.identity: e for e in entries}
    newest_first: list[list[ManifestEntry]] = []
    found: Snapshot | None = snapshot
    while waiting and found is not None:
        if found.commit_kind is not CommitKind.COMPACT:
            added = (e.identity for e in store.delta_entries(found) if e.kind is FileKind.ADD)
            newest_first.append([waiting.pop(i) for i in added if i in waiting])
        found = store.table.snapshots.find(found.id - 1) if found.id > 1 else None
    oldest = sorted(waiting.values(), key=lambda e: e.file.creation_time or 0)
    return [*oldest, *(e for group in reversed(newest_first) for e in group)]


def split_rows(table: Table, split: Split, number: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of a split and the position of each batch among those of all splits.

    The rows of postponed files come as they were written, with their kinds in `ROW_KIND`; others are merged. Those
    of one branch of a chain table keep their retracts, which delete rows of earlier partitions.

    Args:
        table: the table.
        split: the split.
        number: the position of the split.
    """
    at = number << _ROW_BITS
    retracts = is_chain_table(table.options) and not split.chained
    for batch in _postponed_rows(table, split) if split.bucket < 0 else read_split(table, split, keep_kinds=retracts):
        yield at, batch
        at += batch.num_rows


def _postponed_rows(table: Table, split: Split) -> Iterator[pa.RecordBatch]:
    fields = table.schema.fields
    files = BucketFiles(table, split.partition, split.bucket)
    schema = to_arrow_schema(fields)
    for file in split.files:
        for rows in files.chunks(file, (*fields, KIND_FIELD)):
            columns = pa.Table.from_arrays([rows.column(name) for name in schema.names], schema=schema)
            yield from columns.append_column(ROW_KIND, rows.column(KIND_FIELD.name)).combine_chunks().to_batches()
