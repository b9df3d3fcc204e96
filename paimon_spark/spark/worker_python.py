"""The Python of the workers of this session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SETTING = "spark.pyspark.python"
_VARIABLE = "PYSPARK_PYTHON"


def worker_python(context: Any, engine: str, environ: Mapping[str, str]) -> str:
    """Return the program that starts Python workers.

    On this machine that is the Python of the engine, which has all dependencies. Machines of a cluster may have it
    elsewhere, or unpack a shipped one, by Spark's settings for Python workers.

    Args:
        context: the SparkContext, or an object with its master and settings.
        engine: the Python of the engine.
        environ: the environment in which Spark started the engine.
    """
    master = str(context.master)
    if master == "local" or master.startswith("local["):
        return engine
    return str(context.getConf().get(_SETTING) or environ.get(_VARIABLE) or engine)
