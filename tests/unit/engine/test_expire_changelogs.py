"""Long-lived changelogs: kept by the expiry of snapshots, expired by limits of their own."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.core.maintenance.retention import RetentionRule, choose_changelog_end
from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.table import Table
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.expiry.expire_changelogs import execute_expire_changelogs, plan_expire_changelogs
from paimon_spark.engine.expiry.orphans import execute_orphans, plan_orphans
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.post_commit import maintain_after_commit
from paimon_spark.engine.refs.tags import execute_tag, plan_create_tag
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import ArgumentError
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.refs import Consumer
from paimon_spark.testing.tables import new_table, read_arrow

FAR = 4_102_444_800_000


def table_of(snapshots: int, **options: str) -> Table:
    """Return a table whose snapshots but the last have expired; their changelogs are long-lived."""
    given = {"bucket": "1", "write-only": "true", "changelog.num-retained.max": "2147483647"}
    given |= {"changelog.time-retained": "365 d", **options}
    table = new_table({"k": "INT"}, primary_key=["k"], options=given)
    for i in range(snapshots):
        write_arrow(table, pa.table({"k": pa.array([i], pa.int32())}))
    execute_expire(table, plan_expire(table, ExpireConfig(retain_max=1, retain_min=1), FAR))
    assert RefStore.of(table).changelog_ids() == list(range(1, snapshots))
    return table


def expire(table: Table, *, everything: bool = False, **limits: int) -> tuple[list[int], int]:
    """Expire, and return the changelogs that are left and the number of those that went."""
    config = ExpireConfig(**limits)
    done = execute_expire_changelogs(table, plan_expire_changelogs(table, config, FAR, everything=everything))
    return RefStore.of(table).changelog_ids(), done.count


def hint(table: Table, name: str) -> bytes:
    return table.file_io.read(f"{table.paths.changelog_dir}/{name}")


def test_limits_count_from_the_latest_snapshot() -> None:
    table = table_of(8)
    assert expire(table, retain_max=4, retain_min=4) == ([5, 6, 7], 4)
    assert hint(table, "EARLIEST") == b"5"
    assert expire(table, retain_max=4, retain_min=4) == ([5, 6, 7], 0)
    assert expire(table, retain_max=1) == ([7], 2)
    assert read_arrow(table).num_rows == 8


def test_at_most_as_many_go_as_allowed() -> None:
    table = table_of(8)
    assert expire(table, retain_max=1, retain_min=1, max_deletes=2) == ([3, 4, 5, 6, 7], 2)


def test_a_changelog_that_is_young_enough_stays() -> None:
    table = table_of(5)
    times = {i: c.time_millis for i in range(1, 5) if (c := RefStore.of(table).find_changelog(i)) is not None}
    plan = plan_expire_changelogs(table, ExpireConfig(retain_min=1, older_than_millis=times[3]), FAR)
    assert plan.ids == tuple(i for i in (1, 2) if times[i] < times[3])


def test_consumers_hold_back_what_they_have_not_read() -> None:
    table = table_of(8)
    RefStore.of(table).write_consumer("c", Consumer(4))
    assert expire(table, retain_max=1, retain_min=1) == ([4, 5, 6, 7], 3)
    assert expire(table, everything=True) == ([], 4)


def test_all_go_with_their_files() -> None:
    table = table_of(4)
    left = expire(table, everything=True)
    assert left == ([], 3)
    assert hint(table, "LATEST") == b"-1"
    assert read_arrow(table).num_rows == 4
    assert plan_orphans([table], LocalRunner(), clock_millis=FAR).files == []


def test_files_of_a_changelog_are_no_orphans() -> None:
    table = new_table({"k": "INT"}, options={"changelog.time-retained": "365 d", "write-only": "true"})
    for mode in (None, "static", "static"):
        write_arrow(table, pa.table({"k": pa.array([1], pa.int32())}), overwrite=mode)  # type: ignore[arg-type]
    execute_expire(table, plan_expire(table, ExpireConfig(retain_max=1, retain_min=1), FAR))
    data = {s.path for s in table.file_io.list_recursive(f"{table.path}/bucket-0")}
    assert len(data) == 3
    assert execute_orphans(plan_orphans([table], LocalRunner(), clock_millis=FAR)).files == 0
    expire(table, everything=True)
    assert len(list(table.file_io.list_recursive(f"{table.path}/bucket-0"))) == 1


def test_a_tag_keeps_files_of_an_expired_changelog() -> None:
    table = new_table({"k": "INT"}, options={"changelog.time-retained": "365 d", "write-only": "true"})
    for mode in (None, "static"):
        write_arrow(table, pa.table({"k": pa.array([1], pa.int32())}), overwrite=mode)  # type: ignore[arg-type]
    execute_tag(table, plan_create_tag(table, "a", snapshot_id=1, clock_millis=0))
    execute_expire(table, plan_expire(table, ExpireConfig(retain_max=1, retain_min=1), FAR))
    expire(table, everything=True)
    assert read_arrow(table, version="a").num_rows == 1


def test_changelogs_expire_after_commits() -> None:
    table = table_of(6, **{"changelog.num-retained.max": "3", "changelog.num-retained.min": "3"})
    open_table = table.with_options({"write-only": "false", "snapshot.num-retained.min": "1"})
    open_table = open_table.with_options({"snapshot.num-retained.max": "1"})
    done = maintain_after_commit(open_table, lambda: FAR)
    assert done.warnings == ()
    assert done.changelogs.count == 3
    assert RefStore.of(table).changelog_ids() == [4, 5]


def test_changelogs_stay_while_the_options_do_not_limit_them() -> None:
    table = table_of(6)
    before = RefStore.of(table).changelog_ids()
    assert before
    kept = {k: v for k, v in table.options.values.items() if not k.startswith("changelog.")}
    coupled = replace(table, options=CoreOptions({**kept, "write-only": "false"}))
    assert maintain_after_commit(coupled, lambda: FAR).changelogs.count == 0
    assert set(before) <= set(RefStore.of(table).changelog_ids())


def test_contradicting_limits_are_refused() -> None:
    with pytest.raises(ArgumentError, match="retain_max"):
        plan_expire_changelogs(table_of(2), ExpireConfig(retain_max=1, retain_min=2), FAR)


@given(
    earliest=st.integers(1, 20),
    count=st.integers(1, 20),
    snapshots=st.integers(1, 10),
    keep=st.integers(1, 30),
    more=st.integers(0, 30),
    deletes=st.integers(1, 30),
    floor=st.none() | st.integers(1, 60),
    cut=st.integers(0, 60),
)
def test_the_end_keeps_every_promise(
    earliest: int, count: int, snapshots: int, keep: int, more: int, deletes: int, floor: int | None, cut: int
) -> None:
    last = earliest + count - 1
    latest = last + snapshots
    rule = RetentionRule(retain_max=keep + more, retain_min=keep, older_than_millis=cut, max_deletes=deletes)
    end = choose_changelog_end(rule, earliest, last, latest, consumer_floor=floor, time_of=lambda i: i)
    gone = range(earliest, end)
    assert last not in gone
    assert len(gone) <= deletes
    assert all(i <= latest - keep for i in gone)
    assert floor is None or all(i < floor for i in gone)
    assert all(i < cut or i <= latest - keep - more for i in gone)
