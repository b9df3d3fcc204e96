"""Rollback as a new snapshot."""

from __future__ import annotations

import pyarrow as pa
import pytest

from paimon_spark.api.row_changes import deletions
from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.refs.tags import execute_tag, plan_create_tag
from paimon_spark.engine.rollback_as_latest import execute_as_latest, plan_as_latest
from paimon_spark.engine.row_level import change_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import plan_select
from paimon_spark.errors import ArgumentError, NotFoundError
from paimon_spark.spec.kinds import CommitKind, Operation
from paimon_spark.sqlparse.where import parse_filter
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.tables import new_table, read_arrow

FAR = 4_102_444_800_000


def keyed(*rows: tuple[int, int]) -> Table:
    table = new_table({"k": "INT", "v": "INT"}, primary_key=["k"], options={"bucket": "1", "write-only": "true"})
    for row in rows:
        put(table, row)
    return table


def put(table: Table, *rows: tuple[int, int]) -> None:
    ks, vs = zip(*rows, strict=True)
    write_arrow(table, pa.table({"k": pa.array(ks, pa.int32()), "v": pa.array(vs, pa.int32())}))


def compact(table: Table) -> None:
    execute_compaction(plan_compaction(table, strategy=Strategy.FULL), LocalRunner())


def content(table: Table) -> list[tuple[int, int]]:
    return sorted((r["k"], r["v"]) for r in read_arrow(table).to_pylist())


def restore(table: Table, **target: object) -> int:
    plan = plan_as_latest(table, clock_millis=FAR, **target)  # type: ignore[arg-type]
    return execute_as_latest(table, plan)


def test_the_history_stays_and_the_content_is_restored() -> None:
    table = keyed((1, 1), (1, 2), (2, 2))
    assert restore(table, snapshot_id=1) == 4
    latest = table.snapshots.get(4)
    assert (latest.commit_kind, latest.total_record_count) == (CommitKind.OVERWRITE, 1)
    assert content(table) == [(1, 1)]
    assert table.snapshots.ids() == [1, 2, 3, 4]
    assert restore(table, snapshot_id=3) == 5
    assert content(table) == [(1, 2), (2, 2)]
    assert violations(table) == []


def test_a_compaction_in_between_is_undone() -> None:
    table = keyed((1, 1), (1, 2))
    compact(table)
    put(table, (3, 3))
    compact(table)
    assert restore(table, snapshot_id=2) == table.snapshots.latest_id()
    assert content(table) == [(1, 2)]
    assert violations(table) == []
    put(table, (4, 4))
    compact(table)
    assert content(table) == [(1, 2), (4, 4)]


def test_a_file_returns_to_a_level_that_it_had_before() -> None:
    table = keyed((1, 1))
    compact(table)
    restore(table, snapshot_id=1)
    compact(table)
    assert content(table) == [(1, 1)]
    restore(table, snapshot_id=1)
    assert content(table) == [(1, 1)]
    assert violations(table) == []


def test_rows_that_deletion_vectors_hid_come_back() -> None:
    table = new_table({"k": "INT", "v": "INT"}, options={"deletion-vectors.enabled": "true", "write-only": "true"})
    put(table, (1, 1), (2, 2))
    put(table, (3, 3))
    for condition in ("k = 1", "k = 3"):
        plan = plan_select(table, columns=(), predicate=parse_filter(condition, table.schema))
        change_arrow(table, deletions(plan), Operation.DELETE)
    assert content(table) == [(2, 2)]
    restore(table, snapshot_id=3)
    assert content(table) == [(2, 2), (3, 3)]
    restore(table, snapshot_id=2)
    assert content(table) == [(1, 1), (2, 2), (3, 3)]
    restore(table, snapshot_id=4)
    assert content(table) == [(2, 2)]
    assert violations(table) == []


def test_a_tag_protects_the_restored_files() -> None:
    table = keyed((1, 1), (1, 2))
    restore(table, snapshot_id=1)
    (name,) = RefStore.of(table).tag_names()
    assert name.startswith("rollback-to-as-latest-1-")
    execute_expire(table, plan_expire(table, ExpireConfig(retain_max=1, retain_min=1), FAR))
    assert content(table) == [(1, 1)]


@pytest.mark.parametrize("given", [None, "short"])
def test_the_tag_that_protects_never_expires(given: str | None) -> None:
    table = keyed((1, 1), (1, 2)).with_options({"tag.default-time-retained": "1 h"})
    execute_tag(table, plan_create_tag(table, "short", snapshot_id=1, clock_millis=FAR))
    restore(table, **({"snapshot_id": 1} if given is None else {"tag": given}))
    (pin,) = (t for n, t in RefStore.of(table).tags().items() if n.startswith("rollback-to-as-latest-1-"))
    assert (pin.snapshot.id, pin.time_retained) == (1, None)


def test_a_given_tag_is_enough() -> None:
    table = keyed((1, 1), (1, 2))
    execute_tag(table, plan_create_tag(table, "a", snapshot_id=1, clock_millis=0))
    execute_expire(table, plan_expire(table, ExpireConfig(retain_max=1, retain_min=1), FAR))
    assert restore(table, tag="a") == 3
    assert content(table) == [(1, 1)]
    assert RefStore.of(table).tag_names() == ["a"]


def test_the_content_of_the_latest_snapshot_needs_no_commit() -> None:
    table = keyed((1, 1), (1, 2))
    assert restore(table, snapshot_id=2) == 2
    assert RefStore.of(table).tag_names() == []


def test_targets_that_are_refused() -> None:
    table = keyed((1, 1))
    for target in ({}, {"snapshot_id": 1, "tag": "a"}):
        with pytest.raises(ArgumentError):
            restore(table, **target)
    with pytest.raises(NotFoundError):
        restore(table, snapshot_id=9)
    with pytest.raises(NotFoundError):
        restore(keyed(), snapshot_id=1)
