"""Streaming queries: the micro-batches that they write, and those that they read."""

from __future__ import annotations

import time
from typing import Any

from paimon_spark.bridge.protocol import Request, scan_predicate
from paimon_spark.bridge.server import JvmAnswer
from paimon_spark.bridge.system_tables import describe_system
from paimon_spark.bridge.tables import TableToken, described, load_named, load_to_change, load_token, newest_token
from paimon_spark.core.row_level.upserted_rows import upserts
from paimon_spark.core.system.tables import SYSTEM_SCANS, SystemScan
from paimon_spark.core.table import Table
from paimon_spark.core.write.table_writer import WriterRestoreState
from paimon_spark.engine.insert import WritePlan, resume_batch
from paimon_spark.engine.streaming.chain_source import open_source
from paimon_spark.engine.streaming.offset import parse_offset
from paimon_spark.engine.streaming.sink import StreamBatch, begin_batch
from paimon_spark.engine.streaming.source import StreamSource
from paimon_spark.engine.streaming.stop import finish_stop, take_stop
from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.jvm_frames import session_for
from paimon_spark.spark.runner import NearRunner
from paimon_spark.spark.small_writes import local_limits
from paimon_spark.spark.stream_reads import StreamColumns, stream_rows
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.predicate import TRUE
from paimon_spark.spec.support import Scope

Json = dict[str, Any]
_CHANGES = "audit_log"
_STREAMED = (_CHANGES, "binlog")
"""The system tables that can be read as streams of changes."""
_PLAIN = SystemScan()


def stream_begin(request: Request) -> Json:
    """Begin to write a micro-batch; return the table's description, or nothing if the batch is committed already."""
    args = request.args
    token = newest_token(request.envelope, args["table"], args["options"])
    table = load_to_change(request.envelope, token, args["options"])
    batch = StreamBatch(**args["stream"])
    if args["mode"] == "update" and not (table.is_primary_key_table or upserts(table)):
        raise UnsupportedError(
            f"Table {table.name} has no primary key and no 'upsert-key', so that the output mode 'update' "
            "cannot replace rows in it.",
            hint="Use outputMode('append') or outputMode('complete'), or a table with a primary key.",
        )
    begun = begin_batch(table, batch)
    if begun is not None:
        found = {"table": described(request.envelope, table, TableToken.of(token)), "base": begun.base}
        return found | {"few": local_limits(table, streams=True)._asdict()}
    session = session_for(request.envelope.session, request.jsession)
    plan = WritePlan(table=table, info=WriterRestoreState(), batch=batch)
    resume_batch(plan, NearRunner(session, table))
    return {"table": None}


def stream_relation(request: Request) -> Json:
    """Return the table that a stream reads: the table itself, or its changes with their row kinds."""
    args = request.args
    system = args["table"].get("rows_of") or args["table"].get("scan_of")
    if system is not None and system not in _STREAMED:
        raise UnsupportedError(
            f"The system table ${system} cannot be read as a stream.",
            hint=f"Stream the table itself, or one of its system tables {', '.join('$' + s for s in _STREAMED)}.",
        )
    token = newest_token(request.envelope, args["table"], args["options"])
    table = _streamed(request, token)
    if system is None and table.options.flag("read.changelog"):
        system = _CHANGES
    open_source(table, keep_kinds=system is not None).check()
    if system is None:
        return described(request.envelope, table, TableToken.of(token))
    name = f"{token['name']}${system}"
    found = describe_system(table, Identifier.of((token["database"], name)), None)
    return {**found, "token": {**token, "scan_of": system}}


def _streamed(request: Request, token: Json) -> Table:
    plain = {k: v for k, v in token.items() if k != "snapshot"}
    return load_token(request.envelope, TableToken.of(plain), request.args["options"], Scope.STREAM)


def _source(request: Request, token: Json) -> StreamSource:
    kinds = SYSTEM_SCANS.get(token.get("scan_of", ""), _PLAIN).keep_kinds
    return open_source(_streamed(request, token), keep_kinds=kinds)


def stream_initial(request: Request) -> Json:
    """Return the starting position of a stream without a checkpoint."""
    source = _source(request, request.args["table"])
    return {"offset": source.first_offset(request.envelope.zone).to_json()}


def stream_newest(request: Request) -> Json:
    """Return the newest snapshot that a stream may read."""
    return {"snapshot": _source(request, request.args["table"]).newest_id()}


def stream_next(request: Request) -> Json:
    """Return the end position of the next micro-batch, if there is one."""
    args = request.args
    source = _source(request, args["table"])
    newest = args["newest"] if args["newest"] is not None else source.newest_id()
    start = parse_offset(args["start"])
    source.commit(start)  # Spark reports the end of a batch only when the next one begins
    found = source.next_offset(start, limited=args["limited"], newest=newest, waited_millis=args["waited"])
    return {"offset": None if found is None else found.to_json()}


def stream_commit(request: Request) -> Json:
    """Record what a stream has processed."""
    _source(request, request.args["table"]).commit(parse_offset(request.args["end"]))
    return {}


def stream_frame(request: Request) -> JvmAnswer:
    """Return the rows of a micro-batch."""
    args = request.args
    session = session_for(request.envelope.session, request.jsession)
    system = SYSTEM_SCANS.get(args["table"].get("scan_of", ""), _PLAIN)
    source = _source(request, args["table"])
    predicate = TRUE if system.pairs else scan_predicate(args["predicate"], source.table.schema)
    found = source.read(parse_offset(args["start"]), parse_offset(args["end"]), predicate)
    columns = StreamColumns(
        tuple(args["columns"]), keep_kinds=system.keep_kinds, pairs=system.pairs, predicate=predicate
    )
    return JvmAnswer(stream_rows(session, source.table, found, columns)._jdf)


def stop_requested(request: Request) -> Json:
    """Return whether another program has requested a job to end, and mark the request as taken."""
    names: list[str] = request.args["names"]
    return {"requested": take_stop(_written(request), names, time.time_ns() // 1_000_000)}


def stop_finished(request: Request) -> Json:
    """Report that a job has ended on request."""
    finish_stop(_written(request), request.args["names"])
    return {}


def _written(request: Request) -> Table:
    """Return the table of a job: by its token, or by its name for a job that compacts it."""
    table = request.args["table"]
    if isinstance(table, str):
        return load_named(request.envelope, Identifier.parse(table), writes=True)
    return load_token(request.envelope, TableToken.of(newest_token(request.envelope, table)))


HANDLERS = {
    h.__name__: h
    for h in (
        stream_begin,
        stream_relation,
        stream_initial,
        stream_newest,
        stream_next,
        stream_commit,
        stream_frame,
        stop_requested,
        stop_finished,
    )
}
