"""All methods that the JVM may call, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from paimon_spark.bridge.handlers import analyze, catalog, listing, replace, rows, scan, stream, views, write
from paimon_spark.bridge.protocol import Request
from paimon_spark.bridge.server import Handler

_PARSING: Mapping[str, Sequence[str]] = {
    "call": (
        *("claim_call", "run_call", "list_procedures", "describe_procedure", "run_procedure"),
        *("compaction_position", "compaction_step"),
    ),
    "flink": ("claim_statement", "run_statement", "duration_millis", "latest_snapshot", "tag_savepoint"),
    "session": ("claim_setting", "rewrite_hints"),
}
"""The methods of modules that parse SQL: few first statements need what these import, a fifth of the rest."""


def _on_first_use(module: str, name: str) -> Handler:
    def handle(request: Request) -> Any:
        return import_module(f"paimon_spark.bridge.handlers.{module}").HANDLERS[name](request)

    return handle


def import_the_rest() -> None:
    """Import what the first CALL would import, and the procedures."""
    for module in _PARSING:
        import_module(f"paimon_spark.bridge.handlers.{module}")
    import_module("paimon_spark.calls.registry").installed_registry()


HANDLERS: dict[str, Handler] = {
    **catalog.HANDLERS,
    **listing.HANDLERS,
    **scan.HANDLERS,
    **write.HANDLERS,
    **replace.HANDLERS,
    **rows.HANDLERS,
    **analyze.HANDLERS,
    **views.HANDLERS,
    **stream.HANDLERS,
    **{name: _on_first_use(module, name) for module, names in _PARSING.items() for name in names},
}
