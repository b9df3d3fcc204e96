"""A process that runs CALLs in children which die by ``kill -9`` before a given change of the store.

Each line of standard input is a JSON object: the warehouse, the statement, the number of the change (0: none), and
after how many seconds to kill the child instead (0: not at all). The answer is one too: the signal that ended the
child, how many changes it made, how long it took, and its error.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from typing import Any

from paimon_spark.calls.context import CallContext
from paimon_spark.calls.run import run_call
from paimon_spark.catalog.filesystem import FileSystemCatalog
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import PaimonError
from paimon_spark.fs.base import FileIO
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.testing.faults import WRITES, FaultFileIO
from tests.unit.procedures.calling import REGISTRY

LATER = 2 * 86_400_000
"""How much later than now every CALL takes place: all files are old enough to be orphans."""


class Killer:
    """A schedule that kills this process before the nth change of the store."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.changes = 0

    def choose(self, operation: str, path: str) -> None:
        """Count the changes; die at the nth."""
        del path
        if operation in WRITES:
            self.changes += 1
            if self.changes == self.at:
                os.kill(os.getpid(), signal.SIGKILL)


def context_of(warehouse: str, file_io: FileIO) -> CallContext:
    """Return the context of a CALL."""
    return CallContext(
        catalog=FileSystemCatalog(warehouse, {}, file_io),
        catalog_name="paimon",
        runner=LocalRunner(),
        clock_millis=lambda: time.time_ns() // 1_000_000 + LATER,
    )


def call(warehouse: str, text: str, file_io: FileIO) -> None:
    """Run a statement."""
    run_call(text, context_of(warehouse, file_io), REGISTRY)


def run(order: dict[str, Any], out: int) -> None:
    """Run one statement in this process and write the outcome."""
    killer, error = Killer(order["at"]), ""
    try:
        call(order["warehouse"], order["text"], FaultFileIO(LocalFileIO(), killer))
    except PaimonError as e:
        error = str(e)
    except BaseException:  # noqa: BLE001 - the parent judges
        error = traceback.format_exc()
    os.write(out, json.dumps({"changes": killer.changes, "error": error}).encode())


def main() -> None:
    """Serve until the input ends."""
    for line in sys.stdin:
        order, began = json.loads(line), time.monotonic()
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.close(read)
            run(order, write)
            os._exit(0)
        os.close(write)
        if order["after"]:
            time.sleep(order["after"])
            os.kill(child, signal.SIGKILL)
        with os.fdopen(read, "rb") as answer:
            told = answer.read()
        _, status = os.waitpid(child, 0)
        found = json.loads(told) if told else {"changes": 0, "error": ""}
        found["seconds"] = time.monotonic() - began
        found["signal"] = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
