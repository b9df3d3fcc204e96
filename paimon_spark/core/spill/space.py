"""Sorted runs of rows, spilled by write buffers and merges to the local disk (docs/spec/semantics.md, W9-W10).

Each run is one Arrow stream in a directory of its task, which is deleted with the task. Rows never pass through the
driver. Runs are read back one small chunk at a time.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from paimon_spark.errors import EngineError, ErrorKind, PaimonError
from paimon_spark.spec.options import CoreOptions

_SMALLEST_CHUNK = 64 << 10
_LARGEST_CHUNK = 1 << 20
_CHUNKS_OF_A_BUFFER = 64
_SMALLEST_BUFFER = 1 << 20
_FEWEST_RUNS = 2


@dataclass(frozen=True, slots=True)
class SpillRules:
    """How runs are written, and how many are merged at once.

    Attributes:
        buffer: bytes of rows that a writer buffers: the requested size, but enough to read a few runs at once.
        chunk: bytes of rows per chunk when a run is read.
        fan_in: maximum number of runs that are read at once.
        most_bytes: disk space for the runs of one task.
        codec: Arrow's name of the compression codec; None for no compression.
        level: compression level, if the codec has levels.
    """

    buffer: int
    chunk: int
    fan_in: int
    most_bytes: int
    codec: str | None
    level: int | None

    @classmethod
    def of(cls, options: CoreOptions, buffer: int) -> SpillRules | None:
        """Return the rules for a writer with a buffer of `buffer` bytes; None if the table does not spill."""
        if not options.flag("write-buffer-spillable"):
            return None
        buffer = max(buffer, _SMALLEST_BUFFER)
        chunk = min(max(buffer // _CHUNKS_OF_A_BUFFER, _SMALLEST_CHUNK), _LARGEST_CHUNK)
        handles = options.number("local-sort.max-num-file-handles")
        fan_in = max(_FEWEST_RUNS, min(handles, buffer // 2 // chunk))
        named = options.spill_compression
        codec = None if named == "none" else named
        level = options.number("spill-compression.zstd-level") if codec == "zstd" else None
        return cls(buffer, chunk, fan_in, options.memory("write-buffer-spill.max-disk-size"), codec, level)


@dataclass(frozen=True, slots=True)
class Run:
    """One sorted run on disk, and how many merges its rows have gone through."""

    path: Path
    size: int
    joins: int = 0


def local_directories() -> list[str]:
    """Return the cluster's directories for temporary files; empty if not configured."""
    return [d for d in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if d]


def one_directory(parents: Sequence[str]) -> str | None:
    """Return one of the existing directories for this process; None for the system default."""
    there = [p for p in parents if Path(p).is_dir()]
    return there[os.getpid() % len(there)] if there else None


class SpillSpace:
    """The spilled runs of one task. No directory is created before the first run."""

    def __init__(self, rules: SpillRules, parents: Sequence[str] = ()) -> None:
        self.rules = rules
        self._parents = [p for p in parents if p]
        self._directory: Path | None = None
        self._made = 0
        self.used = 0

    def write(self, tables: Iterable[pa.Table], joins: int = 0) -> Run | None:
        """Write sorted rows as one run; return None and keep nothing if the spill space is exhausted.

        Raises:
            EngineError: writing to the local disk failed.
        """
        with self._disk_errors():
            path = self._next_path()
            fits = self._write_stream(path, tables)
            size = path.stat().st_size if path.exists() else 0
            if not fits or self.used + size > self.rules.most_bytes:
                path.unlink(missing_ok=True)
                return None
        self.used += size
        return Run(path, size, joins)

    def _write_stream(self, path: Path, tables: Iterable[pa.Table]) -> bool:
        codec = None if self.rules.codec is None else pa.Codec(self.rules.codec, compression_level=self.rules.level)
        options = pa.ipc.IpcWriteOptions(compression=codec)
        writer: pa.RecordBatchStreamWriter | None = None
        with pa.OSFile(str(path), "wb") as sink:
            try:
                for table in tables:
                    writer = writer or pa.ipc.new_stream(sink, table.schema, options=options)
                    width = max(1, table.nbytes // max(1, table.num_rows))
                    writer.write_table(table, max_chunksize=max(1, self.rules.chunk // width))
                    if self.used + sink.tell() > self.rules.most_bytes:
                        return False
            finally:
                if writer is not None:
                    writer.close()
        return True

    def read(self, run: Run) -> Iterator[pa.Table]:
        """Yield the rows of a run, one chunk at a time; a run without rows is an empty file.

        Raises:
            EngineError: the run cannot be read back.
        """
        if run.size == 0:
            return
        with self._disk_errors(), pa.OSFile(str(run.path), "rb") as source:
            for batch in pa.ipc.open_stream(source):
                yield pa.Table.from_batches([batch])

    def drop(self, runs: Iterable[Run]) -> None:
        """Delete runs that are no longer needed."""
        for run in runs:
            run.path.unlink(missing_ok=True)
            self.used -= run.size

    def close(self) -> None:
        """Delete all runs and the directory."""
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory, self.used = None, 0

    def _next_path(self) -> Path:
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="paimon-spill-", dir=one_directory(self._parents)))
        self._made += 1
        return self._directory / f"run-{self._made}.arrow"

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        try:
            yield
        except PaimonError:
            raise  # raised by the source of the rows
        except (OSError, pa.ArrowInvalid) as e:
            raise EngineError(
                f"Rows cannot be spilled to the local disk of the worker: {e}.",
                hint="Give it space (spark.local.dir), or set 'write-buffer-spillable' = 'false'.",
                kind=ErrorKind.ENVIRONMENT,
            ) from e
