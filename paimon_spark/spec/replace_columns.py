"""ALTER TABLE … REPLACE COLUMNS as a list of changes of single columns.

Columns, and members of nested columns, that are in both definitions keep their ids and therefore their values. New ones
are added before old ones are dropped, so that each schema in between is valid.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from paimon_spark.errors import ConflictError, UnsupportedError
from paimon_spark.spec.column_changes import (
    AddColumn,
    ColumnChange,
    DropColumn,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
)
from paimon_spark.spec.column_options import Path
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.schema_rules import invalid
from paimon_spark.spec.types import (
    BYTES,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    not_null,
)

_STATED = {
    TypeRoot.TIME: AtomicType(TypeRoot.INT),
    TypeRoot.BINARY: BYTES,
    TypeRoot.BLOB: BYTES,
    TypeRoot.TIMESTAMP: AtomicType(TypeRoot.TIMESTAMP, precision=6),
    TypeRoot.TIMESTAMP_LTZ: AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=6),
}
"""The types in SQL statements for types without a name in SQL."""


@dataclass(frozen=True, slots=True)
class ReplaceColumns:
    """Replace the columns `old` by the columns `new`, whose ids are assigned later."""

    old: tuple[str, ...]
    new: tuple[DataField, ...]


def replacing_changes(schema: TableSchema, change: ReplaceColumns) -> list[ColumnChange]:
    """Return the changes of single columns that replace the columns of `schema`.

    Raises:
        ConflictError: the table no longer has the columns that the statement replaces.
        UsageError: two names differ only in case.
        UnsupportedError: a new column has a default.
    """
    if change.old != schema.field_names:
        raise ConflictError(
            f"The columns of the table were changed concurrently: they are {', '.join(schema.field_names)}.",
            hint="Nothing was changed by this statement. Run it again.",
        )
    _check_names(schema.field_names, change.new)
    return list(_members(schema.fields, change.new, (), schema.primary_keys))


def _check_names(old: Sequence[str], new: Sequence[DataField]) -> None:
    twice = {n for n in (f.name for f in new) if sum(f.name == n for f in new) > 1}
    if twice:
        raise invalid(f"The column '{min(twice)}' is defined more than once.", "Give each column its own name.")
    for f in new:
        near = [n for n in old if n != f.name and n.lower() == f.name.lower()]
        if near and f.name not in old:
            raise invalid(
                f"The column '{f.name}' differs from the column '{near[0]}' only in case.",
                f"Write '{near[0]}' to keep its values, or rename it first.",
            )


def _members(
    old: Sequence[DataField], new: Sequence[DataField], path: Path, keys: Sequence[str] = ()
) -> Iterator[ColumnChange]:
    """Yield the changes of columns or members; those in `keys` stay NOT NULL."""
    before, after = {f.name: f for f in old}, [f.name for f in new]
    for f in new:
        column = (*path, f.name)
        if f.name not in before:
            yield _added(f, column)
            continue
        known = before[f.name]
        yield from _retyped(known.type, f.type, column, is_key=f.name in keys)
        if known.description != f.description:
            yield UpdateColumnComment(column, f.description)
        if known.default_value != f.default_value:
            yield UpdateColumnDefault(column, f.default_value)
    yield from (DropColumn((*path, f.name)) for f in old if f.name not in after)
    kept = [f.name for f in old if f.name in after]
    if after != kept:
        for n, name in enumerate(after):
            yield UpdateColumnPosition((*path, name), after=after[n - 1] if n else None, first=n == 0)


def _added(f: DataField, column: Path) -> AddColumn:
    if f.default_value is not None:
        raise UnsupportedError(
            f"The new column '{'.'.join(column)}' cannot have a DEFAULT.",
            hint="Add the column first, then ALTER COLUMN … SET DEFAULT for later rows.",
        )
    return AddColumn(column, f.type, f.description)


def _retyped(old: DataType, new: DataType, path: Path, *, is_key: bool = False) -> Iterator[ColumnChange]:
    if isinstance(old, RowType) and isinstance(new, RowType):
        yield from _members(old.fields, new.fields, path)
    elif isinstance(old, ArrayType) and isinstance(new, ArrayType):
        yield from _retyped(old.element, new.element, (*path, "element"))
    elif isinstance(old, MapType) and isinstance(new, MapType) and _is_stated(old.key, new.key):
        yield from _retyped(old.value, new.value, (*path, "value"))
    elif not _is_stated(old, new):
        yield UpdateColumnType(path, new)
    if old.nullable != new.nullable and not is_key:
        yield UpdateColumnNullability(path, new.nullable)


def _is_stated(old: DataType, new: DataType) -> bool:
    """Return whether `new` is the type that a statement gives to a column of type `old`, nullability aside."""
    if isinstance(old, MultisetType):
        return isinstance(new, MapType) and _is_stated(old.element, new.key) and _is_count(new.value)
    if isinstance(old, ArrayType) and isinstance(new, ArrayType):
        return _is_stated(old.element, new.element)
    if isinstance(old, MapType) and isinstance(new, MapType):
        return _is_stated(old.key, new.key) and _is_stated(old.value, new.value)
    if isinstance(old, RowType) and isinstance(new, RowType):
        return [f.name for f in old.fields] == [f.name for f in new.fields] and all(
            _is_stated(x.type, y.type) for x, y in zip(old.fields, new.fields, strict=True)
        )
    stated = _STATED.get(old.root, old) if isinstance(old, AtomicType) else old
    return not_null(stated) == not_null(new)


def _is_count(t: DataType) -> bool:
    return isinstance(t, AtomicType) and replace(t, nullable=True) == AtomicType(TypeRoot.INT)
