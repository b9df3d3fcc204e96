"""Start the stock programs as a user would, in a directory of their own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from paimon_spark.bridge.jars import jar_path, spark_home

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
TIMEOUT = 300


@dataclass(frozen=True)
class Place:
    """A directory to start programs in, and the warehouse they share."""

    directory: Path
    environ: Mapping[str, str] = field(default_factory=dict)

    @property
    def warehouse(self) -> Path:
        return self.directory / "warehouse"

    def run(
        self, command: Sequence[str | Path], *, check: bool = True, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `command` to its end; an exit status other than 0 is a failure unless `check` is false."""
        done = subprocess.run(
            [str(part) for part in command],
            cwd=self.directory,
            env=spark_environ() | dict(self.environ),
            capture_output=True,
            text=True,
            input=stdin,
            timeout=TIMEOUT,
            check=False,
        )
        assert not check or done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done

    def cli(
        self, *arguments: str | Path, check: bool = True, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `paimon-spark COMMAND --warehouse … ARGUMENTS`."""
        command, *rest = arguments
        return self.run([BIN / "paimon-spark", command, "--warehouse", self.warehouse, *rest], check=check, stdin=stdin)

    def stock(self, program: str, *arguments: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a program of pyspark with nothing but the plain settings of the README."""
        return self.run([spark_home() / "bin" / program, *plain_conf(self.warehouse), *arguments], check=check)

    def left_behind(self) -> set[str]:
        """Return what the programs have put into the directory."""
        return {p.name for p in self.directory.iterdir()}


def spark_environ() -> dict[str, str]:
    """Return an environment in which the scripts of pyspark find it."""
    return {
        **os.environ,
        "SPARK_HOME": str(spark_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def plain_conf(warehouse: Path) -> list[str]:
    """Return the lines that the README tells users to paste, and what keeps a test small and quiet."""
    conf = {
        "spark.jars": jar_path(),
        "spark.sql.extensions": "paimon.spark.SessionExtension",
        "spark.paimon.python": sys.executable,
        "spark.sql.catalog.paimon": "paimon.spark.Catalog",
        "spark.sql.catalog.paimon.warehouse": str(warehouse),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={(ROOT / 'conf/log4j2.properties').as_uri()}",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    return ["--master", "local[2]", *(part for k, v in conf.items() for part in ("--conf", f"{k}={v}"))]


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def server(place: Place, command: Sequence[str | Path], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the block ends; it must listen on `port` in time and end on request."""
    log = place.directory / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=place.directory,
            env=spark_environ(),
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_until_listening(process, port, log)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_until_listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text(encoding="utf-8", errors="replace")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.3)
    raise TimeoutError(log.read_text(encoding="utf-8", errors="replace"))
