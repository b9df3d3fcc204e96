"""Types of columns that options declare, because SQL has no name for them: BLOB and VECTOR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from paimon_spark.errors import ErrorKind, UsageError
from paimon_spark.spec.types import VECTOR_ELEMENTS, ArrayType, AtomicType, DataField, TypeRoot, type_to_json

_BINARIES = (TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.BLOB)


def with_declared_types(fields: Sequence[DataField], options: Mapping[str, str]) -> tuple[DataField, ...]:
    """Return the columns of a new table with the types that its options declare.

    Raises:
        UsageError: a column has a type that the option does not apply to.
    """
    blobs, vectors = _listed(options.get("blob-field", "")), _listed(options.get("vector-field", ""))
    typed = (_blob(f) if f.name in blobs else f for f in fields)
    return tuple(_vector(f, options) if f.name in vectors else f for f in typed)


def _listed(names: str) -> set[str]:
    return {name.strip() for name in names.split(",") if name.strip()}


def _vector(field: DataField, options: Mapping[str, str]) -> DataField:
    t = field.type
    if not isinstance(t, ArrayType) or not isinstance(t.element, AtomicType) or t.element.root not in VECTOR_ELEMENTS:
        raise UsageError(
            f"The option 'vector-field' names the column '{field.name}' of type {type_to_json(t)}.",
            hint=f"Name columns of type ARRAY only, with elements of type {', '.join(VECTOR_ELEMENTS)}.",
            kind=ErrorKind.SCHEMA_INVALID,
        )
    key = f"field.{field.name}.vector-dim"
    given = options.get(f"field.{field.name}.vector-dim") or options.get(f"fields.{field.name}.vector-dim")
    length = given or str(t.length or "")
    if not length.isdecimal() or int(length) < 1:
        raise UsageError(
            f"The column '{field.name}' in 'vector-field' has no number of elements.",
            hint=f"Set '{key}' to the number of elements that each of its values has.",
            kind=ErrorKind.SCHEMA_INVALID,
        )
    return replace(field, type=replace(t, length=int(length)))


def _blob(field: DataField) -> DataField:
    if not isinstance(field.type, AtomicType) or field.type.root not in _BINARIES:
        raise UsageError(
            f"The option 'blob-field' names the column '{field.name}' of type {type_to_json(field.type)}.",
            hint="Name columns of type BINARY only.",
            kind=ErrorKind.SCHEMA_INVALID,
        )
    return replace(field, type=AtomicType(TypeRoot.BLOB, field.type.nullable))
