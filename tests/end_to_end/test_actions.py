"""Actions on Spark: from the command, and as the program of spark-submit, as the guide runs them."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import subprocess
import time

import pyarrow as pa
import pytest

from paimon_spark.bridge.jars import spark_home
from paimon_spark.cli.env import ACTIONS_PROGRAM
from paimon_spark.engine.insert import write_arrow
from paimon_spark.spec.identifier import Identifier
from tests.end_to_end.programs import BIN, Place
from tests.unit.procedures.warehouse import Warehouse

LIMIT_S = 10
GUIDE = r"""<FLINK_HOME>/bin/flink run \
 /path/to/paimon-flink-action-0.8-SNAPSHOT.jar \
 compact \
 --path <TABLE_PATH>
"""
"""The line of Paimon's guide, as printed."""


@pytest.fixture
def tables(place: Place) -> Warehouse:
    """Two tables of equal layout; in `t` are two small files to compact in each partition."""
    house = Warehouse(place.warehouse)
    house.create("db.t")
    house.create("db.s")
    for k in (1, 2):
        house.insert("db.t", (k, "a"), (k, "b"))
    house.insert("db.s", (2, "a"), (3, "a"))
    return house


def answer(text: str) -> dict[str, object]:
    """Return the only row of a result in JSON, which follows Spark's own output."""
    row: dict[str, object] = json.loads(text[text.index("[\n  {") :])[0]
    return row


@pytest.mark.slow
def test_the_guide_s_compact_through_spark_submit(place: Place, tables: Warehouse) -> None:
    program = shutil.copy(ACTIONS_PROGRAM, place.directory / "paimon_actions.py")
    submit = f"{spark_home()}/bin/spark-submit --master 'local[2]' --conf spark.ui.enabled=false"
    line = GUIDE.replace("\\\n", "").replace("<FLINK_HOME>/bin/flink run", submit)
    line = line.replace("/path/to/paimon-flink-action-0.8-SNAPSHOT.jar", str(program))
    command = shlex.split(line.replace("<TABLE_PATH>", f"{place.warehouse}/db.db/t"))
    done = place.run([*command, "--format", "json"])
    assert answer(done.stdout)["status"] == "done"
    again = place.run([*command, "--nothing-to-do-exits-3"], check=False)
    assert again.returncode == 3
    assert tables.rows("db.t") == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]


def test_merge_and_delete_on_spark(place: Place, tables: Warehouse) -> None:
    place_of = [
        "--database",
        "db",
        "--table",
        "t",
        "--format",
        "json",
        "--spark_conf",
        "spark.sql.shuffle.partitions=2",
    ]
    merged = place.cli(
        "merge_into",
        *place_of,
        *("--master", "local[2]", "--source_sql", "CREATE TEMPORARY VIEW v AS SELECT k, p FROM db.s WHERE p <> ';'"),
        *("--source_table", "v", "--on", "t.k = v.k AND t.p = v.p"),
        *("--merge_actions", "matched-delete,not-matched-insert", "--not_matched_insert_values", "*"),
    )
    assert json.loads(merged.stdout)[0]["result"] == "Success"
    assert tables.rows("db.t") == [(1, "a"), (1, "b"), (2, "b"), (3, "a")]
    deleted = place.cli("delete", *place_of, "--where", "k IN (SELECT k FROM db.s) AND p = 'b'")
    assert json.loads(deleted.stdout)[0]["status"] == "done"
    assert tables.rows("db.t") == [(1, "a"), (1, "b"), (3, "a")]
    assert {p for p in place.left_behind() if p != "warehouse"} == set()


def test_a_signal_cancels_an_action(place: Place, tables: Warehouse) -> None:
    tables.create("db.big", target_file_size="1 mb")
    rows = pa.table({"k": pa.array(range(4_000_000), pa.int32()), "p": pa.repeat("a", 4_000_000)})
    for _ in range(2):
        write_arrow(tables.catalog.load_table(Identifier.parse("db.big")), rows)
    table = place.warehouse / "db.db/big"
    before = set(table.rglob("*"))
    command = [BIN / "paimon-spark", "compact", "--path", table]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while set(table.rglob("*")) == before:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert time.monotonic() - sent < LIMIT_S
    assert (process.returncode, out) == (1, "")
    assert errors.splitlines()[-1].startswith("[STATEMENT_CANCELLED] ")
    assert set(table.rglob("*")) == before


@pytest.mark.slow
def test_an_error_on_spark_is_one_line_on_standard_error(place: Place, tables: Warehouse) -> None:
    asked = ["compact", "--database", "db", "--table", "no", "--format", "json", "--master", "local[1]"]
    done = place.cli(*asked, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith("[TABLE_NOT_FOUND] ")
    assert "Traceback" not in done.stderr


def test_compact_streaming_goes_on_until_a_signal(place: Place, tables: Warehouse) -> None:
    path = place.warehouse / "db.db/t"
    trigger = ["--table_conf", "num-sorted-run.compaction-trigger=2"]
    command = [BIN / "paimon-spark", "compact", "--streaming", "--path", path, "--format", "csv", *trigger]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    table = tables.catalog.load_table(Identifier.parse("db.t"))
    deadline = time.monotonic() + 60
    while (newest := table.snapshots.latest()) is None or newest.commit_kind != "COMPACT":
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, "Stopping" in errors) == (0, True)
    assert out.splitlines()[1].startswith("true,done,")
    assert tables.rows("db.t") == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
    refused = place.run([*command, "--master", "local"], check=False)
    assert (refused.returncode, "runs in this process" in refused.stderr) == (2, True)


def test_stop_ends_a_compaction_in_another_process(place: Place, tables: Warehouse) -> None:
    path = place.warehouse / "db.db/t"
    command = [BIN / "paimon-spark", "compact", "--streaming", "--path", path]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    refused = place.cli("stop", "--database", "db", "--table", "t", "--query", "other", "--timeout", "1 s", check=False)
    assert (refused.returncode, process.poll()) == (1, None)
    assert refused.stderr.startswith("[INVALID_ARGUMENT] No job 'other' that writes to table db.t has taken")
    place.cli("stop", "--database", "db", "--table", "t", "--query", "compact_db.t")
    out, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (0, ""), out
    assert list((path / "stream").iterdir()) == []
