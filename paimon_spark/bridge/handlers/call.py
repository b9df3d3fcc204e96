"""CALL, COPY INTO and tag statements: recognized by the parser, run once; and the procedures for Spark's own CALL."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from paimon_spark.bridge.protocol import CatalogInfo, Envelope, Request
from paimon_spark.bridge.tables import catalog_of, load_named
from paimon_spark.calls.compact_stream import compact_once, position
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.help import describe
from paimon_spark.calls.plan import listed_rows
from paimon_spark.calls.registry import installed_registry
from paimon_spark.calls.report import Job
from paimon_spark.calls.run import CallResult, answer_columns, is_paimon_statement, run_call, run_named
from paimon_spark.calls.tag_statements import run_tag_statement, tag_columns
from paimon_spark.errors import ArgumentError, ErrorKind, NotFoundError, suggestion
from paimon_spark.spark.conf import session_options
from paimon_spark.spark.copy_into import LOADED, load_files
from paimon_spark.spark.copy_write import WRITTEN, write_files
from paimon_spark.spark.jvm_frames import session_for
from paimon_spark.spark.progress import progress_bar, wiped_after_failure
from paimon_spark.spark.runner import SparkRunner
from paimon_spark.spark.session_jobs import SessionJobs
from paimon_spark.spark.values import value_to_jvm
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.quoted_text import sql_path
from paimon_spark.sqlparse.call import CallStatement, parse_call
from paimon_spark.sqlparse.copy_into import CopyFrom, CopyTo, is_copy_statement, parse_copy_statement
from paimon_spark.sqlparse.tag_statements import is_tag_statement, parse_tag_statement

Json = dict[str, Any]
_JSON_TYPES = {"bigint": "long", "int": "integer", "tinyint": "byte", "smallint": "short"}
_SESSION_CATALOG = "spark_catalog"


def claim_call(request: Request) -> Json:
    """Return whether a statement is one of ours, and its result columns; nothing is run."""
    text = request.args["text"]
    if is_copy_statement(text):
        return _claim_copy(parse_copy_statement(text), request)
    if is_tag_statement(text):
        of_tags = parse_tag_statement(text)
        claimed = _named_catalog(_catalog_of(of_tags.table, request), request) is not None
        return {"claimed": claimed, "schema": _struct(tag_columns(of_tags))}
    if not is_paimon_statement(text):
        return {"claimed": False}
    statement = parse_call(text)
    info = _catalog_for(statement, request)
    if info is None:
        return {"claimed": False}
    return {"claimed": True, "schema": _struct(answer_columns(statement, info.name))}


def _claim_copy(statement: CopyFrom | CopyTo, request: Request) -> Json:
    if isinstance(statement, CopyTo):
        return {"claimed": True, "schema": _struct(WRITTEN)}
    catalog = _catalog_of(statement.table, request)
    if _named_catalog(catalog, request) is None:
        raise ArgumentError(
            f"COPY INTO {'.'.join(statement.table)} does not name a table of a Paimon catalog.",
            hint=suggestion(catalog, request.args["catalogs"]),
        )
    return {"claimed": True, "schema": _struct(LOADED)}


def _catalog_of(table: Sequence[str], request: Request) -> str:
    """Return the catalog of the table that a statement names."""
    current: str = request.args["current_catalog"]
    return table[0] if len(table) > 2 else current


def _named_catalog(name: str, request: Request) -> CatalogInfo | None:
    """Return a Paimon catalog of the session by its name in any letter case."""
    known: Mapping[str, dict[str, str]] = request.args["catalogs"]
    return next((CatalogInfo(name=n, options=o) for n, o in known.items() if n.lower() == name.lower()), None)


def _catalog_for(statement: CallStatement, request: Request) -> CatalogInfo | None:
    """Return the catalog to run in, or None if the statement is for Spark or another extension.

    Raises:
        ArgumentError: the session's own catalog is current, which has no procedures.
    """
    known: Mapping[str, dict[str, str]] = request.args["catalogs"]
    name = statement.catalog or request.args["current_catalog"]
    found = _named_catalog(name, request)
    if found is not None:
        return found
    if name == _SESSION_CATALOG and known:
        raise ArgumentError(
            f"The current catalog '{name}' has no procedures.",
            hint=f"Write CALL {next(iter(known))}.sys.{statement.procedure}(…), or USE {next(iter(known))} first.",
        )
    return None


def _context(request: Request, info: CatalogInfo) -> CallContext:
    envelope = request.envelope
    session = session_for(envelope.session, request.jsession)
    catalog, jobs = catalog_of(info), SessionJobs(session, info.name)
    return CallContext(
        catalog=catalog,
        catalog_name=info.name,
        runner=SparkRunner(session),
        clock_millis=lambda: time.time_ns() // 1_000_000,
        current_database=_database(request, info, catalog.default_database),
        progress=progress_bar(envelope.conf),
        zone=envelope.zone,
        table_options=_options(envelope, info.name),
        jobs=jobs,
        control=jobs,
        user=request.args.get("user", ""),
    )


def _database(request: Request, info: CatalogInfo, default: str) -> str:
    """Return the current database if `catalog` is the current catalog, else the default one."""
    args = request.args
    return args["current_database"] or default if args["current_catalog"] == info.name else default


def _options(envelope: Envelope, catalog: str) -> Any:
    def of(identifier: Identifier) -> Mapping[str, str]:
        return session_options(envelope.conf, catalog, identifier)

    return of


def run_claimed(request: Request) -> Json:
    """Run a statement that was recognized as ours."""
    if is_copy_statement(request.args["text"]):
        return _run_copy(parse_copy_statement(request.args["text"]), request)
    if is_tag_statement(request.args["text"]):
        return _run_tag_statement(request)
    statement = parse_call(request.args["text"])
    info = _catalog_for(statement, request)
    if info is None:
        raise ArgumentError("The statement does not name a Paimon catalog.")
    with wiped_after_failure(request.envelope.conf):
        result = run_call(statement, _context(request, info))
    return _answer(result, info.name)


def _run_copy(statement: CopyFrom | CopyTo, request: Request) -> Json:
    session = session_for(request.envelope.session, request.jsession)
    if isinstance(statement, CopyTo):
        return _rows_answer(WRITTEN, write_files(session, statement))
    info = _named_catalog(_catalog_of(statement.table, request), request)
    if info is None:
        raise ArgumentError("The statement does not name a Paimon catalog.")
    context = _context(request, info)
    identifier = context.identifier_of(statement.table)
    table = load_named(replace(request.envelope, catalog=info), identifier, writes=True)
    rows = load_files(session, table, statement, context.clock_millis)
    return _rows_answer(LOADED, rows) | {"changed": _changed(info.name, [table.name])}


def _rows_answer(columns: list[tuple[str, str, bool]], rows: list[tuple[Any, ...]]) -> Json:
    return {"schema": _struct(columns), "rows": [[value_to_jvm(v) for v in row] for row in rows], "changed": []}


def _run_tag_statement(request: Request) -> Json:
    statement = parse_tag_statement(request.args["text"])
    info = _named_catalog(_catalog_of(statement.table, request), request)
    if info is None:
        raise ArgumentError("The statement does not name a Paimon catalog.")
    return _answer(run_tag_statement(statement, _context(request, info)), info.name)


def _answer(result: CallResult, catalog: str) -> Json:
    nullable = result.nullable or [True] * len(result.columns)
    columns = [(name, kind, null) for (name, kind), null in zip(result.columns, nullable, strict=True)]
    rows = listed_rows(result.rows) if result.is_plan else result.rows
    return {
        "schema": _struct(columns),
        "rows": [[value_to_jvm(v) for v in row] for row in rows],
        "changed": _changed(catalog, result.changed_tables),
        **_job(result.job, catalog),
    }


def _changed(catalog: str, names: Iterable[str]) -> list[str]:
    """Return the names of tables as Spark parses them; one with several dots stands for each way to split it."""
    parts = [name.split(".") for name in names]
    return [sql_path(catalog, ".".join(name[:at]), ".".join(name[at:])) for name in parts for at in range(1, len(name))]


def _job(job: Job | None, catalog: str) -> Json:
    """Return the description of the job that the session starts."""
    if job is None:
        return {}
    return {"job": {"name": job.name, "catalog": catalog, "table": job.table, "values": dict(job.values)}}


def compaction_position(request: Request) -> Json:
    """Return a number that changes when a job may have something to do."""
    return {"position": position(_context(request, request.envelope.catalog), request.args["values"])}


def compaction_step(request: Request) -> Json:
    """Compact a table once, as a job does at each new position."""
    info = request.envelope.catalog
    result = compact_once(_context(request, info), request.args["values"])
    return {"changed": _changed(info.name, result.changed_tables if result else ())}


def _struct(columns: Iterable[tuple[str, str, bool]]) -> Json:
    fields = [
        {"name": name, "type": _JSON_TYPES.get(kind, kind), "nullable": nullable, "metadata": {}}
        for name, kind, nullable in columns
    ]
    return {"type": "struct", "fields": fields}


def list_procedures(request: Request) -> Json:
    """Return the names of all procedures."""
    del request
    return {"procedures": [p.name for p in installed_registry()]}


def describe_procedure(request: Request) -> Json:
    """Return one procedure for Spark's own CALL."""
    namespace, name = request.args["namespace"], request.args["name"]
    if [n.lower() for n in namespace] != ["sys"]:
        raise NotFoundError(
            f"There is no procedure '{'.'.join([*namespace, name])}'.",
            hint="Procedures are in the namespace sys.",
            kind=ErrorKind.PROCEDURE_NOT_FOUND,
        )
    procedure = installed_registry().get(name)
    known = next(d for d in describe(installed_registry()) if d["name"] == procedure.name)
    return {
        "name": procedure.name,
        "description": procedure.summary,
        "parameters": [
            {"name": p["name"], "type": p["type"], "required": p["required"], "comment": p["doc"]}
            for p in known["parameters"]
        ],
    }


def run_procedure(request: Request) -> Json:
    """Run a procedure with values in the order of its parameters; null is "not given"."""
    procedure = installed_registry().get(request.args["name"])
    values = {}
    for parameter, value in zip(procedure.named_params, request.args["values"], strict=True):
        if value is not None:
            values[parameter.name] = value
    ctx = _context(request, request.envelope.catalog)
    with wiped_after_failure(request.envelope.conf):
        result = run_named(procedure.name, values, ctx)
    return _answer(result, request.envelope.catalog.name)


HANDLERS = {
    "claim_call": claim_call,
    "run_call": run_claimed,
    "list_procedures": list_procedures,
    "describe_procedure": describe_procedure,
    "run_procedure": run_procedure,
    "compaction_position": compaction_position,
    "compaction_step": compaction_step,
}
