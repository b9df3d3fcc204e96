"""Changelog files by producer: the worked scenarios of docs/spec/semantics.md, section 6, and what goes beyond them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.core.write.table_writer import TableWriter
from paimon_spark.engine.compaction.compact import Strategy
from paimon_spark.engine.insert import WritePlan, complete_write, plan_write, write_arrow
from paimon_spark.engine.redistribution.postpone_compact import execute_postponed, plan_postponed
from paimon_spark.engine.redistribution.rescale import execute_rescale, plan_rescale, rescale_actions
from paimon_spark.engine.replace import finish_replacement
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import ArgumentError, OptionError, StoreError, UnsupportedError
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.predicate import Comparison
from paimon_spark.spec.schema_rules import check_schema
from paimon_spark.testing.tables import new_table, read_arrow
from tests.small_tables import option_keys
from tests.unit.engine.changelogs import changes, changes_in, compact, keyed, kinds_of, put, snapshots

MANY = 20_000
OVERLAPPING = {"write_buffer_size": "64 kb", "write_buffer_spillable": "false"}


def test_no_producer_writes_no_changelog() -> None:
    table = keyed()
    put(table, (1, "a"))
    put(table, ("+U", 1, "b"))
    compact(table)
    assert changes(table) == []
    assert all(s.changelog_manifest_list is None for s in snapshots(table))


def test_input_keeps_every_row_as_written() -> None:
    table = keyed(changelog_producer="input")
    put(table, (2, "x"), (1, "a"), (1, "b"), ("-D", 2, "x"))
    written = [("+I", 1, "a"), ("+I", 1, "b"), ("+I", 2, "x"), ("-D", 2, "x")]
    assert changes(table) == [written]
    assert kinds_of(table)[0] == "APPEND"
    compact(table)
    assert changes(table) == [written]


def test_input_of_an_overwrite_is_empty() -> None:
    table = keyed(changelog_producer="input")
    put(table, (1, "a"))
    put(table, (1, "b"), overwrite="static")
    assert changes(table) == [[("+I", 1, "a")]]


def test_input_survives_spilling() -> None:
    table = keyed(changelog_producer="input", write_buffer_size="64 kb", write_buffer_spillable="true")
    rows = [(k % 300, f"{k}") for k in range(3000)]
    put(table, *rows)
    assert sorted(changes(table)[0]) == sorted(("+I", *r) for r in rows)


def test_lookup_finds_what_a_key_was_before() -> None:
    table = keyed(changelog_producer="lookup")
    put(table, (1, "a"))
    put(table, (1, "b"), (2, "x"))
    put(table, ("-D", 1, "?"))
    put(table, ("-D", 9, "?"))
    put(table, (2, "x"))
    assert changes(table) == [
        [("+I", 1, "a")],
        [("-U", 1, "a"), ("+U", 1, "b"), ("+I", 2, "x")],
        [("-D", 1, "b")],
        [("-U", 2, "x"), ("+U", 2, "x")],
    ]
    assert kinds_of(table) == ["APPEND", "COMPACT"] * 5


def test_lookup_leaves_out_equal_rows_if_asked() -> None:
    columns = {"k": "INT", "v": "STRING", "at": "INT"}
    dedup = {"changelog_producer__row_deduplicate": "true", "changelog_producer__row_deduplicate_ignore_fields": "at"}
    table = keyed(columns, changelog_producer="lookup", **dedup)
    put(table, (1, "a", 1), (2, None, 1), (3, "c", 1))
    put(table, (1, "a", 2), (2, None, 2), (3, None, 2))
    assert changes(table)[1] == [("-U", 3, "c", 1), ("+U", 3, None, 2)]


@pytest.mark.parametrize("type_", ["FLOAT", "DOUBLE"])
def test_equal_numbers_have_equal_bits(type_: str) -> None:
    columns = {"k": "INT", "v": type_}
    table = keyed(columns, changelog_producer="lookup", changelog_producer__row_deduplicate="true")
    put(table, (1, float("nan")), (2, 0.0))
    put(table, (1, float("nan")), (2, -0.0))
    assert [(kind, k) for kind, k, _ in changes(table)[1]] == [("-U", 2), ("+U", 2)]


@pytest.mark.parametrize("fmt", ["parquet", "orc", "avro"])
def test_lookup_reaches_levels_that_stay(fmt: str) -> None:
    table = keyed(changelog_producer="lookup", file__format=fmt)
    put(table, *((k, f"{k}") for k in range(0, MANY, 2)))
    put(table, (2, "two"), (3, "three"))
    put(table, ("-D", 2, "?"), (3, "drei"), (4, "vier"))
    assert changes(table)[1:] == [
        [("-U", 2, "2"), ("+U", 2, "two"), ("+I", 3, "three")],
        [("-D", 2, "two"), ("-U", 3, "three"), ("+U", 3, "drei"), ("-U", 4, "4"), ("+U", 4, "vier")],
    ]


def test_lookup_sums_onto_the_row_before() -> None:
    columns = {"k": "INT", "s": "INT"}
    table = keyed(columns, changelog_producer="lookup", merge_engine="aggregation", fields__s__aggregate_function="sum")
    put(table, (1, 5))
    put(table, (1, 3))
    put(table, ("-U", 1, 3))
    assert changes(table) == [
        [("+I", 1, 5)],
        [("-U", 1, 5), ("+U", 1, 8)],
        [("-U", 1, 8), ("+U", 1, 5)],
    ]


def test_lookup_completes_partial_rows() -> None:
    table = keyed(
        {"k": "INT", "a": "STRING", "b": "STRING"}, changelog_producer="lookup", merge_engine="partial-update"
    )
    put(table, (1, "A", None))
    put(table, (1, None, "B"))
    assert changes(table) == [[("+I", 1, "A", None)], [("-U", 1, "A", None), ("+U", 1, "A", "B")]]


def test_lookup_leaves_a_row_alone_as_it_is() -> None:
    columns = {"k": "INT", "g": "INT", "v": "INT"}
    table = keyed(columns, changelog_producer="lookup", merge_engine="partial-update", fields__g__sequence_group="v")
    put(table, (0, 1, 1))
    put(table, (1, None, 5))
    assert changes(table) == [[("+I", 0, 1, 1)], [("+I", 1, None, 5)]]
    assert read_arrow(table).column("v").to_pylist() == [1, 5]


def test_lookup_of_first_rows_reports_new_keys() -> None:
    table = keyed(changelog_producer="lookup", merge_engine="first-row")
    put(table, *((k, "old") for k in range(0, MANY, 2)))
    put(table, (2, "new"), (3, "new"))
    put(table, (3, "newer"))
    assert changes(table)[1:] == [[("+I", 3, "new")]]


def test_lookup_obeys_the_sequence_field() -> None:
    table = keyed({"k": "INT", "v": "STRING", "ts": "INT"}, changelog_producer="lookup", sequence__field="ts")
    put(table, (1, "a", 10))
    put(table, (1, "late", 5))
    put(table, (1, "b", 20))
    assert changes(table) == [
        [("+I", 1, "a", 10)],
        [("-U", 1, "a", 10), ("+U", 1, "a", 10)],
        [("-U", 1, "a", 10), ("+U", 1, "b", 20)],
    ]


def test_lookup_waits_for_a_compaction_if_write_only() -> None:
    table = keyed(changelog_producer="lookup", write_only="true")
    put(table, (1, "a"))
    put(table, (1, "b"))
    assert changes(table) == []
    compact(table, Strategy.MINOR)
    assert changes(table) == [[("+I", 1, "b")]]


def test_gentle_lookup_leaves_level_0_alone() -> None:
    table = keyed(changelog_producer="lookup", lookup_compact="gentle")
    put(table, (1, "a"))
    assert kinds_of(table) == ["APPEND"]


def test_full_compaction_compares_top_rows() -> None:
    table = keyed(changelog_producer="full-compaction", full_compaction__delta_commits="1")
    put(table, (1, "a"))
    put(table, (1, "b"))
    put(table, (1, "c"))
    put(table, ("-D", 1, "?"), (2, "x"))
    assert changes(table) == [
        [("+I", 1, "a")],
        [("-U", 1, "a"), ("+U", 1, "b")],
        [("-U", 1, "b"), ("+U", 1, "c")],
        [("-D", 1, "c"), ("+I", 2, "x")],
    ]


def test_full_compaction_is_silent_before_the_top() -> None:
    table = keyed(changelog_producer="full-compaction")
    put(table, *((k, f"{k}") for k in range(MANY)))
    assert changes(table) == []
    compact(table)
    assert len(changes(table)[0]) == MANY
    put(table, (1, "a"))
    put(table, (1, "b"), (MANY, "new"))
    compact(table)
    assert changes(table)[1:] == [[("-U", 1, "1"), ("+U", 1, "b"), ("+I", MANY, "new")]]


def test_full_compaction_keeps_the_file_that_it_only_reads() -> None:
    table = keyed(changelog_producer="full-compaction")
    put(table, (1, "a"), (2, "b"))
    compact(table)
    append, moved = snapshots(table)
    assert changes_in(table, moved) == [("+I", 1, "a"), ("+I", 2, "b")]
    assert append.total_record_count == moved.total_record_count


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_an_overwrite_has_no_changelog(producer: str) -> None:
    table = keyed(changelog_producer=producer, overwrite_upgrade="false")
    put(table, (1, "a"))
    compact(table)
    before = changes(table)
    put(table, (1, "b"), overwrite="static")
    assert changes(table) == before


def test_changelog_files_have_options_of_their_own() -> None:
    options = {"changelog-file.prefix": "changes-", "changelog-file.format": "avro", "changelog-producer": "input"}
    table = new_table({"k": "INT"}, primary_key=["k"], options={"bucket": "1", **options})
    put(table, (1,))
    names = [p.rsplit("/", 1)[-1] for p in _files(table) if "bucket-0" in p]
    assert sorted(n.partition("-")[0] + n[n.rindex(".") :] for n in names) == ["changes.avro", "data.parquet"]


def _files(table: Any) -> list[str]:
    return [s.path for s in table.file_io.list_recursive(table.path)]


@pytest.mark.parametrize(
    "options",
    [
        {"changelog-producer": "lookup", "full-compaction.delta-commits": "1"},
        {"changelog-producer": "input", "merge-engine": "first-row"},
        {"changelog-producer": "full-compaction", "deletion-vectors.enabled": "true"},
    ],
)
def test_options_that_contradict_each_other(options: dict[str, str]) -> None:
    table = new_table({"k": "INT", "v": "INT"}, primary_key=["k"], options={"bucket": "1", **options})
    with pytest.raises(OptionError):
        check_schema(table.schema)


@pytest.mark.parametrize("producer", ["input", "lookup"])
def test_postponed_rows_are_in_the_changelog_of_their_compaction(producer: str) -> None:
    options = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false", "changelog-producer": producer}
    table = new_table({"k": "INT", "v": "STRING"}, primary_key=["k"], options=options)
    put(table, (1, "a"), (2, "b"))
    assert changes(table) == []
    distribute(table)
    put(table, ("-D", 1, "?"), (2, "B"))
    distribute(table)
    found = changes(table)
    if producer == "input":
        assert found == [[("+I", 1, "a"), ("+I", 2, "b")], [("-D", 1, "?"), ("+I", 2, "B")]]
    else:
        assert found == [[("+I", 1, "a"), ("+I", 2, "b")], [("-D", 1, "a"), ("-U", 2, "b"), ("+U", 2, "B")]]
    assert all(s.commit_kind == "COMPACT" for s in snapshots(table) if s.changelog_record_count)


@pytest.mark.parametrize("producer", ["input", "lookup"])
def test_rescaling_changes_nothing_in_the_changelog(producer: str) -> None:
    table = keyed(changelog_producer=producer, deletion_vectors__enabled="true")
    put(table, (1, "a"), (2, "b"))
    put(table, (1, "c"))
    before = changes(table)
    execute_rescale(plan_rescale(table, 3), None)
    assert changes(table) == before
    rescaled = new_buckets(table, 3)
    assert sorted(r["v"] for r in read_arrow(rescaled).to_pylist()) == ["b", "c"]


def overlapping(table: Any, v: int | None = None) -> tuple[WritePlan, list[CommitMessage]]:
    """Write files whose key ranges overlap for an overwrite; `v` is the value of each key unless it is given."""
    plan = plan_write(table, overwrite="static")
    keys = pa.array(np.random.default_rng(1).permutation(MANY), pa.int32())
    with TableWriter(table, plan.info) as writer:
        for start in range(0, MANY, 2000):
            part = keys.slice(start, 2000)
            writer.write(pa.table({"k": part, "v": part if v is None else pa.array([v] * len(part), pa.int32())}))
        messages = writer.finish()
    assert len({f.file_name for m in messages for f in m.new_files}) > 1
    return plan, messages


def test_a_replacement_is_visible_at_once() -> None:
    table = keyed({"k": "INT", "v": "INT"}, merge_engine="first-row", **OVERLAPPING)
    put(table, (1, 1))
    replaced = table.with_schema(replace(table.schema, id=table.schema.id + 1))
    finish_replacement(*overlapping(replaced), LocalRunner())
    assert kinds_of(replaced)[-1] == "OVERWRITE"
    assert read_arrow(replaced).num_rows == MANY


def test_a_failed_overwrite_leaves_no_files() -> None:
    table = keyed({"k": "INT", "v": "INT"}, changelog_producer="lookup", **OVERLAPPING)
    put(table, (1, 1))
    before = sorted(_files(table))

    def fails(kind: str, payload: str) -> str:
        raise StoreError(f"{kind} of {len(payload)} bytes")

    with pytest.raises(StoreError, match="compact of"):
        complete_write(*overlapping(table), LocalRunner(run_task=fails))
    assert sorted(_files(table)) == before
    table = new_table(
        {"k": "INT", "v": "INT"},
        primary_key=["k", "v"],
        partition=["v"],
        options=option_keys({"bucket": "1", **OVERLAPPING, "changelog_producer": "lookup"}),
    )
    plan, messages = overlapping(table, v=1)
    other = replace(plan, partitions=Comparison("=", "v", 2))
    with pytest.raises(ArgumentError, match="does not overwrite"):
        complete_write(other, messages, LocalRunner())
    assert not [path for path in _files(table) if "bucket-0" in path]


def distribute(table: Any) -> None:
    execute_postponed(plan_postponed(table, strategy=Strategy.MINOR), None, LocalRunner())


def new_buckets(table: Any, number: int) -> Any:
    return replace(table, options=CoreOptions({**table.options.values, "bucket": str(number)}))


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_rescaling_reports_rows_that_waited_for_it(producer: str) -> None:
    table = keyed(changelog_producer=producer, write_only="true")
    put(table, (1, "a"))
    compact(table)
    put(table, (1, "b"), (2, "c"))
    plan = plan_rescale(table, 2)
    assert all(a.reason.endswith(", after a compaction that writes its changelog") for a in rescale_actions(plan))
    done = execute_rescale(plan, None)
    assert changes(table)[1:] == [[("-U", 1, "a"), ("+U", 1, "b"), ("+I", 2, "c")]]
    assert kinds_of(table)[-2:] == ["COMPACT", "OVERWRITE"]
    assert done.snapshot_ids == (4, 5)


@pytest.mark.parametrize("upgrade", ["true", "false"])
@pytest.mark.parametrize("options", [{"changelog_producer": "lookup"}, {"deletion_vectors__enabled": "true"}])
def test_an_overwrite_leaves_nothing_at_level_0(options: dict[str, str], upgrade: str) -> None:
    table = keyed({"k": "INT", "v": "INT"}, overwrite_upgrade=upgrade, **OVERLAPPING, **options)
    put(table, (1, 1))
    compact(table)
    before = changes(table)
    plan, messages = overlapping(table)
    complete_write(plan, messages, LocalRunner())
    assert kinds_of(table)[2:] == ["OVERWRITE"]
    live = [e.file for e in live_in_partitions(ManifestStore(table), table.snapshots.latest(), None)]
    assert {f.level for f in live} == {table.options.num_levels - 1}
    assert read_arrow(table).num_rows == sum(f.row_count for f in live) == MANY
    assert changes(table) == before
    unread = {f.file_name for m in messages for f in m.new_files} - {f.file_name for f in live}
    assert not [path for path in _files(table) if path.rpartition("/")[2] in unread]


def test_changes_of_postponed_rows_are_refused() -> None:
    options = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}
    table = new_table({"k": "INT", "v": "STRING"}, primary_key=["k"], options=options)
    put(table, (1, "a"))
    distribute(table)
    between = {"incremental-between": "0,2"}
    with pytest.raises(UnsupportedError, match=r"postponed[\s\S]*'diff'"):
        read_arrow(table.with_options(between))
    compared = table.with_options({**between, "incremental-between-scan-mode": "diff"})
    assert read_arrow(compared).to_pylist() == [{"k": 1, "v": "a"}]


def test_rescaled_aggregates_need_no_kind_column() -> None:
    columns = {"k": "INT", "s": "INT", "rk": "STRING"}
    table = keyed(
        columns, merge_engine="aggregation", fields__s__aggregate_function="sum", rowkind__field="rk",
        fields__rk__ignore_retract="true", fields__rk__aggregate_function="last_non_null_value",
    )  # fmt: skip
    batch = pa.table({"k": pa.array([1, 1], pa.int32()), "s": pa.array([5, 2], pa.int32()), "rk": ["+I", "-U"]})
    write_arrow(table, batch)
    execute_rescale(plan_rescale(table, 2), None)
    assert read_arrow(new_buckets(table, 2)).column("s").to_pylist() == [3]
