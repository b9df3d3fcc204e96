"""Rules of the options of merge engines, and the rows and statements that an engine accepts.

(docs/spec/semantics.md, sections 4 and 18)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from paimon_spark.errors import ErrorKind, OptionError, UnsupportedError, UsageError
from paimon_spark.spec.aggregates import (
    AGGREGATION_REMOVE_ON_DELETE,
    REMOVE_ON_DELETE,
    REMOVE_ON_SEQUENCE_GROUP,
    AggregateName,
    AggregateOptions,
    SequenceGroupOptions,
    aggregate_options,
    sequence_groups,
    time_member,
)
from paimon_spark.spec.kinds import PICKING, ChangelogProducer, MergeEngine, Operation, RowKind
from paimon_spark.spec.options import UNAWARE_OR_DYNAMIC_BUCKET, CoreOptions
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import DataField, MapType, RowType

_RETRACTS = (RowKind.UPDATE_BEFORE, RowKind.DELETE)
_PLAIN = (AggregateName.LAST_VALUE, AggregateName.LAST_NON_NULL_VALUE)
"""Functions whose result is the new value if a whole row is written, and null if one is retracted."""


def aggregated_fields(schema: TableSchema, options: CoreOptions) -> Iterator[tuple[DataField, AggregateOptions]]:
    """Yield the columns that are merged by an aggregate function, with it.

    Raises:
        OptionError: an option of an aggregate function or a sequence group is wrong.
    """
    if options.merge_engine is MergeEngine.AGGREGATION:
        for f in schema.fields:
            if f.name in options.sequence_field:
                yield f, AggregateOptions(function=AggregateName.LAST_VALUE)
            elif f.name not in schema.primary_keys:
                found = aggregate_options(options, f, AggregateName.LAST_NON_NULL_VALUE)
                if found is not None:
                    yield f, found
    if options.merge_engine is MergeEngine.PARTIAL_UPDATE:
        for group in sequence_groups(options, schema.fields, schema.primary_keys):
            for f in (schema.field(name) for name in group.columns):
                found = aggregate_options(options, f)
                if found is not None:
                    yield f, found


def check_merge_options(schema: TableSchema, options: CoreOptions) -> None:
    """Reject options of the merge engine that are invalid or contradict each other.

    Raises:
        OptionError: an option is invalid, or two contradict each other.
    """
    if options.merge_engine is MergeEngine.AGGREGATION:
        if options.removes_record_on_delete and options.ignore_delete:
            raise _contradiction("ignore-delete", AGGREGATION_REMOVE_ON_DELETE)
        for f, found in aggregated_fields(schema, options):
            if options.removes_record_on_delete and found.ignore_retract:
                raise _contradiction(AGGREGATION_REMOVE_ON_DELETE, f"fields.{f.name}.ignore-retract")
    if options.merge_engine is MergeEngine.PARTIAL_UPDATE:
        _check_partial_update(schema, options)


def _check_partial_update(schema: TableSchema, options: CoreOptions) -> None:
    groups = sequence_groups(options, schema.fields, schema.primary_keys)
    removing = {
        REMOVE_ON_DELETE: options.removes_record_on_delete,
        REMOVE_ON_SEQUENCE_GROUP: bool(options.remove_record_on_sequence_group),
    }
    for option, on in removing.items():
        if options.ignore_delete and on:
            raise _contradiction("ignore-delete", option)
    if options.removes_record_on_delete and groups:
        raise _contradiction(REMOVE_ON_DELETE, groups[0].key)
    list(aggregated_fields(schema, options))
    grouped = {n for g in groups for n in (*g.columns, *g.sequence)}
    for f in schema.fields:
        if f.name in grouped or f.name in schema.primary_keys:
            continue
        found = aggregate_options(options, f)
        if found is not None and found.function is not AggregateName.LAST_NON_NULL_VALUE:
            raise OptionError(
                f"The option 'fields.{f.name}.aggregate-function' = '{found.function}' aggregates a column that "
                "is in no sequence group.",
                hint="Protect it by a sequence group, 'fields.<sequence column>.sequence-group', or use the engine "
                "aggregation.",
            )


_IN_ANY_ORDER = (
    AggregateName.SUM,
    AggregateName.PRODUCT,
    AggregateName.MAX,
    AggregateName.MIN,
    AggregateName.BOOL_AND,
    AggregateName.BOOL_OR,
    AggregateName.RBM32,
    AggregateName.RBM64,
    AggregateName.HLL_SKETCH,
    AggregateName.THETA_SKETCH,
    AggregateName.LAST_VALUE,
)
"""Functions that merge the results of some rows of a key into that of all, whichever rows those are. The last value is
one of them because the result of some rows has the sequence of the last of them."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A property of a table that is incompatible with an option, and the reason."""

    what: str
    why: str


def local_merge_obstacle(schema: TableSchema, options: CoreOptions) -> Obstacle | None:
    """Return the reason why rows of a key cannot be merged before they are shuffled; None if they can.

    (docs/spec/semantics.md, W20)

    Raises:
        OptionError: an option of an aggregate function or a sequence group is wrong.
    """
    if options.changelog_producer is ChangelogProducer.INPUT:
        return Obstacle("'changelog-producer' = 'input'", "the changelog would lack the rows that were merged")
    engine = options.merge_engine
    if engine in PICKING:
        return None
    if options.bucket == UNAWARE_OR_DYNAMIC_BUCKET and not set(schema.partition_keys) <= set(schema.primary_keys):
        what = f"'merge-engine' = '{engine}' and a primary key that does not contain the partition columns"
        return Obstacle(what, "the rows of a key may be of several partitions")
    groups = engine is MergeEngine.PARTIAL_UPDATE
    if options.sequence_field and groups:
        what = "'sequence.field' and 'merge-engine' = 'partial-update'"
        return Obstacle(what, "a column may be null in the latest of the rows")
    for f, found in aggregated_fields(schema, options):
        function = f"the function '{found.function}' of column '{f.name}'"
        if found.function is AggregateName.MERGE_MAP_WITH_KEYTIME:
            return Obstacle(function, "its values must be merged one after the other")
        if found.function not in _IN_ANY_ORDER and (options.sequence_field or groups):
            by = "a sequence group" if groups else "'sequence.field'"
            return Obstacle(f"{function} by {by}", "its values must be in order")
    return None


def check_time_members(before: TableSchema, after: TableSchema) -> None:
    """Reject a change of columns that changes the time member of a ``merge_map_with_keytime`` column.

    The time is the last member of the map's rows unless an option names it.

    Raises:
        UsageError: a new or moved member would become the time.
    """
    try:
        old = _time_members(before)
    except OptionError:  # written by another engine; the change may correct it
        return
    new = _time_members(after)
    for column, time in new.items():
        if column in old and old[column].id != time.id:
            name = next(f.name for f in after.fields if f.id == column)
            if after.options.get(f"fields.{name}.ts-field") != before.options.get(f"fields.{name}.ts-field"):
                continue
            raise UsageError(
                f"The change would make the member '{time.name}' the time of the entries of column '{name}'.",
                hint=f"Set 'fields.{name}.ts-field' = '{old[column].name}' first.",
                kind=ErrorKind.SCHEMA_INVALID,
            )


def _time_members(schema: TableSchema) -> dict[int, DataField]:
    """Return the time member of each ``merge_map_with_keytime`` column, by the id of the column."""
    options = CoreOptions(schema.options)
    found: dict[int, DataField] = {}
    if not schema.primary_keys:
        return found
    for f, function in aggregated_fields(schema, options):
        if function.function is AggregateName.MERGE_MAP_WITH_KEYTIME and isinstance(f.type, MapType):
            row, name = f.type.value, time_member(f, function)
            if isinstance(row, RowType):
                found[f.id] = next(m for m in row.fields if m.name == name)
    return found


def _contradiction(one: str, other: str) -> OptionError:
    return OptionError(f"The options '{one}' and '{other}' contradict each other.", hint="Set only one of them.")


@dataclass(frozen=True, slots=True)
class RefusedRows:
    """Rows of a kind that cannot be merged: the cause and the remedy.

    Attributes:
        kind: their row kind.
        who: what does not take them.
        hint: the remedy.
        sequence: the sequence fields of a group that rows without a value in any of them do not change, so that these
            rows can be merged; empty if no rows of the kind can.
    """

    kind: RowKind
    who: str
    hint: str
    sequence: tuple[str, ...] = ()

    def error(self) -> UnsupportedError:
        """Return the error for such a row."""
        return UnsupportedError(
            f"A row of kind {self.kind.short} cannot be written: {self.who} does not take it.", hint=self.hint
        )


def refused_rows(schema: TableSchema, options: CoreOptions) -> tuple[RefusedRows, ...]:
    """Return the rows that the merge engine cannot merge, each with the reason."""
    if not schema.primary_keys or options.ignore_delete:
        return ()
    hint = "Set 'ignore-delete' = 'true' to ignore such rows"
    if options.merge_engine is MergeEngine.FIRST_ROW:
        return tuple(RefusedRows(k, "the merge engine first-row", f"{hint}.") for k in _RETRACTS)
    if options.merge_engine is MergeEngine.PARTIAL_UPDATE:
        if options.removes_record_on_delete:
            return ()
        if not sequence_groups(options, schema.fields, schema.primary_keys):
            who = "the merge engine partial-update without sequence groups"
            way = f"{hint}, or '{REMOVE_ON_DELETE}' = 'true' to let -D rows delete the row."
            return tuple(RefusedRows(k, who, way) for k in _RETRACTS)
    return tuple(_not_retracted(schema, options))


def _not_retracted(schema: TableSchema, options: CoreOptions) -> Iterator[RefusedRows]:
    """Yield the rows that cannot be retracted from a column.

    A ``-D`` that removes the row if it is not late for a sequence group may be late, and is then retracted. A ``-U``
    may leave a NOT NULL column without value, because a ``+U`` follows.
    """
    functions = {f.name: found for f, found in aggregated_fields(schema, options)}
    groups: dict[str, SequenceGroupOptions] = {}
    if options.merge_engine is MergeEngine.PARTIAL_UPDATE:
        for group in sequence_groups(options, schema.fields, schema.primary_keys):
            groups |= dict.fromkeys(group.columns, group)
    kinds = _RETRACTS[:1] if options.removes_record_on_delete else _RETRACTS
    for f in (f for f in schema.fields if f.name in functions or f.name in groups):
        found, of = functions.get(f.name), groups.get(f.name)
        sequence = () if of is None else of.sequence
        if found is not None and found.ignore_retract:
            continue
        if found is not None and not found.function.retractable:
            way = f"Set 'fields.{f.name}.ignore-retract' = 'true' to ignore them for this column."
            who = f"the aggregate function '{found.function}' of column '{f.name}'"
            yield from (RefusedRows(k, who, way, sequence) for k in kinds)
        elif RowKind.DELETE in kinds and not f.type.nullable and _empties(found, of):
            way = f"Make the column nullable: ALTER TABLE … ALTER COLUMN {f.name} DROP NOT NULL."
            who = f"the NOT NULL column '{f.name}', which it would leave without a value,"
            yield RefusedRows(RowKind.DELETE, who, way, sequence)


def _empties(function: AggregateOptions | None, group: SequenceGroupOptions | None) -> bool:
    """Return whether a ``-D`` may make a column null: without a function, it is not retracted if the ``-D`` is late."""
    return function.function in _PLAIN if function is not None else group is not None and not group.removes_record


def removing_sequence(schema: TableSchema, options: CoreOptions) -> tuple[str, ...]:
    """Return the sequence fields of which a ``-D`` needs a value to remove the row; empty if it needs none.

    Raises:
        OptionError: a sequence group is wrong.
    """
    if options.merge_engine is not MergeEngine.PARTIAL_UPDATE:
        return ()
    groups = sequence_groups(options, schema.fields, schema.primary_keys)
    return tuple(n for g in groups if g.removes_record for n in g.sequence)


def rewrites_rows(schema: TableSchema, options: CoreOptions, operation: Operation | None) -> bool:
    """Return whether a DELETE, UPDATE or MERGE rewrites the files of the rows that it changes.

    It does if no row to merge has the effect of the statement.

    Raises:
        OptionError: an option of the merge engine is wrong.
    """
    engine = options.merge_engine
    if not schema.primary_keys:
        return False
    if engine is MergeEngine.DEDUPLICATE:
        return operation is Operation.DELETE and options.ignore_delete
    if operation is Operation.DELETE:
        removes = options.removes_record_on_delete or options.remove_record_on_sequence_group
        refused = any(r.kind is RowKind.DELETE for r in refused_rows(schema, options))
        return options.ignore_delete or not removes or refused
    if operation not in (Operation.UPDATE, Operation.MERGE):
        return False
    aggregates = (found.function not in _PLAIN for _, found in aggregated_fields(schema, options))
    return engine is not MergeEngine.PARTIAL_UPDATE or any(aggregates)


def rewrites_replaced_rows(schema: TableSchema, options: CoreOptions) -> bool:
    """Return whether a statement that replaces rows rewrites their files.

    It does if a new row merged with the one that it replaces may keep values of it, or all of it.
    """
    if not schema.primary_keys:
        return False
    return options.merge_engine is not MergeEngine.DEDUPLICATE or bool(options.sequence_field)


def check_statement(schema: TableSchema, options: CoreOptions, operation: Operation | None) -> None:
    """Reject writing the rows of a DELETE, UPDATE or MERGE with their kinds if the engine would merge them differently.

    Raises:
        UnsupportedError: the engine does not support the statement.
    """
    if rewrites_rows(schema, options, operation):
        raise UnsupportedError(
            f"{operation} cannot change a table with 'merge-engine' = '{options.merge_engine}' by rows to be merged.",
            hint=f"Use the SQL statement {operation}, which rewrites the files of the rows, or INSERT rows to merge.",
        )
