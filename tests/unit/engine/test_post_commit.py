from __future__ import annotations

from dataclasses import replace

import pytest

from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.engine.post_commit import Maintenance, maintain_after_commit
from paimon_spark.engine.refs.tags import execute_tag, plan_create_tag
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.refs import Consumer
from paimon_spark.testing.faults import FaultFileIO, Recorder
from tests.unit.core.history import MINUTE, History, lost

OPTIONS = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3", "snapshot.time-retained": "1 h"}


def test_history_stays_within_the_options_of_the_table() -> None:
    h = History(OPTIONS)
    for minute in range(6):
        h.at(minute).add()
        maintain_after_commit(h.table, lambda: h.minute * MINUTE)
    assert h.table.snapshots.ids() == [4, 5, 6]
    done = maintain_after_commit(h.table, lambda: 600 * MINUTE)
    assert done.snapshots.count == 2
    assert h.table.snapshots.ids() == [6]
    assert lost(h.table) == set()


def test_a_write_only_table_is_left_alone() -> None:
    h = History({**OPTIONS, "write-only": "true"})
    for _ in range(6):
        h.add()
    assert maintain_after_commit(h.table, lambda: 600 * MINUTE) == Maintenance()
    assert len(h.table.snapshots.ids()) == 6


def test_tags_and_consumers_whose_time_is_over_go_first() -> None:
    h = History({**OPTIONS, "consumer.expiration-time": "1 d"})
    for _ in range(3):
        h.add()
    execute_tag(h.table, plan_create_tag(h.table, "short", snapshot_id=1, time_retained_ms=1000, clock_millis=0))
    h.table.file_io.write(h.table.paths.consumer("idle"), Consumer(1).to_json().encode())
    done = maintain_after_commit(h.table, lambda: 10**14)
    assert (done.tags, done.consumers, done.snapshots.count, done.warnings) == (("short",), ("idle",), 2, ())
    assert RefStore.of(h.table).consumers() == {}


@pytest.mark.parametrize(("decoupled", "kept"), [({}, [2, 3, 4, 5, 6]), ({"changelog.num-retained.max": "9"}, [6])])
def test_consumers_protect_snapshots_that_no_changelog_outlives(decoupled: dict[str, str], kept: list[int]) -> None:
    limits = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}
    h = History({**limits, "consumer.changelog-only": "true", **decoupled})
    for _ in range(6):
        h.add()
    h.table.file_io.write(h.table.paths.consumer("c"), Consumer(2).to_json().encode())
    maintain_after_commit(h.table, lambda: 600 * MINUTE)
    assert h.table.snapshots.ids() == kept


def test_an_option_that_is_no_zone_is_a_warning() -> None:
    h = History(OPTIONS)
    for _ in range(6):
        h.add()
    stored = {"tag.automatic-creation": "process-time", "sink.process-time-zone": "Mars/Olympus"}  # by another program
    table = replace(h.table, options=CoreOptions({**h.table.options.values, **stored}))
    done = maintain_after_commit(table, lambda: 600 * MINUTE)
    assert "creating tags of the table failed: there is no time zone 'Mars/Olympus'" in done.warnings[0]
    assert done.snapshots.count == 5


def test_what_goes_wrong_is_a_warning() -> None:
    h = History(OPTIONS)
    for _ in range(6):
        h.add()
    h.table.file_io.write(h.table.paths.tag("broken"), b"{")
    done = maintain_after_commit(h.table, lambda: 600 * MINUTE)
    assert done.snapshots.count == 0
    assert any("tag-broken" in w for w in done.warnings)
    assert len(h.table.snapshots.ids()) == 6


def test_few_of_many_snapshots_wait_for_more_that_expire() -> None:
    """Each expiry reads all snapshots that stay."""
    store = FaultFileIO(InMemoryFileIO())
    h = History({"snapshot.num-retained.min": "1", "snapshot.time-retained": "300 min"}, file_io=store)
    kept = []
    for minute in range(310):
        h.at(minute).add()
        store.schedule = recorder = Recorder()
        maintain_after_commit(h.table, lambda: h.minute * MINUTE)
        reads = sum(operation == "read" and "/snapshot-" in path for operation, path in recorder.log)
        kept.append(len(h.table.snapshots.ids()))
        assert reads < 10 or kept[-1] < kept[-2]
    assert kept[300:] == [301, 302, 303, 304, 302, 303, 304, 302, 303, 304]
    assert lost(h.table) == set()


def test_more_than_the_maximum_does_not_wait() -> None:
    h = History({"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "250"})
    for _ in range(252):
        h.add()
    assert maintain_after_commit(h.table, lambda: 0).snapshots.count == 2
