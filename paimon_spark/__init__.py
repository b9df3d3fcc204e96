"""Apache Paimon tables: `connect` in plain Python, `configure` a PySpark session, or use the `paimon-spark` command."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import ErrorKind, PaimonError
from paimon_spark.version import __version__

if TYPE_CHECKING:
    from paimon_spark.api.catalog import connect
    from paimon_spark.bridge.jars import jar_path
    from paimon_spark.bridge.progress_display import show_progress
    from paimon_spark.bridge.session import configure

__all__ = ["ErrorKind", "PaimonError", "__version__", "configure", "connect", "jar_path", "show_progress"]

_LAZY = {
    "configure": "paimon_spark.bridge.session",
    "connect": "paimon_spark.api.catalog",
    "jar_path": "paimon_spark.bridge.jars",
    "show_progress": "paimon_spark.bridge.progress_display",
}


def __getattr__(name: str) -> Any:
    """Load a part on first access: most of them import pyspark or pyarrow."""
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    message = f"module 'paimon_spark' has no attribute {name!r}"
    raise AttributeError(message)


def __dir__() -> list[str]:
    return list(__all__)
