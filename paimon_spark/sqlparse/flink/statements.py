"""The statements of Flink's SQL that are handled here, as parsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from paimon_spark.spec.column_changes import ColumnChange
from paimon_spark.spec.types import DataField

Name = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CreateCatalog:
    """CREATE CATALOG name COMMENT comment WITH (options)."""

    name: str
    options: Mapping[str, str]
    if_not_exists: bool = False
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class DropCatalog:
    """DROP CATALOG name."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class UseCatalog:
    """USE CATALOG name."""

    name: str


@dataclass(frozen=True, slots=True)
class Computed:
    """A column `name AS expression`, and how many stored columns are before it."""

    name: str
    expression: str
    after: int


@dataclass(frozen=True, slots=True)
class Watermark:
    """WATERMARK FOR column AS column - delay."""

    column: str
    delay_millis: int


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE TABLE with a primary key constraint, options or types that Spark's grammar lacks.

    `query` is the text after AS, whose columns the table has if there are no `fields`; `temporary` whether the table is
    a connector of the session. Only such a table has computed columns and a watermark.
    """

    name: Name
    fields: tuple[DataField, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    primary_key: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    comment: str | None = None
    if_not_exists: bool = False
    temporary: bool = False
    query: str | None = None
    provider: str | None = None
    computed: tuple[Computed, ...] = ()
    watermark: Watermark | None = None


@dataclass(frozen=True, slots=True)
class DropTemporaryTable:
    """DROP TEMPORARY TABLE name."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetTableOptions:
    """ALTER TABLE name SET (…) or RESET (…)."""

    name: Name
    options: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterColumns:
    """ALTER TABLE name ADD, MODIFY, RENAME or DROP of columns."""

    name: Name
    changes: tuple[ColumnChange, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetKey:
    """SET 'key' = 'value' of a key that is not a Paimon option; without a value, a query of it."""

    key: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ResetKey:
    """RESET 'key'."""

    key: str


@dataclass(frozen=True, slots=True)
class ShowJobs:
    """SHOW JOBS."""


@dataclass(frozen=True, slots=True)
class StopJob:
    """STOP JOB 'id' [WITH SAVEPOINT] [WITH DRAIN]."""

    job: str
    savepoint: bool = False


@dataclass(frozen=True, slots=True)
class StatementSet:
    """INSERTs between BEGIN and END, each of which starts on its own."""

    statements: tuple[str, ...] = ()


Statement = (
    CreateCatalog
    | DropCatalog
    | UseCatalog
    | CreateTable
    | DropTemporaryTable
    | SetTableOptions
    | AlterColumns
    | SetKey
    | ResetKey
    | ShowJobs
    | StopJob
    | StatementSet
)
