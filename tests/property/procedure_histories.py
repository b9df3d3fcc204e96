"""Random histories of procedures: CALLs that fail at any operation of the store, die, or meet another program."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from paimon_spark.calls.context import CallContext
from paimon_spark.calls.run import run_call
from paimon_spark.catalog.filesystem import FileSystemCatalog
from paimon_spark.core.maintenance.trash import runs
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import ProtectingRef, RefKind, RefStore, branch_name, branches, protecting_refs
from paimon_spark.core.table import Table
from paimon_spark.engine.redistribution.rescale import execute_rescale, plan_rescale
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import PaimonError, UsageError
from paimon_spark.fs.base import FileIO
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.testing.fault_histories import MODES, Interloper
from paimon_spark.testing.faults import CRASHES, WRITES, FaultFileIO, Never, Nth, Recorder, applies
from paimon_spark.testing.history import random_rows
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.scenarios import NAME, WAREHOUSE, Kind, Rows, create, in_order, open_warehouse, rows_of
from paimon_spark.testing.tables import read_arrow
from tests.unit.procedures.calling import REGISTRY

DAY = 86_400_000
NOW = 4_102_444_800_000
_LONG = {
    "snapshot.num-retained.max": "50",
    "changelog.num-retained.max": "100",
    "tag.automatic-creation": "process-time",
    "tag.creation-period": "daily",
    "partition.expiration-time": "1 d",
    "partition.timestamp-formatter": "yyyyMMdd",
    "num-sorted-run.compaction-trigger": "2",
}
HISTORIES: Mapping[str, Kind] = {
    "keyed": Kind(("p", "k"), ("p",), {"bucket": "1", "changelog-producer": "input", **_LONG}),
    "vectors": Kind(
        ("p", "k"),
        ("p",),
        {
            "bucket": "1",
            "deletion-vectors.enabled": "true",
            "deletion-vectors.merge-on-read": "true",
            "changelog-producer": "lookup",
            **_LONG,
        },
    ),
    "append": Kind((), ("p",), {"compaction.min.file-num": "2", "file-index.bloom-filter.columns": "k", **_LONG}),
}
"""The kinds of tables."""
ROWS_STAY = frozenset(
    [
        "clear_consumers",
        "clone",
        "compact",
        "compact_database",
        "compact_manifest",
        "copy",
        "copy_files",
        "create_branch",
        "create_tag",
        "create_tag_from_timestamp",
        "create_tag_from_watermark",
        "delete_branch",
        "delete_tag",
        "empty_trash",
        "expire_changelogs",
        "expire_snapshots",
        "expire_tags",
        "mark_partition_done",
        "remove_orphan_files",
        "remove_unexisting_files",
        "remove_unexisting_manifests",
        "rename_branch",
        "rename_tag",
        "repair_earliest_snapshot",
        "repair_snapshots",
        "replace_tag",
        "rescale",
        "reset_consumer",
        "rewrite_file_index",
        "trigger_tag_automatic_creation",
    ]
)
"""Procedures after which the table has the rows of before."""
ALONE = frozenset(
    [
        "rollback",
        "rollback_to",
        "rollback_to_as_latest",
        "rollback_to_timestamp",
        "rollback_to_watermark",
        "undo",
        "purge_files",
        "fast_forward",
    ]
)
"""Procedures during which nothing else should write: what is committed meanwhile may be removed."""
REFERENCES = frozenset(("snapshot", "changelog", "tag", "consumer", "branch"))
"""Directories with files that refer to others."""
FORGETS = frozenset(
    [
        "expire_snapshots",
        "expire_changelogs",
        "rollback",
        "rollback_to",
        "rollback_to_timestamp",
        "rollback_to_watermark",
        "purge_files",
        "fast_forward",
        "undo",
    ]
)
"""Procedures that remove snapshots; all others keep every snapshot."""
ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(
        ("config", "diff", "doctor", "help", "history", "running", "trash", "verify", "why"), "changes nothing"
    ),
    **dict.fromkeys(
        (
            "init_file_based_privilege",
            "create_privileged_user",
            "drop_privileged_user",
            "grant_privilege_to_user",
            "revoke_privilege_from_user",
        ),
        "writes no file of a table: tests/unit/catalog/test_privileges.py",
    ),
    "cancel": "ends another CALL: tests/spark/test_cancel.py",
    "stop": "ends a job: tests/end_to_end/test_actions.py",
    "compact_chain_table": "needs a chain table: tests/unit/engine/test_chain_tables.py",
    "maintain": "calls others: tests/unit/engine/test_health_of_histories.py",
    "alter_column_default_value": "writes a schema and no file of the table's data",
    "data_evolution_merge_into": "needs Spark: tests/spark/test_data_evolution.py",
    "merge_into": "needs Spark: tests/spark/test_merge_into.py",
    **dict.fromkeys(
        ("create_global_index", "drop_global_index"),
        "needs a table with row tracking: tests/property/test_global_indexes.py",
    ),
    "reassign_row_id": "needs a table with data evolution: tests/property/test_data_evolution.py",
    "migrate_database": "needs Spark: tests/unit/procedures/test_migration.py",
    "migrate_file": "needs Spark: tests/unit/procedures/test_migration.py",
    "migrate_table": "needs Spark: tests/unit/procedures/test_migration.py",
}
"""Procedures that take no part, and why."""


class ProcedureHistory:
    """A table, what every snapshot and tag of it held, and procedures on it.

    Args:
        kind: the kind of table: a name in `HISTORIES`.
        random: decides all steps and faults.
    """

    def __init__(self, kind: str, random: Random) -> None:
        self.random = random
        self.kind = HISTORIES[kind]
        self.inner = InMemoryFileIO()
        self.store = FaultFileIO(self.inner)
        create(open_warehouse(self.inner), self.kind)
        self.held: dict[str, Rows] = {}
        self.called: dict[str, int] = {}
        self.faults = self.met = 0
        self.errors: list[str] = []
        self.deck: list[str] = []
        self.now = NOW
        for _ in range(3):
            self.write(self.inner)

    # ---- what happens

    def step(self) -> str:
        """Run a write or a CALL, mostly disturbed, and then the CALL again; return what was done."""
        if self.random.random() < 0.25:
            self.write(self.inner)
            self.check("a write")
            return "write"
        if self.random.random() < 0.15:
            return self.there_and_back()
        self.deck = self.deck or self.random.sample(sorted(CALLS), len(CALLS))
        name = self.deck.pop()
        text = CALLS[name](self)
        self.now += 1000
        before = self.look()
        schedule = self.schedule(name, text)
        error = self.call(text, schedule)
        fired = schedule.fired if isinstance(schedule, Nth) else None
        told = f"{text}, {getattr(schedule, 'mode', type(schedule).__name__)}: {fired}, {error!r}"
        died = isinstance(schedule, Nth) and schedule.mode in CRASHES
        if error is not None and not died and not isinstance(error, PaimonError):
            raise AssertionError(f"an error without a code: {told}") from error
        self.check(told)
        self.compare(name, before, told, met=isinstance(schedule, Interloper))
        if fired is not None:
            self.faults += 1
            again = self.call(text, None)
            if again is not None and not isinstance(again, PaimonError):
                raise AssertionError(f"again, an error without a code: {told}, {again!r}") from again
            self.check(f"again: {told}")
        self.called[name] = self.called.get(name, 0) + (error is None)
        if error is not None:
            self.errors.append(told)
        return told

    def there_and_back(self) -> str:
        """Move something to the trash and undo that, disturbed; every reference must be as it was.

        Raises:
            AssertionError: it is not.
        """
        text = self.random.choice(REMOVALS)(self)
        before, known = self.references(), {r.run for r in runs(self.table())}
        self.now += 1000
        removed = self.call(text, None)
        new = [r.run for r in runs(self.table()) if r.run not in known]
        told = f"{text}, {removed!r}, undone"
        if not new:
            return told
        self.check(text)
        undo = f"undo('t', '{new[0]}')"
        self.now += 1000
        schedule = self.schedule("undo", undo)
        error = self.call(undo, schedule)
        told += f", {getattr(schedule, 'mode', None)}: {getattr(schedule, 'fired', None)}, {error!r}"
        self.check(told)
        if new[0] in {r.run for r in runs(self.table())}:
            again = self.call(undo, None)
            if again is not None:
                raise AssertionError(f"{told}: again, {again!r}") from again
            self.check(told)
        self.faults += isinstance(schedule, Nth) and schedule.fired is not None
        after = self.references()
        if after != before:
            changed = sorted(p for p in before.keys() | after.keys() if before.get(p) != after.get(p))
            raise AssertionError(f"{told}: not as before: {changed}")
        self.called["undo"] = self.called.get("undo", 0) + 1
        return told

    def references(self) -> dict[str, bytes]:
        """Return the files of snapshots, changelogs, tags, consumers and branches."""
        table = self.table()
        found = (f.path for f in self.inner.list_recursive(table.path))
        inside = (p for p in found if p[len(table.path) + 1 :].partition("/")[0] in REFERENCES)
        return {
            p: self.inner.read(p) for p in inside if not p.rpartition("/")[2].startswith((".", "LATEST", "EARLIEST"))
        }

    def call(self, text: str, schedule: Nth | Interloper | None) -> Exception | None:
        """Run a CALL on the store with faults; return its error."""
        self.store.schedule = schedule or Never()
        clear_cache()
        try:
            run_call(f"CALL sys.{text}", self.context(self.store), REGISTRY)
        except Exception as e:  # noqa: BLE001 - every exception is judged
            return e
        finally:
            self.store.schedule, self.store.crashed = Never(), False
            self.store.settle()
        return None

    def context(self, file_io: FileIO) -> CallContext:
        """Return the context of a CALL."""
        return CallContext(
            catalog=FileSystemCatalog(WAREHOUSE, {}, file_io),
            catalog_name="paimon",
            runner=LocalRunner(),
            clock_millis=lambda: self.now,
        )

    def schedule(self, name: str, text: str) -> Nth | Interloper | None:
        """Return the fault or concurrent commit of a CALL. Nothing is committed during a rollback or an undo, as
        documented.
        """
        draw = self.random.random()
        if draw < 0.2 or (draw > 0.75 and name in ALONE):
            return None
        log = self.rehearse(text)
        if draw > 0.75:
            changes = sum(operation in WRITES for operation in log)
            return Interloper(self.random.randrange(1, changes + 1), self.other) if changes else None
        mode = self.random.choice(MODES)
        possible = sum(applies(mode, operation) for operation in log)
        return Nth(self.random.randrange(1, possible + 1), mode) if possible else None

    def rehearse(self, text: str) -> list[str]:
        """Return the operations of a CALL on a copy of the store."""
        recorder, copy = Recorder(), self.inner.fork()
        clear_cache()
        with contextlib.suppress(PaimonError):
            run_call(f"CALL sys.{text}", self.context(FaultFileIO(copy, recorder)), REGISTRY)
        return [operation for operation, _ in recorder.log]

    def other(self) -> None:
        """Commit as another program does: a write, an expiry, a compaction, a tag."""
        self.met += 1
        table = open_warehouse(self.inner).table(NAME)
        draw = self.random.randrange(4)
        if draw == 0:
            table.expire_snapshots(retain_max=2, retain_min=1)
        elif draw == 1:
            table.compact(full=True)
        elif draw == 2:
            name = f"other{self.random.randrange(1000)}"
            table.create_tag(name)
        else:
            self.write(self.inner)

    def write(self, file_io: FileIO) -> None:
        """Write some rows."""
        rows = [(k, self.random.choice(("20200101", "21000101")), v) for k, _, v in random_rows(self.random)]
        table = open_warehouse(file_io).table(NAME, {"end-input.watermark": str(len(self.held))})
        try:
            table.append(rows_of(rows))
        except UsageError:  # a rescale was interrupted, or rolled back
            execute_rescale(plan_rescale(table.load(), table.load().options.bucket), None)
            table.append(rows_of(rows))

    # ---- names for arguments

    def table(self, branch: str = "main") -> Table:
        return replace(open_warehouse(self.inner).table(NAME).load(), branch=branch)

    def snapshot(self) -> int:
        return self.random.choice(self.table().snapshots.ids() or [1])

    def tag(self) -> str:
        if not RefStore.of(self.table()).tag_names():
            self.call("create_tag('t', 'x')", None)
        return self.random.choice(RefStore.of(self.table()).tag_names() or ["x"])

    def branch(self) -> str:
        if not branches(self.table()):
            self.call(f"create_branch(table => 't', branch => 'dev', snapshot_id => {self.snapshot()})", None)
        return self.random.choice([*map(branch_name, branches(self.table()))] or ["dev"])

    def new(self) -> str:
        return self.random.choice("xyz")

    def run(self) -> str:
        if not runs(self.table()):
            self.call(self.random.choice(REMOVALS)(self), None)
        return self.random.choice([*(r.run for r in runs(self.table())), "last"])

    def flag(self) -> str:
        return self.random.choice(["true", "false"])

    # ---- checks

    def check(self, told: str) -> None:
        """Check that every file that a reference needs exists, and that every reference reads as it did.

        Raises:
            AssertionError: one does not.
        """
        clear_cache()
        table = self.table()
        found = violations(table)
        if found:
            raise AssertionError(f"{told}: {found}")
        for ref in protecting_refs(table):
            if ref.kind is RefKind.CHANGELOG:
                continue
            key = ManifestStore(table).lists_key(ref.snapshot) + str(ref.snapshot.index_manifest)
            rows = self.rows(ref)
            if self.held.setdefault(key, rows) != rows:
                raise AssertionError(f"{told}: {ref.label} holds {rows}, not {self.held[key]}")
        for branch in ("main", *map(branch_name, branches(table))):
            store = self.table(branch).snapshots
            ids = store.ids()
            if ids and store.latest_id() != ids[-1]:
                raise AssertionError(f"{told}: the latest of {branch} is {store.latest_id()}, not {ids[-1]}")

    def rows(self, ref: ProtectingRef) -> Rows:
        """Return the rows of a snapshot or tag."""
        table = self.table(ref.branch)
        version: int | str = ref.name if ref.kind is RefKind.TAG else int(ref.name)
        if ref.kind is RefKind.TAG:
            found = read_arrow(table.with_options({"scan.tag-name": ref.name}))
        else:
            found = read_arrow(table, version=version)
        return tuple(sorted(zip(*(found.column(n).to_pylist() for n in ("k", "p", "v")), strict=True), key=in_order))

    def look(self) -> tuple[Rows, set[str], dict[str, int], list[int]]:
        """Return the rows, what identifies the files of each snapshot, the consumers, and the ids of the snapshots."""
        table, store = self.table(), ManifestStore(self.table())
        latest = table.snapshots.latest()
        rows: Rows = ()
        if latest is not None:
            rows = self.rows(ProtectingRef(RefKind.SNAPSHOT, "main", str(latest.id), latest))
        keys = {store.lists_key(s) for i in table.snapshots.ids() if (s := table.snapshots.find(i)) is not None}
        return rows, keys, RefStore.of(table).consumers(), table.snapshots.ids()

    def compare(
        self, name: str, before: tuple[Rows, set[str], dict[str, int], list[int]], told: str, *, met: bool
    ) -> None:
        """Check what a procedure must not change.

        Raises:
            AssertionError: it did.
        """
        if met:
            return
        rows, keys, consumers, _ = self.look()
        if name in ROWS_STAY and rows != before[0]:
            raise AssertionError(f"{told}: the rows are {rows}, not {before[0]}")
        if name not in FORGETS and not before[1] <= keys:
            raise AssertionError(f"{told}: snapshots are lost")
        if name == "expire_snapshots" and consumers:
            first, ids = min(consumers.values()), self.table().snapshots.ids()
            if first in before[3] and first not in ids:
                raise AssertionError(f"{told}: the consumer at {first} has lost its snapshot; there are {ids}")


CALLS: Mapping[str, Callable[[ProcedureHistory], str]] = {
    "clear_consumers": lambda h: "clear_consumers('t')",
    "clone": lambda h: (
        f"clone(database => 'default', table => 't', target_database => 'default', "
        f"target_table => 'clone{h.random.randrange(99)}', clone_from => 'paimon')"
    ),
    "compact": lambda h: f"compact(table => 't', compact_strategy => '{h.random.choice(['full', 'minor'])}')",
    "compact_database": lambda h: "compact_database('default')",
    "compact_manifest": lambda h: "compact_manifest('t')",
    "copy": lambda h: f"copy('t', 'copy{h.random.randrange(99)}')",
    "copy_files": lambda h: (
        f"copy_files(database => 'default', table => 't', target_warehouse => '{WAREHOUSE}2', "
        f"target_database => 'default', target_table => 'files{h.random.randrange(99)}')"
    ),
    "create_branch": lambda h: f"create_branch(table => 't', branch => '{h.new()}', snapshot_id => {h.snapshot()})",
    "create_tag": lambda h: f"create_tag('t', '{h.new()}', {h.snapshot()}, '1 d')",
    "create_tag_from_timestamp": lambda h: f"create_tag_from_timestamp('t', '{h.new()}', 0)",
    "create_tag_from_watermark": lambda h: f"create_tag_from_watermark('t', '{h.new()}', 0)",
    "delete_branch": lambda h: f"delete_branch(table => 't', branch => '{h.branch()}', trash => {h.flag()})",
    "delete_tag": lambda h: f"delete_tag(table => 't', tag => '{h.tag()}', trash => {h.flag()})",
    "drop_partition": lambda h: "drop_partition('t', 'p=20200101')",
    "empty_trash": lambda h: f"empty_trash(table => 't', run => '{h.run()}')",
    "expire_changelogs": lambda h: (
        f"expire_changelogs(table => 't', retain_max => 2, retain_min => 1, "
        f"older_than => '2100-01-02', trash => {h.flag()})"
    ),
    "expire_partitions": lambda h: "expire_partitions('t', '1 d', 'yyyyMMdd')",
    "expire_snapshots": lambda h: (
        f"expire_snapshots(table => 't', retain_max => {h.random.randrange(1, 5)}, "
        f"retain_min => 1, older_than => '2100-01-02', trash => {h.flag()})"
    ),
    "expire_tags": lambda h: f"expire_tags(table => 't', older_than => '2099-01-01', trash => {h.flag()})",
    "fast_forward": lambda h: f"fast_forward('t', '{h.branch()}')",
    "mark_partition_done": lambda h: "mark_partition_done('t', 'p=20200101')",
    "merge_branch": lambda h: f"merge_branch('t', '{h.branch()}')",
    "purge_files": lambda h: f"purge_files(table => 't', trash => {h.flag()})",
    "remove_orphan_files": lambda h: f"remove_orphan_files(table => 't', mode => 'LOCAL', trash => {h.flag()})",
    "remove_unexisting_files": lambda h: "remove_unexisting_files('t')",
    "remove_unexisting_manifests": lambda h: "remove_unexisting_manifests('t')",
    "rename_branch": lambda h: f"rename_branch('t', '{h.branch()}', '{h.new()}{h.random.randrange(99)}')",
    "rename_tag": lambda h: f"rename_tag('t', '{h.tag()}', '{h.new()}{h.random.randrange(99)}')",
    "repair_earliest_snapshot": lambda h: f"repair_earliest_snapshot('t', {min(h.table().snapshots.ids())})",
    "repair_snapshots": lambda h: "repair_snapshots('t')",
    "replace_tag": lambda h: f"replace_tag('t', '{h.tag()}', {h.snapshot()})",
    "rescale": lambda h: f"rescale('t', {h.random.randrange(1, 4)})",
    "reset_consumer": lambda h: f"reset_consumer('t', 'reader', {h.snapshot()})",
    "rewrite_file_index": lambda h: "rewrite_file_index('t')",
    "rollback": lambda h: f"rollback(table => 't', snapshot => {h.snapshot()}, trash => {h.flag()})",
    "rollback_to": lambda h: f"rollback_to(table => 't', tag => '{h.tag()}', trash => {h.flag()})",
    "rollback_to_as_latest": lambda h: f"rollback_to_as_latest('t', {h.snapshot()})",
    "rollback_to_timestamp": lambda h: f"rollback_to_timestamp('t', {NOW})",
    "rollback_to_watermark": lambda h: "rollback_to_watermark('t', 0)",
    "trigger_tag_automatic_creation": lambda h: "trigger_tag_automatic_creation('t')",
    "undo": lambda h: f"undo('t', '{h.run()}')",
}
"""What is called, by procedure."""
REMOVALS: tuple[Callable[[ProcedureHistory], str], ...] = (
    lambda h: f"rollback(table => 't', snapshot => {h.snapshot()})",
    lambda h: f"rollback_to(table => 't', tag => '{h.tag()}')",
    lambda h: "purge_files('t')",
    lambda h: f"delete_branch('t', '{h.branch()}')",
    lambda h: f"delete_tag(table => 't', tag => '{h.tag()}', trash => true)",
    lambda h: (
        f"expire_snapshots(table => 't', retain_max => {h.random.randrange(1, 4)}, retain_min => 1, "
        f"older_than => '2100-01-02', trash => true)"
    ),
    lambda h: "expire_changelogs(table => 't', delete_all => true, trash => true)",
    lambda h: "expire_tags(table => 't', older_than => '2099-01-01', trash => true)",
    lambda h: "remove_orphan_files('t')",
)
"""What can be undone."""
