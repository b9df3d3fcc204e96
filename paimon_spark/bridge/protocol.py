r"""The messages between the JVM and the engine: one definition for both sides, checked on arrival.

A request is ``method\n{json}`` plus JVM objects, the first of which is the session. A response is ``{"ok": …}``,
``{"error": …}``, a JVM object, or a JVM exception that the JVM raises again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

import msgspec

from paimon_spark.errors import EngineError, PaimonError
from paimon_spark.spark.session_timezone import session_zone
from paimon_spark.spark.values import value_from_jvm
from paimon_spark.spec.predicate import (
    FALSE,
    TRUE,
    And,
    Comparison,
    InList,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
    StartsWith,
    and_,
    is_partition,
    project,
)
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import AtomicType, DataField, DataType, TypeRoot

VERSION = 2
CANCEL = "cancel"
"""The method that cancels another request, whose id is its argument `request`."""
_TIMES = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_MICROS = 6
_NANOS_PER_MICRO, _NANOS_PER_MILLI = 1_000, 1_000_000
_OPERATORS: dict[str, Operator] = {"=": "=", "<=>": "<=>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "<>": "!="}


@dataclass(frozen=True, slots=True)
class CatalogInfo:
    """The catalog of a request: its name in Spark and its options."""

    name: str
    options: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """One request without its JVM objects."""

    version: int
    request: str = ""
    session: str
    conf: dict[str, str]
    catalog: CatalogInfo
    args: dict[str, Any]

    @property
    def zone(self) -> tzinfo:
        """Return the session's time zone."""
        return session_zone(self.conf)


@dataclass(frozen=True, slots=True)
class _Versioned:
    """The version of the protocol, which is checked before the rest is decoded."""

    version: int


_ENVELOPE = msgspec.json.Decoder(Envelope)
_VERSION = msgspec.json.Decoder(_Versioned)


@dataclass(frozen=True, slots=True)
class Request:
    """One request as passed to the handlers.

    Args:
        envelope: the request without its JVM objects.
        attached: the JVM's list of the session and of other objects. Each access is a round trip, so it is read on
            demand only.
    """

    envelope: Envelope
    attached: Any

    @property
    def args(self) -> dict[str, Any]:
        """Return the arguments of the method."""
        return self.envelope.args

    def jsession(self) -> Any:
        """Return the JVM's session."""
        return self.attached.get(0)

    @property
    def objects(self) -> tuple[Any, ...]:
        """Return the objects that the JVM attached, without the session."""
        return tuple(self.attached.get(i) for i in range(1, self.attached.size()))


def parse_request(text: str) -> tuple[str, Envelope]:
    """Split a request into its method and its envelope.

    Raises:
        EngineError: the JVM uses another version of the protocol, or the text is not a request.
    """
    method, _, body = text.partition("\n")
    try:
        spoken = _VERSION.decode(body).version
        if spoken == VERSION:
            return method, _ENVELOPE.decode(body)
    except (ValueError, RecursionError) as e:
        raise EngineError(f"The request '{method[:100]}' is malformed: {e}.") from e
    raise EngineError(
        f"The bridge jar uses protocol {spoken}, but this engine uses {VERSION}.",
        hint="Use the jar that `paimon-spark env` names.",
    )


def ok(value: Any) -> str:
    """Return the response with `value`."""
    return json.dumps({"ok": value})


def failed(error: PaimonError) -> str:
    """Return the response that makes the JVM raise `error`."""
    return json.dumps({"error": {"code": str(error.kind), "message": str(error)}})


def predicate_from_jvm(raw: Mapping[str, Any] | None, schema: TableSchema) -> Predicate:
    """Return the predicate that the JVM encoded, without the conjuncts over columns that the schema lacks."""
    if raw is None:
        return TRUE
    if raw["op"] == "and":
        return and_(*(predicate_from_jvm(p, schema) for p in raw["parts"]))
    return _predicate(raw, schema) if _columns(raw) <= set(schema.field_names) else TRUE


def scan_predicate(raw: Mapping[str, Any] | None, schema: TableSchema) -> Predicate:
    """Return the predicate by which a read may skip rows; Spark evaluates all but partition filters again.

    Conditions over timestamps of nanoseconds are left out: Spark compares them truncated to microseconds.
    """
    keys = schema.partition_keys
    seen = [f.name for f in schema.fields if f.name in keys or not _is_cut(f.type)]
    return project(predicate_from_jvm(raw, schema), seen)


def _is_cut(t: DataType) -> bool:
    return isinstance(t, AtomicType) and t.root in _TIMES and (t.precision or 0) > _MICROS


def _columns(raw: Mapping[str, Any]) -> set[str]:
    own = {raw["column"]} if "column" in raw else set()
    return own.union(*(_columns(p) for p in raw.get("parts", ())))


def _predicate(raw: Mapping[str, Any], schema: TableSchema) -> Predicate:
    op = raw["op"]
    if op in ("and", "or"):
        parts = tuple(_predicate(p, schema) for p in raw["parts"])
        return And(parts) if op == "and" else Or(parts)
    if op == "not":
        return Not(_predicate(raw["parts"][0], schema))
    if op in ("true", "false"):
        return TRUE if op == "true" else FALSE
    return _leaf(op, raw, schema)


def _leaf(op: str, raw: Mapping[str, Any], schema: TableSchema) -> Predicate:
    column = raw["column"]
    data_type = schema.field(column).type
    if op in ("is_null", "not_null"):
        return IsNull(column, negated=op == "not_null")
    if op == "in":
        values = [value_from_jvm(v, data_type) for v in raw["values"]]
        if _is_cut(data_type):
            return Or(tuple(compared("=", column, v, data_type) for v in values))
        return InList(column, tuple(values))
    value = value_from_jvm(raw["value"], data_type)
    if op == "starts_with":
        return StartsWith(column, value)
    return compared(_OPERATORS[op], column, value, data_type)


def compared(op: Operator, column: str, value: Any, t: DataType) -> Predicate:
    """Return a predicate that is true of every row whose truncated value in `column` compares so with `value`.

    Spark truncates timestamps of nanoseconds to microseconds: a stored value that equals `value` there lies between it
    and the next microsecond.
    """
    if value is None or not _is_cut(t):
        return Comparison(op, column, value)
    after = value.nano_of_milli + _NANOS_PER_MICRO
    following = Timestamp(value.millis + after // _NANOS_PER_MILLI, after % _NANOS_PER_MILLI)
    reached, passed = Comparison(">=", column, value), Comparison(">=", column, following)
    if op in ("<", ">="):
        return Comparison(op, column, value)
    if op in (">", "<="):
        return passed if op == ">" else Comparison("<", column, following)
    equal = And((reached, Comparison("<", column, following)))
    if op == "<=>":
        return And((IsNull(column, negated=True), *equal.parts))
    return equal if op == "=" else Or((Comparison("<", column, value), passed))


def in_partition(f: DataField, value: Any) -> Predicate:
    """Return a predicate that is true of the rows of a partition whose value in Spark is `value`."""
    return compared("<=>", f.name, value, f.type) if _is_cut(f.type) else is_partition(f.name, value)
