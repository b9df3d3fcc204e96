"""What Spark is told of a native scan."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from paimon_spark.core.splits import Split
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.select import plan_select
from paimon_spark.spark.reads import ReadRequest, _native_spec
from paimon_spark.spec.predicate import TRUE
from paimon_spark.testing.tables import new_table


def identity(table: Table, split: Split) -> str:
    request = ReadRequest(table, ("k",), TRUE, (split,))
    files = [(split, file) for file in split.files]
    return str(_native_spec(request, "parquet", table.schema.id, files, filtered=False)["identity"])


def test_scans_of_files_with_one_name_in_two_partitions_are_not_one() -> None:
    table = new_table({"k": "INT", "p": "INT"}, partition=["p"])
    rows = pa.table({"k": pa.array([1, 2], pa.int32()), "p": pa.array([1, 2], pa.int32())})
    write_arrow(table, rows)
    one, other = plan_select(table).splits
    namesake = replace(other, files=one.files)
    assert identity(table, one) == identity(table, one)
    assert identity(table, one) != identity(table, namesake)
