"""One table that this project and Paimon change in turn, and what each of its states must hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any

from paimon_spark.api.catalog import CatalogHandle
from paimon_spark.api.table import TableHandle
from paimon_spark.catalog.filesystem import FileSystemCatalog
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import complete_write, plan_write
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.spec.evolution import AddColumn, DropColumn, RenameColumn, SchemaChange, UpdateColumnType
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.kinds import Operation
from paimon_spark.spec.predicate import Comparison
from paimon_spark.spec.types import DataField, atomic_text, parse_atomic
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.scenarios import FAST, Kind
from tests.peers.trial_peer import TrialPeer
from tests.peers.trial_values import (
    CAST,
    EDGES,
    WIDER,
    Row,
    Value,
    edge,
    from_arrow,
    from_peer,
    ordered,
    stored,
    to_arrow,
)

DATABASE = "default"
BASE = (("k", "INT"), ("p", "STRING"), ("v", "BIGINT"))
"""Columns that every table has and keeps: the key, the partition, and what deletions ask for."""
PARTS = ("a", "b c", "ä=1")
Record = dict[int, Value]
"""A row by field ids."""


class Side(StrEnum):
    """Who takes a step."""

    HERE = "here"
    THERE = "there"


@dataclass(frozen=True, slots=True)
class Item:
    """A row to write: key, partition, value, and a number that chooses the values of all other columns."""

    k: int
    part: int
    v: int
    edges: int


@dataclass(slots=True)
class TrialTable:
    """A table of some kind in a warehouse that both sides share."""

    warehouse: Path
    peer: TrialPeer
    name: str
    kind: Kind
    options: Mapping[str, str]
    rows: list[Record] = field(default_factory=list)
    snapshots: dict[int, list[Record]] = field(default_factory=dict)
    tags: dict[str, tuple[int, list[Record]]] = field(default_factory=dict)
    cast: set[int] = field(default_factory=set)
    """Fields whose type changed so that values did: the sides are compared with each other alone."""
    columns_made: int = 0

    # ---- the table itself

    @property
    def full_name(self) -> str:
        """Return the name with the database."""
        return f"{DATABASE}.{self.name}"

    @property
    def catalog(self) -> FileSystemCatalog:
        """Return a catalog that remembers nothing."""
        return FileSystemCatalog(str(self.warehouse), {}, LocalFileIO())

    @property
    def handle(self) -> TableHandle:
        """Return the table as the Python API has it."""
        return CatalogHandle(self.catalog).table(self.full_name)

    def load(self) -> Table:
        """Return the table as it is now."""
        clear_cache()
        return self.catalog.load_table(Identifier(DATABASE, self.name))

    @property
    def fields(self) -> tuple[DataField, ...]:
        """Return the columns as they are now."""
        return self.load().schema.fields

    @property
    def keyed(self) -> bool:
        """Return whether rows have a key."""
        return bool(self.kind.primary_key)

    def create(self, side: Side) -> None:
        """Create it with columns of every type."""
        columns = [*BASE, *((f"c{i}", t) for i, t in enumerate(EDGES))]
        options = {**FAST, **self.kind.options, **self.options}
        if side is Side.THERE:
            keys = {"primaryKey": list(self.kind.primary_key), "partition": list(self.kind.partition_by)}
            self._ask("create", columns=columns, options=options, **keys)
            return
        fields = tuple(DataField(i, n, parse_atomic(t)) for i, (n, t) in enumerate(columns))
        CatalogHandle(self.catalog).create_table(
            self.full_name,
            to_arrow((), fields).schema,
            primary_key=self.kind.primary_key,
            partition_by=self.kind.partition_by,
            options=options,
        )

    def _ask(self, do: str, **step: Any) -> Mapping[str, Any]:
        return self.peer.ask(do, self.full_name, **step)

    # ---- steps

    def write(self, side: Side, items: Sequence[Item], *, delete: bool = False) -> None:
        """Append, upsert, or delete by keys."""
        fields = self.fields
        records = [self._record(i, fields) for i in items]
        rows = [_row(r, fields) for r in records]
        if side is Side.THERE:
            kind = "-D" if delete else "+I"
            self._ask("write", rows=[[kind, *r] for r in rows])
        elif delete:
            self.handle.delete(keys=to_arrow(rows, fields).select(list(self.kind.primary_key)))
        else:
            self.handle.append(to_arrow(rows, fields))
        self._apply(records, delete=delete)
        self._note_snapshots(self.load())

    def _record(self, item: Item, fields: Sequence[DataField]) -> Record:
        base: dict[str, Value] = {"k": item.k, "p": PARTS[item.part], "v": item.v}
        out: Record = {}
        for i, f in enumerate(fields):
            text = _type(f)
            out[f.id] = base[f.name] if f.name in base else stored(edge(text, item.edges + i * item.edges // 3), text)
        return out

    def _apply(self, records: Iterable[Record], *, delete: bool = False) -> None:
        if not self.keyed:
            self.rows = [*self.rows, *records]
            return
        by_key = {self._key(r): r for r in self.rows}
        for record in records:
            by_key.pop(self._key(record), None)
            if not delete:
                by_key[self._key(record)] = record
        self.rows = list(by_key.values())

    def _key(self, record: Record) -> tuple[Value, ...]:
        ids = [i for i, (n, _) in enumerate(BASE) if n in self.kind.primary_key]
        return tuple(record[i] for i in ids)

    def delete_where(self, side: Side, low: int, high: int) -> None:
        """Delete by values; Paimon's Java API deletes rows of tables with a key, one by one."""
        gone = [r for r in self.rows if low <= _int(r[2]) <= high]
        if side is Side.THERE and self.keyed:
            fields = self.fields
            self._ask("write", rows=[["-D", *_row(r, fields)] for r in gone])
        else:
            self.handle.delete(f"v BETWEEN {low} AND {high}")
        self.rows = [r for r in self.rows if not low <= _int(r[2]) <= high]

    def overwrite(self, side: Side, items: Sequence[Item]) -> None:
        """Replace everything, or in a partitioned table the partitions of the rows."""
        fields, dynamic = self.fields, bool(self.kind.partition_by)
        records = [self._record(i, fields) for i in items]
        rows = [_row(r, fields) for r in records]
        if side is Side.THERE:
            self._ask("overwrite", rows=rows)
        else:
            self.handle.overwrite(to_arrow(rows, fields), dynamic=dynamic)
        parts = {r[1] for r in records}
        self.rows = [r for r in self.rows if dynamic and r[1] not in parts]
        self._apply(records)

    def truncate(self, side: Side, part: int | None) -> None:
        """Empty the table, or one partition of a partitioned one."""
        chosen = PARTS[part] if part is not None and self.kind.partition_by else None
        if side is Side.THERE:
            self._ask("truncate", **({} if chosen is None else {"partitions": [{"p": chosen}]}))
        else:
            condition = None if chosen is None else Comparison("=", "p", chosen)
            plan = plan_write(
                self.load(), overwrite="static", static_partitions=condition, operation=Operation.TRUNCATE
            )
            complete_write(plan, [], LocalRunner())
        self.rows = [r for r in self.rows if chosen is not None and r[1] != chosen]

    def compact(self, side: Side, *, full: bool) -> None:
        """Merge files."""
        if side is Side.THERE:
            self._ask("compactTable", full=full)
        else:
            self.handle.compact(full=full)

    def expire(self, side: Side, retain: int) -> None:
        """Forget all but the newest snapshots."""
        if side is Side.THERE:
            self._ask("expire", retain=retain)
        else:
            self.handle.expire_snapshots(retain_max=retain, retain_min=1)

    def tag(self, side: Side, name: str, at: int) -> None:
        """Name one of the snapshots."""
        ids = sorted(self.snapshots)
        if not ids or name in self.tags:
            return
        snapshot = ids[at % len(ids)]
        if side is Side.THERE:
            self._ask("createTag", name=name, snapshot=snapshot)
        else:
            self.handle.create_tag(name, snapshot)
        self.tags[name] = (snapshot, self.snapshots[snapshot])

    def untag(self, side: Side, name: str) -> None:
        """Let a tag go."""
        if self.tags.pop(name, None) is None:
            return
        if side is Side.THERE:
            self._ask("deleteTag", name=name)
        else:
            self.handle.delete_tag(name)

    def roll_back(self, side: Side, at: int) -> None:
        """Go back to a snapshot."""
        ids = sorted(self.snapshots)
        if not ids:
            return
        target = ids[at % len(ids)]
        if side is Side.THERE:
            self._ask("rollback", snapshot=target)
        else:
            self.handle.rollback_to(target)
        self._rolled_back(target, self.snapshots[target])

    def roll_back_to_tag(self, side: Side, name: str) -> None:
        """Go back to a tag, whose snapshot may have expired."""
        if name not in self.tags:
            return
        if side is Side.THERE:
            self._ask("rollback", tag=name)
        else:
            self.handle.rollback_to(name)
        self._rolled_back(*self.tags[name])

    def _rolled_back(self, snapshot: int, rows: list[Record]) -> None:
        self.rows = rows
        self.snapshots = {i: r for i, r in self.snapshots.items() if i < snapshot} | {snapshot: rows}
        self.tags = {n: t for n, t in self.tags.items() if t[0] <= snapshot}

    def remove_orphans(self, side: Side) -> None:
        """Delete every file that nothing refers to; only there, where no age protects them."""
        if side is Side.THERE:
            self._ask("removeOrphans")

    def alter(self, side: Side, what: str, number: int) -> None:
        """Add, rename, drop or retype a column."""
        free = [f for f in self.fields if f.name not in {n for n, _ in BASE}]
        chosen = free[number % len(free)] if free else None
        if what == "add":
            self.columns_made += 1
            types = list(EDGES)
            name, text = f"n{self.columns_made}", types[number % len(types)]
            self._alter(side, {"add": [name, text]}, AddColumn((name,), parse_atomic(text)))
        elif chosen is None:
            return
        elif what == "rename":
            self.columns_made += 1
            name = f"r{self.columns_made}"
            self._alter(side, {"rename": [chosen.name, name]}, RenameColumn((chosen.name,), name))
        elif what == "drop":
            self._alter(side, {"drop": chosen.name}, DropColumn((chosen.name,)))
        else:
            self._retype(side, chosen, WIDER if what == "widen" else CAST, number)

    def _retype(self, side: Side, column: DataField, changes: Mapping[str, tuple[str, ...]], number: int) -> None:
        choices = changes.get(_type(column), ())
        if not choices:
            return
        text = choices[number % len(choices)]
        self._alter(side, {"type": [column.name, text]}, UpdateColumnType((column.name,), parse_atomic(text)))
        if changes is CAST:
            self.cast.add(column.id)

    def _alter(self, side: Side, told: Mapping[str, Any], change: SchemaChange) -> None:
        if side is Side.THERE:
            self._ask("alter", **told)
        else:
            self.catalog.alter_table(Identifier(DATABASE, self.name), [change])

    # ---- what must hold

    def differences(self, random: Random, sampled: int = 3) -> list[str]:
        """Return how the sides and the model differ, over the newest state, every tag and some snapshots."""
        table = self.load()
        found = violations(table)
        ids = self._note_snapshots(table)
        if self.handle.tags() != {n: i for n, (i, _) in self.tags.items()}:
            found.append(f"the tags are {self.handle.tags()}, not {self.tags}")
        chosen = sorted(random.sample(ids, min(sampled, len(ids))))
        there = self._ask("states", tags=list(self.tags), snapshots=chosen)["states"]
        versions: list[tuple[str, int | str | None, list[Record]]] = [
            ("the table", None, self.rows),
            *((f"tag {n}", n, rows) for n, (_, rows) in self.tags.items()),
            *((f"snapshot {i}", i, self.snapshots[i]) for i in chosen),
        ]
        for (label, version, rows), theirs in zip(versions, there, strict=True):
            found += self._compared(table, label, version, rows, theirs)
        return found

    def _note_snapshots(self, table: Table) -> list[int]:
        """Note that new snapshots hold the rows of now, and forget those that are gone; return what is there."""
        ids = table.snapshots.ids()
        self.snapshots = {i: self.snapshots.get(i, self.rows) for i in ids}
        return ids

    def _compared(
        self, table: Table, label: str, version: int | str | None, rows: list[Record], theirs: list[list[Any]]
    ) -> list[str]:
        fields = self._fields_at(table, version)
        ours = from_arrow(self.handle.to_arrow(version=version), fields)
        told = from_peer(theirs, fields)
        found = []
        if ordered(ours) != ordered(told):
            found.append(f"{label}: here {_less(ours, told)}, there {_less(told, ours)}")
        kept = [f for f in fields if f.id not in self.cast]
        places = [fields.index(f) for f in kept]
        want, have = [_row(r, kept) for r in rows], [tuple(r[i] for i in places) for r in ours]
        if ordered(have) != ordered(want):
            found.append(f"{label}: here {_less(have, want)}, written was {_less(want, have)}")
        return found

    def _fields_at(self, table: Table, version: int | str | None) -> tuple[DataField, ...]:
        if version is None:
            return table.schema.fields
        tagged = isinstance(version, str)
        found = RefStore.of(table).get_tag(str(version)).snapshot if tagged else table.snapshots.get(int(version))
        return table.schema_store.get(found.schema_id).fields


def _row(record: Record, fields: Sequence[DataField]) -> Row:
    return tuple(record.get(f.id) for f in fields)


def _type(f: DataField) -> str:
    text = atomic_text(f.type).removesuffix(" NOT NULL")  # type: ignore[arg-type]
    return next((t for t in EDGES if atomic_text(parse_atomic(t)) == text), text)


def _int(value: Value) -> int:
    assert isinstance(value, int)
    return value


def _less(some: Sequence[Row], others: Sequence[Row]) -> str:
    """Return up to three of the rows of one side that the other does not have."""
    rest = ordered(others)
    left = []
    for text in ordered(some):
        if text in rest:
            rest.remove(text)
        else:
            left.append(text)
    return f"{len(left)} rows more: {left[:3]}"
