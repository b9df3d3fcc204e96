"""Clustering of append tables: its options, and the tables that they fit (docs/spec/semantics.md, A6)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from paimon_spark.errors import NotFoundError, OptionError
from paimon_spark.spec.options import UNAWARE_OR_DYNAMIC_BUCKET, CoreOptions
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import AtomicType, atomic_text, is_ordered

_AUTO = "auto"
_MOST_ZORDER = 4


class Order(StrEnum):
    """How rows are sorted: column by column, or along a space-filling curve through all columns."""

    ORDER = "order"
    ZORDER = "zorder"
    HILBERT = "hilbert"


@dataclass(frozen=True, slots=True)
class Clustering:
    """The sort order of the files of a table; `is_local` if each task sorts the rows of its own files only."""

    order: Order
    columns: tuple[str, ...]
    is_local: bool


def is_clustered(schema: TableSchema, options: CoreOptions) -> bool:
    """Return whether compaction keeps the files of a table clustered."""
    return options.flag("clustering.incremental") and not schema.primary_keys


def sorts_writes(schema: TableSchema, options: CoreOptions) -> bool:
    """Return whether a statement sorts the rows that it writes by ``clustering.columns``."""
    if schema.primary_keys or options.bucket != UNAWARE_OR_DYNAMIC_BUCKET or not options.names("clustering.columns"):
        return False
    return not is_clustered(schema, options) or options.flag("clustering.incremental.optimize-write")


def clustering_of(schema: TableSchema, options: CoreOptions) -> Clustering:
    """Return the clustering of a table whose compaction or writes sort rows.

    Raises:
        OptionError: there are no columns to cluster by, or the strategy does not fit them.
        NotFoundError: a column does not exist.
    """
    columns = options.names("clustering.columns")
    if not columns:
        raise OptionError(
            "The option 'clustering.incremental' needs 'clustering.columns'.",
            hint="Name the columns to cluster by, most selective first.",
        )
    twice = [name for name, count in Counter(columns).items() if count > 1]
    if twice:
        raise OptionError(
            f"The option 'clustering.columns' names '{twice[0]}' more than once.", hint="Name each column once."
        )
    for field in map(schema.field, columns):
        if not is_ordered(field.type):
            kind = atomic_text(field.type) if isinstance(field.type, AtomicType) else "a nested type"
            raise OptionError(
                f"The option 'clustering.columns' names '{field.name}' of {kind}, which has no order.",
                hint="Cluster by columns of plain types.",
            )
    local = options.word("clustering.incremental.mode").lower() == "local-sort"
    return Clustering(_order(options, len(columns)), columns, local)


def order_of(schema: TableSchema, options: CoreOptions) -> tuple[Order, tuple[str, ...]] | None:
    """Return how the files written with a schema are sorted; None if they are not clustered, or by invalid options."""
    if not is_clustered(schema, options):
        return None
    try:
        clustering = clustering_of(schema, options)
    except (OptionError, NotFoundError):
        return None
    return clustering.order, clustering.columns


def _order(options: CoreOptions, columns: int) -> Order:
    named = options.word("clustering.strategy").lower()
    if named == _AUTO:
        if columns == 1:
            return Order.ORDER
        return Order.ZORDER if columns <= _MOST_ZORDER else Order.HILBERT
    if named not in list(Order):
        raise OptionError(
            f"The option 'clustering.strategy' cannot be '{options.get('clustering.strategy')}'.",
            hint=f"It must be one of {', '.join((_AUTO, *Order))}.",
        )
    order = Order(named)
    if order is Order.HILBERT and columns == 1:
        raise OptionError(
            f"The option 'clustering.strategy' = '{order}' needs at least two 'clustering.columns'.",
            hint="Choose 'order' for one column, or name more columns.",
        )
    return order


def check_clustering(schema: TableSchema, options: CoreOptions) -> None:
    """Reject ``clustering.incremental`` in tables that it does not fit, and columns or strategies that do not sort.

    Raises:
        OptionError: the message names the options.
        NotFoundError: a column to cluster by does not exist.
    """
    if not options.flag("clustering.incremental"):
        if sorts_writes(schema, options):
            clustering_of(schema, options)
        return
    if schema.primary_keys:
        raise OptionError(
            "The option 'clustering.incremental' is for tables without primary key.",
            hint="Leave it out: the files of this table are sorted by key.",
        )
    if options.flag("data-evolution.enabled"):
        raise OptionError(
            "The options 'clustering.incremental' and 'data-evolution.enabled' contradict each other.",
            hint="Set only one of them.",
        )
    if options.bucket != UNAWARE_OR_DYNAMIC_BUCKET:
        if options.flag("bucket-append-ordered"):
            raise OptionError(
                "The option 'clustering.incremental' needs 'bucket-append-ordered' = 'false' in a table with buckets.",
                hint="Set it, or leave 'bucket' out.",
            )
        if options.deletion_vectors_enabled:
            raise OptionError(
                "With buckets, 'clustering.incremental' and 'deletion-vectors.enabled' contradict each other.",
                hint="Set only one of them, or leave 'bucket' out.",
            )
    clustering_of(schema, options)
