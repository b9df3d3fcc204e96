"""Merge configuration of a table: its key, sequence fields and merge function."""

from __future__ import annotations

from paimon_spark.core.merge.engines.deduplicate import deduplicate, deduplicate_ignoring_deletes
from paimon_spark.core.merge.sort_merge import MergeOrder
from paimon_spark.core.table import Table
from paimon_spark.errors import UnsupportedError
from paimon_spark.spec.kinds import (
    SEQUENCE_NUMBER,
    SEQUENCE_NUMBER_FIELD_ID,
    VALUE_KIND,
    VALUE_KIND_FIELD_ID,
    MergeEngine,
)
from paimon_spark.spec.types import AtomicType, DataField, TypeRoot

SEQUENCE_FIELD = DataField(SEQUENCE_NUMBER_FIELD_ID, SEQUENCE_NUMBER, AtomicType(TypeRoot.BIGINT, nullable=False))
KIND_FIELD = DataField(VALUE_KIND_FIELD_ID, VALUE_KIND, AtomicType(TypeRoot.TINYINT, nullable=False))
SYSTEM_FIELDS = (SEQUENCE_FIELD, KIND_FIELD)


def merge_order(table: Table) -> MergeOrder:
    """Return the merge order of a primary-key table.

    Raises:
        UnsupportedError: the merge engine is not implemented.
    """
    engine = table.options.merge_engine
    if engine is not MergeEngine.DEDUPLICATE:
        raise UnsupportedError(
            f"Table {table.name} has 'merge-engine' = '{engine}', which is not implemented.",
            hint="Read or write it with Apache Paimon, or use a table with the deduplicate engine.",
        )
    return MergeOrder(
        key=table.key_fields,
        sequence=tuple(table.schema.field(n) for n in table.options.sequence_field),
        descending=table.options.sequence_descending,
        function=deduplicate_ignoring_deletes if table.options.ignore_delete else deduplicate,
    )


def needed_fields(table: Table, order: MergeOrder, columns: tuple[DataField, ...]) -> tuple[DataField, ...]:
    """Return the columns that a merge reads: system columns, key, sequence fields, and the requested `columns`."""
    by_id = {f.id: f for f in (*SYSTEM_FIELDS, *order.key, *order.sequence, *columns)}
    return tuple(by_id.values())
