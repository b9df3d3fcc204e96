"""Abandoned files: files of writers that were killed before they could delete them."""

from __future__ import annotations

from contextlib import suppress

from paimon_spark.core.cancellation import uninterrupted
from paimon_spark.core.maintenance.orphans import Directory, Rule, list_old
from paimon_spark.core.table import Table
from paimon_spark.errors import PaimonError

_ANY_AGE = 1 << 62


def clean_up_abandoned(table: Table) -> None:
    """Call `delete_abandoned` after a failure, ignoring its errors; `remove_orphan_files` finds files that remain."""
    with suppress(OSError, PaimonError):
        delete_abandoned(table)


@uninterrupted()
def delete_abandoned(table: Table) -> list[str]:
    """Delete all data and index files written with the table's write token; return their paths.

    Directories that become empty are removed too. Call this only if nothing was committed with this write token and all
    of its writers have stopped.
    """
    if not table.write_token:
        return []
    paths, file_io = table.paths, table.file_io
    buckets = Directory(paths.data_root, Rule.PARTITIONS, depth=len(table.schema.partition_keys))
    found = list_old(file_io, [Directory(paths.index_dir, Rule.ALL), buckets], _ANY_AGE)
    marks = (f"{table.write_token}-", f"{table.write_token}.")
    gone = [c.path for c in found.files if any(m in c.path.rpartition("/")[2] for m in marks)]
    for path in gone:
        file_io.delete(path)
    touched = {path.rpartition("/")[0] for path in gone} & found.directories.keys()
    while touched:
        emptied = {d for d in touched if file_io.delete_empty_dir(d)}
        touched = {d.rpartition("/")[0] for d in emptied} & found.directories.keys()
    return gone
