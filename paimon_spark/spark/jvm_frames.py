"""Frames built by `JvmFrames` in the JVM: native scans, split lists, rows."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from paimon_spark.spark.shuffle_spec import ShuffleSpec
from paimon_spark.spec.identifier import Identifier

INLINE_LIMIT = 32_000
"""A py4j string costs 0.1 to 0.4 ms a kilobyte: longer texts are passed in a file."""

_T = TypeVar("_T")


class SessionCache(Generic[_T]):
    """The sessions in use by their ids: a Thrift server opens one for each connection.

    Args: limit: maximum number of sessions; the least recently used one is dropped first.
    """

    def __init__(self, limit: int = 64) -> None:
        self._limit = limit
        self._sessions: dict[str, _T] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: str, open_session: Callable[[], _T]) -> _T:
        """Return a session, opened if necessary."""
        with self._lock:
            session = self._sessions.pop(session_id, None)
            if session is None:
                session = open_session()
            self._sessions[session_id] = session
            while len(self._sessions) > self._limit:
                self._sessions.pop(next(iter(self._sessions)), None)
            return session

    def forget(self, session_id: str) -> None:
        """Drop a session. A finalizer may call this at any time, so it takes no lock."""
        self._sessions.pop(session_id, None)


_jvm_frames: dict[str, Any] = {}
_sessions = SessionCache[SparkSession]()


def install_jvm_frames(context: SparkContext, jvm_frames: Any) -> None:
    """Store the JVM object that builds frames."""
    _jvm_frames["jvm_frames"] = jvm_frames
    _jvm_frames["context"] = context


def jvm_frames() -> Any:
    """Return the JVM object that builds frames."""
    return _jvm_frames["jvm_frames"]


def session_for(session_id: str, jsession: Callable[[], Any]) -> SparkSession:
    """Return the Python side of the JVM session that `jsession` returns.

    The least recently used sessions are dropped, and with them their JVM side.
    """
    return _sessions.get(session_id, lambda: SparkSession(_jvm_frames["context"], jsparkSession=jsession()))


def forget_session(session_id: str) -> None:
    """Drop a session that is no longer used."""
    _sessions.forget(session_id)


def frame_of(java_frame: Any, session: SparkSession) -> DataFrame:
    """Return the Python side of a JVM frame."""
    return DataFrame(java_frame, session)


def target_frame(session: SparkSession, catalog: str, name: Identifier) -> DataFrame:
    """Return the stored rows of a table that a statement changes: not cached ones, nor those of another snapshot."""
    frame = jvm_frames().targetFrame(session._jsparkSession, catalog, name.database, name.object_name)
    return frame_of(frame, session)


def native_frame(
    session: SparkSession,
    spec: dict[str, Any],
    groups: Iterable[dict[str, Any]],
    access: Mapping[str, str],
    superseded: Any | None = None,
) -> DataFrame:
    """Return a native scan.

    Args:
        session: the session of the statement.
        spec: the columns, and the options of the reader.
        groups: the files, which may be more than fit into memory.
        access: the Hadoop configuration of the store.
        superseded: the result of `superseded_rows_of`, if rows have to be left out.
    """
    with _lines(map(json.dumps, chain([spec], groups))) as text:
        frame = jvm_frames().nativeFrame(session._jsparkSession, text, json.dumps(dict(access)), superseded)
        return frame_of(frame, session)


def superseded_rows_of(
    splits: Sequence[str],
    known: Callable[[Sequence[str]], Mapping[str, Mapping[str, bytes]]],
    find: Callable[[Sequence[str]], DataFrame | None],
) -> Any:
    """Return the JVM's cache of the superseded rows of splits, which outlives the statement.

    Args:
        splits: for each split, a key of its files and of the rules of their merge.
        known: called with the keys of splits that are not cached; returns the superseded rows of those that need no
            job: serialized bitmaps by the paths of files.
        find: called with the keys of the others; returns the frame that finds the rows. Without a frame, the JVM asks
            the engine for the rows.
    """
    with _lines(splits) as keys:
        superseded = jvm_frames().supersededRows(keys)
    missing = json.loads(superseded.missing())
    found = known(missing) if missing else {}
    if found:
        with _lines(_superseded_lines(found)) as lines:
            superseded.know(lines)
        missing = [key for key in missing if key not in found]
    job = find(missing) if missing else None
    return superseded if job is None else superseded.findBy(job._jdf)


def _superseded_lines(found: Mapping[str, Mapping[str, bytes]]) -> Iterator[str]:
    for key, bitmaps in found.items():
        yield json.dumps([key])
        for path, bitmap in bitmaps.items():
            yield json.dumps([key, path, b64encode(bitmap).decode()])


def tasks_at_once(session: SparkSession) -> int:
    """Return the default number of tasks: `spark.default.parallelism`, or else one for each core."""
    return max(session.sparkContext.defaultParallelism, 1)


def text_frame(session: SparkSession, lines: Iterable[str]) -> DataFrame:
    """Return a frame of one string column `split` with one task per line."""
    with _lines(lines) as text:
        return frame_of(jvm_frames().textFrame(session._jsparkSession, text), session)


def bucket_frame(session: SparkSession, lines: Iterable[tuple[int, int, str]]) -> DataFrame:
    """Return a frame as `text_frame` does, of texts with the numbers of their tasks and buckets.

    The texts of a task, or of a bucket if Spark groups by bucket, are in one task.
    """
    with _lines(f"{task}\t{bucket}\t{text}" for task, bucket, text in lines) as text:
        return frame_of(jvm_frames().bucketSplits(session._jsparkSession, text), session)


def empty_frame(session: SparkSession, schema: StructType) -> DataFrame:
    """Return a frame that Spark knows to be empty, so that it starts no task."""
    java, jvm = session._jsparkSession, cast("Any", session.sparkContext._jvm)
    return frame_of(java.createDataFrame(jvm.java.util.ArrayList(), java.parseDataType(schema.json())), session)


def arrow_frame(session: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    """Return a small Arrow table as a frame of exactly `schema`."""
    return session.createDataFrame(table, schema=schema)


def few_rows(frame: DataFrame) -> bool:
    """Return whether Spark knows that the rows are few enough for one task to write them."""
    return bool(jvm_frames().fewRows(frame._jdf))


def small_rows(frame: DataFrame, rows: int, most_bytes: int, *, run: bool) -> bytes | None:
    """Return the rows as an Arrow stream if there are at most `rows`, and Spark computes them without a shuffle.

    In Spark's format they take at most `most_bytes`.

    Without `run`, no job is started, and the result is empty if one is needed.
    """
    packed = jvm_frames().smallRows(frame._jdf, rows, most_bytes, run)
    return None if packed is None else _unpacked(packed)


def unshuffled(frame: DataFrame) -> pa.Table | None:
    """Return all rows of a frame that has few of them; None, and nothing has run, if the frame shuffles."""
    packed = jvm_frames().unshuffled(frame._jdf)
    if packed is None:
        return None
    with pa.ipc.open_stream(_unpacked(packed)) as stream:
        return stream.read_all()


def _unpacked(packed: str) -> bytes:
    return _moved(Path(packed[1:])) if packed.startswith("@") else b64decode(packed)


def _moved(file: Path) -> bytes:
    """Return the content of a file, which is deleted."""
    try:
        return file.read_bytes()
    finally:
        file.unlink(missing_ok=True)


def bucket_shuffle(frame: DataFrame, spec: ShuffleSpec) -> DataFrame:
    """Return `frame` with its bucket column, shuffled once by partition and bucket."""
    return frame_of(jvm_frames().bucketShuffle(frame._jdf, spec.to_json()), frame.sparkSession)


def bucket_shuffle_packed(frame: DataFrame, spec: ShuffleSpec) -> DataFrame:
    """Return the rows of `bucket_shuffle` as Arrow batches, which are shuffled instead of single rows."""
    return frame_of(jvm_frames().bucketShufflePacked(frame._jdf, spec.to_json()), frame.sparkSession)


def arrow_batches(frame: DataFrame) -> DataFrame:
    """Return a frame of one binary column, whose rows are Arrow streams of the rows of `frame`."""
    return frame_of(jvm_frames().arrowBatches(frame._jdf), frame.sparkSession)


def position_bitmaps(frame: DataFrame) -> DataFrame:
    """Return the rows of a frame of file, position and deletion vector as file, deletion vector and `POSITIONS`.

    There is a row for each file and task.
    """
    return frame_of(jvm_frames().positionBitmaps(frame._jdf), frame.sparkSession)


def on_session(frame: DataFrame, session: SparkSession) -> DataFrame:
    """Return `frame`, which was analysed in another session, as one that runs in `session` with its Python workers."""
    return frame_of(jvm_frames().onSession(frame._jdf, session._jsparkSession), session)


def single_row_batches(frame: DataFrame) -> DataFrame:
    """Return `frame`, whose Python function gets each input row in a separate batch."""
    return frame_of(jvm_frames().singleRowBatches(frame._jdf), frame.sparkSession)


@contextmanager
def _lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield texts without line feeds as lines, or `@file` with them; the file exists for the duration of the block."""
    rest, first, size = iter(lines), list[str](), 0
    for line in rest:
        first.append(line)
        size += len(line)
        if size > INLINE_LIMIT:
            break
    else:
        yield "\n".join(first)
        return
    handle, path = tempfile.mkstemp(prefix="paimon-spark-", suffix=".json")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.writelines(f"{line}\n" for line in chain(first, rest))
        yield "@" + path
    finally:
        os.unlink(path)  # noqa: PTH108 - the descriptor's own path
