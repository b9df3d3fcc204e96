"""Merge configuration of a table: its key, sequence fields and merge function."""

from __future__ import annotations

from collections.abc import Callable

from paimon_spark.core.merge.engines.deduplicate import deduplicate, deduplicate_ignoring_deletes
from paimon_spark.core.merge.engines.first_row import first_row, first_row_ignoring_deletes
from paimon_spark.core.merge.engines.lookup import WithUpperLevels
from paimon_spark.core.merge.key_groups import MergeFunction, MergeInputs
from paimon_spark.core.merge.sort_merge import MergeOrder
from paimon_spark.core.table import Table
from paimon_spark.spec.kinds import (
    PICKING,
    SEQUENCE_NUMBER,
    SEQUENCE_NUMBER_FIELD_ID,
    VALUE_KIND,
    VALUE_KIND_FIELD_ID,
    ChangelogProducer,
    MergeEngine,
)
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.types import AtomicType, DataField, TypeRoot

SEQUENCE_FIELD = DataField(SEQUENCE_NUMBER_FIELD_ID, SEQUENCE_NUMBER, AtomicType(TypeRoot.BIGINT, nullable=False))
KIND_FIELD = DataField(VALUE_KIND_FIELD_ID, VALUE_KIND, AtomicType(TypeRoot.TINYINT, nullable=False))
SYSTEM_FIELDS = (SEQUENCE_FIELD, KIND_FIELD)


def merge_order(table: Table, *, stored: bool = True) -> MergeOrder:
    """Return the merge order of a primary key table.

    It depends on stored options only: whatever a statement does, every reader merges the same rows alike.

    Args:
        table: the table.
        stored: whether rows of files are merged, which have a level, and not those of a write buffer.

    Raises:
        OptionError: an option of the merge engine is wrong.
    """
    engine = table.options.merge_engine
    function, inputs = _ENGINES[engine](table)
    levels = stored and engine not in PICKING and needs_lookup(table)
    return MergeOrder(
        key=table.key_fields,
        sequence=tuple(table.schema.field(n) for n in table.options.sequence_field),
        descending=table.options.sequence_descending,
        function=WithUpperLevels(function) if levels else function,
        inputs=inputs,
        picks=engine in PICKING,
        levels=levels,
    )


def needs_lookup(table: Table) -> bool:
    """Return whether compaction joins older rows of upper levels into the rows that it writes."""
    return looks_up(table.options)


def looks_up(options: CoreOptions) -> bool:
    """Return whether compaction of a table with these options joins older rows of upper levels into those it writes.

    (docs/spec/semantics.md, M1)
    """
    return (
        options.merge_engine is MergeEngine.FIRST_ROW
        or options.changelog_producer is ChangelogProducer.LOOKUP
        or options.deletion_vectors_enabled
        or options.flag("force-lookup")
    )


def _deduplicate(table: Table) -> tuple[MergeFunction, MergeInputs]:
    return deduplicate_ignoring_deletes if table.stored_options.ignore_delete else deduplicate, {}


def _first_row(table: Table) -> tuple[MergeFunction, MergeInputs]:
    return first_row_ignoring_deletes if table.stored_options.ignore_delete else first_row, {}


def _aggregation(table: Table) -> tuple[MergeFunction, MergeInputs]:
    from paimon_spark.core.merge import aggregating  # not at module level, because most workers do not need it

    return aggregating.aggregation(table)


def _partial_update(table: Table) -> tuple[MergeFunction, MergeInputs]:
    from paimon_spark.core.merge import aggregating  # not at module level, because most workers do not need it

    return aggregating.partial_update(table)


_ENGINES: dict[MergeEngine, Callable[[Table], tuple[MergeFunction, MergeInputs]]] = {
    MergeEngine.DEDUPLICATE: _deduplicate,
    MergeEngine.PARTIAL_UPDATE: _partial_update,
    MergeEngine.AGGREGATION: _aggregation,
    MergeEngine.FIRST_ROW: _first_row,
}


def needed_fields(table: Table, order: MergeOrder, columns: tuple[DataField, ...]) -> tuple[DataField, ...]:
    """Return the columns that a merge reads: system columns, key, sequence fields, and the requested `columns`."""
    names = dict.fromkeys(n for c in ("", *(f.name for f in columns)) for n in order.inputs.get(c, ()))
    inputs = (table.schema.field(n) for n in names)
    by_id = {f.id: f for f in (*SYSTEM_FIELDS, *order.key, *order.sequence, *inputs, *columns)}
    return tuple(by_id.values())
