"""Damaged index files, changelog files and schemas of keyed tables: a coded error that names the file, nothing changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from paimon_spark.api.table import TableHandle
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.scan.scan import scan
from paimon_spark.engine.select import plan_select, read_batches
from paimon_spark.errors import PaimonError
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.testing.scenarios import Kind, create, open_warehouse, read_rows, rows_of

FIRST = [(k, "ab"[k % 2], k) for k in range(40)]
Use = Callable[[TableHandle], object]
Damage = Callable[[bytes], bytes]


def changelog(table: TableHandle) -> object:
    between = f"0,{table.snapshots()[-1].id}"
    loaded = table.load().with_options({"incremental-between": between, "incremental-between-scan-mode": "changelog"})
    return list(read_batches(plan_select(loaded)))


USES: Mapping[str, Use] = {
    "read": lambda t: t.to_arrow(),
    "delete": lambda t: t.delete("v >= 0"),
    "compact": lambda t: t.compact(),
    "insert": lambda t: t.append(rows_of(FIRST[:5])),
    "changelog": changelog,
}


@dataclass(frozen=True)
class Case:
    """A kind of table, the file that is damaged, how, and the uses that must fail."""

    pattern: str
    damage: Damage | None
    uses: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)


def at(offset: int, new: bytes) -> Damage:
    return lambda data: data[:offset] + new + data[offset + len(new) :]


VECTORS = {"bucket": "1", "deletion-vectors.enabled": "true", "write-only": "false"}
WIDE = {**VECTORS, "deletion-vectors.bitmap64": "true"}
DYNAMIC = {"dynamic-bucket.target-row-num": "9"}
LOOKED_UP = {"bucket": "1", "changelog-producer": "lookup", "write-only": "false"}
ALL = ("read", "delete", "compact")
CASES: Mapping[str, Case] = {
    "a vector of an unknown version": Case("/index/", at(0, b"\x07"), ALL, VECTORS),
    "a vector with another length": Case("/index/", at(1, b"\x00\x00\x00\x01"), ALL, VECTORS),
    "a vector with another magic number": Case("/index/", at(5, b"\x00\x00\x00\x00"), ALL, VECTORS),
    "a vector with other bits": Case("/index/", at(-6, b"\xff"), ALL, VECTORS),
    "a vector with another checksum": Case("/index/", at(-1, b"\x55"), ALL, VECTORS),
    "a vector file that ends early": Case("/index/", lambda data: data[: len(data) // 2], ALL, VECTORS),
    "a vector file without bytes": Case("/index/", lambda _: b"", ALL, VECTORS),
    "a vector file that is missing": Case("/index/", None, ALL, VECTORS),
    "a wide vector with another magic number": Case("/index/", at(5, b"\x00\x00\x00\x00"), ALL, WIDE),
    "a wide vector that ends early": Case("/index/", lambda data: data[:-9], ALL, WIDE),
    "a hash index that ends early": Case("/index/", lambda data: data[:-1], ("insert",), DYNAMIC),
    "a hash index that is missing": Case("/index/", None, ("insert",), DYNAMIC),
    "a changelog file that is missing": Case("/changelog-", None, ("changelog",), LOOKED_UP),
    "a changelog file of garbage": Case("/changelog-", lambda _: b"garbage" * 9, ("changelog",), LOOKED_UP),
    "a changelog file that ends early": Case("/changelog-", lambda data: data[:-40], ("changelog",), LOOKED_UP),
}


def made(options: Mapping[str, str]) -> tuple[InMemoryFileIO, TableHandle]:
    store = InMemoryFileIO()
    table = create(open_warehouse(store), Kind(("k",)), options)
    table.append(rows_of(FIRST))
    table.append(rows_of([(k, "c", k + 100) for k in range(0, 40, 4)]))
    table.delete("v IN (3, 5, 7)")
    return store, table


def files(store: InMemoryFileIO, table: TableHandle) -> dict[str, bytes]:
    return {f.path: store.read(f.path) for f in store.list_recursive(table.location)}


def current(table: TableHandle, pattern: str) -> str:
    """Return an index file of the newest snapshot, or a changelog file."""
    loaded = table.load()
    if pattern == "/index/":
        entries = scan(loaded, loaded.snapshots.latest()).index_entries
        return next(loaded.paths.index_file(e.partition, e.bucket, e.file) for e in entries)
    return next(f.path for f in loaded.file_io.list_recursive(loaded.path) if pattern in f.path)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_damage_is_told_and_nothing_changes(case: Case) -> None:
    store, table = made(case.options)
    before = read_rows(table)
    path = current(table, case.pattern)
    sound = store.read(path)
    store.delete(path)
    if case.damage is not None:
        damaged = case.damage(sound)
        assert damaged != sound
        store.write(path, damaged)
    there = files(store, table)
    for use in case.uses:
        clear_cache()
        with pytest.raises(PaimonError) as e:
            USES[use](table)
        assert path.rpartition("/")[2] in str(e.value), (use, e.value)
        assert e.value.hint
        assert files(store, table) == there, use
    store.write(path, sound)
    clear_cache()
    assert read_rows(table) == before


AGGREGATION = {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}


def changed(text: bytes, change: Callable[[dict[str, object]], object]) -> bytes:
    schema = json.loads(text)
    change(schema)
    return json.dumps(schema).encode()


SCHEMAS: Mapping[str, tuple[Callable[[dict], object], str]] = {
    "an unknown aggregate function": (lambda s: s["options"].update({"fields.v.aggregate-function": "mode"}), "mode"),
    "an unknown merge engine": (lambda s: s["options"].update({"merge-engine": "last-row"}), "merge-engine"),
    "an unknown changelog producer": (
        lambda s: s["options"].update({"changelog-producer": "yes"}),
        "changelog-producer",
    ),
    "an unknown type": (lambda s: s["fields"][2].update(type="UINT"), "UINT"),
    "a field without an id": (lambda s: s["fields"][2].pop("id"), "schema-0"),
    "a key that is no column": (lambda s: s.update(primaryKeys=["x"]), "x"),
    "a function that does not take the column": (
        lambda s: s["options"].update({"fields.p.aggregate-function": "sum"}),
        "'p'",
    ),
}


@pytest.mark.parametrize(("change", "named"), SCHEMAS.values(), ids=SCHEMAS)
def test_schemas_of_another_program_are_refused_by_name(
    change: Callable[[dict[str, object]], object], named: str
) -> None:
    store = InMemoryFileIO()
    table = create(open_warehouse(store), Kind(("k",)), AGGREGATION)
    table.append(rows_of(FIRST))
    table.append(rows_of(FIRST))
    before = read_rows(table)
    path = f"{table.location}/schema/schema-0"
    sound = store.read(path)
    store.write(path, changed(sound, change))
    for use in ("read", "insert", "compact"):
        clear_cache()
        with pytest.raises(PaimonError) as e:
            USES[use](table)
        assert named in str(e.value)
        assert e.value.hint, str(e.value)
    store.write(path, sound)
    clear_cache()
    assert read_rows(table) == before


def test_a_schema_that_files_were_written_with_is_gone() -> None:
    store, table = made(VECTORS)
    before = read_rows(table)
    path = f"{table.location}/schema/schema-0"
    sound = store.read(path)
    store.write(f"{table.location}/schema/schema-1", changed(sound, lambda s: s.update(id=1)))
    store.delete(path)
    for use in ALL:
        clear_cache()
        with pytest.raises(PaimonError, match="schema-0") as e:
            USES[use](table)
        assert e.value.hint
    store.write(path, sound)
    clear_cache()
    assert read_rows(table) == before
