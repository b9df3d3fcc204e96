"""data_evolution_merge_into as one Spark job: an inner join, a shuffle by row range, new column files, one commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from paimon_spark.core.columns import FILE_PATH, ROW_INDEX, ROW_KIND, TRACKING_FIELDS, VECTOR, reserved
from paimon_spark.core.table import Table
from paimon_spark.engine.column_merge import UPDATE_SET
from paimon_spark.engine.insert import WriteResult
from paimon_spark.engine.merge_into import STAR, MergeRequest
from paimon_spark.engine.row_level import RowChanges, check_digits
from paimon_spark.errors import ArgumentError, ErrorKind, did_you_mean
from paimon_spark.spark.jvm_frames import on_session
from paimon_spark.spark.merge_into import SOURCE, TARGET, analysed, check_condition, tables_of
from paimon_spark.spark.row_level import change_rows
from paimon_spark.spark.store_assignment import assigned, check_assignable
from paimon_spark.spark.temp_session import TemporarySession
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.kinds import ROW_ID, Operation, RowKind
from paimon_spark.sqlparse.fragments import Scope, Side, resolve_expression, resolve_settings

_PLACE = (FILE_PATH, ROW_INDEX, VECTOR)
_OF_TARGET = reserved("_target_")


class SparkColumnMerge:
    """A merge with resolved fragments, over the joined rows of its tables."""

    def __init__(self, session: TemporarySession, table: Table, joined: DataFrame, values: Mapping[str, str]) -> None:
        """Store the result of `prepare_column_merge`: the new values by column."""
        self._session = session
        self._table = table
        self._joined = joined
        self._values = values

    def run(self) -> WriteResult:
        """Write the new values and commit them."""
        try:
            frame = on_session(self._session.under_ansi(self._rows), self._session.origin)
            changes = RowChanges(tuple(self._values))
            return change_rows(self._session.origin, self._table, frame, Operation.MERGE, changes=changes)
        finally:
            self._session.close()

    def _rows(self) -> DataFrame:
        """Return the new values of each matched row, and its place."""
        places = [f.col(f"{TARGET}.{_OF_TARGET}{name}").alias(name) for name in _PLACE]
        values = [f.expr(text).alias(f"__value_{i}__") for i, text in enumerate(self._values.values())]
        picked = self._joined.select(*values, *places)
        fields = [self._table.schema.field(name) for name in self._values]
        typed = zip(fields, picked.schema.fields, strict=False)
        columns = [assigned(c.name, c.dataType, field).alias(field.name) for field, c in typed]
        kind = f.lit(int(RowKind.UPDATE_AFTER)).cast("tinyint").alias(ROW_KIND)
        return picked.select(*columns, kind, *_PLACE)


def prepare_column_merge(
    session: SparkSession, catalog: str, table: Table, name: Identifier, request: MergeRequest, updates: str
) -> SparkColumnMerge:
    """Set up the temporary environment of a merge and check its fragments against the tables.

    Raises:
        ArgumentError: a source statement fails, a table does not exist, or a fragment does not fit the tables.
    """
    temporary = TemporarySession(session, catalog, name)
    try:
        return _prepare(temporary, catalog, table, name, request, updates)
    except BaseException:
        temporary.close()
        raise


def _prepare(
    temporary: TemporarySession, catalog: str, table: Table, name: Identifier, request: MergeRequest, updates: str
) -> SparkColumnMerge:
    target, source, here, there = tables_of(temporary, catalog, table, name, request)
    values = _values(table, here, there, updates)
    check_digits(table, Operation.MERGE, tuple(values))
    both = _scope(here, there)
    condition = resolve_expression(request.condition, both, "merge_condition")
    tracking = [f.col(t.name) for t in TRACKING_FIELDS]
    places = [f.col(name).alias(f"{_OF_TARGET}{name}") for name in _PLACE]
    left = target.select("*", *tracking, *places).alias(TARGET)
    joined = left.crossJoin(source.alias(SOURCE))
    check_condition(joined, condition, request.condition, "merge_condition")
    kinds = analysed(joined, tuple(values.values()), updates, UPDATE_SET)
    for column, kind in zip(values, kinds, strict=True):
        check_assignable(kind, table.schema.field(column), f"argument '{UPDATE_SET}'", table.name)
    return SparkColumnMerge(temporary, table, left.join(source.alias(SOURCE), f.expr(condition), "inner"), values)


def _values(table: Table, here: Side, there: Side, updates: str) -> dict[str, str]:
    """Return the expressions of the new values, by column."""
    if updates.strip() == STAR:
        found = {_own(here, c, updates): there.reference(c) for c in there.columns if c != ROW_ID}
    else:
        found = resolve_settings(updates, here, _scope(here, there), UPDATE_SET)
    moved = [c for c in found if c in table.schema.partition_keys]
    if moved:
        raise ArgumentError(
            f"The argument '{UPDATE_SET}' ({updates}) sets {', '.join(moved)}, by which table {table.name} is "
            "partitioned: a row would lose its id.",
            hint="Set other columns, or delete the rows and insert them into the other partition.",
        )
    return found


def _scope(here: Side, there: Side) -> Scope:
    """Return the columns of both tables, and the ids of the rows of the target."""
    numbered = replace(here, columns=(*here.columns, *(t.name for t in TRACKING_FIELDS)))
    return Scope((numbered, there), (numbered, there))


def _own(here: Side, column: str, updates: str) -> str:
    found = here.column(column)
    if found is None:
        raise ArgumentError(
            f"The argument '{UPDATE_SET}' is {updates}, but the source has the column '{column}', which the target "
            f"{here.shown} does not have.",
            hint=f"{did_you_mean(column, here.columns)} Write column = expression for the columns to change.".strip(),
            kind=ErrorKind.COLUMN_NOT_FOUND,
        )
    return found
