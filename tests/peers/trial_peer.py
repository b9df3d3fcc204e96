"""Paimon's own Java program as a process that carries out one step after another."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.peers.java_peer import HERE, ROOT, spark_home

_SOURCES = (HERE / "PaimonPeer.java", HERE / "TrialPeer.java")


class PeerError(Exception):
    """Paimon refused a step, or died at it."""


class TrialPeer:
    """One Java process over one warehouse.

    Args:
        jar: a jar with Paimon's core: a bundle, or a module for Spark.
        warehouse: where its catalog is.
    """

    def __init__(self, jar: Path, warehouse: Path) -> None:
        classpath = f"{_compiled(jar)}:{jar}:{spark_home() / 'jars'}/*"
        self._log = (warehouse.parent / "peer.log").open("w", encoding="utf-8")
        self._process = subprocess.Popen(
            ["java", "-Xmx1g", "-cp", classpath, "TrialPeer", str(warehouse)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def ask(self, do: str, table: str, **step: Any) -> Mapping[str, Any]:
        """Carry out a step and return its answer.

        Raises:
            PeerError: Paimon failed, in its own words.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, "table": table, **step}) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                if "error" in answer:
                    raise PeerError("\n  ".join([f"{do}: {answer['error']}", *answer["at"]]))
                return answer
        raise PeerError(f"{do}: the process ended; see {self._log.name}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._log.close()


def _compiled(jar: Path) -> Path:
    """Return the directory with the classes of the program, compiled once for a jar and a version of the sources."""
    digest = hashlib.sha256(b"".join(s.read_bytes() for s in _SOURCES) + str(jar.resolve()).encode()).hexdigest()[:16]
    out = ROOT / ".cache" / "peer" / digest
    if not (out / "TrialPeer.class").exists():
        out.mkdir(parents=True, exist_ok=True)
        classpath = f"{jar}:{spark_home() / 'jars'}/*"
        subprocess.run(["javac", "-nowarn", "-cp", classpath, "-d", str(out), *map(str, _SOURCES)], check=True)
    return out
