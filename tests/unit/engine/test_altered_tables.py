"""Tables whose options change while they have rows: queries and changelogs stay right."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.catalog.filesystem import FileSystemCatalog
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.table import Table
from paimon_spark.engine.rollback import plan_rollback
from paimon_spark.engine.select import ReadOptions, plan_select, read_batches
from paimon_spark.errors import OptionError, UsageError
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.evolution import RemoveOption, SetOption, new_schema
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.types import DataField, parse_atomic
from paimon_spark.testing.tables import read_arrow
from tests.unit.engine.changelogs import changes, compact, put

T = Identifier("db", "t")
TRIGGER = "num-sorted-run.compaction-trigger"
LOOKUP = SetOption("changelog-producer", "lookup")
SUM = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}


def catalog_of(options: dict[str, str]) -> FileSystemCatalog:
    """Return a catalog with a table `db.t` of an INT key k and an INT column v."""
    catalog = FileSystemCatalog("/wh", {}, InMemoryFileIO())
    catalog.create_database("db")
    fields = [DataField(i, name, parse_atomic("INT")) for i, name in enumerate("kv")]
    catalog.create_table(T, new_schema(fields, primary_keys=["k"], options={"bucket": "1"} | options))
    return catalog


def compacted_rows(table: Table) -> list[Any]:
    """Return the rows of `$ro`."""
    plan = plan_select(table, how=ReadOptions(top_level_only=True))
    return pa.Table.from_batches(read_batches(plan), schema=plan.schema).to_pylist()


def test_a_new_compaction_trigger_reports_no_row_again() -> None:
    catalog = catalog_of({"changelog-producer": "full-compaction", "full-compaction.delta-commits": "1"})
    put(catalog.load_table(T), (1, 1), (2, 2), (3, 3))
    table = catalog.alter_table(T, [SetOption(TRIGGER, "8")])
    assert len(compacted_rows(table)) == 3
    put(table, (1, 10))
    put(table.with_options({TRIGGER: "12"}), (1, 100))
    put(table, (1, 1000))
    assert changes(table)[1:] == [
        [("-U", 1, 1), ("+U", 1, 10)],
        [("-U", 1, 10), ("+U", 1, 100)],
        [("-U", 1, 100), ("+U", 1, 1000)],
    ]
    assert len(compacted_rows(table)) == 3


def test_the_levels_of_a_table_are_not_those_of_a_statement() -> None:
    table = catalog_of({}).load_table(T)
    with pytest.raises(OptionError, match=r"'num-levels'.*cannot be set for one statement"):
        table.with_options({"num-levels": "8"})


def row_of(table: Table, key: int) -> list[int | None]:
    return [r["v"] for r in read_arrow(table).to_pylist() if r["k"] == key]


def with_two_levels(catalog: FileSystemCatalog, *values: int | None) -> Table:
    """Write many rows of value 10 and compact them, then write values of key 1, which automatic compaction moves up."""
    table = catalog.load_table(T)
    put(table, *((k, 10) for k in range(20_000)))
    compact(table)
    for v in values:
        put(table, (1, v))
    assert len({e.file.level for e in scan(table, table.snapshots.latest()).entries} - {0}) == 2
    return table


@pytest.mark.parametrize(
    ("options", "values", "merged"),
    [
        (SUM, (1, 1, 1), 13),
        ({"merge-engine": "partial-update"}, (None, None, None), 10),
        ({"sequence.field": "v"}, (5, 6, 7), 10),
    ],
)
def test_lookups_begin_when_no_row_is_at_several_levels(
    options: dict[str, str], values: tuple[int | None, ...], merged: int
) -> None:
    catalog = catalog_of({TRIGGER: "2"} | options)
    table = with_two_levels(catalog, *values)
    with pytest.raises(OptionError, match=r"rows at several levels.*CALL sys\.compact\(table => 'db\.t'\)"):
        catalog.alter_table(T, [LOOKUP])
    assert catalog.alter_table(T, [SetOption("changelog-producer", "input")]).schema.id == 1
    compact(table)
    put(table, (1, values[0]))
    looking = catalog.alter_table(T, [LOOKUP])
    assert row_of(looking, 1) == row_of(table, 1)
    compact(looking)
    assert row_of(looking, 1) == row_of(table, 1) == [merged + (1 if options is SUM else 0)]


def test_lookups_end_when_no_row_is_at_several_levels() -> None:
    catalog = catalog_of({"changelog-producer": "lookup"} | SUM)
    table = with_two_levels(catalog, 1)
    for change in (RemoveOption("changelog-producer"), SetOption("changelog-producer", "full-compaction")):
        with pytest.raises(OptionError, match="rows at several levels"):
            catalog.alter_table(T, [change])
    compact(table)
    assert row_of(catalog.alter_table(T, [RemoveOption("changelog-producer")]), 1) == [11]


def test_lookups_begin_at_any_time_if_the_newest_row_wins() -> None:
    catalog = catalog_of({TRIGGER: "2"})
    with_two_levels(catalog, 1, 2, 3)
    looking = catalog.alter_table(T, [LOOKUP])
    put(looking, (1, 4))
    assert changes(looking) == [[("-U", 1, 3), ("+U", 1, 4)]]


def test_no_rollback_to_rows_that_would_be_merged_otherwise() -> None:
    catalog = catalog_of({TRIGGER: "2"} | SUM)
    table = with_two_levels(catalog, 1, 1, 1)
    newest = table.snapshots.latest_id()
    compact(table)
    looking = catalog.alter_table(T, [LOOKUP])
    with pytest.raises(UsageError, match=f"cannot be rolled back to snapshot {newest}"):
        plan_rollback(looking, snapshot_id=newest)
    assert plan_rollback(looking, snapshot_id=1).current_id == 1
    back = catalog.alter_table(T, [RemoveOption("changelog-producer")])
    assert plan_rollback(back, snapshot_id=newest).current_id == newest
