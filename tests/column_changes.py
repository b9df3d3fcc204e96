"""Changes of columns of rows in tables with data evolution, in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from paimon_spark.core.columns import FILE_PATH, ROW_INDEX, ROW_KIND, VECTOR
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.table import Table
from paimon_spark.engine.row_level import RowChanges, finish_changes, plan_changes, row_changer, with_all_rows
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import plan_select
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.spec.kinds import Operation, RowKind

PLACE = (FILE_PATH, ROW_INDEX, VECTOR)


def changes(table: Table, update: dict[str, Any], where: Callable[[dict[str, Any]], bool]) -> pa.Table:
    """Return the input that sets columns of the rows for which `where` is true."""
    plan = plan_select(with_all_rows(table))
    found = (b for s in plan.splits for b in read_split(plan.table, s, plan.columns, metadata_columns=PLACE))
    chosen = [r | update | {ROW_KIND: RowKind.UPDATE_AFTER} for b in found for r in b.to_pylist() if where(r)]
    schema = to_arrow_schema(table.schema.fields)
    for name, kind in ((ROW_KIND, pa.int8()), (FILE_PATH, pa.string()), (ROW_INDEX, pa.int64()), (VECTOR, pa.int64())):
        schema = schema.append(pa.field(name, kind))
    return pa.Table.from_pylist(sorted(chosen, key=lambda r: (r[FILE_PATH], r[ROW_INDEX])), schema=schema)


def begin_update(
    table: Table, where: Callable[[dict[str, Any]], bool] = lambda _: True, **update: Any
) -> Callable[[], Any]:
    """Write new values; return the function that commits them."""
    plan = plan_changes(table, Operation.UPDATE, changes=RowChanges(tuple(update)))
    with row_changer(table, plan.info) as changer:
        for batch in changes(table, update, where).to_batches():
            changer.change(batch)
        messages = changer.finish()
    return lambda: finish_changes(plan, messages, LocalRunner())


def update(table: Table, where: Callable[[dict[str, Any]], bool] = lambda _: True, **values: Any) -> None:
    begin_update(table, where, **values)()
