"""What an operation would do, and did, to the files of a table: the rows of EXPLAIN CALL and of a dry run."""

from __future__ import annotations

from paimon_spark.core.maintenance.deletion import DELETE, KEEP, WARN, WRITE, Action

__all__ = ["DELETE", "KEEP", "WARN", "WRITE", "Action"]
