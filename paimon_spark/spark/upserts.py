"""An INSERT as Spark jobs: of a table with `upsert-key` as a MERGE by that key, of any other as a plain write.

An upsert reads the key and the sequence of all stored rows, and joins them with the new rows by one shuffle. Where it
finds no stored rows, it writes as a plain INSERT does.

(docs/spec/semantics.md, D8)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import and_

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from paimon_spark.core.columns import FILE_PATH, ROW_KIND
from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.row_level.upserted_rows import PLACE, UpsertRules, ambiguous, upserts
from paimon_spark.core.scan.splits import Split
from paimon_spark.core.spill.space import local_directories
from paimon_spark.core.table import Table
from paimon_spark.engine.insert import Overwrite, WritePlan, WriteResult, check_written
from paimon_spark.engine.streaming.sink import StreamBatch
from paimon_spark.engine.upsert import finish_upsert, plan_upsert, stored_splits, write_upsert
from paimon_spark.errors import ErrorKind, UnsupportedError
from paimon_spark.spark.failures import whole_text
from paimon_spark.spark.read_modes import ReadRequest
from paimon_spark.spark.reads import read_frame
from paimon_spark.spark.row_level import write_changes
from paimon_spark.spark.runner import NearRunner
from paimon_spark.spark.small_writes import MOST_KEYS, few_batches
from paimon_spark.spark.store_assignment import column_type, padded
from paimon_spark.spark.writes import write_checked, write_frame, write_tasks
from paimon_spark.spec.defaults import sql_default
from paimon_spark.spec.kinds import Operation, RowKind
from paimon_spark.spec.predicate import TRUE, Predicate
from paimon_spark.spec.quoted_text import quoted_name
from paimon_spark.spec.types import DataField, beyond_micros

Check = Callable[[Sequence[CommitMessage]], None]
_COUNT, _RANK = "__count__", "__rank__"


def insert_frame(
    session: SparkSession,
    table: Table,
    frame: DataFrame,
    *,
    overwrite: Overwrite | None = None,
    partitions: Predicate | None = None,
    operation: Operation | None = None,
    batch: StreamBatch | None = None,
) -> WriteResult:
    """Insert the rows of `frame`, whose columns are the table's in order, and commit them; by `upsert-key`, if set.

    An overwrite writes all rows, whatever their keys.

    Raises:
        UsageError: several rows would replace the same row, and there is no `sequence.field`.
        PaimonError: the write failed; the table is as it was and the new files are deleted.
    """
    if overwrite is None and upserts(table):
        upsert = _Upsert(session, table, UpsertRules.of(table), frame)
        plain = partial(write_frame, operation=operation, batch=batch)
        return upsert.run(plain, batch=batch)
    return write_frame(
        session, table, frame, overwrite=overwrite, partitions=partitions, operation=operation, batch=batch
    )


def insert_checked(session: SparkSession, table: Table, frame: DataFrame, check: Check) -> WriteResult:
    """Insert the rows of `frame`; `check` is called with the commit messages and may reject the commit.

    Raises:
        PaimonError: see `insert_frame`; or the commit was refused.
    """
    if not upserts(table):
        return write_checked(session, table, frame, check)
    return _Upsert(session, table, UpsertRules.of(table), frame).run(partial(write_checked, check=check), check=check)


@dataclass(frozen=True, slots=True)
class _Upsert:
    session: SparkSession
    table: Table
    rules: UpsertRules
    frame: DataFrame

    def run(
        self,
        plain: Callable[[SparkSession, Table, DataFrame], WriteResult],
        *,
        batch: StreamBatch | None = None,
        check: Check | None = None,
    ) -> WriteResult:
        """Write the rows, by `plain` if no row is stored."""
        self._check_digits()
        table = self.table
        plan = plan_upsert(table, parallelism=write_tasks(self.session, table), batch=batch)
        splits = stored_splits(table, plan.snapshot_id)
        if not splits:
            rows = [f.col(_new(i)).alias(name) for i, name in enumerate(table.schema.field_names)]
            return plain(self.session, table, self._new_rows().select(*rows))
        messages = self._written(plan, splits)
        if check is not None:
            check_written(plan, messages, partial(check, messages))
        return finish_upsert(plan, messages, NearRunner(self.session, table))

    def _written(self, plan: WritePlan, splits: tuple[Split, ...]) -> list[CommitMessage]:
        """Write the changes: in this process, if new and stored rows are few."""
        few = sum(s.file_rows for s in splits) <= MOST_KEYS
        batches = few_batches(self.session, plan, self.frame) if few else None
        if batches is not None:
            return write_upsert(plan, batches, splits, local_directories())
        try:
            return write_changes(self.session, plan, self._changes(self._new_rows(), splits))
        except PySparkException as error:
            if ErrorKind.MERGE_CARDINALITY_VIOLATION in whole_text(error):
                raise ambiguous(self.table.name, self.rules) from error
            raise

    def _check_digits(self) -> None:
        cut = [c.name for c in self.rules.compared if beyond_micros(c.type) is not None]
        if cut:
            raise UnsupportedError(
                f"Table {self.table.name} has the column '{cut[0]}' in 'upsert-key' or 'sequence.field', whose "
                "timestamps have more than 6 digits of a second, of which Spark would compare only 6.",
                hint="Insert the rows by append of the Python API, which compares all digits.",
            )

    def _new_rows(self) -> DataFrame:
        """Return the rows to insert, with the values to compare: the newest of each key, or all with their number."""
        fields = self.table.schema.fields
        rows = self.frame.toDF(*[_new(i) for i in range(len(fields))])
        at = {field.name: _new(i) for i, field in enumerate(fields)}
        keys = [_compared(f.col(at[k.name]), k).alias(_key(i)) for i, k in enumerate(self.rules.key)]
        order = [_compared(f.col(at[s.name]), s).alias(_sequence(i)) for i, s in enumerate(self.rules.sequence)]
        rows = rows.select("*", *keys, *order)
        same = Window.partitionBy(*[_key(i) for i in range(len(keys))])
        if not order:
            return rows.withColumn(_COUNT, f.count(f.lit(1)).over(same))
        ties = [_compared(f.col(at[t.name]), t) for t in self.rules.ties]
        by = [*(f.col(_sequence(i)) for i in range(len(order))), *ties]
        newest = same.orderBy(*[value.desc_nulls_last() for value in by])
        return rows.withColumn(_RANK, f.row_number().over(newest)).where(f.col(_RANK) == 1).drop(_RANK)

    def _stored(self, splits: tuple[Split, ...]) -> DataFrame:
        """Return the keys, the sequences and the places of the stored rows."""
        names = {c.name for c in self.rules.compared}
        columns = tuple(c for c in self.table.schema.field_names if c in names)
        found = read_frame(self.session, ReadRequest(self.table, columns, TRUE, splits, metadata=PLACE))
        keys = [padded(_column(k), k).alias(_stored(_key(i))) for i, k in enumerate(self.rules.key)]
        order = [padded(_column(s), s).alias(_stored(_sequence(i))) for i, s in enumerate(self.rules.sequence)]
        return found.select(*keys, *order, *PLACE)

    def _changes(self, new: DataFrame, splits: tuple[Split, ...]) -> DataFrame:
        """Return the rows for `write_changes`."""
        pairs = ((f.col(_key(i)), f.col(_stored(_key(i)))) for i in range(len(self.rules.key)))
        equal = reduce(and_, (here.eqNullSafe(there) for here, there in pairs))
        joined = new.join(self._stored(splits), equal, "left_outer")
        present = f.col(FILE_PATH).isNotNull()
        joined = joined.where(~present | ~self._older() if self.rules.sequence else self._once(present))
        added, updated, removed = (
            f.lit(int(kind)).cast("tinyint") for kind in (RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE)
        )
        rows = [f.col(_new(i)).alias(name) for i, name in enumerate(self.table.schema.field_names)]
        if not self.rules.moves:
            return joined.select(*rows, f.when(present, updated).otherwise(added).alias(ROW_KIND), *PLACE)
        kinds = f.when(present, f.array(removed, added)).otherwise(f.array(added))
        both = joined.withColumn(ROW_KIND, f.explode(kinds))
        places = [f.when(f.col(ROW_KIND) == removed, f.col(name)).alias(name) for name in PLACE]
        return both.select(*rows, ROW_KIND, *places)

    def _older(self) -> Column:
        """Return whether a new row has a smaller sequence than the stored one."""
        older = f.lit(col=False)
        for i in reversed(range(len(self.rules.sequence))):
            new, stored = f.col(_sequence(i)), f.col(_stored(_sequence(i)))
            less = (new.isNull() & stored.isNotNull()) | f.coalesce(new < stored, f.lit(col=False))
            older = less | (new.eqNullSafe(stored) & older)
        return older

    def _once(self, present: Column) -> Column:
        """Return true, or fail where several new rows replace a stored one."""
        error = f.raise_error(f.lit(str(ambiguous(self.table.name, self.rules)))).cast("boolean")
        return f.when(present & (f.col(_COUNT) > 1), error).otherwise(f.lit(col=True))


def _new(i: int) -> str:
    return f"__new_{i}__"


def _key(i: int) -> str:
    return f"__key_{i}__"


def _sequence(i: int) -> str:
    return f"__sequence_{i}__"


def _stored(name: str) -> str:
    return f"__stored{name}"


def _column(field: DataField) -> Column:
    return f.col(quoted_name(field.name))


def _compared(value: Column, field: DataField) -> Column:
    """Return a new value as it is compared: as it will be stored, with the default of its column."""
    if field.default_value is not None:
        default = f.expr(sql_default(field.default_value, field.type)).cast(column_type(field))
        value = f.coalesce(value, default)
    return padded(value, field)
