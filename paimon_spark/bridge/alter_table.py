"""ALTER TABLE: the JVM's table changes as changes of the schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.types import type_from_spark
from paimon_spark.spec import evolution
from paimon_spark.spec.types import DataField

Json = dict[str, Any]


def schema_changes(changes: Sequence[Json]) -> list[evolution.SchemaChange]:
    """Return the schema changes that the table changes of one statement require.

    REPLACE COLUMNS arrives as a drop of each column, followed by the new columns; no other statement has both.

    Raises:
        UnsupportedError: the table format has no such change.
    """
    ops = [raw["op"] for raw in changes]
    dropped = ops.count("drop")
    if 0 < dropped < len(ops) and ops == ["drop"] * dropped + ["add"] * (len(ops) - dropped):
        old = tuple(raw["column"][0] for raw in changes[:dropped])
        return [evolution.ReplaceColumns(old, tuple(_replacing(raw) for raw in changes[dropped:]))]
    return [schema_change(raw) for raw in changes]


def _replacing(raw: Json) -> DataField:
    (name,) = raw["column"]
    column_type = type_from_spark(raw["type"], nullable=raw["nullable"])
    return DataField(0, name, column_type, raw["comment"], raw.get("default"))


def schema_change(raw: Json) -> evolution.SchemaChange:
    """Return the schema change for one table change.

    Raises:
        UnsupportedError: the table format has no such change.
    """
    if raw["op"] in ("set", "remove"):
        return _option(raw)
    column = tuple(raw["column"])
    op = raw["op"]
    if op == "add":
        return _added(raw, column)
    if op == "rename":
        return evolution.RenameColumn(column, raw["to"])
    if op == "drop":
        return evolution.DropColumn(column, if_exists=bool(raw.get("if_exists")))
    if op == "type":
        return evolution.UpdateColumnType(column, type_from_spark(raw["type"]))
    if op == "nullability":
        return evolution.UpdateColumnNullability(column, raw["nullable"])
    if op == "comment":
        return evolution.UpdateColumnComment(column, raw["comment"])
    if op == "position":
        after, first = _position(raw["position"])
        return evolution.UpdateColumnPosition(column, after, first)
    if op == "default":
        return evolution.UpdateColumnDefault(column, raw["default"] or None)
    raise UnsupportedError(f"ALTER TABLE with the change '{op}' is not supported.")


def _option(raw: Json) -> evolution.SchemaChange:
    key = raw["key"]
    if key == "comment":
        return evolution.SetComment(raw.get("value"))
    return evolution.SetOption(key, raw["value"]) if raw["op"] == "set" else evolution.RemoveOption(key)


def _added(raw: Json, column: tuple[str, ...]) -> evolution.SchemaChange:
    if raw.get("default") is not None:
        raise UnsupportedError(
            f"The new column '{'.'.join(column)}' cannot have a DEFAULT.",
            hint="Add the column first, then ALTER COLUMN … SET DEFAULT for later rows.",
        )
    after, first = _position(raw["position"])
    return evolution.AddColumn(
        column, type_from_spark(raw["type"], nullable=raw["nullable"]), raw["comment"], after, first
    )


def _position(raw: Json | None) -> tuple[str | None, bool]:
    """Return (after which column, whether first)."""
    return (None, False) if raw is None else (raw.get("after"), bool(raw.get("first")))
