"""Reads over several branches while another program commits: each branch is read at one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest

from paimon_spark.core.metadata.branches import on_branch
from paimon_spark.core.table import Table
from paimon_spark.engine.refs.branches import execute_create_branch, plan_create_branch
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.testing.faults import FaultFileIO
from paimon_spark.testing.tables import new_table
from tests.small_tables import put
from tests.unit.engine import chain_tables
from tests.unit.engine.chain_tables import chain_table, read
from tests.unit.engine.test_concurrent_operations import Interloper

LATEST: dict[str, str] = {}
TRAVELS = {"scan.timestamp-millis": "99999999999999"}
Rows = list[tuple[object, ...]]


def read_between(table: Table, options: Mapping[str, str], commit: Callable[[Table], None]) -> Iterator[Rows]:
    """Yield the rows of a query with the commit before its nth step, for every n; the last is after the query."""
    assert isinstance(table.file_io, InMemoryFileIO)
    n, early = 0, True
    while early:
        n += 1
        quiet = replace(table, file_io=table.file_io.fork())
        schedule = Interloper(n, lambda quiet=quiet: commit(quiet))  # type: ignore[misc]
        yield read(replace(quiet, file_io=FaultFileIO(quiet.file_io, schedule)).with_options(options))
        early = schedule.left <= 0


def check(table: Table, options: Mapping[str, str], commit: Callable[[Table], None]) -> None:
    """Check that every query returns the rows from before a commit or those from after it."""
    assert isinstance(table.file_io, InMemoryFileIO)
    later = replace(table, file_io=table.file_io.fork())
    commit(later)
    states = [read(t.with_options(options)) for t in (table, later)]
    found = list(read_between(table, options, commit))
    assert len(found) > 5
    assert [rows for rows in found if rows not in states] == []


@pytest.mark.parametrize("travel", [LATEST, TRAVELS], ids=["latest", "travels"])
@pytest.mark.parametrize("preferring", ["scan.fallback-branch", "scan.primary-branch"])
@pytest.mark.parametrize("written", ["main", "b"])
def test_two_branches(written: str, preferring: str, travel: dict[str, str]) -> None:
    table = new_table({"v": "INT", "p": "INT"}, partition=["p"])
    execute_create_branch(table, plan_create_branch(table, "b"))
    put(table, (1, 1))
    put(on_branch(table, "b"), (20, 2))

    def commit(quiet: Table) -> None:
        put(on_branch(quiet, written), (5, 1), (6, 2))

    check(table, {preferring: "b", **travel}, commit)


@pytest.mark.parametrize(
    ("written", "day", "travel"),
    [
        ("main", 1, LATEST),
        ("main", 2, TRAVELS),
        ("snapshot", 2, LATEST),
        ("snapshot", 3, LATEST),
        ("snapshot", 2, TRAVELS),
        ("delta", 3, LATEST),
    ],
)
def test_the_branches_of_a_chain_table(written: str, day: int, travel: dict[str, str]) -> None:
    table = chain_table()
    chain_tables.put(table, "snapshot", "20250801", (1, 1, "a"), (2, 1, "b"))
    chain_tables.put(table, "delta", "20250802", (2, 2, "b2"), (4, 1, "d"))
    chain_tables.put(table, "main", "20250805", (9, 9, "z"))
    check(table, travel, lambda quiet: chain_tables.put(quiet, written, f"2025080{day}", (5, 5, "new")))
