"""The description of a native scan for the JVM: JSON, groups of files, and keys of cached results."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from typing import Any

from paimon_spark.core.columns import BUCKET, FILE_PATH, METADATA_FIELDS, ROW_INDEX, VECTOR
from paimon_spark.core.merge.config import merge_order
from paimon_spark.core.read.deleted_rows import vector_fingerprints
from paimon_spark.core.scan.packed_files import PackedFileList
from paimon_spark.core.scan.splits import Split
from paimon_spark.core.table import Table
from paimon_spark.spark.native_columns import NativeFiles, has_millis
from paimon_spark.spark.read_modes import ReadRequest
from paimon_spark.spark.types import plain_struct
from paimon_spark.spark.values import value_to_jvm
from paimon_spark.spec.manifest import DataFileKey, DataFileMeta

NATIVE_OPTIONS = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED", "mergeSchema": "false"}
FILES_TOGETHER = 1_000


def native_spec(
    request: ReadRequest,
    files: NativeFiles,
    *,
    filtered: bool,
    by_bucket: bool = False,
    together: int = FILES_TOGETHER,
) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """Return the description of a native scan, and its files in groups, which are generated lazily.

    Args:
        request: what is read.
        files: the files of the scan.
        filtered: whether superseded rows are left out.
        by_bucket: whether each group has the files of one bucket, and its number.
        together: maximum number of files of a group.
    """
    table = request.table
    keys = table.schema.partition_keys
    native_columns = request.native_columns.of(files.layout) or []
    wanted = list(zip(request.read_columns, native_columns, strict=True))
    data = [s for f, s in wanted if s is not None and f.name not in keys]
    partition = [f for f, _ in wanted if f.name in keys]
    placed = {p.name for p in request.places} | ({FILE_PATH, ROW_INDEX} if filtered else set())
    unread = {ROW_INDEX} if filtered else {ROW_INDEX, VECTOR}  # the other files have no vectors
    fixed = [p for p in METADATA_FIELDS if p.name in placed - unread]
    spec = {
        "format": files.layout.file_format,
        "root": table.path,
        "identity": f"{table.path}|{files.splits[0].snapshot_id}|{_digest(files)}|{by_bucket}",
        "options": NATIVE_OPTIONS,
        "has_millis": any(has_millis(s.type) for s in data),
        "row_index": ROW_INDEX if ROW_INDEX in placed else None,
        "file_path": FILE_PATH,
        "data_schema": plain_struct(data),
        "partition_schema": plain_struct([*partition, *fixed]),
        "select": [
            {"name": f.name, "from": None if s is None else s.name, "type": plain_struct([f])["fields"][0]["type"]}
            for f, s in [*wanted, *((p, p if p.name == ROW_INDEX or p in fixed else None) for p in request.places)]
        ],
    }
    groups = _groups(table, [f.name for f in partition], [p.name for p in fixed], files, together, by_bucket=by_bucket)
    return spec, groups


def _groups(
    table: Table,
    columns: Sequence[str],
    fixed: Sequence[str],
    files: NativeFiles,
    together: int,
    *,
    by_bucket: bool,
) -> Iterator[dict[str, Any]]:
    """Yield the files in groups: adjacent files with equal values of the partition columns and the `fixed` ones."""
    paths = table.paths
    vectors = vector_fingerprints(table, files.splits) if VECTOR in fixed else {}
    placed = ((s, paths.data_file(s.partition, s.bucket, file), file) for s, file in files)

    def alike(one: tuple[Split, str, DataFileMeta]) -> tuple[bytes, int | None, tuple[str | None, ...]]:
        split, path, file = one
        vector = vectors.get(DataFileKey(split.partition, split.bucket, file.file_name)) if vectors else None
        of_file = {FILE_PATH: path, BUCKET: str(split.bucket), VECTOR: None if vector is None else str(vector)}
        return split.partition, split.bucket if by_bucket else None, tuple(of_file[name] for name in fixed)

    for (partition, bucket, others), members in groupby(placed, alike):
        values = [*_values(table, columns, partition), *others]
        while some := [[path, f.file_size, f.creation_time or 0] for _, path, f in islice(members, together)]:
            yield {"values": values, "bucket": bucket, "files": some}


def _values(table: Table, columns: Sequence[str], partition: bytes) -> list[str | None]:
    values = dict(zip(table.schema.partition_keys, table.partition_values(partition), strict=True))
    return [value_to_jvm(values[c]) for c in columns]


def _digest(files: NativeFiles) -> int:
    """Return a number that is unique to the files."""
    return hash((files.layout, tuple(map(_split_digest, files.splits))))


def _split_digest(split: Split) -> int:
    files = split.files.digest() if isinstance(split.files, PackedFileList) else tuple(f.file_name for f in split.files)
    return hash((split.partition, split.bucket, files))


def superseded_rows_key(table: Table, split: Split) -> str:
    """Return the cache key of the superseded rows of a split: its immutable files and the rules of their merge."""
    order = merge_order(table) if table.is_primary_key_table and not split.raw else None
    rules = None if order is None else (order.key, order.sequence, order.descending, order.function.__name__)
    files = [f.file_name for f in split.files]
    text = repr((table.path, split.partition, split.bucket, files, split.vectors, split.raw, split.chained, rules))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
