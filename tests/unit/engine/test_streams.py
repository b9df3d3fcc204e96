"""Streams: positions, limits of a batch, what batches read together, and batches that are written again."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.core.scan.splits import Split
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import TableWriter
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.insert import WritePlan, complete_write, plan_write, resume_batch, write_arrow
from paimon_spark.engine.redistribution.postpone_compact import execute_postponed, plan_postponed
from paimon_spark.engine.redistribution.rescale import execute_rescale, plan_rescale
from paimon_spark.engine.rollback import execute_rollback, plan_rollback
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.streaming.offset import StreamLimits, StreamOffset, parse_offset
from paimon_spark.engine.streaming.sink import StreamBatch, begin_batch
from paimon_spark.engine.streaming.source import StreamRead, StreamSource
from paimon_spark.engine.streaming.start import first_offset
from paimon_spark.errors import (
    ConflictError,
    CorruptTableError,
    NotFoundError,
    OptionError,
    OutcomeUnknownError,
    UnsupportedError,
)
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.spec.kinds import BucketMode, RowKind
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.predicate import Comparison
from paimon_spark.testing.faults import FaultFileIO, Recorder
from paimon_spark.testing.tables import new_table, read_arrow
from tests.small_tables import option_keys

COLUMNS = {"id": "INT", "v": "INT"}
FILES = "read.stream.maxFilesPerTrigger"
_NOW = 1 << 42
KINDS = {k.short: int(k) for k in RowKind}


POSTPONES = {"postpone.batch-write-fixed-bucket": "false"}


def keyed(**options: str) -> Table:
    given_options = option_keys(options)
    return new_table(COLUMNS, primary_key=["id"], options={"bucket": "2", "write-only": "true", **given_options})


def rows(table: Table, *values: tuple[int, int], kind: str = "+I") -> pa.Table:
    data = pa.Table.from_arrays([pa.array(c, pa.int32()) for c in zip(*values, strict=True)], names=list(COLUMNS))
    data = data.cast(to_arrow_schema(table.schema.fields).remove_metadata())
    if not table.is_primary_key_table:
        return data
    return data.append_column(ROW_KIND, pa.array([KINDS[kind]] * len(values), pa.int8()))


def write(table: Table, *values: tuple[int, int], kind: str = "+I") -> None:
    write_arrow(table, rows(table, *values, kind=kind))


def compact(table: Table) -> None:
    own = table.with_options({"write-only": "false"})
    if table.bucket_mode is BucketMode.POSTPONE:
        execute_postponed(plan_postponed(own, strategy=Strategy.FULL, default_buckets=2), None, LocalRunner())
    else:
        execute_compaction(plan_compaction(own, strategy=Strategy.FULL), LocalRunner())


def expire(table: Table, retain: int) -> None:
    execute_expire(table, plan_expire(table, ExpireConfig(retain_max=retain, retain_min=1), _NOW))


def batches(source: StreamSource, start: StreamOffset) -> tuple[list[list[tuple[Any, ...]]], StreamOffset]:
    """Return the rows of each batch up to the newest snapshot, and the position of the stream then."""
    found = []
    while (end := source.next_offset(start, limited=True, newest=source.newest_id())) is not None:
        part = source.read(parse_offset(start.to_json()), parse_offset(end.to_json()))
        state = [row for split in part.state for row in read(source, part.table, split)]
        changes = [row for split in part.changes for row in read(source, source.table, split)]
        found.append([*state, *changes])
        start = end
    return found, start


def read(source: StreamSource, table: Table, split: Split) -> list[tuple[Any, ...]]:
    names = tuple(COLUMNS)
    parts = [b.to_pylist() for b in read_split(table, split, names, keep_kinds=source.keep_kinds)]
    return [tuple(r.values()) for part in parts for r in part]


def test_an_offset_is_what_the_checkpoint_holds() -> None:
    offset = StreamOffset(snapshot_id=7, index=3, scan_snapshot=True, time_millis=12)
    assert offset.to_json() == '{"snapshotId":7,"index":3,"scanSnapshot":true,"timeMillis":12}'
    assert parse_offset(offset.to_json()) == offset
    assert parse_offset('{"snapshotId":7,"index":-1,"scanSnapshot":false}') == StreamOffset(snapshot_id=7)
    for wrong in ("", "[]", '{"index":3}', '{"snapshotId":"x"}'):
        with pytest.raises(CorruptTableError, match="as the offset of a Paimon table"):
            parse_offset(wrong)


def test_limits_that_do_not_fit_are_refused() -> None:
    for options, message in [
        ({FILES: "0"}, "cannot be 0"),
        ({"read.stream.minRowsPerTrigger": "5"}, "belong together"),
        ({"read.stream.maxTriggerDelayMs": "5"}, "belong together"),
    ]:
        with pytest.raises(OptionError, match=message):
            StreamLimits.of(CoreOptions(options))


@pytest.mark.parametrize(
    ("limit", "sizes"),
    [
        ({FILES: "2"}, [2, 2, 1]),
        ({"read.stream.maxRowsPerTrigger": "3"}, [3, 2]),
        ({"read.stream.maxBytesPerTrigger": "1"}, [1, 1, 1, 1, 1]),
        ({}, [5]),
    ],
)
def test_a_batch_ends_at_its_limit(limit: dict[str, str], sizes: list[int]) -> None:
    table = new_table(COLUMNS, options={"write-only": "true"})
    for n in range(5):
        write(table, (n, n))
    for start in (StreamOffset(snapshot_id=1), first_offset(table)):
        found, end = batches(StreamSource(table.with_options(limit)), start)
        assert [len(b) for b in found] == sizes
        assert sorted(itertools.chain(*found)) == [(n, n) for n in range(5)]
        assert (end.snapshot_id, end.index, end.scan_snapshot) == (6, -1, False)


def test_a_backlog_is_read_as_far_as_a_batch_goes() -> None:
    table = new_table(COLUMNS, options={"write-only": "true"})
    for n in range(30):
        write(table, (n, n))
    clear_cache()
    recorder = Recorder()
    source = StreamSource(replace(table.with_options({FILES: "2"}), file_io=FaultFileIO(table.file_io, recorder)))
    start = StreamOffset(snapshot_id=1)
    end = source.next_offset(start, limited=True, newest=30)
    assert end is not None
    assert (end.snapshot_id, sum(len(s.files) for s in source.read(start, end).changes)) == (3, 2)
    opened = {path for operation, path in recorder.log if operation in ("read", "read_range", "open_input")}
    assert sum("/snapshot/snapshot-" in path for path in opened) <= 4
    assert 0 < sum("/manifest/" in path for path in opened) <= 6  # a list and its manifest for each snapshot


def test_a_batch_waits_for_its_rows_but_not_for_ever() -> None:
    table = new_table(COLUMNS, options={"write-only": "true"})
    write(table, (1, 1))
    limits = {"read.stream.minRowsPerTrigger": "2", "read.stream.maxTriggerDelayMs": "1000"}
    source, start = StreamSource(table.with_options(limits)), StreamOffset(snapshot_id=1)
    assert source.next_offset(start, limited=True, newest=1, waited_millis=999) is None
    assert source.next_offset(start, limited=True, newest=1, waited_millis=1000) is not None
    assert source.next_offset(start, limited=True, newest=1) is not None
    write(table, (2, 2))
    assert source.next_offset(start, limited=True, newest=2, waited_millis=0) is not None


def test_a_batch_that_cannot_grow_does_not_wait() -> None:
    table = keyed()
    for n in range(2):
        write(table, (n, n))
    start = first_offset(table.with_options({"scan.mode": "from-snapshot-full", "scan.snapshot-id": "1"}))
    limits = {"read.stream.minRowsPerTrigger": "9", "read.stream.maxTriggerDelayMs": "1000"}
    source = StreamSource(table.with_options(limits))
    assert source.next_offset(start, limited=True, newest=1, waited_millis=0) is None
    assert source.next_offset(start, limited=True, newest=2, waited_millis=0) is not None


def test_a_quiet_stream_moves_on_before_snapshots_expire() -> None:
    table = keyed()
    write(table, (1, 1))
    source, start = StreamSource(table), first_offset(table)
    start = source.next_offset(start, limited=True, newest=source.newest_id()) or start
    for n in range(6):
        write_arrow(table, rows(table, (n, n)), overwrite="static")
    end = source.next_offset(start, limited=True, newest=source.newest_id())
    assert end is not None
    assert end.snapshot_id == 8
    found = source.read(start, end)
    assert not found.state
    assert not found.changes


steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True)),
        st.tuples(st.just("delete"), st.lists(st.integers(0, 5), min_size=1, max_size=2, unique=True)),
        st.tuples(st.just("compact"), st.just([])),
        st.tuples(st.just("read"), st.just([])),
    ),
    min_size=1,
    max_size=12,
)


@given(
    history=steps,
    producer=st.sampled_from(["none", "input", "lookup", "full-compaction"]),
    vectors=st.booleans(),
    bucket=st.sampled_from(["2", "-2"]),
    files=st.integers(1, 3) | st.none(),
)
@settings(deadline=None, max_examples=80)
def test_changes_in_their_order_are_the_table(
    history: Any, producer: str, bucket: str, *, vectors: bool, files: int | None
) -> None:
    with_vectors = vectors and producer != "full-compaction"
    table = keyed(bucket=bucket, changelog_producer=producer, deletion_vectors_enabled=str(with_vectors).lower())
    table = table.with_options(POSTPONES)
    write(table, (0, -1), (1, -1))
    if bucket == "2":
        compact(table)
    source = StreamSource(table.with_options({FILES: str(files)} if files else {}), keep_kinds=True)
    source.check()
    offset, copy = first_offset(table), dict[int, int]()
    for number, (step, ids) in enumerate([*history, ("compact", []), ("read", [])]):
        if step == "write":
            write(table, *((i, number) for i in ids))
        elif step == "delete":
            write(table, *((i, number) for i in ids), kind="-D")
        elif step == "compact":
            compact(table)
        else:
            found, offset = batches(source, offset)
            for i, value, kind in itertools.chain(*found):
                if kind in (RowKind.INSERT, RowKind.UPDATE_AFTER):
                    copy[i] = value
                elif copy.get(i) is not None and (kind == RowKind.DELETE or copy[i] == value):
                    del copy[i]
    assert sorted(copy.items()) == sorted(tuple(r.values()) for r in read_arrow(table).to_pylist())


def test_a_position_behind_a_rollback_is_refused() -> None:
    table = keyed()
    for n in range(3):
        write(table, (n, n))
    source = StreamSource(table)
    end = source.next_offset(first_offset(table), limited=True, newest=3)
    assert end is not None
    execute_rollback(table, plan_rollback(table, snapshot_id=1))
    with pytest.raises(NotFoundError, match="rolled back"):
        source.next_offset(end, limited=True, newest=1)
    for n in range(4):
        write(table, (n, 7))
    with pytest.raises(NotFoundError, match="rolled back"):
        source.next_offset(end, limited=True, newest=5)


def test_a_start_beyond_the_newest_snapshot_is_refused() -> None:
    table = keyed()
    for n in range(5):
        write(table, (n, n))
    StreamSource(table.with_options({"consumer-id": "c"})).commit(StreamOffset(snapshot_id=6))
    execute_rollback(table, plan_rollback(table, snapshot_id=2))
    for options in ({"consumer-id": "c"}, {"scan.snapshot-id": "4"}):
        source = StreamSource(table.with_options(options))
        with pytest.raises(NotFoundError, match=r"cannot begin at snapshot \d.*the newest snapshot is 2"):
            source.next_offset(first_offset(source.table), limited=True, newest=2)
    source = StreamSource(table.with_options({"scan.snapshot-id": "3"}))
    assert source.next_offset(first_offset(source.table), limited=True, newest=2) is None
    empty = StreamSource(keyed())
    assert empty.next_offset(first_offset(empty.table), limited=True, newest=0) is None


def test_a_consumer_protects_what_is_not_read() -> None:
    table = keyed()
    for n in range(3):
        write(table, (n, n))
    source = StreamSource(table.with_options({"consumer-id": "c"}))
    source.commit(StreamOffset(snapshot_id=2, index=0, scan_snapshot=True))
    assert RefStore.of(table).consumers() == {}
    source.commit(StreamOffset(snapshot_id=2))
    assert RefStore.of(table).consumers() == {"c": 2}
    expire(table, 1)
    assert table.snapshots.ids() == [2, 3]
    assert first_offset(source.table) == StreamOffset(snapshot_id=2)


def read_between(source: StreamSource, start: StreamOffset) -> list[StreamRead]:
    """Return what each micro-batch reads up to the newest snapshot."""
    found = []
    while (end := source.next_offset(start, limited=True, newest=source.newest_id())) is not None:
        found.append(source.read(start, end))
        start = end
    return found


@pytest.mark.parametrize("producer", ["none", "input"])
def test_changes_in_an_order_are_not_for_native_scans(producer: str) -> None:
    table = keyed(bucket="1", changelog_producer=producer)
    for n in range(2):
        write(table, (1, n))
    (both,) = read_between(StreamSource(table), StreamOffset(snapshot_id=1))
    assert [(len(s.files), s.raw) for s in both.changes] == [(2, False)]
    (one,) = read_between(StreamSource(table), StreamOffset(snapshot_id=2))
    assert [(len(s.files), s.raw) for s in one.changes] == [(1, producer == "none")]


def test_a_batch_ends_where_the_state_ends() -> None:
    table = keyed()
    for n in range(3):
        write(table, (1, n))
    start = first_offset(table.with_options({"scan.mode": "from-snapshot-full", "scan.snapshot-id": "1"}))
    found = read_between(StreamSource(table), start)
    assert [(len(b.state), [len(s.files) for s in b.changes]) for b in found] == [(1, []), (0, [2])]


def test_a_batch_ends_where_a_key_may_change_its_bucket() -> None:
    table = keyed(bucket="1")
    write(table, (1, 0))
    wider = replace(table.schema, id=1, options={**table.schema.options, "bucket": "4"})
    table.schema_store.try_create(wider)
    table = Table.of(table.identifier, table.path, wider, table.file_io)
    execute_rescale(plan_rescale(table, 4), None)
    for n in (2, 3):
        write(table, (1, n))
    for options in ({}, {FILES: "9"}):
        found = read_between(StreamSource(table.with_options(options)), StreamOffset(snapshot_id=1))
        assert [[(s.total_buckets, len(s.files)) for s in b.changes] for b in found] == [[(1, 1)], [(4, 2)]]


def test_an_overwrite_of_several_buckets_is_read_completely() -> None:
    table = new_table(COLUMNS, options={"bucket": "2", "bucket-key": "id", "write-only": "true"})
    values = [[(n, n + 10 * turn) for n in range(8)] for turn in range(4)]
    write(table, *values[0])
    for replacement in values[1:3]:
        write_arrow(table, rows(table, *replacement), overwrite="static")
    write(table, *values[3])
    source = StreamSource(table.with_options({"streaming-read-append-overwrite": "true"}))
    found = read_between(source, StreamOffset(snapshot_id=1))
    assert [sum(s.file_rows for s in b.changes) for b in found] == [8, 8, 16]
    for limit in ({}, {FILES: "1"}):
        limited = StreamSource(source.table.with_options(limit))
        of_batches, end = batches(limited, StreamOffset(snapshot_id=1))
        assert sorted(itertools.chain(*of_batches)) == sorted(itertools.chain(*values))
        assert (end.snapshot_id, end.index) == (5, -1)


def test_a_batch_has_postponed_rows_or_rows_of_buckets() -> None:
    table = keyed(bucket="-2", sequence__field="v")
    postponing = table.with_options(POSTPONES)
    for n, own in enumerate((postponing, table, table, postponing, postponing)):
        write(own, (1, n))
    for options in ({}, {FILES: "9"}):
        found = read_between(StreamSource(table.with_options(options)), StreamOffset(snapshot_id=1))
        assert [[(s.bucket, len(s.files)) for s in b.changes] for b in found] == [[(-2, 1)], [(0, 2)], [(-2, 2)]]
        assert [s.raw for b in found for s in b.changes] == [False] * 3


def test_a_filter_never_leaves_out_postponed_rows() -> None:
    table = keyed(bucket="-2").with_options(POSTPONES)
    write(table, (9, 1), (1, 2), (5, 3))  # not in the order of the keys
    write(table, (6, 4))
    source, six = StreamSource(table), Comparison("=", "id", 6)
    for start in (first_offset(table), StreamOffset(snapshot_id=1)):
        part = source.read(start, StreamOffset(snapshot_id=3), six)
        found = [r for s in (*part.state, *part.changes) for r in read(source, part.table, s)]
        assert (6, 4) in found


def test_files_of_a_time_may_be_postponed() -> None:
    table = keyed(bucket="-2").with_options(POSTPONES)
    write(table, (1, 1))
    later = table.with_options({"scan.file-creation-time-millis": str(_NOW)})
    assert batches(StreamSource(later), first_offset(later))[0] == []
    all_of_them = table.with_options({"scan.file-creation-time-millis": "1"})
    assert batches(StreamSource(all_of_them), first_offset(all_of_them))[0] == [[(1, 1)]]


@pytest.mark.parametrize("option", [{"scan.bucket": "1"}, {"streaming-read-overwrite": "true"}])
def test_options_of_buckets_are_refused_for_postponed_rows(option: dict[str, str]) -> None:
    with pytest.raises(UnsupportedError, match=f"'{next(iter(option))}' does not apply.*postponed rows"):
        StreamSource(keyed(bucket="-2").with_options(option)).check()
    StreamSource(keyed(bucket="-2", changelog_producer="input").with_options(option)).check()


def moving(**options: str) -> Table:
    columns = {"id": "INT", "p": "INT", "v": "INT"}
    given_options = option_keys(options)
    return new_table(columns, primary_key=["id"], partition=["p"], options={"bucket": "-1", **given_options})


def test_rows_that_move_are_read_commit_by_commit() -> None:
    table = moving(changelog_producer="lookup")
    for n in range(2):
        data = pa.table({"id": [1], "p": [1 - n], "v": [n]}, schema=to_arrow_schema(table.schema.fields))
        write_arrow(table, data)
    found = read_between(StreamSource(table), StreamOffset(snapshot_id=1))
    values = [
        [v for s in batch.changes for b in read_split(table, s, ("p", "v")) for v in b.to_pylist()] for batch in found
    ]
    assert values == [[{"p": 1, "v": 0}], [{"p": 0, "v": 1}]]


@pytest.mark.parametrize(
    ("table", "kinds", "message"),
    [
        (moving(changelog_producer="lookup"), True, "with their kinds.*have no order"),
        (moving(), False, "move between partitions"),
        (moving(changelog_producer="input"), False, "move between partitions"),
        (keyed(merge_engine="first-row"), False, "'merge-engine' = 'first-row'"),
        (keyed(merge_engine="aggregation"), False, "'merge-engine' = 'aggregation'"),
        (keyed(merge_engine="partial-update"), True, "'merge-engine' = 'partial-update'"),
    ],
)
def test_changes_that_tell_no_state_are_refused(table: Table, message: str, *, kinds: bool) -> None:
    with pytest.raises(UnsupportedError, match=message):
        StreamSource(table, keep_kinds=kinds).check()


def test_merged_changes_are_a_stream() -> None:
    for producer in ("lookup", "full-compaction"):
        StreamSource(moving(changelog_producer=producer)).check()
        StreamSource(keyed(changelog_producer=producer, merge_engine="partial-update"), keep_kinds=True).check()
    StreamSource(keyed(changelog_producer="input", merge_engine="aggregation")).check()


QUERY = "6b1f0d0c-0000-4000-8000-000000000000"


def commit(table: Table, number: int, offsets: str = "o", **options: str) -> bool:
    """Write a row as a batch of a query, unless the table has the batch; return whether it was written."""
    own = table.with_options(option_keys(options))
    batch = begin_batch(own, StreamBatch(QUERY, number, f"{offsets}-{number}"))
    if batch is None:
        return False
    plan, messages = written(own, batch)
    complete_write(plan, messages, LocalRunner())
    return True


def written(table: Table, batch: StreamBatch) -> tuple[WritePlan, list[CommitMessage]]:
    """Write the row of a batch, up to its commit."""
    plan = plan_write(table, batch=batch)
    with TableWriter(table, plan.info) as writer:
        for part in rows(table, (batch.batch, batch.batch)).to_batches():
            writer.write(part)
        return plan, writer.finish()


def begun(table: Table, number: int, offsets: str = "o") -> StreamBatch:
    batch = begin_batch(table, StreamBatch(QUERY, number, f"{offsets}-{number}"))
    assert batch is not None
    return batch


def test_two_runs_of_a_query_commit_a_batch_once() -> None:
    table = new_table(COLUMNS, options={"write-only": "true"})
    first, second = (written(table, begun(table, 0)) for _ in range(2))
    write(table, (9, 9))
    for run in (first, second):
        complete_write(*run, LocalRunner())
    assert sorted(r["id"] for r in read_arrow(table).to_pylist()) == [0, 9]
    assert [s.commit_user == QUERY for s in map(table.snapshots.get, table.snapshots.ids())] == [False, True]


def test_two_runs_with_other_offsets_conflict() -> None:
    table = new_table(COLUMNS, options={"write-only": "true"})
    first, second = (written(table, begun(table, 0, offsets)) for offsets in ("o", "other"))
    complete_write(*first, LocalRunner())
    with pytest.raises(ConflictError, match="snapshot 1 has another commit of that number"):
        complete_write(*second, LocalRunner())
    assert read_arrow(table).num_rows == 1


def test_an_older_checkpoint_is_refused_after_expiry() -> None:
    table = keyed()
    for n in range(3):
        commit(table, n)
    write(table, (7, 7))
    begun(table, 5)
    expire(table, 1)
    with pytest.raises(ConflictError, match=r"batch 5 of it was begun at snapshot 4.*attempt-"):
        commit(table, 1)
    write(table, (8, 8))
    begun(table, 6)
    execute_rollback(table, plan_rollback(table, snapshot_id=4))
    assert commit(table, 1)


def test_a_batch_records_its_watermark_and_its_query() -> None:
    table = keyed()
    commit(table, 0, **{"end-input.watermark": "1000"})
    newest = table.snapshots.latest()
    assert newest is not None
    assert (newest.watermark, newest.commit_user) == (1000, QUERY)
    later = begun(table, 1)
    complete_write(*written(table, replace(later, watermark=2000)), LocalRunner())
    assert [table.snapshots.get(n).watermark for n in (1, 2)] == [1000, 2000]
    with pytest.raises(OptionError, match=r"'commit\.user-prefix' = 'etl' does not apply to a streaming write"):
        commit(table, 2, **{"commit.user-prefix": "etl"})


def test_the_batches_of_a_stream_are_postponed() -> None:
    table = keyed(bucket="-2", write_only="false")
    for n in range(2):
        commit(table, n)
    assert read_arrow(table).num_rows == 0
    live = live_in_partitions(ManifestStore(table), table.snapshots.latest(), None)
    names = [e.file.file_name.split("-w-")[0] for e in live]
    assert [name.rsplit("-s-", 1)[0] for name in names] == [f"data--u-{QUERY}"] * 2
    compact(table)
    assert sorted(r["id"] for r in read_arrow(table).to_pylist()) == [0, 1]


def test_a_batch_is_written_once_whoever_writes_between() -> None:
    table = keyed()
    assert commit(table, 0)
    write(table, (9, 9))
    assert not commit(table, 0)
    assert commit(table, 1)
    assert [(s.commit_identifier, s.commit_user == QUERY) for s in map(table.snapshots.get, (1, 3))] == [
        (0, True),
        (1, True),
    ]


def test_an_older_checkpoint_is_refused() -> None:
    table = keyed()
    for n in range(3):
        commit(table, n)
    with pytest.raises(ConflictError, match="older than the table"):
        commit(table, 1)
    with pytest.raises(ConflictError, match="another batch 2"):
        commit(table, 2, offsets="other")
    execute_rollback(table, plan_rollback(table, snapshot_id=2))
    assert commit(table, 2, offsets="other")


def test_a_batch_of_expired_snapshots_is_not_guessed() -> None:
    table = keyed()
    commit(table, 0)
    for n in range(3):
        write(table, (n, n))
    expire(table, 1)
    with pytest.raises(OutcomeUnknownError, match=r"not known whether batch 0.*attempt-"):
        commit(table, 0)
    assert commit(table, 1)
    begun(table, 2)  # and the process dies
    write(table, (5, 5))
    assert commit(table, 2)


def test_a_stream_compacts_fully_after_so_many_batches() -> None:
    table = keyed(**{"changelog-producer": "full-compaction", "full-compaction.delta-commits": "2"})
    for n in range(4):
        commit(table, n, write_only="false")
    kinds = [table.snapshots.get(n).commit_kind for n in table.snapshots.ids()]
    assert kinds == ["APPEND", "APPEND", "COMPACT", "APPEND", "APPEND", "COMPACT"]
    assert not commit(table, 3, write_only="false")


def test_a_replay_repeats_the_compaction_that_was_missed() -> None:
    table = keyed(changelog_producer="lookup")
    commit(table, 0)  # write-only: as a process that died before the compaction
    own = table.with_options({"write-only": "false"})
    assert not begin_batch(own, StreamBatch(QUERY, 0, "o-0"))
    resume_batch(plan_write(own, batch=StreamBatch(QUERY, 0, "o-0")), LocalRunner())
    newest = table.snapshots.latest()
    assert newest is not None
    assert (newest.commit_kind, newest.changelog_record_count) == ("COMPACT", 1)
