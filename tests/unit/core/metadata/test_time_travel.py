from __future__ import annotations

import dataclasses
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.metadata.time_travel import resolve_snapshot, resolve_start
from paimon_spark.core.table import Table
from paimon_spark.errors import ErrorKind, NotFoundError, OptionError
from paimon_spark.spec.kinds import CommitKind
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.tag_periods import tag_time
from tests.unit.core import samples
from tests.unit.core.samples import snapshot

NOON = int(datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp() * 1000)


@pytest.fixture
def table() -> Table:
    table = samples.table()
    for i in range(1, 6):
        kind = CommitKind.COMPACT if i == 4 else CommitKind.APPEND
        s = dataclasses.replace(snapshot(i, NOON + i * 1000), commit_kind=kind, watermark=i * 10)
        table.snapshots.try_create(s)
    for name, target in (("3", 5), ("first", 1)):
        table.file_io.write(table.paths.tag(name), table.snapshots.get(target).to_json().encode())
    return table


def found(table: Table, **how: object) -> int:
    s, _ = resolve_snapshot(table, **how)  # type: ignore[arg-type]
    assert s is not None
    return s.id


def test_default_is_the_newest_or_none(table: Table) -> None:
    assert found(table) == 5
    assert resolve_snapshot(samples.table()) == (None, table.schema)


def test_version_prefers_the_tag(table: Table) -> None:
    assert found(table, version="3") == found(table, version=3) == 5
    assert found(table, version="first") == 1
    assert found(table, version="4") == 4
    assert found(table, version="watermark-25") == 3
    assert RefStore.of(table).tag_names() == ["3", "first"]


def test_misses_name_what_there_is(table: Table) -> None:
    with pytest.raises(NotFoundError, match=r"'frist' is neither a tag.*3, first.*Did you mean 'first'") as caught:
        found(table, version="frist")
    assert caught.value.kind is ErrorKind.TAG_NOT_FOUND
    with pytest.raises(NotFoundError, match="Snapshot 9 does not exist"):
        found(table, version="9")
    with pytest.raises(NotFoundError, match="watermark of 99"):
        found(table, version="watermark-99")
    with pytest.raises(NotFoundError, match=r"at or before 2026-01-01 12:00:00\.500 UTC; the earliest, 1"):
        found(table, timestamp_millis=NOON + 500)
    with pytest.raises(NotFoundError, match="no snapshot yet"):
        found(samples.table(), timestamp_millis=5)


def test_a_time_selects_the_newest_snapshot_before_it(table: Table) -> None:
    assert found(table, timestamp_millis=NOON + 2999) == 2


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"scan.snapshot-id": "2"}, 2),
        ({"scan.tag-name": "3"}, 5),
        ({"scan.version": "3"}, 5),
        ({"scan.watermark": "31"}, 4),
        ({"scan.timestamp-millis": str(NOON + 2500)}, 2),
        ({"scan.timestamp": "2026-01-01 12:00:03+00:00"}, 3),
        ({"scan.mode": "from-snapshot", "scan.snapshot-id": "2"}, 2),
        ({"scan.mode": "from-timestamp", "scan.timestamp-millis": str(NOON + 2500)}, 2),
        ({"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"}, 2),
        ({"scan.mode": "compacted-full"}, 4),
        ({"scan.mode": "compacted-full", "full-compaction.delta-commits": "1"}, 4),
        ({"scan.mode": "compacted-full", "full-compaction.delta-commits": "2"}, 5),
        ({"scan.creation-time-millis": str(NOON + 2000)}, 2),
        ({"scan.creation-time-millis": str(NOON + 2001)}, 3),
        ({"scan.mode": "from-creation-timestamp", "scan.creation-time-millis": str(NOON + 5000)}, 5),
        ({"scan.mode": "full"}, 5),
        ({"scan.mode": "latest-full"}, 5),
        ({"scan.mode": "latest"}, 5),
    ],
)
def test_options(table: Table, options: dict[str, str], expected: int) -> None:
    assert found(table.with_options(options)) == expected


def test_a_text_means_the_local_zone(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        assert found(table.with_options({"scan.timestamp": "2026-01-01 20:00:03"})) == 3
        with pytest.raises(NotFoundError):
            found(table.with_options({"scan.timestamp": "2026-01-01 12:00:03"}))
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_zone_of_a_text(table: Table) -> None:
    ahead = timezone(timedelta(hours=8))
    assert found(table.with_options({"scan.timestamp": "2026-01-01 20:00:02"}), local_zone=ahead) == 2


@pytest.mark.parametrize("text", ["2026-1-1 12:0:2", "2026-1-01 12:00:2.5", "2026-01-01 12:00:02.123456789"])
def test_texts_with_fewer_and_more_digits(table: Table, text: str) -> None:
    assert found(table.with_options({"scan.timestamp": text}), local_zone=UTC) == 2


def test_a_time_before_all_zones_is_refused(table: Table) -> None:
    with pytest.raises(OptionError, match=r"holds '0001-01-01', which is not a time"):
        found(table.with_options({"scan.timestamp": "0001-01-01"}))


def test_arguments_win_over_options(table: Table) -> None:
    assert found(table.with_options({"scan.snapshot-id": "2"}), version="4") == 4


@pytest.mark.parametrize(
    "options",
    [
        {"scan.snapshot-id": "2", "scan.tag-name": "first"},
        {"scan.snapshot-id": "two"},
        {"scan.timestamp": "yesterday"},
        {"scan.mode": "from-snapshot"},
        {"scan.mode": "from-timestamp", "scan.snapshot-id": "2"},
        {"scan.mode": "latest", "scan.snapshot-id": "2"},
        {"scan.mode": "compacted-full", "scan.tag-name": "first"},
        {"scan.mode": "from-snapshot-full", "scan.tag-name": "first"},
        {"scan.mode": "incremental"},
        {"scan.mode": "incremental", "scan.snapshot-id": "2"},
        {"scan.mode": "from-file-creation-time"},
        {"scan.file-creation-time-millis": "1", "scan.creation-time-millis": "1"},
        {"scan.creation-time-millis": "noon"},
        {"incremental-between": "1,2", "scan.watermark": "1"},
    ],
)
def test_contradictions(table: Table, options: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        found(table.with_options(options))


@pytest.mark.parametrize("millis", [NOON, NOON + 1000, NOON + 5001])
def test_times_without_a_following_snapshot_choose_files(table: Table, millis: int) -> None:
    start = resolve_start(table.with_options({"scan.creation-time-millis": str(millis)}))
    assert start.snapshot is not None
    assert (start.snapshot.id, start.files_created_from) == (5, millis)
    by_file = {"scan.file-creation-time-millis": str(millis)}
    assert resolve_start(table.with_options(by_file)) == start


@pytest.mark.parametrize(
    "options",
    [{"incremental-between": "1,2"}, {"incremental-to-auto-tag": "x"}, {"scan.file-creation-time-millis": "1"}],
)
def test_what_reads_no_whole_snapshot_is_refused(table: Table, options: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        found(table.with_options(options))


def test_an_option_of_a_statement_replaces_stored_ones(table: Table) -> None:
    stored = table.with_options({"scan.mode": "from-snapshot", "scan.snapshot-id": "2"})
    assert found(stored.with_options({"scan.creation-time-millis": str(NOON + 3000)})) == 3
    changes = stored.with_options({"incremental-between": "1,2"})
    assert not {"scan.mode", "scan.snapshot-id"} & set(changes.options.values)


def test_only_time_travel_chooses_a_schema(table: Table) -> None:
    newer = dataclasses.replace(table.schema, id=1, comment="newer")
    table.schema_store.try_create(newer)
    now = table.with_schema(newer).with_options({"scan.mode": "compacted-full"})
    assert resolve_snapshot(now) == (table.snapshots.get(4), newer)


@pytest.mark.parametrize(
    ("name", "period", "form", "expected"),
    [
        ("2026-12-04", "daily", "with_dashes", datetime(2026, 12, 4)),
        ("2026-12-04 10", "daily", "with_dashes", datetime(2026, 12, 4)),
        ("20261204", "daily", "without_dashes", datetime(2026, 12, 4)),
        ("2026-12-04", "daily", "without_dashes", None),
        ("2026-13-04", "daily", "with_dashes", None),
        ("2026-12-04 10", "hourly", "with_dashes", datetime(2026, 12, 4, 10)),
        ("20261204 10", "hourly", "without_dashes", datetime(2026, 12, 4, 10)),
        ("2026120410", "hourly", "without_dashes_and_spaces", datetime(2026, 12, 4, 10)),
        ("2026-12-04 25", "hourly", "with_dashes", None),
        ("2026-12-04 10", "two-hours", "without_dashes", datetime(2026, 12, 4, 10)),
        ("first", "daily", "with_dashes", None),
    ],
)
def test_names_of_automatic_tags(name: str, period: str, form: str, expected: datetime | None) -> None:
    options = CoreOptions({"tag.creation-period": period, "tag.period-formatter": form})
    assert tag_time(name, options) == expected


def test_names_of_tags_of_a_period_have_minutes() -> None:
    options = CoreOptions({"tag.creation-period-duration": "5 min"})
    assert tag_time("202612041005", options) == datetime(2026, 12, 4, 10, 5)
    assert tag_time("2026-12-04", options) is None


def test_the_schema_is_the_snapshots(table: Table) -> None:
    newer = dataclasses.replace(table.schema, id=1, comment="newer")
    table.schema_store.try_create(newer)
    now = table.with_schema(newer)
    assert resolve_snapshot(now)[1] == newer
    assert resolve_snapshot(now, version="2")[1] == table.schema
