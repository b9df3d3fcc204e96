"""Random histories: a table and a model, with the content of each snapshot and tag compared after each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Self

import pyarrow as pa

from paimon_spark.api.rows import ArrowRows
from paimon_spark.api.table import TableHandle
from paimon_spark.catalog.filesystem import FileSystemCatalog
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.engine.redistribution.rescale import execute_rescale, plan_rescale
from paimon_spark.fs.base import FileIO
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.evolution import SetOption
from paimon_spark.spec.kinds import RowKind
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.moving_keys import write_moving
from paimon_spark.testing.scenarios import (
    KINDS,
    SCHEMA,
    WAREHOUSE,
    Kind,
    Merge,
    Row,
    Rows,
    create,
    in_order,
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
    merge: Merge = Merge.LAST

    def write(self, rows: list[Row]) -> None:
        """Add rows; with a key, each is merged with the one of the same key."""
        if self.keyed:
            merged = {self.key(r): r for r in self.rows}
            for row in rows:
                old = merged.get(self.key(row))
                merged[self.key(row)] = row if old is None else self.merge(old, row)
            self.rows = list(merged.values())
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
        return tuple(sorted(self.rows, key=in_order))

    def copy(self) -> Self:
        """Return a model with the same rows."""
        return replace(self, rows=list(self.rows))


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
        self.warehouse = warehouse
        self.table: TableHandle = create(open_warehouse(self.store, warehouse), self.kind, options)
        keyed = bool(self.kind.primary_key)
        model = PartitionedModel if len(self.kind.primary_key) == 2 else Model
        self.model = self.intended = model(keyed, merge=self.kind.merge)
        self.threads = threads
        self.snapshots: dict[int, Rows] = {}
        self.tags: dict[str, tuple[int, Rows]] = {}
        self._rescaled: int | None = None
        self._hidden: set[int] = set()
        self._buried: set[Row] = set()
        self._deleted: set[Row] = set()

    # ---- operations

    def rows_to_write(self, rows: list[Row]) -> list[Row]:
        """Return rows as this kind of table gets them.

        Some values are null where that matters. A deleted key is left out where its next row would build on the deleted
        values, as it does until a full compaction (docs/spec/semantics.md, M11 and M16).
        """
        if self.kind.merge in (Merge.SUM, Merge.PARTIAL):
            rows = [r for r in rows if self.model.key(r) not in self._buried]
        if self.kind.merge is not Merge.PARTIAL:
            return rows
        return [(k, p, None if v % 3 == 0 else v) for k, p, v in rows]

    def write(self, rows: list[Row]) -> None:
        """Append, or upsert."""
        rows = self.rows_to_write(rows)
        self._change(lambda: self._append(rows_of(rows)), lambda model: model.write(rows))

    def write_streamed(self, rows: list[Row]) -> None:
        """Append rows as a stream of single-row batches."""
        rows = self.rows_to_write(rows)
        batches = rows_of(rows).to_batches(max_chunksize=1)
        stream = pa.RecordBatchReader.from_batches(SCHEMA, batches)
        self._change(lambda: self._append(stream), lambda model: model.write(rows))

    def delete_where(self, low: int, high: int) -> None:
        """Delete by a condition over values."""
        condition = f"v BETWEEN {low} AND {high}"
        self._change(
            lambda: self._delete(condition),
            lambda model: model.keep(lambda r: r[2] is None or not low <= r[2] <= high),
        )

    def delete_keys(self, rows: list[Row]) -> None:
        """Delete by keys; does nothing in a table without a primary key."""
        if self.model.keyed and rows:
            gone = {self.model.key(r) for r in rows}
            self._bury(gone)
            self._change(
                lambda: self._delete_keys(rows_of(rows)),
                lambda model: model.keep(lambda r: model.key(r) not in gone),
            )

    def overwrite(self, rows: list[Row]) -> None:
        """Overwrite the table or, if it is partitioned, the partitions of the rows."""
        rows = self.rows_to_write(rows)
        dynamic, parts = bool(self.kind.partition_by) and not self.kind.moves_keys, {r[1] for r in rows}

        def replaced(model: Model) -> None:
            model.keep(lambda r: dynamic and r[1] not in parts)
            model.write(rows)

        self._change(lambda: self._overwrite(rows_of(rows), dynamic=dynamic), replaced)

    def _change(self, run: Callable[[], object], expect: Callable[[Model], None]) -> None:
        """Change the table and, if that succeeds, the model; `intended` is the new model in any case."""
        self.intended = self.model.copy()
        expect(self.intended)
        self._bury(set(map(self.model.key, self.model.rows)) - set(map(self.model.key, self.intended.rows)))
        run()
        self.model = self.intended
        if self.kind.hides_new_rows:
            self.compact(full=False)

    def _bury(self, keys: set[Row]) -> None:
        """Note keys that are deleted, or may be."""
        self._buried |= keys
        self._deleted |= keys

    def _append(self, rows: ArrowRows) -> None:
        if self.kind.moves_keys:
            given = rows.read_all() if isinstance(rows, pa.RecordBatchReader) else rows
            write_moving(self.table.load(), given)
        else:
            self.table.append(rows)

    def _delete(self, condition: str) -> None:
        if self.kind.moves_keys:
            write_moving(self.table.load(), self.table.to_arrow(filter=condition), RowKind.DELETE)
        else:
            self.table.delete(condition)

    def _delete_keys(self, rows: pa.Table) -> None:
        if self.kind.moves_keys:
            write_moving(self.table.load(), rows, RowKind.DELETE)
        else:
            self.table.delete(keys=rows.select(list(self.kind.primary_key)))

    def _overwrite(self, rows: pa.Table, *, dynamic: bool) -> None:
        if self.kind.moves_keys:
            write_moving(self.table.load(), rows, overwrite=True)
        else:
            self.table.overwrite(rows, dynamic=dynamic)

    def rescale(self, buckets: int) -> None:
        """Give a table with fixed buckets another number of them."""
        table = self.table.load()
        if not self.model.keyed or table.options.bucket < 1 or table.snapshots.latest() is None:
            return
        if table.options.bucket != buckets:
            catalog = FileSystemCatalog(self.warehouse, {}, self.store)
            catalog.alter_table(table.identifier, [SetOption("bucket", str(buckets))])
        self._rescaled = buckets
        execute_rescale(plan_rescale(self.table.load(), buckets), None)
        if self.kind.hides_new_rows:
            self.compact(full=False)

    def compact(self, *, full: bool) -> None:
        """Compact the table."""
        self.table.compact(full=full, threads=self.threads)
        self._buried = set() if full else self._buried

    def expire(self, retain: int) -> None:
        """Expire all but the latest snapshots."""
        self.table.expire_snapshots(retain_max=retain, retain_min=1)

    def tag(self, name: str, at: int) -> None:
        """Tag one of the existing snapshots."""
        ids = sorted(self.snapshots.keys() - self._hidden)
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
        ids = sorted(self.snapshots.keys() - self._hidden)
        if ids:
            target = ids[at % len(ids)]
            self._rolled_back(self.table.rollback_to(target), self.snapshots[target])

    def roll_back_to_tag(self, name: str) -> None:
        """Roll back to a tag, whose snapshot may have expired."""
        if name in self.tags:
            self._rolled_back(self.table.rollback_to(name), self.tags[name][1])

    def _rolled_back(self, snapshot: int, rows: Rows) -> None:
        self.model.rows = list(rows)
        self._buried = set(self._deleted)
        self._hidden = {i for i in self._hidden if i < snapshot}
        self.snapshots = {i: r for i, r in self.snapshots.items() if i < snapshot} | {snapshot: rows}
        self.tags = {n: t for n, t in self.tags.items() if t[0] <= snapshot}
        if self._rescaled is not None:
            self.rescale(self._rescaled)  # the rows are in the buckets of that time

    # ---- checks

    def pin(self) -> None:
        """Expect of every new snapshot the content that it has now."""
        for i in self.table.load().snapshots.ids():
            if i not in self.snapshots:
                self.snapshots[i] = read_rows(self.table, i)

    def complaints(self) -> list[str]:
        """Return the differences between the table and the model; empty if there are none."""
        clear_cache()
        table = self.table.load()
        found = violations(table)
        if found:
            return found
        ids, want = table.snapshots.ids(), self.model.sorted()
        for i in (i for i in ids if i not in self.snapshots):
            hidden = self.kind.hides_new_rows and i != ids[-1]
            self._hidden |= {i} if hidden else set()
            self.snapshots[i] = read_rows(self.table, i) if hidden else want
        self.snapshots = {i: r for i, r in self.snapshots.items() if i in ids}
        if read_rows(self.table) != want:
            found.append(f"the table holds {read_rows(self.table)}, not {want}")
        if self.table.count() != len(want):
            found.append(f"count returns {self.table.count()}, there are {len(want)}")
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
        "rescale": (1, lambda: history.rescale(random.randrange(1, 4))),
        "roll back to a tag": (1, lambda: history.roll_back_to_tag(random.choice("xyz"))),
    }
    name = random.choices(list(steps), [weight for weight, _ in steps.values()])[0]
    steps[name][1]()
    return name
