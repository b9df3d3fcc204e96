"""Translation of failed Spark jobs to the errors that this package raised in their tasks."""

from __future__ import annotations

import json
import re
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError

from paimon_spark import errors
from paimon_spark.core.cancellation import cancellation
from paimon_spark.errors import EngineError, ErrorKind, PaimonError
from paimon_spark.spark.jvm_frames import jvm_frames

_RAISED = re.compile(r"paimon_spark\.errors\.(\w+): \[([A-Z_]+)\] (.*)")
_DEAD_WORKER = re.compile(
    r"Python worker exited unexpectedly|Python worker failed to connect back|Python daemon failed to launch worker|"
    r"EOFException occurred while reading the port number from|"
    r"EOFException\s+at \S*DataInputStream\.readInt\S*\s+(?:at \S*SocketAuth\S*\s+)*at \S*PythonWorkerFactory\."
)
"""A worker that died, or a failure of the process that starts workers."""
_LOST_EXECUTOR = "ExecutorLostFailure"
_CANCELLED_JOB = "SPARK_JOB_CANCELLED"
_ABSENT = re.compile(
    r"ModuleNotFoundError: No module named "
    r"'(paimon_spark|pyarrow|numpy|fastavro|backports|pyroaring|datasketches|msgspec|botocore)"
)
"""This package and the modules that its tasks import; other missing modules concern functions of the user's query."""
# The object TaskFailure of the bridge does the same for exceptions of the JVM.


def was_cancelled(error: Exception) -> bool:
    """Return whether a job failed because it was cancelled."""
    if _CANCELLED_JOB in whole_text(error):
        return True
    return isinstance(error.__cause__, Exception) and was_cancelled(error.__cause__)


def clear_failure(error: Exception) -> Exception:
    """Return the error of this package that made a task fail, else `error` itself."""
    if isinstance(error, PaimonError):
        return error
    if was_cancelled(error):
        return cancellation("its job")
    java = _in_jvm(error)
    if java is not None:
        failure = jvm_frames().failure(java)
        return _named(**json.loads(failure)) if failure else error
    text = str(error)
    found = _RAISED.findall(text)
    if found:
        name, code, text = found[-1]
        return _named(name, code, text)
    absent = _ABSENT.search(text)
    if absent is not None:
        return _without_module(absent[1])
    if _DEAD_WORKER.search(text):
        return _lost_worker()
    return _lost_executor() if _LOST_EXECUTOR in text else error


def _in_jvm(error: Exception) -> Any | None:
    """Return the JVM exception of an error of pyspark or py4j."""
    origin = getattr(error, "_origin", None) or error
    if isinstance(origin, Py4JJavaError):
        return origin.java_exception
    return origin if isinstance(origin, JavaObject) else None


def _named(error: str, code: str, text: str) -> PaimonError:
    """Return an error by the name of its class."""
    kind = getattr(errors, error, None)
    known = ErrorKind(code) if code in ErrorKind.__members__ else None
    return kind(text, kind=known) if isinstance(kind, type) and issubclass(kind, PaimonError) else EngineError(text)


def _lost_worker() -> EngineError:
    return EngineError(
        "A Python worker ended before its task was done.",
        hint="Check the system log for a kill, often for lack of memory; then run the statement again.",
        kind=ErrorKind.WORKER_FAILED,
    )


def _lost_executor() -> EngineError:
    return EngineError(
        "An executor ended before its tasks were done.",
        hint="Check the cluster log for a kill, often for lack of memory; then run the statement again.",
        kind=ErrorKind.WORKER_FAILED,
    )


def _without_module(module: str) -> EngineError:
    return EngineError(
        f"The Python of the workers has no module '{module}'.",
        hint="Install paimon-spark on every machine, or ship it: `paimon-spark env --archive FILE`, --py-files FILE; "
        "what it needs must be in the environment that spark.pyspark.python names.",
        kind=ErrorKind.ENVIRONMENT,
    )


def java_message(error: Py4JJavaError) -> str:
    """Return what an exception of the JVM says, in one line; one without a message is named by its class."""
    cause = error.java_exception
    return str(cause.getMessage() or cause.toString()).strip().partition("\n")[0]


def whole_text(error: Exception) -> str:
    """Return what an error of Spark says, its causes in the JVM included."""
    return f"{error}\n{getattr(error, '_stackTrace', '')}"


def first_line(error: BaseException) -> str:
    """Return the message of a failure of Spark, without the query and the trace below it."""
    return str(error).strip().partition("\n")[0]
