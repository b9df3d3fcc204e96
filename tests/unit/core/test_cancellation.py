"""A statement ends where nothing is half-done, and leaves no file behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest

from paimon_spark.core.cancellation import cancellable, checkpoint, is_cancelled
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import TableWriter
from paimon_spark.engine.compaction.compact import execute_compaction, plan_compaction
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.insert import finish_write, plan_write, write_arrow
from paimon_spark.engine.refs.tags import execute_delete_tags, execute_tag, plan_create_tag, plan_delete_tags
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import ErrorKind, StatementCancelledError
from paimon_spark.testing.tables import new_table
from tests.unit.core.history import leaked


def files(table: Table) -> set[str]:
    return {s.path for s in table.file_io.list_recursive(table.path)}


def rows(n: int) -> pa.Table:
    return pa.table({"k": pa.array(range(3), pa.int32()), "v": pa.array([n] * 3, pa.int32())})


@pytest.fixture
def table() -> Table:
    """Two buckets with three runs each."""
    made = new_table({"k": "INT", "v": "INT"}, primary_key=["k"], options={"bucket": "2", "write-only": "true"})
    for n in range(3):
        write_arrow(made, rows(n))
    clear_cache()
    return made


def test_the_flag_counts_only_in_its_thread_and_time() -> None:
    flag = threading.Event()
    flag.set()
    checkpoint()
    with cancellable(flag):
        assert is_cancelled()
        with pytest.raises(StatementCancelledError) as caught:
            checkpoint()
        seen: list[bool] = []
        other = threading.Thread(target=lambda: seen.append(is_cancelled()))
        other.start()
        other.join()
    assert (caught.value.kind, seen, is_cancelled()) == (ErrorKind.STATEMENT_CANCELLED, [False], False)


def test_planning_ends(table: Table) -> None:
    flag = threading.Event()
    flag.set()
    with cancellable(flag), pytest.raises(StatementCancelledError):
        plan_compaction(table)


def test_a_commit_that_is_cancelled_deletes_its_files(table: Table) -> None:
    before, flag = files(table), threading.Event()
    plan = plan_write(table)
    with TableWriter(table, plan.info) as writer:
        for batch in rows(9).to_batches():
            writer.write(batch)
        messages = writer.finish()
    assert files(table) > before
    clear_cache()
    flag.set()
    with cancellable(flag), pytest.raises(StatementCancelledError):
        finish_write(plan, messages)
    assert files(table) == before


class Stopping(LocalRunner):
    """Cancels the statement once a number of tasks has ended, as a user would while the others run."""

    def __init__(self, flag: threading.Event, after: int) -> None:
        super().__init__()
        self._flag = flag
        self._after = after

    def run(self, kind: str, payloads: Sequence[str], *, description: str) -> Iterator[str]:
        for n, result in enumerate(super().run(kind, payloads, description=description), 1):
            if n == self._after:
                self._flag.set()
            yield result


@pytest.mark.parametrize("after", [1, 2])
def test_a_compaction_that_is_cancelled_deletes_its_files(table: Table, after: int) -> None:
    before, flag = files(table), threading.Event()
    plan = plan_compaction(table)
    assert len(plan.tasks) == 2
    with cancellable(flag), pytest.raises(StatementCancelledError):
        execute_compaction(plan, Stopping(flag, after))
    assert files(table) == before


class Dying(LocalRunner):
    """Loses the answers: its tasks write files of which nobody is told; perhaps because they were cancelled."""

    def __init__(self, flag: threading.Event, *, cancelled: bool) -> None:
        super().__init__()
        self._flag = flag
        self._cancelled = cancelled

    def run(self, kind: str, payloads: Sequence[str], *, description: str) -> Iterator[str]:
        list(super().run(kind, payloads, description=description))
        if self._cancelled:
            self._flag.set()
        raise OSError("lost")


@pytest.mark.parametrize("cancelled", [False, True])
def test_files_of_tasks_whose_answers_are_lost_are_deleted(table: Table, *, cancelled: bool) -> None:
    before, flag = files(table), threading.Event()
    with cancellable(flag), pytest.raises(OSError, match="lost"):
        execute_compaction(plan_compaction(table), Dying(flag, cancelled=cancelled))
    assert files(table) == before


def test_deleting_a_tag_comes_to_its_end(table: Table) -> None:
    execute_tag(table, plan_create_tag(table, "t", snapshot_id=1, clock_millis=0))
    config = ExpireConfig(retain_max=1, retain_min=1, older_than_millis=-1, max_deletes=9)
    execute_expire(table, plan_expire(table, config, 0))
    plan, flag = plan_delete_tags(table, "t"), threading.Event()
    clear_cache()
    flag.set()
    with cancellable(flag):
        execute_delete_tags(table, plan)
    clear_cache()
    assert leaked(table) == set()
