"""Random histories of tables of the merge engines, each step taken here or by Paimon; both must read the same rows.

A history may have a twin: a second table for which the other side takes each step. Its rows must be the same too, so
what one side merges in write buffers and compactions is what the other one merges. Twins are compacted fully only,
because the other compactions depend on the sizes of files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from paimon_spark.api.catalog import CatalogHandle
from paimon_spark.api.table import TableHandle
from paimon_spark.catalog.filesystem import FileSystemCatalog
from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import write_arrow
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.kinds import RowKind
from paimon_spark.spec.merge_rules import refused_rows
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.types import DataField, MapType, type_to_json
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.scenarios import FAST
from tests.columns import exact
from tests.peers.trial_engines import EngineTable, draw_table, spelled
from tests.peers.trial_peer import TrialPeer
from tests.peers.trial_table import DATABASE, Side

SIDES = st.sampled_from(Side)
COLUMNS = 16
KINDS = (RowKind.INSERT,) * 4 + (RowKind.UPDATE_AFTER, RowKind.UPDATE_BEFORE, RowKind.DELETE, RowKind.DELETE)


@dataclass(frozen=True, slots=True)
class Item:
    """A row to write: its kind, its key, and numbers that choose the values of the other columns."""

    kind: RowKind
    key: int
    numbers: tuple[int, ...]


ITEMS = st.lists(
    st.builds(
        Item, st.sampled_from(KINDS), st.integers(0, 4), st.tuples(*[st.integers(0, 60) for _ in range(COLUMNS)])
    ),
    min_size=1,
    max_size=8,
)


class TwoSided:
    """A table that both sides write and read."""

    def __init__(self, warehouse: Path, peer: TrialPeer, name: str, drawn: EngineTable) -> None:
        self._warehouse = warehouse
        self._peer = peer
        self._name = name
        self._drawn = drawn

    @property
    def full_name(self) -> str:
        """Return the name with the database."""
        return f"{DATABASE}.{self._name}"

    def create(self, side: Side, options: Mapping[str, str]) -> None:
        """Create the table."""
        fields = self._drawn.fields
        if side is Side.THERE:
            columns = [[f.name, type_to_json(f.type)] for f in fields]
            self._peer.ask("create", self.full_name, columns=columns, options=options, primaryKey=["k"], partition=[])
        else:
            schema = to_arrow_schema(fields)
            CatalogHandle(self._catalog).create_table(self.full_name, schema, primary_key="k", options=options)

    @property
    def _catalog(self) -> FileSystemCatalog:
        return FileSystemCatalog(str(self._warehouse), {}, LocalFileIO())

    @property
    def _handle(self) -> TableHandle:
        return CatalogHandle(self._catalog).table(self.full_name)

    def load(self) -> Table:
        """Return the table as it is now."""
        clear_cache()
        return self._catalog.load_table(Identifier(DATABASE, self._name))

    def write(self, side: Side, rows: Sequence[tuple[RowKind, Sequence[Any]]]) -> None:
        """Write rows with their kinds."""
        fields = self._drawn.fields
        if side is Side.THERE:
            told = [[k.short, *(spelled(v, f.type) for v, f in zip(row, fields, strict=True))] for k, row in rows]
            self._peer.ask("write", self.full_name, rows=told)
            return
        schema = to_arrow_schema(fields)
        arrays = [
            pa.array([_for_arrow(row[i], f) for _, row in rows], schema.field(i).type) for i, f in enumerate(fields)
        ]
        arrays.append(pa.array([int(k) for k, _ in rows], pa.int8()))
        write_arrow(self.load(), pa.table(arrays, names=[*schema.names, ROW_KIND]))

    def compact(self, side: Side, *, full: bool) -> None:
        """Merge files."""
        if side is Side.THERE:
            self._peer.ask("compactTable", self.full_name, full=full)
        else:
            self._handle.compact(full=full)

    def rows_here(self, version: int | None = None, columns: list[str] | None = None) -> list[list[Any]]:
        """Return the rows as this project reads them, all or some columns."""
        fields = [f for f in self._drawn.fields if columns is None or f.name in columns]
        table = self._handle.to_arrow(version=version, columns=columns)
        values = [exact(_one(table.column(f.name)), f.type) for f in fields]
        return [self._plain(row, fields) for row in zip(*values, strict=True)]

    def rows_there(self, versions: Sequence[int]) -> list[list[list[Any]]]:
        """Return the rows as Paimon reads them: now, and in some snapshots."""
        states = self._peer.ask("states", self.full_name, exact=True, tags=[], snapshots=list(versions))["states"]
        return [[self._plain(row, self._drawn.fields) for row in state] for state in states]

    def _plain(self, row: Sequence[Any], fields: Sequence[DataField]) -> list[Any]:
        out = []
        for value, f in zip(row, fields, strict=True):
            column = self._drawn.columns.get(f.name)
            unordered = isinstance(f.type, MapType) or (column is not None and column.unordered)
            out.append(sorted(value, key=repr) if unordered and value is not None else value)
        return out

    def differences(self, number: int) -> list[str]:
        """Return how the rows of both sides differ, now and in one snapshot, and what is wrong in the metadata."""
        table = self.load()
        found = violations(table)
        ids = table.snapshots.ids()
        chosen = [ids[number % len(ids)]] if ids else []
        now, *older = self.rows_there(chosen)
        here = self.rows_here()
        found += compared("the table", here, now)
        for version, there in zip(chosen, older, strict=True):
            found += compared(f"snapshot {version}", self.rows_here(version), there)
        names = list(self._drawn.columns)
        i = number % len(names)
        found += compared(f"column {names[i]} alone", self.rows_here(columns=[names[i]]), [[r[i + 1]] for r in here])
        return found


def compared(label: str, here: Sequence[Any], there: Sequence[Any]) -> list[str]:
    """Return whether two lists of rows differ, as a message."""
    left, right = Counter(map(repr, here)), Counter(map(repr, there))
    if left == right:
        return []
    return [f"{label}: here {sorted(left - right)}, there {sorted(right - left)}"]


class EngineMachine(RuleBasedStateMachine):
    """One table of a merge engine that both sides change, and perhaps its twin."""

    peer: TrialPeer
    warehouse: Path
    steps: ClassVar[Counter[str]] = Counter()
    start: ClassVar[int] = 0
    """The seed from which tables are drawn."""
    tables: ClassVar[int] = 0
    drawn: EngineTable | None = None
    taken = 0
    """The steps of this history."""

    @initialize(
        number=st.integers(0, 999),
        form=st.sampled_from(["parquet", "orc", "avro"]),
        side=SIDES,
        twin=st.booleans(),
        write_only=st.booleans(),
    )
    def begin(self, number: int, form: str, side: Side, *, twin: bool, write_only: bool) -> None:
        cls = type(self)
        cls.tables += 1
        self.drawn = drawn = draw_table(Random(f"{cls.start}:{number}"))
        has_twin = twin and not drawn.there_only
        quiet = has_twin or (write_only and not drawn.there_only)
        options = {
            **FAST,
            "file.format": form,
            "num-sorted-run.compaction-trigger": "3",
            "write-only": str(quiet).lower(),
            **drawn.options,
        }
        names = [f"e{cls.tables}", f"e{cls.tables}_twin"][: 1 + has_twin]
        self.t = [TwoSided(self.warehouse, self.peer, n, drawn) for n in names]
        for t, s in self._each(side):
            t.create(s, options)
        table = self.t[0].load()
        self.refused = {r.kind for r in refused_rows(table.schema, CoreOptions(options))}
        self.count("create", side)

    def count(self, what: str, side: Side) -> None:
        assert self.drawn is not None
        side = Side.THERE if self.drawn.there_only else side
        self.steps[f"{self.drawn.engine}: {what} {side}"] += 1
        self.taken += 1

    def _each(self, side: Side) -> list[tuple[TwoSided, Side]]:
        assert self.drawn is not None
        if self.drawn.there_only:
            return [(self.t[0], Side.THERE)]
        other = Side.HERE if side is Side.THERE else Side.THERE
        return list(zip(self.t, (side, other), strict=False))

    @rule(writes=st.lists(st.tuples(SIDES, ITEMS), min_size=1, max_size=3))
    def write(self, writes: list[tuple[Side, list[Item]]]) -> None:
        for side, items in writes:
            self.count("write", side)
            rows = [self._row(i) for i in items]
            for t, s in self._each(side):
                t.write(s, rows)

    def _row(self, item: Item) -> tuple[RowKind, list[Any]]:
        assert self.drawn is not None
        kind = RowKind.INSERT if item.kind in self.refused else item.kind
        columns = self.drawn.columns.values()
        chosen = [c.values[item.numbers[i % COLUMNS] % len(c.values)] for i, c in enumerate(columns)]
        return kind, [item.key, *chosen]

    @rule(side=SIDES, full=st.booleans())
    def compact(self, side: Side, *, full: bool) -> None:
        self.count("compact", side)
        for t, s in self._each(side):
            t.compact(s, full=full or len(self.t) > 1)

    @rule(first=SIDES, second=SIDES, items=ITEMS, full=st.booleans())
    def write_and_compact(self, first: Side, second: Side, items: list[Item], *, full: bool) -> None:
        self.write([(first, items), (second, items[::-1])])
        self.compact(second, full=full)

    @invariant()
    def both_sides_read_the_same_rows(self) -> None:
        if self.drawn is None:
            return
        found = [f for t in self.t for f in t.differences(self.taken)]
        if len(self.t) > 1:
            found += compared("the twin", self.t[0].rows_here(), self.t[1].rows_here())
        described = {n: (type_to_json(c.type), c.function) for n, c in self.drawn.columns.items()}
        assert not found, "\n".join([*found, f"columns {described}", f"options {self.drawn.options}"])


def _for_arrow(value: Any, f: DataField) -> Any:
    return list(value.items()) if isinstance(f.type, MapType) and value is not None else value


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()
