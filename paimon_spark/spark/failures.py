"""Failures of Spark jobs as the errors that our own code raised inside them."""

from __future__ import annotations

import re

from paimon_spark import errors
from paimon_spark.errors import EngineError, ErrorKind, PaimonError, UsageError

_RAISED = re.compile(r"paimon_spark\.errors\.(\w+): \[([A-Z_]+)\] (.*)")
_DEAD_WORKER = re.compile(
    r"Python worker exited unexpectedly|EOFException\s+at \S*DataInputStream\.readInt\S*\s+at \S*PythonWorkerFactory\."
)
"""A worker that died at work, or the process that starts workers, as one was asked for."""
_ABSENT = re.compile(
    r"ModuleNotFoundError: No module named '(paimon_spark|pyarrow|numpy|fastavro|backports|pyroaring|pydantic|botocore)"
)
"""Of this package and what its tasks import; another module is missing in a function of the user's query."""
_RAISED_IN_JVM = re.compile(r"paimonbridge\.PaimonException: \[([A-Z_]+)\] (.*)")


def was_cancelled(error: Exception) -> bool:
    """Return whether a job failed because somebody cancelled it."""
    return "[SPARK_JOB_CANCELLED]" in str(error)


def clear_failure(error: Exception) -> Exception:
    """Return the error of ours that a task raised or died without, else `error` itself."""
    if isinstance(error, PaimonError):
        return error
    found = _RAISED.findall(str(error))
    in_jvm = None if found else _RAISED_IN_JVM.search(str(error))
    if in_jvm is not None and in_jvm[1] in ErrorKind.__members__:
        return UsageError(in_jvm[2], kind=ErrorKind(in_jvm[1]))
    if not found:
        return _dead_worker() if _DEAD_WORKER.search(str(error)) else _without_module(error)
    name, code, text = found[-1]
    kind = getattr(errors, name, PaimonError)
    known = ErrorKind(code) if code in ErrorKind.__members__ else None
    return kind(text, kind=known) if isinstance(kind, type) and issubclass(kind, PaimonError) else error


def _dead_worker() -> EngineError:
    return EngineError(
        "A Python worker ended before its task was done.",
        hint="Look in the system's log for a kill, which is often for lack of memory; then run the statement again.",
        kind=ErrorKind.WORKER_FAILED,
    )


def _without_module(error: Exception) -> Exception:
    """Return what to do if a worker did not find this package or one that it needs, else `error` itself."""
    absent = _ABSENT.search(str(error))
    if absent is None:
        return error
    return EngineError(
        f"The Python of the workers has no module '{absent[1]}'.",
        hint="Install paimon-spark on every machine, or ship it: `paimon-spark env --archive FILE`, --py-files FILE; "
        "what it needs must be in the environment that spark.pyspark.python names; see docs/cluster.md.",
        kind=ErrorKind.ENVIRONMENT,
    )


def first_line(error: BaseException) -> str:
    """Return what a failure of Spark says, without the query and the trace below it."""
    return str(error).strip().partition("\n")[0]
