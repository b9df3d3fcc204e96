"""Rows of upper levels that a compaction replaces: they are marked in deletion vectors.

(docs/spec/semantics.md, V2 and V3)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from pyroaring import BitMap

from paimon_spark.core.metadata.deletion_vectors import StoredVectors, VectorRef, VectorWriter
from paimon_spark.core.metadata_io import delete_best_effort
from paimon_spark.core.read.row_ordinals import RowOrdinals
from paimon_spark.core.table import Table
from paimon_spark.format.arrays import I64
from paimon_spark.spec.manifest import DataFileMeta, IndexFileMeta


class ReplacedRows:
    """Collects the rows of `upper` files that are replaced, and writes their deletion vectors.

    Memory: one bit per row of the files that have such rows.
    """

    def __init__(self, table: Table, upper: Sequence[DataFileMeta]) -> None:
        self.ordinals = RowOrdinals(upper)
        self._table = table
        self._bitmaps = [BitMap() for _ in upper]
        self._written: list[str] = []

    def add(self, ordinals: I64) -> None:
        """Add rows by their ordinals."""
        if len(ordinals):
            self.ordinals.add_to(self._bitmaps, np.sort(ordinals))

    def write(self, partition: bytes, bucket: int, refs: Mapping[str, VectorRef]) -> tuple[IndexFileMeta, ...]:
        """Write the deletion vectors of the files with replaced rows: those of before, at `refs`, and now.

        Returns:
            The index files; none if no row was replaced.
        """
        vectors = StoredVectors(self._table.file_io)
        writer = VectorWriter(self._table, partition, bucket, self._put)
        for file, positions in zip(self.ordinals.members, self._bitmaps, strict=True):
            if positions:
                before = vectors.bitmap(file.file_name, refs.get(file.file_name))
                writer.add(file.file_name, positions if before is None else before | positions)
        return writer.close()

    @property
    def files(self) -> list[str]:
        """Return the names of the files with replaced rows."""
        return [f.file_name for f, b in zip(self.ordinals.members, self._bitmaps, strict=True) if b]

    def abort(self) -> None:
        """Delete the written files."""
        delete_best_effort(self._table.file_io, self._written)

    def _put(self, path: str, data: bytes) -> None:
        self._written.append(path)
        self._table.file_io.write(path, data)
