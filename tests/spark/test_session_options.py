"""Options that the session gives to tables: SET and RESET in both spellings, and what they do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from paimon_spark.spark.session_timezone import SESSION_ZONE, session_zone
from paimon_spark.spec.time_zones import SHORT_IDS

pytestmark = pytest.mark.spark


@pytest.fixture
def tables(spark: SparkSession) -> SparkSession:
    """Two tables of two snapshots each; the second column came between the snapshots."""
    for name in ("T", "U"):
        spark.sql(f"CREATE TABLE {name} (k INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1')")
        spark.sql(f"INSERT INTO {name} VALUES (1)")
        spark.sql(f"ALTER TABLE {name} ADD COLUMN v STRING")
        spark.sql(f"INSERT INTO {name} VALUES (2, 'b')")
    return spark


def rows(spark: SparkSession, query: str) -> list[tuple[object, ...]]:
    return sorted(tuple(r) for r in spark.sql(query).collect())


def database(spark: SparkSession) -> str:
    return spark.catalog.currentDatabase()


NOW = [(1, None), (2, "b")]


def test_the_examples_of_the_guide(tables: SparkSession) -> None:
    db = database(tables)
    millis = tables.sql(
        "SELECT unix_millis(CAST(commit_time AS TIMESTAMP)) FROM `T$snapshots` WHERE snapshot_id = 1"
    ).head()[0]  # type: ignore[index]
    for catalog in ("paimon", "*"):
        said = tables.sql(f"SET 'paimon.{catalog}.{db}.T.scan.timestamp-millis' = '{millis}'").collect()
        assert [tuple(r) for r in said] == [(f"spark.paimon.{catalog}.{db}.T.scan.timestamp-millis", str(millis))]
        assert rows(tables, "SELECT * FROM T") == [(1,)]
        assert rows(tables, "SELECT * FROM U") == NOW
        tables.sql(f"RESET 'paimon.{catalog}.{db}.T.scan.timestamp-millis'")
        assert rows(tables, "SELECT * FROM T") == NOW


def test_the_order_of_what_is_set(tables: SparkSession) -> None:
    tables.sql("SET spark.paimon.scan.snapshot-id = 1")
    assert rows(tables, "SELECT * FROM U") == [(1,)]
    tables.sql("SET spark.paimon.*.*.T.scan.snapshot-id = 2")
    assert rows(tables, "SELECT * FROM T") == NOW
    assert rows(tables, "SELECT * FROM U") == [(1,)]
    tables.sql(f"SET spark.paimon.paimon.{database(tables)}.T.scan.tag-name = none_such")
    with pytest.raises(Exception, match="none_such"):
        tables.sql("SELECT * FROM T").collect()
    tables.sql(f"RESET 'paimon.paimon.{database(tables)}.T.scan.tag-name'")
    assert tables.read.option("scan.snapshot-id", "1").table("T").select("k").collect() == [(1,)]
    tables.sql("RESET")
    assert rows(tables, "SELECT * FROM U") == NOW


def test_the_spellings_of_a_key_are_one_option(tables: SparkSession) -> None:
    tables.sql("SET 'paimon.scan.snapshot-id' = '1'")
    assert tables.conf.get("spark.paimon.scan.snapshot-id") == "1"
    tables.conf.set("paimon.scan.bucket", "0")
    tables.sql("SET `spark.paimon.scan.bucket` = 1")
    assert tables.conf.get("paimon.scan.bucket", None) is None
    assert [r.value for r in tables.sql("SET 'paimon.scan.bucket'").collect()] == ["1"]
    tables.sql("RESET `spark.paimon.scan.snapshot-id`")
    tables.sql("RESET paimon.scan.bucket")
    assert [r.value for r in tables.sql("SET spark.paimon.scan.bucket").collect()] == ["<undefined>"]
    assert rows(tables, "SELECT * FROM T") == NOW


def test_writes_go_to_the_newest_snapshot_whatever_is_read(tables: SparkSession) -> None:
    tables.sql("SET spark.paimon.scan.snapshot-id = 1")
    tables.sql("INSERT INTO T VALUES (3, 'c')")
    tables.sql("UPDATE T SET v = 'B' WHERE k = 2")
    tables.sql("DELETE FROM T WHERE k = 1")
    assert rows(tables, "SELECT * FROM T") == [(1,)]
    tables.sql("RESET spark.paimon.scan.snapshot-id")
    assert rows(tables, "SELECT * FROM T") == [(2, "B"), (3, "c")]


def test_a_write_forgets_cached_rows(tables: SparkSession) -> None:
    tables.sql("CACHE TABLE T")
    assert len(rows(tables, "SELECT * FROM T")) == 2
    tables.sql("INSERT INTO T VALUES (3, 'c')")
    assert len(rows(tables, "SELECT * FROM T")) == 3
    tables.sql("UNCACHE TABLE T")


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("SET 'paimon.*.*.*.write-onyl' = 'true'", "Did you mean 'write-only'"),
        ("SET spark.paimon.write-only = maybe", "true or false"),
        ("SET spark.paimon.bucket = 3", "ALTER TABLE"),
        ("SET spark.paimon.lookup.async = true", "has no effect on Spark"),
        ("SET 'paimon.write-only true'", "not the key"),
    ],
)
def test_settings_that_are_refused(spark: SparkSession, statement: str, says: str) -> None:
    with pytest.raises(Exception, match=says):
        spark.sql(statement).collect()


def test_what_was_set_elsewhere_is_refused_when_it_would_count(tables: SparkSession) -> None:
    tables.conf.set(f"spark.paimon.paimon.{database(tables)}.U.no.such.thing", "1")
    assert rows(tables, "SELECT * FROM T") == NOW
    with pytest.raises(Exception, match=r"there is no table option 'no\.such\.thing'"):
        tables.sql("SELECT * FROM U").collect()


def test_a_time_without_zone_is_one_of_the_session(tables: SparkSession) -> None:
    zone = "Pacific/Kiritimati"
    tables.conf.set("spark.sql.session.timeZone", zone)
    said = tables.sql(
        "SELECT date_format(commit_time, 'yyyy-MM-dd HH:mm:ss.SSS') FROM `T$snapshots` WHERE snapshot_id = 1"
    ).head()
    assert said is not None
    tables.sql(f"SET spark.paimon.scan.timestamp = '{said[0]}'")
    assert rows(tables, "SELECT * FROM T") == [(1,)]


def test_readers_and_writers_of_frames_obey_the_same_rules(tables: SparkSession) -> None:
    with pytest.raises(Exception, match=r"Did you mean 'scan\.snapshot-id'"):
        tables.read.option("scan.snapshotid", "1").table("T").collect()
    with pytest.raises(Exception, match="does not apply to a query"):
        tables.read.option("write-only", "true").table("T").collect()
    frame = tables.sql("SELECT 9 AS k, 'z' AS v")
    with pytest.raises(Exception, match="does not apply to a write"):
        frame.writeTo("T").option("scan.snapshot-id", "1").append()
    with pytest.raises(Exception, match="cannot be set for one statement"):
        frame.writeTo("T").option("bucket", "7").append()
    assert rows(tables, "SELECT * FROM T") == NOW
    frame.writeTo("T").option("bucket", "1").option("write-only", "true").append()
    assert len(rows(tables, "SELECT * FROM T")) == 3


def test_every_zone_that_spark_takes_is_known(tables: SparkSession) -> None:
    zones = tables._jvm.java.time.ZoneId  # type: ignore[union-attr]
    given = dict(zones.SHORT_IDS)
    assert set(given) == set(SHORT_IDS)
    moment = datetime(2026, 7, 1, tzinfo=UTC)
    at = tables._jvm.java.time.Instant.ofEpochSecond(int(moment.timestamp()))  # type: ignore[union-attr]
    for text in [*given, *SHORT_IDS.values(), "Europe/London", "America/New_York", "Etc/GMT+5", "UTC+5", "GMT-08:00"]:
        seconds = zones.of(text, zones.SHORT_IDS).getRules().getOffset(at).getTotalSeconds()
        assert moment.astimezone(session_zone({SESSION_ZONE: text})).utcoffset() == timedelta(seconds=seconds), text
    for text in zones.getAvailableZoneIds():
        if not text.startswith("SystemV/"):  # of the 1980s: neither in the time zone database nor in Java 21
            session_zone({SESSION_ZONE: text})


def test_a_session_in_a_zone_by_its_abbreviation(tables: SparkSession) -> None:
    tables.sql("CREATE TABLE moments (id INT, at TIMESTAMP)")
    tables.sql(f"SET {SESSION_ZONE} = PST")
    tables.sql("INSERT INTO moments VALUES (1, TIMESTAMP '2026-01-01 00:00:00')")
    assert rows(tables, "SELECT id FROM moments WHERE at = TIMESTAMP '2026-01-01 08:00:00Z'") == [(1,)]
    assert rows(tables, "SELECT CAST(at AS STRING) FROM moments") == [("2026-01-01 00:00:00",)]
