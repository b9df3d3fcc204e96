"""The progress of CALLs where the JVM's terminal is not seen: in notebooks."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from paimon_spark.calls.progress import LINE, wiped_line
from paimon_spark.spec.quoted_text import quoted_name

_EVERY_SECONDS = 0.5


@contextmanager
def show_progress(spark: Any, catalog: str = "paimon", stream: TextIO | None = None) -> Iterator[None]:
    """Show the progress of the CALLs that run in the block, on one line that is redrawn.

    In a notebook::

        with paimon_spark.show_progress(spark):
            spark.sql("CALL paimon.sys.compact('shop.orders')")

    Args:
        spark: a session, of Spark Connect too.
        catalog: the name of a Paimon catalog.
        stream: where to; standard error by default.

    Raises:
        Exception: the session cannot list CALLs, as Spark says.
    """
    out = stream or sys.stderr
    ended = threading.Event()
    statement = f"CALL {quoted_name(catalog)}.sys.running()"

    def running() -> list[str]:
        return [row["progress"] or row["procedure"] for row in spark.sql(statement).collect()]

    def follow() -> None:
        shown = False
        while not ended.wait(_EVERY_SECONDS):
            told = running()
            if told or shown:
                out.write("; ".join(told)[:LINE].ljust(LINE) + "\r")
                out.flush()
            shown = bool(told)
        if shown:
            out.write(wiped_line())
            out.flush()

    running()
    thread = threading.Thread(target=follow, name="paimon-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
