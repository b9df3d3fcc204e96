"""Every error that paimon-spark raises on purpose, with a stable code and the next step.

The tree is grouped by what a caller would do about it::

    PaimonError
    ├── UsageError            the statement or argument is wrong: change it
    │   ├── ArgumentError        a procedure argument, partition string or literal
    │   ├── OptionError          an option name or value
    │   └── SqlSyntaxError       a statement of ours that does not parse
    ├── NotFoundError         what was named does not exist: pick another name
    ├── AlreadyExistsError    what was to be created exists: pick another name
    ├── UnsupportedError      a feature of the table or statement that is not implemented
    ├── CorruptTableError     a file of the table is malformed, truncated or missing
    ├── ConflictError         another commit changed what this one relied on: run it again
    │   └── RefusedCommitError  the user has asked to refuse it after changes of others: read them, then decide
    ├── AccessDeniedError     the user lacks a privilege, or is not logged in: get it, or log in as another user
    ├── StoreError            the store rejects a request, is full or does not respond: fix that, then try again
    ├── StatementCancelledError  the statement was cancelled: run it again if needed
    ├── OutcomeUnknownError   it is unknown whether the commit succeeded: check before repeating it
    └── EngineError           the Python engine process or a Python worker failed: see its log

Codes are append-only: a code is never renamed or given another meaning.
"""

from __future__ import annotations

import difflib
import errno
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar

_TWICE_ENDED = re.compile(r"(?<!\.)\.\.\s*$")
"""The end of a message that quotes a sentence with its full stop."""

_LISTED = 5
"""Maximum number of names listed in a message."""


class ErrorKind(StrEnum):
    """Stable machine-readable codes."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    INVALID_OPTION = "INVALID_OPTION"
    SQL_SYNTAX = "SQL_SYNTAX"
    SCHEMA_INVALID = "SCHEMA_INVALID"
    TYPE_MISMATCH = "TYPE_MISMATCH"
    NOT_NULL_VIOLATION = "NOT_NULL_VIOLATION"
    DATABASE_NOT_FOUND = "DATABASE_NOT_FOUND"
    DATABASE_NOT_EMPTY = "DATABASE_NOT_EMPTY"
    TABLE_NOT_FOUND = "TABLE_NOT_FOUND"
    COLUMN_NOT_FOUND = "COLUMN_NOT_FOUND"
    PROCEDURE_NOT_FOUND = "PROCEDURE_NOT_FOUND"
    SNAPSHOT_NOT_FOUND = "SNAPSHOT_NOT_FOUND"
    TAG_NOT_FOUND = "TAG_NOT_FOUND"
    SCHEMA_NOT_FOUND = "SCHEMA_NOT_FOUND"
    DATABASE_EXISTS = "DATABASE_EXISTS"
    TABLE_EXISTS = "TABLE_EXISTS"
    TAG_EXISTS = "TAG_EXISTS"
    UNSUPPORTED_FEATURE = "UNSUPPORTED_FEATURE"
    UNSUPPORTED_STORE = "UNSUPPORTED_STORE"
    CORRUPT_METADATA = "CORRUPT_METADATA"
    CORRUPT_DATA_FILE = "CORRUPT_DATA_FILE"
    FILE_MISSING = "FILE_MISSING"
    COMMIT_CONFLICT = "COMMIT_CONFLICT"
    COMMIT_RETRIES_EXHAUSTED = "COMMIT_RETRIES_EXHAUSTED"
    COMMIT_OUTCOME_UNKNOWN = "COMMIT_OUTCOME_UNKNOWN"
    ENGINE_FAILED = "ENGINE_FAILED"
    ENVIRONMENT = "ENVIRONMENT"
    MERGE_CARDINALITY_VIOLATION = "MERGE_CARDINALITY_VIOLATION"
    STORE_ACCESS_DENIED = "STORE_ACCESS_DENIED"
    STORE_UNAVAILABLE = "STORE_UNAVAILABLE"
    BUCKET_NOT_FOUND = "BUCKET_NOT_FOUND"
    STATEMENT_CANCELLED = "STATEMENT_CANCELLED"
    WORKER_FAILED = "WORKER_FAILED"
    STORE_FULL = "STORE_FULL"
    VALUE_NOT_STORABLE = "VALUE_NOT_STORABLE"
    ARITHMETIC_OVERFLOW = "ARITHMETIC_OVERFLOW"
    DIVIDE_BY_ZERO = "DIVIDE_BY_ZERO"
    RETRACT_NOT_SUPPORTED = "RETRACT_NOT_SUPPORTED"
    BRANCH_NOT_FOUND = "BRANCH_NOT_FOUND"
    BRANCH_EXISTS = "BRANCH_EXISTS"
    VIEW_NOT_FOUND = "VIEW_NOT_FOUND"
    RUN_NOT_FOUND = "RUN_NOT_FOUND"
    UNDO_IMPOSSIBLE = "UNDO_IMPOSSIBLE"
    PRIVILEGE_MISSING = "PRIVILEGE_MISSING"
    LOGIN_FAILED = "LOGIN_FAILED"


class PaimonError(Exception):
    """Base of all errors; `str()` gives ``[CODE] what was wrong. what to do next``."""

    default_kind: ClassVar[ErrorKind] = ErrorKind.ENGINE_FAILED

    def __init__(self, message: str, *, hint: str = "", kind: ErrorKind | None = None) -> None:
        self.kind = kind or self.default_kind
        self.message = _TWICE_ENDED.sub(".", message)
        self.hint = hint
        super().__init__(f"[{self.kind}] {self.message}" + (f" {hint}" if hint else ""))

    def __reduce__(self) -> tuple[object, ...]:
        """Keep keyword arguments when the error travels between processes."""
        return (_rebuild, (type(self), self.message, self.hint, str(self.kind)))


def _rebuild(cls: type[PaimonError], message: str, hint: str, kind: str) -> PaimonError:
    return cls(message, hint=hint, kind=ErrorKind(kind))


class UsageError(PaimonError):
    """The statement or argument is wrong."""

    default_kind = ErrorKind.INVALID_ARGUMENT


class ArgumentError(UsageError):
    """A procedure argument, partition string or literal is wrong."""

    default_kind = ErrorKind.INVALID_ARGUMENT


class OptionError(UsageError):
    """An option name or value is wrong."""

    default_kind = ErrorKind.INVALID_OPTION


class SqlSyntaxError(UsageError):
    """A statement that belongs to paimon-spark does not parse."""

    default_kind = ErrorKind.SQL_SYNTAX


class NotFoundError(PaimonError):
    """What was named does not exist; `kind` is the kind of object."""

    default_kind = ErrorKind.TABLE_NOT_FOUND


class AlreadyExistsError(PaimonError):
    """What was to be created exists already; `kind` is the kind of object."""

    default_kind = ErrorKind.TABLE_EXISTS


class UnsupportedError(PaimonError):
    """A feature that is not implemented; the hint has an alternative."""

    default_kind = ErrorKind.UNSUPPORTED_FEATURE


class CorruptTableError(PaimonError):
    """A file of the table is malformed, truncated or missing."""

    default_kind = ErrorKind.CORRUPT_METADATA


class ConflictError(PaimonError):
    """A concurrent commit changed what this commit relied on; nothing was written."""

    default_kind = ErrorKind.COMMIT_CONFLICT
    repeatable: ClassVar[bool] = True
    """Whether the operation may be run again on the table as it is now, without asking the user."""


class RefusedCommitError(ConflictError):
    """The user has asked to refuse the commit after changes of others; only the user can decide to run it again."""

    repeatable = False


class AccessDeniedError(PaimonError):
    """The warehouse has privileges, and the user lacks one, or is not logged in."""

    default_kind = ErrorKind.PRIVILEGE_MISSING


class StatementCancelledError(PaimonError):
    """The statement was cancelled before it was done; nothing was committed."""

    default_kind = ErrorKind.STATEMENT_CANCELLED


class OutcomeUnknownError(PaimonError):
    """The store did not report whether the snapshot was created."""

    default_kind = ErrorKind.COMMIT_OUTCOME_UNKNOWN


_NUMBERS = {ErrorKind.STORE_UNAVAILABLE: errno.EIO, ErrorKind.STORE_FULL: errno.ENOSPC}


class StoreError(PaimonError, OSError):
    """A store rejected a request or did not respond to it. For code that reads files it is an OSError."""

    default_kind = ErrorKind.STORE_ACCESS_DENIED

    def __init__(self, message: str, *, hint: str = "", kind: ErrorKind | None = None) -> None:
        super().__init__(message, hint=hint, kind=kind)
        self.errno = _NUMBERS.get(self.kind, errno.EACCES)
        self.strerror = message

    def __str__(self) -> str:
        """Return ``[CODE] …`` as for every PaimonError, not the text of an OSError."""
        return str(self.args[0])

    @property
    def refused(self) -> bool:
        """Return whether the store rejected the request, so that it had no effect."""
        return self.kind is not ErrorKind.STORE_UNAVAILABLE


class EngineError(PaimonError):
    """The Python engine process, a Python worker, or the environment they need failed."""

    default_kind = ErrorKind.ENGINE_FAILED


def did_you_mean(name: str, choices: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return ``Did you mean 'x'?`` for the closest choice, or an empty string if none is as similar as `cutoff`."""
    near = difflib.get_close_matches(name.lower(), {c.lower(): c for c in choices}, n=1, cutoff=cutoff)
    originals = {c.lower(): c for c in choices}
    return f"Did you mean '{originals[near[0]]}'?" if near else ""


def suggestion(name: str, choices: Iterable[str]) -> str:
    """Return ``Did you mean 'x'?`` for the closest choice, else a list of the choices, or an empty string."""
    known = list(choices)
    return did_you_mean(name, known) or (f"There are: {some_of(known)}." if known else "")


def some_of(names: Iterable[str]) -> str:
    """Return the first names as a list, followed by the number of the others."""
    items = [f"'{n}'" for n in names]
    return ", ".join(items[:_LISTED]) + (f" and {len(items) - _LISTED} more" if len(items) > _LISTED else "")
