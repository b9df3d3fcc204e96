"""Random histories of a table with branches: every snapshot and tag of every branch keeps its rows.

Branches get columns of their own, and lose their first snapshots before the main branch is forwarded to them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.core.metadata.branches import branch_names, on_branch
from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.expiry.expire_changelogs import execute_expire_changelogs, plan_expire_changelogs
from paimon_spark.engine.expiry.orphans import execute_orphans, plan_orphans
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.refs.branches import (
    execute_create_branch,
    execute_delete_branches,
    execute_rename_branch,
    plan_create_branch,
    plan_delete_branches,
    plan_rename_branch,
)
from paimon_spark.engine.refs.fast_forward import execute_fast_forward, plan_fast_forward
from paimon_spark.engine.refs.tags import execute_delete_tags, execute_tag, plan_create_tag, plan_delete_tags
from paimon_spark.engine.rollback import execute_rollback, plan_rollback
from paimon_spark.engine.rollback_as_latest import execute_as_latest, plan_as_latest
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import UsageError
from paimon_spark.spec.column_changes import AddColumn
from paimon_spark.spec.evolution import apply_changes
from paimon_spark.spec.paths import MAIN_BRANCH
from paimon_spark.spec.types import parse_atomic
from paimon_spark.testing.invariants import violations
from paimon_spark.testing.tables import new_table, read_arrow

FAR = 4_102_444_800_000
NAMES = ("b", "c", "d")
COLUMNS = ("c", "d")
Rows = dict[int, dict[str, int | None]]
STEPS = (
    "put",
    "put",
    "compact",
    "tag",
    "untag",
    "create",
    "create_empty",
    "delete",
    "rename",
    "forward",
    "forward",
    "expire",
    "outrun",
    "alter",
    "rollback",
    "rollback_to_tag",
    "as_latest",
    "orphans",
    "changelogs",
)


_MAX = {"merge-engine": "aggregation", "fields.v.aggregate-function": "max"}
_VECTORS = {"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"}
KINDS = (
    {"bucket": "1"},
    {"dynamic-bucket.target-row-num": "2"},
    {"bucket": "2", "changelog-producer": "lookup"},
    {"bucket": "1", "changelog-producer": "input"},
    {"bucket": "1", **_VECTORS},
    {"bucket": "1", "changelog-producer": "lookup", **_MAX, **_VECTORS},
    {"bucket": "2", "changelog-producer": "full-compaction", **_MAX},
    {"bucket": "1", "merge-engine": "partial-update"},
)
"""Tables in which the row of a key is the last one that was written: the values of a history only grow."""


@dataclass(frozen=True)
class State:
    """What is expected of a snapshot: its rows, their files, those of the snapshot before it, and its schema."""

    number: int
    rows: Rows
    files: int
    base: int
    schema: int


@dataclass
class Branch:
    """The expected snapshots, tags and schemas of a branch; a schema is the names of its columns."""

    snapshots: dict[int, State] = field(default_factory=dict)
    tags: dict[str, tuple[int, State]] = field(default_factory=dict)
    schemas: dict[int, tuple[str, ...]] = field(default_factory=lambda: {0: ("k", "v")})

    @property
    def latest(self) -> State | None:
        return self.snapshots[max(self.snapshots)] if self.snapshots else None

    def rows_of(self, state: State) -> Rows:
        return {k: {n: row.get(n) for n in self.schemas[state.schema]} for k, row in state.rows.items()}

    def start(self, snapshot_id: int, state: State) -> Branch:
        """Return a new branch that starts from a snapshot of this one."""
        return Branch({snapshot_id: state}, {}, {i: names for i, names in self.schemas.items() if i <= state.schema})


class Machine:
    """A table and what it is expected to hold."""

    def __init__(self, draw: st.DataObject) -> None:
        options = {"write-only": "true", **draw.draw(st.sampled_from(KINDS), "kind")}
        if draw.draw(st.booleans(), "long-lived changelogs"):
            options["changelog.time-retained"] = "365 d"
        self.table: Table = new_table({"k": "INT", "v": "INT"}, primary_key=["k"], options=options)
        self.branches = {MAIN_BRANCH: Branch()}
        self.draw = draw
        self.count = 0

    def pick(self, *, others: bool = False) -> str | None:
        names = sorted(n for n in self.branches if not (others and n == MAIN_BRANCH))
        return self.draw.draw(st.sampled_from(names), "branch") if names else None

    def run(self, step: str) -> None:
        name = self.pick(others=step in ("delete", "rename", "forward"))
        if name is not None:
            getattr(self, step)(name, self.branches[name], self.on(name))

    def on(self, name: str) -> Table:
        """Return the table on a branch at its latest schema."""
        table = on_branch(self.table, name)
        latest = table.schema_store.latest()
        assert latest is not None
        return table.with_schema(latest)

    def committed(self, branch: Branch, rows: Rows, *, snapshot_id: int = 0, files: int = 0) -> None:
        """Expect a new snapshot with new files, or with those of another one."""
        self.count, before = self.count + 1, branch.latest
        base = 0 if before is None else before.files
        state = State(self.count, rows, files or self.count, base, max(branch.schemas))
        branch.snapshots[snapshot_id or max(branch.snapshots, default=0) + 1] = state

    def put(self, _name: str, branch: Branch, table: Table) -> None:
        key, names, value = self.draw.draw(st.integers(0, 3), "key"), table.schema.field_names, self.count + 1
        row = {n: key if n == "k" else value for n in names}
        write_arrow(table, pa.table({n: pa.array([v], pa.int32()) for n, v in row.items()}))
        before = branch.latest
        self.committed(branch, {**(before.rows if before else {}), key: dict(row)})

    def compact(self, _name: str, branch: Branch, table: Table) -> None:
        plan, before = plan_compaction(table, strategy=Strategy.FULL), branch.latest
        if not plan.is_empty and before is not None:
            execute_compaction(plan, LocalRunner())
            self.committed(branch, before.rows)

    def alter(self, _name: str, branch: Branch, table: Table) -> None:
        free = [n for n in COLUMNS if n not in table.schema.field_names]
        if free:
            column = self.draw.draw(st.sampled_from(free), "column")
            change = AddColumn((column,), parse_atomic("INT"))
            schema = apply_changes(table.schema, [change], 0, has_snapshots=bool(branch.snapshots))
            assert table.schema_store.try_create(schema)
            branch.schemas[schema.id] = schema.field_names

    def tag(self, _name: str, branch: Branch, table: Table) -> None:
        tag = self.draw.draw(st.sampled_from(["x", "y"]), "tag")
        if branch.snapshots and tag not in branch.tags:
            chosen = self.draw.draw(st.sampled_from(sorted(branch.snapshots)), "snapshot")
            execute_tag(table, plan_create_tag(table, tag, snapshot_id=chosen, clock_millis=0))
            branch.tags[tag] = (chosen, branch.snapshots[chosen])

    def untag(self, _name: str, branch: Branch, table: Table) -> None:
        if branch.tags:
            tag = self.draw.draw(st.sampled_from(sorted(branch.tags)), "tag")
            execute_delete_tags(table, plan_delete_tags(table, tag))
            del branch.tags[tag]

    def create(self, _name: str, branch: Branch, table: Table) -> None:
        new = self._new_name()
        if new is None or not (branch.tags or branch.snapshots):
            return
        if branch.tags and self.draw.draw(st.booleans(), "from a tag"):
            tag = self.draw.draw(st.sampled_from(sorted(branch.tags)), "tag")
            execute_create_branch(table, plan_create_branch(table, new, tag=tag))
            self.branches[new] = branch.start(*branch.tags[tag])
            self.branches[new].tags[tag] = branch.tags[tag]
        elif branch.snapshots:
            chosen = self.draw.draw(st.sampled_from(sorted(branch.snapshots)), "snapshot")
            execute_create_branch(table, plan_create_branch(table, new, snapshot_id=chosen))
            self.branches[new] = branch.start(chosen, branch.snapshots[chosen])

    def create_empty(self, _name: str, branch: Branch, table: Table) -> None:
        new = self._new_name()
        if new is not None:
            execute_create_branch(table, plan_create_branch(table, new))
            self.branches[new] = Branch(schemas=dict(branch.schemas))

    def delete(self, name: str, _branch: Branch, _table: Table) -> None:
        execute_delete_branches(self.table, plan_delete_branches(self.table, name))
        del self.branches[name]

    def rename(self, name: str, branch: Branch, _table: Table) -> None:
        new = self._new_name()
        if new is not None:
            execute_rename_branch(self.table, plan_rename_branch(self.table, name, new))
            del self.branches[name]
            self.branches[new] = branch

    def forward(self, name: str, branch: Branch, _table: Table) -> None:
        if not branch.snapshots:
            return
        main, first = self.branches[MAIN_BRANCH], min(branch.snapshots)
        gone = [i for i in main.schemas if i >= branch.snapshots[first].schema and i not in branch.schemas]
        other = [i for i, names in main.schemas.items() if branch.schemas.get(i, names) != names]
        lost = min([*gone, *other], default=FAR)
        tags = {n: t for n, t in main.tags.items() if t[0] < first and n not in branch.tags}
        if any(state.schema >= lost for _, state in tags.values()):
            with pytest.raises(UsageError, match="stays"):
                plan_fast_forward(self.table, name)
            return
        execute_fast_forward(self.table, plan_fast_forward(self.table, name))
        before = main.snapshots.get(first - 1)
        stays = before is not None and before.schema < lost and before.files == branch.snapshots[first].base
        kept = {i: state for i, state in main.snapshots.items() if i < first and stays}
        schemas = {i: names for i, names in main.schemas.items() if i not in gone}
        self.branches[MAIN_BRANCH] = Branch(kept | branch.snapshots, tags | branch.tags, schemas | branch.schemas)

    def expire(self, _name: str, branch: Branch, table: Table) -> None:
        if branch.snapshots:
            execute_expire(table, plan_expire(table, ExpireConfig(retain_max=1, retain_min=1), FAR))
            latest = max(branch.snapshots)
            branch.snapshots = {latest: branch.snapshots[latest]}

    def outrun(self, name: str, branch: Branch, table: Table) -> None:
        for _ in range(self.draw.draw(st.integers(1, 4), "commits")):
            self.put(name, branch, table)
        self.expire(name, branch, table)

    def rollback(self, _name: str, branch: Branch, table: Table) -> None:
        if branch.snapshots:
            target = self.draw.draw(st.sampled_from(sorted(branch.snapshots)), "target")
            execute_rollback(table, plan_rollback(table, snapshot_id=target))
            self._rolled_back(branch, target, branch.snapshots[target])

    def rollback_to_tag(self, _name: str, branch: Branch, table: Table) -> None:
        if not branch.tags or not branch.snapshots:
            return
        tag = self.draw.draw(st.sampled_from(sorted(branch.tags)), "tag")
        target, state = branch.tags[tag]
        if branch.snapshots.get(target, state) != state:
            with pytest.raises(UsageError, match="another"):
                plan_rollback(table, tag=tag)
            return
        execute_rollback(table, plan_rollback(table, tag=tag))
        self._rolled_back(branch, target, state)

    def _rolled_back(self, branch: Branch, target: int, state: State) -> None:
        branch.snapshots = {i: s for i, s in branch.snapshots.items() if i < target} | {target: state}
        branch.tags = {n: t for n, t in branch.tags.items() if t[0] <= target}

    def as_latest(self, _name: str, branch: Branch, table: Table) -> None:
        if not branch.snapshots:
            return
        target = self.draw.draw(st.sampled_from(sorted(branch.snapshots)), "target")
        state = branch.snapshots[target]
        plan = plan_as_latest(table, snapshot_id=target, clock_millis=FAR)
        now = execute_as_latest(table, plan)
        if now not in branch.snapshots:
            self.committed(branch, state.rows, snapshot_id=now, files=state.files)
        if plan.pin is not None:
            branch.tags[plan.pin.name] = (target, state)

    def orphans(self, _name: str, _branch: Branch, _table: Table) -> None:
        execute_orphans(plan_orphans([self.table], LocalRunner(), clock_millis=FAR))

    def changelogs(self, _name: str, _branch: Branch, table: Table) -> None:
        everything = self.draw.draw(st.booleans(), "all")
        execute_expire_changelogs(
            table, plan_expire_changelogs(table, ExpireConfig(retain_min=1), FAR, everything=everything)
        )

    def _new_name(self) -> str | None:
        free = [n for n in NAMES if n not in self.branches]
        return self.draw.draw(st.sampled_from(free), "new name") if free else None

    def check(self) -> None:
        assert ["main", *branch_names(self.table)] == ["main", *sorted(set(self.branches) - {"main"})]
        for name, expected in self.branches.items():
            table = self.on(name)
            assert table.schema.field_names == expected.schemas[max(expected.schemas)]
            assert table.snapshots.ids() == sorted(expected.snapshots)
            assert table.snapshots.earliest_id() == min(expected.snapshots, default=None)
            for snapshot_id, state in expected.snapshots.items():
                assert _rows(table, {"scan.snapshot-id": str(snapshot_id)}) == expected.rows_of(state)
            assert RefStore.of(table).tag_names() == sorted(expected.tags)
            for tag, (_, state) in expected.tags.items():
                assert _rows(table, {"scan.tag-name": tag}) == expected.rows_of(state)
            assert violations(table) == []


def _rows(table: Table, options: dict[str, str]) -> Rows:
    found: list[dict[str, Any]] = read_arrow(table.with_options(options)).to_pylist()
    return {r["k"]: r for r in found}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(draw=st.data())
def test_every_snapshot_of_every_branch_keeps_its_rows(draw: st.DataObject) -> None:
    machine = Machine(draw)
    for step in draw.draw(st.lists(st.sampled_from(STEPS), min_size=5, max_size=25), "steps"):
        machine.run(step)
        machine.check()
