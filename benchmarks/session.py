"""One engine's Spark session as a separate process, and the cost of statements in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.engines import Engine
from benchmarks.process_tree import Usage

_DRIVER = Path(__file__).with_name("driver.py")


class EngineFailedError(Exception):
    """An engine could not run a statement; the message is that of the engine."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a step: CPU and wall in seconds, planning for queries, resident memory in bytes."""

    cpu: float
    wall: float
    planning: float | None
    java: int
    python: int
    rows: tuple[tuple[str, ...], ...]


class EngineSession:
    """A running session of an engine; its tables are below `warehouse`, which is emptied unless they are `kept`."""

    def __init__(
        self, engine: Engine, warehouse: Path, log: Path, more: Mapping[str, str] | None = None, *, kept: bool = False
    ) -> None:
        self.engine = engine
        self.warehouse = warehouse
        if not kept:
            shutil.rmtree(warehouse, ignore_errors=True)
        warehouse.mkdir(parents=True, exist_ok=True)
        conf = {**engine.session(warehouse), **(more or {})}
        env = {k: v for k, v in os.environ.items() if k not in ("SPARK_HOME", "PYTHONPATH")}
        if engine.python_path:
            env["PYTHONPATH"] = engine.python_path
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [engine.python, str(_DRIVER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=warehouse,
                env={**env, "PYSPARK_PYTHON": engine.python},
            )
        self.spark = str(self._ask(conf)["spark"])

    def run(self, *statements: str) -> Cost:
        """Run statements one after the other, and return their total cost."""
        with Usage(self._process.pid) as usage:
            answer = self._ask({"statements": statements})
        rows = tuple(tuple(row) for row in answer["rows"])
        return Cost(usage.cpu, answer["seconds"], answer["planning"], usage.java, usage.python, rows)

    def each(self, statements: Sequence[str]) -> tuple[list[float], float]:
        """Run statements one after the other; return the wall seconds of each, and the CPU seconds of all."""
        with Usage(self._process.pid) as usage:
            answer = self._ask({"statements": statements, "each": True})
        return answer["each"], usage.cpu

    def cancelled(self, statement: str, after: float) -> tuple[float | None, bool]:
        """Cancel a CALL after some seconds; return those until it ended, None if it had, and whether it failed."""
        answer = self._ask({"cancel": {"statement": statement, "after": after}})
        return answer["seconds"], answer["failed"]

    def stream(self, order: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        """Run a streaming query of `driver.py`; return its CPU seconds and the response."""
        with Usage(self._process.pid) as usage:
            answer = self._ask({"stream": order})
        return usage.cpu, answer

    def cpu_while_idle(self, seconds: float) -> float:
        """Return the CPU seconds of the idle session."""
        with Usage(self._process.pid) as usage:
            time.sleep(seconds)
        return usage.cpu

    def write(self, query: str, path: str) -> None:
        """Write the rows of a query as Parquet."""
        self._ask({"statements": [query], "write": {"path": path}})

    def close(self) -> None:
        """End the session."""
        if self._process.stdin:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        self._process.wait(timeout=60)

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None  # noqa: S101 - both are pipes, see above
        assert self._process.stdout is not None  # noqa: S101
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise EngineFailedError(f"The session of {self.engine.label} ended; see its log.")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise EngineFailedError(f"{self.engine.label}: {answer['error']}")
        return answer
