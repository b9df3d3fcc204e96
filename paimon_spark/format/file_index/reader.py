"""Reads the indexes of one data file that a predicate needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paimon_spark.format.file_index.base import IndexReader, NoValues, Rows
from paimon_spark.format.file_index.bitmap import BitmapReader
from paimon_spark.format.file_index.bloom import BloomReader
from paimon_spark.format.file_index.bsi import BsiReader
from paimon_spark.format.file_index.container import Place, ReadRange, read_index, read_places
from paimon_spark.format.file_index.evaluate import matching_rows
from paimon_spark.format.file_index.range_bitmap import RangeBitmapReader
from paimon_spark.format.file_index.values import Domain
from paimon_spark.spec.file_indexes import IndexKind, supports
from paimon_spark.spec.predicate import Predicate
from paimon_spark.spec.types import AtomicType


class FileIndexReader:
    """The indexes of one data file; each is read when a predicate needs it.

    Args:
        read: reads bytes of the container.
        columns: the indexed columns that a predicate may name: their name in the file, and their type in it.
        rows: the number of rows of the file.

    Raises:
        ValueError: the container is malformed.
        NewerVersionError: it has an unknown version.
    """

    def __init__(self, read: ReadRange, columns: Mapping[str, tuple[str, AtomicType]], rows: int) -> None:
        self._read, self._columns, self._rows = read, columns, rows
        self._places = read_places(read)
        self._readers: dict[str, Sequence[tuple[IndexReader, Domain]]] = {}

    def matching_rows(self, predicate: Predicate) -> Rows:
        """Return the rows that may match; None if the indexes leave none out.

        Raises:
            ValueError: an index is malformed.
            NewerVersionError: an index has an unknown version.
        """
        return matching_rows(predicate, self._of)

    def _of(self, column: str) -> Sequence[tuple[IndexReader, Domain]]:
        if column not in self._readers:
            name, t = self._columns.get(column, (None, None))
            found = [] if name is None or t is None else self._open(name, t)
            self._readers[column] = found
        return self._readers[column]

    def _open(self, name: str, t: AtomicType) -> list[tuple[IndexReader, Domain]]:
        places = self._places.get(name, {})
        kinds = [k for k in IndexKind if k in places and supports(k, t)]
        domain = Domain(t)
        return [(self._reader(kind, places[kind], domain), domain) for kind in kinds]

    def _reader(self, kind: IndexKind, place: Place, domain: Domain) -> IndexReader:
        if place.is_empty:
            return NoValues()
        data = read_index(self._read, place)
        if kind is IndexKind.BLOOM_FILTER:
            return BloomReader(data, domain)
        reader = {IndexKind.BITMAP: BitmapReader, IndexKind.BSI: BsiReader, IndexKind.RANGE_BITMAP: RangeBitmapReader}
        return reader[kind](data, domain, self._rows)
