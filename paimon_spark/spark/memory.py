"""The memory pool of the writers of one executor.

Every task writes in a separate Python process, and processes cannot pass memory to each other. Each task slot of an
executor may therefore use an equal part of the pool.
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

    Raises: OptionError: the pool is too small for the task slots.
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
    """Return the number of concurrent tasks of one executor.

    A standalone cluster without `spark.executor.cores` gives an executor all cores of its machine, which the driver
    does not know; the total number of cores of all executors is used instead.
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
