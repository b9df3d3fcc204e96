"""Write docs/errors.md from ErrorKind: ``python docs/generate_errors.py``."""

from __future__ import annotations

from pathlib import Path

from paimon_spark.errors import ErrorKind

#: Cause and remedy of each code.
GUIDE: dict[ErrorKind, tuple[str, str]] = {
    ErrorKind.INVALID_ARGUMENT: (
        "An argument of a procedure, a partition text or a literal is wrong, missing, given twice or of another type.",
        "The message shows the signature. `CALL sys.help('<procedure>')` explains every argument.",
    ),
    ErrorKind.INVALID_OPTION: (
        "A table or catalog option has an unknown name or an impossible value.",
        "The message lists the possible values, or the name that was probably meant.",
    ),
    ErrorKind.SQL_SYNTAX: (
        "A statement that belongs to paimon-spark (CALL, EXPLAIN CALL) or a script does not parse.",
        "The message names the line and the column.",
    ),
    ErrorKind.SCHEMA_INVALID: (
        "A table cannot be created or changed in this way: a key column that does not exist, a bucket key on a map …",
        "Change the definition as the message describes.",
    ),
    ErrorKind.TYPE_MISMATCH: (
        "A value or a column has a type that cannot be cast to the required one.",
        "Add an explicit CAST, or choose a type change that preserves all values.",
    ),
    ErrorKind.NOT_NULL_VIOLATION: (
        "A row has NULL in a column that is declared NOT NULL; key columns always are. If Spark checks first, the "
        "code is `NOT_NULL_ASSERT_VIOLATION`.",
        "Filter or default the value before it is written. Nothing of the statement was committed.",
    ),
    ErrorKind.MERGE_CARDINALITY_VIOLATION: (
        "Several rows of the source of MERGE INTO, or of an INSERT by `upsert-key`, match one row of the table, so its "
        "new state would be ambiguous.",
        "Make the source unique in the columns of ON or of `upsert-key`, for example with GROUP BY; for an INSERT, "
        "`sequence.field` can tell which row is the newest. Nothing was committed.",
    ),
    ErrorKind.DATABASE_NOT_FOUND: ("The database does not exist.", "`SHOW DATABASES` lists those that do."),
    ErrorKind.DATABASE_NOT_EMPTY: (
        "The database to be dropped still has tables. In Spark the code is its own `SCHEMA_NOT_EMPTY`.",
        "Drop its tables first, or use `CASCADE`.",
    ),
    ErrorKind.TABLE_NOT_FOUND: (
        "The table does not exist, the directory named is not a table, or the table was dropped, renamed or created "
        "again while a statement wrote to it.",
        "`SHOW TABLES` lists those that do; the message names a similar one if there is one.",
    ),
    ErrorKind.COLUMN_NOT_FOUND: ("The table has no such column.", "`DESCRIBE <table>` lists the columns."),
    ErrorKind.PROCEDURE_NOT_FOUND: (
        "There is no such procedure, or it exists in Apache Paimon but not in this release; the message states which.",
        "`CALL sys.help()` lists all of them.",
    ),
    ErrorKind.SNAPSHOT_NOT_FOUND: (
        "The snapshot does not exist: it was never written, or it has expired.",
        "``SELECT snapshot_id FROM `<table>$snapshots` `` lists those that do. A tag protects a snapshot from expiry.",
    ),
    ErrorKind.TAG_NOT_FOUND: (
        "The tag does not exist.",
        "``SELECT tag_name FROM `<table>$tags` `` lists those that do.",
    ),
    ErrorKind.SCHEMA_NOT_FOUND: (
        "A schema version that a snapshot or a file refers to is not in the table's directory.",
        "Restore the file `schema/schema-<id>`; without it the files that need it cannot be read.",
    ),
    ErrorKind.DATABASE_EXISTS: ("A database of that name exists.", "Use `IF NOT EXISTS`, or choose another name."),
    ErrorKind.TABLE_EXISTS: ("A table or view of that name exists.", "Use `IF NOT EXISTS`, or choose another name."),
    ErrorKind.TAG_EXISTS: (
        "A tag of that name exists. Tags are never replaced silently.",
        "Choose another name, or delete the tag first with `CALL sys.delete_tag(…)`.",
    ),
    ErrorKind.UNSUPPORTED_FEATURE: (
        "The table or the statement uses a feature of the format that this release does not implement.",
        "The message names the feature. Nothing is read or written partially; see [compatibility](compatibility.md).",
    ),
    ErrorKind.UNSUPPORTED_STORE: (
        "The warehouse is in a store that paimon-spark cannot use, or cannot commit to safely.",
        "Use a local or a mounted shared file system, or [S3](s3.md) with conditional writes.",
    ),
    ErrorKind.STORE_ACCESS_DENIED: (
        "The object store rejects the credentials or denies the request.",
        "Check the options of [the catalog](s3.md). A write changed nothing; a removal of files may have begun.",
    ),
    ErrorKind.BUCKET_NOT_FOUND: (
        "The bucket of the warehouse does not exist at the given endpoint.",
        "Create the bucket, or correct the warehouse or the endpoint. Buckets are never created automatically.",
    ),
    ErrorKind.PRIVILEGE_MISSING: (
        "The warehouse has privileges, and the user of the catalog does not have the one that the statement requires.",
        "Log in as another user, or let a user with the privilege ADMIN run the CALL in the message. See "
        "[privileges](privileges.md).",
    ),
    ErrorKind.LOGIN_FAILED: (
        "The warehouse has privileges, and the catalog options `user` and `password` are not those of a user.",
        "Correct the options. Without them, the user is `anonymous`.",
    ),
    ErrorKind.STORE_UNAVAILABLE: (
        "The object store does not respond, or reports failures, after several attempts.",
        "Check the endpoint and the network. Then run the statement again.",
    ),
    ErrorKind.STORE_FULL: (
        "The store has no space for a file: a disk without space or inodes, an exhausted quota, a limit on the size of "
        "files.",
        "Free space, then run the statement again. Nothing of the failed one was committed; `remove_orphan_files` "
        "removes files that a crashed process may have left.",
    ),
    ErrorKind.CORRUPT_METADATA: (
        "A snapshot, schema, manifest, tag or index file is malformed or truncated. The message names the file.",
        "Restore the file, or roll back to a tag or snapshot that is intact.",
    ),
    ErrorKind.CORRUPT_DATA_FILE: (
        "A data file is malformed or truncated. The message names the file.",
        "Restore the file, or roll back to a tag or snapshot that does not refer to it.",
    ),
    ErrorKind.FILE_MISSING: (
        "A file that the table refers to is missing: deleted by hand, or expired while it was being read. Where "
        "Spark's own reader reads the files, the error is Spark's `FAILED_READ_FILE.FILE_NOT_EXIST`.",
        "Read a newer snapshot. If the newest one is affected, restore the file or roll back.",
    ),
    ErrorKind.COMMIT_CONFLICT: (
        "Another commit conflicts with this one, for example because it compacted its files or replaced the table.",
        "Nothing was committed. Run the statement again.",
    ),
    ErrorKind.COMMIT_RETRIES_EXHAUSTED: (
        "Other writers committed first in every attempt that `commit.max-retries` and `commit.timeout` allow.",
        "Nothing was committed. Run the statement again, with fewer concurrent writers or higher limits.",
    ),
    ErrorKind.COMMIT_OUTCOME_UNKNOWN: (
        "The store failed during a commit, and reading back did not show whether it took place.",
        "Check ``SELECT * FROM `<table>$snapshots` `` before you repeat the statement.",
    ),
    ErrorKind.STATEMENT_CANCELLED: (
        "The statement was cancelled: by Ctrl-C, by `cancelJobGroup`, by the client of the Thrift server, or because "
        "its thread was interrupted. In Spark's own programs the code of a query is `SPARK_JOB_CANCELLED`.",
        "What it committed before stays, as groups of a compaction and batches of an expiry do; its other files are"
        " deleted. Run it again if needed.",
    ),
    ErrorKind.WORKER_FAILED: (
        "A Python worker of a Spark task was killed, often because the system ran out of memory.",
        "Nothing of a write was committed, and its files are deleted. Run it again, with fewer concurrent tasks or "
        "smaller write buffers (`write-buffer-size`) if memory ran out.",
    ),
    ErrorKind.VALUE_NOT_STORABLE: (
        "A value fits its column, but the table's file format cannot store it so that every reader reads it back "
        "unchanged: fractions of a millisecond in the last second before 1970 in ORC.",
        "Change the value as the message describes, or change the table's `file.format`. Nothing was committed.",
    ),
    ErrorKind.ENGINE_FAILED: (
        "The Python engine process exited or failed unexpectedly.",
        "The message has the cause or the path of the log. The next statement starts a new engine.",
    ),
    ErrorKind.ARITHMETIC_OVERFLOW: (
        "A sum or product of the aggregation or partial-update engine does not fit the type of its column.",
        "Change the column to a wider type by ALTER TABLE. UPDATE and DELETE of the key merge its rows, too, and fail "
        "alike. Decimals become null instead.",
    ),
    ErrorKind.DIVIDE_BY_ZERO: (
        "A retract of zero divides a product of the aggregation or partial-update engine by zero.",
        "Set `fields.<column>.ignore-retract` by ALTER TABLE.",
    ),
    ErrorKind.BRANCH_NOT_FOUND: (
        "The table has no branch of that name.",
        "``SELECT * FROM `t$branches` `` lists all branches but `main`.",
    ),
    ErrorKind.BRANCH_EXISTS: (
        "The table has a branch of that name, or the rest of one whose creation or deletion was interrupted.",
        "Choose another name, pass `ignoreIfExists => true`, or call `sys.delete_branch` first.",
    ),
    ErrorKind.VIEW_NOT_FOUND: (
        "The view does not exist, or the name is that of a table.",
        "`SHOW VIEWS` lists those that do; the message names a similar one if there is one.",
    ),
    ErrorKind.RUN_NOT_FOUND: (
        "No trash has such a run: it was undone or emptied, or its retention has ended.",
        "`CALL sys.trash('db.t')` lists the runs. `trash.retention` is how long they are kept.",
    ),
    ErrorKind.UNDO_IMPOSSIBLE: (
        "The run cannot be undone, because the table has changed since: a snapshot id, tag or branch is used again, or "
        "files that the run needs are in another run or deleted. The table was not changed.",
        "The message names the first step: undo a later run, roll back, or rename or delete what is in the way.",
    ),
    ErrorKind.RETRACT_NOT_SUPPORTED: (
        "A `-U` or `-D` is merged with other rows of its key, but the engine or a function cannot take it back.",
        "Set one of the options that the message names, then run the statement again.",
    ),
    ErrorKind.ENVIRONMENT: (
        "A requirement is missing on this machine or has the wrong release: Java, pyspark, a package.",
        "The message has the command that fixes it; `paimon-spark env` shows what is installed.",
    ),
}

HEAD = """# Errors

Every error of paimon-spark has the form `[CODE] cause. remedy`. Codes never change their meaning. In Python all errors
are subclasses of `paimon_spark.PaimonError`, with the code in `.kind`.

In SQL some errors have the codes of Spark: `TABLE_OR_VIEW_NOT_FOUND` for `TABLE_NOT_FOUND`,
`TABLE_OR_VIEW_ALREADY_EXISTS` for `TABLE_EXISTS`, `SCHEMA_NOT_FOUND` for `DATABASE_NOT_FOUND`, and
`SCHEMA_ALREADY_EXISTS` for `DATABASE_EXISTS`. Spark's schema is a database: `SCHEMA_NOT_FOUND` below, about a schema
version, is another error.
"""


def render() -> str:
    """Return the page."""
    parts = [HEAD]
    for kind in ErrorKind:
        cause, remedy = GUIDE[kind]
        parts.append(f"## {kind}\n\n{cause}\n\n**What to do:** {remedy}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    (Path(__file__).parent / "errors.md").write_text(render(), encoding="utf-8")
