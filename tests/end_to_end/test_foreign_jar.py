"""A bridge jar of another release beside the installed package."""

from __future__ import annotations

import zipfile

from paimon_spark.bridge.jars import HASH_ENTRY, VERSION_ENTRY, jar_path, source_hash
from paimon_spark.version import __version__
from tests.end_to_end.programs import Place


def test_a_foreign_jar_is_named_with_both_versions(place: Place) -> None:
    foreign = place.directory / "foreign.jar"
    with zipfile.ZipFile(jar_path()) as own, zipfile.ZipFile(foreign, "w") as jar:
        for name in own.namelist():
            other = {HASH_ENTRY: b"0123456789abcdef", VERSION_ENTRY: b"9.9.9"}
            jar.writestr(name, other.get(name, own.read(name)))
    done = place.stock("spark-sql", "--conf", f"spark.jars={foreign}", "-e", "SHOW DATABASES IN paimon", check=False)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert f"The bridge jar {foreign} does not belong to the installed paimon-spark" in said
    assert "version 9.9.9 (0123456789ab)" in said
    assert f"version {__version__} ({source_hash()[:12]})" in said
    assert "Set spark.jars to the jar" in said
