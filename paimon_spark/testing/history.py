"""Random histories: a table and a model, with the content of each snapshot and tag compared after each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa

from paimon_spark.api.table import TableHandle
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.fs.base import FileIO
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.scenarios import (
    KINDS,
    SCHEMA,
    WAREHOUSE,
    Kind,
    Row,
    Rows,
    create,
    open_warehouse,
    read_rows,
    rows_of,
)

PARTS = "abc"


@dataclass(slots=True)
class Model:
    """The expected rows of a table, with or without a key."""

    keyed: bool
    rows: list[Row] = field(default_factory=list)

    def write(self, rows: list[Row]) -> None:
        """Add rows; with a key, they replace rows of the same key, of duplicates the last one."""
        if self.keyed:
            fresh = {self.key(r): r for r in rows}
            self.rows = [r for r in self.rows if self.key(r) not in fresh] + list(fresh.values())
        else:
            self.rows = self.rows + rows

    def keep(self, stays: Callable[[Row], bool]) -> None:
        """Delete all rows for which `stays` is false."""
        self.rows = [r for r in self.rows if stays(r)]

    def key(self, row: Row) -> Row:
        """Return the key of a row."""
        return row[:1]

    def sorted(self) -> Rows:
        """Return the rows, sorted."""
        return tuple(sorted(self.rows))


class PartitionedModel(Model):
    """A model whose key includes the partition column."""

    def key(self, row: Row) -> Row:
        """Return the key of a row."""
        return row[:2]


class History:
    """A table, its model, and the expected content of each snapshot and tag.

    Args:
        kind: the kind of table: a name in `scenarios.KINDS`, or a Kind.
        file_io: the store; a new in-memory store by default.
        warehouse: location of the warehouse in the store.
        threads: number of buckets compacted in parallel.
        options: additional table options.
    """

    def __init__(
        self,
        kind: str | Kind,
        *,
        file_io: FileIO | None = None,
        warehouse: str = WAREHOUSE,
        threads: int = 1,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.kind = KINDS[kind] if isinstance(kind, str) else kind
        self.store = InMemoryFileIO() if file_io is None else file_io
        self.table: TableHandle = create(open_warehouse(self.store, warehouse), self.kind, options)
        keyed = bool(self.kind.primary_key)
        self.model = (PartitionedModel if len(self.kind.primary_key) == 2 else Model)(keyed)
        self.threads = threads
        self.snapshots: dict[int, Rows] = {}
        self.tags: dict[str, tuple[int, Rows]] = {}

    # ---- operations

    def write(self, rows: list[Row]) -> None:
        """Append, or upsert."""
        self.table.append(rows_of(rows))
        self.model.write(rows)

    def write_streamed(self, rows: list[Row]) -> None:
        """Append rows as a stream of single-row batches."""
        data = rows_of(rows)
        self.table.append(pa.RecordBatchReader.from_batches(SCHEMA, data.to_batches(max_chunksize=1)))
        self.model.write(rows)

    def delete_where(self, low: int, high: int) -> None:
        """Delete by a condition over values."""
        self.table.delete(f"v BETWEEN {low} AND {high}")
        self.model.keep(lambda r: not low <= r[2] <= high)

    def delete_keys(self, rows: list[Row]) -> None:
        """Delete by keys; does nothing in a table without a primary key."""
        if not self.model.keyed or not rows:
            return
        self.table.delete(keys=rows_of(rows).select(list(self.kind.primary_key)))
        gone = {self.model.key(r) for r in rows}
        self.model.keep(lambda r: self.model.key(r) not in gone)

    def overwrite(self, rows: list[Row]) -> None:
        """Overwrite the table or, if it is partitioned, the partitions of the rows."""
        dynamic = bool(self.kind.partition_by)
        self.table.overwrite(rows_of(rows), dynamic=dynamic)
        parts = {r[1] for r in rows}
        self.model.keep(lambda r: dynamic and r[1] not in parts)
        self.model.write(rows)

    def compact(self, *, full: bool) -> None:
        """Compact the table."""
        self.table.compact(full=full, threads=self.threads)

    def expire(self, retain: int) -> None:
        """Expire all but the latest snapshots."""
        self.table.expire_snapshots(retain_max=retain, retain_min=1)

    def tag(self, name: str, at: int) -> None:
        """Tag one of the existing snapshots."""
        ids = sorted(self.snapshots)
        if ids and name not in self.tags:
            snapshot = ids[at % len(ids)]
            self.table.create_tag(name, snapshot)
            self.tags[name] = (snapshot, self.snapshots[snapshot])

    def untag(self, name: str) -> None:
        """Delete a tag."""
        if self.tags.pop(name, None) is not None:
            self.table.delete_tag(name)

    def roll_back(self, at: int) -> None:
        """Roll back to an existing snapshot."""
        ids = sorted(self.snapshots)
        if ids:
            target = ids[at % len(ids)]
            self._rolled_back(self.table.rollback_to(target), self.snapshots[target])

    def roll_back_to_tag(self, name: str) -> None:
        """Roll back to a tag, whose snapshot may have expired."""
        if name in self.tags:
            self._rolled_back(self.table.rollback_to(name), self.tags[name][1])

    def _rolled_back(self, snapshot: int, rows: Rows) -> None:
        self.model.rows = list(rows)
        self.snapshots = {i: r for i, r in self.snapshots.items() if i < snapshot} | {snapshot: rows}
        self.tags = {n: t for n, t in self.tags.items() if t[0] <= snapshot}

    # ---- checks

    def complaints(self) -> list[str]:
        """Return the differences between the table and the model; empty if there are none."""
        clear_cache()
        table = self.table.load()
        found = violations(table)
        if found:
            return found
        ids, want = table.snapshots.ids(), self.model.sorted()
        for i in ids:
            self.snapshots.setdefault(i, want)
        self.snapshots = {i: r for i, r in self.snapshots.items() if i in ids}
        if read_rows(self.table) != want:
            found.append(f"the table holds {read_rows(self.table)}, not {want}")
        if self.table.count() != len(want):
            found.append(f"count says {self.table.count()}, there are {len(want)}")
        states: list[tuple[int | str, Rows]] = [*self.snapshots.items(), *((n, r) for n, (_, r) in self.tags.items())]
        found += (f"version {v} does not hold what it held" for v, r in states if read_rows(self.table, v) != r)
        if self.table.tags() != {n: i for n, (i, _) in self.tags.items()}:
            found.append(f"the tags are {self.table.tags()}, not {self.tags}")
        return found


def random_rows(random: Random, most: int = 12) -> list[Row]:
    """Return up to `most` rows with keys from a small range, so that they collide."""
    return [
        (random.randrange(20), random.choice(PARTS), random.randrange(100)) for _ in range(random.randrange(most + 1))
    ]


def random_step(history: History, random: Random) -> str:
    """Execute a random operation; return its description."""
    steps: dict[str, tuple[int, Callable[[], None]]] = {
        "write": (6, lambda: history.write(random_rows(random))),
        "write a stream": (1, lambda: history.write_streamed(random_rows(random))),
        "delete where": (2, lambda: history.delete_where(low := random.randrange(100), low + random.randrange(30))),
        "delete keys": (2, lambda: history.delete_keys(random_rows(random, 5))),
        "overwrite": (1, lambda: history.overwrite(random_rows(random, 5))),
        "compact": (3, lambda: history.compact(full=random.random() < 0.5)),
        "expire": (2, lambda: history.expire(random.randrange(1, 5))),
        "tag": (2, lambda: history.tag(random.choice("xyz"), random.randrange(99))),
        "untag": (1, lambda: history.untag(random.choice("xyz"))),
        "roll back": (1, lambda: history.roll_back(random.randrange(99))),
        "roll back to a tag": (1, lambda: history.roll_back_to_tag(random.choice("xyz"))),
    }
    name = random.choices(list(steps), [weight for weight, _ in steps.values()])[0]
    steps[name][1]()
    return name
