"""A micro-batch as a frame: the rows of a state, then changes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from paimon_spark.core.columns import AUDIT_ROW_KIND, METADATA_COLUMNS
from paimon_spark.core.scan.splits import Split
from paimon_spark.core.table import Table
from paimon_spark.engine.streaming.source import StreamRead
from paimon_spark.spark.read_modes import ReadRequest
from paimon_spark.spark.reads import read_frame
from paimon_spark.spec.kinds import RowKind
from paimon_spark.spec.predicate import TRUE, Predicate
from paimon_spark.spec.quoted_text import quoted_name

_ADDS = [RowKind.INSERT.short, RowKind.UPDATE_AFTER.short]


@dataclass(frozen=True, slots=True)
class StreamColumns:
    """The columns of a stream.

    Attributes:
        names: the columns to read, in order.
        keep_kinds: whether the kinds of the rows are known.
        pairs: whether columns are arrays, and the two rows of an update are one.
        predicate: rows that do not match may be left out.
    """

    names: tuple[str, ...]
    keep_kinds: bool = False
    pairs: bool = False
    predicate: Predicate = TRUE


def stream_rows(session: SparkSession, table: Table, found: StreamRead, columns: StreamColumns) -> DataFrame:
    """Return the rows of a micro-batch. Each row of a state is an insert; deleted rows are left out."""
    frames = []
    if found.state or not found.changes:
        frame = read_frame(session, _request(found.table, found.state, columns))
        if columns.keep_kinds:
            kind = f.col(quoted_name(AUDIT_ROW_KIND))
            frame = frame.where(kind.isin(_ADDS)).withColumn(AUDIT_ROW_KIND, f.lit(RowKind.INSERT.short))
        frames.append(frame)
    if found.changes:
        frames.append(read_frame(session, _request(table, found.changes, columns)))
    names = [f.col(quoted_name(name)) for name in columns.names]
    return reduce(DataFrame.unionAll, [frame.select(*names) for frame in frames])


def _request(table: Table, splits: tuple[Split, ...], columns: StreamColumns) -> ReadRequest:
    known = table.schema.field_names
    metadata = tuple(c for c in columns.names if c in METADATA_COLUMNS and c not in known)
    others = tuple(c for c in columns.names if c not in metadata and not (columns.keep_kinds and c == AUDIT_ROW_KIND))
    return ReadRequest(
        table,
        others,
        columns.predicate,
        splits,
        keep_kinds=columns.keep_kinds,
        pairs=columns.pairs,
        metadata=metadata,
    )
