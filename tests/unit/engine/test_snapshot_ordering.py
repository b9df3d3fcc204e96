"""Tables whose versions of rows are ordered by snapshot: numbers of files and rows, and who wins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.commit.change_set import Change, append_part
from paimon_spark.core.commit.committer import FileStoreCommit
from paimon_spark.core.merge.config import SYSTEM_FIELDS
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.read.superseded_rows import superseded_rows
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import TableWriter
from paimon_spark.engine.clone import plan_clone
from paimon_spark.engine.compaction.compact import Strategy
from paimon_spark.engine.insert import finish_write, plan_write, write_arrow
from paimon_spark.engine.rollback_as_latest import execute_as_latest, plan_as_latest
from paimon_spark.engine.select import ReadOptions, plan_select
from paimon_spark.errors import CorruptTableError, OptionError, UnsupportedError
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.spec.evolution import RemoveOption, SetOption, apply_changes
from paimon_spark.spec.features import check_writable
from paimon_spark.spec.kinds import SEQUENCE_NUMBER, CommitKind, FileSource
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.testing.invariants import violations
from tests.small_tables import frame, rows, sorted_rows
from tests.unit.engine.changelogs import changes, compact, keyed, put

ORDERED = {"sequence__snapshot_ordering": "true", "write_only": "true"}


def ordered(**options: str) -> Table:
    return keyed({"k": "INT", "v": "STRING"}, **ORDERED, **options)


def files(table: Table) -> list[DataFileMeta]:
    found = (e.file for e in scan(table, table.snapshots.latest()).entries)
    return sorted(found, key=lambda f: (f.max_sequence_number, f.file_name))


def spans(table: Table) -> list[tuple[int, int, int]]:
    """Return the level and the sequence numbers of each file."""
    return [(f.level, f.min_sequence_number, f.max_sequence_number) for f in files(table)]


def numbers(table: Table) -> dict[int, int]:
    """Return the number that the file of each row stores."""
    out: dict[int, int] = {}
    plain = replace(table, options=replace(table.options, values={}))
    for e in scan(table, table.snapshots.latest()).entries:
        for chunk in BucketFiles(plain, e.partition, e.bucket).chunks(e.file, (*SYSTEM_FIELDS, *table.key_fields)):
            out |= dict(zip(chunk.column("k").to_pylist(), chunk.column(SEQUENCE_NUMBER).to_pylist(), strict=True))
    return out


def test_the_snapshot_is_the_number_of_new_files() -> None:
    table = ordered()
    put(table, *((k, "old") for k in range(50)))
    put(table, (1, "new"))
    put(table, ("-D", 2, None))
    assert spans(table) == [(0, 1, 1), (0, 2, 2), (0, 3, 3)]
    assert [r for r in sorted_rows(table) if r[0] < 4] == [(0, "old"), (1, "new"), (3, "old")]
    assert violations(table) == []


def test_the_later_commit_wins_whatever_was_written_first() -> None:
    table = ordered()
    put(table, *((k, "first") for k in range(100)))
    early = plan_write(table)
    with TableWriter(early.table, early.info) as writer:
        writer.write(frame(table, [(7, "written early, committed late")]).to_batches()[0])
        messages = writer.finish()
    put(table, *((k, "second") for k in range(100)))
    finish_write(early, messages)
    assert spans(table) == [(0, 1, 1), (0, 2, 2), (0, 3, 3)]
    assert dict(rows(table))[7] == "written early, committed late"
    compact(table)
    assert dict(rows(table))[7] == "written early, committed late"
    assert numbers(table) == dict.fromkeys(range(100), 2) | {7: 3}
    assert spans(table) == [(5, 2, 3)]


def test_each_attempt_of_a_commit_counts_for_itself() -> None:
    table = ordered()
    put(table, (1, "first"))
    plan = plan_write(table)
    with TableWriter(plan.table, plan.info) as writer:
        writer.write(frame(table, [(1, "mine")]).to_batches()[0])
        change = append_part(writer.finish())
    attempts = 0

    def losing(_store: ManifestStore, _base: Snapshot | None) -> Change:
        nonlocal attempts
        attempts += 1
        if attempts in (2, 3):
            put(table, (1, f"other {attempts}"))
        return change

    FileStoreCommit(table, sleep=lambda _: None).commit_plan(losing, CommitKind.APPEND)
    assert attempts == 4
    assert spans(table) == [(0, i, i) for i in (1, 2, 3, 4)]
    assert rows(table) == [(1, "mine")]


@pytest.mark.parametrize("strategy", [Strategy.FULL, Strategy.MINOR])
@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_compactions_write_the_snapshots_of_the_rows(form: str, strategy: Strategy) -> None:
    table = ordered(file__format=form, num_sorted_run__compaction_trigger="2")
    for i in range(4):
        put(table, *((k, f"{i}") for k in range(i, 40)))
        if i == 2:
            compact(table, strategy)
    want = [(k, f"{min(k, 3)}") for k in range(40)]
    assert sorted_rows(table) == want
    compact(table, strategy)
    assert sorted_rows(table) == want
    if strategy is Strategy.FULL:  # of which the first was snapshot 4
        assert numbers(table) == {k: (1, 2, 3, 5)[min(k, 3)] for k in range(40)}
    put(table, (0, "last"))
    assert sorted_rows(table) == [(0, "last"), *want[1:]]


def test_a_moved_file_keeps_its_snapshot() -> None:
    table = ordered()
    put(table, (1, "a"), (2, "b"))
    compact(table)
    (moved,) = files(table)
    assert (moved.level, moved.file_source, moved.min_sequence_number) == (5, FileSource.APPEND, 1)
    put(table, (1, "c"))
    assert sorted_rows(table) == [(1, "c"), (2, "b")]
    compact(table)
    assert numbers(table) == {1: 3, 2: 1}


def test_native_readers_leave_out_what_is_superseded() -> None:
    table = ordered()
    put(table, *((k, "first") for k in range(30)))
    early = plan_write(table)
    put(table, (3, "second"))
    with TableWriter(early.table, early.info) as writer:
        writer.write(frame(table, [(3, "third")]).to_batches()[0])
        finish_write(early, writer.finish())
    (split,) = plan_select(table).splits
    oldest, middle, _ = sorted(split.files, key=lambda f: f.min_sequence_number)
    found = {path.rsplit("/", 1)[1]: list(rows) for path, rows in superseded_rows(table, split)}
    assert found == {oldest.file_name: [3], middle.file_name: [0]}


def test_the_audit_log_has_the_snapshots() -> None:
    table = ordered()
    put(table, (1, "a"), (2, "a"))
    put(table, (2, "b"))
    put(table, ("-D", 1, None))
    plan = plan_select(table, how=ReadOptions(keep_kinds=True))
    found = [
        (r["k"], r[ROW_KIND], r[SEQUENCE_NUMBER])
        for split in plan.splits
        for batch in read_split(table, split, ["k"], keep_kinds=True, metadata_columns=[SEQUENCE_NUMBER])
        for r in batch.to_pylist()
    ]
    assert sorted(found) == [(1, 3, 3), (2, 0, 2)]


def test_a_changelog_follows_the_snapshots() -> None:
    table = ordered(changelog_producer="lookup")
    put(table, (1, "a"))
    compact(table)
    early = plan_write(table)
    put(table, (1, "b"))
    with TableWriter(early.table, early.info) as writer:
        writer.write(frame(table, [(1, "c")]).to_batches()[0])
        finish_write(early, writer.finish())
    compact(table)
    assert changes(table) == [[("+I", 1, "a")], [("-U", 1, "a"), ("+U", 1, "c")]]


def test_partial_updates_are_applied_in_the_order_of_snapshots() -> None:
    table = keyed({"k": "INT", "a": "STRING", "b": "STRING"}, merge_engine="partial-update", **ORDERED)
    put(table, (1, "a1", "b1"))
    early = plan_write(table)
    put(table, (1, "a2", None))
    with TableWriter(early.table, early.info) as writer:
        writer.write(frame(table, [(1, "a3", None)]).to_batches()[0])
        finish_write(early, writer.finish())
    assert rows(table) == [(1, "a3", "b1")]
    compact(table)
    assert rows(table) == [(1, "a3", "b1")]


def test_restored_files_keep_their_order() -> None:
    table = ordered()
    put(table, (1, "a"))
    put(table, (1, "b"))
    compact(table)
    put(table, (1, "c"))
    compact(table)
    execute_as_latest(table, plan_as_latest(table, snapshot_id=2, clock_millis=4_102_444_800_000))
    assert spans(table) == [(0, 1, 1), (0, 2, 2)]
    assert rows(table) == [(1, "b")]
    put(table, (1, "d"))
    assert rows(table) == [(1, "d")]
    compact(table)
    assert rows(table) == [(1, "d")]
    assert violations(table) == []


def test_an_overwrite_is_newer_than_what_it_replaces() -> None:
    table = ordered()
    put(table, (1, "a"), (2, "a"))
    put(table, (1, "b"), overwrite="static")
    assert spans(table) == [(5, 2, 2)]
    put(table, (1, "c"))
    assert rows(table) == [(1, "c")]


def test_files_without_a_source_are_refused() -> None:
    table = ordered()
    put(table, (1, "a"))
    put(table, (1, "b"))
    (split,) = plan_select(table).splits
    told = replace(split, files=tuple(replace(f, file_source=None) for f in split.files))
    for read in (read_split, superseded_rows):
        with pytest.raises(CorruptTableError, match="cannot be ordered by snapshot"):
            list(read(table, told))


def test_copies_are_refused(tmp_path: Path) -> None:
    table = ordered()
    put(table, (1, "a"))
    other = replace(table, path=str(tmp_path), file_io=LocalFileIO())
    with pytest.raises(UnsupportedError, match=r"ordered by its own snapshots.* INSERT INTO"):
        plan_clone(table, other, exists=False)


def test_postponed_buckets_are_read_only() -> None:
    table = ordered(bucket="-2")
    with pytest.raises(UnsupportedError, match=r"'sequence.snapshot-ordering' = 'true' and postponed buckets"):
        check_writable(table.schema)
    assert rows(table) == []


def test_the_option_is_fixed_once_there_are_rows() -> None:
    schema = ordered().schema
    for change in (
        SetOption("sequence.snapshot-ordering", "false"),
        RemoveOption("sequence.snapshot-ordering"),
    ):
        with pytest.raises(OptionError, match="cannot change"):
            apply_changes(schema, [change], 0, has_snapshots=True)
        assert apply_changes(schema, [change], 0, has_snapshots=False).options != schema.options
    for change in (SetOption("write-only", "false"), RemoveOption("write-only"), SetOption("sequence.field", "v")):
        with pytest.raises(OptionError, match=r"'sequence.snapshot-ordering'"):
            apply_changes(schema, [change], 0, has_snapshots=True)
    with pytest.raises(OptionError, match="cannot be set for one statement"):
        keyed().with_options({"sequence.snapshot-ordering": "true"})


@pytest.mark.parametrize(
    ("buffer", "space"),
    [("64 kb", {"write_buffer_spillable": "false"}), ("1 mb", {"write_buffer_spill__max_disk_size": "1 kb"})],
    ids=["memory", "disk"],
)
def test_a_statement_that_does_not_fit_is_refused(buffer: str, space: dict[str, str]) -> None:
    table = ordered(write_buffer_size=buffer, **space)
    put(table, (1, "a"))
    parts = [frame(table, [(k, text) for k in range(start, 80_000)]) for start, text in ((500, "old"), (0, "new"))]
    with pytest.raises(OptionError, match="fit neither into the write buffer"):
        write_arrow(table, parts)
    assert sorted_rows(table) == [(1, "a")]
