"""The changes of a table's schema for writing rows of another schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from paimon_spark.spec.casts import can_change
from paimon_spark.spec.column_changes import AddColumn, ColumnChange, UpdateColumnType
from paimon_spark.spec.column_options import Path
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import ArrayType, AtomicType, DataField, DataType, MapType, RowType, TypeRoot

_TEXTS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_SHORT = frozenset({TypeRoot.CHAR, TypeRoot.BINARY})
_SMALL = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT)
_NARROWER = {
    TypeRoot.SMALLINT: _SMALL[:1],
    TypeRoot.INT: _SMALL[:2],
    TypeRoot.BIGINT: _SMALL,
    TypeRoot.FLOAT: _SMALL[:2],
    TypeRoot.DOUBLE: (*_SMALL, TypeRoot.FLOAT),
    TypeRoot.VARBINARY: (TypeRoot.BINARY,),
}
_DIGITS = {TypeRoot.TINYINT: 3, TypeRoot.SMALLINT: 5, TypeRoot.INT: 10, TypeRoot.BIGINT: 19}


@dataclass(frozen=True, slots=True)
class MergeRules:
    """The allowed changes besides new columns: wider types, and types that may lose values."""

    widens: bool = False
    loses: bool = False


def merging_changes(schema: TableSchema, given: Sequence[DataField], rules: MergeRules) -> list[ColumnChange]:
    """Return the changes of columns for writing rows with the columns of `given`, matched by name.

    A column that the rows lack is kept, and so is a type that may not change: values are cast to it. Columns of keys
    keep their types.
    """
    keys = {*schema.partition_keys, *schema.primary_keys, *(CoreOptions(schema.options).bucket_key or ())}
    return list(_changes(schema.fields, given, (), rules, keys))


def _changes(
    known: Sequence[DataField], given: Sequence[DataField], parent: Path, rules: MergeRules, keys: set[str]
) -> Iterator[ColumnChange]:
    by_name = {f.name.lower(): f for f in known}
    for field in given:
        old = by_name.get(field.name.lower())
        if old is None:
            yield AddColumn((*parent, field.name), replace(field.type, nullable=True), field.description)
        elif parent or old.name not in keys:
            yield from _inside(old.type, field.type, (*parent, old.name), rules)


def _inside(old: DataType, new: DataType, path: Path, rules: MergeRules) -> Iterator[ColumnChange]:
    if isinstance(old, RowType) and isinstance(new, RowType):
        yield from _changes(old.fields, new.fields, path, rules, set())
    elif isinstance(old, ArrayType) and isinstance(new, ArrayType):
        yield from _inside(old.element, new.element, (*path, "element"), rules)
    elif isinstance(old, MapType) and isinstance(new, MapType):
        yield from _inside(old.value, new.value, (*path, "value"), rules)
    elif _retypes(old, new, rules):
        yield UpdateColumnType(path, replace(new, nullable=old.nullable))


def _retypes(old: DataType, new: DataType, rules: MergeRules) -> bool:
    if not (isinstance(old, AtomicType) and isinstance(new, AtomicType)):
        return False
    if replace(old, nullable=True) == replace(new, nullable=True):
        return False
    if old.root is TypeRoot.DECIMAL and new.root is TypeRoot.DECIMAL:
        wider = (new.precision or 0) > (old.precision or 0)
        return new.scale == old.scale and (rules.loses or (rules.widens and wider))
    return (rules.widens and _is_wider(old, new)) or (rules.loses and can_change(old, new, explicit=True))


def _is_wider(old: AtomicType, new: AtomicType) -> bool:
    """Return whether every value of a type is a value of another type."""
    if new.root is old.root or {old.root, new.root} <= _TEXTS:
        sizes = [(t.length, t.precision) for t in (old, new)]
        return new.root not in _SHORT and all((n or 0) >= (o or 0) for o, n in zip(*sizes, strict=True))
    if old.root in _DIGITS and new.root is TypeRoot.DECIMAL:
        return (new.precision or 0) - (new.scale or 0) >= _DIGITS[old.root]
    return old.root in _NARROWER.get(new.root, ())
