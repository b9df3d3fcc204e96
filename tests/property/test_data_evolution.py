"""Random histories of tables with data evolution against a model: rows by their ids, as each statement leaves them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.core.columns import FILE_PATH, ROW_INDEX, ROW_KIND, VECTOR
from paimon_spark.core.metadata.row_ranges import row_ranges
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import execute_compaction, plan_compaction
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.reassign_row_id import execute_reassign, plan_reassign
from paimon_spark.engine.row_level import RowChanges, change_arrow, with_all_rows
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import plan_select
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.spec.evolution import AddColumn, apply_changes
from paimon_spark.spec.kinds import ROW_ID, Operation, RowKind
from paimon_spark.spec.types import DataField, parse_atomic
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.tables import new_table

OPTIONS = {
    "row-tracking.enabled": "true",
    "data-evolution.enabled": "true",
    "deletion-vectors.enabled": "true",
    "compaction.min.file-num": "2",
    "source.split.open-file-cost": "1 b",
}
COLUMNS = {"k": "INT", "v": "STRING", "n": "INT", "b": "BLOB", "p": "INT"}
PLACE = (FILE_PATH, ROW_INDEX, VECTOR)
Row = dict[str, Any]


@dataclass
class History:
    """A table and its model: the rows by id."""

    table: Table
    model: dict[int, Row] = field(default_factory=dict)
    next_id: int = 0

    def read(self, places: tuple[str, ...] = (ROW_ID,)) -> list[Row]:
        plan = plan_select(with_all_rows(self.table))
        batches = (b for s in plan.splits for b in read_split(plan.table, s, plan.columns, metadata_columns=places))
        return [row for b in batches for row in b.to_pylist()]

    def insert(self, rows: list[Row]) -> None:
        write_arrow(self.table, pa.Table.from_pylist(rows, schema=to_arrow_schema(self.table.schema.fields)))
        self.number(rows)

    def number(self, new: list[Row]) -> None:
        """Add new rows to the model with the ids that they got: the next ones, in any order."""
        ids = {r["k"]: r[ROW_ID] for r in self.read()}
        self.model |= {ids[r["k"]]: r for r in new}
        assert {ids[r["k"]] for r in new} == set(range(self.next_id, self.next_id + len(new)))
        self.next_id += len(new)

    def merge(self, change: Callable[[Row], Row | None], columns: tuple[str, ...], new: list[Row]) -> None:
        """Change rows by their keys, delete those for which `change` returns None, and add new ones."""
        changes = [r | dict.fromkeys(PLACE) | {ROW_KIND: RowKind.INSERT} for r in new]
        for row in sorted(self.read((ROW_ID, *PLACE)), key=lambda r: (r[FILE_PATH], r[ROW_INDEX])):
            after = change({n: row[n] for n in self.table.schema.field_names})
            if after is None:
                changes.append(row | {ROW_KIND: RowKind.DELETE})
                del self.model[row[ROW_ID]]
            elif after:
                changes.append(row | after | {ROW_KIND: RowKind.UPDATE_AFTER})
                self.model[row[ROW_ID]] |= after
        schema = to_arrow_schema(self.table.schema.fields)
        for name, kind in (
            (ROW_KIND, pa.int8()),
            (FILE_PATH, pa.string()),
            (ROW_INDEX, pa.int64()),
            (VECTOR, pa.int64()),
        ):
            schema = schema.append(pa.field(name, kind))
        rows = pa.Table.from_pylist(changes, schema=schema)
        change_arrow(self.table, rows, Operation.MERGE, row_changes=RowChanges(columns, deletes=True))
        self.number(new)

    def compact(self) -> None:
        before = {f.file_name for f in self.files()}
        execute_compaction(plan_compaction(self.table), LocalRunner())
        kept = {f.file_name for f in self.files()}
        assert {n for n in before if n.endswith(".blob")} <= kept
        assert plan_compaction(self.table).is_empty

    def renumber(self) -> None:
        """Compact, without the deleted rows: the others of their files get new ids."""
        ids = {r["k"]: r[ROW_ID] for r in self.read()}
        renumbering = self.table.with_options({"data-evolution.compaction.rewrite-row-ids": "true"})
        execute_compaction(plan_compaction(renumbering), LocalRunner())
        after = {r["k"]: r[ROW_ID] for r in self.read()}
        moved = {i for k, i in after.items() if i != ids[k]}
        latest = self.table.snapshots.latest()
        following = self.next_id if latest is None or latest.next_row_id is None else latest.next_row_id
        assert moved == set(range(self.next_id, following))
        assert sum(found.rows for p in self._buckets() for found in row_ranges(p)) == len(self.model)
        self.model = {after[r["k"]]: r for r in self.model.values()}
        self.next_id = following

    def _buckets(self) -> list[list[Any]]:
        entries = scan(self.table, self.table.snapshots.latest()).entries
        return [[e.file for e in entries if e.partition == p] for p in {e.partition for e in entries}]

    def reassign(self) -> None:
        """Close the gaps in the row ids of partitions; the order of rows stays."""
        ids = {r["k"]: r[ROW_ID] for r in self.read()}
        done = execute_reassign(plan_reassign(self.table))
        if done is None:
            return
        assert (done.next_before, done.next_after - done.next_before) == (self.next_id, done.rows)
        after = {r["k"]: r[ROW_ID] for r in self.read()}
        moved = {k: i for k, i in after.items() if i != ids[k]}
        assert all(self.next_id <= i < done.next_after for i in moved.values())
        for p in (0, 1):
            own = [r["k"] for r in self.model.values() if r["p"] == p]
            assert sorted(own, key=ids.__getitem__) == sorted(own, key=after.__getitem__)
        self.model = {after[r["k"]]: r for r in self.model.values()}
        self.next_id = done.next_after
        assert plan_reassign(self.table).actions == ()

    def add_column(self, name: str) -> None:
        schema = apply_changes(self.table.schema, [AddColumn((name,), parse_atomic("INT"))], 0, has_snapshots=True)
        assert self.table.schema_store.try_create(schema)
        self.table = self.table.with_schema(schema)

    def files(self) -> list[Any]:
        return [e.file for e in scan(self.table, self.table.snapshots.latest()).entries]

    def check(self) -> None:
        found = {r.pop(ROW_ID): r for r in self.read()}
        names = self.table.schema.field_names
        assert found == {i: {n: r.get(n) for n in names} for i, r in self.model.items()}
        assert violations(self.table) == []
        row_ranges(self.files())


def created(options: dict[str, str]) -> History:
    table = new_table({n: t for n, t in COLUMNS.items() if n != "b"}, partition=["p"], options=OPTIONS | options)
    fields = [DataField(i, n, parse_atomic(t)) for i, (n, t) in enumerate(COLUMNS.items())]
    schema = replace(table.schema, id=1, fields=tuple(fields), highest_field_id=len(fields))
    assert table.schema_store.try_create(schema)
    return History(table.with_schema(schema))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_histories_of_changed_columns(data: st.DataObject) -> None:
    history = created({"file.format": data.draw(st.sampled_from(["parquet", "orc", "avro"]))})
    numbers = st.one_of(st.none(), st.integers(0, 9))
    values = {
        "v": st.one_of(st.none(), st.text("ab", max_size=2)),
        "n": numbers,
        "b": st.one_of(st.none(), st.binary(max_size=3)),
    }
    key = 0

    def rows(n: int) -> list[Row]:
        nonlocal key
        out = []
        for _ in range(n):
            row = {"k": key, "p": data.draw(st.integers(0, 1))}
            out.append(row | {c: data.draw(values[c]) for c in values})
            key += 1
        return out

    for _ in range(8):
        step = data.draw(
            st.sampled_from(
                ["insert", "update", "update", "merge", "delete", "compact", "column", "reassign", "renumber"]
            )
        )
        if step == "insert" or not history.model:
            history.insert(rows(data.draw(st.integers(1, 4))))
        elif step == "column" and len(values) < 5:
            values[f"c{len(values)}"] = numbers
            history.add_column(f"c{len(values) - 1}")
        elif step == "compact":
            history.compact()
        elif step == "renumber":
            history.renumber()
        elif step == "reassign":
            history.reassign()
        elif step in ("update", "merge", "delete"):
            names = sorted(data.draw(st.sets(st.sampled_from(sorted(values)), min_size=step != "delete", max_size=3)))
            touched = data.draw(st.sets(st.sampled_from(sorted(r["k"] for r in history.model.values()))))
            gone = touched if step == "delete" else set()
            if step == "merge":
                gone = set(data.draw(st.sets(st.sampled_from(sorted(touched))))) if touched else set()

            def change(
                row: Row, gone: set[int] = gone, names: list[str] = names, touched: set[int] = touched
            ) -> Row | None:
                if row["k"] in gone:
                    return None
                return {n: data.draw(values[n]) for n in names} if row["k"] in touched and names else {}

            history.merge(change, tuple(names), rows(2) if step == "merge" else [])
        history.check()
