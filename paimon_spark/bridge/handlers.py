"""All methods that the JVM may call, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from paimon_spark.bridge import (
    handlers_analyze,
    handlers_catalog,
    handlers_listing,
    handlers_replace,
    handlers_rows,
    handlers_scan,
    handlers_stream,
    handlers_views,
    handlers_write,
)
from paimon_spark.bridge.protocol import Request
from paimon_spark.bridge.server import Handler

_PARSING: Mapping[str, Sequence[str]] = {
    "handlers_call": (
        *("claim_call", "run_call", "list_procedures", "describe_procedure", "run_procedure"),
        *("compaction_position", "compaction_step"),
    ),
    "handlers_flink": ("claim_statement", "run_statement", "duration_millis", "latest_snapshot", "tag_savepoint"),
    "handlers_session": ("claim_setting", "rewrite_hints"),
}
"""The methods of modules that parse SQL: few first statements need what these import, a fifth of the rest."""


def _on_first_use(module: str, name: str) -> Handler:
    def handle(request: Request) -> Any:
        return import_module(f"paimon_spark.bridge.{module}").HANDLERS[name](request)

    return handle


def import_the_rest() -> None:
    """Import what the first CALL would, and the procedures."""
    for module in _PARSING:
        import_module(f"paimon_spark.bridge.{module}")
    import_module("paimon_spark.calls.registry").installed_registry()


HANDLERS: dict[str, Handler] = {
    **handlers_catalog.HANDLERS,
    **handlers_listing.HANDLERS,
    **handlers_scan.HANDLERS,
    **handlers_write.HANDLERS,
    **handlers_replace.HANDLERS,
    **handlers_rows.HANDLERS,
    **handlers_analyze.HANDLERS,
    **handlers_views.HANDLERS,
    **handlers_stream.HANDLERS,
    **{name: _on_first_use(module, name) for module, names in _PARSING.items() for name in names},
}
