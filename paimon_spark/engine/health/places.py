"""Where a table's files are, as numbers: a hash of the bucket's directory and the name.

Names of data files are unique in a bucket only: a migration keeps the names that files had. The place of a data file is
``k=v/bucket-0/name``, that of a file in another directory is its name, which is unique there. It is the same whatever
the path of the table is, and for files that lie outside of it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from paimon_spark.core.table import Table
from paimon_spark.format.manifest.lazy_manifest import EntryColumns, Manifest, Rows
from paimon_spark.spec.manifest import IndexManifestEntry
from paimon_spark.spec.paths import BUCKET_PREFIX, bucket_name

Hashes = npt.NDArray[np.int64]
_DIRECTORY_STEP = np.int64(0x9E3779B97F4A7C15 - (1 << 64))
_LEVEL_STEP = np.int64(0xC2B2AE3D27D4EB4F - (1 << 64))


class Places:
    """The places of a table's files.

    Args:
        table: the table.
    """

    def __init__(self, table: Table) -> None:
        self._paths = table.paths
        self._depth = len(table.schema.partition_keys)
        self._index_beside_data = table.options.index_file_in_data_file_dir

    def text(self, path: str) -> str:
        """Return the place of a file by its path."""
        parts = path.rsplit("/", self._depth + 2)
        beside = len(parts) == self._depth + 3 and parts[-2].startswith(BUCKET_PREFIX)
        return "/".join(parts[1:]) if beside else parts[-1]

    def index_text(self, entry: IndexManifestEntry) -> str:
        """Return the place of an index file."""
        name = entry.file.file_name
        return f"{self._directory(entry.partition, entry.bucket)}/{name}" if self._index_beside_data else name

    def of_texts(self, texts: Iterable[str]) -> Hashes:
        """Return the hashes of places."""
        found = list(texts)
        pairs = [text.rpartition("/") for text in found]
        names = np.fromiter((hash(name) for _, _, name in pairs), np.int64, len(pairs))
        return _mixed(names, np.fromiter((hash(d) for d, _, _ in pairs), np.int64, len(pairs)))

    def of_paths(self, paths: Iterable[str]) -> Hashes:
        """Return the hashes of the places of paths."""
        return self.of_texts(map(self.text, paths))

    def of_bucket(self, partition: bytes, bucket: int, names: Iterable[str]) -> Hashes:
        """Return the hashes of the places of some data files of a bucket."""
        hashes = np.array([hash(name) for name in names], np.int64)
        return _mixed(hashes, np.full(len(hashes), hash(self._directory(partition, bucket)), np.int64))

    def of_rows(self, manifest: Manifest, rows: Rows) -> Hashes:
        """Return the hashes of the places of some entries of a manifest."""
        names = np.fromiter((hash(name) for _, name in manifest.names(rows)), np.int64, len(rows))
        return _mixed(names, self._directories(manifest.entry_columns(), rows))

    def _directories(self, columns: EntryColumns, rows: Rows) -> Hashes:
        """Return for each row the hash of the directory of its bucket."""
        if not len(rows):
            return np.empty(0, np.int64)
        bucket = columns.bucket[rows].astype(np.int64)
        least = int(bucket.min())
        pairs = columns.partition[rows].astype(np.int64) * (int(bucket.max()) - least + 1) + (bucket - least)
        _, firsts, inverse = np.unique(pairs, return_index=True, return_inverse=True)
        distinct = zip(columns.partition[rows[firsts]].tolist(), bucket[firsts].tolist(), strict=True)
        hashes = [hash(self._directory(columns.partitions[number], own)) for number, own in distinct]
        return np.array(hashes, np.int64)[inverse]

    def _directory(self, partition: bytes, bucket: int) -> str:
        path = self._paths.partition_path(partition)
        return f"{path}/{bucket_name(bucket)}" if path else bucket_name(bucket)


def _mixed(names: Hashes, directories: Hashes) -> Hashes:
    with np.errstate(over="ignore"):
        return names + directories * _DIRECTORY_STEP


def identities(manifest: Manifest, rows: Rows, places: Hashes) -> Hashes:
    """Return the hashes of what an ADD and the DELETE that cancels it share, of some entries with known places.

    Besides the place and the level that are the extra files, the embedded index and the external path, which few files
    have: only the entries of these are decoded.
    """
    columns = manifest.entry_columns()
    with np.errstate(over="ignore"):
        found: Hashes = places + columns.level[rows].astype(np.int64) * _LEVEL_STEP
        other = np.flatnonzero(columns.plain[rows] == 0)
        files = (e.file for e in manifest.entries(rows[other]))
        more = [hash((f.extra_files, f.embedded_index, f.external_path)) for f in files]
        found[other] += np.array(more, np.int64)
    return found
