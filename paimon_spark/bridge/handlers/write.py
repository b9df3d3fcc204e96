"""Writes: the JVM hands over the rows as a frame."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from paimon_spark.bridge.handlers.catalog import new_schema_from_spark
from paimon_spark.bridge.protocol import Request, in_partition, predicate_from_jvm
from paimon_spark.bridge.tables import (
    TableToken,
    catalog_at,
    catalog_of,
    checked_options,
    load_to_change,
    load_token,
    newest_token,
    path_table,
    table_options,
)
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import Overwrite, complete_write, plan_write
from paimon_spark.engine.streaming.sink import StreamBatch
from paimon_spark.errors import AlreadyExistsError, NotFoundError, OutcomeUnknownError, UnsupportedError, UsageError
from paimon_spark.spark.jvm_frames import frame_of, session_for
from paimon_spark.spark.row_kinds import with_row_kinds
from paimon_spark.spark.runner import SparkRunner
from paimon_spark.spark.types import field_from_spark
from paimon_spark.spark.upserts import insert_frame
from paimon_spark.spark.values import value_from_jvm, value_to_jvm
from paimon_spark.spec.kinds import Operation
from paimon_spark.spec.predicate import FALSE, TRUE, Predicate, and_, exactly, or_
from paimon_spark.spec.privileges import Privilege
from paimon_spark.spec.quoted_text import quoted_name
from paimon_spark.spec.schema_merge import MergeRules, merging_changes
from paimon_spark.spec.support import Scope

Json = dict[str, Any]


def write(request: Request) -> Json:
    """Write the attached frame: append, static or dynamic overwrite."""
    args = request.args
    table = load_to_change(request.envelope, args["table"], args["options"])
    predicate = exactly(predicate_from_jvm(args["predicate"], table.schema)) if args["predicate"] else None
    return _write(request, table, args["mode"], predicate)


def merge_schema(request: Request) -> Json:
    """Change the columns of a table to fit the rows to write, if an option enables that."""
    args = request.args
    token = newest_token(request.envelope, args["table"], args["options"])
    table = load_to_change(request.envelope, token, args["options"])
    options = table.options
    if not options.flag("write.merge-schema"):
        return {"merged": False}
    if "database" not in token:
        raise UnsupportedError(
            f"The option 'write.merge-schema' does not apply to a write to a path: {token['path']}.",
            hint="Write to the table by its name in a catalog.",
        )
    rules = MergeRules(
        widens=options.flag("write.merge-schema.type-widening"),
        loses=options.flag("write.merge-schema.explicit-cast"),
    )
    fields = [field_from_spark(f) for f in args["schema"]["fields"]]
    catalog = catalog_of(request.envelope.catalog)
    altered = catalog.alter_table(table.identifier, lambda newest: merging_changes(newest, fields, rules))
    return {"merged": altered.schema.id != table.schema.id}


def _write(request: Request, table: Table, mode: str, predicate: Predicate | None) -> Json:
    session = session_for(request.envelope.session, request.jsession)
    frame = frame_of(request.objects[0], session)
    overwrite: Overwrite | None = None if mode == "append" else "dynamic" if mode == "dynamic" else "static"
    operation = Operation(request.args.get("operation") or ("WRITE" if overwrite is None else "OVERWRITE"))
    stream = request.args.get("stream")
    insert_frame(
        session,
        table,
        with_row_kinds(table, frame) if stream else frame,
        batch=StreamBatch(**stream) if stream else None,
        overwrite=overwrite,
        partitions=predicate,
        operation=operation,
    )
    return {}


def save_path(request: Request) -> Json:
    """Save the attached frame as the table at a directory, creating the table where there is none."""
    args = request.args
    path, mode = args["path"], args["save_mode"]
    how = "static" if mode == "Overwrite" else "append"
    options = table_options(args["options"])
    try:
        table = path_table(request.envelope, path, args["options"], writes=True)
    except NotFoundError:
        keys = _partition_columns(args["partition_columns"], options)
        schema = new_schema_from_spark(args["schema"], keys, options)
        catalog = catalog_at(request.envelope, path, args["options"])
        return _save_new(request, catalog.create_table_at(path, schema), how)
    if mode == "Ignore":
        return {}
    if mode == "ErrorIfExists":
        raise AlreadyExistsError(f"A table already exists at {path}.", hint="Use mode('append') or mode('overwrite').")
    table = table.with_options(checked_options(table, options, Scope.WRITE))
    return _save(request, table, how)


def _save_new(request: Request, table: Table, how: str) -> Json:
    """Save the frame as a new table, which is removed if that fails."""
    try:
        return _save(request, table, how)
    except OutcomeUnknownError:
        raise
    except Exception:
        if table.snapshots.latest_id() is None:
            table.file_io.delete_dir(table.path)
        raise


def _partition_columns(text: str | None, options: Json) -> Sequence[str]:
    if text:
        return tuple(json.loads(text))
    return tuple(c.strip() for c in options.pop("partition", "").split(",") if c.strip())


def _save(request: Request, table: Table, mode: str) -> Json:
    session = session_for(request.envelope.session, request.jsession)
    frame = frame_of(request.objects[0], session)
    missing = [n for n in table.schema.field_names if n not in frame.columns]
    extra = [c for c in frame.columns if c not in table.schema.field_names]
    if missing or extra:
        what = f"lacks {', '.join(missing)}" if missing else f"has {', '.join(extra)} in addition"
        raise UsageError(
            f"The rows to save do not fit table {table.name}: the frame {what}.",
            hint=f"The table's columns are {', '.join(table.schema.field_names)}.",
        )
    ordered = frame.select(*[quoted_name(n) for n in table.schema.field_names])
    insert_frame(session, table, ordered, overwrite=None if mode == "append" else "static", operation=Operation.WRITE)
    return {}


def remove(request: Request) -> Json:
    """Remove all rows, or those of the partitions that a filter selects."""
    table = load_to_change(request.envelope, request.args["table"])
    raw = request.args["predicate"]
    predicate = predicate_from_jvm(raw, table.schema) if raw else None
    whole = predicate is None or predicate == TRUE
    return _remove(request, table, None if whole else predicate, Operation(request.args["operation"]))


def drop_partitions(request: Request) -> Json:
    """Remove the rows of partitions given by the values of all partition columns."""
    table = load_to_change(request.envelope, request.args["table"])
    fields = table.schema.partition_fields
    chosen: list[Predicate] = []
    for values in request.args["partitions"]:
        typed = [value_from_jvm(v, f.type) for v, f in zip(values, fields, strict=True)]
        chosen.append(and_(*(in_partition(f, v) for f, v in zip(fields, typed, strict=True))))
    return _remove(request, table, or_(*chosen) if chosen else FALSE, Operation.TRUNCATE)


def _remove(request: Request, table: Table, partitions: Predicate | None, operation: Operation) -> Json:
    session = session_for(request.envelope.session, request.jsession)
    plan = plan_write(table, overwrite="static", static_partitions=partitions, operation=operation)
    complete_write(plan, [], SparkRunner(session))
    return {}


def list_partitions(request: Request) -> Json:
    """Return the values of all partitions with data whose given columns have the given values."""
    table = load_token(request.envelope, TableToken.of(request.args["table"]))
    table.require(Privilege.SELECT)
    fields = {k: table.schema.field(k) for k in request.args["fixed"]}
    fixed = {k: value_from_jvm(v, fields[k].type) for k, v in request.args["fixed"].items()}
    condition = and_(TRUE, *(in_partition(fields[k], v) for k, v in fixed.items()))
    found = scan(table, table.snapshots.latest(), partition_predicate=condition)
    rows = sorted({e.partition for e in found.entries})
    return {"partitions": [[value_to_jvm(v) for v in table.partition_values(p)] for p in rows]}


HANDLERS = {h.__name__: h for h in (write, merge_schema, save_path, remove, drop_partitions, list_partitions)}
