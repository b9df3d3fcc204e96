"""Primary-key tables whose files are clustered by other columns than the key: they are read without a merge."""

from __future__ import annotations

from collections.abc import Iterable

from paimon_spark.core.levels import SortedRun, sections
from paimon_spark.core.table import Table
from paimon_spark.spec.manifest import DataFileMeta


def has_unsorted_keys(table: Table) -> bool:
    """Return whether the files above level 0 of a primary key table are not sorted by key.

    Their first and last keys are values of `clustering.columns`. Deletion vectors, or first rows, leave one row of each
    key, so that reading them needs no merge. (docs/spec/semantics.md, V9)
    """
    return table.is_primary_key_table and table.options.clusters_keyed_files


def sections_to_read(table: Table, files: Iterable[DataFileMeta]) -> list[list[SortedRun]]:
    """Return the sections that readers of a primary key table merge: each file alone where it is not sorted by key."""
    if has_unsorted_keys(table):
        return [[SortedRun(f.level, (f,))] for f in files]
    return sections(files, table.key_types)
