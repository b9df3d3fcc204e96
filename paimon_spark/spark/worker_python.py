"""Which Python the workers of this session run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SETTING = "spark.pyspark.python"
_VARIABLE = "PYSPARK_PYTHON"


def worker_python(context: Any, engine: str, environ: Mapping[str, str]) -> str:
    """Return the program that starts Python workers.

    On this machine that is the Python of the engine, which surely has what is needed. The machines of a cluster may
    have theirs elsewhere, or unpack one that was shipped, as Spark is told for all Python workers.

    Args:
        context: the SparkContext, or what answers for its master and settings.
        engine: the Python of the engine.
        environ: the environment in which Spark started the engine.
    """
    master = str(context.master)
    if master == "local" or master.startswith("local["):
        return engine
    return str(context.getConf().get(_SETTING) or environ.get(_VARIABLE) or engine)
