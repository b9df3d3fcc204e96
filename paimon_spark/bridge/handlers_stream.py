"""Streaming queries: the micro-batches that they write, and those that they read."""

from __future__ import annotations

from typing import Any

from paimon_spark.bridge.protocol import Request
from paimon_spark.bridge.tables import TableToken, described, load_to_change, newest_token
from paimon_spark.core.write.table_writer import WriterRestoreState
from paimon_spark.engine.insert import WritePlan, resume_batch
from paimon_spark.engine.stream_sink import StreamBatch, begin_batch
from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.jvm_frames import session_for
from paimon_spark.spark.runner import NearRunner

Json = dict[str, Any]


def stream_begin(request: Request) -> Json:
    """Begin to write a micro-batch; answer the table as it is, or nothing if it has the batch already."""
    args = request.args
    token = newest_token(request.envelope, args["table"])
    table = load_to_change(request.envelope, token, args["options"])
    batch = StreamBatch(**args["stream"])
    if args["mode"] == "update" and not table.is_primary_key_table:
        raise UnsupportedError(
            f"Table {table.name} has no primary key, so that the output mode 'update' cannot replace rows in it.",
            hint="Use outputMode('append') or outputMode('complete'), or a table with a primary key.",
        )
    if begin_batch(table, batch):
        return {"table": described(request.envelope, table, TableToken.of(token))}
    session = session_for(request.envelope.session, request.jsession)
    plan = WritePlan(table=table, info=WriterRestoreState(), batch=batch)
    resume_batch(plan, NearRunner(session, table))
    return {"table": None}


HANDLERS = {h.__name__: h for h in (stream_begin,)}
