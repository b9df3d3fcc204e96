"""All methods that the JVM may call, by name."""

from __future__ import annotations

from paimon_spark.bridge import (
    handlers_analyze,
    handlers_call,
    handlers_catalog,
    handlers_flink,
    handlers_listing,
    handlers_replace,
    handlers_rows,
    handlers_scan,
    handlers_session,
    handlers_stream,
    handlers_views,
    handlers_write,
)
from paimon_spark.bridge.server import Handler

HANDLERS: dict[str, Handler] = {
    **handlers_catalog.HANDLERS,
    **handlers_listing.HANDLERS,
    **handlers_scan.HANDLERS,
    **handlers_write.HANDLERS,
    **handlers_replace.HANDLERS,
    **handlers_rows.HANDLERS,
    **handlers_call.HANDLERS,
    **handlers_flink.HANDLERS,
    **handlers_analyze.HANDLERS,
    **handlers_session.HANDLERS,
    **handlers_views.HANDLERS,
    **handlers_stream.HANDLERS,
}
