"""The kinds of tasks that runners carry to workers: JSON text in, JSON text out."""

from __future__ import annotations

import json
from collections.abc import Callable

from paimon_spark.core.compact.rewrite import CompactTask, compact_bucket
from paimon_spark.core.messages import messages_to_json
from paimon_spark.core.table import Table
from paimon_spark.errors import ArgumentError


def run_task(kind: str, payload: str) -> str:
    """Run one task.

    Raises:
        ArgumentError: there is no task of this kind.
    """
    task = TASKS.get(kind)
    if task is None:
        raise ArgumentError(f"There is no task called '{kind}'.", hint=f"Kinds are {', '.join(sorted(TASKS))}.")
    return task(payload)


def compact_payload(table: Table, task: CompactTask) -> str:
    """Return the payload of a compaction task; its result is a JSON list of commit messages."""
    return json.dumps({"table": table.to_config(), "task": task.to_plain()}, separators=(",", ":"))


def _compact(payload: str) -> str:
    raw = json.loads(payload)
    table = Table.from_config(raw["table"])
    return messages_to_json([compact_bucket(table, CompactTask.from_plain(raw["task"]))])


TASKS: dict[str, Callable[[str], str]] = {"compact": _compact}
