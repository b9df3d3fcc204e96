"""Paimon data types and their JSON spelling (docs/spec/storage.md, section 2)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.quoted_text import quoted_name

_MICROS = 6
MAX_LENGTH = 2147483647
MAX_DECIMAL_PRECISION = 38
MAX_TIME_PRECISION = 9


class TypeRoot(StrEnum):
    """Names of the atomic types."""

    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BOOLEAN = "BOOLEAN"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DECIMAL = "DECIMAL"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    VARIANT = "VARIANT"
    BLOB = "BLOB"


@dataclass(frozen=True, slots=True)
class AtomicType:
    """An atomic type. `length` for CHAR…VARBINARY; `precision`/`scale` for the others that have them."""

    root: TypeRoot
    nullable: bool = True
    length: int | None = None
    precision: int | None = None
    scale: int | None = None


@dataclass(frozen=True, slots=True)
class ArrayType:
    """ARRAY<element>, or VECTOR<element, length>: an array of `length` elements without nulls."""

    element: DataType
    nullable: bool = True
    length: int | None = None


@dataclass(frozen=True, slots=True)
class MultisetType:
    """MULTISET<element>; physically a map from element to INT."""

    element: DataType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class MapType:
    """MAP<key, value>."""

    key: DataType
    value: DataType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class DataField:
    """One column or one member of a ROW."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None


@dataclass(frozen=True, slots=True)
class RowType:
    """ROW<fields>."""

    fields: tuple[DataField, ...]
    nullable: bool = True


DataType = AtomicType | ArrayType | MultisetType | MapType | RowType

COUNT = AtomicType(TypeRoot.INT, nullable=False)
"""The type of multiset counts."""


def entry_types(t: MapType | MultisetType) -> tuple[DataType, DataType]:
    """Return the types of the keys and values of a map, or of the elements and counts of a multiset."""
    return (t.key, t.value) if isinstance(t, MapType) else (t.element, COUNT)


_SIMPLE = {
    "BOOLEAN": TypeRoot.BOOLEAN,
    "TINYINT": TypeRoot.TINYINT,
    "SMALLINT": TypeRoot.SMALLINT,
    "INT": TypeRoot.INT,
    "INTEGER": TypeRoot.INT,
    "BIGINT": TypeRoot.BIGINT,
    "FLOAT": TypeRoot.FLOAT,
    "DOUBLE": TypeRoot.DOUBLE,
    "DOUBLE PRECISION": TypeRoot.DOUBLE,
    "DATE": TypeRoot.DATE,
    "VARIANT": TypeRoot.VARIANT,
    "BLOB": TypeRoot.BLOB,
}
VECTOR_ELEMENTS = (
    TypeRoot.BOOLEAN,
    TypeRoot.TINYINT,
    TypeRoot.SMALLINT,
    TypeRoot.INT,
    TypeRoot.BIGINT,
    TypeRoot.FLOAT,
    TypeRoot.DOUBLE,
)
_LENGTHS = {
    "CHAR": TypeRoot.CHAR,
    "VARCHAR": TypeRoot.VARCHAR,
    "BINARY": TypeRoot.BINARY,
    "VARBINARY": TypeRoot.VARBINARY,
}
_ATOMIC = re.compile(
    r"^(?P<name>[A-Z_]+(?: PRECISION)?)\s*(?:\(\s*(?P<a>\d+)\s*(?:,\s*(?P<b>\d+)\s*)?\))?"
    r"(?P<zone>\s+WITH(?:OUT)?(?: LOCAL)? TIME ZONE)?(?P<nn>\s+NOT NULL)?$"
)


def atomic(root: TypeRoot, nullable: bool = True) -> AtomicType:  # noqa: FBT001, FBT002 - mirrors the field
    """Return `root` with the format's default length, precision and scale."""
    if root in (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY):
        return AtomicType(root, nullable, length=1)
    if root is TypeRoot.DECIMAL:
        return AtomicType(root, nullable, precision=10, scale=0)
    if root is TypeRoot.TIME:
        return AtomicType(root, nullable, precision=0)
    if root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        return AtomicType(root, nullable, precision=6)
    return AtomicType(root, nullable)


STRING = AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH)
BYTES = AtomicType(TypeRoot.VARBINARY, length=MAX_LENGTH)


def not_null(t: DataType) -> DataType:
    """Return `t` with NOT NULL."""
    return replace(t, nullable=False)


def parse_atomic(text: str) -> AtomicType:
    """Parse the text of an atomic type, in any case; its length and precision are not validated.

    Raises:
        CorruptTableError: `text` is not a type of the format.
    """
    m = _ATOMIC.match(" ".join(text.upper().split()))
    if not m:
        raise CorruptTableError(f"'{text}' is not a Paimon data type.")
    name, a, b = m["name"], m["a"], m["b"]
    nullable = m["nn"] is None
    n = int(a) if a is not None else None
    if name in _SIMPLE and n is None:
        return AtomicType(_SIMPLE[name], nullable)
    if name == "STRING":
        return AtomicType(TypeRoot.VARCHAR, nullable, length=MAX_LENGTH)
    if name == "BYTES":
        return AtomicType(TypeRoot.VARBINARY, nullable, length=MAX_LENGTH)
    if name in _LENGTHS:
        return AtomicType(_LENGTHS[name], nullable, length=1 if n is None else n)
    if name in ("DECIMAL", "NUMERIC", "DEC"):
        return AtomicType(TypeRoot.DECIMAL, nullable, precision=10 if n is None else n, scale=int(b or 0))
    if name == "TIME":
        return AtomicType(TypeRoot.TIME, nullable, precision=n or 0)
    if name in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        local = name == "TIMESTAMP_LTZ" or "LOCAL" in (m["zone"] or "")
        root = TypeRoot.TIMESTAMP_LTZ if local else TypeRoot.TIMESTAMP
        return AtomicType(root, nullable, precision=6 if n is None else n)
    raise CorruptTableError(f"'{text}' is not a Paimon data type.")


def atomic_text(t: AtomicType) -> str:
    """Return the canonical text of an atomic type, nullability included."""
    if t.root is TypeRoot.VARCHAR and t.length == MAX_LENGTH:
        text = "STRING"
    elif t.root is TypeRoot.VARBINARY and t.length == MAX_LENGTH:
        text = "BYTES"
    elif t.length is not None:
        text = f"{t.root}({t.length})"
    elif t.root is TypeRoot.DECIMAL:
        text = f"DECIMAL({t.precision}, {t.scale})"
    elif t.root is TypeRoot.TIMESTAMP_LTZ:
        text = f"TIMESTAMP({t.precision}) WITH LOCAL TIME ZONE"
    elif t.precision is not None:
        text = f"{t.root}({t.precision})"
    else:
        text = str(t.root)
    return text if t.nullable else text + " NOT NULL"


def type_text(t: DataType) -> str:
    """Return a type in SQL syntax, including nullability."""
    suffix = "" if t.nullable else " NOT NULL"
    if isinstance(t, AtomicType):
        return atomic_text(t)
    if isinstance(t, ArrayType):
        return f"ARRAY<{type_text(t.element)}>{suffix}"
    if isinstance(t, MultisetType):
        return f"MULTISET<{type_text(t.element)}>{suffix}"
    if isinstance(t, MapType):
        return f"MAP<{type_text(t.key)}, {type_text(t.value)}>{suffix}"
    return "ROW<" + ", ".join(f"{quoted_name(f.name)} {type_text(f.type)}" for f in t.fields) + ">" + suffix


def type_to_json(t: DataType) -> Any:
    """Return the JSON value of a type: a string, or an object for constructed types."""
    if isinstance(t, AtomicType):
        return atomic_text(t)
    suffix = "" if t.nullable else " NOT NULL"
    if isinstance(t, ArrayType) and t.length is not None:
        return {"type": "VECTOR" + suffix, "element": type_to_json(t.element), "length": t.length}
    if isinstance(t, ArrayType):
        return {"type": "ARRAY" + suffix, "element": type_to_json(t.element)}
    if isinstance(t, MultisetType):
        return {"type": "MULTISET" + suffix, "element": type_to_json(t.element)}
    if isinstance(t, MapType):
        return {"type": "MAP" + suffix, "key": type_to_json(t.key), "value": type_to_json(t.value)}
    return {"type": "ROW" + suffix, "fields": [field_to_json(f) for f in t.fields]}


def type_from_json(value: Any) -> DataType:
    """Parse the JSON value of a type.

    Raises:
        CorruptTableError: the value is not a type of the format.
    """
    if isinstance(value, str):
        found = parse_atomic(value)
        if not _in_bounds(found):
            raise CorruptTableError(f"'{value}' is not a Paimon data type: a number in it is out of range.")
        return found
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise CorruptTableError(f"{value!r} is not a Paimon data type.")
    name, nullable = _name_of_nested(value["type"])
    try:
        if name == "ARRAY":
            return ArrayType(type_from_json(value["element"]), nullable)
        if name == "VECTOR" and type(value["length"]) is int and value["length"] > 0:
            return vector_type(type_from_json(value["element"]), value["length"], nullable=nullable)
        if name == "MULTISET":
            return MultisetType(type_from_json(value["element"]), nullable)
        if name == "MAP":
            return MapType(type_from_json(value["key"]), type_from_json(value["value"]), nullable)
        if name == "ROW" and isinstance(value["fields"], list):
            return RowType(tuple(field_from_json(f) for f in value["fields"]), nullable)
    except KeyError as e:
        raise CorruptTableError(f"The type {value['type']} lacks its {e.args[0]!r}.") from e
    raise CorruptTableError(f"'{value['type']}' is not a Paimon data type.")


def _name_of_nested(text: str) -> tuple[str, bool]:
    """Return the name of a nested type, and whether its values may be null.

    The members have keys of their own, but pypaimon also writes them after the name: ``MAP<STRING, INT>``.
    """
    name, members, rest = text.upper().partition("<")
    words = name.split() or [""]
    ends = rest.rpartition(">")[2].split() if members else words[1:]
    return words[0], ends != ["NOT", "NULL"]


def vector_type(element: DataType, length: int, *, nullable: bool = True) -> ArrayType:
    """Return the type of vectors of `length` elements.

    Raises:
        CorruptTableError: vectors cannot have elements of the type.
    """
    if not isinstance(element, AtomicType) or element.root not in VECTOR_ELEMENTS:
        raise CorruptTableError(f"A VECTOR cannot have elements of type {type_to_json(element)}.")
    return ArrayType(element, nullable, length)


def _in_bounds(t: AtomicType) -> bool:
    if t.root is TypeRoot.DECIMAL:
        return 1 <= (t.precision or 0) <= MAX_DECIMAL_PRECISION and 0 <= (t.scale or 0) <= (t.precision or 0)
    if t.precision is not None:
        return 0 <= t.precision <= MAX_TIME_PRECISION
    return t.length is None or 1 <= t.length <= MAX_LENGTH


def field_to_json(f: DataField) -> dict[str, Any]:
    """Return the JSON object of a field; unset optional keys are left out."""
    out: dict[str, Any] = {"id": f.id, "name": f.name, "type": type_to_json(f.type)}
    if f.description is not None:
        out["description"] = f.description
    if f.default_value is not None:
        out["defaultValue"] = f.default_value
    return out


def field_from_json(value: Any) -> DataField:
    """Parse the JSON object of a field.

    Raises:
        CorruptTableError: the value is not a field, or its type is not a type of the format.
    """
    try:
        field_id, name = value["id"], value["name"]
        description, default = value.get("description"), value.get("defaultValue")
        sound = type(field_id) is int and 0 <= field_id <= MAX_LENGTH and isinstance(name, str) and name
        if sound and all(v is None or isinstance(v, str) for v in (description, default)):
            return DataField(field_id, name, type_from_json(value["type"]), description, default)
    except (KeyError, TypeError, AttributeError) as e:
        raise CorruptTableError(f"{value!r} is not a field of a Paimon schema.") from e
    raise CorruptTableError(f"{value!r} is not a field of a Paimon schema.")


def children(t: DataType) -> Iterator[DataType]:
    """Yield the types directly inside `t`."""
    if isinstance(t, ArrayType | MultisetType):
        yield t.element
    elif isinstance(t, MapType):
        yield t.key
        yield t.value
    elif isinstance(t, RowType):
        yield from (f.type for f in t.fields)


def holds_root(t: DataType, root: TypeRoot) -> bool:
    """Return whether a type is of a kind, or has members of it at any depth."""
    return (isinstance(t, AtomicType) and t.root is root) or any(holds_root(c, root) for c in children(t))


def is_ordered(t: DataType) -> bool:
    """Return whether a type is atomic, and its values have an order."""
    return isinstance(t, AtomicType) and t.root not in (TypeRoot.VARIANT, TypeRoot.BLOB)


def reassign_ids(t: DataType, next_id: int) -> tuple[DataType, int]:
    """Assign new ids to nested fields, post-order; return the type and the next free id."""
    if isinstance(t, ArrayType | MultisetType):
        element, next_id = reassign_ids(t.element, next_id)
        return replace(t, element=element), next_id
    if isinstance(t, MapType):
        key, next_id = reassign_ids(t.key, next_id)
        value, next_id = reassign_ids(t.value, next_id)
        return replace(t, key=key, value=value), next_id
    if isinstance(t, RowType):
        fields = []
        for f in t.fields:
            inner, next_id = reassign_ids(f.type, next_id)
            fields.append(replace(f, id=next_id, type=inner))
            next_id += 1
        return replace(t, fields=tuple(fields)), next_id
    return t, next_id


def has_root(t: DataType, roots: Collection[TypeRoot]) -> bool:
    """Return whether a type is an atomic one among some."""
    return isinstance(t, AtomicType) and t.root in roots


def beyond_micros(t: DataType) -> AtomicType | None:
    """Return the first timestamp within a type with more than six digits of the second."""
    if isinstance(t, AtomicType):
        return t if t.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ) and (t.precision or 0) > _MICROS else None
    return next((found for child in children(t) if (found := beyond_micros(child)) is not None), None)
