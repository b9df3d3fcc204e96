"""The Spark jobs of procedures that shuffle rows, in one session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.table import Table
from paimon_spark.engine.merge_into import MergeRequest, PreparedMerge
from paimon_spark.engine.migrate import SourceTable
from paimon_spark.engine.redistribution.postpone_compact import PostponedPlan
from paimon_spark.engine.redistribution.rescale import RescalePlan
from paimon_spark.engine.redistribution.sort_compact import SortPlan
from paimon_spark.spark.column_merge import prepare_column_merge
from paimon_spark.spark.failures import was_cancelled
from paimon_spark.spark.job_control import cancel_tagged, tagged
from paimon_spark.spark.jvm_frames import tasks_at_once
from paimon_spark.spark.merge_into import prepare_merge
from paimon_spark.spark.rebucket import move_rows
from paimon_spark.spark.session_tables import describe_table, drop_table, table_names
from paimon_spark.spark.sort import rewrite_sorted
from paimon_spark.spec.identifier import Identifier


class SessionJobs:
    """`SparkJobs` and `JobControl` of one session and one of its catalogs."""

    def __init__(self, session: SparkSession, catalog: str) -> None:
        self._session = session
        self._catalog = catalog

    def prepare_merge(self, table: Table, name: Identifier, request: MergeRequest) -> PreparedMerge:
        """Check a merge into the table called `name`, and prepare it."""
        return prepare_merge(self._session, self._catalog, table, name, request)

    def prepare_column_merge(
        self, table: Table, name: Identifier, request: MergeRequest, updates: str
    ) -> PreparedMerge:
        """Check a merge of columns into the table called `name`, and prepare it."""
        return prepare_column_merge(self._session, self._catalog, table, name, request, updates)

    @contextmanager
    def tagged(self, tag: str, title: str) -> Iterator[None]:
        """Tag the jobs of the block, and describe those without a description."""
        with tagged(self._session, tag, title):
            yield

    def cancel(self, tag: str) -> None:
        """Cancel the jobs with a tag."""
        cancel_tagged(self._session, tag)

    def was_cancelled(self, error: Exception) -> bool:
        """Return whether an error is that of a cancelled job."""
        return was_cancelled(error)

    @property
    def tasks_at_once(self) -> int:
        """Return the number of concurrent tasks."""
        return tasks_at_once(self._session)

    def replay_postponed(self, plan: PostponedPlan) -> list[CommitMessage]:
        """Write the rows of the plan's files to their buckets, in order; nothing is committed."""
        return move_rows(self._session, plan.table, plan.write, plan.splits)

    def rewrite_buckets(self, plan: RescalePlan) -> list[CommitMessage]:
        """Write the rows of the plan's splits to their new buckets; nothing is committed."""
        return move_rows(self._session, plan.table, plan.write, plan.splits)

    def rewrite_sorted(self, plan: SortPlan) -> list[CommitMessage]:
        """Write the rows of the plan's files into new files, in order; nothing is committed."""
        return rewrite_sorted(self._session, plan)

    def describe_source(self, name: str) -> SourceTable:
        """Return a table of the session's own catalog."""
        return describe_table(self._session, name)

    def list_sources(self, database: str) -> list[str]:
        """Return the names of the tables of a database of the session's own catalog, sorted."""
        return table_names(self._session, database)

    def drop_source(self, name: str) -> None:
        """Drop a table of the session's own catalog."""
        drop_table(self._session, name)
