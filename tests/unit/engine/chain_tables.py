"""A chain table for tests, and a model of what its partitions hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.metadata.branches import on_branch
from paimon_spark.core.table import Table
from paimon_spark.engine.fallback import plan_reads, read_plans
from paimon_spark.engine.insert import Overwrite, write_arrow
from paimon_spark.engine.refs.branches import execute_create_branch, plan_create_branch
from paimon_spark.fs.base import FileIO
from paimon_spark.sqlparse.where import parse_filter
from paimon_spark.testing.tables import new_table

COLUMNS = {"k": "INT", "v": "INT", "a": "STRING", "dt": "STRING"}
OPTIONS = {
    "chain-table.enabled": "true",
    "bucket": "2",
    "bucket-key": "k",
    "sequence.field": "v",
    "partition.timestamp-pattern": "$dt",
    "partition.timestamp-formatter": "yyyyMMdd",
    "scan.fallback-snapshot-branch": "snapshot",
    "scan.fallback-delta-branch": "delta",
}
Row = tuple[int, int, str | None]
"""Key, sequence and value; a row without a value deletes its key."""


def chain_table(
    options: Mapping[str, str] | None = None,
    *,
    columns: Mapping[str, str] = COLUMNS,
    partition: Sequence[str] = ("dt",),
    file_io: FileIO | None = None,
    path: str | None = None,
) -> Table:
    """Return a chain table with its branches."""
    table = new_table(
        columns,
        primary_key=[*partition, "k"],
        partition=partition,
        options={**OPTIONS, **(options or {})},
        file_io=file_io,
        path=path,
    )
    for name in ("snapshot", "delta"):
        execute_create_branch(table, plan_create_branch(table, name))
    return table


def put(table: Table, branch: str, dt: str, *rows: Row, overwrite: Overwrite | None = None, **fixed: str) -> None:
    """Write rows of one partition to a branch."""
    n = len(rows)
    columns = {
        "k": pa.array([k for k, _, _ in rows], pa.int32()),
        "v": pa.array([v for _, v, _ in rows], pa.int32()),
        "a": pa.array([a for _, _, a in rows], pa.string()),
        ROW_KIND: pa.array([3 if a is None else 0 for _, _, a in rows], pa.int8()),
        "dt": pa.array([dt] * n, pa.string()),
        **{name: pa.array([text] * n, pa.string()) for name, text in fixed.items()},
    }
    names = [*(c for c in table.schema.field_names), ROW_KIND]
    write_arrow(on_branch(table, branch), pa.table({c: columns[c] for c in names}), overwrite=overwrite)


def read(table: Table, condition: str | None = None, limit: int | None = None) -> list[tuple[object, ...]]:
    """Return the rows of a query, sorted."""
    predicate = None if condition is None else parse_filter(condition, table.schema)
    plans = plan_reads(table, predicate=predicate, limit=limit)
    rows = pa.Table.from_batches(read_plans(plans, limit), schema=plans[0].schema).to_pylist()
    return sorted((tuple(r.values()) for r in rows), key=str)


class ChainModel:
    """The versions of each key, by branch and partition; the greatest sequence wins."""

    def __init__(self) -> None:
        self.branches: dict[str, dict[str, dict[int, list[Row]]]] = {"main": {}, "snapshot": {}, "delta": {}}

    def put(self, branch: str, dt: str, rows: Sequence[Row], *, overwrite: bool = False) -> None:
        """Add rows to a partition, or replace it."""
        partitions = self.branches[branch]
        if overwrite:
            partitions.pop(dt, None)
        for row in rows:
            partitions.setdefault(dt, {}).setdefault(row[0], []).append(row)

    def strands(self, dt: str) -> bool:
        """Return whether a snapshot partition cannot be dropped: later deltas have no other snapshot before them."""
        others = sorted(p for p in self.branches["snapshot"] if p != dt)
        following = min((p for p in others if p > dt), default="~")
        return not any(p < dt for p in others) and any(dt < p < following for p in self.branches["delta"])

    def merged(self, dt: str) -> list[Row]:
        """Return the rows of a partition of the delta branch, merged with the newest snapshot before it."""
        anchor = max((p for p in self.branches["snapshot"] if p < dt), default="")
        deltas = [self.branches["delta"][p] for p in self.branches["delta"] if anchor < p <= dt]
        return self._winners([*([self.branches["snapshot"][anchor]] if anchor else []), *deltas])

    def rows(self, dt: str) -> list[Row]:
        """Return the rows of a partition."""
        for branch in ("main", "snapshot"):
            if dt in self.branches[branch]:
                return self._winners([self.branches[branch][dt]])
        return self.merged(dt) if dt in self.branches["delta"] else []

    def all_rows(self) -> list[tuple[object, ...]]:
        """Return the rows of the table, sorted."""
        days = sorted({p for branch in self.branches.values() for p in branch})
        return sorted(((*row, dt) for dt in days for row in self.rows(dt)), key=str)

    @staticmethod
    def _winners(sources: Sequence[dict[int, list[Row]]]) -> list[Row]:
        keys = sorted({k for s in sources for k in s})
        newest = [max((row for s in sources for row in s.get(k, ())), key=lambda row: row[1]) for k in keys]
        return [row for row in newest if row[2] is not None]
