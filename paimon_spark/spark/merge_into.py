"""merge_into as one Spark job: one join, one shuffle, one transfer to Python, one commit.

Every action of a merge is a query of its own by definition. All of them are computed by one outer join: each joined row
has the actions that apply to it, becomes one row for each of them, and is written to its bucket with a row kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DataType

from paimon_spark.core.columns import ROW_KIND, reserved
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import WriteResult
from paimon_spark.engine.merge_into import CONDITIONED_TOGETHER, Clause, MergeAction, MergeRequest
from paimon_spark.engine.row_level import check_digits
from paimon_spark.errors import ArgumentError, ErrorKind
from paimon_spark.spark.failures import first_line
from paimon_spark.spark.jvm_frames import on_session
from paimon_spark.spark.store_assignment import assigned, check_assignable
from paimon_spark.spark.temp_session import TemporarySession
from paimon_spark.spark.writes import write_frame
from paimon_spark.spec.identifier import Identifier, split_name
from paimon_spark.spec.kinds import Operation, RowKind
from paimon_spark.sqlparse.fragments import (
    STAR,
    Scope,
    Side,
    resolve_expression,
    resolve_settings,
    resolve_values,
)

TARGET, SOURCE = "__target__", "__source__"
_IN_TARGET, _IN_SOURCE, _CLAUSE = map(reserved, ("_in_target_", "_in_source_", "_clause_"))
_MATCHED = (Clause.MATCHED_UPSERT, Clause.MATCHED_DELETE)
_BY_SOURCE = (Clause.BY_SOURCE_UPSERT, Clause.BY_SOURCE_DELETE)


@dataclass(frozen=True, slots=True)
class _Action:
    """One action with its texts resolved: the condition, and one expression for each column of the table."""

    clause: Clause
    condition: str | None
    values: tuple[str, ...]


class SparkMerge:
    """A merge with resolved fragments, over the frames of its tables."""

    def __init__(
        self, session: TemporarySession, table: Table, joined: DataFrame, actions: tuple[_Action, ...]
    ) -> None:
        """Store the result of `prepare_merge`."""
        self._session = session
        self._table = table
        self._joined = joined
        self._actions = actions

    def run(self) -> WriteResult:
        """Write the rows of all actions and commit them."""
        try:
            rows = self._session.under_ansi(lambda: self._rows(self._picked()))
            session = self._session.origin
            frame = on_session(rows, session)
            return write_frame(session, self._table, frame, operation=Operation.MERGE, order=_write_order())
        finally:
            self._session.close()

    def _picked(self) -> DataFrame:
        """Return the joined rows with the action that applies; a row may have two of them."""
        choices = [f.when(_applies(a), f.lit(n)) for n, a in enumerate(self._actions)]
        clauses = [a.clause for a in self._actions]
        alone = not any(all(c in clauses for c in pair) for pair in CONDITIONED_TOGETHER)
        chosen = f.coalesce(*choices) if alone else f.explode(f.array_compact(f.array(*choices)))
        named = self._joined.select("*", chosen.alias(_CLAUSE)).where(f.col(_CLAUSE).isNotNull())
        values = [
            f.when(f.col(_CLAUSE) == n, f.expr(text)).alias(_value(n, i))
            for n, action in enumerate(self._actions)
            for i, text in enumerate(action.values)
        ]
        return named.select(_CLAUSE, *values)

    def _rows(self, picked: DataFrame) -> DataFrame:
        """Return the rows to write: the table's columns, each from the action of its row, and the row kind."""
        types = {c.name: c.dataType for c in picked.schema.fields}
        columns = []
        for i, field in enumerate(self._table.schema.fields):
            value = [assigned(_value(n, i), types[_value(n, i)], field) for n in range(len(self._actions))]
            columns.append(_by_clause(value).alias(field.name))
        kinds = [f.lit(int(a.clause.kind)).cast("tinyint") for a in self._actions]
        return picked.select(*columns, _by_clause(kinds).alias(ROW_KIND))


def prepare_merge(
    session: SparkSession, catalog: str, table: Table, name: Identifier, request: MergeRequest
) -> SparkMerge:
    """Set up the temporary environment of a merge and check its fragments against the tables.

    Raises:
        ArgumentError: a source statement fails, a table does not exist, or a fragment does not fit the tables.
    """
    temporary = TemporarySession(session, catalog, name)
    try:
        return _prepare(temporary, catalog, table, name, request)
    except BaseException:
        temporary.close()
        raise


def _prepare(
    temporary: TemporarySession, catalog: str, table: Table, name: Identifier, request: MergeRequest
) -> SparkMerge:
    if any(action.clause is not Clause.INSERT for action in request.actions):
        check_digits(table, Operation.MERGE)
    target, source, here, there = tables_of(temporary, catalog, table, name, request)
    both = Scope((here, there), (here, there))
    condition = resolve_expression(request.condition, both, "merge_condition")
    actions = tuple(_resolved(table, action, here, there) for action in request.actions)
    left = target.select("*", f.expr("true").alias(_IN_TARGET)).alias(TARGET)
    right = source.select("*", f.expr("true").alias(_IN_SOURCE)).alias(SOURCE)
    _check(left.crossJoin(right), table, request, condition, actions)
    joined = _join(left, right, condition, {a.clause for a in actions})
    return SparkMerge(temporary, table, joined, actions)


def tables_of(
    temporary: TemporarySession, catalog: str, table: Table, name: Identifier, request: MergeRequest
) -> tuple[DataFrame, DataFrame, Side, Side]:
    """Run the statements of a request; return its target and source, and both by their names in fragments."""
    target = temporary.target(name)
    if request.target_alias is not None:
        temporary.name_target(target, request.target_alias)
    temporary.run_source_sqls(request.source_sqls or "")
    source_name = tuple(split_name(request.source_table))
    source = temporary.table(source_name, "source_table")
    here, there = _sides(table, catalog, name, request, source_name, source)
    return target, source, here, there


def _sides(
    table: Table,
    catalog: str,
    name: Identifier,
    request: MergeRequest,
    source_name: tuple[str, ...],
    source: DataFrame,
) -> tuple[Side, Side]:
    """Return the two tables by their names in fragments; a name of both refers to the source."""
    whole = (catalog, name.database, name.object_name)
    theirs = _suffixes(source_name)
    own = _suffixes(whole)
    if request.target_alias is None and _lower(own[0]) == _lower(theirs[0]):
        raise ArgumentError(
            f"Target and source are both called '{own[0][-1]}'.",
            hint="Rename the target with target_alias.",
        )
    if request.target_alias is not None:
        taken = {_lower(n) for n in theirs}
        own = ((request.target_alias,), *(n for n in own if _lower(n) not in taken))
        if (request.target_alias.lower(),) in taken:
            raise ArgumentError(
                f"target_alias is '{request.target_alias}', which is the name of the source.", hint="Choose another."
            )
    columns = tuple(source.columns)
    twice = {c for c in columns if [x.lower() for x in columns].count(c.lower()) > 1}
    if twice:
        raise ArgumentError(
            f"The source {request.source_table} has several columns called {', '.join(sorted(twice))}.",
            hint="Give them distinct names in a view of 'source_sqls'.",
        )
    here = Side("target", own, tuple(table.schema.field_names), TARGET)
    return here, Side("source", theirs, columns, SOURCE)


def _suffixes(name: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(name[i:] for i in range(len(name) - 1, -1, -1))


def _lower(name: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.lower() for part in name)


def _resolved(table: Table, action: MergeAction, here: Side, there: Side) -> _Action:
    """Return an action over the columns that it may refer to."""
    visible = (here, there) if action.clause in _MATCHED else (here,) if action.clause in _BY_SOURCE else (there,)
    scope = Scope(visible, (here, there))
    condition = None
    if action.condition is not None:
        condition = resolve_expression(action.condition, scope, action.condition_argument)
    return _Action(action.clause, condition, _values(table, action, scope, here, there))


def _values(table: Table, action: MergeAction, scope: Scope, here: Side, there: Side) -> tuple[str, ...]:
    names = table.schema.field_names
    if action.values is None:
        return tuple(here.reference(n) for n in names)
    if action.clause is Clause.INSERT or action.values.strip() == STAR:
        values = tuple(resolve_values(action.values, there, scope, action.values_argument))
        if len(values) != len(names):
            raise ArgumentError(
                f"The {action.clause} of merge_into gives {len(values)} values ('{action.values_argument}' is "
                f"{action.values}), but table {table.name} has {len(names)} columns.",
                hint=f"Give one value for each of {', '.join(names)}.",
            )
        return values
    changed = resolve_settings(action.values, here, scope, action.values_argument)
    _refuse_key_change(table, action, changed)
    return tuple(changed.get(n, here.reference(n)) for n in names)


def _refuse_key_change(table: Table, action: MergeAction, changed: Mapping[str, str]) -> None:
    keys = [k for k in table.schema.primary_keys if k in changed]
    if keys and action.clause is Clause.BY_SOURCE_UPSERT:
        raise ArgumentError(
            f"The argument '{action.values_argument}' sets {', '.join(keys)}, which is in the primary key of table "
            f"{table.name}.",
            hint="Set other columns.",
        )


def _check(rows: DataFrame, table: Table, request: MergeRequest, condition: str, actions: tuple[_Action, ...]) -> None:
    """Analyse every fragment separately, so that an error names its argument."""
    given = {a.clause: a for a in request.actions}
    check_condition(rows, condition, request.condition, "merge_condition")
    for action in actions:
        raw = given[action.clause]
        if action.condition is not None:
            check_condition(rows, action.condition, raw.condition or "", raw.condition_argument)
        kinds = analysed(rows, action.values, raw.values or "", raw.values_argument)
        for field, kind in zip(table.schema.fields, kinds, strict=True):
            check_assignable(kind, field, f"{action.clause} of merge_into", table.name)


def check_condition(rows: DataFrame, text: str, written: str, parameter: str) -> None:
    """Analyse a condition, `written` as the argument `parameter`.

    Raises:
        ArgumentError: it does not fit the tables, or is not a condition.
    """
    (kind,) = analysed(rows, (text,), written, parameter)
    if kind.typeName() not in ("boolean", "void"):
        raise ArgumentError(
            f"The argument '{parameter}' ({written}) is not a condition: its type is {kind.simpleString()}.",
            hint="Write a comparison.",
            kind=ErrorKind.TYPE_MISMATCH,
        )


def analysed(rows: DataFrame, texts: Sequence[str], written: str, parameter: str) -> list[DataType]:
    """Return the types of expressions; analysed together with all columns, none of them can be an aggregate."""
    try:
        fields = rows.select("*", *(f.expr(text) for text in texts)).schema.fields
        return [field.dataType for field in fields[-len(texts) :]]
    except PySparkException as e:
        raise ArgumentError(
            f"The argument '{parameter}' ({written}) does not fit the tables: {first_line(e)}",
            hint="Check names and types.",
        ) from e


def _join(left: DataFrame, right: DataFrame, condition: str, clauses: set[Clause]) -> DataFrame:
    """Join target and source such that the result has the rows of all actions."""
    on = f.expr(condition)
    targets, sources = bool(clauses & set(_BY_SOURCE)), Clause.INSERT in clauses
    if not clauses & set(_MATCHED):
        if not targets:
            return right.join(left, on, "left_anti").withColumn(_IN_TARGET, f.lit(None).cast("boolean"))
        if not sources:
            return left.join(right, on, "left_anti").withColumn(_IN_SOURCE, f.lit(None).cast("boolean"))
    how = {(True, True): "full_outer", (True, False): "left_outer", (False, True): "right_outer"}
    return left.join(right, on, how.get((targets, sources), "inner"))


def _applies(action: _Action) -> Column:
    here, there = f.col(_IN_TARGET).isNotNull(), f.col(_IN_SOURCE).isNotNull()
    if action.clause in _MATCHED:
        where = here & there
    else:
        where = here & ~there if action.clause in _BY_SOURCE else there & ~here
    return where if action.condition is None else where & f.expr(action.condition)


def _value(action: int, column: int) -> str:
    return f"__value_{action}_{column}__"


def _by_clause(values: list[Column]) -> Column:
    chosen = f.when(f.col(_CLAUSE) == 0, values[0])
    for n, value in enumerate(values[1:], 1):
        chosen = chosen.when(f.col(_CLAUSE) == n, value)
    return chosen


def _write_order() -> Column:
    """Upserts are written first, then deletes, then inserts: of rows with one key, the last one wins."""
    kind = f.col(ROW_KIND)
    return f.when(kind == int(RowKind.INSERT), f.lit(len(RowKind))).otherwise(kind.cast("int"))
