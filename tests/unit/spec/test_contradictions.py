"""Options that contradict each other or the columns: each pair is refused by CREATE and by ALTER, with the option named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from paimon_spark.errors import PaimonError
from paimon_spark.spec.evolution import RemoveOption, SetOption, apply_changes, new_schema, with_default_options
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import DataField, parse_atomic

COLUMNS = {"k": "INT", "p": "STRING", "a": "INT", "s": "STRING", "t": "TIMESTAMP(9)"}


@dataclass(frozen=True)
class Case:
    """A table, and the option that does not fit it."""

    option: tuple[str, str]
    options: Mapping[str, str] = field(default_factory=dict)
    key: Sequence[str] = ("k",)
    partition: Sequence[str] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)


FIRST_ROW = {"merge-engine": "first-row", "bucket": "1"}
AGGREGATION = {"merge-engine": "aggregation", "bucket": "1"}
PARTIAL = {"merge-engine": "partial-update", "bucket": "1"}
CASES: Mapping[str, Case] = {
    "first-row with input": Case(("changelog-producer", "input"), FIRST_ROW),
    "first-row with full-compaction": Case(("changelog-producer", "full-compaction"), FIRST_ROW),
    "first-row with a sequence": Case(("sequence.field", "a"), FIRST_ROW),
    "first-row with vectors": Case(("deletion-vectors.enabled", "true"), FIRST_ROW),
    "vectors with full-compaction": Case(
        ("changelog-producer", "full-compaction"), {"deletion-vectors.enabled": "true"}
    ),
    "full-compaction with vectors": Case(
        ("deletion-vectors.enabled", "true"), {"changelog-producer": "full-compaction"}
    ),
    "lookup with delta commits": Case(("full-compaction.delta-commits", "2"), {"changelog-producer": "lookup"}),
    "delta commits with lookup": Case(("changelog-producer", "lookup"), {"full-compaction.delta-commits": "2"}),
    "a changelog without keys": Case(("changelog-producer", "lookup"), key=()),
    "an aggregated sequence": Case(("fields.a.aggregate-function", "sum"), AGGREGATION | {"sequence.field": "a"}),
    "a sequence that is aggregated": Case(
        ("sequence.field", "a"), AGGREGATION | {"fields.a.aggregate-function": "sum"}
    ),
    "a sequence twice": Case(("sequence.field", "a,a")),
    "an unknown sequence": Case(("sequence.field", "x")),
    "snapshots without keys": Case(("sequence.snapshot-ordering", "true"), {"write-only": "true"}, key=()),
    "snapshots and a sequence": Case(
        ("sequence.snapshot-ordering", "true"), {"write-only": "true", "sequence.field": "a"}
    ),
    "a sequence and snapshots": Case(
        ("sequence.field", "a"), {"write-only": "true", "sequence.snapshot-ordering": "true"}
    ),
    "snapshots and compacting writers": Case(("sequence.snapshot-ordering", "true")),
    "compacting writers and snapshots": Case(
        ("write-only", "false"), {"sequence.snapshot-ordering": "true", "write-only": "true"}
    ),
    "a sequence across partitions": Case(("sequence.field", "a"), partition=("p",)),
    "an unknown kind column": Case(("rowkind.field", "x")),
    "a kind column of numbers": Case(("rowkind.field", "a")),
    "an unknown function": Case(("fields.a.aggregate-function", "summ"), AGGREGATION),
    "a function for another type": Case(("fields.s.aggregate-function", "sum"), AGGREGATION),
    "an unknown default function": Case(("fields.default-aggregate-function", "summ"), AGGREGATION),
    "a function of a column that is not there": Case(("fields.x.aggregate-function", "sum"), AGGREGATION),
    "ignored deletes that remove": Case(
        ("ignore-delete", "true"), AGGREGATION | {"aggregation.remove-record-on-delete": "true"}
    ),
    "ignored retracts that remove": Case(
        ("fields.a.ignore-retract", "true"), AGGREGATION | {"aggregation.remove-record-on-delete": "true"}
    ),
    "a function without a group": Case(("fields.a.aggregate-function", "sum"), PARTIAL),
    "partial updates, ignored deletes that remove": Case(
        ("ignore-delete", "true"), PARTIAL | {"partial-update.remove-record-on-delete": "true"}
    ),
    "partial updates, removing with groups": Case(
        ("partial-update.remove-record-on-delete", "true"), PARTIAL | {"fields.a.sequence-group": "s"}
    ),
    "groups with removing": Case(
        ("fields.a.sequence-group", "s"), PARTIAL | {"partial-update.remove-record-on-delete": "true"}
    ),
    "a group of an unknown column": Case(("fields.a.sequence-group", "x"), PARTIAL),
    "a group of the key": Case(("fields.a.sequence-group", "k"), PARTIAL),
    "a column of two groups": Case(("fields.a.sequence-group", "s"), PARTIAL | {"fields.t.sequence-group": "s"}),
    "removing by a group that is none": Case(("partial-update.remove-record-on-sequence-group", "a"), PARTIAL),
    "an expiry without a time": Case(("record-level.expire-time", "1 d")),
    "an expiry by a text": Case(("record-level.time-field", "s")),
    "an expiry without keys": Case(("record-level.expire-time", "1 d"), {"record-level.time-field": "a"}, key=()),
    "a bucket key outside of the key": Case(("bucket-key", "a"), {"bucket": "2"}),
    "a bucket key without buckets": Case(("bucket-key", "k")),
    "buckets without a key": Case(("bucket", "2"), key=()),
    "no buckets": Case(("bucket", "0")),
    "postponed buckets without keys": Case(("bucket", "-2"), key=()),
    "row tracking with keys": Case(("row-tracking.enabled", "true")),
    "data evolution without tracking": Case(("data-evolution.enabled", "true"), key=()),
    "fewer snapshots than at least": Case(("snapshot.num-retained.max", "2"), {"snapshot.num-retained.min": "3"}),
    "no snapshots": Case(("snapshot.num-retained.min", "0")),
    "fewer changelogs than at least": Case(("changelog.num-retained.max", "2"), {"changelog.num-retained.min": "3"}),
    "no changelogs": Case(("changelog.num-retained.min", "0")),
    "delta commits without buckets": Case(("full-compaction.delta-commits", "2"), key=()),
    "nanoseconds in avro": Case(("file.format", "avro")),
    "nanoseconds in avro at one level": Case(("file.format.per.level", "0:avro")),
    "two kinds of fallback": Case(("scan.primary-branch", "b"), {"scan.fallback-branch": "c"}),
    "an engine without keys": Case(("merge-engine", "aggregation"), key=()),
    "merging without keys": Case(("local-merge-buffer-size", "1 mb"), key=()),
    "a function of first rows": Case(("fields.a.aggregate-function", "sum"), FIRST_ROW),
    "a function of all columns of first rows": Case(("fields.default-aggregate-function", "max"), FIRST_ROW),
    "first rows with a function": Case(("merge-engine", "first-row"), {"fields.a.aggregate-function": "sum"}),
    "a function of the key": Case(("fields.k.aggregate-function", "max"), AGGREGATION),
    "a function of the key of partial updates": Case(("fields.k.aggregate-function", "max"), PARTIAL),
    "aggregation, removing as partial updates do": Case(
        ("partial-update.remove-record-on-delete", "true"), AGGREGATION
    ),
    "removing by groups without groups": Case(("partial-update.remove-record-on-sequence-group", "a")),
    "partial updates, removing as aggregation does": Case(("aggregation.remove-record-on-delete", "true"), PARTIAL),
    "removing without keys": Case(("aggregation.remove-record-on-delete", "true"), key=()),
    "clustering of keyed files": Case(("clustering.columns", "a")),
    "clustering of the rows of buckets": Case(("clustering.columns", "a"), {"bucket": "2", "bucket-key": "k"}, key=()),
    "overwrites in streams without keys": Case(("streaming-read-overwrite", "true"), key=()),
    "overwrites in streams twice": Case(("streaming-read-overwrite", "true"), {"changelog-producer": "lookup"}),
    "sequence numbers without keys": Case(("table-read.sequence-number.enabled", "true"), key=()),
    "sorted manifests without partitions": Case(("manifest-sort.enabled", "true"), partition=()),
    "two starts": Case(("scan.snapshot-id", "1"), {"scan.tag-name": "a"}),
    "files without rows": Case(("target-file-row-num", "0")),
}


def schema_of(case: Case, options: Mapping[str, str]) -> TableSchema:
    schema = new_schema(
        [DataField(i, name, parse_atomic(text)) for i, (name, text) in enumerate(COLUMNS.items())],
        primary_keys=case.key,
        partition_keys=case.partition,
        options=options,
        now_millis=0,
    )
    return with_default_options(schema, case.defaults)


def names_an_option(case: Case, error: PaimonError) -> bool:
    """Whether an error names the wrong option: the one that is set, or one that it contradicts."""
    return any(f"'{key}'" in str(error) for key in (case.option[0], *case.options)) and bool(error.hint)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_create_refuses(case: Case) -> None:
    with pytest.raises(PaimonError) as e:
        schema_of(case, {**case.options, case.option[0]: case.option[1]})
    assert names_an_option(case, e.value)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_alter_refuses(case: Case) -> None:
    schema = schema_of(case, case.options)
    with pytest.raises(PaimonError) as e:
        apply_changes(schema, [SetOption(*case.option)], 0, has_snapshots=False)
    assert names_an_option(case, e.value)


def test_idle_defaults_of_a_catalog_are_accepted() -> None:
    case = Case(("a", "b"), key=(), defaults={"merge-engine": "aggregation", "local-merge-buffer-size": "1 mb"})
    assert schema_of(case, {}).options == case.defaults


def test_an_engine_of_the_catalog_takes_its_options() -> None:
    removing = {"partial-update.remove-record-on-delete": "true"}
    case = Case(("a", "b"), defaults={"merge-engine": "partial-update"})
    assert schema_of(case, removing).options == {**removing, **case.defaults}


def test_tables_with_idle_options_can_be_altered() -> None:
    idle = {"merge-engine": "aggregation", "partial-update.remove-record-on-delete": "true"}
    schema = replace(schema_of(Case(("a", "b")), {}), options=idle | {"fields.k.aggregate-function": "max"})
    out = apply_changes(schema, [SetOption("write-only", "true")], 0, has_snapshots=True)
    assert out.options == {**schema.options, "write-only": "true"}
    out = apply_changes(schema, [RemoveOption("fields.k.aggregate-function")], 0, has_snapshots=True)
    assert out.options == idle
