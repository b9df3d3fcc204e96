"""Paimon's own Java program as a process that carries out one step after another."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.peers.java_peer import command

_PATIENCE_SECONDS = 30


class PeerError(Exception):
    """Paimon refused a step, or died at it."""


class TrialPeer:
    """One Java process over one warehouse.

    Args:
        jar: a jar with Paimon's core: a bundle, or a module for Spark.
        warehouse: where its catalog is.
    """

    def __init__(self, jar: Path, warehouse: Path) -> None:
        program = command("TrialPeer", jar, str(warehouse))
        self._log = (warehouse.parent / "peer.log").open("w", encoding="utf-8")
        self._process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
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
        try:
            self._process.wait(_PATIENCE_SECONDS)
        finally:
            self._process.kill()
            self._log.close()
