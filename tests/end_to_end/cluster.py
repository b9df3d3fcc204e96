"""A standalone Spark cluster on this machine: a master and workers as processes, and a Python that lacks this package."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import venv
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paimon_spark.bridge.jars import spark_home
from tests.end_to_end.programs import free_port

WORKERS = 2
_QUICK = "-XX:TieredStopAtLevel=1"
"""Of the parts of a cluster none lives long enough to pay for a better compiler."""
_START_SECONDS = 300
_END_SECONDS = 30
_STRIPPED = ("PYTHONPATH", "VIRTUAL_ENV", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_SUBMIT_ARGS")


def bare_environ() -> dict[str, str]:
    """Return an environment in which nothing leads to this package."""
    kept = {k: v for k, v in os.environ.items() if k not in _STRIPPED}
    small = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": _QUICK}
    return kept | small | {"SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": "127.0.0.1"}


def bare_python(home: Path) -> Path:
    """Return a Python that sees Spark and the other packages of this one, but not this project."""
    venv.create(home, with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (home / "lib" / version / "site-packages" / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin" / "python"


@dataclass(frozen=True)
class Cluster:
    """A cluster that runs."""

    master: str
    directory: Path
    sessions: tuple[int, ...] = ()
    """Of its parts: all processes that they start belong to these."""

    def submit(self, conf: Mapping[str, str], *arguments: str | Path, seconds: float = 1800) -> str:
        """Run `spark-submit` on the cluster and return its standard output."""
        settings = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "600m",
            "spark.driver.extraJavaOptions": _QUICK,
            "spark.executor.extraJavaOptions": _QUICK,
            "spark.executor.memory": "500m",
            "spark.executor.cores": "1",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "false",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": self._events.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            **conf,
        }
        self._events.mkdir(exist_ok=True)
        pairs = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
        command = [spark_home() / "bin" / "spark-submit", "--master", self.master, *pairs, *arguments]
        done = subprocess.run(
            [str(part) for part in command],
            cwd=self.directory,
            env=bare_environ() | {"PAIMON_SPARK_CACHE": str(self.directory / "cache")},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-6000:]}\n{self.last_words()}"
        return done.stdout

    @property
    def _events(self) -> Path:
        return self.directory / "events"

    def last_words(self) -> str:
        """Return the last output of the executors."""
        logs = sorted(self.directory.glob("work-*/app-*/*/stderr"))
        return "\n".join(f"{log}:\n{log.read_text(errors='replace')[-2000:]}" for log in logs)

    def executors_of_jobs(self) -> dict[str, set[str]]:
        """Return which executors ran tasks of which jobs, by the first word of the jobs' descriptions."""
        found: dict[str, set[str]] = defaultdict(set)
        for log in self._events.iterdir():
            words: dict[int, str] = {}
            for event in _events(log):
                if event["Event"] == "SparkListenerJobStart":
                    text = (event.get("Properties") or {}).get("spark.job.description") or ""
                    words |= dict.fromkeys(event["Stage IDs"], text.partition(" ")[0])
                elif event["Event"] == "SparkListenerTaskEnd":
                    found[words.get(event["Stage ID"], "")].add(f"{log.name}/{event['Task Info']['Executor ID']}")
        return dict(found)


def _events(log: Path) -> Iterator[dict[str, Any]]:
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


@contextmanager
def cluster(directory: Path, workers: int = WORKERS) -> Iterator[Cluster]:
    """Run a master and workers with one core each until the block ends, however it ends."""
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    node = "org.apache.spark.deploy"
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    sessions: list[int] = []
    with ExitStack() as stack:
        master = [f"{node}.master.Master", *here, "--port", str(port)]
        head = stack.enter_context(_daemon(master, directory, "master"))
        sessions.append(head.pid)
        _await(head, directory / "master.log", lambda: _listens(port))
        for number in range(workers):
            work = directory / f"work-{number}"
            size = ["--cores", "1", "--memory", "600m", "--work-dir", str(work)]
            command = [f"{node}.worker.Worker", *here, *size, address]
            daemon = stack.enter_context(_daemon(command, directory, f"worker-{number}"))
            sessions.append(daemon.pid)
            log = directory / f"worker-{number}.log"
            _await(daemon, log, lambda log=log: "Successfully registered" in log.read_text(errors="replace"))
        yield Cluster(address, directory, tuple(sessions))


@contextmanager
def _daemon(command: Sequence[str], directory: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a part of the cluster in a session of its own, of which no process is left afterwards."""
    with (directory / f"{name}.log").open("wb") as out:
        process = subprocess.Popen(
            [str(spark_home() / "bin" / "spark-class"), *command],
            cwd=directory,
            env=bare_environ(),
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        until = time.monotonic() + _END_SECONDS
        while (left := session_members(process.pid)) and time.monotonic() < until:
            process.poll()
            time.sleep(0.1)
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(_END_SECONDS)


def session_members(session: int) -> dict[int, str]:
    """Return the commands of the processes of a session that are not dead, by id."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, *rest = (entry / "stat").read_text().rpartition(")")[2].split()
                if state != "Z" and int(rest[2]) == session:
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(entry.name)] = command.decode(errors="replace")
            except OSError:
                continue
    return found


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _await(process: subprocess.Popen[bytes], log: Path, ready: Any) -> None:
    until = time.monotonic() + _START_SECONDS
    while not ready():
        assert process.poll() is None, log.read_text(errors="replace")
        assert time.monotonic() < until, log.read_text(errors="replace")
        time.sleep(0.2)
