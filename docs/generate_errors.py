"""Write docs/errors.md from ErrorKind: ``python docs/generate_errors.py``."""

from __future__ import annotations

from pathlib import Path

from paimon_spark.errors import ErrorKind

#: What each code means, and what helps.
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
        "A table cannot be created or changed as asked: a key column that does not exist, a bucket key on a map …",
        "Change the definition as the message says.",
    ),
    ErrorKind.TYPE_MISMATCH: (
        "A value or a column has a type that cannot become the wanted one.",
        "Add an explicit CAST, or choose a type change that keeps all values.",
    ),
    ErrorKind.NOT_NULL_VIOLATION: (
        "A row holds NULL in a column that is declared NOT NULL; key columns always are. Where Spark checks first, it "
        "says `NOT_NULL_ASSERT_VIOLATION`.",
        "Filter or default the value before it is written. Nothing of the statement was committed.",
    ),
    ErrorKind.MERGE_CARDINALITY_VIOLATION: (
        "MERGE INTO found a row of the table that several rows of the source match, so its new state would be chance.",
        "Make the source unique in the columns of ON, for example with GROUP BY. Nothing was committed.",
    ),
    ErrorKind.DATABASE_NOT_FOUND: ("The database does not exist.", "`SHOW DATABASES` lists those that do."),
    ErrorKind.DATABASE_NOT_EMPTY: (
        "A database that still holds tables was to be dropped. In Spark its own `SCHEMA_NOT_EMPTY` tells it.",
        "Drop its tables first, or say `CASCADE`.",
    ),
    ErrorKind.TABLE_NOT_FOUND: (
        "The table does not exist, or the directory named is not a table.",
        "`SHOW TABLES` lists those that do; the message names a similar one if there is one.",
    ),
    ErrorKind.COLUMN_NOT_FOUND: ("The table has no such column.", "`DESCRIBE <table>` lists the columns."),
    ErrorKind.PROCEDURE_NOT_FOUND: (
        "There is no such procedure, or Apache Paimon has it and this release does not; the message tells which.",
        "`CALL sys.help()` lists all of them.",
    ),
    ErrorKind.SNAPSHOT_NOT_FOUND: (
        "The snapshot does not exist: it was never written, or it has expired.",
        "``SELECT snapshot_id FROM `<table>$snapshots` `` lists those that do. A tag keeps a snapshot for good.",
    ),
    ErrorKind.TAG_NOT_FOUND: (
        "The tag does not exist.",
        "``SELECT tag_name FROM `<table>$tags` `` lists those that do.",
    ),
    ErrorKind.SCHEMA_NOT_FOUND: (
        "A schema version that a snapshot or a file refers to is not in the table's directory.",
        "Restore the file `schema/schema-<id>`; without it the files that need it cannot be read.",
    ),
    ErrorKind.DATABASE_EXISTS: ("A database of that name exists.", "Say `IF NOT EXISTS`, or choose another name."),
    ErrorKind.TABLE_EXISTS: ("A table of that name exists.", "Say `IF NOT EXISTS`, or choose another name."),
    ErrorKind.TAG_EXISTS: (
        "A tag of that name exists. Tags are never moved silently.",
        "Choose another name, or delete the tag first with `CALL sys.delete_tag(…)`.",
    ),
    ErrorKind.UNSUPPORTED_FEATURE: (
        "The table or the statement uses a feature of the format that this release does not implement.",
        "The message names the feature. Nothing is read or written halfway; see [compatibility](compatibility.md).",
    ),
    ErrorKind.UNSUPPORTED_STORE: (
        "The warehouse lies in a store that paimon-spark cannot use, or cannot commit to safely.",
        "Use a local or a mounted shared file system, or [S3](s3.md) with conditional writes.",
    ),
    ErrorKind.STORE_ACCESS_DENIED: (
        "The object store refuses the credentials, or does not allow what was asked with them.",
        "Check the options of [the catalog](s3.md). The statement changed nothing.",
    ),
    ErrorKind.BUCKET_NOT_FOUND: (
        "The bucket of the warehouse does not exist at the address that was given.",
        "Create the bucket, or correct the warehouse or the endpoint. Buckets are never created for you.",
    ),
    ErrorKind.STORE_UNAVAILABLE: (
        "The object store does not answer, or answers that it failed, also after some attempts.",
        "Check the endpoint and the network. Then run the statement again.",
    ),
    ErrorKind.STORE_FULL: (
        "The store has no room for a file: a disk without space or inodes, a used-up quota, a limit on the size of "
        "files.",
        "Make room, then run the statement again. Of the one that failed nothing was committed; `remove_orphan_files` "
        "finds what a process that ended there may have left.",
    ),
    ErrorKind.CORRUPT_METADATA: (
        "A snapshot, schema, manifest, tag or index file is malformed or cut short. The message names the file.",
        "Restore the file, or roll back to a tag or snapshot that is intact.",
    ),
    ErrorKind.CORRUPT_DATA_FILE: (
        "A data file is malformed or cut short. The message names the file.",
        "Restore the file, or roll back to a tag or snapshot that does not refer to it.",
    ),
    ErrorKind.FILE_MISSING: (
        "A file that the table refers to is not there: deleted by hand, or expired while it was being read.",
        "Read a newer snapshot. If the newest one is affected, restore the file or roll back.",
    ),
    ErrorKind.COMMIT_CONFLICT: (
        "Another writer changed what this commit relied on, for example compacted away the same files.",
        "Nothing was committed. Run the statement again.",
    ),
    ErrorKind.COMMIT_RETRIES_EXHAUSTED: (
        "Other writers were faster every time for as long as `commit.max-retries` and `commit.timeout` allow.",
        "Nothing was committed. Run the statement again, with fewer writers at once or higher limits.",
    ),
    ErrorKind.COMMIT_OUTCOME_UNKNOWN: (
        "The store failed in the middle of a commit, and looking again did not tell whether it took place.",
        "Look at ``SELECT * FROM `<table>$snapshots` `` before you repeat the statement.",
    ),
    ErrorKind.STATEMENT_CANCELLED: (
        "The statement was cancelled: by Ctrl-C, by `cancelJobGroup`, by the client of the Thrift server, or because "
        "its thread was interrupted. A query says `SPARK_JOB_CANCELLED` in Spark's own programs.",
        "Nothing of the statement was committed, and its files are deleted. Run it again if need be.",
    ),
    ErrorKind.WORKER_FAILED: (
        "A Python worker of a Spark task ended before its task: it was killed, often by a system short of memory.",
        "Nothing of a write was committed, and its files are deleted. Run it again, with fewer tasks at once or "
        "smaller write buffers (`write-buffer-size`) if memory was short.",
    ),
    ErrorKind.VALUE_NOT_STORABLE: (
        "A value fits its column, but files of the table's format cannot hold it so that every reader finds it again: "
        "fractions of a millisecond in the last second before 1970 in ORC.",
        "Change the value as the message says, or give the table another `file.format`. Nothing was committed.",
    ),
    ErrorKind.ENGINE_FAILED: (
        "The Python engine process ended or answered with an unexpected failure.",
        "The message holds the cause or the path of the log. The next statement starts a new engine.",
    ),
    ErrorKind.ENVIRONMENT: (
        "Something on this machine is missing or of the wrong release: Java, pyspark, a package.",
        "The message holds the command that mends it; `paimon-spark env` shows what is installed.",
    ),
}

HEAD = """# Errors

Every failure that paimon-spark raises on purpose reads `[CODE] what was wrong. what to do next`. Codes never change
their meaning. In Python all of them are subclasses of `paimon_spark.PaimonError`, with the code in `.kind`.
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
