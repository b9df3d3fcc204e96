"""`TableHandle`: reads, writes and maintenance of one table, in this process."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, tzinfo
from typing import TypeVar

import pyarrow as pa

from paimon_spark.api.arguments import Moment, Names, checked, millis, names
from paimon_spark.api.results import Compacted, Expired, Removed, SnapshotInfo, Written
from paimon_spark.api.row_changes import Removals, RowCounter, add_missing_columns, deletions, deletions_of_keys
from paimon_spark.api.rows import ArrowInput, ArrowRows, check_rows
from paimon_spark.api.values import exact_batches
from paimon_spark.catalog.base import Catalog
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.system.tables import system_table
from paimon_spark.core.table import START_OPTIONS, Table
from paimon_spark.core.write.row_conversion import missing_values
from paimon_spark.engine.compaction.compact import Strategy, execute_compaction, plan_compaction, usual_strategy
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.expiry.orphans import execute_orphans, plan_orphans
from paimon_spark.engine.fallback import plan_reads, read_plans, schema_of_read, total_rows
from paimon_spark.engine.insert import Overwrite, write_arrow
from paimon_spark.engine.redistribution.postpone_compact import execute_postponed, plan_postponed
from paimon_spark.engine.refs.tags import execute_delete_tags, execute_tag, list_tags, plan_create_tag, plan_delete_tags
from paimon_spark.engine.rollback import execute_rollback, plan_rollback
from paimon_spark.engine.row_level import change_arrow, marks_keyed_rows, rewrites_files, with_all_rows
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import SelectPlan, plan_select, read_batches
from paimon_spark.engine.upsert import insert_arrow
from paimon_spark.errors import (
    ArgumentError,
    ConflictError,
    CorruptTableError,
    ErrorKind,
    NotFoundError,
    UnsupportedError,
    UsageError,
)
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.kinds import BucketMode, Operation
from paimon_spark.spec.merge_rules import removing_sequence
from paimon_spark.spec.predicate import TRUE, Predicate
from paimon_spark.sqlparse.where import parse_filter, parse_where

_ATTEMPTS = 20
_FIRST_WAIT = 0.02
_LONGEST_WAIT = 1.0
_T = TypeVar("_T")


class TableHandle:
    """A table. Each method reads the current state of the table; nothing is cached between calls.

    A write is committed exactly when its method returns. If it raises, the table is unchanged, unless the error is an
    OutcomeUnknownError. A write that conflicts with another is retried if its input can be read again (a pyarrow Table
    or RecordBatch; a stream can be read only once).
    """

    def __init__(
        self, catalog: Catalog, identifier: Identifier, options: Mapping[str, str], zone: tzinfo = UTC
    ) -> None:
        self._catalog = catalog
        self._identifier = identifier
        self._options = options
        self._zone = zone

    def __repr__(self) -> str:
        return f"<paimon table {self.name}>"

    @translate_io_errors()
    def load(self) -> Table:
        """Return the engine's table at its latest schema."""
        return self._catalog.load_table(self._identifier, self._options).in_zone(self._zone)

    # ---- definition

    @property
    def name(self) -> str:
        """Return `database.table`."""
        return self._identifier.full_name

    @property
    def schema(self) -> pa.Schema:
        """Return the columns."""
        return to_arrow_schema(self.load().schema.fields).remove_metadata()

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Return the columns of the primary key; empty for an append table."""
        return self.load().schema.primary_keys

    @property
    def partition_by(self) -> tuple[str, ...]:
        """Return the partition columns."""
        return self.load().schema.partition_keys

    @property
    def options(self) -> dict[str, str]:
        """Return the stored options, overlaid with those of this handle."""
        return dict(self.load().options.values)

    @property
    def location(self) -> str:
        """Return the directory of the table."""
        return self.load().path

    # ---- writes

    def append(self, data: ArrowRows) -> Written:
        """Append rows. A row replaces the one with the same primary key or `upsert-key`, as with INSERT INTO.

        Args:
            data: rows with exactly the columns of the table, in any order.

        Raises:
            ArgumentError: columns or values do not fit the table.
            UsageError: several rows would replace the same row by `upsert-key`, without a `sequence.field`.
            ConflictError: a concurrent write conflicts; nothing was written.
            OutcomeUnknownError: the commit got no response from the store, so its outcome is unknown.
        """
        return self._write(ArrowInput.of(data))

    def upsert(self, data: ArrowRows) -> Written:
        """Insert rows, or replace those with the same primary key; of duplicate keys in `data`, the last row wins.

        Raises:
            UsageError: the table has no primary key.
            ArgumentError: see `append`, also for the other errors.
        """
        self._keyed("upsert", "Use append, or create the table with primary_key=[…].")
        return self._write(ArrowInput.of(data))

    @checked
    def overwrite(self, data: ArrowRows, *, partitions: str | None = None, dynamic: bool = False) -> Written:
        """Replace all rows, or those of some partitions.

        Args:
            data: the new rows.
            partitions: a condition over partition columns; only matching partitions are replaced, and all rows must
                match.
            dynamic: replace the partitions that `data` has rows of.

        Raises:
            ArgumentError: see `append`; or a row does not match `partitions`.
        """
        if dynamic and partitions is not None:
            raise ArgumentError("dynamic and partitions exclude each other.", hint="Leave one of them out.")
        source = ArrowInput.of(data)

        def once() -> Written:
            table = self._to_change()
            check_rows(source, table)
            static = None if partitions is None else parse_where(partitions, table.schema, parameter="partitions")
            how: Overwrite = "dynamic" if dynamic else "static"
            counted = RowCounter(exact_batches(source.batches(), table))
            result = write_arrow(table, counted, overwrite=how, static_partitions=static)
            return Written.of(counted.rows, result)

        return self._repeated(once, again=source.repeatable)

    @checked
    def delete(self, filter: str | None = None, *, keys: ArrowRows | None = None) -> Written:  # noqa: A002
        """Delete the rows that match a condition, or those with given primary keys.

        A row that is added concurrently may survive. In a table without a primary key, and where the merge engine takes
        no deletes or would keep a row, the files with deleted rows are replaced in one snapshot; if another commit
        changes them first, the delete is retried.

        Args:
            filter: a SQL condition over any columns: ``"day < '2026-01-01' AND state = 'new'"``.
            keys: rows with the primary key columns, and with the columns that are NOT NULL or a sequence field. The
                columns of ``partial-update.remove-record-on-sequence-group`` are not needed; if all are given, rows
                that are newer stay.

        Raises:
            ArgumentError: none or both are given, or they do not fit the table.
            UsageError: `keys` are given for a table without a primary key.
            ConflictError: all attempts conflicted with other commits; nothing was deleted.
        """
        if (filter is None) == (keys is None):
            raise ArgumentError("delete needs a condition or keys.", hint="Pass either filter='…' or keys=….")
        if keys is not None:
            table, source = self._keyed("delete by key", "Use delete(filter=…)."), ArrowInput.of(keys)
            removing = removing_sequence(table.schema, table.options)
            if rewrites_files(table, Operation.DELETE) or not {*removing} <= {*source.schema.names}:
                return self._repeated(lambda: self._delete_keys(source), again=source.repeatable)
            self._check_deletes(table)
            needed = [f.name for f in table.schema.fields if not f.type.nullable]
            return self._write(source, removed_by={*needed, *table.options.sequence_field})
        return self._repeated(lambda: self._delete_where(str(filter)), again=True)

    # ---- reads

    @checked
    def to_arrow(
        self,
        columns: Names = None,
        filter: str | None = None,  # noqa: A002
        version: int | str | None = None,
        *,
        as_of: Moment | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Read rows of one snapshot into memory, in unspecified order.

        If the latest snapshot expires during the read, the read is repeated with the new latest snapshot.

        Args:
            columns: column or columns to read; all by default.
            filter: a SQL condition over any columns.
            version: a snapshot id or a tag name; the latest snapshot by default.
            as_of: read the latest snapshot at that time: a datetime, date, text or epoch milliseconds; default zone
                UTC.
            limit: maximum number of rows.

        Raises:
            NotFoundError: there is no such column, snapshot or tag.
            ArgumentError: the condition is invalid.
        """

        def once() -> pa.Table:
            plans = self._plan(columns, filter, version, as_of, limit)
            found = pa.Table.from_batches(read_plans(plans, limit), schema=plans[0].schema)
            # pyarrow forgets the number of rows of a table without columns
            return found.replace_schema_metadata(None) if found.num_columns else found

        return self._repeated(once, again=True)

    @checked
    def to_reader(
        self,
        columns: Names = None,
        filter: str | None = None,  # noqa: A002
        version: int | str | None = None,
        *,
        as_of: Moment | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """Read rows batch by batch, with one row group per file in memory; the arguments are those of `to_arrow`."""
        plans = self._plan(columns, filter, version, as_of, limit)
        return pa.RecordBatchReader.from_batches(plans[0].schema, read_plans(plans, limit))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Stream the latest snapshot to any Arrow consumer: ``polars.DataFrame(table)``, duckdb, pandas."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    @checked
    def count(self, filter: str | None = None, version: int | str | None = None) -> int:  # noqa: A002
        """Return the number of rows, from metadata only if possible."""
        plans = self._plan((), filter, version, None, None)
        rows = total_rows(plans)
        if rows is not None:
            return rows
        first = plans[0].table.schema.field_names[:1]
        return self.to_arrow(first, filter, version).num_rows

    # ---- history

    @translate_io_errors()
    def snapshots(self) -> list[SnapshotInfo]:
        """Return the existing snapshots, oldest first."""
        store = self.load().snapshots
        found = (store.find(i) for i in store.ids())
        return [SnapshotInfo.of(s) for s in found if s is not None]

    @checked
    @translate_io_errors()
    def inspect(self, system_name: str) -> pa.Table:
        """Return a system table: ``files``, ``partitions``, ``manifests``, ``schemas``, ``options`` and others.

        Raises:
            NotFoundError: there is no such system table.
        """
        return system_table(self.load(), system_name, zone=UTC)

    def tags(self) -> dict[str, int]:
        """Return the snapshot id of each tag, by name."""
        return {name: tag.snapshot.id for name, tag in list_tags(self.load()).items()}

    @checked
    def create_tag(self, name: str, version: int | None = None) -> int:
        """Create a tag, which protects its snapshot from expiry; return the snapshot id.

        Args:
            name: name of the tag.
            version: id of the snapshot; the latest by default.

        Raises:
            AlreadyExistsError: a tag of that name exists.
            NotFoundError: there is no such snapshot.
        """
        table = self._to_change()
        made = execute_tag(table, plan_create_tag(table, name, snapshot_id=version, clock_millis=_now()))
        if made is None:
            raise AssertionError
        return made.id

    @checked
    def delete_tag(self, name: str) -> None:
        """Delete a tag, and the files that only it protects.

        Raises:
            NotFoundError: there is no such tag.
        """
        table = self._to_change()
        plan = plan_delete_tags(table, [name], exact=False)
        if plan.missing:
            raise NotFoundError(
                f"Tag '{name}' of table {self.name} does not exist.",
                hint="See tags() for those that do.",
                kind=ErrorKind.TAG_NOT_FOUND,
            )
        execute_delete_tags(table, plan)

    @checked
    def rollback_to(self, target: int | str) -> int:
        """Roll the table back to a snapshot (an id) or a tag (a name); return the snapshot id.

        All newer commits and tags are removed permanently.

        Raises:
            NotFoundError: there is no such snapshot or tag.
        """
        table = self._to_change()
        by_tag = isinstance(target, str)
        plan = plan_rollback(table, snapshot_id=None if by_tag else int(target), tag=str(target) if by_tag else None)
        return execute_rollback(table, plan).current_snapshot_id

    # ---- maintenance

    @checked
    def compact(self, *, full: bool | None = None, partitions: str | None = None, threads: int = 1) -> Compacted:
        """Compact files to make reads faster; retried if another commit replaces the same files.

        In a table with postponed buckets, the postponed rows are written to their buckets first. The files of a table
        with ``clustering.incremental`` are sorted, each partition by one thread.

        Args:
            full: full compaction, the default but for clustered tables; otherwise only what automatic compaction would
                pick now.
            partitions: a condition over partition columns; only matching partitions are compacted.
            threads: number of buckets compacted in parallel.

        Raises:
            ConflictError: all attempts conflicted with other commits; groups committed before are kept.
        """

        def once() -> Compacted:
            table = self._to_change()
            if table.options.write_only:
                table = table.with_options({"write-only": "false"})
            where = None if partitions is None else parse_where(partitions, table.schema, parameter="partitions")
            strategy = usual_strategy(table) if full is None else Strategy.FULL if full else Strategy.MINOR
            if table.bucket_mode is BucketMode.POSTPONE:
                postponed = plan_postponed(table, strategy=strategy, partitions=where)
                return Compacted.of(execute_postponed(postponed, None, LocalRunner(threads)))
            plan = plan_compaction(table, strategy=strategy, partitions=where)
            return Compacted.of(execute_compaction(plan, LocalRunner(threads)))

        return self._repeated(once, again=True)

    @checked
    def expire_snapshots(
        self,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: Moment | None = None,
        max_deletes: int | None = None,
    ) -> Expired:
        """Expire old snapshots, and delete the files that no other snapshot, tag or branch references.

        Args:
            retain_max: maximum number of snapshots to retain.
            retain_min: minimum number of snapshots to retain.
            older_than: expire only snapshots older than that: a datetime, date, text or epoch milliseconds; default
                zone UTC.
            max_deletes: maximum number of snapshots to expire.

        Raises:
            ArgumentError: the limits contradict each other.
        """
        table = self._to_change()
        config = ExpireConfig(
            retain_max=retain_max,
            retain_min=retain_min,
            older_than_millis=None if older_than is None else millis(older_than, "older_than"),
            max_deletes=max_deletes,
            exact=False,
        )
        return Expired.of(execute_expire(table, plan_expire(table, config, _now())))

    @checked
    def remove_orphan_files(self, *, older_than: Moment | None = None, threads: int = 1) -> Removed:
        """Delete files that no snapshot, tag or changelog of any branch references, such as those of crashed writers.

        Args:
            older_than: delete only files modified before that time; one day ago by default. All running writers must
                have started after it. A datetime, date, text or epoch milliseconds; default zone UTC.
            threads: number of directories listed in parallel.

        Raises:
            ArgumentError: `older_than` is not in the past.
            CorruptTableError: the referenced files cannot be determined; nothing was deleted.
        """
        before = None if older_than is None else millis(older_than, "older_than")
        plan = plan_orphans([self._to_change()], LocalRunner(threads), clock_millis=_now(), older_than=before)
        return Removed.of(execute_orphans(plan))

    # ---- helpers

    def _write(self, source: ArrowInput, removed_by: Collection[str] | None = None) -> Written:
        """Insert rows, or delete those that have the values of the columns `removed_by`."""

        def once() -> Written:
            table = self._to_change()
            check_rows(source, table, removed_by)
            counted = RowCounter(exact_batches(source.batches(), table))
            if removed_by is None:
                result = insert_arrow(table, counted)
                return Written.of(counted.rows, result)
            whole = (add_missing_columns(b, table) for b in counted)
            hint = "Give each row a sequence, or leave these columns out to delete the rows whatever their sequence."
            result = write_arrow(table, Removals(whole, table, hint))
            return Written.of(counted.rows, result)

        return self._repeated(once, again=source.repeatable)

    def _delete_where(self, condition: str) -> Written:
        table = self._to_change()
        keyed, rewrites = table.is_primary_key_table, rewrites_files(table, Operation.DELETE)
        by_place = not keyed or (marks_keyed_rows(table) and not rewrites)
        if keyed and not rewrites:
            self._check_deletes(table)
        predicate = parse_filter(condition, table.schema, zone=self._zone)
        plan = plan_select(with_all_rows(table), columns=() if by_place else None, predicate=predicate)
        if not (by_place or rewrites):
            counted = RowCounter(read_batches(plan))
            removals = Removals(counted, table)
            try:
                result = write_arrow(table, removals)
                return Written.of(counted.rows, result)
            except UnsupportedError:
                if not removals.refused:
                    raise
                rewrites = True
        counted = RowCounter(deletions(plan))
        result = change_arrow(table, counted, Operation.DELETE, rewrites=rewrites, snapshot_id=plan.snapshot_id)
        return Written.of(counted.rows, result)

    def _delete_keys(self, source: ArrowInput) -> Written:
        """Delete rows by keys by rewriting their files: the rows are looked up first."""
        table = self._to_change()
        check_rows(source, table, table.schema.primary_keys)
        schema = to_arrow_schema([table.schema.field(n) for n in table.schema.primary_keys])
        given = [b.select(schema.names) for b in exact_batches(source.batches(), table)]
        found = pa.Table.from_batches(given) if given else schema.empty_table()
        for name, column in zip(found.column_names, found.columns, strict=True):
            if column.null_count:
                raise missing_values(name, column.null_count, table.name)
        keys = found.cast(schema)
        plan = plan_select(with_all_rows(table))
        counted = RowCounter(deletions_of_keys(plan, keys))
        result = change_arrow(table, counted, Operation.DELETE, rewrites=True, snapshot_id=plan.snapshot_id)
        return Written.of(counted.rows, result)

    def _plan(
        self,
        columns: Iterable[str] | None,
        condition: str | None,
        version: int | str | None,
        as_of: Moment | None,
        limit: int | None,
    ) -> tuple[SelectPlan, ...]:
        if version is not None and as_of is not None:
            raise ArgumentError("version and as_of exclude each other.", hint="Leave one of them out.")
        changes = sorted(k for k in self._options if k.startswith("incremental-"))
        if changes and (version is not None or as_of is not None):
            raise ArgumentError(
                f"This handle of table {self.name} reads changes ('{changes[0]}'), and version and as_of select a "
                "state of the table.",
                hint="Use a handle without that option, or leave version and as_of out.",
            )
        table = self.load()
        if isinstance(version, int):
            table, version = table.with_options({"scan.snapshot-id": str(version)}), None
        moment = None if as_of is None else millis(as_of, "as_of")
        predicate: Predicate = TRUE
        if condition is not None:
            seen = schema_of_read(table, version=version, timestamp_millis=moment)
            predicate = parse_filter(condition, seen)
        return plan_reads(
            table,
            columns=None if columns is None else names(columns, "columns"),
            predicate=predicate,
            limit=limit,
            version=version,
            timestamp_millis=moment,
        )

    def _to_change(self) -> Table:
        """Return the table for a change, after rejecting options of the handle that select what is read."""
        chosen = sorted(k for k in self._options if k.startswith("scan.") or k in START_OPTIONS)
        if chosen:
            raise UsageError(
                f"This handle of table {self.name} has the option '{chosen[0]}', so it is read-only.",
                hint="Use a handle without that option.",
            )
        return self.load()

    def _keyed(self, what: str, hint: str) -> Table:
        table = self.load()
        if not table.is_primary_key_table:
            raise UsageError(f"Table {self.name} has no primary key, so it cannot {what}.", hint=hint)
        return table

    def _check_deletes(self, table: Table) -> None:
        if table.options.rowkind_field is not None:
            raise UnsupportedError(
                f"Table {self.name} stores the kind of each row in its column '{table.options.rowkind_field}'.",
                hint="Append rows of kind -D instead.",
            )

    def _repeated(self, once: Callable[[], _T], *, again: bool) -> _T:
        """Call `once`, and retry if it conflicts with another commit, or if an expiry removes what it reads."""
        attempt = 0
        while True:
            before = self._span()
            try:
                return once()
            except (ConflictError, CorruptTableError) as e:
                vanished = e.kind is ErrorKind.FILE_MISSING and self._span() != before
                lost = isinstance(e, ConflictError) and e.repeatable
                attempt += 1
                if not again or attempt >= _ATTEMPTS or not (vanished or lost):
                    raise
            time.sleep(min(_LONGEST_WAIT, _FIRST_WAIT * 2**attempt) * random.random())

    def _span(self) -> tuple[int | None, int | None]:
        snapshots = self.load().snapshots
        return snapshots.earliest_id(), snapshots.latest_id()


def _now() -> int:
    return time.time_ns() // 1_000_000
