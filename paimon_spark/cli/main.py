"""The `paimon-spark` command."""

from __future__ import annotations

import argparse
import functools
import shlex
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from paimon_spark.bridge.s3_jars import fetch_s3_jars
from paimon_spark.calls.refusals import REFUSED
from paimon_spark.catalog.resolve import absolute
from paimon_spark.cli import env, launch
from paimon_spark.cli.actions.arguments import FORMATS
from paimon_spark.cli.actions.names import is_action
from paimon_spark.cli.actions.run import only_reads
from paimon_spark.cli.actions.run import run as run_action
from paimon_spark.cli.actions.table import ACTIONS
from paimon_spark.cli.archive import write_archive
from paimon_spark.cli.output import forgiving_output, open_closed_streams
from paimon_spark.cli.script_progress import ScriptProgress
from paimon_spark.errors import EngineError, ErrorKind, PaimonError, UsageError
from paimon_spark.sqlparse.script import split_script
from paimon_spark.version import __version__

DEFAULT_CATALOG = "paimon"
DEFAULT_WAREHOUSE = "paimon-warehouse"
_READING = ("completion", "doctor", "env", "selftest")
"""The commands that change no table."""
_INTERRUPTED = 130
"""The exit status of a program ended by Ctrl-C, as in shells."""
_MARK = "\ufeff"
"""The byte order mark that some editors write; Spark would parse it as part of the first statement."""
_PASSED_ON = """All other arguments are passed on as they are. Those of every Spark program:
  --conf NAME=VALUE          a setting, as in --conf spark.sql.shuffle.partitions=8; may be repeated
  --properties-file FILE     settings, one a line
  --master URL               where to run: local[4], yarn, spark://host:7077, k8s://…
  --driver-memory SIZE       as in 4g; --executor-memory, --executor-cores, --num-executors likewise
  --jars FILES, --packages NAMES, --py-files FILES"""
_SPARK_SQL_REST = """and those of spark-sql:
  -i FILE                    statements to run first
  -d, --define NAME=VALUE    value of ${NAME}; --hivevar likewise
  --database NAME            database to start in

example:
  paimon-spark spark-sql --warehouse /data/warehouse --conf spark.sql.ansi.enabled=false -e 'SHOW DATABASES'"""
_SQL_REST = """and those of spark-sql:
  -i FILE                    statements to run first
  --hivevar NAME=VALUE       as --define
  --database NAME            database to start in

In the shell, statements end with a semicolon. Ctrl-C cancels the statement that runs, or the one that is being typed;
Ctrl-D, exit or quit ends. SOURCE FILE; runs a script, !COMMAND; a command of the system.

examples:
  paimon-spark sql --warehouse /data/warehouse
  paimon-spark sql --warehouse /data/warehouse --conf spark.sql.shuffle.partitions=8 -f nightly.sql"""
_THRIFT_REST = """and those of the Thrift server:
  --hiveconf NAME=VALUE      as in --hiveconf hive.server2.session.check.interval=60000; behind all the others

example:
  paimon-spark thriftserver --port 10001 --conf spark.sql.thriftServer.incrementalCollect=true --driver-memory 4g"""
_ACTIONS_HELP = """actions: paimon-spark ACTION [OPTION …] runs a procedure; paimon-spark ACTION --help describes it.
Procedures that are not listed here are actions under their own names."""
_SUBMIT_REST = """and those of spark-submit: --deploy-mode, --name, --class, --files, --archives. Then comes the program
with its own arguments; those of a script set the values of ${NAME}.

examples:
  paimon-spark submit --conf spark.executor.cores=4 nightly.sql day=2026-01-01
  paimon-spark submit --master yarn job.py its-argument"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0 for success, 1 for an error, 2 for an invalid command line."""
    words = list(sys.argv[1:] if argv is None else argv)
    open_closed_streams()
    with forgiving_output() as output:
        try:
            status: int | SystemExit = _run(words)
        except SystemExit as ended:  # the help of argparse
            status = ended
    if output.failure is not None:
        sys.stderr.write(f"{_unwritten(output.failure, words, done=status == 0)}\n")
        return 1
    if isinstance(status, SystemExit):
        raise status
    return status


def _run(words: list[str]) -> int:
    try:
        if words and is_action(words[0]):
            return run_action(words[0], words[1:])
        options, rest = _parsed(words)
        run: Callable[[argparse.Namespace, list[str]], int] = options.run
        return run(options, rest)
    except PaimonError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED


def _unwritten(failure: OSError, words: list[str], *, done: bool) -> EngineError:
    """Return the error about output that cannot be written; `done` means that the command itself succeeded."""
    changed = done and words[0] not in _READING and not (is_action(words[0]) and only_reads(words[0], words[1:]))
    return EngineError(
        f"Standard output cannot be written: {failure.strerror or failure}.",
        hint=f"The {'action' if is_action(words[0]) else 'command'} itself was done." if changed else "",
        kind=ErrorKind.ENVIRONMENT,
    )


def _parsed(words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = build_parser()
    options, rest = parser.parse_known_args(words)
    if rest and not options.passes_on:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return options, rest


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="paimon-spark",
        description="Apache Paimon tables on Spark: starts Spark's stock programs with the right jar and settings.",
        epilog=f"{_ACTIONS_HELP}\n{textwrap.fill(', '.join(a for a in ACTIONS if a not in REFUSED), 120)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"paimon-spark {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    add = functools.partial(_command, commands)
    _add_sql(add("sql", "run SQL statements or a script and print readable answers; on a terminal a shell", _SQL_REST))
    _add_spark_sql(add("spark-sql", "the stock spark-sql; all its own arguments are passed on", _SPARK_SQL_REST))
    _add_thrift(add("thriftserver", "the stock Thrift server, in the foreground", _THRIFT_REST))
    _add_submit(add("submit", "the stock spark-submit; a .sql file is run as a script", _SUBMIT_REST))
    _add_call(add("call", "run a procedure in this process, without Spark: paimon-spark call \"compact('db.t')\""))
    _add_doctor(add("doctor", "report what is wrong with tables, as a table, JSON or an HTML page, without Spark"))
    _add_selftest(add("selftest", "check that no data is lost on this machine: faults, kills, concurrency"))
    _add_completion(add("completion", "print the script that completes command lines in bash or zsh"))
    _add_env(add("env", "what is installed, and the --conf lines to paste elsewhere"))
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, what: str, rest: str = ""
) -> argparse.ArgumentParser:
    """Add a command; `rest` describes the arguments that it passes on."""
    return commands.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        epilog=rest and f"{_PASSED_ON}\n{rest}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _add_catalog(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--catalog", default=DEFAULT_CATALOG, help=f"name of the catalog (default {DEFAULT_CATALOG})")
    parser.add_argument(
        "--warehouse",
        default=DEFAULT_WAREHOUSE,
        help=f"directory or URI of the warehouse (default ./{DEFAULT_WAREHOUSE})",
    )
    _add_option(parser)


def _add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="option of the catalog, such as s3.endpoint"
    )


def _pairs(options: argparse.Namespace) -> tuple[tuple[str, str], ...]:
    return tuple(_pair(text) for text in options.option)


def _choice(options: argparse.Namespace) -> env.CatalogChoice:
    warehouse = str(options.warehouse)
    if not warehouse.strip():
        raise UsageError("--warehouse is empty.", hint="Give a directory; . is the current one.")
    if ":" not in warehouse.split("/", 1)[0]:
        warehouse = absolute(warehouse)
    return env.CatalogChoice(options.catalog, warehouse, _pairs(options))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(
            f"--option takes NAME=VALUE, not '{name}'.", hint="Example: --option s3.endpoint=http://h:9000"
        )
    return name, value


def _threads(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of 1 or more")
    return int(text)


def _add_sql(parser: argparse.ArgumentParser) -> None:
    _add_catalog(parser)
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "-f", "--file", help="script to run; `-` or no script reads standard input, unless that is a terminal"
    )
    source.add_argument("-e", "--execute", help="statements to run, separated by semicolons")
    parser.add_argument("-d", "--define", action="append", default=[], metavar="NAME=VALUE", help="value of ${NAME}")
    parser.add_argument("--format", choices=("table", "tsv"), help="default: table on a terminal, else tsv")
    parser.add_argument("--echo", action="store_true", help="print each statement above its answer (tables only)")
    parser.set_defaults(run=_sql, passes_on=True)


def _sql(options: argparse.Namespace, rest: list[str]) -> int:
    arguments = [*rest, *(part for value in options.define for part in ("-d", value))]
    progress = None
    with ExitStack() as stack:
        name = "" if options.file == "-" else options.file or ""
        text = options.execute
        if options.file == "-" or (not options.file and options.execute is None and _is_script(sys.stdin)):
            text = sys.stdin.read().removeprefix(_MARK)
            options.file = stack.enter_context(_stored(text))
        elif options.file:
            given = launch.read_text(options.file, "script")
            text = given.removeprefix(_MARK)
            if text != given:
                options.file = stack.enter_context(_stored(text))
        if options.file or text:
            statements = split_script(text)
            arguments += ["-f", options.file] if options.file else ["-e", text]
            whole = "-i" not in rest
            progress = ScriptProgress(
                statements,
                name,
                text=text,
                alone=whole,
                read_by_line=bool(options.file),
                trims=launch.trims_statements(),
            )
            progress = progress if statements else None
        wanted = options.format or ("table" if sys.stdout.isatty() else "tsv")
        readable, arguments = wanted == "table" or options.echo, [*launch.without_stacks(), *arguments]
        if text is None:
            return launch.run_shell(_choice(options), arguments, readable=readable)
        return launch.run_sql(_choice(options), arguments, progress=progress, readable=readable, echo=options.echo)


def _is_script(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and not stream.isatty()


@contextmanager
def _stored(script: str) -> Iterator[str]:
    """Yield the name of a file with the script, which may be too long for an argument."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".sql") as file:
        file.write(script)
        file.flush()
        yield file.name


def _add_spark_sql(parser: argparse.ArgumentParser) -> None:
    _add_catalog(parser)
    parser.set_defaults(run=lambda options, rest: launch.run_sql(_choice(options), rest), passes_on=True)


def _add_thrift(parser: argparse.ArgumentParser) -> None:
    _add_catalog(parser)
    parser.add_argument("--host", default="localhost", help="address to listen on (default localhost)")
    parser.add_argument("--port", type=int, default=10000, help="port to listen on (default 10000)")
    parser.set_defaults(run=_thrift, passes_on=True)


def _thrift(options: argparse.Namespace, rest: list[str]) -> int:
    sys.stderr.write(f"Starting the Thrift server for jdbc:hive2://{options.host}:{options.port}; Ctrl-C ends it.\n")
    return launch.run_thrift_server(_choice(options), options.host, options.port, rest)


def _add_submit(parser: argparse.ArgumentParser) -> None:
    _add_catalog(parser)
    parser.set_defaults(run=_submit, passes_on=True)


def _submit(options: argparse.Namespace, rest: list[str]) -> int:
    at = next((i for i, part in enumerate(rest) if part.endswith(".sql")), None)
    if at is not None:
        rest = [*rest[:at], str(Path(__file__).with_name("submit.py")), *rest[at:]]
    return launch.run_submit(_choice(options), rest)


def _add_call(parser: argparse.ArgumentParser) -> None:
    _add_catalog(parser)
    parser.add_argument("statement", help="a CALL, or just the procedure with its arguments")
    parser.add_argument("--explain", action="store_true", help="show what would be done, and do nothing")
    parser.add_argument("--threads", type=_threads, default=1, help="buckets to work on at once (default 1)")
    parser.add_argument("--format", choices=FORMATS, default="table", help="default: table")
    parser.set_defaults(run=_call, passes_on=False)


def _call(options: argparse.Namespace, _rest: list[str]) -> int:
    from paimon_spark.cli import call  # not at module level: the launchers start faster without the core
    from paimon_spark.cli.result_formats import printed

    result = call.run(_choice(options), options.statement, explain=options.explain, threads=options.threads)
    print("\n".join(printed(call.answer_of(result), options.format)))
    return 0


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    _add_catalog(parser)
    parser.add_argument("--table", help="the table, db.t; db.* means all tables of a database")
    parser.add_argument("--database", help="the database, whose tables are all examined if --table is not given")
    parser.add_argument("--format", choices=(*FORMATS, "html"), default="table", help="default: table")
    parser.add_argument("--no-listing", action="store_true", help="list no directories: no missing files, no orphans")
    parser.add_argument("--threads", type=_threads, default=1, help="directories to list at once (default 1)")
    parser.add_argument(
        "--fail-on",
        choices=("error", "warning", "info"),
        help="exit with 1 if there is a finding of this severity or a higher one",
    )
    parser.set_defaults(run=functools.partial(_doctor, parser), passes_on=False)


def _doctor(parser: argparse.ArgumentParser, options: argparse.Namespace, _rest: list[str]) -> int:
    from paimon_spark.cli import doctor  # not at module level: the launchers start faster without the core

    table = doctor.named_by(options.database, options.table)
    if table is None:
        parser.error("--table db.t names a table, --database db all tables of a database")
    found = doctor.examine(_choice(options), table, listing=not options.no_listing, threads=options.threads)
    if text := doctor.text_of(found, options.format):
        print(text)
    if options.format == "table":
        print(doctor.summary_of(found), file=sys.stderr)
    return int(doctor.fails(found, options.fail_on))


def _add_selftest(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, help="seed of the random choices (default: any)")
    parser.add_argument("--minutes", type=float, default=1.0, help="for how long (default 1)")
    parser.add_argument(
        "--directory", help="where the tables are created, a path or s3://…; a temporary directory if not given"
    )
    _add_option(parser)
    parser.set_defaults(run=_selftest, passes_on=False)


def _selftest(options: argparse.Namespace, _rest: list[str]) -> int:
    from paimon_spark.cli import selftest  # not at module level: the launchers start faster without the core

    return selftest.run(options.seed, options.minutes, options.directory, dict(_pairs(options)))


def _add_completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh"), help='in ~/.bashrc: eval "$(paimon-spark completion bash)"')
    parser.set_defaults(run=_completion, passes_on=False)


def _completion(options: argparse.Namespace, _rest: list[str]) -> int:
    from paimon_spark.cli import completion  # loads the procedures

    print(completion.script(options.shell, build_parser()), end="")
    return 0


def _add_env(parser: argparse.ArgumentParser) -> None:
    _add_catalog(parser)
    parser.add_argument("--conf", action="store_true", help="print the --conf lines only")
    parser.add_argument("--s3", action="store_true", help="fetch Hadoop's S3 client, for Spark's own scans on S3")
    parser.add_argument("--maven", metavar="URL", help="where from (default Maven Central)")
    parser.add_argument("--archive", metavar="FILE", type=Path, help="write the package as a .zip for --py-files")
    parser.add_argument("--class-archive", action="store_true", help="archive the classes of Spark, for faster starts")
    parser.set_defaults(run=_env, passes_on=False)


def _env(options: argparse.Namespace, _rest: list[str]) -> int:
    if options.s3:
        fetch_s3_jars(lambda line: print(line, file=sys.stderr, flush=True), options.maven)
    if options.archive:
        print(f"{write_archive(options.archive)} is for --py-files", file=sys.stderr)
    if options.class_archive:
        path = launch.record_classes()
        size = path.stat().st_size >> 20
        print(f"{path} ({size} MB) has the classes from which programs now start", file=sys.stderr)
    if not options.conf:
        facts = env.describe()
        width = max(map(len, facts))
        for name, value in facts.items():
            print(f"{name:<{width}}  {value}")
        print("\nTo attach it to any Spark program:\n")
    lines = env.conf_arguments(env.attach_conf(_choice(options)))
    for key, value in zip(lines[::2], lines[1::2], strict=True):
        print(f"  {key} {shlex.quote(value)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
