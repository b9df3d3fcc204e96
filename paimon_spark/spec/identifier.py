"""Names of tables: ``database.table$branch_b$files`` (docs/spec/storage.md, section 1.3)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

from paimon_spark.errors import ArgumentError

DEFAULT_DATABASE = "default"
SYSTEM_DATABASE = "sys"
SYSTEM_SEPARATOR = "$"
BRANCH_PREFIX = "branch_"
MAX_NAME_BYTES = 255
DATABASE_SUFFIX = ".db"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_HALF = re.compile(r"[\ud800-\udfff]")
_UNSAFE = re.compile(r"[\x00-\x1f\x7f/\\\ud800-\udfff]")
_INVISIBLE = "Cf"
_JOINERS = "\u200c\u200d"
"""Invisible characters that Persian and Indic spelling requires."""
_QUOTED = re.compile(r"\s*(?:`((?:[^`]|``)*)`|([^.`]+))\s*(\.|$)")


@dataclass(frozen=True, slots=True)
class Identifier:
    """A table, optionally on a branch, optionally one of its system tables."""

    database: str
    table: str
    branch: str | None = None
    system_table: str | None = None

    @classmethod
    def parse(cls, text: str, default_database: str | None = None) -> Identifier:
        """Parse ``[database.]table[$branch_name][$system_table]``; parts may be quoted with backquotes.

        Raises:
            ArgumentError: the text is not a table name, or has no database and there is no default.
        """
        return cls.of(split_name(text), default_database)

    @classmethod
    def of(cls, parts: Sequence[str], default_database: str | None = None) -> Identifier:
        """Return the table with a multi-part name.

        Raises:
            ArgumentError: too many or too few parts, or an invalid name.
        """
        if len(parts) == 1 and default_database is not None:
            parts = (default_database, parts[0])
        if len(parts) != 2:
            raise ArgumentError(f"'{'.'.join(parts)}' is not a table name.", hint="Write it as database.table.")
        database, name = parts
        table, branch, system_table = split_table(name)
        check_name(database, "database")
        check_name(table, "table")
        if branch is not None:
            check_name(branch, "branch")
        return cls(database, table, branch, system_table)

    @property
    def object_name(self) -> str:
        """Return the table with its branch and system table: ``t$branch_b$files``."""
        branch = f"${BRANCH_PREFIX}{self.branch}" if self.branch else ""
        return f"{self.table}{branch}" + (f"${self.system_table}" if self.system_table else "")

    @property
    def full_name(self) -> str:
        """Return the full name: ``db.t$branch_b$files``."""
        return f"{self.database}.{self.object_name}"

    @property
    def base(self) -> Identifier:
        """Return the table itself, without branch and system table."""
        return Identifier(self.database, self.table)

    @property
    def data_table(self) -> Identifier:
        """Return the table on its branch, without the system table."""
        return replace(self, system_table=None)


def split_name(text: str) -> list[str]:
    """Split a multi-part name at its dots; a part in backquotes may contain dots.

    Raises:
        ArgumentError: the text is empty or its quotes are unbalanced.
    """
    parts: list[str] = []
    at = 0
    more = True
    while more:
        m = _QUOTED.match(text, at)
        part = "" if m is None else m[1].replace("``", "`") if m[1] is not None else m[2].strip()
        if m is None or not part:
            raise ArgumentError(f"'{text}' is not a table name.", hint="Write it as database.table.")
        parts.append(part)
        at, more = m.end(), m[3] == "."
    return parts


def split_table(name: str) -> tuple[str, str | None, str | None]:
    """Split ``t$branch_b$files`` into table, branch and system table.

    Raises:
        ArgumentError: more parts than that, or an empty one.
    """
    table, *rest = name.split(SYSTEM_SEPARATOR)
    branch = None
    if rest and rest[0].startswith(BRANCH_PREFIX):
        branch = rest.pop(0)[len(BRANCH_PREFIX) :]
    if len(rest) > 1 or "" in (table, branch, *rest):
        raise ArgumentError(
            f"'{name}' is not a table name.",
            hint="After the table there may be $branch_<name> and then $<system table>.",
        )
    return table, branch, rest[0] if rest else None


def is_one_name(name: str) -> bool:
    """Return whether `name` is a single path component in every store, so that it cannot leave or enter a directory."""
    return bool(name) and name not in (".", "..") and _UNSAFE.search(name) is None


def check_name(name: str, what: str) -> None:
    """Reject names that a database, table, tag or branch cannot have; they become names of files.

    Raises:
        ArgumentError: the name is invalid; the message calls the object `what`.
    """
    wrong = _fault(name)
    if what == "database" and name.lower() == SYSTEM_DATABASE:
        wrong = "is reserved for procedures and system tables"
    if wrong:
        raise ArgumentError(f"The {what} name {shown(name)} {wrong}.", hint="Choose another name.")


def check_new_name(name: str, what: str) -> None:
    """Reject also new names that look like another name; existing objects may have such names.

    Raises:
        ArgumentError: the name is invalid; the message calls the object `what`.
    """
    check_name(name, what)
    wrong = _disguise(name, what)
    if wrong:
        raise ArgumentError(f"The {what} name {shown(name)} {wrong}.", hint="Choose another name.")


def shown(name: str) -> str:
    """Return a name for a message: quoted, in ASCII, and truncated if it is very long."""
    text = ascii(name)
    return text if len(text) <= MAX_NAME_BYTES else f"{text[:60]}…'"


def _fault(name: str) -> str:
    if not name.strip():
        return "is empty"
    if _CONTROL.search(name):
        return "contains a control character"
    if _HALF.search(name):
        return "contains an unpaired surrogate"
    for character in "/\\" + SYSTEM_SEPARATOR:
        if character in name:
            return f"contains the character '{character}'"
    if name in (".", ".."):
        return "is a path"
    if name != name.strip():
        return "begins or ends with a blank"
    if len(name.encode()) > MAX_NAME_BYTES - len("snapshot-"):
        return f"is longer than {MAX_NAME_BYTES - len('snapshot-')} bytes"
    return ""


def _disguise(name: str, what: str) -> str:
    """Return why readers or some stores may confuse a name with another; empty if they cannot."""
    if any(unicodedata.category(c) == _INVISIBLE and c not in _JOINERS for c in name):
        return "contains an invisible character, such as one that changes the direction of writing"
    if unicodedata.normalize("NFC", name) != name:
        return "contains combining marks, which some stores normalize"
    plain = unicodedata.normalize("NFKC", name)
    if _fault(plain) or (what == "database" and plain.lower() == SYSTEM_DATABASE):
        return f"looks like {shown(plain)}, which is not a valid name"
    return ""
