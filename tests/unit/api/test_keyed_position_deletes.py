"""DELETE on tables with a primary key and deletion vectors: rows are marked where that is equal to writing retracts."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_spark.api.table import TableHandle
from paimon_spark.core.columns import FILE_PATH, ROW_INDEX, VECTOR
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.write.table_writer import TableWriter
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.insert import complete_write, plan_write
from paimon_spark.engine.row_level import plan_changes, row_changer
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import EngineError
from paimon_spark.fs.base import FileIO
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.kinds import CommitKind, FileKind, Operation, RowKind
from paimon_spark.testing.faults import FaultFileIO, Mode
from paimon_spark.testing.history import PARTS, History
from paimon_spark.testing.invariants import leaked, violations
from paimon_spark.testing.scenarios import SHOWN, Kind, Row, create, open_warehouse, read_rows, rows_of
from paimon_spark.testing.tables import read_arrow
from tests.variants import every

MARKS = {"deletion-vectors.enabled": "true", "deletion-vectors.mark-deletes": "true", "write-only": "false"}
VECTORS = {**MARKS, "bucket": "2"}
DYNAMIC = {**MARKS, "dynamic-bucket.target-row-num": "3"}
REMOVING = {"merge-engine": "aggregation", "aggregation.remove-record-on-delete": "true"}
FIRST: list[Row] = [(k, "ab"[k % 2], k) for k in range(20)]
MARKED: Mapping[str, Mapping[str, str]] = {
    "fixed buckets": VECTORS,
    "dynamic buckets": DYNAMIC,
    "orc, 64 bit": {**VECTORS, "file.format": "orc", "deletion-vectors.bitmap64": "true"},
    "aggregation": {**VECTORS, **REMOVING},
    "partial update": {**VECTORS, "merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
}
WRITTEN: Mapping[str, Mapping[str, str]] = {
    "an older row may come later": {"sequence.field": "v"},
    "a changelog of what is written": {"changelog-producer": "input"},
    "a changelog of lookups": {"changelog-producer": "lookup"},
    "another job compacts": {"write-only": "true", "deletion-vectors.merge-on-read": "true"},
    "no vectors": {"deletion-vectors.enabled": "false"},
    "nobody asked": {"deletion-vectors.mark-deletes": "false"},
}


def made(options: Mapping[str, str] = VECTORS, *, store: FileIO | None = None) -> TableHandle:
    table = create(open_warehouse(store or InMemoryFileIO()), Kind(("k",)), options)
    table.append(rows_of(FIRST))
    return table


def written_files(table: TableHandle) -> int:
    """Return how many data files at level 0 the statements of a table added."""
    store = table.load().snapshots
    manifests = ManifestStore(table.load())
    return sum(
        e.kind is FileKind.ADD and e.file.level == 0
        for s in map(store.get, store.ids())
        if s.commit_kind is not CommitKind.COMPACT
        for e in manifests.delta_entries(s)
    )


def data_files(table: TableHandle) -> set[str]:
    return set(table.inspect("files").column("file_path").to_pylist())


def sound(table: TableHandle) -> None:
    assert violations(table.load()) == []
    assert leaked(table.load()) == set()


@pytest.mark.parametrize("options", MARKED.values(), ids=MARKED)
def test_deleted_rows_are_marked_where_they_lie(options: Mapping[str, str]) -> None:
    table = made(options)
    before, files = written_files(table), data_files(table)
    assert table.delete("k IN (3, 4, 11) OR v > 17").rows == 5
    assert written_files(table) == before
    assert data_files(table) == files
    assert read_rows(table) == tuple(r for r in FIRST if r[0] not in (3, 4, 11, 18, 19))
    table.append(rows_of([(3, "z", 300), (50, "z", 500)]))
    assert table.delete("k = 3 OR k = 5").rows == 2
    assert read_rows(table) == (*(r for r in FIRST if r[0] not in (3, 4, 5, 11, 18, 19)), (50, "z", 500))
    table.compact()
    assert table.count() == 15
    sound(table)


@pytest.mark.parametrize("options", WRITTEN.values(), ids=WRITTEN)
def test_rows_are_written_where_marks_would_not_be_equal(options: Mapping[str, str]) -> None:
    table = made({**VECTORS, **options})
    before = written_files(table)
    assert table.delete("k IN (3, 4)").rows == 2
    assert written_files(table) > before
    assert read_rows(table) == tuple(r for r in FIRST if r[0] not in (3, 4))
    sound(table)


def open_handle(table: TableHandle, options: Mapping[str, str]) -> TableHandle:
    return open_warehouse(table.load().file_io).table(table.name, options)


def test_versions_at_level_0_are_deleted_by_rows() -> None:
    """A version that no compaction has moved up must not reappear when the one above it is marked."""
    table = made({**VECTORS, "bucket": "1"})
    waiting = open_handle(table, {"write-only": "true"})
    waiting.append(rows_of([(4, "new", 400), (5, "new", 500)]))
    before = written_files(table)
    assert table.delete("k IN (4, 6) AND (v = 400 OR v = 6)").rows == 2
    assert written_files(table) == before + 1
    assert {r[0]: r[2] for r in read_rows(table)} == {k: v for k, _, v in FIRST if k not in (4, 6)} | {5: 500}
    sound(table)


def test_written_rows_have_all_values_of_their_files() -> None:
    """Nanoseconds included, which Spark would cut off."""
    schema = pa.schema([pa.field("k", pa.int32(), nullable=False), pa.field("at", pa.timestamp("ns"), nullable=False)])
    made = open_warehouse(InMemoryFileIO()).create_table("t", schema, primary_key="k", options={**MARKS, "bucket": "1"})
    waiting = open_handle(made, {"write-only": "true"})
    waiting.append(pa.table({"k": [1, 2, 3], "at": [10, 20, 1_000_000_007]}, schema))
    assert made.delete("k > 1").rows == 2
    table = made.load()
    (entry,) = (
        e
        for e in ManifestStore(table).delta_entries(table.snapshots.get(2))
        if e.kind is FileKind.ADD and e.file.level == 0
    )
    stored = pq.read_table(io.BytesIO(table.file_io.read(table.paths.data_file(entry.partition, 0, entry.file))))
    assert stored.column("_VALUE_KIND").to_pylist() == [int(RowKind.DELETE)] * 2
    assert stored.column("at").cast(pa.int64()).to_pylist() == [20, 1_000_000_007]


@pytest.mark.parametrize("compacted", [True, False])
def test_a_position_beyond_the_end_of_a_file_is_refused(compacted: bool) -> None:
    """Whether the row would be marked, or retracted because it is at level 0."""
    made = create(open_warehouse(InMemoryFileIO()), Kind(("k",)), {**VECTORS, "bucket": "1"})
    (made if compacted else open_handle(made, {"write-only": "true"})).append(rows_of(FIRST))
    (path,) = data_files(made)
    batch = pa.record_batch(
        {FILE_PATH: [path], ROW_INDEX: pa.array([len(FIRST)], pa.int64()), VECTOR: pa.nulls(1, pa.int64())}
    )
    plan = plan_changes(made.load(), Operation.DELETE)
    with row_changer(plan.table, plan.info) as changer, pytest.raises(EngineError, match="beyond the end of the file"):
        changer.change(batch)
    assert read_rows(made) == (tuple(FIRST) if compacted else ())


def test_a_late_writer_with_smaller_sequence_numbers() -> None:
    """Its rows lie at level 0 beside a newer version above; deleting the newer must not show the older."""
    table = made({**VECTORS, "bucket": "1"})
    plan = plan_write(table.load())
    slow = TableWriter(plan.table, plan.info)
    slow.write(rows_of([(7, "slow", 70)]))
    messages = slow.finish()
    table.append(rows_of([(1, "x", 1), (7, "fast", 71)]))
    complete_write(plan_write(open_handle(table, {"write-only": "true"}).load()), messages, LocalRunner())
    expected = {r[0]: r for r in merged(table)}
    assert expected[7][1] == "fast"
    table.delete("v = 71")
    assert 7 not in {r[0] for r in merged(table)}
    assert 7 not in {r[0] for r in read_rows(table)}
    sound(table)


def merged(table: TableHandle) -> list[Row]:
    found = read_arrow(table.load().with_options({"deletion-vectors.merge-on-read": "true"})).to_pylist()
    return [tuple(r.values()) for r in found]


class Interruption:
    """Runs something once, before the first index file is written."""

    def __init__(self, run: Callable[[], object]) -> None:
        self.run: Callable[[], object] | None = run

    def choose(self, operation: str, path: str) -> Mode | None:
        run = self.run
        if run is not None and operation == "write" and "/index/" in path:
            self.run = None
            run()
        return None


def compact_fully(table: TableHandle) -> None:
    loaded = table.load().with_options({"write-only": "false"})
    execute_compaction(plan_compaction(loaded, strategy=Strategy.FULL), LocalRunner())


INTERRUPTIONS: Mapping[str, tuple[Callable[[TableHandle], object], set[int]]] = {
    "a compaction": (compact_fully, set()),
    "another delete": (lambda t: t.delete("k = 8"), {8}),
    "an update of a deleted row": (lambda t: t.append(rows_of([(3, "new", 1003)])), set()),
    "an overwrite": (lambda t: t.overwrite(rows_of(FIRST)), set()),
}


@pytest.mark.parametrize(("interruption", "gone"), INTERRUPTIONS.values(), ids=INTERRUPTIONS)
@pytest.mark.parametrize("options", [VECTORS, DYNAMIC], ids=["fixed", "dynamic"])
def test_commits_between_reading_and_committing(
    options: Mapping[str, str], interruption: Callable[[TableHandle], object], gone: set[int]
) -> None:
    store = InMemoryFileIO()
    table = made({**options, "bucket": "1"} if "bucket" in options else options, store=store)
    table.delete("k = 0")
    table.append(rows_of([(2, "b", 2)]))
    faulty = FaultFileIO(store, Interruption(lambda: interruption(table)))
    open_warehouse(faulty).table(table.name).delete("k < 5")
    left = {r[0] for r in read_rows(table)}
    assert left - {3} == set(range(5, 20)) - gone
    sound(table)


@pytest.mark.parametrize("seed", every(3, range(8)))
@pytest.mark.parametrize("options", [VECTORS, DYNAMIC], ids=["fixed", "dynamic"])
def test_histories(options: Mapping[str, str], seed: int) -> None:
    """Statements with and without compactions after them, all snapshots compared after each."""
    random = Random(seed)
    form = ["parquet", "orc", "avro"][seed % 3]
    history = History(Kind(("k",), (), {**options, **SHOWN, "file.format": form}))
    alone = open_handle(history.table, {"write-only": "true"})
    for _ in range(12):
        rows: list[Row] = [
            (random.randrange(20), random.choice(PARTS), random.randrange(100)) for _ in range(random.randrange(9))
        ]
        draw = random.random()
        if draw < 0.3:
            history.write(rows)
        elif draw < 0.4:
            alone.append(rows_of(rows))
            history.model.write(rows)
            history.compact(full=False)
        elif draw < 0.85:
            low = random.randrange(100)
            history.delete_where(low, low + random.randrange(30))
        else:
            history.compact(full=random.random() < 0.5)
        assert history.complaints() == []
