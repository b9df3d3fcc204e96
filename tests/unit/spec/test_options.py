"""Options: units, the catalogue, validation, typed access."""

from __future__ import annotations

import pytest

from paimon_spark.errors import OptionError
from paimon_spark.spec.kinds import ChangelogProducer, MergeEngine
from paimon_spark.spec.option_catalogue import check_value, field_of, find_option, known_options
from paimon_spark.spec.option_checks import validate_options
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.stats import StatsMode
from paimon_spark.spec.units import format_memory, parse_duration_ms, parse_memory


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("1 h", 3_600_000),
        ("10min", 600_000),
        ("500", 500),
        ("2 Days", 172_800_000),
        ("1500 µs", 1),
        ("PT1H30M", 5_400_000),
        ("P1DT0.5S", 86_400_500),
        ("0 ms", 0),
    ],
)
def test_durations(text: str, millis: int) -> None:
    assert parse_duration_ms(text) == millis


@pytest.mark.parametrize(
    ("text", "size"), [("256 mb", 256 << 20), ("64kb", 64 << 10), ("1g", 1 << 30), ("5", 5), ("5 Bytes", 5)]
)
def test_memory_sizes(text: str, size: int) -> None:
    assert parse_memory(text) == size
    assert parse_memory(format_memory(size)) == size


@pytest.mark.parametrize("text", ["", "h", "1 fortnight", "-5 s", "1.5 h", "P", "PT", "99999999999999999999 d"])
def test_no_durations(text: str) -> None:
    with pytest.raises(OptionError, match=r"duration.*A number alone is milliseconds"):
        parse_duration_ms(text)


@pytest.mark.parametrize("text", ["", "mb", "1 pb", "1.5 mb", "-1"])
def test_no_memory_sizes(text: str) -> None:
    with pytest.raises(OptionError, match="memory size"):
        parse_memory(text)


def test_every_default_of_the_catalogue_is_a_value_of_its_type() -> None:
    for option in known_options().values():
        if option.default is not None:
            check_value(option.name, option.default, option)


def test_every_option_says_what_it_does() -> None:
    assert [o.name for o in known_options().values() if not o.doc.endswith(".")] == []


def test_defaults() -> None:
    options = CoreOptions({})
    assert options.bucket == -1
    assert options.merge_engine is MergeEngine.DEDUPLICATE
    assert options.changelog_producer is ChangelogProducer.NONE
    assert (options.trigger, options.num_levels) == (5, 6)
    assert options.target_file_size(primary_key=True) == 128 << 20
    assert options.target_file_size(primary_key=False) == 256 << 20
    assert options.target_file_row_num is None
    assert (options.file_format, options.file_compression) == ("parquet", "zstd")
    assert options.snapshot_num_retained_max == (1 << 31) - 1
    assert options.snapshot_time_retained_ms == 3_600_000
    assert options.commit_timeout_ms is None
    assert not options.changelog_lifecycle_decoupled
    assert options.partition_default_name == "__DEFAULT_PARTITION__"


def test_every_property_answers_for_an_empty_table() -> None:
    options = CoreOptions({})
    properties = [name for name in dir(CoreOptions) if isinstance(getattr(CoreOptions, name), property)]
    answers = {name: getattr(options, name) for name in properties}
    assert len(answers) > 50
    assert answers["bucket"] == -1


def test_stored_values() -> None:
    options = CoreOptions(
        {
            "num-sorted-run.compaction-trigger": "3",
            "write.compaction-skip": "TRUE",
            "merge-engine": "First-Row",
            "bucket-key": " a , b",
            "file.format.per.level": "0:avro,3:orc",
            "changelog.time-retained": "2 h",
            "metadata.stats-keep-first-n-columns": "2",
            "fields.c.stats-mode": "full",
        }
    )
    assert options.num_levels == 4
    assert options.write_only
    assert options.merge_engine is MergeEngine.FIRST_ROW
    assert options.bucket_key == ("a", "b")
    assert [options.file_format_of(n) for n in (0, 1, 3)] == ["avro", "parquet", "orc"]
    assert options.changelog_lifecycle_decoupled
    cut, none = StatsMode(length=16), StatsMode.parse("none")
    assert options.stats_modes(["a", "b", "c", "d"]) == (cut, cut, StatsMode(), none)


def test_a_bad_stored_value_names_the_option() -> None:
    with pytest.raises(OptionError, match=r"'bucket' cannot be 'x'.*whole number"):
        _ = CoreOptions({"bucket": "x"}).bucket


@pytest.mark.parametrize(
    ("key", "value", "part"),
    [
        ("merge-engin", "deduplicate", "Did you mean 'merge-engine'"),
        ("write_only", "true", "Did you mean 'write-only'"),
        ("Bucket", "1", "Did you mean 'bucket'"),
        ("snapshot.keep", "1", "begin with 'snapshot.'"),
        ("fields.a.aggregate-functio", "sum", "Did you mean 'fields.a.aggregate-function'?"),
        ("fields.s.aggregate-functon", "sum", "Did you mean 'fields.s.aggregate-function'?"),
        ("fields.a,b.sequence_group", "c", "Did you mean 'fields.a,b.sequence-group'?"),
        ("fields.a.b.agregate-function", "sum", "Did you mean 'fields.a.b.aggregate-function'?"),
        ("fields.defalt-aggregate-function", "sum", "Did you mean 'fields.default-aggregate-function'?"),
        ("fields.a.colour", "red", "fields."),
        ("merge-engine", "dedup", "one of deduplicate"),
        ("bucket", "0", "positive number"),
        ("bucket", "-3", "positive number"),
        ("bucket", "many", "whole number"),
        ("write-only", "yes", "true or false"),
        ("target-file-size", "big", "256 mb"),
        ("snapshot.time-retained", "soon", "30 min"),
        ("metadata.stats-mode", "truncate", "truncate"),
        ("fields.a.stats-mode", "x", "statistics mode"),
        ("snapshot.num-retained.min", "0", "at least 1"),
        ("file.format.per.level", "avro", "pairs"),
        ("compaction.small-file-ratio", "x", "a number"),
        ("bucket", "infinite", "positive number"),
        ("file.compression.zstd-level", "99", "from 1 to 22"),
        ("spill-compression.zstd-level", "infinite", "from 1 to 22"),
        ("spill-compression", "foo", "one of zstd, lz4, none"),
        ("parquet.block.size", "x", "256 mb"),
        ("parquet.delta-encoding", "perhaps", "true or false"),
        ("target-file-size", "0", "at least 1 byte"),
        ("commit.strict-mode.last-safe-snapshot", "-2", "the id of a snapshot"),
    ],
)
def test_invalid_values_are_errors_with_the_allowed_ones(key: str, value: str, part: str) -> None:
    with pytest.raises(OptionError) as e:
        validate_options({key: value})
    assert part in str(e.value)


def test_accepted() -> None:
    given = {
        "owner": "me",
        "my.team": "x",
        "location": "/x",
        "provider": "paimon",
        "fields.a,b.sequence-group": "c",
        "file-index.bloom-filter.columns": "a",
        "parquet.block.size": "1",
        "parquet.any.other": "x",
        "file.compression.zstd-level": "22",
        "snapshot.num-retained.max": "infinite",
        "scan.parallelism": "4",
        "BUCKETS_OF_MINE": "1",
        "fields.f.aggregate-function": "sum",
        "tag.callback.org.Example.param": "x",
    }
    validate_options(given, for_create=True)
    assert CoreOptions(given).snapshot_num_retained_max == (1 << 31) - 1


def test_options_that_contradict_each_other() -> None:
    with pytest.raises(OptionError, match="larger than"):
        validate_options({"snapshot.num-retained.min": "5", "snapshot.num-retained.max": "2"}, for_create=True)


def test_columns_in_keys() -> None:
    assert field_of("fields.a.aggregate-function") == ("a",)
    assert field_of("fields.a,b.sequence-group") == ("a", "b")
    assert field_of("fields.default-aggregate-function") == ()
    assert field_of("bucket") == ()
    found = find_option("fields.a.ignore-retract")
    assert found is not None
    assert found.type == "Boolean"
