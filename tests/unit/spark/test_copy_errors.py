"""Errors of COPY INTO: which of Spark's and of a store's are told in our words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import SparkRuntimeException

from paimon_spark.engine.load_history import SourceFile
from paimon_spark.errors import ArgumentError, ConflictError, ErrorKind, StoreError
from paimon_spark.spark.copy_into import _UNREADABLE, _check_unchanged, _readable
from paimon_spark.spark.copy_places import reached, table_above
from paimon_spark.spark.failures import java_message
from paimon_spark.sqlparse.copy_into import CopyFrom, parse_copy_statement
from paimon_spark.testing.tables import new_table


class _JavaError(Py4JJavaError):  # type: ignore[misc]
    """An exception of the JVM."""

    def __init__(self, name: str, message: str | None, cause: Any = None) -> None:
        text = name if message is None else f"{name}: {message}"
        self.java_exception = SimpleNamespace(
            getMessage=lambda: message, toString=lambda: text, getCause=lambda: cause, _target_id="o1"
        )
        self.exception_cmd = ""
        self.errmsg = text

    def __str__(self) -> str:
        return self.errmsg


class _Denied:
    """A file system that lets its user into `/a/b` only."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def exists(self, place: Any) -> bool:
        raise self.error


def _path(text: str) -> Any:
    parent = text.rpartition("/")[0]
    return SimpleNamespace(
        getParent=lambda: _path(parent) if text else None,
        suffix=lambda more: _path(text + more),
        toString=lambda: text,
        toUri=lambda: SimpleNamespace(getPath=lambda: text),
    )


def test_an_exception_without_a_message_has_its_name() -> None:
    assert java_message(_JavaError("java.lang.NullPointerException", None)) == "java.lang.NullPointerException"
    assert java_message(_JavaError("java.io.IOException", "no\nmore")) == "no"


def test_only_failures_of_reading_are_of_the_files() -> None:
    with pytest.raises(ArgumentError, match="The files cannot be read: ") as told, _readable(only=_UNREADABLE):
        raise SparkRuntimeException("[FAILED_READ_FILE.NO_HINT] Encountered error while reading file a.parquet.")
    assert told.value.kind is ErrorKind.CORRUPT_DATA_FILE
    with pytest.raises(SparkRuntimeException), _readable(only=_UNREADABLE):
        raise SparkRuntimeException("Job aborted: java.io.IOException: No space left on device")


def test_what_may_not_be_read_above_is_no_table() -> None:
    denied = _JavaError(
        "java.io.IOException", "no", _JavaError("java.nio.file.AccessDeniedException", "a").java_exception
    )
    assert table_above(_Denied(denied), _path("/a/b/c")) is None
    with pytest.raises(StoreError, match="/a/b cannot be reached: timed out") as told:
        table_above(_Denied(_JavaError("java.io.IOException", "timed out")), _path("/a/b/c"))
    assert told.value.kind is ErrorKind.STORE_UNAVAILABLE
    with pytest.raises(StoreError, match="may list and write"), reached("/a"):
        raise denied


def _status(name: str, size: int) -> Any:
    path = SimpleNamespace(getName=lambda: name, toString=lambda: f"/in/{name}")
    return SimpleNamespace(
        getPath=lambda: path, isFile=lambda: True, getLen=lambda: size, getModificationTime=lambda: 1
    )


def _session(store: Any) -> Any:
    """Return a session whose file system is `store`."""
    path = SimpleNamespace(getFileSystem=lambda _: store)
    jvm = SimpleNamespace(
        org=SimpleNamespace(
            apache=SimpleNamespace(hadoop=SimpleNamespace(fs=SimpleNamespace(Path=lambda _: path))),
        )
    )
    state = SimpleNamespace(newHadoopConf=lambda: None)
    return SimpleNamespace(
        sparkContext=SimpleNamespace(_jvm=jvm), _jsparkSession=SimpleNamespace(sessionState=lambda: state)
    )


def test_only_loaded_files_must_not_change() -> None:
    listed = [_status("a.csv.gz", 9)]
    store = SimpleNamespace(exists=lambda _: True, listStatus=lambda _: listed, makeQualified=lambda path: path)
    statement = parse_copy_statement("COPY INTO t FROM '/in' FILE_FORMAT = (TYPE = CSV, COMPRESSION = GZIP)")
    assert isinstance(statement, CopyFrom)
    check: Any = (_session(store), new_table({"k": "INT"}), statement, [SourceFile("/in/a.csv.gz", 9, 1)], 0, [])
    listed.append(_status("new.csv", 5))
    _check_unchanged(*check)
    listed[0] = _status("a.csv.gz", 10)
    with pytest.raises(ConflictError, match=r"a\.csv\.gz changed between the check and the write"):
        _check_unchanged(*check)
