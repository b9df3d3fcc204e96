"""The arguments by which procedures choose partitions: `partitions` and `where`."""

from __future__ import annotations

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.core.table import Table
from paimon_spark.errors import ArgumentError
from paimon_spark.spec.predicate import Predicate
from paimon_spark.sqlparse.partitions import each_partition
from paimon_spark.sqlparse.where import parse_where


def check_one_filter(args: Arguments) -> None:
    """Reject calls with both arguments.

    Raises:
        ArgumentError: `partitions` and `where` are given.
    """
    if args.optional_text("partitions") is not None and args.optional_text("where") is not None:
        raise ArgumentError("partitions and where cannot be given together.", hint="Leave one of them out.")


def partition_filters(ctx: CallContext, table: Table, args: Arguments) -> list[tuple[str, Predicate]]:
    """Return the partition filters, which are joined by OR, with their texts; empty for all partitions."""
    partitions, where = args.optional_text("partitions"), args.optional_text("where")
    if partitions is not None:
        return each_partition(partitions, table.schema, zone=ctx.zone)
    return [] if where is None else [(where, parse_where(where, table.schema, zone=ctx.zone))]
