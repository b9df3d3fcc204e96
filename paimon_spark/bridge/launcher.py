"""Attaches this process to the JVM that started it, and ends it with that JVM."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark import SparkContext

from paimon_spark.bridge.gateway import open_gateway
from paimon_spark.bridge.server import Endpoint, Handler
from paimon_spark.errors import EngineError
from paimon_spark.spark.job_control import tag_all
from paimon_spark.spark.jvm_frames import install_jvm_frames
from paimon_spark.spark.worker_python import worker_python

HANDOVER = "PAIMON_SPARK_HANDOVER"
_ALLOCATION = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"}
"""How workers allocate memory, unless it is set otherwise."""
_FIRST_STATEMENTS_SECONDS = 3.0
_COLLECT_AFTER = (10_000, 10, 10)
"""Thresholds of the garbage collector: new objects, then collections of each generation before one of the next.
"""


def serve(handlers: dict[str, Handler], import_the_rest: Callable[[], None]) -> None:
    """Register `handlers` with the JVM and serve requests until it ends.

    Args:
        handlers: the methods.
        import_the_rest: imports what only later statements need; called after the first statements.

    Raises:
        EngineError: this process was not started by the bridge.
    """
    token = os.environ.pop(HANDOVER, None)
    if token is None:
        raise EngineError("The engine is started by Spark, not by hand.", hint="Use spark-sql or `paimon-spark sql`.")
    watch_stdin()
    relax_garbage_collection()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    environ = dict(os.environ)
    gateway = open_gateway()
    handover = gateway.jvm.java.lang.System.getProperties().get(token)
    context = attach(gateway, handover.context())
    ignore_interrupts()
    context.pythonExec = worker_python(context, sys.executable, environ)
    context.environment.update(worker_environment(context.environment, os.environ))
    install_jvm_frames(context, handover.jvmFrames())
    tag_all(token)
    handover.announce(Endpoint(handlers))
    forever = threading.Event()
    forever.wait(_FIRST_STATEMENTS_SECONDS)
    import_the_rest()
    forever.wait()


def attach(gateway: Any, java_context: JavaObject) -> SparkContext:
    """Return a SparkContext for the one that the JVM already has."""
    return SparkContext(gateway=gateway, jsc=java_context)


def ignore_interrupts() -> None:
    """Ignore Ctrl-C, which a terminal sends to all its processes: the JVM decides what to cancel.

    A new SparkContext installs a handler of its own that raises KeyboardInterrupt.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def watch_stdin() -> None:
    """End this process when the pipe from the JVM closes, whatever ended the JVM."""
    threading.Thread(target=_wait_for_end, name="paimon-stdin", daemon=True).start()


def relax_garbage_collection() -> None:
    """Run the garbage collector less often, and not on imported objects.

    A plan creates hundreds of thousands of objects, none of them in a cycle; collections took a fifth of its time.
    """
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)


def _wait_for_end() -> None:
    while sys.stdin.buffer.read(1):
        pass
    os._exit(0)


def worker_environment(given: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that Python workers of this process need.

    The package need not be installed: on this machine it is found by its path, and Spark ships an archive.
    Arrow allocates memory with malloc, which requests new pages from the system far less often than Arrow's default.
    All threads share two arenas: glibc otherwise makes one for each thread, and keeps what that once needed.

    Args:
        given: the settings `spark.executorEnv.*`, which take precedence.
        own: the environment of this process.
    """
    root = str(Path(__file__).parents[2])
    known = given.get("PYTHONPATH") or own.get("PYTHONPATH", "")
    if Path(root).is_dir() and root not in known.split(os.pathsep) and "site-packages" not in root:
        known = os.pathsep.join(p for p in (root, known) if p)
    allocation = {name: given.get(name) or own.get(name) or value for name, value in _ALLOCATION.items()}
    return allocation | ({"PYTHONPATH": known} if known else {})
