"""`paimon-spark env --class-archive`: later programs load the classes of Spark from it."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from paimon_spark.bridge.jars import jar_path
from tests.end_to_end.programs import BIN, Place

FROM_JAR = "/jars/spark-catalyst_"


def loaded(place: Place) -> tuple[str, int]:
    """Run a query; return its output, and how many classes the JVM read from the jar of Spark's optimizer."""
    log = place.directory / "classes.log"
    logged = replace(place, environ={**place.environ, "SPARK_SUBMIT_OPTS": f"-Xlog:class+load:file={log}"})
    output = logged.cli("sql", "-e", "SELECT count(*) AS n FROM range(3)").stdout
    return output, sum(FROM_JAR in line for line in log.read_text().splitlines())


@pytest.mark.slow
def test_classes_are_loaded_from_the_archive(place: Place) -> None:
    cache = place.directory / "cache"
    cache.mkdir()
    shutil.copy2(jar_path(), cache)
    place = replace(place, environ={"PAIMON_SPARK_CACHE": str(cache), "SPARK_SUBMIT_OPTS": ""})
    wanted, before = loaded(place)
    done = place.run([BIN / "paimon-spark", "env", "--class-archive"])
    (archive,) = cache.glob("*.jsa")
    assert str(archive) in done.stderr
    assert str(archive) in done.stdout
    output, after = loaded(place)
    assert output == wanted
    assert 20 * after < before
    archive.chmod(0o644)
    with archive.open("r+b") as file:
        file.write(bytes(1000))
    assert loaded(place) == (wanted, before)
