"""CREATE TABLE with clauses that Spark's grammar lacks: WITH options, primary keys, and all types of the format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from paimon_spark.errors import SqlSyntaxError, UnsupportedError, UsageError
from paimon_spark.spec.types import DataField, not_null
from paimon_spark.sqlparse.cursor import Cursor
from paimon_spark.sqlparse.flink.statements import Computed, CreateTable, Watermark
from paimon_spark.sqlparse.flink.types import column_type

_MILLIS = {"SECOND": 1_000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}
_DELAY = re.compile(r"-\s*INTERVAL\s*(?:'([\d.]+)'|(\d+))\s*(SECOND|MINUTE|HOUR|DAY)S?(?:\s*\(\d+\))?", re.IGNORECASE)
_CLAUSES = ("COMMENT", "PARTITIONED BY", "DISTRIBUTED", "USING", "WITH", "TBLPROPERTIES")
_PROCTIME = re.compile(r"PROCTIME\s*\(\s*\)", re.IGNORECASE)


@dataclass(slots=True)
class _Columns:
    """The contents of the parentheses of a CREATE TABLE."""

    flink: bool
    temporary: bool
    fields: list[DataField] = field(default_factory=list)
    primary_key: tuple[str, ...] = ()
    computed: list[Computed] = field(default_factory=list)
    watermark: Watermark | None = None

    def read(self, cursor: Cursor) -> None:
        """Read one column or constraint."""
        if cursor.accept("WATERMARK", "FOR"):
            self._watermark(cursor)
            return
        if cursor.accept("CONSTRAINT"):
            cursor.identifier("the name of a constraint")
            if cursor.peek() != "PRIMARY":
                cursor.fail("expected PRIMARY KEY")
        if cursor.peek() == "PRIMARY" and cursor.peek(1) == "KEY":
            self._key(cursor)
        elif cursor.peek() == "LIKE":
            cursor.fail("CREATE TABLE … (LIKE …) is not supported: write CREATE TABLE a LIKE b")
        else:
            self._column(cursor)

    def _key(self, cursor: Cursor) -> None:
        cursor.expect("PRIMARY", "KEY")
        self._set_key(tuple(cursor.listed(lambda: cursor.identifier("a column"))))
        _not_enforced(cursor)

    def _set_key(self, columns: tuple[str, ...]) -> None:
        if self.primary_key:
            raise SqlSyntaxError("The statement has more than one PRIMARY KEY.")
        self.primary_key = columns

    def _column(self, cursor: Cursor) -> None:
        name = cursor.identifier("a column")
        if cursor.accept("AS"):
            self._computed(cursor, name)
            return
        found, comment, default = column_type(cursor, flink=self.flink), None, None
        while cursor.peek() not in (",", ")"):
            if cursor.accept("NOT", "NULL"):
                found = not_null(found)
            elif cursor.accept("COMMENT"):
                comment = cursor.string("a comment")
            elif cursor.accept("DEFAULT"):
                default = cursor.expression(",", ")", "COMMENT", "NOT", "PRIMARY")
            elif cursor.accept("PRIMARY", "KEY"):
                self._set_key((name,))
                _not_enforced(cursor)
            elif cursor.peek() == "METADATA":
                raise UnsupportedError(
                    f"The column '{name}' cannot be METADATA.",
                    hint="Leave it out: Spark's queries have the metadata columns _metadata and __paimon_file_path.",
                )
            else:
                cursor.fail("expected ',' or ')'")
        self.fields.append(DataField(len(self.fields), name, found, comment, default))

    def _computed(self, cursor: Cursor, name: str) -> None:
        if not self.temporary:
            raise UnsupportedError(
                f"The column '{name}' cannot be computed: a table stores all of its columns.",
                hint="Leave it out, and create a view that computes it.",
            )
        text = cursor.expression(",", ")", "COMMENT")
        if cursor.accept("COMMENT"):
            cursor.string("a comment")
        self.computed.append(Computed(name, _PROCTIME.sub("current_timestamp()", text), len(self.fields)))

    def _watermark(self, cursor: Cursor) -> None:
        if not self.temporary:
            raise UnsupportedError(
                "A stored table cannot have a WATERMARK clause.",
                hint="Leave it out, and call DataFrame.withWatermark on the stream that reads the table.",
            )
        if self.watermark is not None:
            raise SqlSyntaxError("The statement has more than one WATERMARK.")
        column = cursor.identifier("a column")
        cursor.expect("AS")
        same = cursor.identifier("the column of the watermark").lower() == column.lower()
        text = "" if cursor.peek() in (",", ")") else cursor.expression(",", ")")
        delay = _DELAY.fullmatch(text)
        if not same or (text and delay is None):
            raise UnsupportedError(
                f"The watermark of the column '{column}' is neither the column nor a fixed time before it.",
                hint=f"Write WATERMARK FOR {column} AS {column} - INTERVAL '5' SECOND; units are SECOND, MINUTE, HOUR "
                "and DAY.",
            )
        self.watermark = Watermark(column, 0 if delay is None else _millis(*delay.groups()))


def _millis(quoted: str | None, plain: str | None, unit: str) -> int:
    return int(Decimal(quoted or plain or "0") * _MILLIS[unit.upper()])


def _not_enforced(cursor: Cursor) -> None:
    cursor.accept("NOT", "ENFORCED")
    if cursor.accept("ENFORCED"):
        raise UnsupportedError(
            "A PRIMARY KEY cannot be ENFORCED: rows with the same key are merged.", hint="Write NOT ENFORCED."
        )


def create_table(cursor: Cursor, *, temporary: bool = False) -> CreateTable | None:
    """Read what follows CREATE [TEMPORARY] TABLE; return None for a statement without columns, unless it is WITH … AS.

    Raises:
        SqlSyntaxError: it does not parse.
        UnsupportedError: a column is METADATA or of type MULTISET; or a stored table has a computed column or a
            WATERMARK.
    """
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.path("the name of a table")
    listed, flink = cursor.peek() == "(", cursor.holds("WITH", "(")
    if not listed and (temporary or not flink or not cursor.holds("AS")):
        return None
    columns = _Columns(flink=flink, temporary=temporary)
    if listed:
        cursor.listed(lambda: columns.read(cursor))
    clauses = _Clauses()
    while clauses.read(cursor):
        pass
    options = clauses.options
    given = options.get("primary-key")
    if columns.primary_key and given is not None:
        raise UsageError("The table has a PRIMARY KEY and the option 'primary-key'.", hint="Leave one of them out.")
    query = cursor.rest() if cursor.accept("AS") else None
    return CreateTable(
        name,
        tuple(columns.fields),
        options,
        columns.primary_key,
        clauses.partition_keys,
        clauses.comment,
        if_not_exists,
        temporary,
        query,
        clauses.provider,
        tuple(columns.computed),
        columns.watermark,
    )


def replace_table(cursor: Cursor) -> None:
    """Read what follows CREATE OR REPLACE TABLE, which is left to Spark.

    Raises:
        UnsupportedError: it has clauses of Flink's.
    """
    if cursor.holds("WITH", "("):
        raise UnsupportedError(
            "CREATE OR REPLACE TABLE has no clause WITH (…).",
            hint="Write CREATE OR REPLACE TABLE t (…) TBLPROPERTIES ('primary-key' = …).",
        )


@dataclass(slots=True)
class _Clauses:
    """The clauses after the columns of a CREATE TABLE, in any order."""

    comment: str | None = None
    partition_keys: tuple[str, ...] = ()
    provider: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def read(self, cursor: Cursor) -> bool:
        """Read one clause; return whether there was one."""
        clause = next((c for c in _CLAUSES if cursor.accept(*c.split())), None)
        if clause is None:
            return False
        if clause in self.seen:
            raise SqlSyntaxError(f"The statement has more than one {clause}.")
        self.seen.add(clause)
        if clause == "COMMENT":
            self.comment = cursor.string("a comment")
        elif clause == "PARTITIONED BY":
            self.partition_keys = tuple(cursor.listed(lambda: cursor.identifier("a column")))
        elif clause == "DISTRIBUTED":
            self._set(clause, _distribution(cursor))
        elif clause == "USING":
            self.provider = cursor.identifier("a provider")
        else:
            self._set(clause, cursor.options())
        return True

    def _set(self, clause: str, options: Mapping[str, str]) -> None:
        for key, value in options.items():
            if self.options.setdefault(key, value) != value:
                raise UsageError(
                    f"The option '{key}' is '{self.options[key]}', and '{value}' by the clause {clause}.",
                    hint="Leave one of them out.",
                )


def _distribution(cursor: Cursor) -> dict[str, str]:
    options = {}
    if cursor.accept("BY"):
        cursor.accept("HASH")
        options["bucket-key"] = ",".join(cursor.listed(lambda: cursor.identifier("a column")))
    cursor.expect("INTO")
    options["bucket"] = str(cursor.number("a number of buckets"))
    cursor.expect("BUCKETS")
    return options
