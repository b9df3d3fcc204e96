"""Session options of a table."""

from __future__ import annotations

from paimon_spark.spark.conf import session_options
from paimon_spark.spec.identifier import Identifier

TABLE = Identifier("db", "t")


def test_a_named_table_beats_a_pattern_and_a_pattern_beats_all_tables() -> None:
    conf = {
        "spark.paimon.scan.snapshot-id": "1",
        "spark.paimon.*.*.t.scan.snapshot-id": "2",
        "spark.paimon.c.db.t.scan.snapshot-id": "3",
        "spark.sql.shuffle.partitions": "2",
    }
    assert session_options(conf, "c", TABLE) == {"scan.snapshot-id": "3"}
    assert session_options(conf, "other", TABLE)["scan.snapshot-id"] == "2"


def test_the_spelling_without_spark_counts_too() -> None:
    assert session_options({"paimon.*.db.t.write-only": "true"}, "c", TABLE) == {"write-only": "true"}


def test_settings_of_the_bridge_are_no_table_options() -> None:
    assert session_options({"spark.paimon.python": "/bin/python"}, "c", TABLE) == {}
