"""Table schema JSON (docs/spec/storage.md, section 2)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paimon_spark.errors import CorruptTableError, ErrorKind, NotFoundError, UnsupportedError, did_you_mean
from paimon_spark.spec.bounds import HighestFieldId, Id, Millis, Name
from paimon_spark.spec.stored_json import json_object, read_as, texts
from paimon_spark.spec.types import DataField, field_from_json, field_to_json

CURRENT_VERSION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSchema:
    """One version of a table's schema. Field order is column order; all names are case-sensitive."""

    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    time_millis: int | None = None
    version: int = CURRENT_VERSION

    @property
    def field_names(self) -> tuple[str, ...]:
        """Return the column names in order."""
        return tuple(f.name for f in self.fields)

    @property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """Return the primary key without partition columns: the key inside one partition."""
        return tuple(k for k in self.primary_keys if k not in self.partition_keys)

    @property
    def partition_fields(self) -> tuple[DataField, ...]:
        """Return the partition columns in partition order."""
        return tuple(self.field(k) for k in self.partition_keys)

    @property
    def key_fields(self) -> tuple[DataField, ...]:
        """Return the columns of the trimmed primary key in key order."""
        return tuple(self.field(k) for k in self.trimmed_primary_keys)

    def field(self, name: str) -> DataField:
        """Return the column called `name`.

        Raises:
            NotFoundError: there is no such column.
        """
        for f in self.fields:
            if f.name == name:
                return f
        raise NotFoundError(
            f"Column '{name}' does not exist; the columns are {', '.join(self.field_names)}.",
            hint=did_you_mean(name, self.field_names) or "Use one of these.",
            kind=ErrorKind.COLUMN_NOT_FOUND,
        )

    def to_json(self) -> str:
        """Return the file's text."""
        out: dict[str, Any] = {
            "version": self.version,
            "id": self.id,
            "fields": [field_to_json(f) for f in self.fields],
            "highestFieldId": self.highest_field_id,
            "partitionKeys": list(self.partition_keys),
            "primaryKeys": list(self.primary_keys),
            "options": dict(self.options),
        }
        if self.comment is not None:
            out["comment"] = self.comment
        if self.time_millis is not None:
            out["timeMillis"] = self.time_millis
        return json.dumps(out, indent=2, ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Versioned:
    """The version key, which is read before the other keys."""

    version: Id = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _SchemaKeys:
    """The keys of a schema file; `spec.types` reads the fields."""

    id: Id
    fields: list[Any]
    highest_field_id: HighestFieldId
    partition_keys: tuple[Name, ...]
    primary_keys: tuple[Name, ...]
    options: dict[str, str]
    comment: str | None = None
    time_millis: Millis | None = None


def parse_schema(text: str | bytes, where: str) -> TableSchema:
    """Parse a schema file and apply the defaults of old versions.

    Raises:
        CorruptTableError: the file is not JSON, lacks a key, or has an invalid value.
    """
    try:
        raw = json_object(text)
        version = read_as(_Versioned, raw).version
        if version > CURRENT_VERSION:
            raise UnsupportedError(
                f"The schema file {where} has version {version}; this release reads versions up to {CURRENT_VERSION}.",
                hint="Read the table with the release of Apache Paimon that wrote it.",
            )
        keys = read_as(_SchemaKeys, {**raw, "options": texts(raw, "options")})
        schema = TableSchema(
            id=keys.id,
            fields=_fields(keys.fields),
            highest_field_id=keys.highest_field_id,
            partition_keys=keys.partition_keys,
            primary_keys=keys.primary_keys,
            options=_with_old_defaults(keys.options, version),
            comment=keys.comment,
            time_millis=keys.time_millis,
            version=version,
        )
    except CorruptTableError as e:
        raise _corrupt(where, e.message.rstrip(".")) from e
    except (ValueError, RecursionError) as e:
        raise _corrupt(where, str(e)) from e
    missing = {*schema.partition_keys, *schema.primary_keys} - set(schema.field_names)
    if missing:
        raise _corrupt(where, f"the key columns {sorted(missing)} are not among the fields")
    return schema


def _fields(raw: list[Any]) -> tuple[DataField, ...]:
    fields = tuple(field_from_json(f) for f in raw)
    for what, values in (("names", [f.name for f in fields]), ("ids", [f.id for f in fields])):
        if len(set(values)) != len(values):
            raise ValueError(f"the column {what} are not unique: {', '.join(map(str, values))}")
    return fields


def _with_old_defaults(options: dict[str, str], version: int) -> dict[str, str]:
    if version <= 1:
        options.setdefault("bucket", "1")
    if version <= 2:  # the last version whose default format was ORC
        options.setdefault("file.format", "orc")
    return options


def _corrupt(where: str, what: str) -> CorruptTableError:
    return CorruptTableError(
        f"The schema file {where} is malformed: {what}.",
        hint="Restore the file from a backup; no other schema version was changed.",
    )
