"""Upkeep of the tables of users and privileges after a change."""

from __future__ import annotations

import logging

from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.post_commit import maintain_after_commit
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import ConflictError

_log = logging.getLogger(__name__)


@translate_io_errors()
def compact_and_expire(table: Table) -> None:
    """Compact a table of few rows if it is due, and expire its snapshots; the next change repeats what fails."""
    try:
        plan = plan_compaction(table, strategy=Strategy.MINOR)
        if not plan.is_empty:
            execute_compaction(plan, LocalRunner())
    except ConflictError as e:
        _log.info("The compaction of %s was dropped because of a conflicting commit: %s", table.name, e)
    for warning in maintain_after_commit(table).warnings:
        _log.warning("%s: %s", table.name, warning)
