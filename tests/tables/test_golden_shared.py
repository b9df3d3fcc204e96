"""Reference tables kept outside the source tree, with what Paimon 0.9.0 and 2.0.0 read of them through Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.catalog.base import Catalog
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.core.table import Table
from paimon_spark.engine.select import ReadOptions, plan_select, read_batches
from paimon_spark.errors import CorruptTableError, ErrorKind
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.types import AtomicType, TypeRoot
from paimon_spark.testing.tables import read_arrow
from tests.reference_data import SHARED
from tests.tables.plain import DATABASE, keys, rows_of, unpacked

TABLES = sorted(str(d.relative_to(SHARED / "golden")) for d in (SHARED / "golden").glob("v*/*/") if d.is_dir())
KINDS = ["+I", "-U", "+U", "-D"]

NULL_STRUCTS = {"v0.9.0/all_types_append", "v0.9.0/all_types_parquet"}
"""Where Paimon 0.9.0 takes a struct of nulls for a null; the file, like Paimon 2.0.0, says it is a struct."""
COMPARED = [
    t
    for t in TABLES
    if Path(t).name.startswith(("pk_dedup", "pk_dv", "pk_delete", "pk_dynamic", "pk_changelog", "pk_exp"))
]
"""Tables in which the newest version of a key is its row."""
ENCODED = {"var_type"}
"""VARIANT values are Arrow structs of two binaries here; Spark is what shows them as JSON."""


@dataclass(frozen=True)
class Golden:
    """One unpacked reference table."""

    place: str
    catalog: Catalog
    expected: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.expected["table"])

    def table(self, branch: str | None = None) -> Table:
        return self.catalog.load_table(Identifier(DATABASE, self.name, branch=branch))

    def rows(self, table: Table, **travel: Any) -> list[str]:
        return keys(_padded(table, rows_of(read_arrow(table, **travel))))

    def wanted(self, rows: list[list[Any]]) -> list[str]:
        return keys([_with_struct(r) for r in rows] if self.place in NULL_STRUCTS else rows)


def _padded(table: Table, rows: list[list[Any]]) -> list[list[Any]]:
    """Fill CHAR columns up with spaces, as Spark does after reading."""
    types = [f.type for f in table.schema.fields]
    sizes = [t.length if isinstance(t, AtomicType) and t.root is TypeRoot.CHAR else None for t in types]
    return [[v if n is None or v is None else v.ljust(n) for v, n in zip(r, sizes, strict=True)] for r in rows]


def _with_struct(row: list[Any]) -> list[Any]:
    return [*row[:-2], {"a": None, "b": None}, row[-1]] if row[0] == 2 else row


@pytest.fixture
def golden(request: pytest.FixtureRequest, tmp_path: Path, shared_dir: Path) -> Golden:
    directory = shared_dir / "golden" / request.param
    expected = json.loads((directory / "expected.json").read_text(encoding="utf-8"))
    catalog = unpacked(next(directory.glob("*.tar.gz")), tmp_path / "warehouse")
    return Golden(request.param, catalog, expected)


every_readable = pytest.mark.parametrize("golden", TABLES or ["none"], indirect=True)


@every_readable
def test_latest_rows(golden: Golden) -> None:
    table, expected = golden.table(), golden.expected
    got = read_arrow(table)
    known = plan_select(table).row_count
    assert known is None or known == got.num_rows
    if "rows" not in expected:
        ids, ns = got.column("id").to_pylist(), got.column("n").to_pylist()
        assert [[len(ids), sum(ids), *(ns.count(n) for n in range(4))]] == expected["summary"]
        return
    assert got.schema.names == [c[0] for c in expected["columns"]]
    if golden.name in ENCODED:
        assert got.num_rows == len(expected["rows"])
        return
    assert golden.rows(table) == golden.wanted(expected["rows"])


@every_readable
def test_rows_of_every_snapshot(golden: Golden) -> None:
    table = golden.table()
    for snapshot, want in (golden.expected.get("rows_by_snapshot") or {}).items():
        if isinstance(want, dict) or golden.name in ENCODED:
            continue
        decode_errors = plan_select(table, version=snapshot).table
        got = keys(_padded(decode_errors, rows_of(read_arrow(table, version=snapshot))))
        assert got == golden.wanted(want), snapshot
        assert plan_select(table.with_options({"scan.snapshot-id": snapshot})).snapshot_id == int(snapshot)


@pytest.mark.parametrize("golden", TABLES or ["none"], indirect=True)
def test_live_files_of_every_snapshot(golden: Golden) -> None:
    table = golden.table()
    store = ManifestStore(table)
    for snapshot in golden.expected.get("snapshots") or ():
        if not table.snapshots.exists(snapshot["id"]):
            continue
        live = live_in_partitions(store, table.snapshots.get(snapshot["id"]), None)
        assert sum(e.file.row_count for e in live) == snapshot["total"]
        for e in live:
            assert table.file_io.status(table.paths.data_file(e.partition, e.bucket, e.file)).size == e.file.file_size
    if "files" in golden.expected:
        assert keys(_file_rows(table, store, golden.place)) == keys(golden.expected["files"])


def _file_rows(table: Table, store: ManifestStore, place: str) -> Iterator[list[Any]]:
    opening, closing = "[]" if place.startswith("v0") else "{}"
    for e in live_in_partitions(store, table.snapshots.latest(), None):
        partition = opening + ", ".join(map(str, table.partition_values(e.partition))) + closing
        f = e.file
        suffix = f.file_name.rsplit(".", 1)[-1]
        sequences = (f.min_sequence_number, f.max_sequence_number)
        yield [partition, e.bucket, f.level, f.row_count, suffix, f.schema_id, *sequences]


@every_readable
def test_tags_branches_and_rows_of_every_kind(golden: Golden) -> None:
    table, expected = golden.table(), golden.expected
    for tag in (t[0] for t in expected.get("tags") or ()):
        assert plan_select(table, version=tag).snapshot_id is not None
        if tag in expected:
            assert golden.rows(table, version=tag) == keys(expected[tag])
    for branch in (b[0] for b in expected.get("branches") or ()):
        assert golden.rows(golden.table(branch)) == keys(expected.get(f"branch_{branch}", []))
    if expected.get("audit_log"):
        plan = plan_select(table, how=ReadOptions(keep_kinds=True))
        rows = rows_of(pa.Table.from_batches(read_batches(plan), schema=plan.schema))
        assert keys([KINDS[r[-1]], *r[:-1]] for r in rows) == keys(expected["audit_log"])


@every_readable
def test_changes_between_snapshots(golden: Golden) -> None:
    table = golden.table()
    for limits, want in (golden.expected.get("incremental_audit_log") or {}).items():
        plan = plan_select(table.with_options({"incremental-between": limits}), how=ReadOptions(keep_kinds=True))
        rows = rows_of(pa.Table.from_batches(read_batches(plan), schema=plan.schema))
        assert keys([KINDS[r[-1]], *r[:-1]] for r in rows) == keys(want), limits


@pytest.mark.parametrize("golden", COMPARED or ["none"], indirect=True)
def test_a_state_and_its_difference_are_the_next_state(golden: Golden) -> None:
    table = golden.table().with_options({"deletion-vectors.merge-on-read": "true"})
    names = table.schema.field_names
    places = [names.index(k) for k in table.schema.primary_keys]
    ids = [int(i) for i in golden.expected.get("rows_by_snapshot") or ()]
    for a, b in combinations([0, *ids], 2):
        options = {"incremental-between": f"{a},{b}", "incremental-between-scan-mode": "diff"}
        if a == 0 and table.snapshots.earliest_id() != 1:
            continue
        state = {} if a == 0 else {_key(r, places): r for r in rows_of(read_arrow(table, version=str(a)))}
        plan = plan_select(table.with_options(options), how=ReadOptions(keep_kinds=True))
        for row in rows_of(pa.Table.from_batches(read_batches(plan), schema=plan.schema)):
            if KINDS[row[-1]] in ("-U", "-D"):
                state.pop(_key(row, places), None)
            else:
                state[_key(row, places)] = row[:-1]
        assert keys(state.values()) == keys(rows_of(read_arrow(table, version=str(b)))), (a, b)


def _key(row: list[Any], places: list[int]) -> str:
    return json.dumps([row[i] for i in places], default=str)


@pytest.mark.parametrize("golden", [t for t in TABLES if t.endswith("_dv")] or ["none"], indirect=True)
def test_damaged_deletion_vectors_are_told(golden: Golden) -> None:
    before, table = golden.rows(golden.table()), golden.table()
    paths = {v.path for s in plan_select(table).splits for v in s.vectors if v is not None}
    assert paths
    for path in map(Path, paths):
        data = path.read_bytes()
        for damaged in (b"", data[:5], data[:-5], bytes(len(data)), data[::-1]):
            path.write_bytes(damaged)
            with pytest.raises(CorruptTableError, match=path.name) as failed:
                golden.rows(table)
            assert failed.value.hint
        path.unlink()
        with pytest.raises(CorruptTableError, match=path.name) as failed:
            golden.rows(table)
        assert failed.value.kind is ErrorKind.FILE_MISSING
        path.write_bytes(data)
    assert golden.rows(table) == before
