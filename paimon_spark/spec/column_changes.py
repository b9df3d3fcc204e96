"""Changes of columns: add, rename, drop, retype, move, comment, default (docs/spec/semantics.md, H2-H4).

A column is named by its path: inside a ROW by the member's name, inside an ARRAY by ``element``, inside a MAP by
``value``. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from paimon_spark.errors import ErrorKind, NotFoundError, UnsupportedError, UsageError, did_you_mean
from paimon_spark.spec.casts import can_change
from paimon_spark.spec.literals import parse_value
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

Path = tuple[str, ...]
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
    """Drop a column."""

    column: Path


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

    renamed = replace(schema, fields=_siblings(schema.fields, change.column, update))
    if not top:
        return renamed
    keys = tuple(new if k == old else k for k in schema.primary_keys)
    return replace(renamed, primary_keys=keys, options=rename_in_options(schema.options, old, new))


_NAMING = (
    "bucket-key",
    "sequence.field",
    "rowkind.field",
    "record-level.time-field",
    "upsert-key",
    "clustering.columns",
    "partial-update.remove-record-on-sequence-group",
    "changelog-producer.row-deduplicate-ignore-fields",
    "manifest-sort.partition-field",
    "blob-field",
    "blob-descriptor-field",
    "blob-view-field",
    "vector-field",
)
"""Options whose value is a list of columns."""
_NAMING_VALUES = ".sequence-group"
"""Suffix of the ``fields.`` options whose value is a list of columns."""


def _names_in_key(key: str) -> tuple[str, tuple[str, ...], str]:
    """Split ``fields.<columns>.<what>`` into its three parts; no columns for other keys."""
    prefix, _, rest = key.partition(".")
    columns, dot, what = rest.partition(".")
    if prefix == "fields" and dot:
        return "fields.", tuple(columns.split(",")), dot + what
    return key, (), ""


def _names_columns(key: str) -> bool:
    index = key.startswith("file-index.") and key.endswith(".columns")
    return key in _NAMING or index or (key.startswith("fields.") and key.endswith(_NAMING_VALUES))


def is_about_columns(key: str) -> bool:
    """Return whether an option names columns, in its key or in its value."""
    return _names_columns(key) or bool(_names_in_key(key)[1])


def rename_in_options(options: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """Return options with the column `old` renamed to `new` in keys and values."""
    out: dict[str, str] = {}
    for key, value in options.items():
        prefix, columns, suffix = _names_in_key(key)
        renamed = prefix + ",".join(new if c.strip() == old else c for c in columns) + suffix
        if _names_columns(key):
            value = ",".join(new if c.strip() == old else c for c in value.split(","))
        out[renamed] = value
    return out


def options_naming(schema: TableSchema, column: str) -> list[str]:
    """Return the options that name `column`, in their key or in their value."""
    found = []
    for key, value in schema.options.items():
        mentioned = {c.strip() for c in _names_in_key(key)[1]}
        if _names_columns(key):
            mentioned |= {c.strip() for c in value.split(",")}
        if column in mentioned:
            found.append(key)
    return found


def _drop(schema: TableSchema, change: DropColumn) -> TableSchema:
    name = change.column[-1]
    if len(change.column) == 1:
        _refuse_keys(schema.partition_keys, name, "a partition column", "dropped")
        _refuse_keys(schema.primary_keys, name, "part of the primary key", "dropped")
        users = options_naming(schema, name)
        if users:
            raise invalid(
                f"The column '{name}' cannot be dropped: the option '{users[0]}' names it.",
                "Remove the option first, with ALTER TABLE … UNSET TBLPROPERTIES.",
            )

    def remove(fields: Fields, last: str) -> Fields:
        at = _index(fields, last, change.column)
        if len(fields) == 1:
            raise invalid(f"The column '{_text(change.column)}' is the only one and cannot be dropped.")
        return (*fields[:at], *fields[at + 1 :])

    return replace(schema, fields=_siblings(schema.fields, change.column, remove))


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
            if change.default is not None:
                parse_value(change.default, field.type)
            return _with(fields, at, replace(field, default_value=change.default))
        t = _retyped(schema, change, field.type)
        if field.default_value is not None:
            parse_value(field.default_value, t)
        return _with(fields, at, replace(field, type=t))

    if isinstance(change, UpdateColumnType | UpdateColumnNullability) and len(change.column) == 1:
        name = change.column[0]
        if isinstance(change, UpdateColumnType):
            _refuse_keys(schema.partition_keys, name, "a partition column", "given another type")
            _refuse_keys(schema.primary_keys, name, "part of the primary key", "given another type")
        elif change.nullable:
            _refuse_keys(schema.primary_keys, name, "part of the primary key", "made nullable")
    return update


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
        inner = field.type
    else:
        inner = _inside(inner, path[1:], change, exists=exists, whole=whole)
    return replace(t, value=inner) if isinstance(t, MapType) else replace(t, element=inner)


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
