"""Footers of Parquet files, which a process may keep: data files are immutable, and their names unique."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from paimon_spark.format.int96 import shown_as_bytes


@dataclass(eq=False)
class Footer:
    """The footer of a file: its metadata, with 12-byte binary in place of INT96, and the statistics of row groups."""

    metadata: pq.FileMetaData
    _fragment: Any = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @staticmethod
    def read(source: pa.NativeFile) -> Footer:
        """Read the footer of an open file."""
        return Footer(shown_as_bytes(source, pq.read_metadata(source)))

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
            return self._fragment


class FooterCache:
    """The footers of recently read files, up to a number of bytes in files; in memory they take ten times as much."""

    def __init__(self, limit: int = 0) -> None:
        self._limit = limit
        self._kept: OrderedDict[Hashable, Footer] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def keep(self, limit: int) -> None:
        """Keep footers of up to `limit` bytes."""
        with self._lock:
            self._limit = limit

    def read(self, source: pa.NativeFile, path: str) -> Footer:
        """Return the footer of an open file; a file of another size is another file."""
        key = (path, source.size())
        with self._lock:
            footer = self._kept.get(key)
            if footer is not None:
                self._kept.move_to_end(key)
                return footer
        footer = Footer.read(source)
        self._add(key, footer)
        return footer

    def _add(self, key: Hashable, footer: Footer) -> None:
        size = footer.metadata.serialized_size
        with self._lock:
            if size > self._limit or key in self._kept:
                return
            self._kept[key] = footer
            self._bytes += size
            while self._bytes > self._limit:
                _, oldest = self._kept.popitem(last=False)
                self._bytes -= oldest.metadata.serialized_size


FOOTERS = FooterCache()
"""Of this process. It keeps none unless told to."""
