"""The columns that rows carry beside those of their table: where a row is stored, its kind, and where it goes."""

from __future__ import annotations

from paimon_spark.spec.kinds import KEY_PREFIX, ROW_ID, ROW_ID_FIELD_ID, SEQUENCE_NUMBER, SEQUENCE_NUMBER_FIELD_ID
from paimon_spark.spec.types import MAX_LENGTH, AtomicType, DataField, TypeRoot


def reserved(name: str) -> str:
    """Return the name of a column beside those of a table, none of which can have it.

    Paimon reserves the prefix for the keys in data files; rows in memory do not have these columns.
    """
    return f"{KEY_PREFIX}{name}"


ROW_KIND = reserved("_row_kind_")
"""The kind of each row between Spark and the table, as int8."""
ROW_KIND_FIELD = DataField(-1, ROW_KIND, AtomicType(TypeRoot.TINYINT, nullable=False))
SHUFFLE_BUCKET = reserved("_bucket_")
"""The bucket of a row to write, as int32; for tables with fixed buckets."""
SHUFFLE_HASH = reserved("_hash_")
"""The hash of the key of a row to write, as int32; for tables with dynamic buckets."""
EXISTING_BUCKET = reserved("_existing_bucket_")
"""The bucket of a row that is in the table, as int32, null for a row to write; for cross-partition upserts."""
SHUFFLE_ORDER = reserved("_order_")
"""The position of a row among those to write, as int64, where rows of one key come from several tasks."""
POSITIONS = reserved("_positions_")
"""Positions of rows of one file, as a serialized roaring bitmap; instead of a position in each row."""
LEVEL = "_LEVEL"
"""The level of the file of each row that is merged, as int8; only where a merge depends on it."""
AUDIT_ROW_KIND = "rowkind"
"""The kind of each row as text, in the system tables that show it."""

FILE_PATH = "__paimon_file_path"
ROW_INDEX = "__paimon_row_index"
BUCKET = "__paimon_bucket"
VECTOR = "__paimon_deletion_vector"
PARTITION = "__paimon_partition"
TRACKING_FIELDS = (
    DataField(ROW_ID_FIELD_ID, ROW_ID, AtomicType(TypeRoot.BIGINT)),
    DataField(SEQUENCE_NUMBER_FIELD_ID, SEQUENCE_NUMBER, AtomicType(TypeRoot.BIGINT)),
)
"""The columns with a row's id and the snapshot of its last change."""
METADATA_FIELDS = (
    DataField(-1, FILE_PATH, AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH)),
    DataField(-1, ROW_INDEX, AtomicType(TypeRoot.BIGINT)),
    DataField(-1, BUCKET, AtomicType(TypeRoot.INT)),
    DataField(-1, VECTOR, AtomicType(TypeRoot.BIGINT)),
    *TRACKING_FIELDS,
)
"""Columns with the location of a row: its file, its position in the file, its bucket, and a fingerprint of the rows of
the file that were deleted when it was read (null if none were). Then its row id, and the snapshot of its last
change.
"""
METADATA_COLUMNS = (*(f.name for f in METADATA_FIELDS), PARTITION)
"""Names of the columns with the location of a row; `SELECT *` does not return them."""
