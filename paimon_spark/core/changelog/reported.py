"""The levels whose rows are in the changelog already; that of the others is written by a later compaction.

(docs/spec/semantics.md, G10)
"""

from __future__ import annotations

from paimon_spark.core.table import Table
from paimon_spark.spec.kinds import ChangelogProducer, MergeEngine


def first_reported_level(table: Table, producer: ChangelogProducer | None = None) -> int:
    """Return the lowest level whose rows streams have read; 0 in a table without a primary key.

    Args:
        table: the table.
        producer: a changelog producer; that of the table by default.
    """
    if not table.is_primary_key_table:
        return 0
    producer = table.options.changelog_producer if producer is None else producer
    if producer is ChangelogProducer.FULL_COMPACTION:
        return table.stored_options.num_levels - 1
    waits = producer is ChangelogProducer.LOOKUP or table.options.merge_engine is MergeEngine.FIRST_ROW
    return int(waits)
