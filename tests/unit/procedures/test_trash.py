"""The trash: what procedures remove can be listed, restored and deleted."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.calls.binding import bind
from paimon_spark.core.cancellation import cancellable
from paimon_spark.core.maintenance.trash import RUN_NAME, TrashState, mark, runs
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.metadata.refs import RefStore, branch_name, branches
from paimon_spark.engine.insert import write_arrow
from paimon_spark.errors import ArgumentError, ConflictError, NotFoundError, PaimonError, StatementCancelledError
from paimon_spark.fs.base import FileIO
from paimon_spark.spec.rows import Timestamp
from paimon_spark.sqlparse.call import parse_call
from paimon_spark.testing.faults import FaultFileIO, Mode, Nth
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.tables import read_arrow
from tests.unit.procedures.calling import NOW, REGISTRY, Lake
from tests.unit.procedures.warehouse import Warehouse
from tests.variants import every

DAY = 86_400_000
HINTS = ("LATEST", "EARLIEST")


NINE = {"k": [9], "p": ["a"]}


class Looks:
    """A store on which something happens at the nth moment of a kind once the run is marked.

    The moment is right before the hint is read (`look`), or before a snapshot is removed (`removal`).
    """

    def __init__(self, inner: FileIO, moment: str, at: int, then: Callable[[], object]) -> None:
        self._inner, self._moment, self._left, self._then, self._marked = inner, moment, at, then, False
        self.done = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write(self, path: str, data: bytes, overwrite: bool = True) -> None:
        self._marked = self._marked or path.endswith("/run.json")
        self._inner.write(path, data, overwrite)

    def read(self, path: str) -> bytes:
        if path.endswith("/snapshot/LATEST"):
            self._pass("look")
        return self._inner.read(path)

    def rename(self, path: str, target: str) -> bool:
        if "/snapshot/snapshot-" in path:
            self._pass("removal")
        return self._inner.rename(path, target)

    def _pass(self, moment: str) -> None:
        if self._marked and moment == self._moment:
            self._left -= 1
            if not self._left:
                self._then()
                self.done = True


class WithoutHint:
    """A store for a client that does not know the hint of a rollback."""

    def __init__(self, inner: FileIO) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def read(self, path: str) -> bytes:
        if path.endswith("/snapshot/LATEST"):
            raise FileNotFoundError(path)
        return self._inner.read(path)


@pytest.fixture
def lake() -> Lake:
    """A table with five snapshots, whose first has expired but has a tag, other tags, a branch and a consumer."""
    lake = Lake(
        {"k": "INT", "p": "STRING"},
        primary_key=["k", "p"],
        partition=["p"],
        bucket="1",
        write_only="true",
        changelog_producer="input",
        changelog__num_retained__max="100",
        snapshot__num_retained__max="50",
        commit__max_retries="0",
        snapshot__clean_empty_directories="true",
        tag__create_success_file="true",
    )
    table = lake.table
    for i in range(5):
        lake.table = table.with_options({"end-input.watermark": str(i)})
        lake.insert((i, "a"), (i, "b"))
        if i == 0:
            lake.call("create_tag('t', 'first', 1)")
            lake.call("create_branch('t', 'dev', 'first')")
    lake.table = table
    lake.call("create_tag('t', 'last')")
    lake.call("compact('t')")
    lake.call("reset_consumer('t', 'reader', 3)")
    lake.call("expire_snapshots('t', 4)")
    return lake


def contents(lake: Lake) -> dict[str, Any]:
    """Return what users see: files outside of the trash, the rows of each snapshot and tag, branches and hints."""
    clear_cache()
    files = {p: d for p, d in lake.state().items() if "/.trash/" not in p}
    hints = {p: d for p, d in files.items() if p.rpartition("/")[2] in HINTS}
    table = lake.table
    states = {f"snapshot {i}": {"scan.snapshot-id": str(i)} for i in table.snapshots.ids()}
    states |= {f"tag {n}": {"scan.tag-name": n} for n in RefStore.of(table).tag_names()}
    return {
        "files": {p: d for p, d in files.items() if p not in hints},
        "hints": hints,
        "rows": {
            name: sorted(r["k"] for r in read_arrow(table.with_options(version)).to_pylist())
            for name, version in states.items()
        },
        "latest": table.snapshots.latest_id(),
        "branches": sorted(map(branch_name, branches(table))),
    }


CALLS = (
    "rollback_to(table => 't', snapshot_id => 4)",
    "rollback_to(table => 't', tag => 'first')",
    "rollback(table => 't', snapshot => 3)",
    "rollback_to_timestamp(table => 't', timestamp => 4102444800000)",
    "rollback_to_watermark(table => 't', watermark => 3)",
    "purge_files('t')",
    "expire_snapshots(table => 't', retain_max => 1, retain_min => 1, older_than => '2100-01-01', trash => true)",
    "expire_changelogs(table => 't', delete_all => true, trash => true)",
    "delete_tag(table => 't', tag => 'first,last', trash => true)",
    "delete_branch('t', 'dev')",
    "remove_orphan_files('t')",
    "expire_tags(table => 't', older_than => '2099-01-01', trash => true)",
)


def prepare(lake: Lake, text: str) -> None:
    """Make something for a CALL to remove."""
    if "orphan" in text:
        branch = "branch/branch-dev/schema/.schema-0.799fdba1-a938-4add-93bb-4e9f8ed49956.tmp"
        for name in (
            "bucket-0/x",
            "manifest/manifest-left",
            "p=a/bucket-0/data-left.parquet",
            "snapshot/.x.tmp",
            branch,
        ):
            lake.table.file_io.write(f"{lake.table.path}/{name}", b"left")
    if "expire_tags" in text or "expire_snapshots" in text:
        lake.call("clear_consumers('t')")


def same(found: dict[str, Any], before: dict[str, Any]) -> bool:
    """Return whether two states are equal; an undone purge leaves its manifests of the empty table as orphans."""
    extra = found["files"].keys() - before["files"].keys()
    rest = {p: d for p, d in found["files"].items() if p not in extra}
    return (rest, *(found[n] for n in ("rows", "latest", "branches"))) == (
        before["files"],
        *(before[n] for n in ("rows", "latest", "branches")),
    ) and all("/manifest/" in p for p in extra)


@pytest.mark.parametrize("text", CALLS)
def test_undo_restores_the_state_before(lake: Lake, text: str) -> None:
    prepare(lake, text)
    before = contents(lake)
    done = lake.call(text)[0]
    after = contents(lake)
    if "timestamp" in text:
        assert lake.call("trash('t')") == []
        return
    (run,) = lake.call("trash('t')")
    assert RUN_NAME.fullmatch(run["run"])
    assert (run["procedure"], run["state"]) == (text.partition("(")[0], "done")
    assert (run["files"], run["bytes"]) == (done["files_in"], done["bytes_in"])
    assert after["files"] != before["files"]
    plan = lake.call(f"EXPLAIN CALL sys.undo('t', '{run['run']}')")
    assert len([a for a in plan if a["action"] == "restore"]) <= run["files"]
    assert contents(lake) == after
    back = lake.one(f"undo('t', '{run['run']}')")
    found = contents(lake)
    assert same(found, before), (found.keys(), back)
    assert found["hints"].items() >= before["hints"].items()
    assert back["snapshot_after"] == before["latest"]
    assert violations(lake.table) == []
    assert lake.call("trash('t')") == []
    assert not [p for p in lake.state() if ".trash" in p]


@pytest.mark.parametrize("mode", [Mode.CRASH_AFTER, pytest.param(Mode.AFTER, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "text", every(3, ["rollback_to('t', 4)", "rollback_to('t', 'first')", "purge_files('t')", CALLS[6], CALLS[9]])
)
def test_an_interrupted_undo_is_completed_by_the_next(lake: Lake, text: str, mode: Mode) -> None:
    prepare(lake, text)
    before = contents(lake)
    lake.call(text)
    run = lake.one("trash('t')")["run"]
    store, files = lake.table.file_io, lake.state()
    for n in range(1, 400):
        schedule = Nth(n, mode)
        lake.table = replace(lake.table, file_io=FaultFileIO(store, schedule))
        with contextlib.suppress(PaimonError, OSError):
            lake.call(f"undo('t', '{run}')")
        lake.table = replace(lake.table, file_io=store)
        clear_cache()
        assert [v for v in violations(lake.table) if "gaps" not in v] == [], schedule.fired
        if runs(lake.table):
            lake.call(f"undo('t', '{run}')")
        assert same(contents(lake), before), schedule.fired
        if schedule.fired is None:
            break
        restore(lake, files)
    assert n > 5


def restore(lake: Lake, files: dict[str, bytes]) -> None:
    for path in lake.state().keys() - files.keys():
        lake.table.file_io.delete(path)
    for path, data in files.items():
        lake.table.file_io.write(path, data)
    clear_cache()


def refused(lake: Lake, run: str) -> str:
    before = lake.state()
    with pytest.raises(ConflictError) as e:
        lake.call(f"undo('t', '{run}')")
    assert e.value.kind == "UNDO_IMPOSSIBLE"
    assert lake.state() == before
    return str(e.value)


def newest(lake: Lake) -> str:
    return str(lake.call("trash('t')")[0]["run"])


def test_a_commit_after_a_rollback_forbids_the_undo(lake: Lake) -> None:
    before = contents(lake)
    lake.call("rollback_to('t', 4)")
    first = newest(lake)
    lake.insert((9, "a"))
    assert "snapshot 5 exists again" in refused(lake, first)
    lake.now += 1000
    lake.call("rollback_to('t', 4)")
    second = newest(lake)
    lake.call(f"undo('t', '{first}')")
    found = contents(lake)
    assert (found["rows"], found["latest"]) == (before["rows"], before["latest"])
    message = refused(lake, second)
    assert "snapshot 5 exists again" in message
    assert "If they are to stay, the run cannot be undone." in message


def test_runs_are_undone_in_reverse_order(lake: Lake) -> None:
    before, undone = contents(lake), []
    for text in ("rollback_to('t', 5)", "rollback_to('t', 4)", "purge_files('t')"):
        lake.now += 1000
        lake.call(text)
        undone.insert(0, newest(lake))
    assert [r["run"] for r in lake.call("trash('t')")] == undone
    for run in undone[:0:-1]:
        why = refused(lake, run)
        assert any(f"CALL sys.undo('db.t', '{later}')" in why for later in undone[: undone.index(run)]), why
    for run in undone:
        lake.call(f"undo('{run}')")
    assert same(contents(lake), before)


def hide(lake: Lake, run: str) -> bytes:
    """Delete the record of a run, so that its references do not count; return it."""
    path = f"{lake.table.path}/.trash/{run}/run.json"
    data = lake.table.file_io.read(path)
    lake.table.file_io.delete(path)
    return data


@pytest.mark.parametrize("text", ["rollback_to('t', 4)", "delete_branch('t', 'dev')"])
def test_what_an_undo_needs_is_no_orphan(lake: Lake, text: str) -> None:
    lake.table = lake.table.with_options({"snapshot.num-retained.min": "1"})
    if "branch" in text:
        write_arrow(replace(lake.table, branch="dev"), lake.rows({"k": [7], "p": ["a"]}))
    before = contents(lake)
    lake.call(text)
    run = newest(lake)
    lake.now += 1000
    assert "ORPHAN_FILES" not in {r["finding"] for r in lake.call("doctor('t')")}
    assert lake.call("remove_orphan_files('t')")[0]["deletedFileCount"] == 0
    assert lake.call("remove_orphan_files(table => 't', trash => false)")[0]["deletedFileCount"] == 0
    lake.call("maintain(table => 't', actions => 'remove_orphan_files')")
    lake.call(f"undo('t', '{run}')")
    assert contents(lake) == before
    lake.call(text)
    lake.call(f"empty_trash('t', '{newest(lake)}')")
    assert lake.call("remove_orphan_files('t')")[0]["deletedFileCount"] > 0


class AtMove:
    """A store that calls something when the first file is moved."""

    def __init__(self, inner: FileIO, then: Callable[[], object]) -> None:
        self._inner = inner
        self._then = then

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def rename(self, source: str, target: str) -> bool:
        self._then()
        return self._inner.rename(source, target)


@pytest.mark.parametrize("statement", ["remove_orphan_files('t')", "maintain('t', '1 h', 'remove_orphan_files')"])
def test_a_cancelled_cleaning_keeps_what_it_moved_for_an_undo(lake: Lake, statement: str) -> None:
    for number in range(50):
        lake.table.file_io.write(f"{lake.table.path}/manifest/manifest-lost-{number}", b"x")
    lake.now += DAY
    before, rows, store, flag = lake.state(), contents(lake)["rows"], lake.table.file_io, threading.Event()
    lake.table = replace(lake.table, file_io=AtMove(store, flag.set))  # type: ignore[arg-type]
    with cancellable(flag), pytest.raises(StatementCancelledError):
        lake.call(statement)
    lake.table = replace(lake.table, file_io=store)
    clear_cache()
    assert contents(lake)["rows"] == rows
    (run,) = runs(lake.table)
    assert run.state is TrashState.DONE
    assert run.files
    assert lake.one("undo('t', 'last')")["restored_files"] == run.files
    assert lake.state() == before


def test_files_in_another_run_come_back_first(lake: Lake) -> None:
    before = contents(lake)
    lake.call("rollback_to('t', 4)")
    rollback = newest(lake)
    lake.now += 1000
    record = hide(lake, rollback)
    assert lake.call("remove_orphan_files('t')")[0]["deletedFileCount"] > 0
    lake.table.file_io.write(f"{lake.table.path}/.trash/{rollback}/run.json", record)
    orphans = newest(lake)
    assert f"'{orphans}'" in refused(lake, rollback)
    lake.insert((9, "a"))  # the orphans of a lost undo do not keep others from being removed
    lake.call("remove_orphan_files('t')")
    lake.call("rollback_to(table => 't', snapshot_id => 4, trash => false)")
    lake.call(f"undo('t', '{orphans}')")
    lake.call(f"undo('t', '{rollback}')")
    assert contents(lake)["rows"] == before["rows"]


def test_lost_files_forbid_the_undo(lake: Lake) -> None:
    lake.call("rollback_to('t', 4)")
    run = newest(lake)
    record = hide(lake, run)
    lake.call("remove_orphan_files(table => 't', trash => false)")
    lake.table.file_io.write(f"{lake.table.path}/.trash/{run}/run.json", record)
    assert "deleted for good" in refused(lake, run)


def test_names_in_use_forbid_the_undo(lake: Lake) -> None:
    lake.call("delete_tag(table => 't', tag => 'last', trash => true)")
    lake.call("create_tag('t', 'last', 4)")
    assert "a tag 'last' exists again" in refused(lake, newest(lake))
    lake.now += 1000
    lake.call("delete_branch('t', 'dev')")
    lake.call("create_branch('t', 'dev')")
    assert "a branch 'dev' exists again" in refused(lake, newest(lake))


def test_rows_after_a_purge_forbid_its_undo(lake: Lake) -> None:
    lake.call("purge_files('t')")
    purge = newest(lake)
    lake.insert((9, "a"))
    assert "has rows" in refused(lake, purge)


@pytest.mark.parametrize("client", [lambda store: store, WithoutHint])
@pytest.mark.parametrize(("moment", "at"), [*(("look", n) for n in (1, 2, 3, 4)), *(("removal", n) for n in (1, 2))])
def test_an_undone_purge_removes_no_commit(lake: Lake, moment: str, at: int, client: Callable[[FileIO], Any]) -> None:
    """Another client commits in between, at the end of the undo."""
    before = contents(lake)
    lake.call("purge_files('t')")
    store = lake.table.file_io
    other = replace(lake.table, file_io=client(store))
    committed = Looks(store, moment, at, lambda: write_arrow(other, lake.rows(NINE)))
    lake.table = replace(lake.table, file_io=committed)
    error: PaimonError | None = None
    try:
        lake.call("undo('t', 'last')")
    except ConflictError as e:
        error = e
    lake.table = replace(lake.table, file_io=store)
    clear_cache()
    keys = [r["k"] for r in read_arrow(lake.table).to_pylist()]
    assert committed.done
    assert 9 in keys, error
    ids = lake.table.snapshots.listed_ids()
    assert ids == list(range(ids[0], ids[-1] + 1))
    if error is None:
        assert sorted(k for k in keys if k != 9) == before["rows"][f"snapshot {before['latest']}"]
        assert lake.call("trash('t')") == []
        return
    lake.call(f"rollback_to(table => 't', snapshot_id => {ids[-1] - 1}, trash => false)")
    lake.call("undo('t', 'last')")
    assert contents(lake)["rows"] == before["rows"]


class AtRemoval:
    """A schedule in which the process dies right after it has moved the nth snapshot aside."""

    def __init__(self, n: int) -> None:
        self._left = n

    def choose(self, operation: str, path: str) -> Mode | None:
        self._left -= operation == "rename" and path.rpartition("/")[2].startswith("snapshot-")
        return Mode.CRASH_AFTER if self._left == 0 else None


def interrupted_removal(lake: Lake, at: int, then: Callable[[], object]) -> None:
    """Undo a purge until the nth snapshot is aside; something happens right before."""
    store = lake.table.file_io
    lake.table = replace(lake.table, file_io=FaultFileIO(Looks(store, "removal", at, then), AtRemoval(at)))  # type: ignore[arg-type]
    with pytest.raises((PaimonError, OSError)):
        lake.call("undo('t', 'last')")
    lake.table = replace(lake.table, file_io=store)
    clear_cache()
    assert [p for p in lake.state() if "/.trash/" in p and "/snapshot-" in p and "/files/" not in p]


@pytest.mark.parametrize("at", [1, 2])
def test_an_undo_interrupted_at_a_removal_goes_on(lake: Lake, at: int) -> None:
    before = contents(lake)
    lake.call("purge_files('t')")
    interrupted_removal(lake, at, lambda: None)
    lake.call("undo('t', 'last')")
    assert same(contents(lake), before)
    assert lake.call("trash('t')") == []


def test_an_interrupted_undo_puts_a_commit_back(lake: Lake) -> None:
    before = contents(lake)
    lake.call("purge_files('t')")
    purge, plain = newest(lake), lake.table
    interrupted_removal(lake, 2, lambda: write_arrow(plain, lake.rows(NINE)))
    with pytest.raises(ConflictError, match="may be a commit"):
        lake.call(f"empty_trash('t', '{purge}')")
    with pytest.raises(ConflictError, match="was committed meanwhile"):
        lake.call(f"undo('t', '{purge}')")
    assert 9 in [r["k"] for r in read_arrow(lake.table).to_pylist()]
    lake.call(f"rollback_to(table => 't', snapshot_id => {before['latest']}, trash => false)")
    lake.call(f"undo('t', '{purge}')")
    assert contents(lake)["rows"] == before["rows"]
    assert lake.call("trash('t')") == []


def test_the_purge_of_a_table_without_snapshots() -> None:
    lake = Lake({"k": "INT"})
    stray = f"{lake.table.path}/bucket-0/data-x.parquet"
    lake.table.file_io.write(stray, b"x")
    lake.call("purge_files('t')")
    assert stray not in lake.state()
    lake.call("undo('t', 'last')")
    assert lake.table.file_io.read(stray) == b"x"
    assert lake.call("trash('t')") == []


def test_a_commit_between_plan_and_purge_comes_back(lake: Lake) -> None:
    purge = planned(lake, "purge_files('t')")
    lake.insert((9, "a"))
    before = contents(lake)
    purge()
    assert read_arrow(lake.table).num_rows == 0
    lake.call("undo('t', 'last')")
    assert same(contents(lake), before)


def test_a_rollback_interrupted_goes_on_in_its_run(lake: Lake) -> None:
    """A commit completes it; what is left goes to the run too."""
    before, store = contents(lake), lake.table.file_io
    lake.table = replace(lake.table, file_io=FaultFileIO(store, Nth(4, Mode.CRASH_AFTER)))
    with contextlib.suppress(PaimonError, OSError):
        lake.call("rollback_to('t', 3)")
    lake.table = replace(lake.table, file_io=store)
    (run,) = lake.call("trash('t')")
    assert (run["state"], run["procedure"]) == ("open", "rollback_to")
    interrupted = lake.state()
    lake.call("rollback_to('t', 3)")
    assert [r["run"] for r in lake.call("trash('t')")] == [run["run"]]
    lake.call(f"undo('t', '{run['run']}')")
    assert contents(lake) == before
    restore(lake, interrupted)
    lake.call(f"undo('t', '{run['run']}')")
    assert contents(lake) == before
    restore(lake, interrupted)
    lake.insert((9, "a"))
    assert "snapshot 4 exists again" in refused(lake, run["run"])
    lake.call("rollback_to(table => 't', snapshot_id => 3, trash => false)")
    lake.call(f"undo('t', '{run['run']}')")
    assert contents(lake)["rows"] == before["rows"]


def test_a_later_rollback_leaves_an_interrupted_run(lake: Lake) -> None:
    """A commit that completes a rollback finishes its run; one without trash has none."""
    store = lake.table.file_io
    lake.table = replace(lake.table, file_io=FaultFileIO(store, Nth(4, Mode.CRASH_AFTER)))
    with contextlib.suppress(PaimonError, OSError):
        lake.call("rollback_to('t', 3)")
    lake.table = replace(lake.table, file_io=store)
    lake.insert((9, "a"))
    (first,) = lake.call("trash('t')")
    assert (first["state"], lake.table.snapshots.latest_id()) == ("done", 4)
    lake.insert((9, "b"))
    lake.table = replace(lake.table, file_io=FaultFileIO(store, Nth(2, Mode.CRASH_AFTER)))
    with contextlib.suppress(PaimonError, OSError):
        lake.call("rollback_to(table => 't', snapshot_id => 3, trash => false)")
    lake.table = replace(lake.table, file_io=store)
    assert lake.table.snapshots.rollback_target() == 3
    lake.insert((8, "a"))
    assert lake.table.snapshots.latest_id() == 4
    assert lake.call("trash('t')") == [first]


def test_a_completed_rollback_begins_again(lake: Lake) -> None:
    """A commit completes a rollback whose process goes on: what it or a later commit removes goes to the same run."""
    store = lake.table.file_io
    lake.table = replace(lake.table, file_io=FaultFileIO(store, Nth(4, Mode.CRASH_AFTER)))
    with contextlib.suppress(PaimonError, OSError):
        lake.call("rollback_to('t', 3)")
    lake.table = replace(lake.table, file_io=store)
    run = newest(lake)
    lake.insert((9, "a"))
    lake.call("create_tag('t', 'fresh')")
    lake.table.snapshots.begin_rollback(3, run)
    lake.insert((8, "a"))
    assert RefStore.of(lake.table).tag_names() == ["first"]
    assert [p for p in lake.state() if f"/.trash/{run}/" in p and p.endswith("/tag-fresh")]
    (listed,) = lake.call("trash('t')")
    assert (listed["run"], listed["state"]) == (run, "done")
    (record,) = runs(lake.table)
    mark(lake.table, record, TrashState.UNDOING)
    lake.table.snapshots.begin_rollback(3, run)
    lake.insert((7, "a"))
    assert [r.state for r in runs(lake.table)] == [TrashState.UNDOING]


def test_retention(lake: Lake) -> None:
    lake.call("delete_branch('t', 'dev')")
    first = newest(lake)
    lake.now += 8 * DAY
    lake.call("rollback_to('t', 4)")
    second = newest(lake)
    assert [r["run"] for r in lake.call("trash('t')")] == [second]
    assert not [p for p in lake.state() if first in p]
    assert lake.one("empty_trash('t')")["status"] == "nothing to do"
    assert lake.one("empty_trash(table => 't', older_than => '2101-01-01')")["deleted_runs"] == 1
    assert not [p for p in lake.state() if ".trash" in p]
    with pytest.raises(NotFoundError, match="RUN_NOT_FOUND"):
        lake.call(f"undo('t', '{second}')")
    with pytest.raises(NotFoundError, match="RUN_NOT_FOUND"):
        lake.call("undo('20240514-100000-0a1b2c3d')")


def test_undo_of_a_table_alone(lake: Lake) -> None:
    with pytest.raises(NotFoundError, match=r"RUN_NOT_FOUND.*CALL sys\.undo\('db\.t', 'last'\)"):
        lake.call("undo('db.t')")
    with pytest.raises(NotFoundError, match=r"CALL sys\.undo\('t', 'last'\)"):
        lake.call("undo('t')")
    with pytest.raises(NotFoundError, match=r"RUN_NOT_FOUND.*sys\.trash"):
        lake.call("undo('db.other')")


def test_no_retention_means_no_trash(lake: Lake) -> None:
    lake.table = lake.table.with_options({"trash.retention": "0 s"})
    lake.call("rollback_to('t', 4)")
    assert lake.call("trash('t')") == []
    with pytest.raises(ArgumentError, match=r"trash\.retention"):
        lake.call("rollback_to(table => 't', snapshot_id => 3, trash => true)")


@pytest.mark.parametrize("text", CALLS)
def test_trash_false_deletes(lake: Lake, text: str) -> None:
    prepare(lake, text)
    name, _, rest = text.replace(", trash => true", "").partition("(")
    given = {"purge_files": "table => 't'", "remove_orphan_files": "table => 't'"} | {
        "delete_branch": "table => 't', branch => 'dev'"
    }
    lake.call(f"{name}({given.get(name, rest.rstrip(')'))}, trash => false)")
    assert not [p for p in lake.state() if ".trash" in p]


@pytest.mark.parametrize("text", every(3, [t for t in CALLS if "timestamp" not in t]))
def test_the_plan_is_what_goes(lake: Lake, text: str) -> None:
    """The dry run lists each file that is moved, with its size."""
    prepare(lake, text)
    before = contents(lake)["files"]
    planned = {a["path"]: a["bytes"] for a in lake.call(f"EXPLAIN CALL sys.{text}") if a["action"] == "delete"}
    lake.call(text)
    gone = {p: len(d) for p, d in before.items() if p not in contents(lake)["files"]}
    assert gone.items() <= planned.items()
    assert {p: n for p, n in planned.items() if n} == gone


def test_malformed_runs(lake: Lake) -> None:
    lake.call("rollback_to('t', 4)")
    run = newest(lake)
    path = f"{lake.table.path}/.trash/{run}/run.json"
    good = lake.table.file_io.read(path)
    for bad in (b"", b"[]", good.replace(b'"version": 1', b'"version": 2'), good.replace(b"[]", b'["../x"]')):
        lake.table.file_io.write(path, bad)
        (row,) = lake.call("trash('t')")
        assert (row["run"], row["time"], row["files"]) == (run, Timestamp(NOW), None)
        assert row["state"].startswith("malformed: ")
        for text in (f"undo('{run}')", "undo('t', 'last')", f"empty_trash('t', '{run}')"):
            with pytest.raises(PaimonError, match="CORRUPT_METADATA"):
                lake.call(text)
    lake.insert((9, "a"))
    lake.now += DAY
    lake.call("rollback_to('t', 4)")
    second = newest(lake)
    lake.call(f"undo('t', '{second}')")
    lake.call("rollback_to('t', 4)")
    second = newest(lake)
    lake.now += 8 * DAY
    lake.call("delete_branch('t', 'dev')")
    assert second not in {r["run"] for r in lake.call("trash('t')")}


def test_tables_that_cannot_be_read(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    for name in ("db.a_broken", "db.t"):
        warehouse.create(name)
    for i in range(2):
        warehouse.insert("db.t", (i, "a"))
    warehouse.call("rollback_to('db.t', 1)")
    schema = Path(warehouse.path) / "db.db/a_broken/schema/schema-0"
    schema.write_text("{broken")
    broken, run = warehouse.call("trash('db.*')")
    assert (broken["table"], broken["run"], broken["state"][:10]) == ("db.a_broken", None, "malformed:")
    assert warehouse.call(f"undo('{run['run']}')")[0]["restored_snapshots"] == 1


def test_an_interrupted_undo_is_not_emptied(lake: Lake) -> None:
    lake.call("rollback_to('t', 4)")
    (record,) = runs(lake.table)
    mark(lake.table, record, TrashState.UNDOING)
    lake.now += 8 * DAY
    assert lake.one("empty_trash('t')")["deleted_runs"] == 0
    assert lake.one("empty_trash(table => 't', older_than => '2101-01-01')")["deleted_runs"] == 0
    assert lake.one(f"empty_trash('t', '{record.run}')")["deleted_runs"] == 1
    lake.call("rollback_to('t', 4)")


def planned(lake: Lake, text: str) -> Callable[[], Any]:
    """Plan a CALL; what is returned executes it."""
    statement = parse_call(f"CALL sys.{text}")
    procedure = REGISTRY.get(statement.procedure)
    plan = procedure.body.plan(lake.ctx(), bind(procedure, statement.positional, statement.named))
    return lambda: procedure.body.execute(lake.ctx(), plan)


@pytest.mark.parametrize("text", ["empty_trash('t')", "maintain(table => 't', actions => 'empty_trash')"])
def test_an_undo_that_begins_before_the_trash_is_emptied(lake: Lake, text: str) -> None:
    lake.call("rollback_to('t', 4)")
    (record,) = runs(lake.table)
    lake.now += 8 * DAY
    execute, again = planned(lake, text), planned(lake, text)
    mark(lake.table, record, TrashState.UNDOING)
    before = lake.state()
    report = execute()
    assert lake.state() == before
    if "maintain" in text:
        assert {(row[1], row[3]) for row in report.result_rows} >= {("EXPIRED_TRASH", "nothing to do")}
    else:
        assert (report.status, report.result_rows, report.files_in) == ("nothing to do", [(0,)], 0)
    lake.call(f"empty_trash('t', '{record.run}')")
    again()
    assert not [p for p in lake.state() if ".trash" in p]


def test_an_undo_of_a_run_that_is_gone(lake: Lake) -> None:
    lake.call("rollback_to('t', 4)")
    undo = planned(lake, "undo('t', 'last')")
    lake.call(f"empty_trash('t', '{newest(lake)}')")
    with pytest.raises(ConflictError, match="deleted meanwhile"):
        undo()
    assert lake.call("trash('t')") == []


def test_runs_that_cannot_be_undone(lake: Lake) -> None:
    """doctor and why say so."""
    lake.call("rollback_to('t', 4)")
    (record,) = runs(lake.table)

    def told() -> tuple[dict[str, dict[str, Any]], str]:
        found = {f["finding"]: f for f in lake.call("doctor('t')") if "TRASH" in f["finding"]}
        return found, lake.call("why('t', 'tag-last')")[0]["detail"]

    found, way = told()
    assert (set(found), way.partition("; ")[2]) == ({"TRASH"}, f"{undo_of(record.run)} restores it")
    mark(lake.table, record, TrashState.EMPTYING)
    found, way = told()
    assert set(found) == {"EXPIRED_TRASH"}
    assert "the deletion of 1 run of the trash was interrupted" in found["EXPIRED_TRASH"]["found"]
    assert way.endswith("it cannot be restored")
    lake.table.file_io.write(f"{lake.table.path}/.trash/{record.run}/run.json", b"{}")
    found, way = told()
    assert (set(found), found["TRASH"]["remedy"]) == ({"TRASH"}, None)
    assert "can neither be undone nor deleted" in found["TRASH"]["found"]
    assert "no CALL restores it" in way
    mark(lake.table, record, TrashState.EMPTYING)
    assert lake.one("empty_trash('t')")["deleted_runs"] == 1
    assert lake.call("trash('t')") == []


def undo_of(run: str) -> str:
    return f"CALL sys.undo(table => 'db.t', run => '{run}')"
