"""Procedures that inspect a table and its history: history, diff, why and config."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from paimon_spark.calls.arguments import Arguments
from paimon_spark.calls.context import CallContext
from paimon_spark.calls.parameters import TABLE
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Column, Param, ParamType, procedure
from paimon_spark.calls.report import Report
from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.metadata.time_travel import at_time, by_version
from paimon_spark.core.table import Table
from paimon_spark.engine.health.config import settings
from paimon_spark.engine.health.diff import difference
from paimon_spark.engine.health.history import Event, history, properties_text
from paimon_spark.engine.health.why import Fact, why
from paimon_spark.errors import ArgumentError
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.sqlparse.casts import timestamp_millis

_TIME = re.compile(r"\d{4}-\d\d-\d\d\b.*")


@dataclass(frozen=True, slots=True)
class _History:
    table: Table
    limit: int | None


@procedure(
    name="history",
    summary="List the snapshots, tags, branches and changelogs of a table in one timeline.",
    params=(
        TABLE,
        Param("limit", ParamType.INT, "Return only this many of the newest events.", default="all events"),
    ),
    columns=(
        Column("time", "timestamp", "when the snapshot was committed, or the tag or branch created", nullable=False),
        Column("branch", "string", "the branch", nullable=False),
        Column("event", "string", "`snapshot`, `changelog` (long-lived), `tag` or `branch`", nullable=False),
        Column("snapshot_id", "bigint", "the snapshot; null for a branch"),
        Column("tag", "string", "the name of a tag"),
        Column("kind", "string", "APPEND, COMPACT, OVERWRITE or ANALYZE"),
        Column("operation", "string", "the kind of statement, if the writer recorded it"),
        Column("commit_user", "string", "the committing user; a random name unless the writer set one"),
        Column("rows_added", "bigint", "rows in the files that the commit added"),
        Column("rows_removed", "bigint", "rows in the files that it removed"),
        Column("files_added", "bigint", "number of files that it added"),
        Column("files_removed", "bigint", "number of files that it removed"),
        Column("bytes_added", "bigint", "size of the files that it added"),
        Column("bytes_removed", "bigint", "size of the files that it removed"),
        Column("total_rows", "bigint", "rows in all files of the snapshot, superseded ones included"),
        Column("schema_id", "bigint", "the schema of the snapshot"),
        Column("properties", "string", "properties that the writer attached to the snapshot"),
    ),
    example="CALL sys.history('default.T');",
    read_only=True,
)
class History:
    """List the events of a table and all its branches, the oldest first.

    A compaction removes files and adds others with the same rows; a file that moves to another level counts as removed
    and added. A branch repeats the snapshot that it was created from. The columns of a commit are null if an expiry has
    deleted its manifests.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_History]:
        """Find the table."""
        limit = args.count("limit")
        return Plan((), _History(ctx.table(args.text("table")), limit))

    def execute(self, ctx: CallContext, plan: Plan[_History]) -> Report:
        """Read the history."""
        events = history(plan.payload.table)
        limit = plan.payload.limit or len(events)
        return Report(result_rows=[_event_row(e) for e in events[len(events) - min(limit, len(events)) :]])


def _event_row(e: Event) -> tuple[Any, ...]:
    s, c = e.snapshot, e.changed
    commit = s if s is not None and e.what != "tag" else None
    numbers = (None,) * 6 if c is None else (c.rows_added, c.rows_removed, c.files_added, c.files_removed)
    sizes = () if c is None else (c.bytes_added, c.bytes_removed)
    return (
        Timestamp(e.millis),
        e.branch,
        e.what,
        None if s is None else s.id,
        e.name if e.what == "tag" else None,
        None if commit is None else str(commit.commit_kind),
        None if commit is None else commit.operation,
        None if commit is None else commit.commit_user,
        *numbers,
        *sizes,
        None if s is None else s.total_record_count,
        None if s is None else s.schema_id,
        None if commit is None else properties_text(commit.properties),
    )


@dataclass(frozen=True, slots=True)
class _Diff:
    table: Table
    snapshots: tuple[Snapshot, Snapshot]
    texts: tuple[str, str]


_END = "a snapshot id, a tag, or a time (`2024-05-14 10:00:00`, session time zone)"


@procedure(
    name="diff",
    summary="Compare two snapshots of a table: rows and files by partition, columns, options.",
    params=(
        TABLE,
        Param("from", ParamType.STRING, f"The first snapshot: {_END}.", required=True, aliases=("from_version",)),
        Param("to", ParamType.STRING, f"The second one: {_END}.", default="the latest", aliases=("to_version",)),
    ),
    columns=(
        Column(
            "difference",
            "string",
            "`rows`, `files removed`, `files added`, `column`, `option`, `comment` or `query`",
            nullable=False,
        ),
        Column("name", "string", "the partition, column or option; empty for an unpartitioned table"),
        Column("before", "string", "the value in the first snapshot"),
        Column("after", "string", "the value in the second snapshot; of `query`, the query of the changed rows"),
        Column("files", "bigint", "number of files"),
        Column("rows", "bigint", "rows in these files; of `rows`, the change of their number"),
        Column("bytes", "bigint", "size of these files"),
    ),
    example="CALL sys.diff('default.T', '1', '5');",
    read_only=True,
)
class Diff:
    """Compare the files, columns and options of two snapshots.

    Rows are those in files: a row that a later file supersedes counts until a compaction drops it. The last line has
    the query that returns the changed rows themselves. Columns are the same if their ids are, so a renamed column is
    one line.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Diff]:
        """Find the two snapshots."""
        table = ctx.table(args.text("table"))
        first, before = _end(ctx, table, args.text("from"), "from")
        second, after = _end(ctx, table, args.optional_text("to"), "to")
        return Plan((), _Diff(table, (before, after), (first, second)))

    def execute(self, ctx: CallContext, plan: Plan[_Diff]) -> Report:
        """Compare them."""
        work = plan.payload
        rows = [
            (d.what, d.name, d.before, d.after, d.files, d.rows, d.bytes)
            for d in difference(work.table, *work.snapshots, work.texts)
        ]
        return Report(result_rows=rows)


def _end(ctx: CallContext, table: Table, text: str | None, parameter: str) -> tuple[str, Snapshot]:
    """Return a snapshot, and its id or the tag by which it was named."""
    if text is None:
        found = table.snapshots.latest()
        if found is None:
            raise ArgumentError(f"Table {table.name} has no snapshot yet.", hint="Write to it first.")
    elif _TIME.fullmatch(text.strip()) and text not in RefStore.of(table).tag_names():
        found = at_time(table, timestamp_millis(text, zone=ctx.zone, parameter=parameter))
    else:
        found = by_version(table, text.strip())
        return text.strip(), found
    return str(found.id), found


@dataclass(frozen=True, slots=True)
class _Why:
    table: Table
    file: str


@procedure(
    name="why",
    summary="Explain why a file exists: what added it, removed it and still references it, or whether it is an orphan.",
    params=(
        TABLE,
        Param(
            "file",
            ParamType.STRING,
            "Name or path of a data, index or metadata file, snapshots and tags included.",
            required=True,
        ),
    ),
    columns=(
        Column(
            "fact",
            "string",
            "`exists`, `missing`, `in the trash`, `is`, `added by`, `removed by`, `needed by`, "
            "`unreadable` (a reference) or `orphan`",
            nullable=False,
        ),
        Column("reference", "string", "the snapshot, tag or changelog, with its branch"),
        Column("snapshot_id", "bigint", "the id of its snapshot"),
        Column("time", "timestamp", "when it was committed; of `exists`, when the file was modified"),
        Column("detail", "string", "the path, the statement, or the reason why the reference still exists"),
    ),
    example="CALL sys.why('default.T', 'data-8f64af95-29cc-4342-adea-5a8cf6a9f3f3-0.parquet');",
    read_only=True,
)
class Why:
    """List what is known about a file of a table or of one of its branches.

    `added by` and `removed by` are listed as long as the manifests of these commits exist. A file is deleted when no
    `needed by` is left; its `detail` has the reason why the reference still exists. While a reference is `unreadable`,
    no file is called an orphan. If several buckets have a file of that name, all of them are listed.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Why]:
        """Find the table."""
        return Plan((), _Why(ctx.table(args.text("table")), args.text("file")))

    def execute(self, ctx: CallContext, plan: Plan[_Why]) -> Report:
        """Read the references."""
        facts = why(plan.payload.table, plan.payload.file, ctx.runner, ctx.clock_millis())
        return Report(result_rows=[_fact_row(f) for f in facts])


def _fact_row(f: Fact) -> tuple[Any, ...]:
    snapshot_id = None if f.snapshot is None else f.snapshot.id
    return (f.fact, f.reference, snapshot_id, None if f.millis is None else Timestamp(f.millis), f.detail)


@dataclass(frozen=True, slots=True)
class _Config:
    table: Table | None
    session: dict[str, str]
    defaults: bool


@procedure(
    name="config",
    summary="List the options in force, and where each comes from.",
    params=(
        replace(TABLE, required=False, default="no table"),
        Param("defaults", ParamType.BOOLEAN, "Include options that are not set, with their defaults.", default="true"),
    ),
    columns=(
        Column("key", "string", "the option", nullable=False),
        Column("value", "string", "its value; secrets are shown as `***`"),
        Column("source", "string", "`session`, `table`, `catalog` or `default`; in descending precedence"),
        Column("default_value", "string", "the default of the option"),
        Column(
            "applies_to",
            "string",
            "`read`, `stream`, `write`, `call`, `table`, `catalog` or `program`; `refused`, or `nothing here`; null if "
            "it is not an option of Paimon",
        ),
    ),
    example="CALL sys.config('default.T');",
    read_only=True,
)
class Config:
    """List the options of the catalog and the session, and with a table those that apply to statements on it.

    An option of the session takes precedence over that of the table, which takes precedence over the default. Options
    of the catalog apply to the catalog itself and its store.
    """

    def plan(self, ctx: CallContext, args: Arguments) -> Plan[_Config]:
        """Find the table and the options of the session."""
        text = args.optional_text("table")
        identifier = Identifier(ctx.current_database, "*") if text is None else ctx.identifier(text)
        table = None if text is None else ctx.catalog.load_table(identifier)
        return Plan((), _Config(table, dict(ctx.table_options(identifier)), args.flag("defaults", default=True)))

    def execute(self, ctx: CallContext, plan: Plan[_Config]) -> Report:
        """List the options."""
        work = plan.payload
        found = settings(ctx.catalog.options, work.session, work.table, defaults=work.defaults)
        return Report(result_rows=[(s.key, s.value, s.source, s.default, s.applies_to) for s in found])
