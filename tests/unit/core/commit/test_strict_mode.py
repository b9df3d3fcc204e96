"""Commits with `commit.strict-mode.last-safe-snapshot`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paimon_spark.api.row_changes import deletions
from paimon_spark.core.commit.change_set import Change, append_part
from paimon_spark.core.commit.committer import Committed, FileStoreCommit
from paimon_spark.core.commit.strict_mode import KEY
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import CompactGroup, Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.redistribution.rescale import execute_rescale, plan_rescale
from paimon_spark.engine.row_level import change_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import plan_select
from paimon_spark.errors import ConflictError
from paimon_spark.spec.kinds import CommitKind
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.predicate import Comparison
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.testing.tables import new_table
from tests.small_tables import frame, put, sorted_rows
from tests.unit.core import samples

ME, OTHER = "me", "other"


def made(**options: str) -> Table:
    table = samples.table({"bucket": "1", **options}, keys=["k", "p"], partitions=["p"])
    append(table, OTHER, "a", "b")
    return table


def strict(table: Table, safe: int, user: str | None = ME) -> FileStoreCommit:
    return FileStoreCommit(table.with_options({KEY: str(safe)}), user, sleep=lambda _: None)


def message(day: str, *files: DataFileMeta, **more: object) -> CommitMessage:
    return samples.message(*files, partition_value=day, total_buckets=1, **more)


def append(table: Table, user: str | FileStoreCommit, *days: str) -> DataFileMeta:
    commit = FileStoreCommit(table, user) if isinstance(user, str) else user
    low = 10 * (table.snapshots.latest_id() or 0)
    files = [samples.file(low, low + 9) for _ in days]
    done = commit.commit([message(day, f) for day, f in zip(days, files, strict=True)])
    assert isinstance(done, Committed)
    return files[-1]


def compact(table: Table, user: str, day: str) -> None:
    file = append(table, user, day)
    more = {"compact_before": (file,), "compact_after": (file.upgrade(5),)}
    FileStoreCommit(table, user).commit([message(day, **more)])


def drop(commit: FileStoreCommit, day: str) -> None:
    commit.overwrite([], partitions=Comparison("=", "p", day))


def partitions_of(table: Table) -> set[str]:
    live = live_in_partitions(ManifestStore(table), table.snapshots.latest(), None)
    return {str(*table.partition_values(e.partition)) for e in live}


def test_a_compaction_of_the_same_partition() -> None:
    table = made()
    mine = strict(table, 1)
    append(table, mine, "b")
    compact(table, OTHER, "a")
    append(table, mine, "b")
    compact(table, OTHER, "b")
    before = table.snapshots.latest_id()
    with pytest.raises(ConflictError, match=r"partition p=b in snapshot 7 \(COMPACT\), after the last safe snapshot 5"):
        append(table, mine, "b")
    assert table.snapshots.latest_id() == before
    append(table, strict(table, 7), "b")


def test_an_overwrite_of_the_same_partition() -> None:
    table = made()
    drop(FileStoreCommit(table, OTHER), "a")
    append(table, strict(table, 1, None), "b")
    with pytest.raises(ConflictError, match=r"p=a in snapshot 2 \(OVERWRITE\)"):
        append(table, strict(table, 1, None), "a")


def test_rows_appended_to_what_is_overwritten() -> None:
    table = made()
    append(table, OTHER, "a")
    append(table, strict(table, 1, None), "a")
    drop(strict(table, 1, None), "b")
    with pytest.raises(ConflictError, match=r"p=a in snapshot 2 \(APPEND\)"):
        drop(strict(table, 1, None), "a")
    drop(strict(table, 4, None), "a")


def test_rows_without_a_bucket_are_in_nobodys_way() -> None:
    table = made(bucket="-2")
    file = samples.file(1, 9)
    FileStoreCommit(table, OTHER).commit([samples.message(file, partition_value="a", bucket=-2, total_buckets=-2)])
    assert "a" in partitions_of(table)
    drop(strict(table, 1), "a")
    assert partitions_of(table) == {"b"}


def test_my_own_commits_are_safe() -> None:
    table = made()
    compact(table, ME, "a")
    append(table, strict(table, 1), "a")
    with pytest.raises(ConflictError, match="snapshot 3"):
        append(table, strict(table, 1, "third"), "a")


def test_a_job_checks_each_snapshot_once() -> None:
    table = made()
    compact(table, OTHER, "b")
    append(table, strict(table, 1), "a")
    append(table, strict(table, 1), "b")
    with pytest.raises(ConflictError):
        append(table, strict(table, 1, None), "b")


def test_the_first_commit_may_be_unchecked() -> None:
    table = made()
    compact(table, OTHER, "a")
    mine = strict(table, -1)
    append(table, mine, "a")
    compact(table, OTHER, "a")
    with pytest.raises(ConflictError):
        append(table, mine, "a")
    with pytest.raises(ConflictError):
        append(table, strict(table, -1), "a")
    append(table, strict(table, -1, None), "a")


def test_the_last_safe_snapshot_may_be_in_the_future() -> None:
    table = made()
    compact(table, OTHER, "a")
    mine = strict(table, 9)
    append(table, mine, "a")
    compact(table, OTHER, "a")
    with pytest.raises(ConflictError, match="after the last safe snapshot 4"):
        append(table, mine, "a")
    append(table, strict(table, 9, None), "a")
    compact(table, OTHER, "a")
    with pytest.raises(ConflictError, match=r"in snapshot \d+ \(COMPACT\), after the last safe snapshot 7"):
        append(table, strict(table, 7, None), "a")


def test_an_expired_snapshot_cannot_be_checked() -> None:
    table = made()
    for _ in range(3):
        append(table, OTHER, "b")
    execute_expire(table, plan_expire(table, ExpireConfig(retain_max=1, retain_min=1), 10**12))
    with pytest.raises(ConflictError, match="Snapshot 2, which has to be checked, has expired"):
        append(table, strict(table, 1), "a")
    append(table, strict(table, 4), "a")


def remove(table: Table, key: int) -> None:
    change_arrow(table, deletions(plan_select(table, predicate=Comparison("=", "k", key))), "DELETE")


def test_deletion_vectors_of_files_that_stay() -> None:
    vectors = {"deletion-vectors.enabled": "true", "write-only": "true"}
    table = new_table({"k": "INT", "p": "STRING"}, partition=["p"], options=vectors)
    for day in ("a", "b"):
        put(table, (1, day), (2, day), (3, day))
    remove(table, 1)
    assert ManifestStore(table).delta_entries(table.snapshots.get(3)) == []
    put(table, (4, "a"))
    safe = table.with_options({KEY: "4"})
    remove(table.with_options({KEY: "4"}), 4)
    with pytest.raises(ConflictError, match=r"p=a in snapshot 5 \(OVERWRITE\)"):
        put(safe, (9, "a"))
    with pytest.raises(ConflictError, match=r"p=a in snapshot 5 \(OVERWRITE\)"):
        remove(safe, 2)
    put(safe, (9, "b"))
    assert sorted_rows(table) == sorted([(k, d) for k in (2, 3) for d in ("a", "b")] + [(9, "b")])


def test_the_commits_of_one_statement_are_of_one_user() -> None:
    table = new_table(
        {"k": "INT", "v": "INT"}, primary_key=["k"], options={"bucket": "2", "changelog-producer": "lookup"}
    )
    for _ in range(3):
        put(table, *((k, k) for k in range(20)))
    safe = table.with_options({KEY: str(table.snapshots.latest_id())})
    write_arrow(safe, frame(safe, [(1, 1), (2, 2)]), overwrite="static")
    last = {KEY: str(table.snapshots.latest_id())}
    put(table.with_options(last), (1, 2))
    last = {KEY: str(table.snapshots.latest_id())}
    execute_rescale(plan_rescale(table.with_options(last), 3), None)
    last = {KEY: str(table.snapshots.latest_id())}
    plan = plan_compaction(
        table.with_options({**last, "compaction.force-rewrite-all-files": "true"}), strategy=Strategy.FULL
    )
    tasks = plan.tasks
    assert len(tasks) > 1
    execute_compaction(replace(plan, groups=tuple(CompactGroup((t,)) for t in tasks)), LocalRunner())
    assert sorted_rows(table) == [(1, 2), (2, 2)]


def test_a_lost_race_is_checked_again() -> None:
    table = made()
    mine = strict(table, 1)

    def overtaken(_: object, base: Snapshot | None) -> Change:
        if base is not None and base.id == 1:
            compact(table, OTHER, "a")
        return append_part([message("a", samples.file(1, 9))])

    with pytest.raises(ConflictError, match="snapshot 3"):
        mine.commit_plan(overtaken, CommitKind.APPEND)
