"""Files and directories of COPY INTO, through Hadoop's file systems and the session's settings."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from paimon_spark.catalog.views import VIEWS_DIR
from paimon_spark.errors import ArgumentError, ConflictError, ErrorKind, StoreError
from paimon_spark.spark.failures import java_message
from paimon_spark.spark.jvm_frames import jvm_frames

_SCHEMA = re.compile(r"schema-\d+")
_DENIED = re.compile(r"(?i)AccessControlException|AccessDeniedException|status code: 403|403 Forbidden")
_SUCCESS = "_SUCCESS"
_COPY = re.compile(r"\.copy-[0-9a-f]{32}")
_WAREHOUSE = re.compile(r"spark\.sql\.catalog\.[^.]+\.warehouse")
_LEFT_MILLIS = 7 * 86_400_000
"""How old the files of another COPY INTO are if it has been interrupted."""
_MARKED = "mapreduce.fileoutputcommitter.marksuccessfuljobs"
_TAKEN = "[PATH_ALREADY_EXISTS]"
"""Spark's condition of a directory that another program has created meanwhile."""


@contextmanager
def reached(path: str) -> Iterator[None]:
    """Raise what a file system says as a StoreError.

    Raises:
        StoreError: names the path.
    """
    try:
        yield
    except Py4JJavaError as e:
        denied = is_denied(e)
        raise StoreError(
            f"{path} cannot be reached: {java_message(e)}",
            hint="Check that the session's user or credentials may list and write it."
            if denied
            else "Check the path, and that Spark has the jars and settings of its store.",
            kind=ErrorKind.STORE_ACCESS_DENIED if denied else ErrorKind.STORE_UNAVAILABLE,
        ) from e


def is_denied(error: Py4JJavaError) -> bool:
    """Return whether a file system refused access."""
    cause = error.java_exception
    while cause is not None:
        if _DENIED.search(cause.toString()):
            return True
        cause = cause.getCause()
    return False


def directory_of(session: SparkSession, path: str) -> tuple[Any, Any]:
    """Return a path and its file system, by the session's Hadoop settings."""
    jvm: Any = session.sparkContext._jvm
    conf = session._jsparkSession.sessionState().newHadoopConf()
    with reached(path):
        store = jvm.org.apache.hadoop.fs.Path(path).getFileSystem(conf)
        return store.makeQualified(jvm.org.apache.hadoop.fs.Path(path)), store


def refuse_tables(store: Any, directory: Any, path: str) -> None:
    """Refuse a directory that is a table, lies in one or contains one: files there would destroy it or be deleted.

    So would those of views.

    Raises:
        ArgumentError: names the table or the directory of views.
        StoreError: the directory cannot be read.
    """
    found = table_above(store, directory)
    place = str(directory.toUri().getPath())
    if found is None and VIEWS_DIR in place.split("/"):
        raise _refused(path, f"{place} is in a directory of views")
    if found is None:
        with reached(path):
            found = jvm_frames().tableWithin(store, directory)
    if found is not None and found.endswith(f"/{VIEWS_DIR}"):
        raise _refused(path, f"{found} has the views of a database")
    if found is not None:
        raise _refused(path, f"{found} is a Paimon table")


def refuse_databases(session: SparkSession, store: Any, directory: Any, path: str) -> None:
    """Refuse the warehouse of a catalog of the session, and the directory of a database in it, even an empty one.

    Raises:
        ArgumentError: names the warehouse.
    """
    jvm: Any = session.sparkContext._jvm
    for key, value in session.conf.getAll.items():
        if not _WAREHOUSE.fullmatch(key) or not value:
            continue
        warehouse = jvm.org.apache.hadoop.fs.Path(value).makeQualified(store.getUri(), store.getWorkingDirectory())
        if directory.equals(warehouse):
            raise _refused(path, "it is the warehouse of a catalog")
        if directory.getParent().equals(warehouse) and directory.getName().endswith(".db"):
            raise _refused(path, f"it is a database of the warehouse {value}")


def _refused(path: str, why: str) -> ArgumentError:
    return ArgumentError(f"{path} cannot be written: {why}.", hint="Name a directory outside of tables and warehouses.")


def table_above(store: Any, directory: Any) -> str | None:
    """Return the path of a table that a directory lies in, below the root of its store; None without one.

    What may not be read is taken for none: this user could not use the table either.

    Raises:
        StoreError: the store does not answer.
    """
    place = directory.getParent()
    while place is not None and place.getParent() is not None:
        if _is_table(store, place):
            return str(place.toUri().getPath())
        place = place.getParent()
    return None


def _is_table(store: Any, place: Any) -> bool:
    schemas = place.suffix("/schema")
    try:
        with reached(place.toString()):
            found = store.listStatus(schemas) if store.exists(schemas) else ()
            return any(_SCHEMA.fullmatch(s.getPath().getName()) for s in found)
    except StoreError as e:
        if e.kind is ErrorKind.STORE_ACCESS_DENIED:
            return False
        raise


@contextmanager
def new_files(store: Any, directory: Any, path: str) -> Iterator[str]:
    """Yield where the files of a directory are to be written; after an error, the directory is as it was.

    A directory that exists gets them in place of all that is in it, once they are complete.

    Raises:
        ArgumentError: there is a table in the directory by then.
        StoreError: the directory cannot be replaced.
    """
    with reached(path):
        exists = store.exists(directory)
    place = _below(directory, f".copy-{uuid.uuid4().hex}") if exists else directory
    try:
        yield place.toString()
        if exists:
            refuse_tables(store, directory, path)
    except BaseException as e:
        if _TAKEN not in str(e):
            with suppress(Py4JJavaError):
                _delete(store, place)
        raise
    if exists:
        _replace(store, directory, place, path)


def _replace(store: Any, directory: Any, place: Any, path: str) -> None:
    """Delete all that is in a directory but the files of other statements, and move the files of `place` into it.

    The marker goes first and comes last, so that a reader that looks for it never takes a part of the files for all.

    Raises:
        ConflictError: another program has deleted files of `place`, or has written to the directory meanwhile.
        StoreError: the directory cannot be replaced.
    """
    with reached(path):
        new = _written(store, place, path)
    try:
        with reached(path):
            old = [s.getPath() for s in store.listStatus(directory) if not _is_running(s)]
            for each in sorted((p for p in old if p.getName() != place.getName()), key=_is_marker, reverse=True):
                if not _delete(store, each) and store.exists(each):
                    raise _stuck(path, each)
            for each in sorted(new, key=_is_marker):
                if not store.rename(each, _below(directory, each.getName())):
                    raise _stuck(path, each)
            _delete(store, place)
            there = {s.getPath().getName() for s in store.listStatus(directory) if not _is_running(s)}
    except StoreError as e:
        raise StoreError(
            f"The rows are written, but the files of {path} are not all replaced. {e.message}",
            hint=f"Run the statement again, or move the files that are left in {place.toString()} to {path}.",
            kind=e.kind,
        ) from e
    if there != {p.getName() for p in new}:
        raise _disturbed(
            f"another program has written to {path} meanwhile, so it has other files than those of the rows"
        )


def _written(store: Any, place: Any, path: str) -> list[Any]:
    """Return the files of a complete write.

    Raises:
        ConflictError: they are not there.
    """
    files = [s.getPath() for s in store.listStatus(place)] if store.exists(place) else []
    marked = any(map(_is_marker, files)) or not store.getConf().getBoolean(_MARKED, True)  # noqa: FBT003
    if not files or not marked:
        raise _disturbed(f"another program has deleted files in {place.toString()}; {path} is as it was")
    return files


def _is_running(status: Any) -> bool:
    """Return whether an entry of a directory has the files of another statement, which may be running."""
    if not _COPY.fullmatch(status.getPath().getName()):
        return False
    return bool(status.getModificationTime() > time.time() * 1000 - _LEFT_MILLIS)


def _disturbed(what: str) -> ConflictError:
    return ConflictError(
        f"COPY INTO has failed: {what}.",
        hint="Let no other program write to the directory, and run the statement again.",
    )


def _delete(store: Any, place: Any) -> bool:
    """Delete a file, or a directory with all that is in it; return whether it was there."""
    return bool(store.delete(place, True))  # noqa: FBT003


def _is_marker(place: Any) -> bool:
    return bool(place.getName() == _SUCCESS)


def _below(directory: Any, name: str) -> Any:
    return directory.suffix(f"/{name}")


def _stuck(path: str, place: Any) -> StoreError:
    return StoreError(f"{path} cannot be replaced: the store leaves {place.toString()} where it is.")
