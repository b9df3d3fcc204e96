"""Actions: procedures as commands, ``paimon-spark compact --path …``, in this process or on Spark."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from paimon_spark.cli.actions.arguments import Request, parse, request_of
from paimon_spark.cli.actions.names import action_of
from paimon_spark.cli.env import ACTIONS_PROGRAM, CatalogChoice
from paimon_spark.cli.result_formats import Answer, printed
from paimon_spark.core.maintenance.deletion import WARN
from paimon_spark.errors import UsageError

if TYPE_CHECKING:
    from paimon_spark.calls.context import CallContext

DONE, FAILED, WRONG_USAGE, NOTHING_TO_DO = 0, 1, 2, 3
ERRORS = "PAIMON_SPARK_ERRORS"
"""The variable that names the file for errors: `spark-submit` merges the two output streams of Python programs."""
_PREFIX = "spark.paimon."


def run(name: str, words: Sequence[str], run_on_spark: Callable[[Request], int] | None = None) -> int:
    """Run an action, and return the exit status.

    Args:
        name: its name.
        words: the arguments after it.
        run_on_spark: runs every action, in a program that is on Spark; otherwise those that need Spark start one.

    Raises:
        PaimonError: the action is not supported, or failed.
    """
    try:
        action = action_of(name)
        given = parse(action, words)
        if given.flag("help"):
            from paimon_spark.cli.actions.help import help_text  # loads the procedures

            print(help_text(action))
            return DONE
        request = request_of(given)
        _check_allowed(request, interactive=run_on_spark is None)
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return WRONG_USAGE
    if run_on_spark is not None:
        return run_on_spark(request)
    if not _confirmed(request):
        sys.stderr.write("Nothing was changed.\n")
        return FAILED
    if request.streams:
        _stream_here(request)
        return DONE
    if request.on_spark:
        return _launch(request, name, words)
    from paimon_spark.cli.interrupts import interruptible

    with interruptible():
        answer = _run_here(request)
    return status_of(request, answer)


def only_reads(name: str, words: Sequence[str]) -> bool:
    """Return whether an action with these arguments changes nothing."""
    from paimon_spark.calls.registry import installed_registry

    action = action_of(name)
    given = parse(action, words)
    if given.flag("help") or request_of(given).dry_run:
        return True
    return bool(action.procedure) and installed_registry().get(action.procedure).read_only


def status_of(request: Request, answer: Answer) -> int:
    """Print the result; return the exit status."""
    for line in printed(answer, request.form):
        print(line)
    if answer.has_failed or (request.fails_on_rows and answer.rows):
        return FAILED
    wanted = request.given.flag("nothing_to_do_exits_3")
    return NOTHING_TO_DO if wanted and answer.is_idle else DONE


def choice_of(request: Request) -> CatalogChoice:
    """Return the catalog of an action."""
    from paimon_spark.catalog.resolve import absolute

    return CatalogChoice(request.catalog, absolute(request.warehouse), tuple(request.catalog_conf.items()))


def session_conf(request: Request) -> dict[str, str]:
    """Return the settings of a session for the table options."""
    return {f"{_PREFIX}{key}": value for key, value in request.table_conf.items()}


def _context(request: Request, *, creates: bool = True) -> CallContext:
    from paimon_spark.cli.call import local_context

    threads = int(request.given.frame("threads") or 1)
    return local_context(choice_of(request), threads, session_conf(request), creates=creates)


def _stream_here(request: Request) -> None:
    from paimon_spark.cli.actions.stream import compact_here

    compact_here(request, _context(request))


def _run_here(request: Request, *, explain: bool = False) -> Answer:
    """Run the action, or plan it, in this process."""
    from paimon_spark.calls.registry import installed_family, installed_registry
    from paimon_spark.calls.run import run_named
    from paimon_spark.cli.call import answer_of

    action = request.action
    if not action.procedure:
        from paimon_spark.cli.actions.delete import delete_here
        from paimon_spark.spec.identifier import Identifier

        options = _context(request).table_options(Identifier.of(request.table or ()))
        return delete_here(request, choice_of(request), options)
    registry = installed_family(action.family) if action.family else installed_registry()
    only_reads = explain or request.dry_run or registry.get(action.procedure).read_only
    context = _context(request, creates=not only_reads)
    return answer_of(run_named(action.procedure, request.arguments, context, registry, explain=explain))


def _launch(request: Request, name: str, words: Sequence[str]) -> int:
    """Run the action in a Spark program of its own."""
    from paimon_spark.cli import launch

    given = request.given
    master = given.text("master")
    settings = given.pairs("spark_conf")
    if sys.stderr.isatty():
        settings = {launch.PROGRESS: "true", **settings}
    arguments = [*(() if master is None else ("--master", master))]
    arguments += [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    agreed = ("--yes",) if request.action.destroys and not given.flag("yes") else ()
    with tempfile.NamedTemporaryFile("r", encoding="utf-8", prefix="paimon-spark-") as errors:
        command = [*arguments, str(ACTIONS_PROGRAM), name, *words, *agreed]
        status = launch.run_submit(None, command, {ERRORS: errors.name})
        sys.stderr.write(errors.read())
    return status


def _check_allowed(request: Request, *, interactive: bool) -> None:
    """Reject actions that need ``--yes`` where no terminal can confirm, and actions that cannot run on Spark.

    Raises:
        UsageError: ``--yes`` is missing, or the action goes on until it is stopped and is to run on Spark.
    """
    action = request.action
    if request.streams and (request.on_spark or not interactive):
        raise request.given.wrong(
            f"{action.name} --streaming runs in this process, without Spark.",
            "In a long-running session, CALL sys.compact(table => …, streaming => true) starts the same as a job.",
        )
    if action.needs_yes and not (request.given.flag("yes") or request.dry_run or (interactive and _is_terminal())):
        raise request.given.wrong(f"{action.name} destroys {action.destroys}.", "Give --yes.")


def _confirmed(request: Request) -> bool:
    """Return whether the action may run: on a terminal, ask before something is destroyed."""
    action = request.action
    if not action.destroys or request.dry_run or request.given.flag("yes") or not _is_terminal():
        return True
    sys.stderr.write(f"{action.name} destroys {action.destroys}{_extent(request)}. Go on? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def _extent(request: Request) -> str:
    """Return a summary of what an action does."""
    if not request.action.procedure or request.on_spark:
        return ""
    plan = _run_here(request, explain=True)
    if not plan.is_plan:
        return ""
    sizes = [int(row[2] or 0) for row in plan.rows if row[0] != WARN]
    return f": {len(sizes)} steps, {sum(sizes)} bytes of files"
