"""Procedures that copy tables: copy, clone and copy_files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext, TableSource
from paimon_spark.calls.parameters import RESULT, SUCCESS
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Column, Param, ParamType, procedure
from paimon_spark.calls.report import DONE, NOTHING_TO_DO, STATUS, Report
from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.core.maintenance.deletion import WRITE, Action
from paimon_spark.core.table import Table
from paimon_spark.engine.clone import ClonePlan, CloneResult, execute_clone, plan_clone, publish_schemas
from paimon_spark.errors import ArgumentError, NotFoundError, UnsupportedError, did_you_mean
from paimon_spark.spec.identifier import Identifier, split_name
from paimon_spark.spec.paths import MAIN_BRANCH
from paimon_spark.spec.privileges import Privilege
from paimon_spark.sqlparse.options_text import parse_options
from paimon_spark.sqlparse.where import parse_where

_SUCCESS = "Success"
_WHERE = Param("where", ParamType.STRING, "Copy only partitions that match this condition over partition columns.")
_DATABASE = Param("database", ParamType.STRING, "The database to copy.", default="all databases")
_TABLE = Param("table", ParamType.STRING, "The table to copy.", default="all tables of the database")
_TARGET_DATABASE = Param("target_database", ParamType.STRING, "The database of the copies.", default="the same name")
_TARGET_TABLE = Param("target_table", ParamType.STRING, "The copy.", default="the same name")
_PARALLELISM = Param("parallelism", ParamType.INT, "Number of tasks that copy files.", default="one per 256 MB")
_SOURCES = ("hive", "paimon")
_MISSPELT = 0.8
"""How similar the name of a new database is to a misspelt one: `shop_backup` is no misspelt `shop`."""
_STATUS = f"{STATUS}. New databases are named: `{DONE}: the database archive is created`"


@dataclass(frozen=True, slots=True)
class _Work:
    """One table to copy, and the catalog of its copy."""

    catalog: TableSource
    identifier: Identifier
    plan: ClonePlan


@dataclass(frozen=True, slots=True)
class _Works:
    """The tables to copy, and what the report states about new databases."""

    tables: tuple[_Work, ...]
    parallelism: int | None = None
    databases: tuple[str, ...] = ()


def _planned(
    source: Table, catalog: TableSource, identifier: Identifier, where: str | None, ctx: CallContext, *, meta: bool
) -> _Work:
    """Plan one copy."""
    exists = catalog.table_exists(identifier)
    if exists:
        target = catalog.load_table(identifier)
    else:
        path = catalog.table_path(identifier).rstrip("/")
        target = replace(source, identifier=identifier, path=path, branch=MAIN_BRANCH)
    condition = None if where is None else parse_where(where, source.schema, zone=ctx.zone)
    return _Work(catalog, identifier, plan_clone(source, target, exists=exists, where=condition, only_schemas=meta))


def _executed(work: _Work, ctx: CallContext, parallelism: int | None) -> CloneResult:
    """Create the target if it does not exist, and copy."""
    plan = work.plan
    if not plan.exists:
        if not work.catalog.database_exists(work.identifier.database):
            work.catalog.create_database(work.identifier.database, ignore_if_exists=True)
        work.catalog.create_table(work.identifier, plan.schemas[0], ignore_if_exists=True)
    publish_schemas(plan, work.catalog.load_table(work.identifier))
    return execute_clone(plan, work.catalog.load_table(work.identifier), ctx.runner, parallelism)


def _plan_of(tables: tuple[_Work, ...], parallelism: int | None = None) -> Plan[_Works]:
    if parallelism is not None and parallelism < 1:
        raise ArgumentError(f"parallelism is {parallelism}.", hint="Give 1 or more.")
    actions = tuple(a for t in tables for a in t.plan.actions)
    databases = tuple(_new_databases(tables))
    return Plan((*databases, *actions), _Works(tables, parallelism, tuple(a.reason for a in databases)))


def _new_databases(tables: tuple[_Work, ...]) -> Iterator[Action]:
    """Yield the databases that are created for the copies, each with a similar one that exists."""
    named = {(t.catalog.table_path(t.identifier).rpartition("/")[0], t.identifier.database): t for t in tables}
    for (path, database), work in named.items():
        if not work.catalog.database_exists(database):
            near = did_you_mean(database, work.catalog.list_databases(), cutoff=_MISSPELT)
            yield Action(WRITE, path, 0, f"the database {database} is created{'. ' * bool(near)}{near}")


def _report(ctx: CallContext, plan: Plan[_Works], rows: list[tuple[object, ...]]) -> Report:
    works = plan.payload
    one = works.tables[0].plan if len(works.tables) == 1 else None
    before = one.target.snapshots.latest_id() if one is not None and one.exists else None
    done = [_executed(work, ctx, works.parallelism) for work in works.tables]
    return Report(
        result_rows=rows,
        status=NOTHING_TO_DO if not plan.actions else ": ".join([DONE, *works.databases]),
        snapshot_before=before,
        snapshot_after=(done[0].snapshot_id or before) if one is not None else None,
        files_out=sum(d.files for d in done),
        bytes_out=sum(d.bytes for d in done),
        rows=sum(d.rows for d in done),
        changed_tables=tuple(w.identifier.full_name for w in works.tables if w.catalog is ctx.catalog),
    )


@procedure(
    name="copy",
    summary="Copy the files of a table into another one.",
    params=(
        Param("source_table", ParamType.STRING, "The table to copy: `t`, `db.t` or `catalog.db.t`.", required=True),
        Param("target_table", ParamType.STRING, "The copy; it is created if it does not exist.", required=True),
        _WHERE,
    ),
    columns=(RESULT,),
    example="CALL sys.copy(source_table => 'default.T', target_table => 'archive.T', where => \"dt = '2024-05-14'\");",
)
class Copy:
    """Copy the schemas, and the data files of the latest snapshot, without decoding them, in one OVERWRITE snapshot.

    Partitions that the source has are replaced in the target; a CALL that was interrupted can be repeated. A target
    that exists must have the same keys, buckets, schemas and options of merging as the source. History, tags, branches
    and consumers are not copied. Tables with row tracking or `sequence.snapshot-ordering` are refused, and tables with
    postponed buckets until they are compacted.
    """

    requires = Privilege.SELECT
    status = _STATUS

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Works]:
        """List the files."""
        source = ctx.table(args.text("source_table"), parameter="source_table")
        target = ctx.identifier(args.text("target_table"), "target_table")
        return _plan_of((_planned(source, ctx.catalog, target, args.optional_text("where"), ctx, meta=False),))

    def execute(self, ctx: CallContext, plan: Plan[_Works]) -> Report:
        """Copy them and commit."""
        return _report(ctx, plan, [(True,)])


@dataclass(frozen=True, slots=True)
class _Scope:
    """What a clone copies, and where to: absent names mean all of the source, and the same names in the target."""

    source: TableSource
    target: TableSource
    database: str | None
    table: str | None
    target_database: str | None
    target_table: str | None
    included: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()

    def check(self) -> None:
        """Reject names that do not fit together."""
        for name, needed, given, missing in (
            ("table", "database", self.table, self.database),
            ("target_table", "table", self.target_table, self.table),
            ("target_database", "database", self.target_database, self.database),
        ):
            if given is not None and missing is None:
                raise ArgumentError(f"{name} is given without {needed}.", hint=f"Give {needed} too.")
        if self.table is not None and (self.included or self.excluded):
            raise ArgumentError(
                "included_tables and excluded_tables are given together with table.", hint="Leave them out."
            )

    def pairs(self) -> Iterator[tuple[Identifier, Identifier]]:
        """Yield the tables, each with its copy."""
        if self.table is not None and self.database is not None:
            sources = [(self.database, self.table)]
        else:
            databases = self.source.list_databases() if self.database is None else [self.database]
            sources = self._chosen([(d, name) for d in databases for name in self.source.list_tables(d)])
        for database, name in sources:
            yield (
                Identifier.of((database, name)),
                Identifier.of((self.target_database or database, self.target_table or name)),
            )

    def _chosen(self, tables: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the tables that are included and not excluded; a listed table that does not exist is an error."""
        known = {f"{database}.{name}": (database, name) for database, name in tables}
        for parameter, listed in (("included_tables", self.included), ("excluded_tables", self.excluded)):
            for name in sorted(listed - known.keys()):
                raise NotFoundError(
                    f"{parameter} names '{name}', which is not among the tables of the source.",
                    hint=did_you_mean(name, known) or "Check the name, or leave it out.",
                )
        return [t for name, t in known.items() if name in (self.included or known) and name not in self.excluded]


def _names(text: str | None, parameter: str, database: str | None) -> frozenset[str]:
    """Return the tables of a list such as ``db.t,db.u``; the database may be left out if only one is copied."""
    found = set()
    for item in (text or "").split(","):
        if not item.strip():
            continue
        parts = split_name(item.strip())
        if len(parts) == 1 and database is not None:
            parts = [database, *parts]
        if len(parts) != 2:
            raise ArgumentError(f"{parameter} names '{item.strip()}', which is not a table.", hint="Write db.table.")
        found.add(".".join(parts))
    return frozenset(found)


def _catalog(ctx: CallContext, conf: str | None, parameter: str) -> TableSource:
    """Return the catalog of some options; that of the CALL without any."""
    options = parse_options(conf or "", parameter)
    return open_catalog(options) if options else ctx.catalog


def _all(ctx: CallContext, scope: _Scope, where: str | None, *, meta: bool, overwrite: bool) -> tuple[_Work, ...]:
    """Plan the copies of all tables in scope."""
    scope.check()
    if where is not None and scope.table is None:
        raise ArgumentError("where is given without table.", hint="Give the table whose partitions are chosen.")
    works = []
    for name, copy in scope.pairs():
        if not overwrite and scope.target.table_exists(copy):
            continue
        own = scope.source is ctx.catalog
        source = ctx.load(name) if own else scope.source.load_table(name).in_zone(ctx.zone)
        works.append(_planned(source, scope.target, copy, where, ctx, meta=meta))
    return tuple(works)


_RESULT = (
    SUCCESS,
    Column("source", "string", "a table that was copied"),
    Column("target", "string", "its copy"),
)


def _cloned(ctx: CallContext, plan: Plan[_Works]) -> Report:
    pairs = [(_SUCCESS, w.plan.source.name, w.identifier.full_name) for w in plan.payload.tables]
    return _report(ctx, plan, list(pairs) or [(_SUCCESS, None, None)])


@procedure(
    name="clone",
    summary="Copy a table, a database or a whole warehouse.",
    params=(
        _DATABASE,
        _TABLE,
        Param(
            "catalog_conf",
            ParamType.STRING,
            "Options of the source's catalog, as in `warehouse=/data/wh`.",
            default="the catalog of the CALL",
        ),
        _TARGET_DATABASE,
        _TARGET_TABLE,
        Param(
            "target_catalog_conf",
            ParamType.STRING,
            "Options of the target's catalog, as in `warehouse=s3://bucket/wh`.",
            default="the catalog of the CALL",
        ),
        _PARALLELISM,
        _WHERE,
        Param("included_tables", ParamType.STRING, "Copy only these tables: `db.t,db.u`."),
        Param("excluded_tables", ParamType.STRING, "Do not copy these tables: `db.t,db.u`."),
        Param("prefer_file_format", ParamType.STRING, "Not supported: files are copied as they are."),
        Param(
            "clone_from",
            ParamType.STRING,
            "`paimon`, the only source that is supported, must be given.",
            default="hive",
        ),
        Param("meta_only", ParamType.BOOLEAN, "Copy the schemas without rows.", default="false"),
        Param(
            "clone_if_exists",
            ParamType.BOOLEAN,
            "Copy into tables that exist, too; `false` skips them.",
            default="true",
        ),
    ),
    columns=_RESULT,
    example="CALL sys.clone(database => 'default', target_database => 'backup', clone_from => 'paimon');",
)
class Clone:
    """Copy the schemas, and the data files of the latest snapshot, of one or many tables, each as `copy` does.

    All tables are checked before the first is copied. If the CALL is interrupted, the tables before have been copied;
    it can be repeated. Databases of the target are created. Views are not copied.
    """

    requires = Privilege.SELECT
    status = _STATUS

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Works]:
        """List the tables and their files."""
        kind = args.choice("clone_from", _SOURCES, _SOURCES[0])
        if kind != "paimon" or args.optional_text("prefer_file_format") is not None:
            what = "prefer_file_format" if kind == "paimon" else "clone_from => 'hive', which is Paimon's default,"
            raise UnsupportedError(
                f"{what} is not supported by sys.clone: files of Paimon tables are copied as they are.",
                hint="Give clone_from => 'paimon'. For tables of other catalogs, use CREATE TABLE … AS SELECT.",
            )
        database = args.optional_text("database")
        scope = _Scope(
            _catalog(ctx, args.optional_text("catalog_conf"), "catalog_conf"),
            _catalog(ctx, args.optional_text("target_catalog_conf"), "target_catalog_conf"),
            database,
            args.optional_text("table"),
            args.optional_text("target_database"),
            args.optional_text("target_table"),
            _names(args.optional_text("included_tables"), "included_tables", database),
            _names(args.optional_text("excluded_tables"), "excluded_tables", database),
        )
        overwrite = args.flag("clone_if_exists", default=True)
        works = _all(ctx, scope, args.optional_text("where"), meta=args.flag("meta_only"), overwrite=overwrite)
        return _plan_of(works, args.integer("parallelism"))

    def execute(self, ctx: CallContext, plan: Plan[_Works]) -> Report:
        """Copy one table after the other."""
        return _cloned(ctx, plan)


@procedure(
    name="copy_files",
    summary="Copy a table, a database or a whole warehouse into another warehouse.",
    params=(
        Param("warehouse", ParamType.STRING, "The warehouse to copy from.", default="that of the CALL's catalog"),
        _DATABASE,
        _TABLE,
        Param("catalog_conf", ParamType.STRING, "Further options of the source's catalog."),
        Param("target_warehouse", ParamType.STRING, "The warehouse to copy into.", required=True),
        _TARGET_DATABASE,
        _TARGET_TABLE,
        Param("target_catalog_conf", ParamType.STRING, "Further options of the target's catalog."),
        _PARALLELISM,
    ),
    columns=_RESULT,
    example="CALL sys.copy_files(database => 'default', target_warehouse => 's3://bucket/wh');",
)
class CopyFiles:
    """Copy tables into another warehouse, as `clone` does. Paimon deprecates this procedure in favour of `clone`."""

    requires = Privilege.SELECT
    status = _STATUS

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Works]:
        """List the tables and their files."""
        target = parse_options(args.optional_text("target_catalog_conf") or "", "target_catalog_conf")
        source = parse_options(args.optional_text("catalog_conf") or "", "catalog_conf")
        warehouse = args.optional_text("warehouse")
        source |= {} if warehouse is None else {"warehouse": warehouse}
        scope = _Scope(
            open_catalog(source) if source else ctx.catalog,
            open_catalog({**target, "warehouse": args.text("target_warehouse")}),
            args.optional_text("database"),
            args.optional_text("table"),
            args.optional_text("target_database"),
            args.optional_text("target_table"),
        )
        return _plan_of(_all(ctx, scope, None, meta=False, overwrite=True), args.integer("parallelism"))

    def execute(self, ctx: CallContext, plan: Plan[_Works]) -> Report:
        """Copy one table after the other."""
        return _cloned(ctx, plan)
