"""Options are stored in the spelling that Paimon parses to the same value."""

from __future__ import annotations

import pytest

from paimon_spark.errors import OptionError
from paimon_spark.spec.evolution import RemoveOption, SetOption, apply_changes, new_schema
from paimon_spark.spec.option_checks import validate_options
from paimon_spark.spec.option_texts import stored_options, stored_value
from paimon_spark.spec.types import DataField, parse_atomic

COLUMNS = [DataField(i, name, parse_atomic("INT")) for i, name in enumerate(("k", "k2", "g", "h", "v", "w"))]


@pytest.mark.parametrize(
    ("key", "given", "stored"),
    [
        ("bucket", " 2 ", "2"),
        ("bucket-key", "k, k2", "k,k2"),
        ("upsert-key", " k , k2", "k,k2"),
        ("write-only", " true ", "true"),
        ("merge-engine", " first-row ", "first-row"),
        ("snapshot.num-retained.max", "infinite", "2147483647"),
        ("full-compaction.delta-commits", " 3", "3"),
        ("target-file-size", "Infinite", "9223372036854775807 b"),
        ("target-file-size", " 128 MB ", "128 MB"),
        ("snapshot.time-retained", "PT1H", "3600000 ms"),
        ("snapshot.time-retained", "p7d", "604800000 ms"),
        ("snapshot.time-retained", " 1 h", "1 h"),
        ("fields.v.aggregate-function", " sum ", "sum"),
        ("fields.g.sequence-group", "v, w", "v,w"),
        ("partial-update.remove-record-on-sequence-group", "g, h", "g,h"),
        ("changelog-producer.row-deduplicate-ignore-fields", "v, w", "v,w"),
        ("file.format.per.level", "0: avro, 3:orc", "0:avro,3:orc"),
        ("partition.default-name", " none ", " none "),
        ("fields.v.list-agg-delimiter", " ; ", " ; "),
        ("of.another.program", " x ", " x "),
    ],
)
def test_values(key: str, given: str, stored: str) -> None:
    assert stored_value(key, given) == stored
    assert stored_value(key, stored) == stored


def test_names_with_several_columns() -> None:
    assert stored_options({"fields.g, h.sequence-group": "v"}) == {"fields.g,h.sequence-group": "v"}


def test_schemas_hold_the_stored_form() -> None:
    given = {"merge-engine": "partial-update ", "fields.g, h.sequence-group": "v, w", "snapshot.time-retained": "PT2H"}
    schema = new_schema(COLUMNS, primary_keys=("k",), options=given, now_millis=0)
    stored = {
        "merge-engine": "partial-update",
        "fields.g,h.sequence-group": "v,w",
        "snapshot.time-retained": "7200000 ms",
    }
    assert schema.options == stored
    set_up = apply_changes(schema, [SetOption("snapshot.num-retained.max", " infinite")], 0, has_snapshots=True)
    assert set_up.options == {**stored, "snapshot.num-retained.max": "2147483647"}
    reset = apply_changes(set_up, [RemoveOption("fields.g, h.sequence-group")], 0, has_snapshots=True)
    assert "fields.g,h.sequence-group" not in reset.options


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num-levels", "1"),
        ("dynamic-bucket.max-buckets", "0"),
        ("dynamic-bucket.max-buckets", "-2"),
        ("manifest.full-compaction-threshold-size", "0 b"),
        ("file.format.per.level", "a:avro"),
        ("metadata.stats-mode.per.level", "x:none"),
        ("sink.process-time-zone", "Mars/Olympus"),
        ("sink.watermark-time-zone", "+25"),
    ],
)
def test_values_that_paimon_cannot_use(key: str, value: str) -> None:
    with pytest.raises(OptionError, match=f"'{key}' cannot be"):
        validate_options({key: value})


@pytest.mark.parametrize("zone", ["GMT+8", "GMT-08:00", "+08:00", "UTC+8", "Z", "UTC", "Asia/Shanghai"])
def test_time_zones(zone: str) -> None:
    options = {"sink.process-time-zone": zone, "sink.watermark-time-zone": zone}
    validate_options(options)
    assert stored_options(options) == options
