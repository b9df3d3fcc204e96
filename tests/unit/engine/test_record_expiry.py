"""Record-level expiry: compaction leaves out rows that are too old."""

from __future__ import annotations

import datetime
import time
from typing import Any

import pytest

from paimon_spark.engine.compaction.compact import Strategy
from paimon_spark.errors import OptionError
from paimon_spark.spec.schema_rules import check_schema
from paimon_spark.testing.tables import new_table, read_arrow
from tests.unit.engine.changelogs import changes, compact, keyed, put

HOUR = 3600
NOW = int(time.time())
OLD, RECENT = NOW - 2 * HOUR, NOW - 60


def _at(seconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


TIMES: dict[str, Any] = {
    "INT": lambda s: s,
    "BIGINT": lambda s: s,
    "BIGINT millis": lambda s: s * 1000,
    "TIMESTAMP(3)": lambda s: _at(s).replace(tzinfo=None),
    "TIMESTAMP(6)": lambda s: _at(s).replace(tzinfo=None),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": _at,
}
OPTIONS = {"record_level__expire_time": "1 h", "record_level__time_field": "at"}


@pytest.mark.parametrize("time_type", TIMES)
def test_compaction_drops_old_rows(time_type: str) -> None:
    of = TIMES[time_type]
    table = keyed({"k": "INT", "at": time_type.removesuffix(" millis")}, **OPTIONS)
    put(table, (1, of(OLD)), (2, of(RECENT)), (3, None))
    assert read_arrow(table).column("k").to_pylist() == [1, 2, 3]
    compact(table)
    assert read_arrow(table).column("k").to_pylist() == [2, 3]
    before = table.snapshots.latest_id()
    compact(table)
    assert table.snapshots.latest_id() == before


def test_files_of_the_top_level_are_rewritten() -> None:
    table = keyed({"k": "INT", "at": "INT"})
    put(table, (1, OLD), (2, RECENT))
    compact(table)
    expiring = table.with_options({"record-level.expire-time": "1 h", "record-level.time-field": "at"})
    compact(expiring)
    assert read_arrow(table).column("k").to_pylist() == [2]


def test_an_old_version_does_not_hide_a_recent_one() -> None:
    table = keyed({"k": "INT", "at": "INT"}, sequence__field="k", **OPTIONS)
    put(table, (1, RECENT))
    put(table, (1, OLD))
    compact(table)
    assert read_arrow(table).to_pylist() == [{"k": 1, "at": RECENT}]


def test_a_key_that_expired_is_new_to_the_changelog() -> None:
    table = keyed({"k": "INT", "at": "INT"}, changelog_producer="lookup")
    put(table, (1, OLD))
    expiring = table.with_options({"record-level.expire-time": "1 h", "record-level.time-field": "at"})
    put(expiring, (1, RECENT))
    assert changes(table) == [[("+I", 1, OLD)], [("+I", 1, RECENT)]]


def test_the_time_field_is_required() -> None:
    table = new_table({"k": "INT"}, primary_key=["k"], options={"bucket": "1", "record-level.expire-time": "1 h"})
    with pytest.raises(OptionError, match=r"record-level\.time-field"):
        check_schema(table.schema)


@pytest.mark.parametrize("options", [{}, {"changelog_producer": "lookup"}, {"sequence__field": "n"}])
def test_an_expired_row_of_an_upper_level_is_replaced(options: dict[str, str]) -> None:
    table = keyed({"k": "INT", "at": "INT", "n": "INT"}, deletion_vectors__enabled="true", **options)
    put(table, *((k, OLD, 1) for k in range(20_000)))
    expiring = table.with_options({"record-level.expire-time": "1 h", "record-level.time-field": "at"})
    put(expiring, (1, RECENT, 2))
    found = [r for r in read_arrow(table).to_pylist() if r["k"] == 1]
    assert found == [{"k": 1, "at": RECENT, "n": 2}]


def test_a_delete_does_not_expire_before_what_it_deletes() -> None:
    table = keyed({"k": "INT", "at": "INT"}, **OPTIONS)
    silent = table.with_options({"write-only": "true"})
    put(table.with_options({"record-level.expire-time": "1000 d"}), *((k, OLD) for k in range(20_000)))
    compact(table.with_options({"record-level.expire-time": "1000 d"}))
    put(silent, ("-D", 1, OLD))
    compact(table, Strategy.MINOR)
    put(silent, *((k, RECENT) for k in range(20_000, 20_005)))
    compact(table.with_options({"num-sorted-run.compaction-trigger": "2"}), Strategy.MINOR)
    assert 1 not in read_arrow(table).column("k").to_pylist()


def test_an_old_first_row_counts_until_it_is_dropped() -> None:
    table = keyed({"k": "INT", "at": "INT"}, merge_engine="first-row", changelog_producer="lookup")
    put(table, (1, OLD), (2, RECENT))
    expiring = table.with_options({"record-level.expire-time": "1 h", "record-level.time-field": "at"})
    put(expiring, (1, RECENT))
    assert read_arrow(table).to_pylist() == [{"k": 1, "at": OLD}, {"k": 2, "at": RECENT}]
    compact(expiring)
    assert read_arrow(table).to_pylist() == [{"k": 2, "at": RECENT}]
    put(expiring, (1, RECENT + 1))
    assert read_arrow(table).to_pylist() == [{"k": 1, "at": RECENT + 1}, {"k": 2, "at": RECENT}]


def test_an_expired_first_row_makes_room_in_one_compaction() -> None:
    table = keyed({"k": "INT", "at": "INT"}, merge_engine="first-row", write_only="true", **OPTIONS)
    put(table, (1, OLD))
    put(table, (1, RECENT))
    compact(table)
    assert read_arrow(table).to_pylist() == [{"k": 1, "at": RECENT}]
