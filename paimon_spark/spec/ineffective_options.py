"""Options of merging and clustering that a table's keys, buckets or merge engine make ineffective.

They are rejected when they are set. A table of another engine that has them is read, written and altered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from paimon_spark.errors import OptionError
from paimon_spark.spec.aggregates import AGGREGATION_REMOVE_ON_DELETE, REMOVE_ON_DELETE, REMOVE_ON_SEQUENCE_GROUP
from paimon_spark.spec.clustering import is_clustered, sorts_writes
from paimon_spark.spec.kinds import MergeEngine
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.schema import TableSchema

_FUNCTION = ".aggregate-function"
_DEFAULT_FUNCTION = "fields.default-aggregate-function"
_CLUSTERING_COLUMNS = "clustering.columns"
_LOCAL_MERGE = "local-merge-buffer-size"


@dataclass(frozen=True, slots=True)
class Idle:
    """An option without effect: its key, the reason, and the remedy."""

    key: str
    message: str
    hint: str


def check_idle(schema: TableSchema, set_by_user: Collection[str], before: TableSchema | None = None) -> None:
    """Reject options that have no effect in a new or changed table.

    Args:
        schema: the table.
        set_by_user: the options to check; those that a catalog sets in every table may have no effect in some.
        before: the table before the change; what had no effect there is accepted.

    Raises:
        OptionError: the message names the option.
    """
    old = set(idle_options(before)) if before is not None else set()
    for found in idle_options(schema):
        if found.key in set_by_user and found not in old:
            raise OptionError(found.message, hint=found.hint)


def idle_options(schema: TableSchema) -> Iterator[Idle]:
    """Yield the options of merging and clustering that have no effect in a table."""
    options = CoreOptions(schema.options)
    engine = options.merge_engine
    if not schema.primary_keys:
        yield from _without_key(options)
    elif engine is MergeEngine.FIRST_ROW:
        for key in _functions(options):
            yield Idle(
                key,
                f"The option '{key}' has no effect with 'merge-engine' = 'first-row'.",
                "Leave the option out, or choose the 'merge-engine' aggregation.",
            )
    elif engine in (MergeEngine.AGGREGATION, MergeEngine.PARTIAL_UPDATE):
        for key in (f"fields.{name}{_FUNCTION}" for name in schema.primary_keys):
            if options.is_set(key):
                yield Idle(
                    key,
                    f"The option '{key}' has no effect: the column is in the primary key, so its values are equal.",
                    "Leave the option out.",
                )
    yield from _of_other_engines(options)
    yield from _of_clustering(schema, options)


def _of_clustering(schema: TableSchema, options: CoreOptions) -> Iterator[Idle]:
    if not options.is_set(_CLUSTERING_COLUMNS) or options.flag("pk-clustering-override"):
        return
    if is_clustered(schema, options) or sorts_writes(schema, options):
        return
    keyed = bool(schema.primary_keys)
    yield Idle(
        _CLUSTERING_COLUMNS,
        f"The option '{_CLUSTERING_COLUMNS}' = '{options.get(_CLUSTERING_COLUMNS)}' has no effect: "
        + ("the table is sorted by its primary key." if keyed else "the rows of a table with buckets stay in order."),
        "Leave the option out." if keyed else "Set 'clustering.incremental' = 'true', too, or leave the option out.",
    )


def _without_key(options: CoreOptions) -> Iterator[Idle]:
    engine = options.merge_engine
    hint = "Define a primary key, or leave the option out."
    if engine is not MergeEngine.DEDUPLICATE:
        yield Idle("merge-engine", f"The option 'merge-engine' = '{engine}' needs a primary key.", hint)
    if options.local_merge_buffer_size is not None:
        value = options.get(_LOCAL_MERGE)
        yield Idle(_LOCAL_MERGE, f"The option '{_LOCAL_MERGE}' = '{value}' needs a primary key.", hint)


def _functions(options: CoreOptions) -> Iterator[str]:
    own = (key for key in options.values if key.startswith("fields.") and key.endswith(_FUNCTION))
    yield from (key for key in (*own, _DEFAULT_FUNCTION) if options.is_set(key))


def _of_other_engines(options: CoreOptions) -> Iterator[Idle]:
    for key, engine, on in (
        (REMOVE_ON_DELETE, MergeEngine.PARTIAL_UPDATE, options.flag(REMOVE_ON_DELETE)),
        (REMOVE_ON_SEQUENCE_GROUP, MergeEngine.PARTIAL_UPDATE, bool(options.names(REMOVE_ON_SEQUENCE_GROUP))),
        (AGGREGATION_REMOVE_ON_DELETE, MergeEngine.AGGREGATION, options.flag(AGGREGATION_REMOVE_ON_DELETE)),
    ):
        if on and options.merge_engine is not engine:
            yield Idle(
                key,
                f"The option '{key}' = '{options.get(key)}' has no effect with 'merge-engine' = "
                f"'{options.merge_engine}'.",
                f"Set 'merge-engine' = '{engine}' when the table is created, or leave the option out.",
            )
