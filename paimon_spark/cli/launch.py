"""Starts the stock Spark programs of the installed pyspark with the bridge attached."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from paimon_spark.bridge.jars import spark_home, spark_version
from paimon_spark.bridge.java import check_java
from paimon_spark.bridge.session import DEFAULT_CATALOG
from paimon_spark.cli.class_archive import STATEMENTS, record, with_archive
from paimon_spark.cli.env import CatalogChoice, attach_conf, conf_arguments, launch_conf, shipped
from paimon_spark.cli.render import pass_on, pump, standard
from paimon_spark.cli.script_progress import ScriptProgress
from paimon_spark.cli.shell import Shell, terminal_lines
from paimon_spark.errors import UsageError

_TRIMMING = (4, 3)
SQL_CLI = "org.apache.spark.sql.hive.thriftserver.SparkSQLCLIDriver"
THRIFT_SERVER = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
PRINT_HEADER = {"spark.sql.cli.print.header": "true"}
INTERRUPT = {"spark.sql.thriftServer.interruptOnCancel": "true"}
FAIR_POOLS = "conf/fairscheduler.xml"
"""Has the statements of a server share the cores instead of waiting for the tasks of earlier ones."""
PROGRESS = "spark.paimon.progress"
#: `spark-submit` requires a resource even if the class is in Spark's own jars.
NO_RESOURCE = "spark-internal"
LAST_JARS = "SPARK_DIST_CLASSPATH"
"""The environment variable with what Spark puts last into the class path of its programs."""
ENDS_WITHIN_S = 30


def spark_environ() -> dict[str, str]:
    """Return the environment for Spark's scripts: this pyspark, this Python, and a supported Java.

    Raises:
        EngineError: Java is missing, or this Spark does not support its release.
    """
    java = check_java()
    # In the class path too, since --jars of the user replaces spark.jars, and Hive's server closes the class loader of
    # spark.jars when its first connection ends. Last, behind the jars to which the archive belongs.
    jars = attach_conf(None)["spark.jars"].split(",")
    last = os.pathsep.join(filter(None, [os.environ.get(LAST_JARS), *jars]))
    return with_archive(_environ() | {LAST_JARS: last}, java)


def _environ() -> dict[str, str]:
    return {**os.environ, "SPARK_HOME": str(spark_home()), "PYSPARK_PYTHON": sys.executable}


@contextmanager
def spark_command(
    program: Sequence[str], choice: CatalogChoice | None, extra: Mapping[str, str], arguments: Sequence[str]
) -> Iterator[list[str]]:
    """Yield the full `spark-submit` command; the user's `arguments` come last and take precedence.

    The temporary directory is for the session catalog, whose tables are deleted when the program ends.
    """
    with tempfile.TemporaryDirectory(prefix="paimon-spark-") as scratch:
        given = _properties(arguments)
        conf = {**launch_conf(choice, Path(scratch)), **{k: v for k, v in extra.items() if k not in given}}
        if DEFAULT_CATALOG in given:
            del conf[DEFAULT_CATALOG]
        yield [str(spark_home() / "bin" / "spark-submit"), *program, *conf_arguments(conf), *arguments]


def _properties(arguments: Sequence[str]) -> set[str]:
    """Return the settings of the user's ``--properties-file``, which ours would otherwise override.

    Raises:
        UsageError: the file cannot be read.
    """
    words = [word for part in arguments for word in (part.split("=", 1) if part.startswith("--prop") else [part])]
    name = next((value for flag, value in pairwise(words) if flag == "--properties-file"), None)
    lines = [] if name is None else read_text(name, "properties file").splitlines()
    return {re.split(r"[\s=:]", line.strip(), maxsplit=1)[0] for line in lines}


def read_text(name: str, what: str) -> str:
    """Return the content of a text file named by the user.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the {what} {name} cannot be read: {error.strerror}.", hint="Check the path.") from error


def run_sql(
    choice: CatalogChoice | None,
    arguments: Sequence[str],
    *,
    progress: ScriptProgress | None = None,
    readable: bool = False,
    echo: bool = False,
) -> int:
    """Run the stock `spark-sql` with `arguments`; return its exit status.

    With the `progress` of a script, results are printed as tab-separated lines or, with `readable`, as aligned tables,
    and with `echo` below their statements. Without it, the streams are inherited.
    """
    environ = spark_environ() | {"SPARK_CONNECT_MODE": "0"}
    extra = {**PRINT_HEADER, **({PROGRESS: "true"} if sys.stderr.isatty() else {})}
    with spark_command(("--class", SQL_CLI), choice, extra, (NO_RESOURCE, *arguments)) as command:
        if progress is None:
            return wait_for(subprocess.Popen(_reordered(command), env=environ))
        process = subprocess.Popen(
            _reordered(command),
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if readable else subprocess.PIPE,
        )
        with passing_signals(process):
            if not readable:
                return pass_on(process, progress, sys.stdout.buffer, sys.stderr)
            renderer = standard(progress, echo=echo)
            renderer.announce()
            return pump(process, renderer)


def record_classes() -> Path:
    """Write the archive of classes from which the programs of this module start; return its path.

    Raises:
        EngineError: the recorded session failed, or this Java writes no archive.
    """
    with tempfile.TemporaryDirectory(prefix="paimon-spark-") as warehouse:
        choice = CatalogChoice("paimon", warehouse)
        script = (NO_RESOURCE, "-e", "; ".join(STATEMENTS))
        with spark_command(("--class", SQL_CLI), choice, {}, script) as command:
            return record(_reordered(command), _environ() | {"SPARK_CONNECT_MODE": "0"})


def run_shell(choice: CatalogChoice | None, arguments: Sequence[str], *, readable: bool) -> int:
    """Run the stock `spark-sql` behind an interactive shell on this terminal; return its exit status.

    It runs in a session of its own, so that Ctrl-C reaches it only while it runs a statement.
    """
    environ = spark_environ() | {"SPARK_CONNECT_MODE": "0", "TERM": "dumb", "PAIMON_SPARK_SHELL": "1"}
    extra = {**PRINT_HEADER, **({PROGRESS: "true"} if sys.stderr.isatty() else {})}
    with (
        spark_command(("--class", SQL_CLI), choice, extra, (NO_RESOURCE, *arguments)) as command,
        tempfile.TemporaryDirectory(prefix="paimon-spark-") as scratch,
        terminal_lines() as ask,
    ):
        process = subprocess.Popen(
            _reordered(command),
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return Shell(process, ask, Path(scratch), readable=readable).run()
        finally:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process, which may run in a session of its own, and wait for it."""
    if process.poll() is not None:
        return
    with passing_signals(process):
        process.terminate()
        try:
            process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def without_stacks() -> list[str]:
    """Return the argument that suppresses Spark's stack traces in error output of `spark-sql`.

    Not used on Spark 4.0, where it would also suppress the time of a statement.
    """
    return [] if spark_version().startswith("4.0.") else ["-S"]


def trims_statements() -> bool:
    """Return whether `spark-sql` drops blank lines before a statement: since Spark 4.3."""
    return tuple(map(int, spark_version().split(".")[:2])) >= _TRIMMING


def _reordered(command: Sequence[str]) -> list[str]:
    """Remove the resource: the SQL program needs none, and Spark accepts its own options anywhere."""
    return [part for part in command if part != NO_RESOURCE]


def run_thrift_server(choice: CatalogChoice | None, host: str, port: int, arguments: Sequence[str]) -> int:
    """Run the stock Thrift server in the foreground until it is stopped; return its exit status."""
    hive = ("--hiveconf", f"hive.server2.thrift.bind.host={host}", "--hiveconf", f"hive.server2.thrift.port={port}")
    program = ("--class", THRIFT_SERVER, "--name", "paimon-spark Thrift server")
    fair = {"spark.scheduler.mode": "FAIR", "spark.scheduler.allocation.file": shipped(FAIR_POOLS).as_uri()}
    with spark_command(program, choice, {**INTERRUPT, **fair}, (*arguments, NO_RESOURCE, *hive)) as command:
        return wait_for(subprocess.Popen(command, env=spark_environ()))


def run_submit(choice: CatalogChoice | None, arguments: Sequence[str], environ: Mapping[str, str] | None = None) -> int:
    """Run the stock `spark-submit` with `arguments`, and further variables; return its exit status."""
    with spark_command((), choice, {}, arguments) as command:
        return wait_for(subprocess.Popen(command, env={**spark_environ(), **(environ or {})}))


def wait_for(process: subprocess.Popen[bytes]) -> int:
    """Wait for `process`; return its exit status."""
    with passing_signals(process):
        return process.wait()


@contextmanager
def passing_signals(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Forward termination signals to `process` inside the block; interrupts reach it from the terminal."""

    def forward(number: int, _frame: object) -> None:
        process.send_signal(number)

    before = signal.signal(signal.SIGTERM, forward), signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])
