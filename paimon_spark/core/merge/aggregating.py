"""Builds the merge functions that merge column by column, from the options of a table."""

from __future__ import annotations

from paimon_spark.core.merge.aggregates.registry import build_aggregate
from paimon_spark.core.merge.engines.aggregation import Aggregation
from paimon_spark.core.merge.engines.partial_update import PartialUpdate, SequenceGroup
from paimon_spark.core.merge.key_groups import MergeFunction, MergeInputs
from paimon_spark.core.table import Table
from paimon_spark.spec.aggregates import sequence_groups
from paimon_spark.spec.merge_rules import aggregated_fields


def aggregation(table: Table) -> tuple[MergeFunction, MergeInputs]:
    """Return the merge function of a table with the aggregation engine.

    Raises:
        OptionError: an option of an aggregate function is wrong.
    """
    functions = {f.name: build_aggregate(f, o) for f, o in aggregated_fields(table.schema, table.options)}
    return Aggregation(functions, table.options.removes_record_on_delete, _required(table)), {}


def partial_update(table: Table) -> tuple[MergeFunction, MergeInputs]:
    """Return the merge function of a table with the partial-update engine, and the columns that merging one reads.

    Raises:
        OptionError: an option of a sequence group or of an aggregate function is wrong.
    """
    options, schema = table.options, table.schema
    functions = {f.name: build_aggregate(f, o) for f, o in aggregated_fields(schema, options)}
    groups = []
    inputs: dict[str, tuple[str, ...]] = {}
    for found in sequence_groups(options, schema.fields, schema.primary_keys):
        groups.append(
            SequenceGroup(
                sequence=tuple(schema.field(n) for n in found.sequence),
                columns=found.columns,
                functions={c: functions[c] for c in found.columns if c in functions},
                removes_record=found.removes_record,
            )
        )
        inputs |= dict.fromkeys((*found.sequence, *found.columns), found.sequence)
    always = tuple(f.name for g in groups if g.removes_record for f in g.sequence)
    engine = PartialUpdate(
        frozenset(schema.primary_keys),
        tuple(groups),
        ignore_delete=table.stored_options.ignore_delete,
        remove_record_on_delete=options.removes_record_on_delete,
        required=_required(table),
    )
    return engine, inputs | ({"": always} if always else {})


def _required(table: Table) -> frozenset[str]:
    return frozenset(f.name for f in table.schema.fields if not f.type.nullable)
