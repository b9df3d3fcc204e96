"""Streams into one table while its store fails and their process dies: each row arrives once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest

from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import TableWriter
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.insert import complete_write, plan_write, write_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.streaming.sink import StreamBatch, begin_batch
from paimon_spark.errors import PaimonError
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.testing.faults import FaultFileIO, Mode, Seeded
from paimon_spark.testing.invariants import lost, violations
from paimon_spark.testing.tables import new_table, read_arrow

BATCHES, ROWS = 6, 4
OTHER = 1_000_000
"""The ids of rows that no stream has written."""
MODES = [m for m in Mode if m is not Mode.SLOW]
Attempt = Callable[[Table], None]


def rows(table: Table, ids: range, kind: int | None = None) -> pa.Table:
    data = pa.table({"id": pa.array(ids, pa.int32()), "v": pa.array(ids, pa.int32())})
    data = data.cast(to_arrow_schema(table.schema.fields).remove_metadata())
    return data if kind is None else data.append_column(ROW_KIND, pa.array([kind] * len(ids), pa.int8()))


def write_batch(table: Table, query: str, number: int, ids: range) -> None:
    """Write a batch as a query does, whether it is the first time or not."""
    batch = begin_batch(table, StreamBatch(query, number, f"{query}-{number}"))
    if batch is None:
        return
    plan = replace(plan_write(table), batch=batch)
    with TableWriter(table, plan.info) as writer:
        for each in rows(table, ids).to_batches():
            writer.write(each)
        messages = writer.finish()
    complete_write(plan, messages, LocalRunner())


def until_done(table: Table, rng: Random, attempt: Attempt) -> int:
    """Try until it is done, with faults at first and without them at last; return how often it failed."""
    failures = 0
    for rate in (0.05, 0.05, 0.02, 0.0):
        faulty = FaultFileIO(table.file_io, Seeded(rng.randrange(1 << 30), rate, MODES))
        try:
            attempt(replace(table, file_io=faulty))
        except (PaimonError, OSError, ValueError):
            failures += 1
        else:
            if rate == 0.0:
                break
    return failures


def beside(table: Table, rng: Random, deleted: set[int]) -> None:
    """Do what others do to the table."""
    what = rng.choice(["compact", "expire", "insert", "delete"])
    if what == "compact":
        execute_compaction(plan_compaction(table, strategy=rng.choice(list(Strategy))), LocalRunner())
    elif what == "expire":
        execute_expire(table, plan_expire(table, ExpireConfig(retain_max=6, retain_min=1), 1 << 42))
    elif what == "insert":
        write_arrow(table, rows(table, range(OTHER, OTHER + ROWS), 0 if table.is_primary_key_table else None))
    elif table.is_primary_key_table:
        gone = [i for i in read_arrow(table).column("id").to_pylist() if i % 7 == 0]
        if gone:
            data = pa.table({"id": pa.array(gone, pa.int32()), "v": pa.array(gone, pa.int32())})
            data = data.cast(to_arrow_schema(table.schema.fields).remove_metadata())
            write_arrow(table, data.append_column(ROW_KIND, pa.array([3] * len(gone), pa.int8())))
            deleted.update(gone)


@pytest.mark.parametrize("seed", [*range(15), *(pytest.param(s, marks=pytest.mark.slow) for s in range(15, 100))])
def test_each_row_arrives_once_in_spite_of_faults(seed: int) -> None:
    rng = Random(seed)
    keyed = seed % 2 == 0
    options = {"bucket": "1" if keyed else "-1", "num-sorted-run.compaction-trigger": "3"}
    table = new_table({"id": "INT", "v": "INT"}, primary_key=["id"] if keyed else [], options=options)
    wanted, deleted, failures = set[int](), set[int](), 0
    for number in range(BATCHES):
        for query in ("a", "b"):
            first = 10 * number + (1000 if query == "b" else 0) + 1
            ids = range(first, first + ROWS)
            failures += until_done(table, rng, lambda t, q=query, n=number, i=ids: write_batch(t, q, n, i))
            wanted |= set(ids)
            if rng.random() < 0.5:
                beside(table, rng, deleted)
    found = [i for i in read_arrow(table).column("id").to_pylist() if i < OTHER]
    assert sorted(found) == sorted(wanted - deleted)
    assert failures
    assert violations(table) == []
    assert lost(table) == set()
    snapshots = [table.snapshots.find(i) for i in range(1, (table.snapshots.latest_id() or 0) + 1)]
    appends = [(s.commit_user, s.commit_identifier) for s in snapshots if s and s.commit_kind.value == "APPEND"]
    batches = [a for a in appends if a[0] in ("a", "b")]
    assert len(batches) == len(set(batches))
