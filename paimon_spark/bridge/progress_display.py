"""The progress of CALLs in notebooks, which do not show the JVM's terminal."""

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
        spark: a session; one of Spark Connect is accepted.
        catalog: the name of a Paimon catalog.
        stream: the output; standard error by default.

    Raises:
        Exception: Spark's error if the session cannot list CALLs.
    """
    out = stream or sys.stderr
    ended = threading.Event()
    statement = f"CALL {quoted_name(catalog)}.sys.running()"

    def running() -> list[str]:
        return [row["progress"] or row["procedure"] for row in spark.sql(statement).collect()]

    def follow() -> None:
        shown = False
        while not ended.wait(_EVERY_SECONDS):
            lines = running()
            if lines or shown:
                out.write("; ".join(lines)[:LINE].ljust(LINE) + "\r")
                out.flush()
            shown = bool(lines)
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
