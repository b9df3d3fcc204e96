"""File-based privileges: which user may do what with a catalog, a database or a table (docs/privileges.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from paimon_spark.errors import AccessDeniedError
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.quoted_text import quoted_name, string_literal

ROOT = "root"
"""The user who has all privileges."""
ANONYMOUS = "anonymous"
"""The user, and the password, of a catalog without the options `user` and `password`."""
_CATALOG, _DATABASE, _TABLE = "catalog", "database", "table"
_SCHEMAS = re.compile(r"/(branch/branch-[^/]+/)?schema(/|$)")
_CONSUMERS = re.compile(r"/(branch/branch-[^/]+/)?consumer(/|$)")
_BRANCH = re.compile(r"/branch/branch-([^/]+)(/|$)")
_MAIN = re.compile(r"/(snapshot|schema|tag|consumer|changelog)(/|$)")


class Privilege(StrEnum):
    """What a user may do."""

    SELECT = "SELECT"
    INSERT = "INSERT"
    ALTER_TABLE = "ALTER_TABLE"
    DROP_TABLE = "DROP_TABLE"
    CREATE_TABLE = "CREATE_TABLE"
    DROP_DATABASE = "DROP_DATABASE"
    ALTER_DATABASE = "ALTER_DATABASE"
    CREATE_DATABASE = "CREATE_DATABASE"
    ADMIN = "ADMIN"


_OF_DATABASES = frozenset({Privilege.CREATE_TABLE, Privilege.DROP_DATABASE, Privilege.ALTER_DATABASE})
_OF_CATALOGS = frozenset({Privilege.CREATE_DATABASE, Privilege.ADMIN})


@dataclass(frozen=True, slots=True)
class Securable:
    """An object of privileges: a table or view, a database without a table, or the catalog without a database."""

    database: str | None = None
    table: str | None = None

    @classmethod
    def of(cls, identifier: Identifier) -> Securable:
        """Return a table, or one of its branches."""
        return cls(identifier.database, identifier.data_table.object_name)

    @property
    def kind(self) -> str:
        """Return `catalog`, `database` or `table`."""
        return _CATALOG if self.database is None else _DATABASE if self.table is None else _TABLE

    @property
    def identifier(self) -> str:
        """Return the name under which privileges of exactly this object are stored; that of the catalog is empty.

        A database with a dot in its name is quoted, because it would have the name of a table.
        """
        if self.database is None:
            return ""
        return self._database if self.table is None else f"{self._database}.{self.table}"

    @property
    def _database(self) -> str:
        name = str(self.database)
        return quoted_name(name) if "." in name or "`" in name else name

    @property
    def covering(self) -> tuple[str, ...]:
        """Return the stored names whose privileges this object has: its own, and those of what contains it."""
        names = [self.identifier]
        if self.table is not None:
            names += [f"{self._database}.{self.table.partition('$')[0]}", self._database]
        return (*dict.fromkeys(names), "") if self.database is not None else ("",)

    def contains(self, identifier: str) -> bool:
        """Return whether a stored name is that of this object, or of one in it."""
        own = self.identifier
        return not own or identifier == own or identifier.startswith((f"{own}.", f"{own}$"))

    def __str__(self) -> str:
        return self.kind if self.database is None else f"{self.kind} {self.identifier}"


CATALOG = Securable()


def grantable_on(privilege: Privilege) -> tuple[str, ...]:
    """Return the kinds of objects that a privilege can be granted on."""
    if privilege in _OF_CATALOGS:
        return (_CATALOG,)
    return (_DATABASE, _CATALOG) if privilege in _OF_DATABASES else (_TABLE, _DATABASE, _CATALOG)


@dataclass(frozen=True, slots=True)
class Grants:
    """The privileges of a user who has logged in, by the stored names of objects."""

    user: str
    privileges: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)

    def has(self, privilege: Privilege, on: Securable) -> bool:
        """Return whether the user has a privilege on an object, or on one that contains it."""
        if self.user == ROOT:
            return True
        return any(privilege in self.privileges.get(name, ()) for name in on.covering)

    def require(self, on: Securable, *choices: Privilege) -> None:
        """Return if the user has one of the privileges on an object.

        Raises:
            AccessDeniedError: the user has none of them.
        """
        if any(self.has(privilege, on) for privilege in choices):
            return
        login = "Log in by the catalog options 'user' and 'password', or let a" if self.user == ANONYMOUS else "Let a"
        raise AccessDeniedError(
            f"User '{self.user}' does not have the privilege {_alternatives(choices)} on {self._named(on)}.",
            hint=f"{login} user with the privilege ADMIN run: CALL sys.{grant_call(self.user, choices[0], on)}.",
        )

    @staticmethod
    def _named(on: Securable) -> str:
        return f"the {on}" if on.database is None else str(on)


def _alternatives(choices: Sequence[str]) -> str:
    *others, last = choices
    return f"{', '.join(others)} or {last}" if others else last


def grant_call(user: str, privilege: Privilege, on: Securable) -> str:
    """Return the procedure with the arguments that grant a privilege."""
    given = (user, str(privilege), *(part for part in (on.database, on.table) if part is not None))
    return f"grant_privilege_to_user({', '.join(map(string_literal, given))})"


@dataclass(frozen=True, slots=True)
class TableAccess:
    """What a user may do with one table.

    Its schemas may be read by everybody, as by DESCRIBE. Whoever writes or alters the table reads its snapshots and
    manifests, so that SELECT, INSERT or ALTER_TABLE suffices for its files; `require` demands SELECT where rows are
    read for the user. Whoever reads it as a stream may store the position of its consumer.
    """

    grants: Grants
    table: Securable
    path: str

    def require(self, *choices: Privilege) -> None:
        """Return if the user has one of the privileges on the table.

        Raises:
            AccessDeniedError: the user has none of them.
        """
        self.grants.require(self.table, *choices)

    def check_read(self, path: str) -> None:
        """Check the access before a file or directory of the table is read.

        Raises:
            AccessDeniedError: the user has neither SELECT nor INSERT nor ALTER_TABLE, and it is not a schema.
        """
        if not self._within(_SCHEMAS, path):
            self.require(Privilege.SELECT, Privilege.INSERT, Privilege.ALTER_TABLE)

    def check_change(self, path: str) -> None:
        """Check the access before a file or directory of the table is written or deleted.

        Raises:
            AccessDeniedError: the user does not have INSERT on the branch; for a consumer, neither INSERT nor SELECT.
        """
        consumes = self._within(_CONSUMERS, path)
        choices = (Privilege.INSERT, Privilege.SELECT) if consumes else (Privilege.INSERT,)
        self.grants.require(self._owner(path), *choices)

    def on_branch(self, identifier: Identifier) -> TableAccess:
        """Return the access to another branch of the table."""
        return replace(self, table=Securable.of(identifier))

    def _owner(self, path: str) -> Securable:
        """Return the branch that a file belongs to; branches share the data files and manifests of the table."""
        main, separator, _ = str(self.table.table).partition("$")
        if not separator or not path.startswith(self.path):
            return self.table
        found = _BRANCH.match(path, len(self.path))
        if found is not None:
            return Securable.of(Identifier(str(self.table.database), main, found[1]))
        return replace(self.table, table=main) if self._within(_MAIN, path) else self.table

    def _within(self, directory: re.Pattern[str], path: str) -> bool:
        return path.startswith(self.path) and directory.match(path, len(self.path)) is not None
