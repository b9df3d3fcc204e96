"""REPLACE TABLE and CREATE OR REPLACE TABLE [AS]: the old rows stay until the new ones are written."""

from __future__ import annotations

from typing import Any

from paimon_spark.bridge.handlers.catalog import new_schema_from_spark, refuse_other_location
from paimon_spark.bridge.protocol import Request
from paimon_spark.bridge.tables import TableToken, catalog_of, checked_options, described
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import plan_write, run_post_commit
from paimon_spark.engine.replace import finish_replacement
from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.conf import session_options
from paimon_spark.spark.jvm_frames import frame_of, session_for
from paimon_spark.spark.runner import SparkRunner
from paimon_spark.spark.writes import replace_with_frame
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.kinds import Operation
from paimon_spark.spec.support import Scope

Json = dict[str, Any]


def plan_replace(request: Request) -> Json:
    """Describe the table as it will be; nothing changes."""
    table = _replaced(request)
    identifier = table.identifier
    return described(request.envelope, table, TableToken(identifier.database, identifier.object_name, table.schema.id))


def replace_table(request: Request) -> Json:
    """Replace schema and rows: by those of the attached frame, or by none."""
    args, envelope = request.args, request.envelope
    table = _replaced(request)
    session_wide = session_options(envelope.conf, envelope.catalog.name, table.identifier, travel=False)
    table = table.with_options(session_wide)
    table = table.with_options(checked_options(table, args["options"], Scope.WRITE))
    session = session_for(envelope.session, request.jsession)
    attached = request.objects
    if attached:
        replace_with_frame(session, table, frame_of(attached[0], session), operation=Operation(args["operation"]))
        return {}
    plan = plan_write(table, overwrite="static", operation=Operation.TRUNCATE)
    runner = SparkRunner(session)
    run_post_commit(plan, finish_replacement(plan, [], runner), runner)
    return {}


def _replaced(request: Request) -> Table:
    args = request.args
    identifier = Identifier.of((args["database"], args["name"]))
    properties = args["properties"]
    if identifier.system_table is not None or properties.get("provider", "paimon").lower() != "paimon":
        raise UnsupportedError(
            f"'{identifier.full_name}' cannot be replaced by a table of the provider "
            f"'{properties.get('provider', 'paimon')}'.",
            hint="Only a Paimon table can be replaced, and only by a Paimon table.",
        )
    catalog = catalog_of(request.envelope.catalog)
    refuse_other_location(catalog, identifier, properties)
    schema = new_schema_from_spark(args["schema"], args["partition_keys"], properties)
    return catalog.replaced_table(identifier, schema)


HANDLERS = {h.__name__: h for h in (plan_replace, replace_table)}
