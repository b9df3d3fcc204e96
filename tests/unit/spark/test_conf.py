"""Session options of a table."""

from __future__ import annotations

from itertools import pairwise

import pytest

from paimon_spark.errors import OptionError
from paimon_spark.spark.conf import SessionKey, canonical, check_setting, drops_retracts, session_key, session_options
from paimon_spark.spec.identifier import Identifier

TABLE = Identifier("db", "t")


def test_a_named_table_beats_a_pattern_which_beats_all_tables() -> None:
    conf = {
        "spark.paimon.scan.snapshot-id": "1",
        "spark.paimon.*.*.t.scan.snapshot-id": "2",
        "spark.paimon.c.db.t.scan.snapshot-id": "3",
        "spark.sql.shuffle.partitions": "2",
    }
    assert session_options(conf, "c", TABLE) == {"scan.snapshot-id": "3"}
    assert session_options(conf, "other", TABLE)["scan.snapshot-id"] == "2"
    assert session_options(conf, "c", Identifier("db", "u"))["scan.snapshot-id"] == "1"


ORDER = (
    "spark.paimon.scan.bucket",
    "spark.paimon.*.*.*.scan.bucket",
    "spark.paimon.*.*.t.scan.bucket",
    "spark.paimon.*.db.*.scan.bucket",
    "spark.paimon.c.*.*.scan.bucket",
    "spark.paimon.*.db.t.scan.bucket",
    "spark.paimon.c.*.t.scan.bucket",
    "spark.paimon.c.db.*.scan.bucket",
    "spark.paimon.c.db.t.scan.bucket",
)


@pytest.mark.parametrize("reverse", [False, True])
def test_more_exact_names_win_and_then_those_further_left(*, reverse: bool) -> None:
    for weak, strong in pairwise(ORDER):
        pair = {weak: "1", strong: "2"}
        conf = dict(reversed(pair.items())) if reverse else pair
        assert session_options(conf, "c", TABLE) == {"scan.bucket": "2"}, (weak, strong)


def test_the_spelling_without_spark_counts_too_and_gives_way() -> None:
    assert session_options({"paimon.*.db.t.write-only": "true"}, "c", TABLE) == {"write-only": "true"}
    both = {"spark.paimon.write-only": "true", "paimon.write-only": "false"}
    assert session_options(both, "c", TABLE) == {"write-only": "true"}
    assert canonical("paimon.*.db.t.write-only") == canonical("spark.paimon.*.db.t.write-only")


def test_settings_of_the_bridge_are_no_table_options() -> None:
    assert session_options({"spark.paimon.python": "/bin/python"}, "c", TABLE) == {}
    assert session_key("spark.paimon.log.dir") is None


def test_a_write_does_not_see_what_chooses_a_snapshot() -> None:
    conf = {"spark.paimon.scan.snapshot-id": "1", "spark.paimon.write-only": "true"}
    assert session_options(conf, "c", TABLE, travel=False) == {"write-only": "true"}


def test_keys_with_many_dots_are_told_from_names() -> None:
    assert session_key("spark.paimon.snapshot.num-retained.max").pattern == ()  # type: ignore[union-attr]
    named = session_key("spark.paimon.orc.db.t.snapshot.num-retained.max")
    assert named is not None
    assert (named.pattern, named.option) == (("orc", "db", "t"), "snapshot.num-retained.max")
    column = session_key("spark.paimon.fields.a.stats-mode")
    assert column is not None
    assert column.option == "fields.a.stats-mode"


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("spark.paimon.write-onyl", "true", "Did you mean 'write-only'"),
        ("paimon.c.db.t.write-onyl", "true", "Did you mean 'write-only'"),
        ("paimon.c.db.t.write-only", "yes", "true or false"),
        ("spark.paimon.proggress", "true", "Did you mean 'progress'"),
        ("spark.paimon.something", "1", "': there is no table option 'something'"),
        ("spark.paimon.lookup.async", "true", "has no effect on Spark"),
        ("spark.paimon.c.db.t.bucket", "3", "ALTER TABLE"),
        ("spark.paimon.c..t.write-only", "true", "empty name"),
        ("spark.paimon.snapshot.num-retained.maxx", "1", "num-retained.max"),
    ],
)
def test_settings_that_are_refused(key: str, value: str, says: str) -> None:
    with pytest.raises(OptionError) as e:
        check_setting(key, value)
    assert says in str(e.value)


@pytest.mark.parametrize(
    ("key", "value", "meaning"),
    [
        ("spark.paimon.python", "/bin/python", None),
        ("spark.sql.shuffle.partitions", "x", None),
        ("paimon.c.default.T.scan.timestamp-millis", "1697018249000", ("c", "default", "T")),
        ("paimon.*.default.T.scan.timestamp-millis", "1697018249000", ("*", "default", "T")),
    ],
)
def test_settings_that_are_accepted(key: str, value: str, meaning: tuple[str, ...] | None) -> None:
    check_setting(key, value)
    assert session_key(key) == (None if meaning is None else SessionKey("scan.timestamp-millis", meaning))


def test_only_a_key_of_this_table_stands_in_the_way() -> None:
    conf = {"spark.paimon.c.db.other.lookup.async": "true"}
    assert session_options(conf, "c", TABLE) == {}
    with pytest.raises(OptionError, match=r"'spark\.paimon\.c\.db\.t\.lookup\.async'.*has no effect on Spark"):
        session_options({"spark.paimon.c.db.t.lookup.async": "true"}, "c", TABLE)


def test_a_session_may_drop_retracts_of_changes() -> None:
    key = "spark.paimon.incremental.drop-retracts"
    assert not drops_retracts({})
    assert drops_retracts({key: " TRUE "})
    assert session_options({key: "true"}, "paimon", Identifier("db", "t")) == {}
    with pytest.raises(OptionError, match="drop-retracts' holds 'no'"):
        drops_retracts({key: "no"})
