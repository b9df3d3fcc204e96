"""Streams of tables whose changelog producer changes, that are rolled back, rescaled or overwritten meanwhile."""

from __future__ import annotations

import json

import pytest

from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import complete_write, write_arrow
from paimon_spark.engine.redistribution.rescale import execute_rescale, plan_rescale
from paimon_spark.engine.rollback import execute_rollback, plan_rollback
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.streaming.offset import StreamOffset, parse_offset
from paimon_spark.engine.streaming.source import StreamSource
from paimon_spark.engine.streaming.start import first_offset
from paimon_spark.errors import CorruptTableError, NotFoundError, OutcomeUnknownError
from paimon_spark.spec.evolution import SetOption, apply_changes
from paimon_spark.testing.tables import new_table, read_arrow
from tests.unit.engine.test_streams import (
    COLUMNS,
    FILES,
    KINDS,
    POSTPONES,
    QUERY,
    batches,
    begun,
    compact,
    expire,
    keyed,
    rows,
    write,
    written,
)


def altered(table: Table, **options: str) -> Table:
    changes = [SetOption(key.replace("_", "-"), value) for key, value in options.items()]
    schema = apply_changes(table.schema, changes, 0, has_snapshots=True)
    assert table.schema_store.try_create(schema)
    return Table.of(table.identifier, table.path, schema, table.file_io)


def position_of(table: Table) -> StreamOffset:
    """Return the position of a stream that has read everything."""
    source = StreamSource(table)
    return batches(source, first_offset(table))[1]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("lookup", "none"),
        ("lookup", "input"),
        ("full-compaction", "input"),
        ("input", "lookup"),
        ("none", "full-compaction"),
    ],
)
def test_another_producer_leaves_out_and_repeats_nothing(before: str, after: str) -> None:
    table = keyed(changelog_producer=before)
    write(table, (1, 1))
    compact(table)
    read = position_of(table)
    write(table, (2, 2))
    early = batches(StreamSource(table), read)[1]
    if early.snapshot_id < 4:  # the commit had no changelog, and was not passed
        early = StreamSource(table)._after(3)
    changed = altered(table, changelog_producer=after)
    write(changed, (3, 3))
    compact(changed)
    with pytest.raises(NotFoundError, match=rf"with 'changelog-producer' = '{before}'.*missing or repeated"):
        batches(StreamSource(changed), parse_offset(early.to_json()))
    StreamSource(table.with_options({"consumer-id": "c"})).commit(early)
    reading = changed.with_options({"consumer-id": "c"})
    with pytest.raises(NotFoundError, match=rf"with 'changelog-producer' = '{before}'"):
        batches(StreamSource(reading), first_offset(reading))


@pytest.mark.parametrize(("before", "after"), [("lookup", "none"), ("none", "input")])
def test_another_producer_of_postponed_rows(before: str, after: str) -> None:
    table = keyed(bucket="-2", changelog_producer=before, **POSTPONES)
    write(table, (1, 1))
    compact(table)
    position = position_of(table)
    write(table, (2, 2))
    read = batches(StreamSource(table), position)[1]
    newest = table.snapshots.latest_id() or 0
    read = StreamSource(table)._after(newest) if read.snapshot_id <= newest else read  # or after some empty commits
    changed = altered(table, changelog_producer=after)
    compact(changed)
    write(changed, (3, 3))
    with pytest.raises(NotFoundError, match=rf"with 'changelog-producer' = '{before}'.*missing or repeated"):
        batches(StreamSource(changed), read)


@pytest.mark.parametrize("producers", [("lookup", "input"), ("input", "lookup"), ("full-compaction", "lookup")])
@pytest.mark.parametrize("expires", [False, True])
def test_a_compacted_table_changes_its_producer(producers: tuple[str, str], *, expires: bool) -> None:
    table = keyed(changelog_producer=producers[0])
    write(table, (1, 1))
    compact(table)
    position = position_of(table)
    write(table, (2, 2))
    compact(table)
    early, position = position, position if not expires else position_of(table)
    changed = altered(table, changelog_producer=producers[1])
    write(changed, (3, 3))
    compact(changed)
    if expires:
        StreamSource(table.with_options({"consumer-id": "c"})).commit(position)
        expire(table, 1)
        assert table.snapshots.ids() == [position.snapshot_id, position.snapshot_id + 1]
    found = sorted(r for batch in batches(StreamSource(changed), position)[0] for r in batch)
    assert found == ([(3, 3)] if expires else [(2, 2), (3, 3)])
    assert early.snapshot_id < 4


def test_a_running_query_notices_another_producer() -> None:
    table = keyed(changelog_producer="lookup")
    write(table, (1, 1))
    compact(table)
    source, position = StreamSource(table), position_of(table)
    write(table, (2, 2))
    changed = altered(table, changelog_producer="input")
    write(changed, (3, 3))
    with pytest.raises(NotFoundError, match="missing or repeated"):
        batches(source, position)


def test_a_state_is_read_by_the_producer_of_the_query() -> None:
    table = keyed(changelog_producer="lookup")
    write(table, (1, 1))
    changed = altered(table, changelog_producer="input")
    position = position_of(changed)
    write(changed, (2, 2))
    assert batches(StreamSource(changed), position)[0] == [[(2, 2)]]


def test_a_part_of_a_state_is_of_its_splits_only() -> None:
    table = keyed(changelog_producer="lookup", bucket="3")
    write(table, *((n, n) for n in range(10)))
    compact(table)
    write(table, *((n, n) for n in range(20, 30)))
    source = StreamSource(table.with_options({FILES: "1"}))
    part = source.next_offset(first_offset(source.table), limited=True, newest=source.newest_id())
    assert part is not None
    assert part.index == 0
    assert batches(source, parse_offset(part.to_json()))[0]
    changed = altered(table, changelog_producer="input")
    with pytest.raises(CorruptTableError, match="has read 1 splits of snapshot 3, but they are not among"):
        batches(StreamSource(changed), part)


def test_a_consumer_notices_a_rollback() -> None:
    table = keyed()
    for n in range(6):
        write(table, (n, n))
    source = StreamSource(table.with_options({"consumer-id": "c"}))
    source.commit(position_of(table))
    assert first_offset(source.table).snapshot_id == 7
    execute_rollback(table, plan_rollback(table, snapshot_id=3))
    for newest in (3, 7):
        for n in range(table.snapshots.latest_id() or 0, newest):
            write(table, (20 + n, n))
        with pytest.raises(NotFoundError, match=rf"consumer 'c'.*has read snapshot 6.*newest one is {newest}"):
            first_offset(source.table)
    anew = source.table.with_options({"consumer.ignore-progress": "true"})
    assert first_offset(anew).scan_snapshot


def test_a_consumer_protects_what_an_overwrite_replaces() -> None:
    table = keyed()
    write(table, (1, 1), (2, 2))
    reading = table.with_options({"streaming-read-overwrite": "true", "consumer-id": "c"})
    source = StreamSource(reading, keep_kinds=True)
    position = batches(source, first_offset(reading))[1]
    source.commit(position)
    write_arrow(table, rows(table, (2, 3), (3, 3)), overwrite="static")
    write(table, (4, 4))
    expire(table, 1)
    assert (table.snapshots.ids(), RefStore.of(table).consumers()) == ([1, 2, 3], {"c": 2})
    found = [r for batch in batches(source, position)[0] for r in batch]
    assert sorted(found) == [(1, 1, KINDS["-D"]), (2, 3, KINDS["+I"]), (3, 3, KINDS["+I"]), (4, 4, KINDS["+I"])]


def test_an_overwrite_outlives_the_files_before_it() -> None:
    long = {"changelog.num-retained.max": "2147483647", "changelog.time-retained": "365 d"}
    table = keyed(**{"changelog-producer": "input", **long})
    write(table, (1, 1))
    source = StreamSource(table.with_options({"streaming-read-overwrite": "true"}))
    position = position_of(table)
    write_arrow(table, rows(table, (2, 2)), overwrite="static")
    write(table, (3, 3))
    expire(table, 1)
    with pytest.raises(NotFoundError, match=r"snapshot 1 has expired before it was read.*snapshots 3 to 3"):
        batches(source, position)


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_a_stream_survives_a_rescale(producer: str) -> None:
    table = keyed(changelog_producer=producer, bucket="1")
    write(table, (1, 1))
    compact(table)
    position = position_of(table)
    write(table, (2, 2))
    execute_rescale(plan_rescale(table, 2), None)
    changed = altered(table, bucket="2")
    write(changed, (3, 3))
    compact(changed)
    found = sorted(r for batch in batches(StreamSource(changed), position)[0] for r in batch)
    assert found == [(2, 2), (3, 3)]


def test_a_batch_of_two_processes_is_not_guessed() -> None:
    table = new_table(COLUMNS, options={"write-only": "true"})
    write(table, (9, 9))
    first = written(table, begun(table, 0))
    attempt = table.paths.stream_attempt(QUERY)
    record = json.loads(table.file_io.read(attempt))
    table.file_io.write(attempt, json.dumps({**record, "process": "another"}).encode())
    second = written(table, begun(table, 0))
    complete_write(*second, LocalRunner())
    for n in range(3):
        write(table, (20 + n, n))
    expire(table, 1)
    with pytest.raises(OutcomeUnknownError, match=r"commit 0 of .* another process.* may have made it"):
        complete_write(*first, LocalRunner())
    assert [r["id"] for r in read_arrow(table).to_pylist()].count(0) == 1


def test_a_long_batch_of_one_process_outlives_snapshots() -> None:
    table = new_table(COLUMNS, options={"write-only": "true"})
    write(table, (9, 9))
    run = written(table, begun(table, 0))
    for n in range(3):
        write(table, (20 + n, n))
    expire(table, 1)
    complete_write(*run, LocalRunner())
    assert read_arrow(table).num_rows == 5
