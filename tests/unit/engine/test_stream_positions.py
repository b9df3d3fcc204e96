"""Positions of streams: in a table that was rolled back, in a checkpoint that is malformed, in long-lived changelogs."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.table import Table
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.rollback import execute_rollback, plan_rollback
from paimon_spark.engine.streaming.offset import StreamOffset, parse_offset
from paimon_spark.engine.streaming.source import StreamSource
from paimon_spark.engine.streaming.start import first_offset
from paimon_spark.errors import CorruptTableError, NotFoundError, UnsupportedError
from paimon_spark.spec.column_changes import UpdateColumnNullability
from paimon_spark.spec.evolution import SetOption, apply_changes
from paimon_spark.testing.tables import new_table

_NOW = 1 << 42
_FILES = "read.stream.maxFilesPerTrigger"
_LONG = {"changelog.num-retained.max": "2147483647", "changelog.time-retained": "365 d"}


def written(rows_of_commits: list[int], **options: str) -> Table:
    given = {"bucket": "2", "write-only": "true", **options}
    table = new_table({"id": "INT"}, primary_key=["id"], options=given)
    for rows in rows_of_commits:
        append(table, rows)
    return table


def append(table: Table, rows: int) -> None:
    write_arrow(table, pa.table({"id": pa.array(range(rows), pa.int32())}))


def next_of(source: StreamSource, start: StreamOffset, *, limited: bool = True) -> StreamOffset:
    end = source.next_offset(start, limited=limited, newest=source.newest_id())
    assert end is not None
    return parse_offset(end.to_json())


def with_changelogs(commits: int) -> Table:
    """Return a table whose snapshots but the last have expired; their changelogs are long-lived."""
    table = written([1] * commits, **_LONG, **{"changelog-producer": "input"})
    execute_expire(table, plan_expire(table, ExpireConfig(retain_max=1, retain_min=1), _NOW))
    assert (table.snapshots.ids(), RefStore.of(table).changelog_ids()) == ([commits], list(range(1, commits)))
    return table


def time_of(table: Table, changelog: int) -> int:
    found = RefStore.of(table).find_changelog(changelog)
    assert found is not None
    return found.time_millis


def test_a_planned_batch_is_not_read_from_other_snapshots() -> None:
    table = written([1, 1, 1])
    source = StreamSource(table.with_options({"scan.snapshot-id": "2"}))
    start = first_offset(source.table)
    end = next_of(source, start, limited=False)
    assert len(source.read(start, end).changes) == 1
    execute_rollback(table, plan_rollback(table, snapshot_id=1))
    with pytest.raises(NotFoundError, match=r"rolled back"):
        source.read(start, end)
    append(table, 5)
    append(table, 5)
    with pytest.raises(NotFoundError, match=r"rolled back"):
        source.read(start, end)


def test_a_position_within_a_snapshot_is_of_no_other_one() -> None:
    table = written([1, 8])
    source = StreamSource(table.with_options({"scan.snapshot-id": "2", _FILES: "1"}))
    part = next_of(source, first_offset(source.table))
    assert (part.snapshot_id, part.index) == (2, 0)
    execute_rollback(table, plan_rollback(table, snapshot_id=1))
    with pytest.raises(NotFoundError, match=r"has read snapshot 2"):
        source.next_offset(part, limited=True, newest=1)
    append(table, 9)
    with pytest.raises(NotFoundError, match=r"has read snapshot 2"):
        source.next_offset(part, limited=True, newest=2)


def test_a_position_beyond_the_splits_is_refused() -> None:
    source = StreamSource(written([1, 8]))
    with pytest.raises(CorruptTableError, match=r"has read 8 splits of snapshot 2, but they are not among the 2"):
        source.next_offset(StreamOffset(snapshot_id=2, index=7), limited=True, newest=2)
    with pytest.raises(CorruptTableError, match=r"the key 'index' holds -2"):
        parse_offset('{"snapshotId":2,"index":-2}')


@pytest.mark.parametrize(
    ("options", "first"),
    [({"scan.snapshot-id": "2"}, 2), ({"scan.snapshot-id": "0"}, 1), ({"scan.timestamp-millis": "1"}, 1)],
)
def test_a_stream_starts_in_long_lived_changelogs(options: dict[str, str], first: int) -> None:
    assert first_offset(with_changelogs(4).with_options(options)).snapshot_id == first


@pytest.mark.parametrize("option", ["scan.timestamp-millis", "scan.creation-time-millis"])
def test_a_time_between_long_lived_changelogs(option: str) -> None:
    table = with_changelogs(4)
    for changelog in (1, 2, 3):
        since = table.with_options({option: str(time_of(table, changelog) + 1)})
        assert first_offset(since) == StreamOffset(snapshot_id=changelog + 1)


def test_changelogs_before_a_gap_are_no_start() -> None:
    table = with_changelogs(4)
    table.file_io.delete(table.paths.changelog(2))
    assert first_offset(table.with_options({"scan.snapshot-id": "1"})).snapshot_id == 3


def test_a_consumer_of_a_quiet_stream_does_not_expire() -> None:
    table = written([1], **{"consumer.expiration-time": "1 s"})
    source = StreamSource(table.with_options({"consumer-id": "c"}))

    def seen() -> int:
        source.commit(StreamOffset(snapshot_id=2))
        (file,) = RefStore.of(table).consumer_files()
        return file.mtime_ms

    first = seen()
    assert seen() == first
    time.sleep(0.4)
    assert seen() > first


def test_commits_without_a_changelog_are_not_skipped() -> None:
    table = written([1, 2])
    schema = apply_changes(table.schema, [SetOption("changelog-producer", "input")], 0, has_snapshots=True)
    assert table.schema_store.try_create(schema)
    changed = Table.of(table.identifier, table.path, schema, table.file_io)
    append(changed, 3)
    source = StreamSource(changed.with_options({"scan.snapshot-id": "3"}))
    start = first_offset(source.table)
    assert source.read(start, next_of(source, start, limited=False)).changes
    source = StreamSource(changed.with_options({"scan.snapshot-id": "2"}))
    start = first_offset(source.table)
    with pytest.raises(NotFoundError, match=r"snapshot 2 has no changelog"):
        source.read(start, next_of(source, start, limited=False))


def test_a_query_that_takes_no_nulls_reads_none() -> None:
    before = new_table({"id": "INT", "v": "INT NOT NULL"})
    write_arrow(before, pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([1], pa.int32())}))
    start = first_offset(before)
    change = UpdateColumnNullability(("v",), nullable=True)
    after = before.with_schema(apply_changes(before.schema, [change], _NOW, has_snapshots=True))
    assert after.schema_store.try_create(after.schema)
    write_arrow(after, pa.table({"id": pa.array([2], pa.int32()), "v": pa.array([None], pa.int32())}))
    end = next_of(StreamSource(before), start)
    with pytest.raises(UnsupportedError, match="'v' is INT and was INT NOT NULL"):
        StreamSource(before).read(start, end)
    assert StreamSource(after).read(start, end).state


@pytest.mark.parametrize("retained", [1, 2, 3])
def test_a_quiet_stream_keeps_up_with_short_retention(retained: int) -> None:
    table = written([1])
    source = StreamSource(table.with_options({"snapshot.num-retained.min": str(retained)}))
    position = next_of(source, first_offset(source.table), limited=False)
    for _ in range(6):
        write_arrow(table, pa.table({"id": pa.array([1], pa.int32())}), overwrite="static")
        execute_expire(table, plan_expire(table, ExpireConfig(retain_max=retained, retain_min=retained), _NOW))
        end = source.next_offset(position, limited=False, newest=source.newest_id())
        if end is not None:
            assert not source.read(position, end).changes
            position = end
