"""Footers of Parquet files, which a process may keep: data files are immutable, and their names unique."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from paimon_spark.format.int96 import shown_as_bytes

_UNPACKED = 16
_LEAST_MEMORY = 16 << 10
"""Measured: bytes in memory for each byte of a footer, statistics included, and for each file."""


@dataclass(eq=False)
class Footer:
    """The footer of a file: its metadata, with 12-byte binary in place of INT96, and the statistics of row groups."""

    metadata: pq.FileMetaData
    memory: int
    """Estimated size in memory, with the statistics."""
    _is_stored: bool
    """Whether the metadata is that of the file, which has no INT96."""
    _fragment: Any = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @staticmethod
    def read(source: pa.NativeFile) -> Footer:
        """Read the footer of an open file."""
        stored = pq.read_metadata(source)
        shown = shown_as_bytes(source, stored)
        copies = 1 if shown is stored else 2
        return Footer(shown, copies * (_LEAST_MEMORY + _UNPACKED * stored.serialized_size), shown is stored)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the file."""
        return self.metadata.schema.to_arrow_schema()

    @cached_property
    def _with_statistics(self) -> pa.Schema:
        """The columns whose statistics determine which row groups match: those of floating point exclude NaN."""
        return pa.schema([f for f in self.schema if not pa.types.is_floating(f.type)])

    def row_groups(self, source: pa.NativeFile, expression: pc.Expression) -> list[int]:
        """Return the row groups that may contain a row for which `expression` is true; `source` is the open file."""
        everything = list(range(self.metadata.num_row_groups))
        if not everything:
            return everything
        try:
            fragment = self._statistics(source)
            return [g.id for g in fragment.subset(expression, schema=self._with_statistics).row_groups]
        except (pa.ArrowException, OSError, ValueError):  # also where the expression names other columns
            return everything

    def _statistics(self, source: pa.NativeFile) -> Any:
        import pyarrow.dataset as pds  # imports pandas if it is installed, which most processes do not need

        with self._lock:
            if self._fragment is None:
                fragment = pds.ParquetFileFormat().make_fragment(source)
                fragment.ensure_complete_metadata()
                self._fragment = fragment
                if self._is_stored:
                    self.metadata = fragment.metadata  # one copy in memory
            return self._fragment


class FooterCache:
    """The footers of recently read files, up to a number of bytes in memory."""

    def __init__(self, limit: int = 0) -> None:
        self._limit = limit
        self._kept: OrderedDict[str, tuple[int, Footer]] = OrderedDict()
        """By path: the size of the file, and its footer; the most recently read one comes last."""
        self._memory = 0
        self._lock = threading.Lock()

    def keep(self, limit: int) -> None:
        """Keep footers of up to `limit` bytes in memory from now on."""
        with self._lock:
            self._limit = limit
            self._evict()

    def read(self, source: pa.NativeFile, path: str) -> Footer:
        """Return the footer of an open file; a file of another size is another file."""
        size = source.size()
        with self._lock:
            kept_size, footer = self._kept.get(path, (None, None))
            if footer is not None and kept_size == size:
                self._kept.move_to_end(path)
                return footer
        footer = Footer.read(source)
        self._add(path, size, footer)
        return footer

    def clear(self) -> None:
        """Drop all footers, so that the next reads are of the files."""
        with self._lock:
            self._kept.clear()
            self._memory = 0

    def _add(self, path: str, size: int, footer: Footer) -> None:
        if footer.memory > self._limit:
            return
        with self._lock:
            self._drop(path)
            self._kept[path] = size, footer
            self._memory += footer.memory
            self._evict()

    def _evict(self) -> None:
        while self._memory > self._limit:
            self._drop(next(iter(self._kept)))

    def _drop(self, path: str) -> None:
        if path in self._kept:
            self._memory -= self._kept.pop(path)[1].memory


FOOTERS = FooterCache()
"""Of this process. It keeps none unless told to."""
