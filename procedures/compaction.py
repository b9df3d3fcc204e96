"""Procedures that rewrite files for faster reads: compact, compact_database, rescale and compact_manifest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import partial
from typing import Any

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.compact_stream import job_name
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.parameters import CALL_OPTIONS, PARTITION_FILTERS, PARTITIONS, RESULT, TABLE, WHERE
from paimon_spark.calls.partition_filters import check_one_filter, partition_filters
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Column, Param, ParamType, PositionalOverload, procedure
from paimon_spark.calls.report import DONE, DRY_RUN, FAILED, NOTHING_TO_DO, STATUS, UPGRADED, Job, Report
from paimon_spark.calls.table_filters import matching_tables
from paimon_spark.core.compact.clustering import clusters
from paimon_spark.core.maintenance.deletion import WARN, Action
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import (
    ATTEMPTS,
    CompactionPlan,
    CompactionResult,
    GroupResult,
    Strategy,
    execute_compaction,
    plan_compaction,
)
from paimon_spark.engine.compaction.compact_database import TablePlan, TableResult, compact_combined, compact_divided
from paimon_spark.engine.compaction.compact_explain import compaction_actions, idle_buckets, unmatched
from paimon_spark.engine.compaction.compact_manifest import (
    CompactManifestPlan,
    execute_compact_manifest,
    plan_compact_manifest,
)
from paimon_spark.engine.redistribution.cluster import cluster_sorting
from paimon_spark.engine.redistribution.postpone_compact import (
    PostponedPlan,
    distribute_postponed,
    execute_postponed,
    plan_postponed,
    postponed_actions,
)
from paimon_spark.engine.redistribution.rescale import RescalePlan, execute_rescale, plan_rescale, rescale_actions
from paimon_spark.engine.redistribution.sort_compact import SortPlan, execute_sort, plan_sort, sort_actions
from paimon_spark.errors import ArgumentError
from paimon_spark.spec.clustering import Order
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.kinds import BucketMode
from paimon_spark.spec.predicate import Predicate, or_
from paimon_spark.spec.units import UNIT_OF_DURATIONS

_NONE = "none"
_ORDERS = (_NONE, *Order)
_MODES = ("divided", "combined")

_IDLE_TIME = Param(
    "partition_idle_time",
    ParamType.STRING,
    f"Only partitions without new files for this long, such as `1 h`. {UNIT_OF_DURATIONS}",
)
_STRATEGY = Param(
    "compact_strategy",
    ParamType.STRING,
    "`full` merges each bucket into one sorted run; `minor` merges what automatic compaction would pick, and is the "
    "default for clustered tables.",
    default="full",
)


@procedure(
    name="compact",
    summary="Merge the files of a table to make reads faster.",
    params=(
        TABLE,
        PARTITIONS,
        Param(
            "order_strategy",
            ParamType.STRING,
            "`none`, or the sort order for the rows of an append table without buckets: `order` (column by column), "
            "`zorder` or `hilbert` (space-filling curves).",
            default="none",
        ),
        Param(
            "order_by",
            ParamType.STRING,
            "Columns to sort by, separated by commas, without partition columns; requires an `order_strategy`.",
            aliases=("order_columns",),
        ),
        replace(CALL_OPTIONS, aliases=("table_options",)),
        WHERE,
        _IDLE_TIME,
        _STRATEGY,
        Param(
            "streaming",
            ParamType.BOOLEAN,
            "Start a job that compacts the table continuously; SHOW JOBS lists it, and STOP JOB or `stop` ends it.",
            default="false",
        ),
    ),
    columns=(RESULT,),
    forms=(
        PositionalOverload(
            ("table", "order_strategy", "order_by"),
            doc="with three values, the second and third are the sort order and its columns",
        ),
    ),
    example="CALL sys.compact('default.T', 'p=0', 'zorder', 'a,b', 'sink.parallelism=4');",
)
class Compact:
    """Merge the files of each bucket, in a job with one task per bucket; small buckets share a task.

    In a primary key table, `full` leaves one sorted run per bucket, without superseded and deleted rows. In an append
    table, it leaves fewer, larger files; with row tracking, files whose rows have no ids, which a program without row
    tracking has written, stay as they are. Buckets are committed in groups, and groups committed before a cancellation
    are kept. A group consists of whole partitions with 32 buckets, or more if these have up to 256 MB and 4096 files in
    total. A group whose files another commit replaces meanwhile is compacted again, at most five times, on the newest
    snapshot. Earlier snapshots keep reading the old files until they expire. In a table that is already compact, no
    snapshot is created, and the status is `nothing to do`. A file that needs no merging moves to another level
    unchanged; if nothing else was done, the status is `upgraded` and the byte counts are 0. If no partition matches a
    requested one, the status names it after a colon.

    The files of a table with `clustering.incremental` are clustered: as in a primary key table they form levels, and
    the picked ones are sorted by `clustering.columns`, along the curve of `clustering.strategy`, into files of a higher
    level. `minor` is the default; `full` sorts all files of a partition, unless the same columns order them already.
    One job sorts a partition with more than `target-file-size` to sort, in `sink.parallelism` ranges. In tables with
    buckets, and with the option `clustering.incremental.mode` = `local-sort`, each task sorts its own files. A CALL for
    some partitions also sorts others that are idle for `clustering.history-partition.idle-to-full-sort`, completely.

    With an `order_strategy`, one job sorts the rows of the selected partitions and rewrites all their files in one
    OVERWRITE snapshot; queries that filter by the sorted columns then skip most files. `order` is best for filters on
    the first column, `zorder` and `hilbert` for filters on any of the columns. The option `sink.parallelism` sets the
    number of ranges that the rows are divided into; it defaults to the expected number of full-size files. For
    `zorder`, only the first `zorder.var-length-contribution` bytes of a string count. A table with timestamps of more
    than six digits of a second cannot be sorted.

    In a table with postponed buckets (`bucket` = -2), one job first writes the postponed rows to their buckets, in the
    order of the commits that added them, in one COMPACT snapshot. Then the buckets are compacted by `compact_strategy`,
    which is `minor` by default for these tables.

    With `streaming`, the CALL returns at once, and a job named `compact_<database>.<table>` looks for new snapshots at
    each `execution.checkpointing.interval`, 10 s by default. For each one it compacts by the other arguments, by
    default what automatic compaction would pick, then expires snapshots, tags and partitions by the options of the
    table. The writers may be `write-only`. With `partition_idle_time` it looks for idle partitions at each
    interval, with or without a new snapshot. A compaction that conflicts with another commit is planned again.
    Without Spark, `paimon_spark.calls.compact_stream.compact_stream` does the same.
    """

    status = f"{STATUS}; `{UPGRADED}` if files were only moved to another level"

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Compaction]:
        """Validate the arguments in Paimon's order, and pick the files to merge."""
        order, order_by = _check_order(args)
        job = _job(ctx, args, order) if args.flag("streaming") else None
        idle = args.optional_text("partition_idle_time")
        if order != _NONE and idle is not None:
            raise ArgumentError(
                "order_strategy and partition_idle_time cannot be given together.", hint="Leave one of them out."
            )
        strategy = _strategy(args) or (Strategy.MINOR if job else None)
        check_one_filter(args)
        options = args.table_options("options")
        idle_ms = args.duration_ms("partition_idle_time")
        table = ctx.table(args.text("table"), {"write-only": "false", **options})
        asked = partition_filters(ctx, table, args)
        partitions = or_(*(predicate for _, predicate in asked)) if asked else None
        if table.bucket_mode is BucketMode.POSTPONE and order == _NONE:
            if idle is not None:
                raise _idle_postponed(table)
            given = _strategy(args)
            postponed = _plan_postponed(ctx, table, given or _usual_strategy(table), partitions)
            return _plan(postponed, asked, ctx.zone, postponed_actions(postponed), job)
        if order != _NONE:
            sort = plan_sort(table, Order(order), _sort_columns(table, order_by), partitions)
            return _plan(sort, asked, ctx.zone, sort_actions(sort))
        buckets = None if idle_ms is None else idle_buckets(table, partitions, idle_ms, ctx.clock_millis())
        plan = plan_compaction(table, strategy=strategy, partitions=partitions, buckets=buckets)
        return _plan(plan, asked, ctx.zone, compaction_actions(plan), job)

    def execute(self, ctx: CallContext, plan: Plan[_Compaction]) -> Report:
        """Run the tasks and commit each group; or sort, and commit once."""
        work, job = plan.payload.work, plan.payload.job
        table = work.table
        if job is not None:
            ctx.spark_jobs("compact with streaming => true")
            return Report(result_rows=[(True,)], status=f"started the job '{job.name}'", job=job)

        def progress(finished: int, total: int) -> None:
            ctx.progress(finished, total, f"compact {table.name}")

        if isinstance(work, SortPlan):
            done = execute_sort(work, ctx.spark_jobs("compact with an order_strategy"))
        elif isinstance(work, PostponedPlan):
            done = execute_postponed(work, ctx.jobs, ctx.runner, progress)
        else:
            sorting = cluster_sorting(ctx.jobs)
            done = execute_compaction(work, ctx.runner, progress, attempts=ATTEMPTS, sorting=sorting)
        return _report(table, done, plan.payload.notes)


def _report(table: Table, done: CompactionResult, notes: Sequence[str]) -> Report:
    total = done.total
    return Report(
        result_rows=[(True,)],
        status=": ".join([_status(done), *([" ".join(notes)] if notes else [])]),
        snapshot_before=done.snapshot_before,
        snapshot_after=done.snapshot_after,
        files_in=total.files_in,
        files_out=total.files_out,
        bytes_in=total.bytes_in,
        bytes_out=total.bytes_out,
        rows=total.rows_out,
        changed_tables=(table.name,) if done.snapshot_ids else (),
    )


@dataclass(frozen=True, slots=True)
class _Compaction:
    """What to compact, and notes about requested partitions that do not exist."""

    work: CompactionPlan | SortPlan | PostponedPlan
    notes: tuple[str, ...]
    job: Job | None = None


def _job(ctx: CallContext, args: Arguments, order: str) -> Job:
    """Return the job that repeats a CALL."""
    if order != _NONE:
        raise ArgumentError(
            "order_strategy and streaming cannot be given together.",
            hint="A sort rewrites the whole table: leave one of them out.",
        )
    name = ctx.identifier(args.text("table")).full_name
    values = {p: args.optional_text(p) for p in ("partitions", "where", "partition_idle_time", "compact_strategy")}
    options = ",".join(f"{k}={v}" for k, v in args.table_options("options").items())
    given = {k: v for k, v in {**values, "options": options}.items() if v}
    return Job(name=job_name(name), table=name, values={"table": name, "compact_strategy": "minor", **given})


def _plan(
    work: CompactionPlan | SortPlan | PostponedPlan,
    asked: Sequence[tuple[str, Predicate]],
    zone: tzinfo,
    actions: Iterable[Action],
    job: Job | None = None,
) -> Plan[_Compaction]:
    notes = unmatched(work.table, asked, work.partitions_seen, zone)
    warnings = (Action(WARN, work.table.path, 0, note) for note in notes)
    return Plan((*warnings, *actions), _Compaction(work, notes, job))


@dataclass(frozen=True, slots=True)
class _Database:
    """The tables to compact, together or one by one, and notes about filters that match nothing."""

    tables: tuple[TablePlan, ...]
    combined: bool
    notes: tuple[str, ...]


@procedure(
    name="compact_database",
    summary="Compact all matching tables of the matching databases.",
    params=(
        Param(
            "including_databases",
            ParamType.STRING,
            "Regular expression that must match the whole name of a database, such as `db1|db2`.",
            default="`.*`",
            aliases=("includingDatabases",),
        ),
        Param(
            "mode",
            ParamType.STRING,
            "`divided` compacts one table after the other, `combined` runs the tasks of all tables in one job.",
            default="divided",
        ),
        Param(
            "including_tables",
            ParamType.STRING,
            "Regular expression for tables; must match the whole of `db.table` or of the table name.",
            default="`.*`",
        ),
        Param(
            "excluding_tables",
            ParamType.STRING,
            "Regular expression for tables to exclude, matched in the same way; takes precedence.",
        ),
        replace(CALL_OPTIONS, name="table_options", aliases=("options",)),
        _IDLE_TIME,
        _STRATEGY,
    ),
    columns=(
        Column(
            "result",
            "string",
            "first row: number of tables that succeeded and failed, and included names without a match; then the "
            "outcome of each table",
        ),
        Column("table", "string", "the table; null in the first row"),
        Column("status", "string", "`done`, `upgraded`, `nothing to do` or `failed`"),
        Column("snapshot_before", "bigint", "latest snapshot of the table before the CALL"),
        Column("snapshot_after", "bigint", "latest snapshot of the table after the CALL"),
        Column("files_in", "bigint", "input files: merged, or moved to another level"),
        Column("files_out", "bigint", "output files: written, or moved to another level unchanged"),
        Column("bytes_in", "bigint", "size of the files merged, in bytes"),
        Column("bytes_out", "bigint", "size of the files written, in bytes"),
        Column("rows", "bigint", "rows in the output data files"),
    ),
    example="CALL sys.compact_database('db1|db2', 'combined', 'table_.*', 'ignore', 'sink.parallelism=4');",
    reports=False,
)
class CompactDatabase:
    """Compact every table whose database and name match, each with its own commits.

    A failure of one table, in planning, in a task or at the commit, is reported in that table's row, and the other
    tables are still compacted. A table whose files only moved to another level is `upgraded`. Tables that do not
    consist of Paimon's files are skipped. If another job writes to a table after it was planned, the table is planned
    again before its turn. In tables with postponed buckets, postponed rows are written to their buckets first.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Database]:
        """Find the tables and pick the files to merge in each."""
        combined = args.choice("mode", _MODES, _MODES[0]) == "combined"
        strategy = _strategy(args)
        idle_ms = args.duration_ms("partition_idle_time")
        options = {"write-only": "false", **args.table_options("table_options")}
        found: list[TablePlan] = []
        names, notes = matching_tables(ctx, args)
        for name in names:
            planner = partial(_plan_table, ctx, name, options, strategy, idle_ms)
            plan = TablePlan.of(name.full_name, planner, partial(_distribute_table, ctx, name, options))
            if plan.error is not None or (plan.plan is not None and plan.plan.table.is_file_store):
                found.append(plan)
        warnings = (Action(WARN, "", 0, note) for note in notes)
        actions = (*warnings, *(a for t in found for a in _table_actions(ctx, t)))
        return Plan(actions, _Database(tuple(found), combined, tuple(notes)))

    def execute(self, ctx: CallContext, plan: Plan[_Database]) -> Report:
        """Compact the tables."""
        work = plan.payload
        run = compact_combined if work.combined else partial(compact_divided, sorting=cluster_sorting(ctx.jobs))
        done = run(
            work.tables, ctx.runner, lambda n, total: ctx.progress(n, total, f"compact {len(work.tables)} tables")
        )
        failed = sum(r.error is not None for r in done)
        total = f"Compact database finished. Success: {len(done) - failed}, Failed: {failed}"
        if work.notes:
            total = f"{total}. {' '.join(work.notes)}"
        changed_tables = tuple(r.name for r in done if r.result is not None and r.result.snapshot_ids)
        return Report(result_rows=[(total, *[None] * 9), *map(_table_row, done)], changed_tables=changed_tables)


def _strategy(args: Arguments) -> Strategy | None:
    """Return the strategy that a CALL names."""
    named = args.optional_text("compact_strategy")
    return None if named is None else Strategy(args.choice("compact_strategy", Strategy, Strategy.FULL))


def _usual_strategy(table: Table) -> Strategy:
    """Return how the buckets of a table with postponed rows are compacted after each write of rows to them."""
    return Strategy.MINOR if table.options.full_compaction_delta_commits is None else Strategy.FULL


def _plan_postponed(ctx: CallContext, table: Table, strategy: Strategy, partitions: Predicate | None) -> PostponedPlan:
    buckets = 1 if ctx.jobs is None else ctx.jobs.tasks_at_once
    return plan_postponed(table, strategy=strategy, partitions=partitions, default_buckets=buckets)


def _idle_postponed(table: Table) -> ArgumentError:
    return ArgumentError(
        f"Table {table.name} has postponed buckets, which partition_idle_time does not apply to.",
        hint="Leave it out, or name the partitions.",
    )


def _distribute_table(ctx: CallContext, name: Identifier, options: Mapping[str, str]) -> list[GroupResult]:
    """Distribute the postponed rows of a table, if it has postponed buckets."""
    table = ctx.load(name, options)
    if not table.is_file_store or table.bucket_mode is not BucketMode.POSTPONE:
        return []
    return distribute_postponed(_plan_postponed(ctx, table, _usual_strategy(table), None), ctx.jobs)


def _plan_table(
    ctx: CallContext,
    name: Identifier,
    options: Mapping[str, str],
    strategy: Strategy | None,
    idle_ms: int | None,
) -> CompactionPlan:
    table = ctx.load(name, options)
    if table.is_file_store and table.bucket_mode is BucketMode.POSTPONE:
        if idle_ms is not None:
            raise _idle_postponed(table)
        strategy = strategy or _usual_strategy(table)
    if not table.is_file_store:
        return CompactionPlan(table, strategy or Strategy.FULL, None, ())
    buckets = None if idle_ms is None else idle_buckets(table, None, idle_ms, ctx.clock_millis())
    return plan_compaction(table, strategy=strategy, buckets=buckets)


def _table_actions(ctx: CallContext, work: TablePlan) -> tuple[Action, ...]:
    if work.plan is None:
        return (Action(WARN, work.name, 0, f"cannot be compacted: {work.error}"),)
    table, actions = work.plan.table, compaction_actions(work.plan)
    if table.is_file_store and table.bucket_mode is BucketMode.POSTPONE:
        return (*postponed_actions(_plan_postponed(ctx, table, work.plan.strategy, None)), *actions)
    return actions


def _status(done: CompactionResult) -> str:
    if not done.snapshot_ids:
        return NOTHING_TO_DO
    return UPGRADED if done.total.is_upgrade else DONE


def _table_row(done: TableResult) -> tuple[Any, ...]:
    if done.result is None:
        return (f"failed: {done.error}", done.name, FAILED, *[None] * 7)
    total, status = done.result.total, _status(done.result)
    outcome = status if done.error is None else f"failed: {done.error}"
    return (
        *(outcome, done.name, status if done.error is None else FAILED),
        *(done.result.snapshot_before, done.result.snapshot_after),
        *(total.files_in, total.files_out, total.bytes_in, total.bytes_out, total.rows_out),
    )


def _check_order(args: Arguments) -> tuple[str, list[str]]:
    order = args.choice("order_strategy", _ORDERS, _NONE)
    columns = [c.strip() for c in (args.optional_text("order_by") or "").split(",") if c.strip()]
    if order == _NONE and columns:
        raise ArgumentError(
            f"order_by ({', '.join(columns)}) needs an order_strategy.",
            hint="Give order_strategy => 'order', 'zorder' or 'hilbert', or leave order_by out.",
        )
    if order != _NONE and not columns:
        raise ArgumentError(f"order_strategy '{order}' needs order_by.", hint="Name the columns to sort by.")
    return order, columns


def _sort_columns(table: Table, order_by: list[str]) -> list[str]:
    """Return the columns to sort by, in the table's spelling."""
    keys = table.schema.partition_keys
    columns = [_column(table, name) for name in order_by]
    if set(columns) & set(keys):
        raise ArgumentError(
            f"order_by ({', '.join(order_by)}) contains partition columns ({', '.join(keys)}), which are constant "
            "within a partition.",
            hint="Sort by other columns.",
        )
    if clusters(table):
        raise ArgumentError(
            f"Table {table.name} has 'clustering.incremental' set, which does not work with order_strategy.",
            hint="Call compact without order_strategy: it sorts by 'clustering.columns'.",
        )
    return columns


def _column(table: Table, name: str) -> str:
    same = [c for c in table.schema.field_names if c.lower() == name.lower()]
    return table.schema.field(same[0] if len(same) == 1 else name).name


@procedure(
    name="rescale",
    summary="Rewrite partitions with another number of buckets.",
    params=(
        TABLE,
        Param("bucket_num", ParamType.INT, "The number of buckets.", default="that of the table"),
        *PARTITION_FILTERS,
    ),
    columns=(RESULT,),
    example="CALL sys.rescale(table => 'default.T', bucket_num => 4, partitions => 'p=0');",
)
class Rescale:
    """Rewrite the partitions whose number of buckets is not `bucket_num`, in one job and one OVERWRITE snapshot.

    The table option `bucket` stays as it is. Change it with `ALTER TABLE … SET TBLPROPERTIES` first: rows are only
    added to partitions whose number of buckets is that of the table. A table with postponed buckets needs a
    `bucket_num`; its postponed rows stay where they are. If another commit adds rows to one of the partitions
    meanwhile, the CALL fails and rescales nothing. Streams skip the OVERWRITE snapshot: in a table with
    `changelog-producer` `lookup` or `full-compaction`, buckets with rows that are not in the changelog yet are
    therefore compacted first. If all partitions have `bucket_num` buckets already, the status is
    `nothing to do`.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Rescale]:
        """Validate the arguments and find the files to rewrite."""
        check_one_filter(args)
        table = ctx.table(args.text("table"), {"write-only": "false"})
        asked = partition_filters(ctx, table, args)
        partitions = or_(*(predicate for _, predicate in asked)) if asked else None
        work = plan_rescale(table, args.integer("bucket_num"), partitions)
        notes = unmatched(table, asked, work.partitions_seen, ctx.zone)
        warnings = (Action(WARN, table.path, 0, note) for note in notes)
        return Plan((*warnings, *rescale_actions(work)), _Rescale(work, notes))

    def execute(self, ctx: CallContext, plan: Plan[_Rescale]) -> Report:
        """Rewrite the partitions and commit."""
        work = plan.payload.work
        done = execute_rescale(work, ctx.jobs, ctx.runner)
        return _report(work.table, done, plan.payload.notes)


@dataclass(frozen=True, slots=True)
class _Rescale:
    """What to rescale, and notes about requested partitions that do not exist."""

    work: RescalePlan
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Manifests:
    latest_id: int | None
    plan: CompactManifestPlan
    dry_run: bool


@procedure(
    name="compact_manifest",
    summary="Merge small manifests into few large ones.",
    params=(
        TABLE,
        CALL_OPTIONS,
        Param("dry_run", ParamType.BOOLEAN, "Change nothing; the status is `dry run`.", default="false"),
    ),
    columns=(
        RESULT,
        Column("manifests", "string", "manifests before the CALL: number, size, and entries of removed files"),
    ),
    example="CALL sys.compact_manifest('default.T');",
)
class CompactManifest:
    """Merge all manifests that are smaller than `manifest.target-file-size` or have entries of removed files.

    The COMPACT snapshot has the same data files as the one before. Queries then read fewer manifests. Nothing is
    committed if there would be as many manifests as before. The old manifests are deleted when their snapshots expire.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Manifests]:
        """Select the manifests."""
        table = ctx.table(args.text("table"), args.table_options("options"))
        plan = plan_compact_manifest(table)
        return Plan(plan.actions, _Manifests(table.snapshots.latest_id(), plan, args.flag("dry_run")))

    def execute(self, ctx: CallContext, plan: Plan[_Manifests]) -> Report:
        """Commit the merged manifests, unless in a dry run."""
        work = plan.payload
        done = None if work.dry_run else execute_compact_manifest(work.plan)
        merged = done is not None
        return Report(
            result_rows=[(True, work.plan.summary)],
            status=DRY_RUN if work.dry_run else DONE if merged else NOTHING_TO_DO,
            snapshot_before=work.latest_id,
            snapshot_after=done if merged else work.latest_id,
            files_in=len(work.plan.merged) if merged else 0,
            files_out=work.plan.files_out if merged else 0,
            bytes_in=sum(a.bytes for a in plan.actions) if merged else 0,
            changed_tables=(work.plan.table.name,) if merged else (),
        )
