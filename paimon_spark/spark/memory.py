"""How the writers of one executor share a pool of memory.

Every task writes in a Python process of its own, and processes cannot lend memory to each other. So each task slot of
an executor may use an equal part of the pool: together they never hold more than all of it.
"""

from __future__ import annotations

import re

from pyspark import SparkContext
from pyspark.sql import SparkSession

from paimon_spark.core.table import Table
from paimon_spark.errors import OptionError
from paimon_spark.spec.units import format_memory

SMALLEST_SHARE = 1 << 20
_LOCAL = re.compile(r"local(?:\[(?P<cores>\d+|\*)(?:,\s*\d+)?\])?")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*\d+\s*,\s*(?P<cores>\d+)\s*,\s*\d+\s*\]")


def writer_share(session: SparkSession, table: Table) -> int | None:
    """Return the bytes that each writer may hold, if the writers of an executor share a pool; else None.

    Raises:
        OptionError: the pool is too small to be shared.
    """
    pool = table.options.writer_pool
    if pool is None:
        return None
    slots = task_slots(session.sparkContext)
    share = pool // slots
    if share < SMALLEST_SHARE:
        raise OptionError(
            f"The pool 'sink.managed.writer-buffer-memory' = {format_memory(pool)} is too small for the {slots} task "
            "slots of an executor.",
            hint=f"Give it {format_memory(slots * SMALLEST_SHARE)} or more.",
        )
    return share


def task_slots(context: SparkContext) -> int:
    """Return how many tasks run in one executor at the same time.

    A standalone cluster without `spark.executor.cores` gives an executor all cores of its machine, which the driver
    does not know: the cores of all executors together are then taken for those of one.
    """
    conf = context.getConf()
    cores = _cores(context, str(context.master), conf.get("spark.executor.cores"))
    return max(1, cores // int(conf.get("spark.task.cpus", "1") or 1))


def _cores(context: SparkContext, master: str, configured: str | None) -> int:
    local = _LOCAL.fullmatch(master)
    if local is not None and (local["cores"] or "1").isdigit():
        return int(local["cores"] or 1)
    cluster = _LOCAL_CLUSTER.fullmatch(master)
    if cluster is not None:
        return int(cluster["cores"])
    if local is None and configured is not None:
        return int(configured)
    return 1 if master.startswith(("yarn", "k8s")) else context.defaultParallelism
