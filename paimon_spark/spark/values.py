"""Single values in messages from and to the JVM: Spark's internal values as text."""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import Any

from paimon_spark.spec.literals import java_float, to_single
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.types import AtomicType, DataType, TypeRoot

_NUMBERS = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DATE, TypeRoot.TIME)
_TIMES = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


def value_from_jvm(value: str | None, data_type: DataType) -> Any:
    """Return a value of the table's type from Spark's internal value as text."""
    if value is None or not isinstance(data_type, AtomicType):
        return value
    root = data_type.root
    if root in _NUMBERS:
        return int(value)
    if root is TypeRoot.DOUBLE:
        return float(value)
    if root is TypeRoot.FLOAT:
        return to_single(float(value))
    if root is TypeRoot.BOOLEAN:
        return value == "true"
    if root is TypeRoot.DECIMAL:
        return Decimal(value)
    if root in _TIMES:
        millis, micros = divmod(int(value), 1000)
        return Timestamp(millis, micros * 1000)
    if root in (TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.BLOB):
        return base64.b64decode(value)
    return value


def value_to_jvm(value: Any) -> str | None:
    """Return a value of `spec.rows` as the text of Spark's internal value."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Timestamp):
        return str(value.millis * 1000 + value.nano_of_milli // 1000)
    if isinstance(value, float):
        return java_float(value, single=False)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return str(value)
