"""Deletion vectors of tables with a primary key: compaction marks the rows that it replaces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from paimon_spark import connect
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.scan.splits import plan_splits
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.redistribution.postpone_compact import execute_postponed, plan_postponed
from paimon_spark.engine.redistribution.rescale import execute_rescale, plan_rescale
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import plan_select
from paimon_spark.errors import ConflictError
from paimon_spark.spec.options import CoreOptions
from paimon_spark.testing.tables import new_table, read_arrow
from tests.unit.engine.changelogs import changes, compact, deleted_positions, keyed, put

MANY = 20_000
VECTORS = {"deletion_vectors__enabled": "true"}


def rows_of(table: Table) -> dict[int, str]:
    found = read_arrow(table).to_pylist()
    out = {r["k"]: r["v"] for r in found}
    assert len(out) == len(found)
    return out


def levels(table: Table) -> dict[int, int]:
    out: dict[int, int] = {}
    for e in scan(table, table.snapshots.latest()).entries:
        out[e.file.level] = out.get(e.file.level, 0) + e.file.row_count
    return out


def index_files(table: Table) -> list[tuple[int, int]]:
    """Return the numbers of vectors and of bytes of each index file."""
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    files = [e.file for e in ManifestStore(table).read_index(snapshot.index_manifest)]
    return [(f.row_count, f.file_size) for f in files]


def large(**options: str) -> Table:
    table = keyed(**VECTORS, **options)
    put(table, *((k, f"{k}") for k in range(MANY)))
    assert levels(table) == {5: MANY}
    return table


@pytest.mark.parametrize("fmt", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("wide", ["false", "true"])
def test_replaced_rows_are_marked(fmt: str, wide: str) -> None:
    table = large(file__format=fmt, deletion_vectors__bitmap64=wide)
    put(table, (7, "seven"), (MANY, "new"))
    assert sum(deleted_positions(table).values()) == 1
    put(table, ("-D", 8, "?"), (7, "sieben"))
    assert rows_of(table) == {k: f"{k}" for k in range(MANY) if k != 8} | {7: "sieben", MANY: "new"}
    assert levels(table)[5] == MANY
    assert 0 not in levels(table)
    splits = plan_splits(table, scan(table, table.snapshots.latest()))
    assert splits
    assert all(s.raw for s in splits)


def test_no_tombstone_is_stored() -> None:
    table = large()
    put(table, ("-D", 8, "?"), ("-D", MANY, "?"))
    assert levels(table) == {5: MANY}
    assert sum(deleted_positions(table).values()) == 1


def test_level_0_is_invisible_unless_merged_on_read() -> None:
    table = keyed(**VECTORS, write_only="true")
    put(table, (1, "a"), (2, "b"))
    assert rows_of(table) == {}
    compact(table, Strategy.MINOR)
    put(table, (2, "B"))
    assert rows_of(table) == {1: "a", 2: "b"}
    merging = table.with_options({"deletion-vectors.merge-on-read": "true"})
    assert rows_of(merging) == {1: "a", 2: "B"}


def test_a_full_compaction_drops_vectors() -> None:
    table = large()
    put(table, ("-D", 3, "?"))
    compact(table)
    assert deleted_positions(table) == {}
    assert levels(table) == {5: MANY - 1}
    assert index_files(table) == [(0, 1)]
    put(table, (4, "four"))
    assert [vectors for vectors, _ in index_files(table)] == [1]


def test_counts_come_from_metadata() -> None:
    table = large()
    put(table, ("-D", 3, "?"), (4, "four"))
    assert plan_select(table).row_count == MANY - 1


@pytest.mark.parametrize("producer", ["lookup", "input"])
def test_with_a_changelog(producer: str) -> None:
    table = large(changelog_producer=producer)
    put(table, (7, "seven"), ("-D", 8, "?"))
    found = changes(table)[-1]
    if producer == "lookup":
        assert found == [("-U", 7, "7"), ("+U", 7, "seven"), ("-D", 8, "8")]
    else:
        assert found == [("+I", 7, "seven"), ("-D", 8, "?")]
    assert len(rows_of(table)) == MANY - 1


def test_aggregates_continue_from_upper_levels() -> None:
    options = {"merge_engine": "aggregation", "fields__v__aggregate_function": "listagg"}
    table = large(**options)
    put(table, (7, "a"))
    put(table, (7, "b"), (9, "c"))
    found = rows_of(table)
    assert (found[7], found[8], found[9]) == ("7,a,b", "8", "9,c")


def test_the_sequence_field_decides() -> None:
    table = keyed({"k": "INT", "v": "STRING", "ts": "INT"}, sequence__field="ts", **VECTORS)
    put(table, *((k, f"{k}", 10) for k in range(MANY)))
    put(table, (1, "older", 5), (2, "newer", 15))
    found = rows_of(table)
    assert (found[1], found[2], len(found)) == ("1", "newer", MANY)


def test_marks_of_two_compactions_conflict() -> None:
    table = large()
    writer = table.with_options({"write-only": "true"})
    put(writer, (1, "a"))
    first = plan_compaction(table, strategy=Strategy.MINOR)
    put(writer, (2, "b"))
    second = plan_compaction(table, strategy=Strategy.MINOR)
    execute_compaction(second, LocalRunner())
    with pytest.raises(ConflictError):
        execute_compaction(first, LocalRunner())
    assert rows_of(table)[1] == "a"


def test_an_overwrite_drops_vectors() -> None:
    table = large()
    put(table, (1, "a"))
    put(table, (1, "b"), overwrite="static")
    assert deleted_positions(table) == {}
    assert rows_of(table) == {1: "b"}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_random_histories(seed: int, producer: str) -> None:
    random = Random(seed)
    table = keyed(**VECTORS, changelog_producer=producer, num_sorted_run__compaction_trigger=random.choice("357"))
    expected: dict[int, str] = {}
    state: dict[int, str] = {}
    for step in range(25):
        size = random.choice([1, 5, 400])
        keys = random.sample(range(600), size)
        rows = [("-D", k, "?") if random.random() < 0.3 else ("+U", k, f"{step}") for k in keys]
        for kind, k, v in rows:
            if kind == "-D":
                expected.pop(k, None)
            else:
                expected[k] = v
        put(table, *rows)
        if random.random() < 0.1:
            compact(table)
        assert rows_of(table) == expected
    for batch in changes(table):
        for kind, k, v in batch:
            if kind in ("-U", "-D"):
                assert state.pop(k) == v
            else:
                assert k not in state
                state[k] = v
    assert producer == "none" or state == expected


def test_postponed_rows_are_merged_with_rows_that_are_left() -> None:
    options = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false", "deletion-vectors.enabled": "true"}
    table = new_table({"k": "INT", "v": "STRING"}, primary_key=["k"], options=options)
    put(table, *((k, f"{k}") for k in range(MANY)))
    distribute(table)
    put(table, ("-D", 1, "?"))
    distribute(table)
    assert sum(deleted_positions(table).values()) == 1
    put(table, (2, "two"))
    found = rows_of(table.with_options({"postpone.merge-on-read": "true"}))
    assert (found.get(1), found[2], len(found)) == (None, "two", MANY - 1)


@pytest.mark.parametrize("upgrade", ["true", "false"])
def test_rescaled_rows_stay_visible(upgrade: str) -> None:
    table = keyed(**VECTORS, overwrite_upgrade=upgrade, changelog_producer="lookup")
    put(table, (1, "a"), (2, "b"))
    before = changes(table)
    execute_rescale(plan_rescale(table, 2), None)
    rescaled = replace(table, options=CoreOptions({**table.options.values, "bucket": "2"}))
    assert rows_of(rescaled) == {1: "a", 2: "b"}
    assert changes(table) == before


def test_a_delete_finds_rows_that_queries_do_not_see_yet(tmp_path: Path) -> None:
    catalog = connect(str(tmp_path))
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "write-only": "true"}
    schema = pa.schema([("k", pa.int32()), ("v", pa.string())])
    table = catalog.create_table("t", schema, primary_key=["k"], options=options)
    table.append(pa.table({"k": pa.array([1, 2], pa.int32()), "v": ["a", "b"]}))
    assert table.delete("k = 1").rows == 1
    table.compact()
    assert table.to_arrow().to_pylist() == [{"k": 2, "v": "b"}]


def distribute(table: Table) -> None:
    execute_postponed(plan_postponed(table, strategy=Strategy.MINOR), None, LocalRunner())
