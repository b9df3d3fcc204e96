"""DELETE, UPDATE and MERGE: the JVM hands over the changed rows as a frame."""

from __future__ import annotations

from typing import Any

from paimon_spark.bridge.protocol import Request
from paimon_spark.bridge.tables import load_to_change
from paimon_spark.engine.row_level import RowChanges
from paimon_spark.spark import row_level
from paimon_spark.spark.jvm_frames import frame_of, session_for
from paimon_spark.spec.kinds import Operation


def change_rows(request: Request) -> dict[str, Any]:
    """Write the changed rows of the attached frame."""
    args = request.args
    table = load_to_change(request.envelope, args["table"], args["options"])
    session = session_for(request.envelope.session, request.jsession)
    frame, operation = frame_of(request.objects[0], session), Operation(args["operation"])
    if args["rewrites"]:
        row_level.rewrite_rows(session, table, frame, operation, replaces=args["replaces"])
    else:
        changes = RowChanges(tuple(args["columns"]), deletes=args["deletes"])
        row_level.change_rows(session, table, frame, operation, only_new=args["only_new"], changes=changes)
    return {}


HANDLERS = {h.__name__: h for h in (change_rows,)}
