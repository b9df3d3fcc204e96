"""Listings of directories in tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paimon_spark.core.maintenance.orphans import Directory, Listing
from paimon_spark.core.metadata_io import on_local_disk
from paimon_spark.engine.runner import LocalRunner, TaskRunner
from paimon_spark.engine.tasks import listing_payload, listings
from paimon_spark.fs.base import FileIO

DIRECTORIES_A_TASK = 16
"""Number of directories of a store that a task lists, one after the other."""
_LOCAL_DIRECTORIES = 10_000
"""Number of directories of a local disk that this process lists, and then each task: half a second at most."""
_MOST_TASKS = 200


def list_directories(
    file_io: FileIO,
    work: Sequence[tuple[int, Directory]],
    runner: TaskRunner,
    *,
    older_than: int,
    parallelism: int | None,
    of: str,
) -> Iterator[tuple[int, Listing]]:
    """Yield the old files of directories of one store, each with the number of its table.

    Args:
        file_io: the store.
        work: the directories with the numbers of their tables.
        runner: runs the tasks; few directories of a local disk are listed in this process.
        older_than: see `list_old`.
        parallelism: number of tasks; by default as the number of directories needs.
        of: what is listed, for the description of the job.
    """
    near = bool(work) and on_local_disk(work[0][1].path)
    each = _LOCAL_DIRECTORIES if near else DIRECTORIES_A_TASK
    count = min(parallelism or min(-(-len(work) // each), _MOST_TASKS), len(work))
    payloads = [listing_payload(file_io, older_than, work[i::count]) for i in range(count)]
    if near and count == 1 and parallelism is None and not isinstance(runner, LocalRunner):
        runner = LocalRunner()
    for result in runner.run("list_old", payloads, description=f"list the files of {of}: {count} tasks"):
        yield from listings(result)
