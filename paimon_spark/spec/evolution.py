"""Creation and evolution of schemas: the rules of CREATE TABLE and ALTER TABLE as pure functions.

A change results in a new schema with the next id; no function reads or writes files
(docs/spec/storage.md, section 2; docs/spec/semantics.md, sections 17 and 21).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from paimon_spark.errors import ErrorKind, OptionError, UsageError
from paimon_spark.spec.column_changes import (
    AddColumn,
    ColumnChange,
    DropColumn,
    RenameColumn,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    change_column,
)
from paimon_spark.spec.declared_types import with_declared_types
from paimon_spark.spec.defaults import check_default, is_null_default
from paimon_spark.spec.features import check_creatable
from paimon_spark.spec.ineffective_options import check_idle
from paimon_spark.spec.merge_rules import check_time_members
from paimon_spark.spec.option_catalogue import find_option
from paimon_spark.spec.option_checks import check_together, validate_options
from paimon_spark.spec.option_texts import stored_key, stored_options, stored_value
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.paths import DEFAULT_PARTITION
from paimon_spark.spec.replace_columns import ReplaceColumns, replacing_changes
from paimon_spark.spec.schema import CURRENT_VERSION, TableSchema
from paimon_spark.spec.schema_rules import check_schema
from paimon_spark.spec.types import DataField, not_null, reassign_ids

__all__ = [
    "AddColumn",
    "DropColumn",
    "RemoveOption",
    "RenameColumn",
    "ReplaceColumns",
    "SchemaChange",
    "SetComment",
    "SetOption",
    "UpdateColumnComment",
    "UpdateColumnDefault",
    "UpdateColumnNullability",
    "UpdateColumnPosition",
    "UpdateColumnType",
    "apply_changes",
    "new_schema",
    "with_default_options",
]

PRIMARY_KEY, PARTITION = "primary-key", "partition"
_FIXED = ("path", "type")
_ONE_WAY = ("ignore-delete", "ignore-update-before")
_VECTORS = "deletion-vectors.enabled"
_LEVELS = "num-levels"
_NULL_PARTITION = "partition.default-name"
_DYNAMIC = -1


@dataclass(frozen=True, slots=True)
class SetOption:
    """Set an option."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class RemoveOption:
    """Reset an option to its default."""

    key: str


@dataclass(frozen=True, slots=True)
class SetComment:
    """Set or remove the comment of the table."""

    comment: str | None


SchemaChange = SetOption | RemoveOption | SetComment | ColumnChange | ReplaceColumns


def new_schema(
    fields: Sequence[DataField],
    *,
    partition_keys: Sequence[str] = (),
    primary_keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    comment: str | None = None,
    now_millis: int | None = None,
) -> TableSchema:
    """Return the first schema of a new table.

    Field ids are reassigned. The options ``primary-key`` and ``partition`` define the keys; primary key columns become
    NOT NULL. The options ``blob-field`` and ``vector-field`` declare columns of type BLOB and VECTOR.

    Raises:
        UsageError: a column or key is invalid.
        OptionError: an option is unknown, has an invalid value or does not fit the table.
        UnsupportedError: the table requires an unsupported feature.
    """
    stored = {k: str(v) for k, v in (options or {}).items()}
    validate_options(stored, for_create=True)
    stored = stored_options(stored)
    primary = _keys(stored.pop(PRIMARY_KEY, None), primary_keys, "primary key")
    partitions = _keys(stored.pop(PARTITION, None), partition_keys, "partition columns")
    columns, highest = _number(with_declared_types(fields, stored))
    columns = tuple(replace(f, type=not_null(f.type)) if f.name in primary else f for f in map(_created, columns))
    schema = TableSchema(
        id=0,
        fields=columns,
        highest_field_id=highest,
        partition_keys=partitions,
        primary_keys=primary,
        options=stored,
        comment=comment,
        time_millis=now_millis,
    )
    check_schema(schema)
    for f in schema.fields:
        if f.default_value is not None:
            check_default(f.default_value, f.type)
    check_creatable(schema)
    return schema


def _created(f: DataField) -> DataField:
    """Return a column of a new table; a default NULL is dropped."""
    return replace(f, default_value=None) if f.default_value and is_null_default(f.default_value) else f


def _number(fields: Sequence[DataField]) -> tuple[tuple[DataField, ...], int]:
    """Assign field ids from 0: a column before its members, members after their own members."""
    out = []
    next_id = 0
    for f in fields:
        inner, following = reassign_ids(f.type, next_id + 1)
        out.append(replace(f, id=next_id, type=inner))
        next_id = following
    return tuple(out), next_id - 1


def _keys(from_option: str | None, given: Sequence[str], what: str) -> tuple[str, ...]:
    if from_option is None:
        return tuple(given)
    if given:
        raise OptionError(f"Both the statement and an option define the {what}.", hint="Leave one of the two out.")
    names = tuple(part.strip() for part in from_option.split(",") if part.strip())
    if not names:
        raise OptionError(f"The option for the {what} names no column.", hint="Name columns, or leave it out.")
    return names


def with_default_options(schema: TableSchema, defaults: Mapping[str, str]) -> TableSchema:
    """Return a new table's schema with the catalog's ``table-default.`` options for the options that it does not set.

    Raises:
        OptionError: a default is unknown, has an invalid value or does not fit the table, or an option of the table has
            no effect.
    """
    present = CoreOptions(schema.options)
    missing = {k: v for k, v in defaults.items() if not present.is_set(k) and k not in (PRIMARY_KEY, PARTITION)}
    out = schema
    if missing:
        options = missing | dict(schema.options)
        validate_options(options, for_create=True)
        out = replace(schema, options=stored_options(options))
        check_schema(out)
        check_creatable(out)
    check_idle(out, schema.options)
    return out


def apply_changes(
    schema: TableSchema, changes: Sequence[SchemaChange], now_millis: int, *, has_snapshots: bool
) -> TableSchema:
    """Return the schema after `changes`, with the next id; `schema` itself if they change nothing.

    Raises:
        UsageError: a change is not allowed; nothing is changed then.
        NotFoundError: a column does not exist.
        OptionError: an option is unknown, has an invalid value, does not fit the table, or is fixed.
        UnsupportedError: the table requires an unsupported feature.
    """
    out = schema
    for change in changes:
        if isinstance(change, SetOption):
            out = _set_option(schema, out, change, has_snapshots=has_snapshots)
        elif isinstance(change, RemoveOption):
            out = _remove_option(schema, out, change, has_snapshots=has_snapshots)
        elif isinstance(change, SetComment):
            out = replace(out, comment=change.comment)
        else:
            columns = replacing_changes(out, change) if isinstance(change, ReplaceColumns) else [change]
            out = reduce(change_column, columns, out)
    if has_snapshots and schema.primary_keys:
        out = _with_same_levels(schema, out)
    if out == schema:
        return schema
    if out.options != schema.options:
        check_together(CoreOptions(out.options))
    check_schema(out)
    check_time_members(schema, out)
    check_creatable(out, before=schema)
    check_idle(out, out.options, before=schema)
    return replace(out, id=schema.id + 1, time_millis=now_millis, version=max(schema.version, CURRENT_VERSION))


def _with_same_levels(old: TableSchema, new: TableSchema) -> TableSchema:
    """Return the new schema with as many levels as the old one, which a new compaction trigger would change.

    A changelog of full compactions, and reads of compacted rows, know these rows by their level.

    Raises:
        OptionError: the option for the number of levels would change it.
    """
    before, after = CoreOptions(old.options), CoreOptions(new.options)
    if after.num_levels == before.num_levels:
        return new
    if before.is_set(_LEVELS) or after.is_set(_LEVELS):
        raise _unchangeable(_LEVELS, f"the table contains data in {before.num_levels} levels")
    return replace(new, options={**new.options, _LEVELS: str(before.num_levels)})


def _set_option(old: TableSchema, now: TableSchema, change: SetOption, *, has_snapshots: bool) -> TableSchema:
    key, value = change.key, change.value
    if old.options.get(key) == value or _same_keys(old, key, value):
        return replace(now, options={**now.options, key: value}) if key in old.options else now
    validate_options({key: value})
    if key in (PRIMARY_KEY, PARTITION):
        raise _unchangeable(key, "the keys of a table are fixed when it is created")
    if key in _FIXED:
        raise _unchangeable(key, "it is fixed when a table is created")
    if has_snapshots:
        _check_set(old, key, value)
    return replace(now, options={**now.options, stored_key(key): stored_value(key, value)})


def _same_keys(schema: TableSchema, key: str, value: str) -> bool:
    names = {PRIMARY_KEY: schema.primary_keys, PARTITION: schema.partition_keys}.get(key)
    return names is not None and tuple(part.strip() for part in value.split(",")) == names


def _remove_option(old: TableSchema, now: TableSchema, change: RemoveOption, *, has_snapshots: bool) -> TableSchema:
    key = change.key if change.key in now.options else stored_key(change.key)
    if key in (PRIMARY_KEY, PARTITION, *_FIXED):
        raise _unchangeable(key, "it is fixed when a table is created")
    if key not in now.options:
        return now
    if has_snapshots:
        _check_immutable(key)
        if key == "bucket":
            raise _unchangeable(key, "the table contains data in its buckets")
        if key == _VECTORS or key in _ONE_WAY:
            _check_set(old, key, "false")
        if key == _NULL_PARTITION:
            _check_set(old, key, DEFAULT_PARTITION)
    return replace(now, options={k: v for k, v in now.options.items() if k != key})


def _check_set(schema: TableSchema, key: str, value: str) -> None:
    """Reject changes of options that are fixed once the table contains data."""
    _check_immutable(key)
    options = CoreOptions(schema.options)
    on = value.strip().lower() == "true"
    if key == "bucket" and _DYNAMIC in (options.bucket, int(value)) and options.bucket != int(value):
        raise OptionError(
            f"The option 'bucket' cannot change from {options.bucket} to {value}: the table contains data.",
            hint="It can only change from one positive number to another. Create a new table instead.",
        )
    if key == _VECTORS and on != options.deletion_vectors_enabled and not options.flag("deletion-vectors.modifiable"):
        raise OptionError(
            f"The option '{key}' cannot change to '{value}': the table contains data.",
            hint="If you know that it is safe, set 'deletion-vectors.modifiable' = 'true' first.",
        )
    if key == _NULL_PARTITION and schema.partition_keys and value != options.partition_default_name:
        raise _unchangeable(key, "the table contains data, and its null partitions would not be found")
    if key in _ONE_WAY and options.flag(key) and not on:
        raise _unchangeable(key, "deletes may already have been dropped, so it cannot be switched off")
    if key == "clustering.columns" and options.flag("pk-clustering-override"):
        raise _unchangeable(key, "the table's files are clustered by these columns")


def _check_immutable(key: str) -> None:
    option = find_option(key)
    if option is not None and option.immutable:
        raise _unchangeable(key, "the table contains data")


def _unchangeable(key: str, why: str) -> UsageError:
    return OptionError(
        f"The option '{key}' of this table cannot change: {why}.",
        hint="Create a new table with the option and copy the rows into it.",
        kind=ErrorKind.INVALID_OPTION,
    )
