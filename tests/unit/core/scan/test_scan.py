from __future__ import annotations

import dataclasses
import time

import pyarrow as pa
import pytest

from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.scan.pruning import matching_partitions
from paimon_spark.core.scan.result import ScanResult
from paimon_spark.core.scan.scan import scan, scan_buckets
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.select import plan_select
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.predicate import And, Comparison, InList, IsNull, Not, Predicate, and_, is_partition, or_
from paimon_spark.spec.rows import bucket_of, encode_row, murmur, row_body
from paimon_spark.spec.types import DataField
from paimon_spark.testing.tables import new_table
from tests.unit.core import samples


def commit(table: Table, *files: DataFileMeta, p: str | None = None, bucket: int = 0, total: int = -1) -> None:
    m = samples.message(*files, partition_value=p, bucket=bucket, total_buckets=total)
    FileStoreCommit(table).commit([m])


def kept(table: Table, predicate: Predicate) -> set[str]:
    return {e.file.file_name for e in run(table, predicate).entries}


def visible(table: Table, predicate: Predicate) -> set[str]:
    latest = table.snapshots.latest()
    found = scan_buckets(table, latest, statistics=True, predicate=predicate, visible_only=True)
    return {f.file_name for b in found.buckets() for f in b.files}


def run(table: Table, predicate: Predicate) -> ScanResult:
    return scan(table, table.snapshots.latest(), predicate=predicate)


def equals(column: str, value: object) -> Predicate:
    return Comparison("=", column, value)


def test_no_snapshot_reads_nothing() -> None:
    assert scan(samples.table(), None) == ScanResult(None)


def test_partition_predicate_skips_manifests_and_is_exact() -> None:
    table = samples.table(partitions=["p"])
    files = {p: samples.file(rows=3) for p in "abc"}
    for p, f in files.items():
        commit(table, f, p=p)
    result = scan(table, table.snapshots.latest(), partition_predicate=InList("p", ("a", "c")))
    assert {e.file.file_name for e in result.entries} == {files["a"].file_name, files["c"].file_name}
    assert (result.counts.manifests, result.counts.manifests_read) == (3, 2)
    assert (result.counts.files, result.counts.rows, result.counts.partitions) == (2, 6, 2)
    assert kept(table, And((equals("p", "b"), equals("v", 0)))) == {files["b"].file_name}
    assert kept(table, IsNull("p")) == set()


@pytest.mark.parametrize("stored", ["a", "a   "])
@pytest.mark.parametrize("asked", ["a", "a ", "a      "])
def test_blanks_at_the_end_of_a_char_partition_do_not_count(stored: str, asked: str) -> None:
    table = new_table({"k": "INT", "p": "CHAR(4)"}, partition=["p"])
    for p in (stored, "b"):
        write_arrow(table, pa.table({"k": pa.array([1], pa.int32()), "p": [p]}))
    snapshot = table.snapshots.latest()
    for wanted, count in (
        (equals("p", asked), 1),
        (InList("p", (asked, None)), 1),
        (Comparison("<=", "p", asked), 1),
        (Comparison("<", "p", asked), 0),
        (Comparison(">", "p", asked), 1),
        (Not(Comparison("<=>", "p", asked)), 1),
    ):
        assert len(scan(table, snapshot, partition_predicate=wanted).entries) == count, wanted
        assert plan_select(table, predicate=wanted).row_count == count, wanted


def test_a_snapshot_says_the_same_when_it_is_scanned_again() -> None:
    table = samples.table()
    first, second = samples.file(rows=3), samples.file(rows=4)
    commit(table, first)
    one = table.snapshots.latest()
    commit(table, second)
    message = dataclasses.replace(samples.message(), deleted_files=(first,))
    FileStoreCommit(table).commit([message])
    for _ in range(2):
        assert {e.file for e in scan(table, one).entries} == {first}
        assert {e.file for e in scan(table, table.snapshots.latest()).entries} == {second}
    warm = scan(table, table.snapshots.latest())
    clear_cache()
    assert scan(table, table.snapshots.latest()) == warm
    assert (warm.counts.files_seen, warm.counts.rows) == (1, 4)


def test_fixed_buckets_are_pruned_by_the_count_of_the_entry() -> None:
    table = samples.table({"bucket": "4"}, keys=["p", "k"], partitions=["p"])
    key_hash = murmur(row_body(encode_row([7], [samples.INT])))
    wide = [samples.file(0, 99) for _ in range(4)]
    for bucket, f in enumerate(wide):
        commit(table, f, p="a", bucket=bucket, total=4)
    other = [samples.file(0, 99) for _ in range(3)]
    for bucket, f in enumerate(other):
        commit(table, f, p="b", bucket=bucket, total=3)
    expected = {wide[bucket_of(key_hash, 4)].file_name, other[bucket_of(key_hash, 3)].file_name}
    assert kept(table, equals("k", 7)) == expected
    assert len(kept(table, Comparison(">", "k", 7))) == 7
    assert len(kept(table, equals("v", 0))) == 7


def test_explicit_buckets_and_levels() -> None:
    table = samples.table({"bucket": "4"}, keys=["k"])
    for bucket in range(4):
        commit(table, samples.file(0, 9, level=bucket), bucket=bucket, total=4)
    snapshot = table.snapshots.latest()
    assert {e.bucket for e in scan(table, snapshot, buckets={1, 2}).entries} == {1, 2}
    assert {e.bucket for e in scan(table, snapshot, levels={0}).entries} == {0}
    assert scan(table, snapshot, buckets={1}).counts.manifests_read == 1


def test_append_files_are_pruned_one_by_one() -> None:
    table = samples.table()
    one, two = samples.file(v=1), samples.file(v=2)
    commit(table, one, two)
    assert kept(table, equals("v", 1)) == {one.file_name}
    assert kept(table, Comparison("<=", "v", 2)) == {one.file_name, two.file_name}
    assert kept(table, IsNull("v")) == set()


def test_key_statistics_prune_any_file_of_a_primary_key_table() -> None:
    table = samples.table({"bucket": "1"}, keys=["k"])
    low, high, top = samples.file(1, 5), samples.file(4, 9), samples.file(20, 30, level=5)
    commit(table, low, high, top, total=1)
    assert kept(table, equals("k", 4)) == {low.file_name, high.file_name}
    assert kept(table, Comparison(">", "k", 10)) == {top.file_name}


class TestValuesOfPrimaryKeyTables:
    """A newer file that does not match must stay, or the older version of its keys would come back."""

    def test_whole_bucket_or_nothing(self) -> None:
        table = samples.table({"bucket": "1"}, keys=["k"])
        old, new = samples.file(1, 1, v=5), samples.file(1, 1, v=9)
        commit(table, old, new, total=1)
        assert kept(table, equals("v", 5)) == {old.file_name, new.file_name}
        assert kept(table, equals("v", 7)) == set()

    def test_buckets_are_judged_alone(self) -> None:
        table = samples.table({"bucket": "2"}, keys=["k"])
        commit(table, samples.file(1, 1, v=5), samples.file(1, 1, v=6), bucket=0, total=2)
        commit(table, samples.file(1, 1, v=8), samples.file(1, 1, v=9), bucket=1, total=2)
        assert {e.bucket for e in run(table, equals("v", 8)).entries} == {1}

    def test_one_file_or_one_level_is_pruned_file_by_file(self) -> None:
        table = samples.table({"bucket": "2"}, keys=["k"])
        commit(table, samples.file(1, 1, v=5), bucket=0, total=2)
        one, two = samples.file(1, 1, v=5, level=5), samples.file(2, 2, v=9, level=5)
        commit(table, one, two, bucket=1, total=2)
        assert kept(table, equals("v", 9)) == {two.file_name}

    @pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
    def test_engines_that_assemble_rows_keep_everything(self, engine: str) -> None:
        table = samples.table({"bucket": "1", "merge-engine": engine}, keys=["k"])
        commit(table, samples.file(1, 1, v=1), samples.file(1, 1, v=2), total=1)
        assert len(kept(table, equals("v", 7))) == 2

    @pytest.mark.parametrize("options", [{"merge-engine": "first-row"}, {"deletion-vectors.enabled": "true"}])
    def test_level_0_can_be_invisible(self, options: dict[str, str]) -> None:
        table = samples.table({"bucket": "1"} | options, keys=["k"])
        top, other = samples.file(1, 1, level=5, v=1), samples.file(1, 1, level=4, v=2)
        commit(table, samples.file(1, 1), top, other, total=1)
        assert len(kept(table, Comparison(">=", "v", 0))) == 3
        assert visible(table, Comparison(">=", "v", 0)) == {top.file_name, other.file_name}
        assert visible(table, equals("v", 1)) == {top.file_name}


def test_a_column_that_the_file_lacks_is_all_null() -> None:
    table = samples.table()
    old = samples.file()
    commit(table, old)
    wider = dataclasses.replace(
        table.schema, id=1, highest_field_id=3, fields=(*table.schema.fields, DataField(3, "c", samples.INT))
    )
    table.schema_store.try_create(wider)
    now = table.with_schema(wider)
    assert kept(now, IsNull("c")) == {old.file_name}
    assert kept(now, equals("c", 3)) == set()


def test_postponed_files_are_invisible() -> None:
    table = samples.table({"bucket": "-2"}, keys=["k"])
    commit(table, samples.file(1, 1), bucket=-2, total=-2)
    assert run(table, equals("k", 1)).entries == ()


def test_thousands_of_named_partitions_are_looked_up() -> None:
    table = new_table({"k": "INT", "n": "INT", "p": "STRING"}, partition=["n", "p"])
    rows = [(i, None if i % 7 == 0 else f"p{i}") for i in range(4000)]
    partitions = {encode_row(row, table.partition_types): row for row in rows}
    named = [and_(is_partition("n", n), is_partition("p", p)) for n, p in rows[:3000]]
    wanted = or_(*named, equals("n", 3999), and_(equals("n", 3500), equals("p", "p1")))
    start = time.process_time()
    found = matching_partitions(table, partitions, wanted)
    assert time.process_time() - start < 2
    assert {partitions[p] for p in found} == {*rows[:3000], rows[3999]}


def test_alternatives_over_floats_and_blanks_are_conditions() -> None:
    table = new_table({"k": "INT", "f": "DOUBLE", "c": "CHAR(3)"}, partition=["f", "c"])
    rows = [(0.0, "a"), (-0.0, "a  "), (float("nan"), "b"), (1.0, "c"), (1.0, None)]
    partitions = {encode_row(row, table.partition_types): str(row) for row in rows}

    def matching(*alternatives: tuple[float, str | None]) -> list[str]:
        wanted = or_(*(and_(is_partition("f", f), is_partition("c", c)) for f, c in alternatives))
        return sorted(partitions[p] for p in matching_partitions(table, partitions, wanted))

    assert matching((-0.0, "a"), (1.0, None)) == ["(-0.0, 'a  ')", "(1.0, None)"]
    assert matching((0.0, "a "), (float("nan"), "b "), (1.0, "c")) == ["(0.0, 'a')", "(1.0, 'c')", "(nan, 'b')"]
