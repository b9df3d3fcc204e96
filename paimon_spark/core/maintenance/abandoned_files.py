"""Files that writers left behind because they were ended before they could delete them."""

from __future__ import annotations

from contextlib import suppress

from paimon_spark.core.cancellation import uninterrupted
from paimon_spark.core.maintenance.orphans import Directory, Rule, list_old
from paimon_spark.core.table import Table
from paimon_spark.errors import PaimonError

_ANY_AGE = 1 << 62


def clean_up_abandoned(table: Table) -> None:
    """Do `delete_abandoned` after a failure, whose error stays; `remove_orphan_files` finds the rest."""
    with suppress(OSError, PaimonError):
        delete_abandoned(table)


@uninterrupted()
def delete_abandoned(table: Table) -> list[str]:
    """Delete every data and index file that was written through a marked table; return the paths.

    Directories in which nothing else is go with them. Only to be called when nothing was committed from the table and
    none of its writers runs any more.
    """
    if not table.write_token:
        return []
    paths, file_io = table.paths, table.file_io
    buckets = Directory(paths.data_root, Rule.PARTITIONS, depth=len(table.schema.partition_keys))
    found = list_old(file_io, [Directory(paths.index_dir, Rule.ALL), buckets], _ANY_AGE)
    gone = [c.path for c in found.files if f"{table.write_token}-" in c.path.rpartition("/")[2]]
    for path in gone:
        file_io.delete(path)
    touched = {path.rpartition("/")[0] for path in gone} & found.directories.keys()
    while touched:
        emptied = {d for d in touched if file_io.delete_empty_dir(d)}
        touched = {d.rpartition("/")[0] for d in emptied} & found.directories.keys()
    return gone
