"""Changes of columns: add, rename, drop, retype, move, comment, default (docs/spec/semantics.md, H2-H4).

A column is named by its path: inside a ROW by the member's name, inside an ARRAY by ``element``, inside a MAP by
``value``. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from paimon_spark.errors import ErrorKind, NotFoundError, UnsupportedError, UsageError, did_you_mean
from paimon_spark.spec.casts import can_change
from paimon_spark.spec.column_options import Path, options_naming, rename_in_options
from paimon_spark.spec.defaults import check_default, is_null_default
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.schema_rules import check_column_name, check_type, invalid
from paimon_spark.spec.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    not_null,
    reassign_ids,
    type_to_json,
)

Fields = tuple[DataField, ...]
_ELEMENT, _VALUE = "element", "value"


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Add a column, last unless `first` or `after` is set."""

    column: Path
    type: DataType
    comment: str | None = None
    after: str | None = None
    first: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Rename a column; `new_name` is the last part of its path."""

    column: Path
    new_name: str


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Drop a column; with `if_exists`, a missing column is not an error."""

    column: Path
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class UpdateColumnType:
    """Change the type of a column; its nullability does not change."""

    column: Path
    type: DataType


@dataclass(frozen=True, slots=True)
class UpdateColumnNullability:
    """Change the nullability of a column."""

    column: Path
    nullable: bool


@dataclass(frozen=True, slots=True)
class UpdateColumnComment:
    """Set or remove the comment of a column."""

    column: Path
    comment: str | None


@dataclass(frozen=True, slots=True)
class UpdateColumnPosition:
    """Move a column among its siblings."""

    column: Path
    after: str | None = None
    first: bool = False


@dataclass(frozen=True, slots=True)
class UpdateColumnDefault:
    """Set or remove the default of a column, given as text."""

    column: Path
    default: str | None


ColumnChange = (
    AddColumn
    | RenameColumn
    | DropColumn
    | UpdateColumnType
    | UpdateColumnNullability
    | UpdateColumnComment
    | UpdateColumnPosition
    | UpdateColumnDefault
)


def change_column(schema: TableSchema, change: ColumnChange) -> TableSchema:
    """Return `schema` with one column changed.

    Raises:
        UsageError: the change is not allowed.
        NotFoundError: there is no such column.
    """
    if isinstance(change, AddColumn):
        return _add(schema, change)
    if isinstance(change, RenameColumn):
        return _rename(schema, change)
    if isinstance(change, DropColumn):
        return _drop(schema, change)
    if isinstance(change, UpdateColumnPosition):
        return replace(schema, fields=_siblings(schema.fields, change.column, lambda fs, n: _move(fs, n, change)))
    return replace(schema, fields=_siblings(schema.fields, change.column, _update(schema, change)))


def _add(schema: TableSchema, change: AddColumn) -> TableSchema:
    name = change.column[-1]
    check_column_name(name)
    check_type(name, change.type)
    if not change.type.nullable:
        raise invalid(
            f"The new column '{_text(change.column)}' cannot be NOT NULL: existing rows have no value for it.",
            "Leave NOT NULL out.",
        )
    own_id = schema.highest_field_id + 1
    inner, following = reassign_ids(change.type, own_id + 1)
    field = DataField(own_id, name, inner, change.comment)

    def insert(fields: Fields, _: str) -> Fields:
        if any(f.name == name for f in fields):
            raise invalid(f"The column '{_text(change.column)}' already exists.", "Choose another name.")
        at = _place(schema, fields, change)
        return (*fields[:at], field, *fields[at:])

    fields = _siblings(schema.fields, change.column, insert, exists=False)
    return replace(schema, fields=fields, highest_field_id=following - 1)


def _place(schema: TableSchema, fields: Fields, change: AddColumn) -> int:
    if change.first:
        return 0
    if change.after is not None:
        return _index(fields, change.after, (*change.column[:-1], change.after)) + 1
    if len(change.column) == 1 and CoreOptions(schema.options).flag("add-column-before-partition"):
        return next((i for i, f in enumerate(fields) if f.name in schema.partition_keys), len(fields))
    return len(fields)


def _rename(schema: TableSchema, change: RenameColumn) -> TableSchema:
    top = len(change.column) == 1
    old, new = change.column[-1], change.new_name
    if top:
        _refuse_keys(schema.partition_keys, old, "a partition column", "renamed")
    check_column_name(new)

    def update(fields: Fields, name: str) -> Fields:
        at = _index(fields, name, change.column)
        if any(f.name == new for f in fields):
            raise invalid(f"The column '{_text((*change.column[:-1], new))}' already exists.", "Choose another name.")
        return _with(fields, at, replace(fields[at], name=new))

    fields = _siblings(schema.fields, change.column, update)
    keys = tuple(new if top and k == old else k for k in schema.primary_keys)
    return replace(
        schema, fields=fields, primary_keys=keys, options=rename_in_options(schema.options, change.column, new)
    )


def _drop(schema: TableSchema, change: DropColumn) -> TableSchema:
    if change.if_exists and not _exists(schema.fields, change.column):
        return schema
    check_droppable(schema, change.column)

    def remove(fields: Fields, last: str) -> Fields:
        at = _index(fields, last, change.column)
        if len(fields) == 1:
            raise invalid(f"The column '{_text(change.column)}' is the only one and cannot be dropped.")
        return (*fields[:at], *fields[at + 1 :])

    return replace(schema, fields=_siblings(schema.fields, change.column, remove))


def check_droppable(schema: TableSchema, column: Path) -> None:
    """Reject the drop of a column or member that keys or options depend on.

    Raises:
        UsageError: it is a key, or an option names it.
    """
    if len(column) == 1:
        _refuse_keys(schema.partition_keys, column[0], "a partition column", "dropped")
        _refuse_keys(schema.primary_keys, column[0], "part of the primary key", "dropped")
    users = options_naming(schema.options, column)
    if users:
        raise invalid(
            f"The column '{_text(column)}' cannot be dropped: the option '{users[0]}' names it.",
            "Change or remove the option first, with ALTER TABLE … SET or UNSET TBLPROPERTIES.",
        )


def _move(fields: Fields, name: str, change: UpdateColumnPosition) -> Fields:
    at = _index(fields, name, change.column)
    if change.after == name:
        raise invalid(f"The column '{_text(change.column)}' cannot be placed after itself.")
    rest = (*fields[:at], *fields[at + 1 :])
    to = len(rest)
    if change.first:
        to = 0
    elif change.after is not None:
        to = _index(rest, change.after, (*change.column[:-1], change.after)) + 1
    return (*rest[:to], fields[at], *rest[to:])


_Update = UpdateColumnType | UpdateColumnNullability | UpdateColumnComment | UpdateColumnDefault


def _update(schema: TableSchema, change: _Update) -> Callable[[Fields, str], Fields]:
    def update(fields: Fields, name: str) -> Fields:
        at = _index(fields, name, change.column)
        field = fields[at]
        if isinstance(change, UpdateColumnComment):
            return _with(fields, at, replace(field, description=change.comment))
        if isinstance(change, UpdateColumnDefault):
            return _with(fields, at, replace(field, default_value=_default(change, field.type)))
        t = _retyped(schema, change, field.type)
        if field.default_value is not None:
            check_default(field.default_value, t)
        return _with(fields, at, replace(field, type=t))

    if isinstance(change, UpdateColumnType | UpdateColumnNullability) and len(change.column) == 1:
        name = change.column[0]
        if isinstance(change, UpdateColumnType):
            check_retypable(schema, name)
        elif change.nullable:
            _refuse_keys(schema.primary_keys, name, "part of the primary key", "made nullable")
    return update


def _default(change: UpdateColumnDefault, t: DataType) -> str | None:
    """Return the default to store: none for NULL, the value of columns without a default."""
    if change.default is None or is_null_default(change.default):
        return None
    if len(change.column) > 1:
        raise UnsupportedError(
            f"'{_text(change.column)}' cannot have a default: it is part of a column.",
            hint="Set the default of the whole column.",
        )
    check_default(change.default, t)
    return change.default


def check_retypable(schema: TableSchema, name: str) -> None:
    """Reject a change of type of a column that determines the location of rows.

    Raises:
        UsageError: the column is a partition column, or part of the primary key or the bucket key.
    """
    _refuse_keys(schema.partition_keys, name, "a partition column", "given another type")
    _refuse_keys(schema.primary_keys, name, "part of the primary key", "given another type")
    _refuse_keys(CoreOptions(schema.options).bucket_key, name, "part of the bucket key", "given another type")


def _retyped(schema: TableSchema, change: UpdateColumnType | UpdateColumnNullability, old: DataType) -> DataType:
    options = CoreOptions(schema.options)
    if isinstance(change, UpdateColumnNullability):
        if old.nullable and not change.nullable and options.flag("alter-column-null-to-not-null.disabled"):
            raise invalid(
                f"The column '{_text(change.column)}' cannot be made NOT NULL: it may contain nulls.",
                "If it contains none, set 'alter-column-null-to-not-null.disabled' = 'false' first.",
            )
        return replace(old, nullable=change.nullable)
    check_type(_text(change.column), change.type)
    explicit = not options.flag("disable-explicit-type-casting")
    new = replace(change.type, nullable=old.nullable)
    if not can_change(old, new, explicit=explicit):
        lossy = can_change(old, new, explicit=True)
        raise UsageError(
            f"The column '{_text(change.column)}' cannot change from {_type_text(old)} to {_type_text(change.type)}.",
            hint="The option 'disable-explicit-type-casting' forbids changes that can lose values."
            if lossy
            else "Add a column of the new type and fill it.",
            kind=ErrorKind.TYPE_MISMATCH,
        )
    if _is_blob(old) or _is_blob(change.type):
        raise UnsupportedError(f"The type of the BLOB column '{_text(change.column)}' cannot change.")
    if not_null(old) == not_null(change.type) or not isinstance(change.type, AtomicType):
        return old
    return new


def _is_blob(t: DataType) -> bool:
    return isinstance(t, AtomicType) and t.root is TypeRoot.BLOB


def _type_text(t: DataType) -> str:
    text = type_to_json(t)
    return text if isinstance(text, str) else str(text["type"])


# ------------------------------------------------------------------------------------------------- paths


def _siblings(
    fields: Fields, path: Path, change: Callable[[Fields, str], Fields], *, exists: bool = True, whole: Path = ()
) -> Fields:
    """Return `fields` with `change` applied to the list that contains the column at `path`."""
    whole = whole or path
    if len(path) == 1:
        if exists:
            _index(fields, path[0], whole)
        return change(fields, path[0])
    at = _index(fields, path[0], whole)
    inner = _inside(fields[at].type, path[1:], change, exists=exists, whole=whole)
    return _with(fields, at, replace(fields[at], type=inner))


def _inside(t: DataType, path: Path, change: Callable[[Fields, str], Fields], *, exists: bool, whole: Path) -> DataType:
    if isinstance(t, RowType):
        return replace(t, fields=_siblings(t.fields, path, change, exists=exists, whole=whole))
    if not isinstance(t, ArrayType | MultisetType | MapType):
        raise _missing(path[0], whole, [])
    word = _VALUE if isinstance(t, MapType) else _ELEMENT
    if path[0] != word:
        raise _missing(path[0], whole, [word])
    inner = t.value if isinstance(t, MapType) else t.element
    if len(path) == 1:
        if not exists:
            raise invalid(f"The column '{_text(whole)}' already exists.")
        (field,) = change((DataField(-1, word, inner),), word)
        if field.name != word:
            raise invalid(f"The part '{word}' of the column '{_text(whole[:-1])}' cannot be renamed.")
        if field.description is not None:
            raise invalid(
                f"The part '{word}' of the column '{_text(whole[:-1])}' cannot have a comment.",
                "Comment on the column itself.",
            )
        inner = field.type
    else:
        inner = _inside(inner, path[1:], change, exists=exists, whole=whole)
    return replace(t, value=inner) if isinstance(t, MapType) else replace(t, element=inner)


def _exists(fields: Fields, path: Path) -> bool:
    try:
        _siblings(fields, path, lambda found, _: found)
    except NotFoundError:
        return False
    return True


def _with(fields: Fields, at: int, field: DataField) -> Fields:
    return (*fields[:at], field, *fields[at + 1 :])


def _index(fields: Fields, name: str, whole: Path) -> int:
    for i, f in enumerate(fields):
        if f.name == name:
            return i
    raise _missing(name, whole, [f.name for f in fields])


def _missing(name: str, whole: Path, choices: Sequence[str]) -> NotFoundError:
    listed = f" among {', '.join(choices)}" if choices else ""
    return NotFoundError(
        f"The column '{_text(whole)}' does not exist: there is no '{name}'{listed}.",
        hint=did_you_mean(name, choices),
        kind=ErrorKind.COLUMN_NOT_FOUND,
    )


def _refuse_keys(keys: Sequence[str], name: str, what: str, verb: str) -> None:
    if name in keys:
        raise invalid(
            f"The column '{name}' is {what} and cannot be {verb}.", "Create a new table and copy the rows into it."
        )


def _text(path: Path) -> str:
    return ".".join(path)
