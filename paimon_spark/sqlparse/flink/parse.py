"""Parses the statements of Flink's SQL that Spark's grammar lacks (docs/flink-sql.md)."""

from __future__ import annotations

from collections.abc import Callable

from paimon_spark.errors import SqlSyntaxError
from paimon_spark.sqlparse.cursor import Cursor
from paimon_spark.sqlparse.flink.alter import alter_table
from paimon_spark.sqlparse.flink.create import create_table, replace_table
from paimon_spark.sqlparse.flink.statements import (
    CreateCatalog,
    DropCatalog,
    DropTemporaryTable,
    ResetKey,
    SetKey,
    ShowJobs,
    Statement,
    StatementSet,
    StopJob,
    UseCatalog,
)
from paimon_spark.sqlparse.script import split_script


def parse_statement(text: str) -> Statement | None:
    """Return the statement, or None for one that is left to Spark.

    Raises:
        SqlSyntaxError: the statement starts as one of these, but does not parse.
    """
    cursor = Cursor(text)
    for words, read in _FORMS:
        if cursor.accept(*words):
            found = read(cursor)
            if found is not None:
                cursor.end()
            return found
    return None


def _create_catalog(cursor: Cursor) -> Statement:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.identifier("the name of a catalog")
    comment = cursor.string("a comment") if cursor.accept("COMMENT") else None
    cursor.expect("WITH")
    return CreateCatalog(name, cursor.options(), if_not_exists, comment)


def _drop_catalog(cursor: Cursor) -> Statement:
    if_exists = cursor.accept("IF", "EXISTS")
    return DropCatalog(cursor.identifier("the name of a catalog"), if_exists)


def _drop_temporary(cursor: Cursor) -> Statement:
    if_exists = cursor.accept("IF", "EXISTS")
    return DropTemporaryTable(cursor.identifier("the name of a table"), if_exists)


def _use_catalog(cursor: Cursor) -> Statement:
    return UseCatalog(cursor.identifier("the name of a catalog"))


def _set(cursor: Cursor) -> Statement | None:
    quoted = cursor.at_string
    key = _key(cursor)
    if cursor.done:
        return SetKey(key) if quoted else None
    cursor.expect("=")
    return SetKey(key, cursor.string("a value") if cursor.at_string else cursor.rest())


def _reset(cursor: Cursor) -> Statement:
    return ResetKey(_key(cursor))


def _key(cursor: Cursor) -> str:
    if not cursor.at_string:
        return cursor.expression("=")
    key = cursor.string("a key")
    if not key or "=" in key:
        raise SqlSyntaxError(f"'{key}' is not a key.", hint="Write SET 'key' = 'value', SET 'key' or RESET 'key'.")
    return key


def _create_temporary(cursor: Cursor) -> Statement | None:
    return create_table(cursor, temporary=True)


def _show_jobs(cursor: Cursor) -> Statement:
    del cursor
    return ShowJobs()


def _stop_job(cursor: Cursor) -> Statement:
    job, savepoint = cursor.string("the id of a job"), False
    while cursor.accept("WITH"):
        savepoint |= cursor.accept("SAVEPOINT")
        cursor.accept("DRAIN")
    return StopJob(job, savepoint)


def _statement_set(cursor: Cursor) -> Statement:
    """Read the INSERTs; a client that splits statements at semicolons sends each as a separate text."""
    inserts = [s.text for s in split_script(cursor.rest())]
    if inserts and inserts[-1].upper() == "END":
        inserts.pop()
    for text in inserts:
        if not text.upper().startswith("INSERT"):
            raise SqlSyntaxError(f"A statement set holds INSERT statements only, not '{text.split()[0]}'.")
    return StatementSet(tuple(inserts))


_FORMS: tuple[tuple[tuple[str, ...], Callable[[Cursor], Statement | None]], ...] = (
    (("CREATE", "CATALOG"), _create_catalog),
    (("DROP", "CATALOG"), _drop_catalog),
    (("USE", "CATALOG"), _use_catalog),
    (("DROP", "TEMPORARY", "TABLE"), _drop_temporary),
    (("CREATE", "TABLE"), create_table),
    (("CREATE", "OR", "REPLACE", "TABLE"), replace_table),
    (("CREATE", "TEMPORARY", "TABLE"), _create_temporary),
    (("ALTER", "TABLE"), alter_table),
    (("SHOW", "JOBS"), _show_jobs),
    (("STOP", "JOB"), _stop_job),
    (("EXECUTE", "STATEMENT", "SET", "BEGIN"), _statement_set),
    (("BEGIN", "STATEMENT", "SET"), _statement_set),
    (("END",), _statement_set),
    (("SET",), _set),
    (("RESET",), _reset),
)


def belongs_to_flink(text: str) -> bool:
    """Return whether a statement that does not parse is written in Flink's SQL rather than in Spark's."""
    cursor = Cursor(text)
    if cursor.peek(1) in ("CATALOG", "JOB", "JOBS", "STATEMENT"):
        return True
    if cursor.peek(1) == "TEMPORARY" and cursor.peek(2) == "TABLE":
        return True
    if cursor.accept("CREATE"):
        return cursor.holds("WITH", "(") or "ENFORCED" in text.upper()
    return (cursor.accept("SET") or cursor.accept("RESET")) and cursor.at_string
