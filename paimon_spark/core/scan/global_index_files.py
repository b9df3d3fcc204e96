"""The files of a global index over one range of rows, read when a comparison needs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TypeVar

from pyroaring import BitMap

from paimon_spark.core.table import Table
from paimon_spark.errors import CorruptTableError, ErrorKind
from paimon_spark.format.file_index.base import IndexReader, Rows
from paimon_spark.format.file_index.values import Code
from paimon_spark.format.global_index.bitmap import BitmapReader
from paimon_spark.format.global_index.btree import BTreeReader
from paimon_spark.format.global_index.keys import KeyDomain
from paimon_spark.format.global_index.meta import FileKeys
from paimon_spark.spec.global_indexes import GlobalIndexKind, global_index_of
from paimon_spark.spec.manifest import IndexManifestEntry

_T = TypeVar("_T")
_READERS = {GlobalIndexKind.BTREE: BTreeReader, GlobalIndexKind.BITMAP: BitmapReader}
_HINT = (
    "Set 'global-index.enabled' = 'false' to read without global indexes, or call sys.drop_global_index and "
    "sys.create_global_index."
)
Keys = tuple[Code, Code] | None
"""The least and the greatest key of a file; None if it has none."""


@dataclass(frozen=True, slots=True)
class Opener:
    """Opens index files of a table. `sizes` are the bytes of all files, by column and kind."""

    table: Table
    sizes: Mapping[tuple[str, str], int]

    def scans(self, column: str, kind: str) -> bool:
        """Return whether comparisons other than equality are evaluated: they may read whole files."""
        options = self.table.options
        most = {
            GlobalIndexKind.BTREE: options.memory("btree-index.fallback-scan-max-size"),
            GlobalIndexKind.BITMAP: options.memory("bitmap-index.fallback-scan-max-size"),
        }
        return self.sizes.get((column, kind), 0) <= most[GlobalIndexKind(kind)]

    def open(self, entry: IndexManifestEntry, domain: KeyDomain, rows: int) -> IndexReader:
        """Return a reader of a file."""
        path, store = self.path(entry), self.table.file_io
        reader = _READERS[GlobalIndexKind(entry.file.index_type)]
        return reader(lambda at, n: store.read_range(path, at, n), entry.file.file_size, domain, rows)

    def path(self, entry: IndexManifestEntry) -> str:
        """Return the path of a file."""
        return self.table.paths.index_file(entry.partition, entry.bucket, entry.file)

    def failed(self, entry: IndexManifestEntry, error: Exception) -> CorruptTableError:
        """Return the error for a file that cannot be used."""
        what = f"The {entry.file.index_type} index file {self.path(entry)} of table {self.table.name}"
        if isinstance(error, FileNotFoundError):
            return CorruptTableError(f"{what} is missing.", hint=_HINT, kind=ErrorKind.FILE_MISSING)
        return CorruptTableError(f"{what} cannot be used: {error}.", hint=_HINT, kind=ErrorKind.CORRUPT_DATA_FILE)


@dataclass(slots=True, eq=False)
class IndexedRange:
    """The index files of one column over a range of row ids, of which `end` is the first one after."""

    opener: Opener
    column: str
    kind: str
    first: int
    end: int
    entries: Sequence[IndexManifestEntry]
    domain: KeyDomain
    _files: _Files | None = field(default=None, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def reader(self, first: int, end: int) -> IndexReader:
        """Return a reader of a part of the range, whose rows count from `first`."""
        with self._lock:
            if self._files is None:
                self._files = _Files(self)
        return _Part(self._files, first - self.first, end - first)


class _Files:
    """Finds rows in all files of a range; the results count from its first row, and are remembered."""

    def __init__(self, of: IndexedRange) -> None:
        self._of = of
        self.rows = of.end - of.first
        self.scans = of.opener.scans(of.column, of.kind)
        self._known: dict[object, Rows] = {}
        self._opened: dict[str, IndexReader] = {}
        self._keys = [(e, self._attempt(e, partial(_keys, e, of.domain))) for e in of.entries]

    def found(self, key: object, reads: Callable[[Keys], bool], rows_of: Callable[[IndexReader], Rows]) -> Rows:
        """Return the union of what the files answer; None if one of them does not answer.

        Args:
            key: identifies the question.
            reads: returns whether a file with these keys may have an answer.
            rows_of: asks a file.
        """
        if key not in self._known:
            found: Rows = BitMap()
            for entry, keys in self._keys:
                if found is not None and reads(keys):
                    rows = self._attempt(entry, lambda e=entry: rows_of(self._open(e)))
                    found = None if rows is None else found | rows
            self._known[key] = found
        return self._known[key]

    def _open(self, entry: IndexManifestEntry) -> IndexReader:
        name = entry.file.file_name
        if name not in self._opened:
            self._opened[name] = self._of.opener.open(entry, self._of.domain, self.rows)
        return self._opened[name]

    def _attempt(self, entry: IndexManifestEntry, read: Callable[..., _T]) -> _T:
        try:
            return read()
        except (FileNotFoundError, ValueError) as e:
            raise self._of.opener.failed(entry, e) from e


def _keys(entry: IndexManifestEntry, domain: KeyDomain) -> Keys:
    index = global_index_of(entry)
    found = FileKeys.parse((index.meta if index is not None else None) or b"", of_texts=domain.is_text)
    return None if found.first is None or found.last is None else (domain.code(found.first), domain.code(found.last))


class _Part(IndexReader):
    """Rows of a part of a range, which begins `offset` rows after it and has `rows` rows."""

    def __init__(self, files: _Files, offset: int, rows: int) -> None:
        self._files, self._offset, self._rows = files, offset, rows

    def _cut(self, rows: Rows) -> Rows:
        if rows is None or (not self._offset and self._rows == self._files.rows):
            return rows
        wanted = BitMap()
        wanted.add_range(self._offset, self._offset + self._rows)
        return (rows & wanted).shift(-self._offset)

    def among(self, codes: Sequence[Code]) -> Rows:
        """Return the rows whose value has one of the codes."""
        wanted = tuple(sorted(set(codes)))

        def reads(keys: Keys) -> bool:
            return keys is not None and any(keys[0] <= c <= keys[1] for c in wanted)  # type: ignore[operator]

        return self._cut(self._files.found(("among", wanted), reads, lambda r: r.among(wanted)))

    def nulls(self) -> Rows:
        """Return the rows that are null."""
        return self._cut(self._files.found("nulls", lambda _: True, lambda r: r.nulls()))

    def valid(self) -> Rows:
        """Return the rows that are not null."""
        nulls = self.nulls()
        found = BitMap()
        found.add_range(0, self._rows)
        return None if nulls is None else found - nulls

    def at_least(self, code: Code, *, strictly: bool = False) -> Rows:
        """Return the rows whose code is `code` or greater, or greater only."""
        if not self._files.scans:
            return None

        def reads(keys: Keys) -> bool:
            return keys is not None and keys[1] >= code  # type: ignore[operator]

        key = (">", code, strictly)
        return self._cut(self._files.found(key, reads, lambda r: r.at_least(code, strictly=strictly)))

    def at_most(self, code: Code, *, strictly: bool = False) -> Rows:
        """Return the rows whose code is `code` or less, or less only."""
        if not self._files.scans:
            return None

        def reads(keys: Keys) -> bool:
            return keys is not None and keys[0] <= code  # type: ignore[operator]

        key = ("<", code, strictly)
        return self._cut(self._files.found(key, reads, lambda r: r.at_most(code, strictly=strictly)))
