"""Estimated bytes to read for a split, by the sizes of its files and by the statistics in them."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_spark.core.metadata.row_ranges import evolves
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.scan.splits import Split
from paimon_spark.core.table import Table
from paimon_spark.spec.predicate import TRUE, Predicate, columns_of, project


def bytes_to_read(table: Table, split: Split, columns: Sequence[str], predicate: Predicate) -> int:
    """Return the number of bytes of a split to read for `columns` of the rows for which `predicate` may be true.

    Footers of files are read only if statistics in them may leave rows out: where versions are merged, by the key.
    """
    prunes = split.is_state and not split.postponed and not evolves(table)
    merged = table.is_primary_key_table and not split.raw
    pushed = project(predicate, table.schema.trimmed_primary_keys) if merged else predicate
    if not prunes or pushed == TRUE:
        return split.size
    names = {*columns, *columns_of(predicate)}
    fields = [f for f in table.schema.fields if f.name in names]
    files = BucketFiles(table, split.partition, split.bucket)
    return sum(files.bytes_to_read(f, fields, pushed) for f in split.files)
