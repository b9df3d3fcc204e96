"""Context of a CALL: catalog, current database, runner, clock and session options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any, Protocol

from paimon_spark.catalog.base import Directories
from paimon_spark.core.table import Table
from paimon_spark.errors import ArgumentError, EngineError, ErrorKind
from paimon_spark.spec.evolution import SchemaChange
from paimon_spark.spec.identifier import Identifier, check_name, split_name
from paimon_spark.spec.privileges import Privilege
from paimon_spark.spec.schema import TableSchema

if TYPE_CHECKING:  # importing them would load the whole engine
    from paimon_spark.engine.runner import TaskRunner
    from paimon_spark.engine.spark_jobs import JobControl, SparkJobs


class TableSource(Protocol):
    """Catalog operations that a CALL uses."""

    @property
    def options(self) -> Mapping[str, str]:
        """Return the catalog options."""

    def load_table(self, identifier: Identifier, dynamic_options: Mapping[str, str] | None = None) -> Table:
        """Return the table; `dynamic_options` override its own options."""

    def alter_table(self, identifier: Identifier, changes: Sequence[SchemaChange]) -> Table:
        """Apply schema changes as one new schema version and return the table."""

    def create_table(self, identifier: Identifier, schema: TableSchema, *, ignore_if_exists: bool = False) -> Table:
        """Create a table and return it."""

    def drop_table(self, identifier: Identifier, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a table and delete its files."""

    def table_path(self, identifier: Identifier) -> str:
        """Return the directory of a table, whether it exists or not."""

    def table_exists(self, identifier: Identifier) -> bool:
        """Return whether the table exists."""

    def database_exists(self, name: str) -> bool:
        """Return whether the database exists."""

    def create_database(
        self, name: str, *, ignore_if_exists: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        """Create a database."""

    def list_databases(self) -> list[str]:
        """Return the names of all databases, sorted."""

    def list_tables(self, database: str) -> list[str]:
        """Return the names of the tables of a database, sorted."""

    def list_directories(self, database: str) -> Directories:
        """Return the names of the tables of a database, and of what has lost its schema, by one listing."""


def no_progress(done: int, total: int, what: str) -> None:
    """Ignore progress."""


def no_options(identifier: Identifier) -> Mapping[str, str]:
    """Return no session options."""
    return {}


def no_help(name: str | None) -> list[tuple[Any, ...]]:
    """Return no help rows."""
    del name
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """Resources of one CALL.

    `zone` is the time zone of timestamps in arguments; `table_options` returns the session options of a table;
    `help_rows` returns the rows of `CALL sys.help()`, for all procedures or one; `jobs` runs Spark jobs, None without
    Spark; `control` names and cancels them; `user` is the user who runs the CALL; `requires` is the privilege on each
    table that the CALL loads.
    """

    catalog: TableSource
    catalog_name: str
    runner: TaskRunner
    clock_millis: Callable[[], int]
    current_database: str = "default"
    progress: Callable[[int, int, str], None] = no_progress
    zone: tzinfo = UTC
    table_options: Callable[[Identifier], Mapping[str, str]] = no_options
    help_rows: Callable[[str | None], list[tuple[Any, ...]]] = no_help
    jobs: SparkJobs | None = None
    control: JobControl | None = None
    user: str = ""
    requires: Privilege | None = None

    def identifier(self, text: str, parameter: str = "table") -> Identifier:
        """Return the table that an argument names: ``t``, ``db.t`` or ``catalog.db.t``, each with ``$branch_x``.

        Raises:
            ArgumentError: it is not a table name, or names another catalog or a system table.
        """
        return self.identifier_of(split_name(text), parameter)

    def identifier_of(self, parts: Sequence[str], parameter: str = "table") -> Identifier:
        """Return the table with a multi-part name, as `identifier` does.

        Raises:
            ArgumentError: it is not a table name, or names another catalog or a system table.
        """
        identifier = Identifier.of(self._without_catalog(list(parts), parameter), self.current_database)
        if identifier.system_table is not None:
            raise ArgumentError(
                f"The argument '{parameter}' names the system table '{identifier.full_name}'.",
                hint=f"Name the table itself: '{identifier.data_table.full_name}'.",
            )
        return identifier

    def table(self, text: str, options: Mapping[str, str] | None = None, parameter: str = "table") -> Table:
        """Load the table that an argument names; `options` override the session's options.

        Raises:
            ArgumentError: the argument is not the name of a table of this catalog.
            NotFoundError: there is no such table.
        """
        return self.load(self.identifier(text, parameter), options)

    def load(self, identifier: Identifier, options: Mapping[str, str] | None = None) -> Table:
        """Load a table; `options` override the session's options.

        Raises:
            NotFoundError: there is no such table.
            AccessDeniedError: the user does not have the privilege that the CALL requires.
        """
        dynamic = {**self.table_options(identifier), **(options or {})}
        table = self.catalog.load_table(identifier, dynamic).in_zone(self.zone)
        if self.requires is not None:
            table.require(self.requires)
        return table

    def whole_database(self, text: str, parameter: str = "table") -> str | None:
        """Return the database of an argument ``db.*`` or ``catalog.db.*``; None if the argument names one table.

        Raises:
            ArgumentError: it names another catalog.
        """
        parts = split_name(text)
        if len(parts) < 2 or parts[-1] != "*":
            return None
        database = self._without_catalog(parts, parameter)[0]
        check_name(database, "database")
        return database

    def _without_catalog(self, parts: list[str], parameter: str) -> list[str]:
        if len(parts) != 3:
            return parts
        if parts[0].lower() != self.catalog_name.lower():
            raise ArgumentError(
                f"The argument '{parameter}' names the catalog '{parts[0]}', but the CALL runs in the catalog "
                f"'{self.catalog_name}'.",
                hint=f"Write CALL {parts[0]}.sys.…, or name a table of '{self.catalog_name}'.",
            )
        return parts[1:]

    def spark_jobs(self, procedure: str) -> SparkJobs:
        """Return the runner of Spark jobs, for a procedure that requires Spark.

        Raises:
            EngineError: this CALL runs without Spark.
        """
        if self.jobs is None:
            raise EngineError(
                f"{procedure} requires Spark, but this CALL runs without it.",
                hint='Run it in spark-sql, or with `paimon-spark sql -e "CALL sys.…"`.',
                kind=ErrorKind.ENVIRONMENT,
            )
        return self.jobs
