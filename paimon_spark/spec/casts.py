"""Changes of a column's type that the format allows (docs/spec/semantics.md, H6)."""

from __future__ import annotations

from paimon_spark.spec.types import STRING, AtomicType, DataType, MultisetType, TypeRoot, children, not_null

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
_TO_WHOLE = _NUMBERS | _TEXTS | {TypeRoot.BOOLEAN}
_EXPLICIT: dict[TypeRoot, frozenset[TypeRoot]] = {
    **dict.fromkeys(_TEXTS, _NUMBERS | _TEXTS | _BYTES | {TypeRoot.BOOLEAN}),
    **dict.fromkeys(_BYTES, _TEXTS | _BYTES),
    **dict.fromkeys(_NUMBERS, _TO_WHOLE),
    **dict.fromkeys((TypeRoot.INT, TypeRoot.BIGINT), _TO_WHOLE | _STAMPS),
    **dict.fromkeys(_STAMPS, _TEXTS | _TIMES | {TypeRoot.INT, TypeRoot.BIGINT}),
    TypeRoot.BOOLEAN: _TEXTS | frozenset(_INTEGERS),
    TypeRoot.DATE: _TEXTS | _STAMPS,
    TypeRoot.TIME: _TEXTS | _STAMPS,
}
_UNCHANGEABLE = _OPAQUE | {TypeRoot.TIME}
"""Readers do not cast these types to another precision or variant."""


def can_change(old: DataType, new: DataType, *, explicit: bool) -> bool:
    """Return whether a column of type `old` may become `new`; `explicit` allows changes that can lose values.

    These are the changes for which Paimon's readers have a cast. A constructed type can become a string type; otherwise
    only its members change. Dates and times can become a nullable STRING, but no other string type.
    """
    if not_null(old) == not_null(new):
        return True
    if not isinstance(new, AtomicType):
        return False
    if not isinstance(old, AtomicType):
        return explicit and new.root in _TEXTS and _has_text(old)
    if old.root in _TIMES and new.root in _TEXTS:
        return explicit and new == STRING
    if old.root is new.root:
        return old.root not in _UNCHANGEABLE
    return old.root in _IMPLICIT.get(new.root, ()) or (explicit and old.root in _EXPLICIT.get(new.root, ()))


def _has_text(t: DataType) -> bool:
    if isinstance(t, AtomicType):
        return can_change(t, STRING, explicit=True)
    return not isinstance(t, MultisetType) and all(map(_has_text, children(t)))
