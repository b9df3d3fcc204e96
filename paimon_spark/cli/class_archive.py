"""The archive of classes that the JVMs of the launchers load at their start (class-data sharing, Java 13 and later)."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from paimon_spark.bridge.jars import cache_dir, spark_home, spark_version
from paimon_spark.bridge.java import Java, check_java
from paimon_spark.errors import EngineError, ErrorKind

JVM_OPTIONS = "SPARK_SUBMIT_OPTS"
"""The environment variable with the options of the JVM that `spark-submit` starts."""
_SILENT = "-Xlog:cds*=off"
"""A JVM that cannot use an archive would say so on its standard output; it starts without it."""
STATEMENTS = (
    "CREATE DATABASE archived",
    "CREATE TABLE archived.t (k BIGINT NOT NULL, v STRING, d DECIMAL(10, 2), at TIMESTAMP, p STRING) "
    "PARTITIONED BY (p) TBLPROPERTIES ('primary-key' = 'k,p', 'bucket' = '2')",
    "INSERT INTO archived.t SELECT id, CAST(id AS STRING), id, timestamp_seconds(id), id % 2 FROM range(20000)",
    "INSERT INTO archived.t VALUES (1, 'a', 2.5, TIMESTAMP '2026-01-01 00:00:00', '1')",
    "SELECT count(*) FROM archived.t",
    "SELECT p, count(*), sum(d), max(at) FROM archived.t WHERE k > 5 GROUP BY p ORDER BY p",
    "SELECT a.v FROM archived.t a JOIN archived.t b ON a.k = b.k + 1 WHERE a.k < 3",
    "MERGE INTO archived.t t USING (SELECT 7 AS k, '1' AS p) s ON t.k = s.k AND t.p = s.p WHEN MATCHED THEN DELETE",
    "UPDATE archived.t SET v = 'b' WHERE k = 9",
    "CALL sys.compact('archived.t')",
    "SHOW TABLES IN archived",
    "DESCRIBE TABLE EXTENDED archived.t",
)
"""What the recorded session runs: the classes of common statements are loaded by them."""


def archive_path(java: Java) -> Path:
    """Return the path of the archive of the installed Spark and this Java, whether or not it exists."""
    digest = hashlib.sha256(f"{spark_home()}\0{java.command}".encode()).hexdigest()
    return cache_dir() / f"classes-{spark_version()}-java{java.major}-{digest[:16]}.jsa"


def archive_state() -> str:
    """Return the path of the archive, or how to get it."""
    path = archive_path(check_java())
    return str(path) if path.exists() else "none; for faster starts: paimon-spark env --class-archive"


def with_archive(environ: Mapping[str, str], java: Java) -> dict[str, str]:
    """Return `environ` with the JVM options that use the archive, or unchanged if there is none."""
    path = archive_path(java)
    return _with_options(environ, f'"-XX:SharedArchiveFile={path}"') if path.exists() else dict(environ)


def _with_options(environ: Mapping[str, str], option: str) -> dict[str, str]:
    return {**environ, JVM_OPTIONS: f"{environ.get(JVM_OPTIONS, '')} {option} {_SILENT}".strip()}


def record(command: list[str], environ: Mapping[str, str]) -> Path:
    """Run a session that ends at once, and keep the classes of Spark and Java that it loaded.

    Args:
        command: a command that runs `STATEMENTS`.
        environ: its environment.

    Raises:
        EngineError: the session failed, or this Java wrote no archive.
    """
    target = archive_path(check_java())
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="paimon-spark-classes-", dir=target.parent) as work:
        partial = Path(work) / target.name
        recording = _with_options(environ, f'"-XX:ArchiveClassesAtExit={partial}"')
        done = subprocess.run(
            command, env=recording, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )
        if done.returncode != 0 or not partial.exists():
            raise EngineError(
                f"The session whose classes were to be archived ended with status {done.returncode}:\n{done.stderr}",
                hint="Programs start without the archive.",
                kind=ErrorKind.ENVIRONMENT,
            )
        partial.replace(target)
    return target
