"""Procedures for columns: alter_column_default_value."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.parameters import SUCCESS, TABLE
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Param, ParamType, procedure
from paimon_spark.calls.report import Report, metadata_report
from paimon_spark.core.maintenance.deletion import WRITE, Action
from paimon_spark.core.table import Table
from paimon_spark.spec.defaults import is_null_default
from paimon_spark.spec.evolution import UpdateColumnDefault, apply_changes
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.privileges import Privilege
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import AtomicType, TypeRoot

_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_MARKS = "'\"\\"


@dataclass(frozen=True, slots=True)
class _Default:
    identifier: Identifier
    table: Table
    change: UpdateColumnDefault


@procedure(
    name="alter_column_default_value",
    summary="Set the default value of a column.",
    params=(
        TABLE,
        Param("column", ParamType.STRING, "The column; `a.b` is the field `b` of the column `a`.", required=True),
        Param(
            "default_value",
            ParamType.STRING,
            "The value as a SQL literal, such as `5` or `ARRAY(1, 2)`; quotes around texts are optional. `'NULL'` "
            "removes the default.",
            required=True,
        ),
    ),
    columns=(SUCCESS,),
    example="CALL sys.alter_column_default_value('default.T', 'price', '0');",
)
class AlterColumnDefaultValue:
    """Set the value that a column has in rows written without it, as ALTER TABLE … ALTER COLUMN … SET DEFAULT does.

    Rows that are stored do not change.
    """

    requires = Privilege.ALTER_TABLE

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Default]:
        """Check the column and the value."""
        identifier = ctx.identifier(args.text("table"))
        table = ctx.load(identifier)
        column = tuple(part.strip() for part in args.text("column").split("."))
        value = _literal(table.schema, column, args.text("default_value"))
        change = UpdateColumnDefault(column, None if is_null_default(value) else value)
        has_snapshots = table.snapshots.latest_id() is not None
        schema = apply_changes(table.schema, [change], ctx.clock_millis(), has_snapshots=has_snapshots)
        reason = f"the default of {'.'.join(column)} is {change.default or 'removed'}"
        action = Action(WRITE, table.paths.schema(schema.id), len(schema.to_json().encode()), reason)
        actions = () if schema == table.schema else (action,)
        return Plan(actions, _Default(identifier, table, change))

    def execute(self, ctx: CallContext, plan: Plan[_Default]) -> Report:
        """Write the schema."""
        work = plan.payload
        if plan.actions:
            ctx.catalog.alter_table(work.identifier, [work.change])
        return metadata_report(work.table, plan.actions, ("Success",))


def _literal(schema: TableSchema, column: tuple[str, ...], text: str) -> str:
    """Return a value as a SQL literal: a text without quotes gets them if its column holds texts."""
    kinds = {f.name: f.type for f in schema.fields}
    kind = kinds.get(column[0]) if len(column) == 1 else None
    plain = isinstance(kind, AtomicType) and kind.root in _TEXTS and not any(mark in text for mark in _MARKS)
    return f"'{text}'" if plain and not is_null_default(text) else text
