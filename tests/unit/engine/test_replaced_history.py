"""What is left of a table that REPLACE TABLE has given another definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from paimon_spark.core.system.tables import system_table
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.expiry.orphans import execute_orphans, plan_orphans
from paimon_spark.engine.insert import plan_write
from paimon_spark.engine.replace import finish_replacement
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import ReadOptions, plan_select
from paimon_spark.spec.evolution import new_schema
from paimon_spark.spec.replacement import replacing_schema
from paimon_spark.spec.types import DataField, parse_atomic
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.tables import new_table
from tests.column_changes import update
from tests.small_tables import put, sorted_rows

COLUMNS = {"k": "INT", "v": "INT"}
KEYED = {"bucket": "1", "write-only": "true"}
SUMS = {**KEYED, "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
FAR = 4_102_444_800_000


def renewed(table: Table, options: Mapping[str, str] | None = None, key: Sequence[str] = ()) -> Table:
    """Return a table at the schema that replaces its newest one; nothing is published."""
    fields = [DataField(0, name, parse_atomic(text)) for name, text in COLUMNS.items()]
    newest = table.schema_store.latest()
    assert newest is not None
    schema = replacing_schema(newest, new_schema(fields, primary_keys=key, options=options or {}))
    return Table.of(table.identifier, table.path, schema, table.file_io)


def replaced(table: Table, options: Mapping[str, str] | None = None, key: Sequence[str] = ()) -> Table:
    """Replace a table by an empty one with the same columns, by default an append table without options."""
    now = renewed(table, options, key)
    finish_replacement(plan_write(now, overwrite="static"), [])
    return now


def keyed(options: Mapping[str, str], *commits: Sequence[tuple[int, int]]) -> Table:
    table = new_table(COLUMNS, primary_key=["k"], options=options)
    for rows in commits:
        put(table, *rows)
    return table


def summed() -> Table:
    return keyed(SUMS, [(1, 10)], [(1, 5)])


def with_vectors() -> Table:
    options = {**KEYED, "deletion-vectors.enabled": "true"}
    table = keyed(options, [(1, 0), (2, 0)])
    compact(table)
    put(table, (1, 7))
    return table


def with_column_files() -> Table:
    table = new_table(COLUMNS, options={"row-tracking.enabled": "true", "data-evolution.enabled": "true"})
    put(table, (1, 1), (2, 2))
    update(table, lambda row: row["k"] == 1, v=100)
    return table


def descending() -> Table:
    return keyed({**KEYED, "sequence.field": "v", "sequence.field.sort-order": "descending"}, [(1, 1)], [(1, 2)])


def aggregated_by_default() -> Table:
    options = {**KEYED, "merge-engine": "aggregation", "fields.default-aggregate-function": "max"}
    return keyed(options, [(1, 10)], [(1, 5)])


def compact(table: Table) -> None:
    own = table.with_options({"write-only": "false"})
    execute_compaction(plan_compaction(own, strategy=Strategy.FULL), LocalRunner())


@pytest.mark.parametrize("create", [summed, with_vectors, with_column_files, descending, aggregated_by_default])
@pytest.mark.parametrize("key", [(), ("k",)], ids=["append", "keyed"])
def test_snapshots_of_before_keep_their_rows(create: Callable[[], Table], key: Sequence[str]) -> None:
    before = create()
    rows, version = sorted_rows(before), before.snapshots.latest_id()
    now = replaced(before, KEYED if key else {}, key)
    assert sorted_rows(now) == []
    assert sorted_rows(now, version=version) == rows
    assert sorted_rows(now.with_options({"scan.snapshot-id": str(version)})) == rows


def test_the_highest_level_of_before_is_found() -> None:
    before = keyed({**KEYED, "num-sorted-run.compaction-trigger": "9"}, [(1, 1)])
    compact(before)
    now = replaced(before, KEYED, ["k"])
    plan = plan_select(now, version=2, how=ReadOptions(top_level_only=True))
    assert [f.row_count for s in plan.splits for f in s.files] == [1]


def test_options_of_a_query_apply_to_snapshots_of_before() -> None:
    now = replaced(with_vectors())
    asked = now.with_options({"deletion-vectors.merge-on-read": "true"})
    assert sorted_rows(asked, version=3) == [(1, 7), (2, 0)]


def test_files_of_before_are_found_and_deleted() -> None:
    places = {"data-file.path-directory": "data"}
    before = new_table(COLUMNS, options=places)
    put(before, (1, 1))
    now = replaced(before, places)
    put(now, (2, 2))
    assert system_table(now.with_options({"scan.snapshot-id": "1"}), "files").num_rows == 1
    assert sorted_rows(now, version=1) == [(1, 1)]
    execute_expire(now, plan_expire(now, ExpireConfig(retain_max=1, retain_min=1), FAR))
    assert violations(now) == []
    execute_orphans(plan_orphans([now], LocalRunner(), clock_millis=FAR))
    left = [s.path for s in now.file_io.list_recursive(now.path) if "/bucket-0/" in s.path]
    assert len(left) == 1
    assert sorted_rows(now) == [(2, 2)]
