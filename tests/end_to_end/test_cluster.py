"""A real standalone cluster: nothing but one archive brings the package to the driver and to the workers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.cluster import Cluster, bare_environ, bare_python, cluster, session_members
from tests.end_to_end.job_on_cluster import ROWS
from tests.end_to_end.programs import BIN, ROOT, spark_environ

pytestmark = pytest.mark.slow
LOADED = {n: (n, f"n{n % 7}") for n in range(ROWS)}
MERGED = LOADED | dict.fromkeys(range(ROWS // 2, ROWS), (-1, "again"))
LEFT = {n: row for n, row in MERGED.items() if n % 10}
FINAL = {**dict.fromkeys(range(0, 100, 10), (8, "back")), **LEFT, **{n: (7, LEFT[n][1]) for n in range(100) if n % 10}}
SCRIPT = """
USE paimon.shop;
INSERT INTO orders SELECT id, CAST(id % 2 AS INT), 5, 'sql' FROM range(-20000, 0, 1, 4);
SELECT count(*) AS n, sum(v) AS s FROM orders WHERE id < 0;
CALL sys.compact(table => 'shop.orders');
SELECT count(*) AS n, sum(v) AS s FROM orders WHERE id < 0;
"""


def totals(rows: dict[int, tuple[int, str]]) -> list[int]:
    return [len(rows), sum(rows), sum(v for v, _ in rows.values()), len({note for _, note in rows.values()})]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def archive(place: Path) -> Path:
    """What the documented command writes."""
    target = place / "paimon-spark.zip"
    command = [BIN / "paimon-spark", "env", "--archive", target]
    subprocess.run(command, cwd=ROOT, env=spark_environ() | {"PYTHONPATH": str(ROOT)}, check=True, capture_output=True)
    return target


@pytest.fixture(scope="module")
def python(place: Path) -> Path:
    """The Python of all machines: it has Spark and what this package needs, but not this package."""
    home = bare_python(place / "python")
    seen = subprocess.run([home, "-c", "import pyspark, pyarrow, paimon_spark"], cwd=place, env=bare_environ(), check=False, capture_output=True, text=True)  # fmt: skip
    assert "No module named 'paimon_spark'" in seen.stderr
    return home


@pytest.fixture(scope="module")
def running(place: Path) -> Iterator[Cluster]:
    with cluster(place) as found:
        yield found
    left = {pid: command for session in found.sessions for pid, command in session_members(session).items()}
    assert left == {}


@pytest.fixture(scope="module")
def answers(running: Cluster, archive: Path, python: Path, place: Path) -> dict[str, list[object]]:
    """What the program found, once."""
    program = ROOT / "tests/end_to_end/job_on_cluster.py"
    conf = {"spark.pyspark.python": str(python), "spark.pyspark.driver.python": str(python)}
    said = running.submit(conf, "--py-files", archive, program, place / "warehouse")
    [line] = [line for line in said.splitlines() if line.startswith("ANSWER")]
    return json.loads(line.removeprefix("ANSWER"))


def test_every_statement_answers_as_on_one_machine(answers: dict[str, list[object]]) -> None:
    assert answers["merged"] == answers["after compaction"] == totals(MERGED)
    assert answers["compacted"] == ["done", True]
    assert answers["after delete"] == totals(LEFT)
    assert answers["after merge"] == answers["last"] == totals(FINAL)
    assert answers["way"], "no task of an executor left out superseded rows by their positions"
    assert answers["travelled"] == [ROWS, sum(range(ROWS))]
    appended = [ROWS, sum(range(ROWS)), sum(range(0, ROWS, 2)), 1]
    assert answers["append"] == answers["sorted"] == appended
    assert answers["snapshots"][1] == [1]
    assert answers["orphans"] == [True, True]
    assert answers["orphans after"] is False


def test_the_package_came_with_the_archive_alone(
    answers: dict[str, list[object]], archive: Path, python: Path, place: Path
) -> None:
    assert "paimon-spark.zip" in str(answers["driver"][0])
    assert len(answers["workers"]) == 2
    for file, program in answers["workers"]:
        assert file.startswith(str(place / "work-")), "it was shipped into the directory of an executor"
        assert "/paimon-spark.zip/" in file
        assert program == str(python)


def test_both_workers_wrote_merged_compacted_and_listed(answers: dict[str, list[object]], running: Cluster) -> None:
    executors = running.executors_of_jobs()
    for word in ("write", "compact"):
        assert len(executors[word]) == 2, executors
    assert len({work.parent.parent for work in running.directory.glob("work-*/app-*/*")}) == 2


def test_a_script_of_sql(
    answers: dict[str, list[object]], running: Cluster, archive: Path, python: Path, place: Path
) -> None:
    script = place / "more.sql"
    script.write_text(SCRIPT)
    command = [BIN / "paimon-spark", "env", "--conf", "--warehouse", place / "warehouse"]
    told = subprocess.run(command, cwd=place, env=spark_environ() | {"PYTHONPATH": str(ROOT)}, check=True, capture_output=True, text=True)  # fmt: skip
    lines = (line.split("--conf ", 1)[1].partition("=") for line in told.stdout.splitlines() if "--conf" in line)
    conf = {key: value for key, _, value in lines}
    conf["spark.jars"] = conf["spark.jars"].split(",")[0]
    conf |= {
        "spark.paimon.python": str(python),
        "spark.paimon.pythonPath": str(archive),
        "spark.pyspark.python": str(python),
    }
    said = running.submit(conf, "--py-files", archive, ROOT / "paimon_spark/cli/submit.py", script)
    assert [line.split() for line in said.splitlines()].count(["20000", "100000"]) == 2
