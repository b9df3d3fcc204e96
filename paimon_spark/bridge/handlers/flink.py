"""Statements of Flink's SQL that Spark cannot parse: recognized by the parser, run once (docs/flink-sql.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from paimon_spark.bridge.protocol import CatalogInfo, Request
from paimon_spark.bridge.system_tables import is_rows
from paimon_spark.bridge.tables import TableToken, catalog_of, load_to_change, load_token, newest_token
from paimon_spark.catalog.base import Catalog
from paimon_spark.engine.fallback import read_branches
from paimon_spark.engine.streaming import sink as stream_sink
from paimon_spark.errors import (
    ArgumentError,
    ErrorKind,
    NotFoundError,
    OptionError,
    SqlSyntaxError,
    UnsupportedError,
    UsageError,
    suggestion,
)
from paimon_spark.spark.conf import check_setting
from paimon_spark.spark.connectors import TABLE, create_connector
from paimon_spark.spark.flink_settings import setting
from paimon_spark.spark.jvm_frames import session_for
from paimon_spark.spark.types import field_from_spark
from paimon_spark.spec import evolution
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.quoted_text import sql_path
from paimon_spark.spec.types import DataField
from paimon_spark.spec.units import parse_duration_ms
from paimon_spark.sqlparse.flink import statements as flink
from paimon_spark.sqlparse.flink.parse import belongs_to_flink, parse_statement

Json = dict[str, Any]
_CATALOG = "spark.sql.catalog."
_CLASS = "paimon.spark.Catalog"
_PAIMON = "paimon"
_GENERIC = "paimon-generic"
_GENERIC_CLASS = "paimon.spark.GenericCatalog"
_SESSION_CATALOG = "spark_catalog"
_CONNECTOR = "connector"


def _strings(*names: str) -> list[Json]:
    return [{"name": name, "type": "string", "nullable": True, "metadata": {}} for name in names]


_COLUMNS: Mapping[type, list[Json]] = {
    flink.SetKey: _strings("key", "value"),
    flink.ShowJobs: _strings("job id", "job name", "status", "last batch"),
    flink.StatementSet: _strings("job id"),
    flink.StopJob: _strings("job id", "tag"),
}


def claim_statement(request: Request) -> Json:
    """Return whether a statement is a supported one of Flink's, and its result columns; nothing is run.

    Raises:
        PaimonError: it is one, and it is invalid.
    """
    text = request.args["text"]
    try:
        statement = parse_statement(text)
    except SqlSyntaxError:
        if belongs_to_flink(text):
            raise
        return {"claimed": False}
    if statement is None or not _is_ours(request, statement):
        return {"claimed": False}
    return {"claimed": True, "schema": {"type": "struct", "fields": _COLUMNS.get(type(statement), [])}}


def _is_ours(request: Request, statement: flink.Statement) -> bool:
    """Return whether the table of a statement is in a Paimon catalog; statements without a table are ours."""
    if isinstance(statement, flink.CreateTable):
        provider = (statement.provider or _PAIMON).lower()
        return provider == _PAIMON and (statement.temporary or _located(request, statement.name) is not None)
    if isinstance(statement, flink.SetTableOptions | flink.AlterColumns):
        return _located(request, statement.name) is not None
    return True


def _located(request: Request, name: flink.Name) -> tuple[CatalogInfo, Identifier] | None:
    """Return the Paimon catalog and the identifier of a table's name; None if the catalog is not a Paimon catalog."""
    args = request.args
    known: Mapping[str, dict[str, str]] = args["catalogs"]
    catalog, database, table = args["current_catalog"], args["current_database"], name[-1]
    if len(name) == 2:
        database = name[0]
    elif len(name) == 3:
        catalog, database = name[0], name[1]
    elif len(name) != 1:
        return None
    found = next((c for c in known if c.lower() == catalog.lower()), None)
    if found is None:
        return None
    info = CatalogInfo(found, known[found])
    return info, Identifier.of((database or catalog_of(info).default_database, table))


def run_statement(request: Request) -> Json:
    """Run a statement that was recognized as Flink's.

    Returns:
        What the JVM does in the session: `set`, `unset` and `show` keys, `use` or `forget` a catalog, `warn` the
        user, run the `query` behind a CREATE TABLE; and the `rows` of the result.
    """
    statement = parse_statement(request.args["text"])
    if statement is None:
        raise SqlSyntaxError("The statement is not one of Flink's.")
    return _RUNNERS[type(statement)](request, statement)


def _create_catalog(request: Request, statement: flink.CreateCatalog) -> Json:
    name, options = statement.name, dict(statement.options)
    kind = options.pop("type", None)
    if kind == _GENERIC:
        return _create_generic(request, statement, options)
    if name.lower() in {c.lower() for c in _catalogs(request)}:
        if statement.if_not_exists:
            return {}
        raise _catalog_exists(name)
    if kind != _PAIMON:
        raise OptionError(
            f"A catalog of the type '{kind}' cannot be created." if kind else "The catalog has no option 'type'.",
            hint="Set 'type' = 'paimon', or 'type' = 'paimon-generic' for the catalog spark_catalog.",
        )
    catalog_of(CatalogInfo(name, options))
    created = {f"{_CATALOG}{name}": _CLASS, **{f"{_CATALOG}{name}.{k}": v for k, v in options.items()}}
    return {"set": created, **_comment_warning(statement)}


def _comment_warning(statement: flink.CreateCatalog) -> Json:
    if statement.comment is None:
        return {}
    return {"warn": f"The comment of the catalog '{statement.name}' is not kept: catalogs of Spark have none."}


def _catalog_exists(name: str) -> UsageError:
    return UsageError(
        f"The catalog '{name}' exists already.",
        hint="Write CREATE CATALOG IF NOT EXISTS, or drop it first.",
        kind=ErrorKind.INVALID_ARGUMENT,
    )


def _create_generic(request: Request, statement: flink.CreateCatalog, options: Mapping[str, str]) -> Json:
    """Replace the session catalog of Spark by one that also holds Paimon tables."""
    if statement.name.lower() != _SESSION_CATALOG:
        raise OptionError(
            f"The catalog '{statement.name}' cannot have the type '{_GENERIC}': only the catalog {_SESSION_CATALOG} "
            "holds tables of Spark.",
            hint=f"Write CREATE CATALOG {_SESSION_CATALOG} WITH ('type' = '{_GENERIC}').",
        )
    key, present = f"{_CATALOG}{_SESSION_CATALOG}", request.args["session_catalog"]
    if present not in (None, "builtin"):
        if statement.if_not_exists and present == _GENERIC_CLASS:
            return {}
        raise UsageError(
            f"The catalog '{_SESSION_CATALOG}' is {present} already.",
            hint="Write CREATE CATALOG IF NOT EXISTS."
            if present == _GENERIC_CLASS
            else f"Leave it out, or start Spark without {key}.",
            kind=ErrorKind.INVALID_ARGUMENT,
        )
    catalog_of(CatalogInfo(_SESSION_CATALOG, {"warehouse": "/", **options}))
    created = {key: _GENERIC_CLASS, **{f"{key}.{k}": v for k, v in options.items()}}
    return {"set": created, "forget": _SESSION_CATALOG, **_comment_warning(statement)}


def _catalogs(request: Request) -> list[str]:
    confs = {k.removeprefix(_CATALOG) for k in request.args["catalog_settings"]}
    return sorted({*request.args["catalogs"], *(c for c in confs if "." not in c), "spark_catalog"})


def _named_catalog(request: Request, name: str) -> str | None:
    return next((c for c in _catalogs(request) if c.lower() == name.lower()), None)


def _unknown_catalog(request: Request, name: str) -> NotFoundError:
    return NotFoundError(
        f"There is no catalog '{name}'.",
        hint=suggestion(name, _catalogs(request)),
        kind=ErrorKind.INVALID_ARGUMENT,
    )


def _drop_catalog(request: Request, statement: flink.DropCatalog) -> Json:
    name = _named_catalog(request, statement.name)
    if name is None and statement.if_exists:
        return {}
    if name is None:
        raise _unknown_catalog(request, statement.name)
    if name == request.args["current_catalog"]:
        raise UsageError(
            f"The catalog '{name}' is the current one.",
            hint="USE another catalog first.",
            kind=ErrorKind.INVALID_ARGUMENT,
        )
    if name not in request.args["catalogs"] or name == "spark_catalog":
        raise UnsupportedError(f"The catalog '{name}' cannot be dropped.", hint="Only Paimon catalogs can be.")
    prefix = f"{_CATALOG}{name}"
    settings = request.args["catalog_settings"]
    return {"forget": name, "unset": [k for k in settings if k == prefix or k.startswith(prefix + ".")]}


def _use_catalog(request: Request, statement: flink.UseCatalog) -> Json:
    name = _named_catalog(request, statement.name)
    if name is None:
        raise _unknown_catalog(request, statement.name)
    return {"use": name}


def _set_key(request: Request, statement: flink.SetKey) -> Json:
    del request
    if statement.value is None:
        return {"show": statement.key}
    found = setting(statement.key, statement.value)
    if found.key != statement.key:
        check_setting(found.key, statement.value)
    answer: Json = {"set": {found.key: statement.value}, "rows": [[statement.key, statement.value]]}
    return answer | ({"warn": found.warning} if found.warning else {})


def _reset_key(request: Request, statement: flink.ResetKey) -> Json:
    del request
    return {"unset": [statement.key, f"spark.paimon.{statement.key}"]}


def _create_table(request: Request, statement: flink.CreateTable) -> Json:
    options = dict(statement.options)
    connector = options.pop(_CONNECTOR, None)
    if statement.temporary:
        return _create_temporary(request, statement, connector, options)
    if connector not in (None, _PAIMON):
        raise UnsupportedError(
            f"A table of the connector '{connector}' cannot be stored in a catalog.",
            hint="Write CREATE TEMPORARY TABLE for a connector, or leave 'connector' out for a Paimon table.",
        )
    info, identifier = _of_paimon(request, statement.name)
    if info.name == "spark_catalog" and connector is None and statement.provider is None:
        raise OptionError(
            f"The table '{identifier.full_name}' needs the option 'connector' in a catalog of all kinds of tables.",
            hint="Write WITH ('connector' = 'paimon', …), or USING paimon.",
        )
    catalog = catalog_of(info)
    if statement.if_not_exists and catalog.table_exists(identifier):
        return {}
    if statement.primary_key:
        options[evolution.PRIMARY_KEY] = ",".join(statement.primary_key)
    schema = evolution.new_schema(
        statement.fields or _columns_of_query(request, statement.query),
        partition_keys=statement.partition_keys,
        options=options,
        comment=statement.comment,
        now_millis=time.time_ns() // 1_000_000,
    )
    catalog.create_table(identifier, schema)
    return {"query": [info.name, identifier.database, identifier.table, statement.query]} if statement.query else {}


def _columns_of_query(request: Request, query: str | None) -> tuple[DataField, ...]:
    if query is None:
        return ()
    session = session_for(request.envelope.session, request.jsession)
    # A subquery, because another statement would be executed.
    rows = session.sql(f"SELECT * FROM (\n{query}\n)")  # noqa: S608 - the text of the user
    return tuple(map(field_from_spark, rows.schema.toNullable().jsonValue()["fields"]))


def _create_temporary(request: Request, statement: flink.CreateTable, connector: str | None, options: Any) -> Json:
    if len(statement.name) != 1:
        raise ArgumentError(
            f"The temporary table '{'.'.join(statement.name)}' cannot be in a catalog or database.",
            hint=f"Name it '{statement.name[-1]}'.",
        )
    if connector is None:
        raise OptionError(
            f"The temporary table '{statement.name[0]}' has no option 'connector'.",
            hint="Write WITH ('connector' = 'datagen'), or CREATE TEMPORARY VIEW for a query.",
        )
    session = session_for(request.envelope.session, request.jsession)
    key, value = create_connector(session, statement, connector, options)
    return {"set": {key: value}}


def _drop_temporary(request: Request, statement: flink.DropTemporaryTable) -> Json:
    session = session_for(request.envelope.session, request.jsession)
    if not session.catalog.dropTempView(statement.name) and not statement.if_exists:
        raise NotFoundError(f"There is no temporary table '{statement.name}'.", kind=ErrorKind.TABLE_NOT_FOUND)
    return {"unset": [f"{TABLE}{statement.name.lower()}"]}


def _of_paimon(request: Request, name: flink.Name) -> tuple[CatalogInfo, Identifier]:
    found = _located(request, name)
    if found is None:
        raise NotFoundError(f"'{'.'.join(name)}' is not in a Paimon catalog.", kind=ErrorKind.TABLE_NOT_FOUND)
    return found


def _set_table_options(request: Request, statement: flink.SetTableOptions) -> Json:
    changes: list[evolution.SchemaChange] = [evolution.SetOption(k, v) for k, v in statement.options.items()]
    changes += [evolution.RemoveOption(key) for key in statement.removed]
    return _alter(request, statement, changes)


def _show_jobs(request: Request, statement: flink.ShowJobs) -> Json:
    del request, statement
    return {"jobs": True}


def _stop_job(request: Request, statement: flink.StopJob) -> Json:
    del request
    return {"stop": statement.job, "savepoint": statement.savepoint}


def _statement_set(request: Request, statement: flink.StatementSet) -> Json:
    del request
    return {"statements": list(statement.statements)}


def duration_millis(request: Request) -> Json:
    """Return the milliseconds of a duration."""
    return {"millis": parse_duration_ms(request.args["text"])}


def tag_savepoint(request: Request) -> Json:
    """Tag the last snapshot of a job that has ended, if an option of its table is set; return the name of the tag."""
    token = newest_token(request.envelope, request.args["table"])
    table = load_to_change(request.envelope, token)
    return {"tag": stream_sink.tag_savepoint(table, request.args["query"], time.time_ns() // 1_000_000)}


def latest_snapshot(request: Request) -> Json:
    """Return a text that is another one as soon as a query of a table may have other rows."""
    token = request.args["table"]
    if is_rows(token):  # some change without a snapshot
        return {"snapshot": str(time.time_ns())}
    table = load_token(request.envelope, TableToken.of(token))
    newest = [t.snapshots.latest() for t in read_branches(table)]
    return {"snapshot": " ".join("" if s is None else s.delta_manifest_list for s in newest)}


def _alter_columns(request: Request, statement: flink.AlterColumns) -> Json:
    return _alter(request, statement, list(statement.changes))


def _alter(
    request: Request, statement: flink.SetTableOptions | flink.AlterColumns, changes: list[evolution.SchemaChange]
) -> Json:
    info, identifier = _of_paimon(request, statement.name)
    catalog: Catalog = catalog_of(info)
    if statement.if_exists and not catalog.table_exists(identifier):
        return {}
    catalog.alter_table(identifier, changes)
    return {"changed": [sql_path(info.name, identifier.database, identifier.object_name)]}


_RUNNERS: Mapping[type, Callable[[Request, Any], Json]] = {
    flink.CreateCatalog: _create_catalog,
    flink.DropCatalog: _drop_catalog,
    flink.UseCatalog: _use_catalog,
    flink.CreateTable: _create_table,
    flink.DropTemporaryTable: _drop_temporary,
    flink.SetTableOptions: _set_table_options,
    flink.AlterColumns: _alter_columns,
    flink.SetKey: _set_key,
    flink.ResetKey: _reset_key,
    flink.ShowJobs: _show_jobs,
    flink.StopJob: _stop_job,
    flink.StatementSet: _statement_set,
}

HANDLERS = {h.__name__: h for h in (claim_statement, run_statement, duration_millis, latest_snapshot, tag_savepoint)}
