"""Options in SQL: SET and RESET of the session's, and hints of single tables."""

from __future__ import annotations

from typing import Any

from paimon_spark.bridge.protocol import Request
from paimon_spark.spark.conf import canonical, check_setting, spellings
from paimon_spark.sqlparse import hints
from paimon_spark.sqlparse.settings import parse_setting


def claim_setting(request: Request) -> dict[str, Any]:
    """Return whether a statement sets, shows or resets a Paimon option, and which; nothing is set yet."""
    setting = parse_setting(request.args["text"])
    if setting is None:
        return {"claimed": False}
    if setting.value is not None:
        check_setting(setting.key, setting.value)
    return {
        "claimed": True,
        "key": canonical(setting.key),
        "value": setting.value,
        "reset": setting.reset,
        "spellings": spellings(setting.key),
    }


def rewrite_hints(request: Request) -> dict[str, Any]:
    """Return a statement with its OPTIONS hints rewritten to clauses of Spark."""
    return {"text": hints.rewrite_hints(request.args["text"])}


HANDLERS = {h.__name__: h for h in (claim_setting, rewrite_hints)}
