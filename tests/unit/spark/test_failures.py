"""Failed Spark jobs are translated to the errors of their tasks."""

from __future__ import annotations

import ast
import re

import pytest

from paimon_spark.bridge.jars import SOURCES
from paimon_spark.errors import ErrorKind, PaimonError, UsageError
from paimon_spark.spark.failures import _ABSENT, clear_failure

ABORTED = (
    "An error occurred while calling o60.sql.\n: org.apache.spark.SparkException: Job aborted due to stage failure: "
)
TASK = "Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task 0.0: "


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (TASK + "paimon_spark.errors.UsageError: [TYPE_MISMATCH] A text is not a number.", ErrorKind.TYPE_MISMATCH),
        (
            TASK + "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).",
            ErrorKind.WORKER_FAILED,
        ),
        (
            TASK + "java.lang.IllegalStateException: Python daemon failed to launch worker.",
            ErrorKind.WORKER_FAILED,
        ),
        (
            TASK + "(localhost executor driver): java.io.EOFException\n"
            "\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:386)\n"
            "\tat org.apache.spark.api.python.PythonWorkerFactory.createWorker$1(PythonWorkerFactory.scala:172)\n",
            ErrorKind.WORKER_FAILED,
        ),
        (
            TASK + "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
            '  File "/opt/spark/python/lib/pyspark.zip/pyspark/cloudpickle/cloudpickle.py", line 457, in subimport\n'
            "ModuleNotFoundError: No module named 'paimon_spark'\n",
            ErrorKind.ENVIRONMENT,
        ),
    ],
)
def test_the_error_of_a_task_has_its_code(text: str, kind: ErrorKind) -> None:
    found = clear_failure(RuntimeError(ABORTED + text))
    assert isinstance(found, PaimonError)
    assert found.kind is kind
    assert "stage" not in str(found)


def test_the_error_of_a_task_precedes_the_end_of_its_worker() -> None:
    text = TASK + "paimon_spark.errors.UsageError: [TYPE_MISMATCH] No.\n Python worker exited unexpectedly (crashed)"
    assert str(clear_failure(RuntimeError(ABORTED + text))) == "[TYPE_MISMATCH] No."


def test_what_is_not_ours_stays_as_it_is() -> None:
    other = RuntimeError(ABORTED + TASK + "java.lang.ArithmeticException: / by zero")
    assert clear_failure(other) is other
    of_the_user = RuntimeError(ABORTED + TASK + "ModuleNotFoundError: No module named 'scipy'")
    assert clear_failure(of_the_user) is of_the_user
    ours = UsageError("No.")
    assert clear_failure(ours) is ours


def in_scala(name: str) -> list[str]:
    """Return the texts in the definition of `name` in the bridge, which ends with an empty line or the next definition.

    Parts that a plus sign joins are one text.
    """
    source = (SOURCES / "engine" / "Tasks.scala").read_text(encoding="utf-8")
    found = re.search(rf"(?:val|def) {name}\b.*?(?=\n\s*(?:private )?(?:val|def)|\n\n)", source, re.DOTALL)
    assert found is not None
    joined = re.sub(r'" \+\s*s?"', "", found[0])
    return [ast.literal_eval(text) for text in re.findall(r'"(?:[^"\\]|\\.)*"', joined)]


def test_the_bridge_knows_the_same_absent_modules() -> None:
    (pattern,) = in_scala("Absent")
    for module in [*pattern.partition("(")[2].rstrip(")").split("|"), "botocore"]:
        found = clear_failure(RuntimeError(f"ModuleNotFoundError: No module named '{module}'"))
        assert isinstance(found, PaimonError), module
        assert found.kind is ErrorKind.ENVIRONMENT
        assert str(found) == in_scala("missing")[0].replace("$module", module)
    assert pattern == _ABSENT.pattern


def test_the_bridge_reports_ended_workers_like_ended_executors() -> None:
    for said in in_scala("LostWorker"):
        assert str(clear_failure(RuntimeError(ABORTED + TASK + said))) == in_scala("lostWorker")[0]
    (lost,) = in_scala("LostExecutor")
    assert str(clear_failure(RuntimeError(ABORTED + lost))) == in_scala("lostExecutor")[0]
