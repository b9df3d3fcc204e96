"""Automatic tags: which commits create them, what they are called, and how many stay."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pytest

from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.commit.snapshot_builder import CommitMetadata
from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import TableWriter, WriterRestoreState
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.refs.automatic_tags import create_automatic_tags
from paimon_spark.engine.refs.tags import execute_tag, plan_create_tag
from paimon_spark.errors import AlreadyExistsError, OptionError
from paimon_spark.fs.base import FileIO
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.schema_rules import check_schema
from paimon_spark.testing.faults import FaultFileIO, Recorder
from paimon_spark.testing.tables import new_table

UTC_EPOCH = datetime(1970, 1, 1)


def tagging(mode: str = "process-time", file_io: FileIO | None = None, **options: str) -> Table:
    given = {f"tag.{n.replace('_', '-').replace('--', '.')}": v for n, v in options.items()}
    own = {"tag.automatic-creation": mode, "sink.process-time-zone": "UTC", "write-only": "true"}
    return new_table({"k": "INT"}, options={**own, **given}, file_io=file_io)


def millis(text: str) -> int:
    return int((datetime.fromisoformat(text) - UTC_EPOCH) / timedelta(milliseconds=1))


def commit(table: Table, at: str, watermark: int | None = None) -> tuple[str, ...]:
    """Commit a row at a time; return the tags that are created then."""
    now = millis(at)
    writer = TableWriter(table, WriterRestoreState())
    writer.write(pa.table({"k": pa.array([1], pa.int32())}))
    FileStoreCommit(table, clock=lambda: now / 1000).commit(writer.finish(), CommitMetadata(watermark=watermark))
    return create_automatic_tags(table, now)


def tags(table: Table) -> dict[str, int]:
    return {n: t.snapshot.id for n, t in RefStore.of(table).tags().items()}


def test_the_first_commit_of_a_day_tags_the_day_before() -> None:
    table = tagging()
    assert commit(table, "2024-05-03 08:00") == ("2024-05-02",)
    assert commit(table, "2024-05-03 23:00") == ()
    assert commit(table, "2024-05-04 00:01") == ("2024-05-03",)
    assert commit(table, "2024-05-07 10:00") == ("2024-05-06",)
    assert tags(table) == {"2024-05-02": 1, "2024-05-03": 3, "2024-05-06": 4}


def test_completion_fills_days_without_commits() -> None:
    table = tagging(automatic_completion="true")
    for at, created in [("2024-05-03 08:00", "2024-05-02"), ("2024-05-04 00:01", "2024-05-03")]:
        assert commit(table, at) == (created,)
    for minute, created in enumerate(["2024-05-04", "2024-05-05", "2024-05-06"]):
        assert commit(table, f"2024-05-07 10:0{minute}") == (created,)
    assert commit(table, "2024-05-07 11:00") == ()


def test_a_delay_moves_the_end_of_a_period() -> None:
    table = tagging(creation_period="hourly", creation_delay="10 min")
    assert commit(table, "2024-05-03 12:30") == ("2024-05-03 11",)
    assert commit(table, "2024-05-03 13:05") == ()
    assert commit(table, "2024-05-03 13:10") == ("2024-05-03 12",)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"period_formatter": "without_dashes"}, "20240502"),
        ({"creation_period": "hourly", "period_formatter": "without_dashes"}, "20240503 06"),
        ({"creation_period": "hourly", "period_formatter": "without_dashes_and_spaces"}, "2024050306"),
        ({"creation_period": "two-hours"}, "2024-05-03 04"),
        ({"creation_period_duration": "30 min"}, "202405030700"),
    ],
)
def test_names_by_period(options: dict[str, str], name: str) -> None:
    table = tagging(**options)
    assert commit(table, "2024-05-03 07:40") == (name,)
    assert commit(table, "2024-05-03 07:41") == ()


def test_watermarks_count_instead_of_commit_times() -> None:
    table = tagging("watermark")
    assert commit(table, "2024-05-03 08:00") == ()
    assert commit(table, "2024-05-03 08:01", millis("2024-01-10 05:00")) == ("2024-01-09",)
    assert commit(table, "2024-05-09 08:02") == ()


def test_snapshots_without_a_watermark_get_no_tag() -> None:
    table = tagging("watermark")
    assert commit(table, "2024-05-03 08:00", watermark=-(1 << 63)) == ()  # of a Flink job without watermarks
    assert commit(table, "2024-05-03 09:00", watermark=millis("2024-05-03 09:00")) == ("2024-05-02",)
    assert tags(table) == {"2024-05-02": 2}


@pytest.mark.parametrize("zone", ["GMT+8", "+08:00", "UTC+8", "Asia/Shanghai"])
def test_days_begin_in_the_zone_of_the_option(zone: str) -> None:
    table = tagging().with_options({"sink.process-time-zone": zone})
    assert commit(table, "2024-05-03 17:00") == ("2024-05-03",)


def test_a_snapshot_has_one_automatic_tag() -> None:
    table = tagging()
    assert commit(table, "2024-05-03 08:00") == ("2024-05-02",)
    with pytest.raises(AlreadyExistsError, match="has the automatic tag '2024-05-02' already"):
        plan_create_tag(table, "2020-01-01", snapshot_id=1, clock_millis=0)
    execute_tag(table, plan_create_tag(table, "by hand", snapshot_id=1, clock_millis=0))
    manual = table.with_options({"tag.automatic-creation": "none"})
    execute_tag(table, plan_create_tag(manual, "2020-01-01", snapshot_id=1, clock_millis=0))


def test_tags_of_batch_writes_are_not_of_periods() -> None:
    table = tagging(num_retained_max="1")
    for name in ("batch-write-2024-05-01", "batch-write-2024-05-02"):
        commit(table.with_options({"tag.automatic-creation": "none"}), "2024-05-02 08:00")
        execute_tag(table, plan_create_tag(table, name, clock_millis=0))
    assert commit(table, "2024-05-03 08:00")[-1] == "2024-05-02"
    assert {"batch-write-2024-05-01", "batch-write-2024-05-02", "2024-05-02"} <= set(tags(table))


def test_the_oldest_tags_go() -> None:
    table = tagging(num_retained_max="2")
    RefStore.of(table)
    for day in range(3, 7):
        commit(table, f"2024-05-0{day} 08:00")
    assert list(tags(table)) == ["2024-05-04", "2024-05-05"]


def test_a_missed_snapshot_is_tagged_later() -> None:
    table = tagging()
    commit(table, "2024-05-03 08:00")
    silent = table.with_options({"tag.automatic-creation": "none"})
    assert commit(silent, "2024-05-04 08:00") == ()
    assert commit(table, "2024-05-05 08:00") == ("2024-05-03", "2024-05-04")
    assert tags(table) == {"2024-05-02": 1, "2024-05-03": 2, "2024-05-04": 3}


def test_batch_writes_move_one_tag_a_day() -> None:
    table = tagging("batch")
    assert commit(table, "2024-05-03 08:00") == ("batch-write-2024-05-03",)
    assert commit(table, "2024-05-03 09:00") == ("batch-write-2024-05-03",)
    commit(table, "2024-05-04 09:00")
    assert tags(table) == {"batch-write-2024-05-03": 2, "batch-write-2024-05-04": 3}


def test_a_write_creates_the_tags_that_are_due() -> None:
    table = tagging(default_time_retained="1 d").with_options({"write-only": "false"})
    write_arrow(table, pa.table({"k": pa.array([1], pa.int32())}))
    (tag,) = RefStore.of(table).tags().values()
    assert tag.time_retained == timedelta(days=1)


def test_a_delay_of_a_whole_period_is_refused() -> None:
    table = tagging(creation_delay="1 d")
    with pytest.raises(OptionError, match=r"tag\.creation-delay.*not shorter"):
        check_schema(table.schema)


@pytest.mark.parametrize("mode", ["process-time", "watermark"])
def test_a_commit_within_a_period_reads_no_earlier_snapshots(mode: str) -> None:
    store = FaultFileIO(InMemoryFileIO())
    table = tagging(mode, file_io=store)
    for minute in range(20):
        commit(table, f"2024-05-03 10:{minute:02}", millis(f"2024-05-03 10:{minute:02}"))
    store.schedule = recorder = Recorder()
    assert create_automatic_tags(table, millis("2024-05-03 10:20")) == ()
    assert sum(operation == "read" and "/snapshot-" in path for operation, path in recorder.log) == 1
