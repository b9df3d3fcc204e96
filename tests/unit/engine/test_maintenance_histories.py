"""Whatever happens to a table: nothing that can be read is lost, and without rollbacks nothing is left behind."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.scan.scan import scan
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.refs.tags import execute_delete_tags, execute_tag, list_tags, plan_create_tag, plan_delete_tags
from paimon_spark.engine.rollback import execute_rollback, plan_rollback
from paimon_spark.fs.base import FileIO
from paimon_spark.spec.kinds import FileSource
from tests.unit.core import samples
from tests.unit.core.history import History, leaked, lost

ACTIONS = ["add", "add", "compact", "upgrade", "tag", "untag", "expire", "rollback", "branch", "crash"]
STEPS = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 99)), max_size=25)


class Story:
    """A table to which arbitrary things happen."""

    def __init__(self, file_io: FileIO | None = None, path: str = "/wh/db.db/t") -> None:
        self.history = History({"manifest.merge-min-count": "3"}, file_io=file_io, path=path)
        self.history.add()
        self.clean = True

    def run(self, step: str, n: int) -> None:
        clear_cache()
        getattr(self, step)(n)
        clear_cache()
        table = self.history.table
        assert lost(table) == set(), step
        assert not self.clean or leaked(table) == set(), step

    def add(self, n: int) -> None:
        self.history.add()

    def compact(self, n: int) -> None:
        live = self._live()
        into = samples.file(1, 9, level=5, file_source=FileSource.COMPACT)
        self.history.compact(*live, into=into)

    def upgrade(self, n: int) -> None:
        live = self._live()
        if len(live) == 1 and live[0].level < 5:
            message = samples.message(total_buckets=1, compact_before=(live[0],), compact_after=(live[0].upgrade(5),))
            self.history._commit(message, ())

    def tag(self, n: int) -> None:
        ids = self.history.table.snapshots.ids()
        plan = plan_create_tag(
            self.history.table, f"t{n % 7}", snapshot_id=ids[n % len(ids)], clock_millis=0, if_not_exists=True
        )
        execute_tag(self.history.table, plan)

    def untag(self, n: int) -> None:
        names = list(list_tags(self.history.table))
        if names:
            chosen = names[: n % 3 + 1]
            plan = plan_delete_tags(self.history.table, chosen, exact=bool(n % 2))
            execute_delete_tags(self.history.table, plan)

    def expire(self, n: int) -> None:
        config = ExpireConfig(
            retain_max=n % 4 + 1, retain_min=1, older_than_millis=-1, max_deletes=99, exact=bool(n % 2)
        )
        execute_expire(self.history.table, plan_expire(self.history.table, config, 0))

    def crash(self, n: int) -> None:
        plan = plan_expire(self.history.table, ExpireConfig(retain_max=2, retain_min=1, older_than_millis=-1), 0)
        for action in plan.deletions[: n % 9]:
            self.history.table.file_io.delete(action.path)
        self.clean = False
        execute_expire(self.history.table, plan)

    def rollback(self, n: int) -> None:
        table = self.history.table
        names, ids = list(list_tags(table)), table.snapshots.ids()
        if names and n % 2:
            execute_rollback(table, plan_rollback(table, tag=names[n % len(names)]))
        else:
            execute_rollback(table, plan_rollback(table, snapshot_id=ids[n % len(ids)]))
        self.clean = False

    def branch(self, n: int) -> None:
        table, tags = self.history.table, list(list_tags(self.history.table).values())
        if tags:
            snapshot = tags[n % len(tags)].snapshot
            branch = replace(table, branch=f"b{n}")
            branch.schema_store.try_create(table.schema)
            table.file_io.write(branch.paths.snapshot(snapshot.id), snapshot.to_json().encode())

    def _live(self) -> list[samples.DataFileMeta]:
        table = self.history.table
        return [e.file for e in scan(table, table.snapshots.latest()).entries]


@given(STEPS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nothing_is_lost_and_nothing_left_behind(steps: list[tuple[str, int]]) -> None:
    story = Story()
    for step, n in steps:
        story.run(step, n)
