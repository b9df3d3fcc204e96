"""Which change of a column's type the format allows (semantics H6)."""

from __future__ import annotations

from paimon_spark.spec.types import AtomicType, DataType, TypeRoot, not_null

_TEXTS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_BYTES = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
_INTEGERS = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT)
_NUMBERS = frozenset({*_INTEGERS, TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DECIMAL})
_STAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_TIMES = frozenset({*_STAMPS, TypeRoot.DATE, TypeRoot.TIME})
_OPAQUE = frozenset({TypeRoot.VARIANT, TypeRoot.BLOB})

_IMPLICIT: dict[TypeRoot, frozenset[TypeRoot]] = {
    TypeRoot.VARCHAR: _TEXTS,
    TypeRoot.VARBINARY: _BYTES,
    TypeRoot.DECIMAL: _NUMBERS,
    TypeRoot.DOUBLE: _NUMBERS,
    TypeRoot.FLOAT: frozenset({*_INTEGERS, TypeRoot.DECIMAL}),
    TypeRoot.SMALLINT: frozenset(_INTEGERS[:1]),
    TypeRoot.INT: frozenset(_INTEGERS[:2]),
    TypeRoot.BIGINT: frozenset(_INTEGERS[:3]),
    TypeRoot.DATE: frozenset({TypeRoot.TIMESTAMP}),
    TypeRoot.TIME: frozenset({TypeRoot.TIMESTAMP}),
    TypeRoot.TIMESTAMP: _STAMPS,
    TypeRoot.TIMESTAMP_LTZ: _STAMPS,
}
_TO_NUMBER = _NUMBERS | _TEXTS | _STAMPS | {TypeRoot.BOOLEAN}
_EXPLICIT: dict[TypeRoot, frozenset[TypeRoot]] = {
    **dict.fromkeys(_TEXTS, frozenset(TypeRoot) - _OPAQUE),
    **dict.fromkeys(_BYTES, _TEXTS | _BYTES),
    **dict.fromkeys(_NUMBERS, _TO_NUMBER),
    **dict.fromkeys(_STAMPS, _TEXTS | _NUMBERS | _TIMES),
    TypeRoot.BOOLEAN: _TEXTS | frozenset(_INTEGERS),
    TypeRoot.DATE: _TEXTS | _STAMPS,
    TypeRoot.TIME: _TEXTS | _STAMPS,
}


def can_change(old: DataType, new: DataType, *, explicit: bool) -> bool:
    """Return whether a column of type `old` may become `new`; `explicit` allows changes that can lose values.

    Nullability is not looked at. A constructed type changes only by its members, never as a whole.
    """
    if not_null(old) == not_null(new):
        return True
    if not isinstance(old, AtomicType) or not isinstance(new, AtomicType):
        return False
    if old.root is new.root and old.root not in _OPAQUE:
        return True
    if old.root in _IMPLICIT.get(new.root, ()):
        return True
    return explicit and old.root in _EXPLICIT.get(new.root, ())
