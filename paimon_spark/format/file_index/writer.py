"""Builds the indexes of one data file from its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format.file_index.base import IndexWriter
from paimon_spark.format.file_index.bitmap import BitmapWriter
from paimon_spark.format.file_index.bloom import BloomWriter
from paimon_spark.format.file_index.bsi import BsiWriter
from paimon_spark.format.file_index.container import pack
from paimon_spark.format.file_index.range_bitmap import RangeBitmapWriter
from paimon_spark.format.file_index.values import Domain
from paimon_spark.spec.file_indexes import IndexKind, IndexSpec, indexed_type, supports
from paimon_spark.spec.types import AtomicType, DataField

_WRITERS: Mapping[IndexKind, Callable[[Domain, Mapping[str, str]], IndexWriter]] = {
    IndexKind.BLOOM_FILTER: BloomWriter,
    IndexKind.BITMAP: BitmapWriter,
    IndexKind.BSI: BsiWriter,
    IndexKind.RANGE_BITMAP: RangeBitmapWriter,
}


class FileIndexWriter:
    """Builds the container of the indexes of one data file.

    An index whose column the file lacks, or whose kind does not support the type, is left out: indexes are optional.

    Args:
        specs: the indexes.
        fields: the columns of the file.
    """

    def __init__(self, specs: Sequence[IndexSpec], fields: Sequence[DataField]) -> None:
        self._writers: list[tuple[IndexSpec, IndexWriter]] = []
        for spec in specs:
            t = indexed_type(spec, fields)
            if isinstance(t, AtomicType) and supports(spec.kind, t):
                self._writers.append((spec, _WRITERS[spec.kind](Domain(t), spec.settings)))

    def add(self, rows: pa.Table) -> None:
        """Add rows; the columns have their names in the table."""
        values: dict[str, list[pa.Array]] = {}
        for spec, writer in self._writers:
            chunks = values.get(spec.name)
            if chunks is None:
                chunks = values[spec.name] = [_values(c, spec.map_key) for c in rows.column(spec.column).chunks]
            for chunk in chunks:
                writer.add(chunk)

    def finish(self) -> bytes:
        """Return the container; empty if there is no index."""
        found: dict[str, dict[str, bytes]] = {}
        for spec, writer in self._writers:
            body = writer.finish()
            if body is not None:
                found.setdefault(spec.name, {})[spec.kind] = body
        return pack(found) if found else b""


def _values(chunk: pa.Array, key: str | None) -> pa.Array:
    if isinstance(chunk, pa.DictionaryArray):
        chunk = chunk.dictionary_decode()
    return chunk if key is None else pc.map_lookup(chunk, key, "last")
