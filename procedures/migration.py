"""Procedures that migrate tables of Spark's own catalog: migrate_table, migrate_database and migrate_file."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.parameters import RESULT
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Column, Param, ParamType, procedure
from paimon_spark.calls.report import DONE, FAILED, NOTHING_TO_DO, Report
from paimon_spark.core.maintenance.deletion import WARN, Action
from paimon_spark.core.table import Table
from paimon_spark.engine.migrate import (
    MigratePlan,
    MigrateResult,
    drop_migrated,
    execute_migrate,
    inspect_files,
    migrated_schema,
    plan_migrate,
)
from paimon_spark.errors import ArgumentError, NotFoundError, OutcomeUnknownError, PaimonError, StatementCancelledError
from paimon_spark.fs.resolve import file_io_for
from paimon_spark.spec.identifier import Identifier, split_name
from paimon_spark.spec.quoted_text import quoted_name
from paimon_spark.sqlparse.options_text import parse_options

_TYPE = Param(
    "source_type",
    ParamType.STRING,
    "`hive`: a table of Spark's own catalog, `spark_catalog`, in a Hive metastore or in memory.",
    required=True,
    aliases=("connector",),
)
_OPTIONS = Param("options", ParamType.STRING, "Options of the new table: `key=value,key=value`.")
_OPTIONS_MAP = Param("options_map", ParamType.MAP, "Options of the new table, as a map.")
_DELETES_ORIGIN = Param(
    "delete_origin", ParamType.BOOLEAN, "Drop the table once its files are migrated.", default="true"
)
_PARALLELISM = Param(
    "parallelism", ParamType.INT, "Number of tasks that link or copy files.", default="one per 32 files"
)
_TARGET_DOC = "The table that the files are added to; it is created if it does not exist."


@dataclass(frozen=True, slots=True)
class _Migration:
    """A table to migrate; `created` is true if the CALL creates the target."""

    name: str
    identifier: Identifier
    plan: MigratePlan
    parallelism: int | None = None


def _check_type(args: Arguments) -> None:
    given = args.text("source_type")
    if given.strip().lower() != "hive":
        raise ArgumentError(
            f"source_type is '{given}'; the only choice is hive.",
            hint="Tables of other kinds are migrated with CREATE TABLE … AS SELECT.",
        )


def _parallelism(args: Arguments) -> int | None:
    parallelism = args.integer("parallelism")
    if parallelism is not None and parallelism < 1:
        raise ArgumentError(f"parallelism is {parallelism}.", hint="Give 1 or more.")
    return parallelism


def _options(args: Arguments) -> dict[str, str]:
    """Return the options of both arguments; those of the map take precedence."""
    mapped = args.values.get("options_map") or {}
    return {**parse_options(args.optional_text("options") or "", "options"), **mapped}


def _planned(
    ctx: CallContext,
    name: str,
    identifier: Identifier,
    options: dict[str, str],
    *,
    drops: bool,
    parallelism: int | None,
    must_exist: bool = False,
) -> _Migration:
    """Plan the migration of one table."""
    source = ctx.spark_jobs("sys.migrate_table").describe_source(name)
    source_io = file_io_for(source.location, ctx.catalog.options)
    exists = ctx.catalog.table_exists(identifier)
    if must_exist and not exists:
        raise NotFoundError(
            f"Table {identifier.full_name} does not exist.", hint="sys.migrate_table creates its target."
        )
    if exists and options:
        raise ArgumentError(
            f"Options are given, but table {identifier.full_name} exists.", hint="Set them with ALTER TABLE."
        )
    if exists:
        target = ctx.catalog.load_table(identifier)
    else:
        schema = migrated_schema(source, options, ctx.clock_millis())
        target = Table.of(identifier, ctx.catalog.table_path(identifier), schema, source_io)
    plan = plan_migrate(source, source_io, target, exists=exists, drops=drops)
    return _Migration(name, identifier, plan, parallelism)


def _executed(ctx: CallContext, work: _Migration) -> MigrateResult:
    """Check the files, create the target, add them, and drop the source."""
    plan, catalog, jobs = work.plan, ctx.catalog, ctx.spark_jobs("sys.migrate_table")
    rows = inspect_files(plan, ctx.runner, work.parallelism)
    if not plan.exists:
        if not catalog.database_exists(work.identifier.database):
            catalog.create_database(work.identifier.database, ignore_if_exists=True)
        catalog.create_table(work.identifier, plan.target.schema)
    target = catalog.load_table(work.identifier)
    try:
        done = execute_migrate(plan, target, ctx.runner, work.parallelism, rows)
    except OutcomeUnknownError:
        raise
    except BaseException:
        if not plan.exists and target.snapshots.latest_id() is None:
            catalog.drop_table(work.identifier, ignore_if_not_exists=True)
        raise
    if plan.drops:
        drop_migrated(plan, jobs, work.name)
    return done


def _report(work: _Migration, done: MigrateResult, before: int | None) -> Report:
    return Report(
        result_rows=[(True,)],
        status=DONE if work.plan.actions else NOTHING_TO_DO,
        snapshot_before=before,
        snapshot_after=done.snapshot_id or before,
        files_in=done.files,
        files_out=done.files,
        bytes_in=done.bytes,
        bytes_out=done.bytes,
        rows=done.rows,
        changed_tables=(work.identifier.full_name,) if work.plan.actions else (),
    )


def _run(ctx: CallContext, work: _Migration) -> Report:
    before = work.plan.target.snapshots.latest_id() if work.plan.exists else None
    return _report(work, _executed(ctx, work), before)


@procedure(
    name="migrate_table",
    summary="Make a table of Parquet or ORC files in Spark's own catalog a Paimon table, without rewriting its files.",
    params=(
        _TYPE,
        Param("table", ParamType.STRING, "The table to migrate: `db.t`.", required=True, aliases=("source_table",)),
        Param("target_table", ParamType.STRING, _TARGET_DOC, default="the same name in the catalog of the CALL"),
        _OPTIONS,
        _PARALLELISM,
        _DELETES_ORIGIN,
        _OPTIONS_MAP,
    ),
    columns=(RESULT,),
    example="CALL sys.migrate_table('hive', 'default.T');",
)
class MigrateTable:
    """Add the files of a table to an append table without buckets, in one APPEND snapshot.

    On a local file system, the files are hard-linked; otherwise, they are copied. The table stays as it is until the
    commit; then it is dropped, unless `delete_origin` is false. No job may write to it meanwhile. A CALL that was
    interrupted can be repeated: files that the target has already are skipped, unless a compaction of the target has
    replaced them. The files get no statistics in the manifests, so queries of single values open all files of a
    partition until these are rewritten. All files are checked first. Refused are files with columns of other names or
    types than the table's, such as INT64 for INT; ORC files of Spark with timestamps, which are stored as integers or
    depend on the time zone of their writer; and Parquet files that Spark wrote for the hybrid Julian and Gregorian
    calendar. A file counts as migrated if the target has one of the same former path and size.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Migration]:
        """List the files."""
        _check_type(args)
        name = args.text("table")
        target = args.optional_text("target_table") or ".".join(map(quoted_name, split_name(name)[-2:]))
        work = _planned(
            ctx,
            name,
            ctx.identifier(target, "target_table"),
            _options(args),
            drops=args.flag("delete_origin", default=True),
            parallelism=_parallelism(args),
        )
        return Plan(work.plan.actions, work)

    def execute(self, ctx: CallContext, plan: Plan[_Migration]) -> Report:
        """Add them to the target, and drop the source."""
        return _run(ctx, plan.payload)


@procedure(
    name="migrate_file",
    summary="Add the files of a table in Spark's own catalog to a Paimon table that exists.",
    params=(
        _TYPE,
        Param("source_table", ParamType.STRING, "The table to migrate: `db.t`.", required=True, aliases=("table",)),
        Param("target_table", ParamType.STRING, "The table that the files are added to.", required=True),
        _DELETES_ORIGIN,
        _PARALLELISM,
    ),
    columns=(RESULT,),
    example="CALL sys.migrate_file('hive', 'default.T', 'default.P');",
)
class MigrateFile:
    """Add the files of a table to an append table without buckets that has its columns, as `migrate_table` does."""

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Migration]:
        """List the files."""
        _check_type(args)
        work = _planned(
            ctx,
            args.text("source_table"),
            ctx.identifier(args.text("target_table"), "target_table"),
            {},
            drops=args.flag("delete_origin", default=True),
            parallelism=_parallelism(args),
            must_exist=True,
        )
        return Plan(work.plan.actions, work)

    def execute(self, ctx: CallContext, plan: Plan[_Migration]) -> Report:
        """Add them to the target, and drop the source."""
        return _run(ctx, plan.payload)


@dataclass(frozen=True, slots=True)
class _Database:
    """The tables to migrate, and those that cannot be, with the reason."""

    tables: tuple[_Migration, ...]
    failures: tuple[tuple[str, str], ...]


@procedure(
    name="migrate_database",
    summary="Migrate all tables of a database of Spark's own catalog.",
    params=(
        _TYPE,
        Param("database", ParamType.STRING, "The database to migrate.", required=True, aliases=("source_database",)),
        Param("options", ParamType.STRING, "Options of the new tables: `key=value,key=value`."),
        _PARALLELISM,
        Param("options_map", ParamType.MAP, "Options of the new tables, as a map."),
    ),
    columns=(
        Column("result", "string", "a sentence with the numbers of migrated and of failed tables"),
        Column("table", "string", "a table; null in the first row"),
        Column("error", "string", "why it was not migrated; null if it was"),
    ),
    example="CALL sys.migrate_database('hive', 'default');",
)
class MigrateDatabase:
    """Migrate every table of a database as `migrate_table` does, and drop it; tables that cannot be migrated stay.

    The tables get the same names in the catalog of the CALL.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Database]:
        """List the tables and their files."""
        _check_type(args)
        jobs, database, options = ctx.spark_jobs("sys.migrate_database"), args.text("database"), _options(args)
        parallelism, found, failures = _parallelism(args), [], []
        for table in jobs.list_sources(database):
            name = f"{quoted_name(database)}.{quoted_name(table)}"
            try:
                identifier = Identifier.of((database, table))
                found.append(_planned(ctx, name, identifier, options, drops=True, parallelism=parallelism))
            except StatementCancelledError:
                raise
            except PaimonError as e:
                failures.append((f"{database}.{table}", str(e)))
        warnings = (Action(WARN, name, 0, error) for name, error in failures)
        actions = (*warnings, *(a for work in found for a in work.plan.actions))
        return Plan(actions, _Database(tuple(found), tuple(failures)))

    def execute(self, ctx: CallContext, plan: Plan[_Database]) -> Report:
        """Migrate one table after the other."""
        work = plan.payload
        failures, done = dict(work.failures), dict[str, MigrateResult]()
        for table in work.tables:
            name = table.identifier.full_name
            try:
                done[name] = _executed(ctx, table)
            except StatementCancelledError:
                raise
            except PaimonError as e:
                failures[name] = str(e)
        sentence = f"migrated {len(done)} tables; {len(failures)} failed"
        return Report(
            result_rows=[
                (sentence, None, None),
                *((sentence, name, failures.get(name)) for name in sorted({*done, *failures})),
            ],
            status=FAILED if failures else DONE if done else NOTHING_TO_DO,
            files_in=sum(d.files for d in done.values()),
            files_out=sum(d.files for d in done.values()),
            bytes_in=sum(d.bytes for d in done.values()),
            bytes_out=sum(d.bytes for d in done.values()),
            rows=sum(d.rows for d in done.values()),
            changed_tables=tuple(done),
        )
