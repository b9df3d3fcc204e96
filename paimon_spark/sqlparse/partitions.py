"""Partition strings: ``'dt=2024-05-14,hh=1;dt=2024-05-15'`` to predicates over the partition columns.

``,`` separates the columns of one partition (AND), ``;`` separates partitions (OR). A partial specification matches all
partitions with the given values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, tzinfo
from typing import Any

from paimon_spark.errors import ArgumentError, did_you_mean
from paimon_spark.spec.literals import value_text
from paimon_spark.spec.predicate import IsNull, Predicate, and_, is_partition
from paimon_spark.spec.quoted_text import string_literal
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import AtomicType, DataType, TypeRoot
from paimon_spark.sqlparse.casts import cast_text, local_time
from paimon_spark.sqlparse.options_text import Pair, split_pairs

DEFAULT_PARTITION_NAME = "__DEFAULT_PARTITION__"
_PLAIN = re.compile(r"[^\s,;'\"]([^,;'\"]*[^\s,;'\"])?")
"""The texts of values that need no quotes."""


def each_partition(
    text: str, schema: TableSchema, *, zone: tzinfo = UTC, parameter: str = "partitions"
) -> list[tuple[str, Predicate]]:
    """Return each alternative of `text`, as written and as a predicate.

    Values are plain text or SQL literals (``dt=2024``, ``dt='2024'``, ``dt=DATE '2024-05-14'``), cast to the column's
    type; the table's default partition name means null. `zone` is the time zone for timestamps with local time zone.

    Raises:
        ArgumentError: the table is not partitioned, an item is not a pair, a column is not a partition column or is
            duplicated within a partition, or a value does not fit its column.
    """
    if not schema.partition_keys:
        raise ArgumentError(
            f"The argument '{parameter}' needs a partitioned table, and this table has no partition columns.",
            hint="Leave the argument out.",
        )
    groups = list(split_pairs(text, parameter))
    if not groups:
        raise ArgumentError(
            f"The argument '{parameter}' does not name a partition.", hint="Write for example dt=2024-05-14."
        )
    return [(",".join(f"{p.key}={p.value}" for p in group), _one(group, schema, zone, parameter)) for group in groups]


def _one(group: list[Pair], schema: TableSchema, zone: tzinfo, parameter: str) -> Predicate:
    parts: dict[str, Predicate] = {}
    for pair in group:
        column = _column(pair.key, schema, parameter)
        if column in parts:
            raise ArgumentError(
                f"The argument '{parameter}' names the column '{column}' twice in one partition.",
                hint="Join alternatives with ';': dt=1;dt=2.",
            )
        parts[column] = _test(column, pair, schema, zone, parameter)
    return and_(*parts.values())


def _column(key: str, schema: TableSchema, parameter: str) -> str:
    if key in schema.partition_keys:
        return key
    same = [k for k in schema.partition_keys if k.lower() == key.lower()]
    if len(same) == 1:
        return same[0]
    raise ArgumentError(
        f"The argument '{parameter}' names '{key}', which is not a partition column; "
        f"the partition columns are [{', '.join(schema.partition_keys)}].",
        hint=did_you_mean(key, schema.partition_keys),
    )


def _test(column: str, pair: Pair, schema: TableSchema, zone: tzinfo, parameter: str) -> Predicate:
    default = schema.options.get("partition.default-name", DEFAULT_PARTITION_NAME)
    if not pair.quoted and pair.value == default:
        return IsNull(column)
    return is_partition(column, cast_text(pair.value, schema.field(column).type, zone=zone, parameter=parameter))


def partition_spec(values: Sequence[Any], schema: TableSchema, *, zone: tzinfo = UTC) -> str:
    """Return the specification from which `each_partition` parses the partition with these values of all columns."""
    default = schema.options.get("partition.default-name", DEFAULT_PARTITION_NAME)
    pairs = zip(schema.partition_fields, values, strict=True)
    return ",".join(f"{f.name}={default if v is None else _spelt(v, f.type, default, zone)}" for f, v in pairs)


def _spelt(value: Any, t: DataType, default: str, zone: tzinfo) -> str:
    if isinstance(t, AtomicType) and t.root is TypeRoot.TIMESTAMP_LTZ:
        value = local_time(value, zone)
    text = "0x" + value.hex() if isinstance(value, bytes) else value_text(value, t, legacy=False)
    if _PLAIN.fullmatch(text) and text != default:
        return text
    return string_literal(text, '"')
