"""Sequence numbers from snapshots: `write.sequence-number-init-mode` = snapshot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.metadata.sequence_numbers import MAX_SEQUENCE
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.table import Table
from paimon_spark.engine.analyze import commit_statistics
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction
from paimon_spark.engine.compaction.compact_manifest import execute_compact_manifest, plan_compact_manifest
from paimon_spark.engine.insert import plan_write, write_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import ConflictError, CorruptTableError
from paimon_spark.spec.options import CoreOptions
from paimon_spark.testing.faults import FaultFileIO, Recorder
from paimon_spark.testing.tables import new_table
from tests.small_tables import frame, put, sorted_rows

KEY = "write.sequence-number-init-mode"
SNAPSHOT = {KEY: "snapshot"}
WRITE_ONLY = {"write-only": "true"}


def made(**options: str) -> Table:
    given = {"bucket": "2", **SNAPSHOT, **options}
    return new_table({"k": "INT", "v": "INT", "p": "INT"}, primary_key=["k", "p"], partition=["p"], options=given)


def recorded(table: Table) -> str | None:
    latest = table.snapshots.latest()
    return None if latest is None else (latest.properties or {}).get(MAX_SEQUENCE)


def numbers(table: Table) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the least and the greatest sequence number of each bucket of level 0, by partition and bucket."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for e in scan(table, table.snapshots.latest()).entries:
        place = (int(table.partition_values(e.partition)[0]), e.bucket)
        low, high = found.get(place, (e.file.min_sequence_number, e.file.max_sequence_number))
        found[place] = (min(low, e.file.min_sequence_number), max(high, e.file.max_sequence_number))
    return found


def test_a_snapshot_records_the_highest_number_of_the_table() -> None:
    table = made(**{"write-only": "true", "bucket": "1"})
    put(table, (1, 1, 0), (2, 1, 0), (3, 1, 0))
    assert (recorded(table), numbers(table)) == ("2", {(0, 0): (0, 2)})
    put(table, (1, 2, 1))
    assert (recorded(table), numbers(table)) == ("3", {(0, 0): (0, 2), (1, 0): (3, 3)})
    put(table, (1, 2, 0))
    assert (recorded(table), numbers(table)) == ("4", {(0, 0): (0, 4), (1, 0): (3, 3)})


def test_scanning_writers_record_nothing() -> None:
    table = made(**{KEY: "scan"})
    put(table, (1, 1, 0))
    assert recorded(table) is None


def test_a_table_with_files_and_no_record() -> None:
    table = made(**WRITE_ONLY, bucket="1")
    scanning = table.with_options({KEY: "scan"})
    put(scanning, (1, 1, 0), (2, 1, 0))
    put(scanning, (1, 2, 1))
    assert recorded(table) is None
    put(table, (1, 3, 1))
    assert (recorded(table), numbers(table)[1, 0]) == ("1", (0, 1))
    put(scanning, (1, 4, 1), (1, 5, 1))
    assert recorded(table) is None
    put(table, (1, 6, 1))
    assert (recorded(table), numbers(table)[1, 0]) == ("4", (0, 4))
    assert sorted_rows(table) == [(1, 1, 0), (1, 6, 1), (2, 1, 0)]


def test_every_commit_carries_the_record() -> None:
    table = made(bucket="1")
    for v in range(3):
        put(table, (1, v, 0), (2, v, 0))
    execute_compaction(plan_compaction(table, strategy=Strategy.FULL), LocalRunner())
    assert recorded(table) == "5"
    commit_statistics(table, table.snapshots.get(table.snapshots.latest_id() or 0), 2, {})
    assert recorded(table) == "5"
    execute_compact_manifest(plan_compact_manifest(table))
    assert recorded(table) == "5"
    write_arrow(table, frame(table, [(1, 9, 0)]), overwrite="static")
    assert recorded(table) == "6"
    put(table, (1, 10, 0))
    assert recorded(table) == "7"
    assert sorted_rows(table) == [(1, 10, 0)]


def test_write_only_writers_read_no_manifest() -> None:
    table = made(**WRITE_ONLY)
    put(table, (1, 1, 0))
    for given, reads in ((table, 0), (table.with_options({KEY: "scan"}), 1)):
        clear_cache()
        recorder = Recorder()
        plan_write(replace(given, file_io=FaultFileIO(table.file_io, recorder)))
        found = [entry for entry in recorder.log if "/manifest/manifest-" in str(entry) and "read" in str(entry)]
        assert (len(found) > 0) == reads


def test_another_number_of_buckets_is_noticed_by_the_commit() -> None:
    table = made(**WRITE_ONLY)
    put(table, (1, 1, 0))
    changed = replace(table, options=CoreOptions({**table.options.values, "bucket": "3"}))
    with pytest.raises(ConflictError, match="buckets"):
        put(changed, (1, 2, 0))
    assert sorted_rows(table) == [(1, 1, 0)]


def test_a_record_that_is_no_number() -> None:
    table = made()
    put(table, (1, 1, 0))
    path = table.paths.snapshot(1)
    bad = replace(table.snapshots.get(1), properties={MAX_SEQUENCE: "many"})
    table.file_io.write(path, bad.to_json().encode())
    clear_cache()
    with pytest.raises(CorruptTableError, match="'many', which is no number"):
        put(table, (1, 2, 0))


def test_postponed_rows_continue_the_record() -> None:
    table = made(bucket="-2")
    put(table, (1, 1, 0), (2, 1, 0))
    put(table, (1, 2, 0))
    assert sorted_rows(table) == [(1, 2, 0), (2, 1, 0)]
