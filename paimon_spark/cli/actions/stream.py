"""The action ``compact --streaming``: compacts a table continuously in this process."""

from __future__ import annotations

from paimon_spark.calls.compact_stream import compact_stream
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.run import CallResult
from paimon_spark.cli.actions.arguments import Request
from paimon_spark.cli.call import answer_of
from paimon_spark.cli.interrupts import on_signal
from paimon_spark.cli.result_formats import printed

STREAMING = "streaming"


def compact_here(request: Request, context: CallContext) -> None:
    """Compact at each new snapshot and print the results, until Ctrl-C or a termination signal.

    Raises:
        PaimonError: a compaction failed.
    """
    values = {name: value for name, value in request.arguments.items() if name != STREAMING}
    with on_signal("Stopping after the running compaction …") as stop:
        compact_stream(context, values, stop, on_result=lambda result: _show(request, result))


def _show(request: Request, result: CallResult) -> None:
    if result.changed_tables:
        for line in printed(answer_of(result), request.form):
            print(line, flush=True)
