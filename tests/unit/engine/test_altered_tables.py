"""Tables whose options change while they have rows: queries and changelogs stay right."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.catalog.filesystem import FileSystemCatalog
from paimon_spark.core.table import Table
from paimon_spark.engine.select import ReadOptions, plan_select, read_batches
from paimon_spark.errors import OptionError
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.evolution import SetOption, new_schema
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.types import DataField, parse_atomic
from tests.unit.engine.changelogs import changes, put

T = Identifier("db", "t")
TRIGGER = "num-sorted-run.compaction-trigger"


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
