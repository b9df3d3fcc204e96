"""Names, types and nullability of the columns of each system table.

Times are wall-clock times without time zone, as in Paimon: TIMESTAMP(3), except `create_time` of a tag, which keeps the
microseconds of its file.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

_STRING = pa.string()
_LONG = pa.int64()
_INT = pa.int32()
_TIME = pa.timestamp("ms")
_DV_RANGE = pa.struct(
    [pa.field("f0", _STRING), pa.field("f1", _INT), pa.field("f2", _INT), pa.field("_CARDINALITY", _LONG)]
)


def _schema(**columns: pa.DataType | tuple[pa.DataType]) -> pa.Schema:
    """Build a schema; a type inside a tuple is nullable."""
    return pa.schema(
        [
            pa.field(name, t[0], nullable=True) if isinstance(t, tuple) else pa.field(name, t, nullable=False)
            for name, t in columns.items()
        ]
    )


COLUMNS: Mapping[str, pa.Schema] = {
    "snapshots": _schema(
        snapshot_id=_LONG,
        schema_id=_LONG,
        commit_user=_STRING,
        commit_identifier=_LONG,
        commit_kind=_STRING,
        commit_time=_TIME,
        base_manifest_list=_STRING,
        delta_manifest_list=_STRING,
        changelog_manifest_list=(_STRING,),
        total_record_count=(_LONG,),
        delta_record_count=(_LONG,),
        changelog_record_count=(_LONG,),
        watermark=(_LONG,),
        next_row_id=(_LONG,),
        operation=(_STRING,),
    ),
    "schemas": _schema(
        schema_id=_LONG,
        fields=_STRING,
        partition_keys=_STRING,
        primary_keys=_STRING,
        options=_STRING,
        comment=(_STRING,),
        update_time=_TIME,
    ),
    "options": _schema(key=_STRING, value=_STRING),
    "files": _schema(
        partition=(_STRING,),
        bucket=_INT,
        file_path=_STRING,
        file_format=_STRING,
        schema_id=_LONG,
        level=_INT,
        record_count=_LONG,
        file_size_in_bytes=_LONG,
        min_key=(_STRING,),
        max_key=(_STRING,),
        null_value_counts=_STRING,
        min_value_stats=_STRING,
        max_value_stats=_STRING,
        min_sequence_number=(_LONG,),
        max_sequence_number=(_LONG,),
        creation_time=(_TIME,),
        deleteRowCount=(_LONG,),
        file_source=(_STRING,),
        first_row_id=(_LONG,),
        write_cols=(pa.list_(_STRING),),
    ),
    "file_key_ranges": _schema(
        partition=(_STRING,),
        bucket=_INT,
        file_path=_STRING,
        file_format=_STRING,
        schema_id=_LONG,
        level=_INT,
        record_count=_LONG,
        file_size_in_bytes=_LONG,
        min_key=(_STRING,),
        max_key=(_STRING,),
        first_row_id=(_LONG,),
    ),
    "manifests": _schema(
        file_name=_STRING,
        file_size=_LONG,
        num_added_files=_LONG,
        num_deleted_files=_LONG,
        schema_id=_LONG,
        min_partition_stats=(_STRING,),
        max_partition_stats=(_STRING,),
        min_row_id=(_LONG,),
        max_row_id=(_LONG,),
    ),
    "partitions": _schema(
        partition=(_STRING,),
        record_count=_LONG,
        file_size_in_bytes=_LONG,
        file_count=_LONG,
        last_update_time=(_TIME,),
        created_at=(_TIME,),
        created_by=(_STRING,),
        updated_by=(_STRING,),
        options=(_STRING,),
        total_buckets=_INT,
        done=pa.bool_(),
        deleted_record_count=(_LONG,),
    ),
    "buckets": _schema(
        partition=(_STRING,),
        bucket=_INT,
        record_count=_LONG,
        file_size_in_bytes=_LONG,
        file_count=_LONG,
        last_update_time=(_TIME,),
    ),
    "tags": _schema(
        tag_name=_STRING,
        snapshot_id=_LONG,
        schema_id=_LONG,
        commit_time=_TIME,
        record_count=(_LONG,),
        create_time=(pa.timestamp("us"),),
        time_retained=(_STRING,),
    ),
    "branches": _schema(branch_name=_STRING, create_time=_TIME),
    "consumers": _schema(consumer_id=_STRING, next_snapshot_id=_LONG),
    "statistics": _schema(
        snapshot_id=_LONG,
        schema_id=_LONG,
        mergedRecordCount=(_LONG,),
        mergedRecordSize=(_LONG,),
        colstat=(_STRING,),
    ),
    "aggregation_fields": _schema(
        field_name=_STRING,
        field_type=_STRING,
        function=(_STRING,),
        function_options=(_STRING,),
        comment=(_STRING,),
    ),
    "table_indexes": _schema(
        partition=(_STRING,),
        bucket=_INT,
        index_type=_STRING,
        file_name=_STRING,
        file_size=_LONG,
        row_count=_LONG,
        dv_ranges=(pa.list_(_DV_RANGE),),
        row_range_start=(_LONG,),
        row_range_end=(_LONG,),
        index_field_id=(_INT,),
        index_field_name=(_STRING,),
    ),
}
