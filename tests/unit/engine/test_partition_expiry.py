"""Expiry of partitions by the time in their values, or of their last change."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

import pyarrow as pa
import pytest

from paimon_spark.core.table import Table
from paimon_spark.engine.expiry.partition_expiry import (
    execute_partition_expiry,
    expire_partitions_after_commit,
    plan_partition_expiry,
)
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.post_commit import maintain_after_commit
from paimon_spark.errors import ArgumentError, OptionError
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.partition_times import partition_time
from paimon_spark.testing.tables import new_table, read_arrow

NOW = datetime(2024, 7, 9, 12)
MILLIS = int(NOW.timestamp() * 1000)


def partitioned(*days: str | None, **options: str) -> Table:
    given = {f"partition.{n.replace('_', '-')}": v for n, v in options.items()}
    table = new_table({"k": "INT", "dt": "STRING"}, partition=["dt"], options=given)
    write_arrow(table, pa.table({"k": pa.array(range(len(days)), pa.int32()), "dt": pa.array(days, pa.string())}))
    return table


def days_of(table: Table) -> list[str | None]:
    return sorted(read_arrow(table).column("dt").to_pylist(), key=str)


def test_old_values_expire() -> None:
    table = partitioned("2024-07-01", "2024-07-02 13:00:00", "2024-07-02", "2024-07-08", "soon", None)
    plan = plan_partition_expiry(table.with_options({"partition.expiration-time": "7 d"}), MILLIS)
    assert plan.unparsed == 2
    assert [a.path for a in plan.actions] == ["dt=2024-07-01", "dt=2024-07-02"]
    execute_partition_expiry(plan)
    assert days_of(table) == ["2024-07-02 13:00:00", "2024-07-08", None, "soon"]
    latest = table.snapshots.latest()
    assert latest is not None
    assert latest.commit_kind == "OVERWRITE"
    assert read_arrow(table, version=latest.id - 1).num_rows == 6


def test_at_most_so_many_go_at_once_and_a_commit() -> None:
    table = partitioned(*(f"2024-01-0{d}" for d in range(1, 8)), expiration_time="1 d", expiration_batch_size="2")
    before = table.snapshots.latest_id() or 0
    assert len(execute_partition_expiry(plan_partition_expiry(table, MILLIS, at_most=5))) == 3
    assert table.snapshots.latest_id() == before + 3
    assert days_of(table) == ["2024-01-06", "2024-01-07"]


def test_the_last_change_counts_if_asked() -> None:
    table = partitioned("2024-07-01", expiration_time="1 h", expiration_strategy="update-time")
    now = int(time.time() * 1000)
    assert not plan_partition_expiry(table, now).partitions
    later = now + 2 * 3_600_000
    assert len(plan_partition_expiry(table, later).partitions) == 1


def test_a_partition_that_changes_meanwhile_stays() -> None:
    table = partitioned("a", expiration_time="1 h", expiration_strategy="update-time")
    plan = plan_partition_expiry(table, int(time.time() * 1000) + 2 * 3_600_000)
    assert len(plan.partitions) == 1
    time.sleep(0.01)
    write_arrow(table, pa.table({"k": pa.array([7], pa.int32()), "dt": ["a"]}))
    assert execute_partition_expiry(plan) == ()
    assert read_arrow(table).num_rows == 2


def test_postponed_rows_are_rows_of_a_partition() -> None:
    options = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false", "partition.expiration-time": "1 h"}
    table = new_table({"k": "INT", "dt": "STRING"}, primary_key=["k", "dt"], partition=["dt"], options=options)
    write_arrow(table, pa.table({"k": pa.array([1, 2], pa.int32()), "dt": ["2024-01-01", "2024-07-09 11:59:00"]}))
    plan = plan_partition_expiry(table, MILLIS)
    assert [a.path for a in plan.actions] == ["dt=2024-01-01"]
    assert len(execute_partition_expiry(plan)) == 1


@pytest.mark.parametrize(
    ("options", "values", "expected"),
    [
        ({}, [("dt", "2024-7-1")], datetime(2024, 7, 1)),
        ({}, [("dt", "2024-02-31 25:00:00")], datetime(2024, 3, 3, 1)),
        ({}, [("dt", "20240701")], None),
        ({"formatter": "yyyyMMdd"}, [("dt", "20240701")], datetime(2024, 7, 1)),
        ({"formatter": "yyyyMMdd"}, [("dt", "20240231")], datetime(2024, 2, 29)),
        ({"formatter": "yyyyMMdd"}, [("dt", "20241301")], None),
        ({"formatter": "yyyyMM"}, [("dt", "202407")], None),
        ({"formatter": "yyyy-MM-dd'T'HH"}, [("dt", "2024-07-01T05")], datetime(2024, 7, 1, 5)),
        (
            {"pattern": "$y-$m-$d $h:00:00"},
            [("y", "2024"), ("m", "7"), ("d", "1"), ("h", "5")],
            datetime(2024, 7, 1, 5),
        ),
        ({"pattern": "$dt $hh:00:00"}, [("dt", "2024-07-01"), ("hh", None)], None),
        ({"pattern": "$dt $dt_h:00:00"}, [("dt", "2024-07-01"), ("dt_h", "5")], datetime(2024, 7, 1, 5)),
        ({"pattern": "$dt_h"}, [("dt", None), ("dt_h", "2024-07-01")], datetime(2024, 7, 1)),
    ],
)
def test_times_of_values(
    options: dict[str, str], values: list[tuple[str, str | None]], expected: datetime | None
) -> None:
    given = CoreOptions({f"partition.timestamp-{n}": v for n, v in options.items()})
    assert partition_time(values, given) == expected


@pytest.mark.parametrize("strategy", ["values-time", "update-time"])
def test_a_time_before_all_times_expires_nothing(strategy: str) -> None:
    for age in ("10000000 d", "9000000000000000000 ms"):
        table = partitioned("2024-01-01", expiration_strategy=strategy, expiration_time=age)
        assert not plan_partition_expiry(table, MILLIS).partitions


def test_dates_are_values_too() -> None:
    table = new_table({"k": "INT", "dt": "DATE"}, partition=["dt"], options={"partition.expiration-time": "7 d"})
    dates = pa.array([NOW.date() - timedelta(days=8), NOW.date()])
    write_arrow(table, pa.table({"k": pa.array([1, 2], pa.int32()), "dt": dates}))
    execute_partition_expiry(plan_partition_expiry(table, MILLIS))
    assert read_arrow(table).column("k").to_pylist() == [2]


def test_a_commit_checks_when_it_is_due() -> None:
    table = partitioned("2024-07-01", expiration_time="7 d", expiration_check_interval="1 h")
    assert expire_partitions_after_commit(table, MILLIS) == ()
    often = table.with_options({"partition.expiration-check-interval": "0 s"})
    assert maintain_after_commit(often, lambda: MILLIS).partitions == ("dt=2024-07-01",)
    assert maintain_after_commit(often, lambda: MILLIS).partitions == ()


def test_what_cannot_expire_is_told() -> None:
    with pytest.raises(OptionError, match=r"partition\.expiration-time"):
        plan_partition_expiry(partitioned("2024-07-01"), MILLIS)
    with pytest.raises(ArgumentError, match="no partitions"):
        plan_partition_expiry(new_table({"k": "INT"}), MILLIS)
    with pytest.raises(OptionError, match="'ww'"):
        plan_partition_expiry(partitioned("x", expiration_time="1 d", timestamp_formatter="yyyyww"), MILLIS)
    with pytest.raises(OptionError, match="values-time, update-time"):
        plan_partition_expiry(partitioned("x", expiration_time="1 d", expiration_strategy="age"), MILLIS)
