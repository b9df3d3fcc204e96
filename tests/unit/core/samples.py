"""Small tables and files for the tests of the core: metadata only, no data file is ever opened."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.table import Table
from paimon_spark.fs.base import FileIO
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.kinds import CommitKind, FileSource
from paimon_spark.spec.manifest import EMPTY_ROW, EMPTY_STATS, DataFileMeta, SimpleStats
from paimon_spark.spec.rows import encode_row
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.types import STRING, DataField, TypeRoot, atomic, not_null

INT = atomic(TypeRoot.INT)
FIELDS = (DataField(0, "k", not_null(INT)), DataField(1, "v", INT), DataField(2, "p", not_null(STRING)))
_COUNTER = itertools.count()


def table(
    options: Mapping[str, str] | None = None,
    *,
    keys: Sequence[str] = (),
    partitions: Sequence[str] = (),
    file_io: FileIO | None = None,
    path: str = "/wh/db.db/t",
) -> Table:
    """Return a table with the columns k INT, v INT, p STRING whose schema 0 is stored."""
    schema = TableSchema(
        id=0,
        fields=FIELDS,
        highest_field_id=2,
        partition_keys=tuple(partitions),
        primary_keys=tuple(keys),
        options=dict(options or {}),
        time_millis=0,
    )
    made = Table.of(Identifier("db", "t"), path, schema, file_io or InMemoryFileIO())
    made.schema_store.try_create(schema)
    return made


def partition(value: str | None = None) -> bytes:
    """Return the partition row of p, or of an unpartitioned table."""
    return EMPTY_ROW if value is None else encode_row([value], [STRING])


def file(
    low: int | None = None, high: int | None = None, *, rows: int = 1, level: int = 0, v: int = 0, **more: Any
) -> DataFileMeta:
    """Return a data file of one key range, or of an append table where no range is given."""
    values = {
        "file_name": f"data-{next(_COUNTER)}.parquet",
        "file_size": 1000,
        "row_count": rows,
        "min_sequence_number": 0,
        "max_sequence_number": rows - 1,
        "schema_id": 0,
        "level": level,
        "delete_row_count": 0,
        "file_source": FileSource.APPEND,
        "value_stats": _stats([low or 0, v, "a"], [high or 0, v, "z"], [INT, INT, STRING]),
    }
    if low is not None and high is not None:
        values |= {"min_key": encode_row([low], [INT]), "max_key": encode_row([high], [INT])}
        values["key_stats"] = _stats([low], [high], [INT])
    else:
        values["key_stats"] = EMPTY_STATS
    return DataFileMeta(**(values | more))


def _stats(low: list[Any], high: list[Any], types: list[Any]) -> SimpleStats:
    return SimpleStats(encode_row(low, types), encode_row(high, types), (0,) * len(types))


def message(
    *new: DataFileMeta, bucket: int = 0, partition_value: str | None = None, total_buckets: int = -1, **more: Any
) -> CommitMessage:
    """Return a message that adds files to one bucket."""
    return CommitMessage(
        partition=partition(partition_value), bucket=bucket, total_buckets=total_buckets, new_files=new, **more
    )


def snapshot(number: int, millis: int = 0) -> Snapshot:
    """Return an empty snapshot of that id."""
    return Snapshot(
        id=number,
        schema_id=0,
        base_manifest_list="b",
        delta_manifest_list=f"d{number}",
        commit_user="u",
        commit_identifier=1,
        commit_kind=CommitKind.APPEND,
        time_millis=millis,
        total_record_count=0,
        delta_record_count=0,
    )
