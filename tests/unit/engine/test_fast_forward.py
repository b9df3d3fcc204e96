"""Fast-forward of the main branch, and merging of append branches."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.core.metadata.branches import on_branch
from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.metadata.time_travel import at_time
from paimon_spark.core.table import Table
from paimon_spark.engine.analyze import commit_statistics
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.refs.branches import execute_create_branch, plan_create_branch
from paimon_spark.engine.refs.fast_forward import execute_fast_forward, plan_fast_forward
from paimon_spark.engine.refs.merge_branch import execute_merge_branch, plan_merge_branch
from paimon_spark.engine.refs.tags import (
    execute_delete_tags,
    execute_tag,
    plan_create_tag,
    plan_delete_tags,
    wall_clock,
)
from paimon_spark.engine.rollback import execute_rollback, plan_rollback
from paimon_spark.engine.rollback_as_latest import execute_as_latest, plan_as_latest
from paimon_spark.engine.streaming.start import first_offset
from paimon_spark.errors import (
    ArgumentError,
    EngineError,
    NotFoundError,
    OptionError,
    PaimonError,
    UnsupportedError,
    UsageError,
)
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.column_changes import AddColumn
from paimon_spark.spec.evolution import SchemaChange, apply_changes
from paimon_spark.spec.types import parse_atomic
from paimon_spark.testing.faults import FaultFileIO, Mode, Nth, Recorder
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.tables import new_table
from tests.small_tables import sorted_rows

FAR = 10**15


def table_of(*, keyed: bool = True, **options: str) -> Table:
    key = (
        {"primary_key": ["k"], "options": {"bucket": "1", "write-only": "true", **options}}
        if keyed
        else {"options": options}
    )
    return new_table({"k": "INT", "v": "INT"}, **key)  # type: ignore[arg-type]


def put(table: Table, *rows: tuple[int, ...]) -> None:
    columns = zip(table.schema.field_names, zip(*rows, strict=True), strict=True)
    write_arrow(table, pa.table({name: pa.array(values, pa.int32()) for name, values in columns}))


def tag(table: Table, name: str, snapshot_id: int) -> None:
    execute_tag(table, plan_create_tag(table, name, snapshot_id=snapshot_id, clock_millis=0))


def branch_of(table: Table, name: str, **start: object) -> Table:
    execute_create_branch(table, plan_create_branch(table, name, **start))  # type: ignore[arg-type]
    return on_branch(table, name)


def forward(table: Table, name: str) -> None:
    execute_fast_forward(table, plan_fast_forward(table, name))


def expire(table: Table) -> None:
    execute_expire(table, plan_expire(table, ExpireConfig(retain_max=1, retain_min=1), FAR))


def alter(table: Table, *changes: SchemaChange) -> Table:
    schema = apply_changes(table.schema, changes, 0, has_snapshots=True)
    assert table.schema_store.try_create(schema)
    return table.with_schema(schema)


def state(table: Table) -> dict[str, bytes]:
    store = table.file_io
    return {s.path: store.read(s.path) for s in store.list_recursive(table.path) if not s.path.endswith("EARLIEST")}


@pytest.fixture
def table() -> Table:
    """Return a table with three snapshots, the tag `a` on the second and `c` on the third."""
    table = table_of()
    for i in range(3):
        put(table, (1, i))
    tag(table, "a", 2)
    tag(table, "c", 3)
    return table


@pytest.mark.parametrize("more", [0, 1, 2, 3])
def test_main_gets_the_history_of_a_branch_of_any_length(table: Table, more: int) -> None:
    branch = branch_of(table, "b", tag="a")
    for i in range(more):
        put(branch, (2, i))
    before = {i: branch.snapshots.get(i) for i in branch.snapshots.ids()}
    forward(table, "b")
    assert sorted_rows(table) == sorted_rows(branch)
    assert table.snapshots.ids() == list(range(1, 3 + more))
    assert {i: table.snapshots.get(i) for i in before} == before
    assert RefStore.of(table).tag_names() == ["a"]
    assert sorted_rows(table.with_options({"scan.snapshot-id": "1"})) == [(1, 0)]
    assert plan_fast_forward(table, "b").actions == ()


def test_main_and_branch_are_apart_after_a_fast_forward(table: Table) -> None:
    branch = branch_of(table, "b", tag="a")
    put(branch, (2, 2))
    forward(table, "b")
    put(table, (3, 3))
    assert sorted_rows(table) == [(1, 1), (2, 2), (3, 3)]
    assert sorted_rows(branch) == [(1, 1), (2, 2)]
    forward(table, "b")
    assert sorted_rows(table) == [(1, 1), (2, 2)]


def test_a_branch_that_was_empty_replaces_all_of_main(table: Table) -> None:
    branch = branch_of(table, "b")
    put(branch, (7, 7))
    forward(table, "b")
    assert sorted_rows(table) == [(7, 7)]
    assert table.snapshots.ids() == [1]
    assert RefStore.of(table).tag_names() == []
    put(table, (8, 8))
    assert sorted_rows(table) == [(7, 7), (8, 8)]


def test_main_gets_back_snapshots_that_expired_there(table: Table) -> None:
    branch = branch_of(table, "b", tag="a")
    put(branch, (2, 2))
    expire(table)
    assert table.snapshots.earliest_id() == 3
    forward(table, "b")
    assert table.snapshots.earliest_id() == 2
    assert sorted_rows(table.with_options({"scan.snapshot-id": "2"})) == [(1, 1)]
    assert sorted_rows(table) == [(1, 1), (2, 2)]


def test_tags_and_changelogs_of_main_from_the_start_on_go(table: Table) -> None:
    refs = RefStore.of(table)
    for i in (1, 2, 3):
        table.file_io.write(table.paths.changelog(i), table.snapshots.get(i).to_json().encode())
    branch = branch_of(table, "b", tag="a")
    tag(branch, "own", 2)
    forward(table, "b")
    assert refs.tag_names() == ["a", "own"]
    assert refs.changelog_ids() == [1]
    assert table.file_io.read(f"{table.paths.changelog_dir}/LATEST") == b"1"


def test_main_gets_the_schemas_of_the_branch(table: Table) -> None:
    branch = alter(branch_of(table, "b", tag="a"), AddColumn(("d",), parse_atomic("INT")))
    put(branch, (2, 2, 2))
    alter(alter(table, AddColumn(("c",), parse_atomic("INT"))), AddColumn(("e",), parse_atomic("INT")))
    forward(table, "b")
    assert table.schema_store.ids() == [0, 1]
    now = table.at_schema(1)
    assert now.schema.field_names == ("k", "v", "d")
    assert sorted_rows(now) == [(1, 1, None), (2, 2, 2)]


def test_a_branch_that_begins_later_replaces_main(table: Table) -> None:
    """Nothing leads from the snapshots of main to the branch, whose first ones have expired."""
    branch = branch_of(table, "b", snapshot_id=1)
    for i in range(6):
        put(branch, (2, i))
    tag(branch, "own", 4)
    expire(branch)
    now = alter(table, AddColumn(("c",), parse_atomic("INT")))
    put(now, (4, 4, 4))
    forward(now, "b")
    main = table.at_schema(0)
    assert main.schema_store.ids() == [0]
    assert main.snapshots.ids() == branch.snapshots.ids() == [7]
    assert main.snapshots.earliest_id() == 7
    assert sorted_rows(main) == sorted_rows(branch)
    assert violations(main) == []
    assert RefStore.of(main).tag_names() == ["a", "c", "own"]
    for name, value in (("a", 1), ("c", 2)):
        assert sorted_rows(main.with_options({"scan.tag-name": name})) == [(1, value)]
    assert sorted_rows(main.with_options({"scan.tag-name": "own"})) == [(1, 0), (2, 2)]
    assert plan_fast_forward(main, "b").actions == ()
    execute_rollback(main, plan_rollback(main, tag="c"))
    assert sorted_rows(main) == [(1, 2)]


def test_snapshots_that_the_branch_continues_stay(table: Table) -> None:
    branch = branch_of(table, "b", tag="a")
    put(branch, (2, 2))
    forward(table, "b")
    put(branch, (3, 3))
    expire(branch)
    assert branch.snapshots.ids() == [4]
    forward(table, "b")
    assert table.snapshots.ids() == [1, 2, 3, 4]
    assert sorted_rows(table.with_options({"scan.snapshot-id": "1"})) == [(1, 0)]


@pytest.mark.parametrize("more", [0, 1])
def test_snapshots_that_the_branch_does_not_continue_go(table: Table, more: int) -> None:
    """The branch begins right after a snapshot that main has written itself."""
    branch = branch_of(table, "b", snapshot_id=1)
    for i in range(3):
        put(branch, (2, i))
    expire(branch)
    for i in range(more):
        put(table, (3, i))
    assert branch.snapshots.ids() == [4]
    table.file_io.write(table.paths.changelog(1), table.snapshots.get(1).to_json().encode())
    forward(table, "b")
    assert table.snapshots.ids() == [4]
    assert RefStore.of(table).changelog_ids() == []
    assert violations(table) == []


def test_snapshots_whose_schema_goes_go(table: Table) -> None:
    """Both have a snapshot 2 that changes no file; main has written its own with another schema."""
    branch = branch_of(table, "b", snapshot_id=1)
    for side in (branch, alter(on_branch(table, "main"), AddColumn(("c",), parse_atomic("INT")))):
        execute_rollback(side, plan_rollback(side, snapshot_id=1))
        commit_statistics(side, side.snapshots.get(1), 1, {})
    put(branch, (2, 2))
    expire(branch)
    assert branch.snapshots.ids() == [3]
    forward(table, "b")
    assert table.snapshots.ids() == [3]
    assert table.schema_store.ids() == [0]


def test_changelogs_before_an_expired_start_stay(table: Table) -> None:
    for i in (1, 2, 3):
        table.file_io.write(table.paths.changelog(i), table.snapshots.get(i).to_json().encode())
    branch = branch_of(table, "b", tag="a")
    put(branch, (2, 2))
    expire(table)
    forward(table, "b")
    assert table.snapshots.ids() == [2, 3]
    assert RefStore.of(table).changelog_ids() == [1]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_tag_that_stays_keeps_its_schema(replaced: bool) -> None:
    table = table_of()
    branch = branch_of(table, "b")
    for i in range(3):
        put(branch, (1, i))
    if replaced:
        branch = alter(branch, AddColumn(("d",), parse_atomic("INT")))
        put(branch, (2, 2, 2))
    expire(branch)
    now = alter(table, AddColumn(("c",), parse_atomic("INT")))
    put(now, (5, 5, 5))
    tag(now, "mine", 1)
    before = state(now)
    with pytest.raises(UsageError, match=r"tag 'mine' .* schema 1"):
        plan_fast_forward(now, "b")
    assert state(now) == before
    execute_delete_tags(now, plan_delete_tags(now, "mine"))
    forward(now, "b")
    assert sorted_rows(table.at_schema(branch.schema.id)) == sorted_rows(branch)


def test_an_interrupted_fast_forward_is_completed_by_the_next(table: Table) -> None:
    branch = branch_of(table, "b", snapshot_id=1)
    for i in range(6):
        put(branch, (2, i))
    expire(branch)
    alter(table, AddColumn(("c",), parse_atomic("INT")))
    inner, recorder = table.file_io, Recorder()
    assert isinstance(inner, InMemoryFileIO)
    forward(replace(table, file_io=FaultFileIO(inner.fork(), recorder)), "b")
    for number in range(1, len(recorder.log) + 1):
        store = inner.fork()
        with suppress(PaimonError, OSError):
            forward(replace(table, file_io=FaultFileIO(store, Nth(number, Mode.CRASH_BEFORE))), "b")
        now = replace(table, file_io=store)
        for name in RefStore.of(now).tag_names():
            now.schema_store.get(RefStore.of(now).get_tag(name).snapshot.schema_id)
        forward(now, "b")
        assert now.snapshots.ids() == [7]
        assert now.schema_store.ids() == [0]
        assert violations(now) == []


def forward_as_paimon(table: Table, name: str) -> None:
    """Fast-forward as Paimon 2.0 does: snapshots and tags of main below the first snapshot of the branch stay."""
    branch, store = on_branch(table, name), table.file_io
    first = branch.snapshots.earliest_id() or 0
    for i in table.snapshots.ids():
        if i >= first:
            store.delete(table.paths.snapshot(i))
    store.delete(table.paths.latest_hint)
    for source, target in (
        (branch.paths.snapshot_dir, table.paths.snapshot_dir),
        (branch.paths.tag_dir, table.paths.tag_dir),
    ):
        for file in store.list(source):
            store.write(f"{target}/{file.name}", store.read(file.path))


@pytest.fixture
def forwarded() -> Table:
    """Return a table with its own snapshots 1 to 3, snapshot 6 of a branch, and tags of both snapshots 3."""
    table = table_of(keyed=False, **{"write-only": "true"})
    put(table, (1, 1))
    branch = branch_of(table, "b", snapshot_id=1)
    for i in range(2, 7):
        put(branch, (i, i))
    tag(branch, "own", 3)
    expire(branch)
    for i in (12, 13):
        put(table, (i, i))
    tag(table, "mine", 3)
    forward_as_paimon(table, "b")
    assert table.snapshots.ids() == [1, 2, 3, 6]
    assert table.snapshots.earliest_id() == 6
    assert sorted_rows(table) == [(i, i) for i in range(1, 7)]
    assert sorted_rows(table.with_options({"scan.tag-name": "own"})) == [(1, 1), (2, 2), (3, 3)]
    return table


def test_a_rollback_to_a_tag_whose_id_has_another(forwarded: Table) -> None:
    before = state(forwarded)
    with pytest.raises(UsageError, match=r"snapshot 3 .* is another one than that of the tag") as caught:
        plan_rollback(forwarded, tag="own")
    assert state(forwarded) == before
    assert "rollback_to_as_latest(table => 'db.t', tag => 'own')" in (caught.value.hint or "")
    execute_as_latest(forwarded, plan_as_latest(forwarded, tag="own", clock_millis=0))
    assert sorted_rows(forwarded) == [(1, 1), (2, 2), (3, 3)]
    execute_rollback(forwarded, plan_rollback(forwarded, tag="mine"))
    assert sorted_rows(forwarded) == [(1, 1), (12, 12), (13, 13)]


def test_a_rollback_as_latest_protects_the_rows_of_the_tag(forwarded: Table) -> None:
    execute_delete_tags(forwarded, plan_delete_tags(forwarded, "mine"))
    refs = RefStore.of(forwarded)
    kept = replace(refs.get_tag("own"), create_time=wall_clock(0), time_retained=timedelta(days=1))
    refs.replace_tag("own", kept)
    plan = plan_as_latest(forwarded, tag="own", clock_millis=0)
    assert plan.pin is not None
    execute_as_latest(forwarded, plan)
    execute_delete_tags(forwarded, plan_delete_tags(forwarded, "own"))
    assert sorted_rows(forwarded.with_options({"scan.tag-name": plan.pin.name})) == [(1, 1), (2, 2), (3, 3)]


def test_an_id_of_two_expired_snapshots_is_ambiguous(forwarded: Table) -> None:
    forwarded.file_io.delete(forwarded.paths.snapshot(3))
    for look in (
        lambda: plan_rollback(forwarded, snapshot_id=3),
        lambda: plan_create_tag(forwarded, "new", snapshot_id=3, clock_millis=0),
    ):
        with pytest.raises(ArgumentError, match="'mine' and 'own' hold different snapshots"):
            look()
    execute_rollback(forwarded, plan_rollback(forwarded, tag="own"))
    assert sorted_rows(forwarded) == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize(("hidden", "says"), [(True, "have expired"), (False, "not in the history")])
def test_a_stream_from_a_tag_whose_id_has_another(forwarded: Table, hidden: bool, says: str) -> None:
    """Paimon's hint, which may be lost, hides the snapshots before the gap."""
    if not hidden:
        forwarded.file_io.delete(forwarded.paths.earliest_hint)
    with pytest.raises(OptionError, match=says):
        first_offset(forwarded.with_options({"scan.tag-name": "own"}))


def test_changes_between_tags_are_those_of_their_snapshots(forwarded: Table) -> None:
    tag(forwarded, "last", 6)
    forwarded.file_io.delete(forwarded.paths.earliest_hint)

    def between(first: str, last: str, **options: str) -> list[tuple[object, ...]]:
        options = {key.replace("_", "-"): value for key, value in options.items()}
        return sorted_rows(forwarded.with_options({"incremental-between": f"{first},{last}", **options}))

    assert between("own", "last") == [(4, 4), (5, 5), (6, 6)]
    assert between("mine", "own") == [(2, 2), (3, 3)]
    with pytest.raises(OptionError, match=r"'own': snapshot 3 .* is another one"):
        between("own", "last", incremental_between_tag_to_snapshot="true", incremental_between_scan_mode="delta")


def test_times_of_a_table_that_paimon_forwarded(forwarded: Table) -> None:
    forwarded.file_io.delete(forwarded.paths.earliest_hint)
    for i in (1, 2, 3, 6):
        stored = replace(forwarded.snapshots.get(i), time_millis=i * 10)
        forwarded.file_io.write(forwarded.paths.snapshot(i), stored.to_json().encode())
    for millis, found in ((39, 3), (59, 3), (60, 6)):
        assert at_time(forwarded, millis).id == found


def test_the_next_fast_forward_removes_what_paimon_left(forwarded: Table) -> None:
    branch = on_branch(forwarded, "b")
    for i in (7, 8):
        put(branch, (i, i))
    expire(branch)
    forward(forwarded, "b")
    assert forwarded.snapshots.ids() == [8]
    assert violations(forwarded) == []


def test_branches_that_main_cannot_be_forwarded_to(table: Table) -> None:
    branch_of(table, "empty")
    with pytest.raises(ArgumentError):
        plan_fast_forward(table, "main")
    with pytest.raises(NotFoundError, match="nosuch"):
        plan_fast_forward(table, "nosuch")
    with pytest.raises(NotFoundError, match="no snapshot"):
        plan_fast_forward(table, "empty")


def test_a_fast_forward_that_fails_changes_nothing(table: Table) -> None:
    branch = branch_of(table, "b", tag="a")
    for i in range(3):
        put(branch, (2, i))
    tag(branch, "own", 3)
    alter(branch, AddColumn(("d",), parse_atomic("INT")))
    plan = plan_fast_forward(table, "b")
    before = state(table)
    writes = sum(a.action == "write" for a in plan.actions)
    for failing in range(writes + 1):
        faulty = _FailingWrite(table.file_io, failing)
        with pytest.raises(EngineError):
            execute_fast_forward(replace(table, file_io=faulty), plan)
        assert state(table) == before
    assert writes == 5
    assert sorted_rows(table) == [(1, 2)]
    execute_fast_forward(table, plan)
    assert sorted_rows(table) == sorted_rows(branch)


class _FailingWrite:
    """A store whose n-th write to the main branch fails once."""

    def __init__(self, inner: Any, number: int) -> None:
        self._inner = inner
        self._left = number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write(self, path: str, data: bytes, overwrite: bool = True) -> None:
        self._left -= 1
        if self._left == -1:
            raise OSError(5, "the disk failed", path)
        self._inner.write(path, data, overwrite)


# ---- merging


@pytest.fixture
def append() -> Table:
    table = table_of(keyed=False)
    put(table, (1, 1))
    tag(table, "a", 1)
    return table


def merge(table: Table, source: str, target: str = "main") -> int | None:
    return execute_merge_branch(plan_merge_branch(table, source, target))


def test_a_merge_adds_the_files_that_the_target_lacks(append: Table) -> None:
    branch = branch_of(append, "b", tag="a")
    put(branch, (2, 2))
    put(append, (3, 3))
    files = len(plan_merge_branch(append, "b", "main").files)
    assert files == 1
    assert merge(append, "b") == 3
    assert sorted_rows(append) == [(1, 1), (2, 2), (3, 3)]
    assert sorted_rows(branch) == [(1, 1), (2, 2)]
    assert merge(append, "b") is None
    put(branch, (4, 4))
    assert merge(append, "b") == 4
    assert sorted_rows(append) == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert merge(append, "main", "b") == 4
    assert sorted_rows(branch) == sorted_rows(append)


def test_an_unrelated_branch_is_merged_whole(append: Table) -> None:
    branch = branch_of(append, "b")
    put(branch, (9, 9))
    merge(append, "b")
    assert sorted_rows(append) == [(1, 1), (9, 9)]


def test_a_merge_assigns_new_row_ids() -> None:
    table = table_of(keyed=False, **{"row-tracking.enabled": "true"})
    put(table, (1, 1))
    tag(table, "a", 1)
    branch = branch_of(table, "b", tag="a")
    put(branch, (2, 2))
    put(table, (3, 3))
    merge(table, "b")
    latest = table.snapshots.latest()
    assert latest is not None
    assert latest.next_row_id == 3


def test_merges_that_are_refused(append: Table) -> None:
    keyed = table_of()
    put(keyed, (1, 1))
    put(branch_of(keyed, "b"), (2, 2))
    with pytest.raises(UnsupportedError, match="primary key"):
        plan_merge_branch(keyed, "b", "main")
    with pytest.raises(ArgumentError):
        plan_merge_branch(append, "main", "main")
    with pytest.raises(NotFoundError, match="nosuch"):
        plan_merge_branch(append, "nosuch", "main")
    branch_of(append, "empty")
    with pytest.raises(NotFoundError, match="no snapshot"):
        plan_merge_branch(append, "empty", "main")


def test_a_merge_needs_all_snapshots_and_only_inserts(append: Table) -> None:
    branch = branch_of(append, "b", tag="a")
    put(branch, (2, 2))
    write_arrow(append, pa.table({"k": pa.array([5], pa.int32()), "v": pa.array([5], pa.int32())}), overwrite="static")
    with pytest.raises(UsageError, match="OVERWRITE"):
        plan_merge_branch(append, "b", "main")
    put(append, (6, 6))
    expire(append)
    with pytest.raises(UsageError, match="snapshot 1 does not exist"):
        plan_merge_branch(append, "b", "main")


def test_a_merge_needs_the_same_columns_and_schemas(append: Table) -> None:
    branch = alter(branch_of(append, "b", tag="a"), AddColumn(("d",), parse_atomic("INT")))
    put(branch, (2, 2, 2))
    with pytest.raises(UsageError, match="columns"):
        plan_merge_branch(append, "b", "main")
    now = alter(append, AddColumn(("d",), parse_atomic("INT")))
    assert merge(now, "b") == 2
    assert sorted_rows(now) == [(1, 1, None), (2, 2, 2)]
