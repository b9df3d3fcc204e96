"""Errors of COPY INTO: which of Spark's and of a store's are told in our words."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import SparkRuntimeException

from paimon_spark.engine.load_history import SourceFile
from paimon_spark.errors import ArgumentError, ConflictError, ErrorKind, StoreError
from paimon_spark.spark.copy_into import _UNREADABLE, _check_unchanged, _readable
from paimon_spark.spark.copy_places import _replace, reached, table_above
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


class _Place:
    """A path of `_Store`."""

    def __init__(self, text: str) -> None:
        self.text = text

    def getName(self) -> str:  # noqa: N802
        return self.text.rpartition("/")[2]

    def suffix(self, more: str) -> _Place:
        return _Place(self.text + more)

    def toString(self) -> str:  # noqa: N802
        return self.text


class _Store:
    """A file system of files by path; `changed` is when each was, in epoch milliseconds."""

    def __init__(self, *files: str, changed: float | None = None) -> None:
        self.files = set(files)
        self.changed = time.time() * 1000 if changed is None else changed
        self.before_rename: list[str] = []

    def getConf(self) -> Any:  # noqa: N802
        return SimpleNamespace(getBoolean=lambda _, default: default)

    def exists(self, place: _Place) -> bool:
        return any(f == place.text or f.startswith(place.text + "/") for f in self.files)

    def listStatus(self, place: _Place) -> list[Any]:  # noqa: N802
        below = sorted(
            {f[len(place.text) + 1 :].partition("/")[0] for f in self.files if f.startswith(place.text + "/")}
        )
        return [
            SimpleNamespace(getPath=lambda n=n: place.suffix(f"/{n}"), getModificationTime=lambda: self.changed)
            for n in below
        ]

    def delete(self, place: _Place, _: bool) -> bool:
        gone = {f for f in self.files if f == place.text or f.startswith(place.text + "/")}
        self.files -= gone
        return bool(gone)

    def rename(self, place: _Place, target: _Place) -> bool:
        self.files.update(self.before_rename)
        self.files.remove(place.text)
        self.files.add(target.text)
        return True


OWN, OTHER = (f".copy-{c * 32}" for c in "ab")
NEW = (f"/o/{OWN}/part-1", f"/o/{OWN}/_SUCCESS")


def replaced(store: _Store) -> set[str]:
    _replace(store, _Place("/o"), _Place(f"/o/{OWN}"), "/o")
    return store.files


@pytest.mark.parametrize(("days", "stays"), [(1, True), (8, False)])
def test_files_of_a_running_export_stay(days: int, stays: bool) -> None:
    store = _Store("/o/x", "/o/_SUCCESS", f"/o/{OTHER}/part-9", *NEW, changed=(time.time() - days * 86_400) * 1000)
    left = {f"/o/{OTHER}/part-9"} if stays else set()
    assert replaced(store) == {"/o/part-1", "/o/_SUCCESS"} | left


@pytest.mark.parametrize("written", [(), NEW[:1]])
def test_an_export_whose_files_were_deleted(written: tuple[str, ...]) -> None:
    store = _Store("/o/x", *written)
    with pytest.raises(ConflictError, match="has deleted files"):
        replaced(store)
    assert store.files == {"/o/x", *written}


def test_two_exports_at_once_do_not_mix_unseen() -> None:
    store = _Store("/o/x", *NEW)
    store.before_rename = ["/o/part-of-another"]
    with pytest.raises(ConflictError, match="has other files"):
        replaced(store)
