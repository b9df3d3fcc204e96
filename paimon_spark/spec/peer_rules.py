"""Combinations of options that other readers of the format reject whenever they open a table.

(docs/spec/semantics.md, section 21)
"""

from __future__ import annotations

from collections.abc import Iterator

from paimon_spark.errors import OptionError
from paimon_spark.spec.kinds import ChangelogProducer
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.schema import TableSchema

_STARTS = ("scan.snapshot-id", "scan.tag-name", "scan.timestamp", "scan.timestamp-millis", "scan.watermark")
_OVERWRITE, _SORT, _NUMBERS = "streaming-read-overwrite", "manifest-sort.enabled", "table-read.sequence-number.enabled"


def check_openable(schema: TableSchema, options: CoreOptions) -> None:
    """Reject options with which Paimon does not open a table.

    Raises:
        OptionError: the message names the options.
    """
    for message, hint in _contradictions(schema, options):
        raise OptionError(message, hint=hint)


def _contradictions(schema: TableSchema, options: CoreOptions) -> Iterator[tuple[str, str]]:
    keyed, producer = bool(schema.primary_keys), options.changelog_producer
    if options.flag("streaming-read-overwrite") and not keyed:
        yield (
            f"The option '{_OVERWRITE}' is for tables with a primary key.",
            "Leave it out, or use 'streaming-read-append-overwrite'.",
        )
    if options.flag("streaming-read-overwrite") and producer not in (ChangelogProducer.NONE, ChangelogProducer.INPUT):
        yield (
            f"The options '{_OVERWRITE}' and 'changelog-producer' = '{producer}' contradict each other: streams would "
            "have the changes of overwrites twice.",
            "Leave the first one out.",
        )
    if options.flag("table-read.sequence-number.enabled") and not keyed:
        yield f"The option '{_NUMBERS}' is for tables with a primary key.", "Leave it out."
    if options.flag(_SORT) and not (schema.partition_keys or options.flag("data-evolution.enabled")):
        yield f"The option '{_SORT}' is for tables with partition columns.", "Leave it out, or partition the table."
    starts = [key for key in _STARTS if (options.get(key) or "").strip()]
    if len(starts) > 1:
        yield f"The options '{starts[0]}' and '{starts[1]}' exclude each other.", "Set only one of them."
