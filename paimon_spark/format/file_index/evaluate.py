"""The rows of a file that may match a predicate, by the indexes of the file.

Every result has all rows that match, and may have others. Results are therefore never negated: negations are first
pushed to the leaves, which use the inverse test of the index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyroaring import BitMap

from paimon_spark.format.file_index.base import IndexReader, Rows
from paimon_spark.format.file_index.values import Domain, Literal
from paimon_spark.spec.predicate import (
    AlwaysFalse,
    And,
    Comparison,
    InList,
    IsNull,
    Or,
    Predicate,
    StartsWith,
    push_not,
)
from paimon_spark.spec.types import TypeRoot

Indexes = Callable[[str], Sequence[tuple[IndexReader, Domain]]]
"""Returns the indexes of a column by its name in the predicate."""


def matching_rows(predicate: Predicate, indexes: Indexes) -> Rows:
    """Return the rows that may match; None if the indexes leave none out."""
    return _evaluate(push_not(predicate), indexes)


def _evaluate(predicate: Predicate, indexes: Indexes) -> Rows:
    if isinstance(predicate, And):
        out: Rows = None
        for part in predicate.parts:
            out = both(out, _evaluate(part, indexes))
            if out is not None and not out:
                break
        return out
    if isinstance(predicate, Or):
        union = BitMap()
        for part in predicate.parts:
            rows = _evaluate(part, indexes)
            if rows is None:
                return None
            union |= rows
        return union
    if isinstance(predicate, AlwaysFalse):
        return BitMap()
    if not isinstance(predicate, Comparison | InList | IsNull | StartsWith):
        return None
    found: Rows = None
    for reader, domain in indexes(predicate.column):
        found = both(found, _leaf(predicate, reader, domain))
        if found is not None and not found:
            break
    return found


def both(one: Rows, other: Rows) -> Rows:
    """Return the rows of both results."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _leaf(leaf: Comparison | InList | IsNull | StartsWith, reader: IndexReader, domain: Domain) -> Rows:
    if isinstance(leaf, IsNull):
        return reader.valid() if leaf.negated else reader.nulls()
    if domain.type.root is TypeRoot.CHAR:
        return None  # comparisons ignore trailing blanks, and only some writers store them
    if isinstance(leaf, InList):
        return _in_list(leaf, reader, domain)
    if isinstance(leaf, StartsWith):
        return _starts_with(leaf, reader, domain)
    if leaf.value is None:
        return reader.nulls() if leaf.op in ("<=>", "is") else BitMap()
    literal = domain.literal(leaf.value)
    if literal is None:
        return None
    if leaf.op in ("=", "<=>", "is"):
        return reader.among(literal.codes)
    if leaf.op == "!=":
        return _others(reader, [literal])
    strictly = literal.exact and leaf.op in ("<", ">")
    if leaf.op in ("<", "<="):
        return reader.at_most(literal.low if strictly else literal.high, strictly=strictly)
    return reader.at_least(literal.high if strictly else literal.low, strictly=strictly)


def _in_list(leaf: InList, reader: IndexReader, domain: Domain) -> Rows:
    if leaf.negated and None in leaf.values:
        return BitMap()
    literals = [domain.literal(v) for v in leaf.values if v is not None]
    if leaf.negated:
        return _others(reader, [x for x in literals if x is not None])
    known = [x for x in literals if x is not None]
    return reader.among([c for x in known for c in x.codes]) if len(known) == len(literals) else None


def _others(reader: IndexReader, literals: Sequence[Literal]) -> Rows:
    """Return the rows with values that differ from all literals."""
    valid = reader.valid()
    if valid is None or not reader.exact:
        return valid
    equal = reader.among([c for x in literals if x.exact for c in x.codes])
    return valid if equal is None else valid - equal


def _starts_with(leaf: StartsWith, reader: IndexReader, domain: Domain) -> Rows:
    literal = domain.literal(leaf.prefix) if domain.is_text else None
    if literal is None or not isinstance(literal.low, bytes):
        return None
    stem = literal.low.rstrip(b"\xff")
    if not stem:
        return None
    beyond = stem[:-1] + bytes([stem[-1] + 1])
    return both(reader.at_least(literal.low), reader.at_most(beyond, strictly=True))
