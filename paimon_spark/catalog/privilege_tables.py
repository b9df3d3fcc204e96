"""The tables `user.sys` and `privilege.sys` at the root of a warehouse, which hold users and privileges as in Paimon.

A warehouse has privileges if both exist. `privilege.sys` is created last, so that one look at it suffices.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.metadata_io import create_once, delete_best_effort, read_if_there, translate_io_errors
from paimon_spark.core.schemas import SchemaStore
from paimon_spark.core.table import Table
from paimon_spark.errors import AccessDeniedError, ConflictError, CorruptTableError, ErrorKind
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.fs.base import FileIO
from paimon_spark.spec.evolution import new_schema
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.kinds import RowKind
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.paths import TablePaths
from paimon_spark.spec.privileges import ANONYMOUS, Grants, Securable
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import DataField, parse_atomic

USER_TABLE, PRIVILEGE_TABLE = "user.sys", "privilege.sys"
USER = "USER"
"""The only type of entity that has privileges."""
_USERS = {"user": "STRING", "sha256": "BYTES"}
_PRIVILEGES = {"name": "STRING", "entity_type": "STRING", "identifier": "STRING", "privilege": "STRING"}
_WRITES = {USER_TABLE: {"fields.sha256.stats-mode": "none"}}
"""Options of writes. Paimon looks for name and hash, and release 1.4 prunes files wrongly by statistics of bytes."""
_USER_KEY = ("user",)
_PRIVILEGE_KEY = ("name", "entity_type", "privilege", "identifier")
_DATABASE = "warehouse"
"""The database in the names of both tables, which are in none."""
_CLAIM = "claim"
"""The file of the process that creates the tables."""
CLAIM_MILLIS = 600_000
"""How long a claim holds."""
_KNOWN_FOR_S = 10.0
"""How long a warehouse is taken for one without privileges, or with them, before the next look."""


def password_hash(password: str) -> bytes:
    """Return what is stored of a password."""
    return hashlib.sha256(password.encode()).digest()


@dataclass(slots=True)
class PrivilegeTables:
    """The users and privileges of a warehouse, as seen by one of the users.

    Args:
        warehouse: the root of the warehouse.
        file_io: its store.
        user: the user of the catalog.
        password: the SHA-256 of the password.
        monotonic: seconds.
    """

    warehouse: str
    file_io: FileIO = field(repr=False)
    user: str = ANONYMOUS
    password: bytes = field(default=password_hash(ANONYMOUS), repr=False)
    monotonic: Callable[[], float] = field(default=time.monotonic, repr=False)
    _seen: tuple[float, bool] | None = field(default=None, repr=False)
    """When the warehouse was looked at, and whether it has privileges."""
    _known: tuple[tuple[int | None, int | None], Grants] | None = field(default=None, repr=False)
    """The snapshots of both tables, and the grants that they hold."""

    # ---- reading

    @translate_io_errors()
    def enabled(self) -> bool:
        """Return whether the warehouse has privileges; the answer is looked up again after ten seconds."""
        now = self.monotonic()
        if self._seen is None or now - self._seen[0] >= _KNOWN_FOR_S:
            self._seen = (now, self.file_io.exists(self._path(PRIVILEGE_TABLE)))
        return self._seen[1]

    @translate_io_errors()
    def grants(self) -> Grants | None:
        """Return the privileges of the user; None in a warehouse without privileges.

        Raises:
            AccessDeniedError: there is no such user, or the password is wrong.
        """
        if not self.enabled():
            self._known = None
            return None
        users, privileges = self.user_table(), self.privilege_table()
        state = (users.snapshots.latest_id(), privileges.snapshots.latest_id())
        if self._known is None or self._known[0] != state:
            self._check_login(users)
            found: dict[str, set[str]] = {}
            for row in _rows(privileges).to_pylist():
                if row["name"] == self.user and row["entity_type"] == USER:
                    found.setdefault(row["identifier"], set()).add(row["privilege"])
            self._known = (state, Grants(self.user, {k: frozenset(v) for k, v in found.items()}))
        return self._known[1]

    def _check_login(self, users: Table) -> None:
        if {"user": self.user, "sha256": self.password} not in _rows(users).to_pylist():
            raise AccessDeniedError(
                f"The warehouse {self.warehouse} has no user '{self.user}', or the password is wrong.",
                hint="Set the catalog options 'user' and 'password'.",
                kind=ErrorKind.LOGIN_FAILED,
            )

    @property
    def paths(self) -> tuple[str, str]:
        """Return the directories of both tables."""
        return self._path(USER_TABLE), self._path(PRIVILEGE_TABLE)

    def has_user(self, name: str) -> bool:
        """Return whether a user exists."""
        return name in _rows(self.user_table()).column("user").to_pylist()

    def user_table(self) -> Table:
        """Return the table of the users."""
        return self._table(USER_TABLE, _USERS)

    def privilege_table(self) -> Table:
        """Return the table of the privileges."""
        return self._table(PRIVILEGE_TABLE, _PRIVILEGES)

    def entries(self, within: Securable, *, user: str | None = None, privilege: str | None = None) -> pa.Table:
        """Return the stored privileges on an object and on all objects in it.

        Args:
            within: the object.
            user: only those of this user.
            privilege: only this privilege.
        """
        found = _rows(self.privilege_table())
        keep = [
            within.contains(row["identifier"])
            and (user is None or (row["name"], row["entity_type"]) == (user, USER))
            and (privilege is None or row["privilege"] == privilege)
            for row in found.to_pylist()
        ]
        return found.filter(pa.array(keep, pa.bool_()))

    # ---- writing

    @translate_io_errors()
    def create(self, users: Sequence[tuple[str, bytes]], now_millis: int) -> bool:
        """Create both tables with the first users; return False if the warehouse has privileges already.

        Raises:
            ConflictError: another process is creating them.
        """
        with self._claimed(now_millis):
            self.forget()
            if self.enabled():
                return False
            table = self._created(USER_TABLE, _USERS, _USER_KEY, {"bucket": "1", "file.format": "avro"}, now_millis)
            self.put_users(users, table)
            schema = _new_schema(_PRIVILEGES, _PRIVILEGE_KEY, {"bucket": "1"}, now_millis)
            made = self._schemas(PRIVILEGE_TABLE).try_create(schema)
            self.forget()
            return made

    @contextmanager
    def _claimed(self, now_millis: int) -> Iterator[None]:
        """Hold the claim to create the tables; one that is older than ten minutes is of a process that died.

        Without it, the passwords of the last of several processes would be stored, and each would report success.
        """
        path, data = f"{self._path(USER_TABLE)}/{_CLAIM}", f"{now_millis} {uuid.uuid4()}".encode()
        found = read_if_there(self.file_io, path)
        if found is not None and now_millis - _claim_millis(found) >= CLAIM_MILLIS:
            self.file_io.delete(path)
        if not create_once(self.file_io, path, data):
            raise ConflictError(
                f"Another CALL is giving privileges to the warehouse {self.warehouse}.",
                hint="Wait until it has ended. If it was interrupted, repeat this one after ten minutes, or delete "
                f"{path}.",
            )
        try:
            yield
        finally:
            delete_best_effort(self.file_io, [path])

    def put_users(self, users: Sequence[tuple[str, bytes]], table: Table | None = None) -> None:
        """Add users, or change their passwords."""
        names, hashes = [u for u, _ in users], [h for _, h in users]
        _change(table or self.user_table(), pa.table({"user": names, "sha256": hashes}), RowKind.INSERT)

    def delete_user(self, name: str) -> None:
        """Remove a user and then the user's privileges."""
        _change(self.user_table(), pa.table({"user": [name], "sha256": [b""]}), RowKind.DELETE)
        self.delete(self.entries(Securable(), user=name))

    def put(self, user: str, on: Securable, privilege: str) -> None:
        """Add a privilege of a user on an object."""
        entry = {"name": [user], "entity_type": [USER], "identifier": [on.identifier], "privilege": [privilege]}
        _change(self.privilege_table(), pa.table(entry), RowKind.INSERT)

    @translate_io_errors()
    def delete(self, entries: pa.Table) -> None:
        """Remove privileges that `entries` returned."""
        _change(self.privilege_table(), entries, RowKind.DELETE)

    @translate_io_errors()
    def rename(self, source: Securable, target: Securable) -> None:
        """Move the privileges on a table, and on its branches, to its new name, in one commit."""
        old = self.entries(source)
        names = old.column("identifier").to_pylist()
        renamed = pa.array([target.identifier + n.removeprefix(source.identifier) for n in names], pa.string())
        at = old.schema.get_field_index("identifier")
        new = old.set_column(at, old.schema.field(at), renamed)
        both = pa.concat_tables([_of_kind(old, RowKind.DELETE), _of_kind(new, RowKind.INSERT)])
        _write(self.privilege_table(), both)

    def forget(self) -> None:
        """Look at the warehouse again on the next use."""
        self._seen = self._known = None

    def _created(
        self, name: str, columns: dict[str, str], key: Sequence[str], options: dict[str, str], now_millis: int
    ) -> Table:
        schemas = self._schemas(name)
        schema = schemas.latest()
        if schema is None:
            schema = _new_schema(columns, key, options, now_millis)
            schemas.try_create(schema)
        return self._of(name, schemas.latest() or schema)

    def _table(self, name: str, columns: dict[str, str]) -> Table:
        schema = self._schemas(name).latest()
        if schema is None or set(columns) - set(schema.field_names):
            raise CorruptTableError(
                f"The warehouse {self.warehouse} has privileges, but the table {self._path(name)} is missing or has "
                "other columns.",
                hint=f"Restore it. A warehouse without {USER_TABLE} and {PRIVILEGE_TABLE} has no privileges.",
            )
        return self._of(name, schema)

    def _of(self, name: str, schema: TableSchema) -> Table:
        return Table.of(Identifier(_DATABASE, name), self._path(name), schema, self.file_io, _WRITES.get(name))

    def _schemas(self, name: str) -> SchemaStore:
        return SchemaStore(self.file_io, TablePaths(self._path(name), CoreOptions({})))

    def _path(self, name: str) -> str:
        return f"{self.warehouse.rstrip('/')}/{name}"


def _claim_millis(data: bytes) -> int:
    """Return the time of a claim; 0 if it is malformed."""
    millis = data.partition(b" ")[0]
    return int(millis) if millis.isdigit() else 0


def _new_schema(columns: dict[str, str], key: Sequence[str], options: dict[str, str], now_millis: int) -> TableSchema:
    fields = [DataField(i, name, parse_atomic(text)) for i, (name, text) in enumerate(columns.items())]
    return new_schema(fields, primary_keys=key, options=options, comment="", now_millis=now_millis)


def _rows(table: Table) -> pa.Table:
    """Return all rows of a small table."""
    from paimon_spark.core.read.split_reader import read_split  # for warehouses with privileges only, as in _write
    from paimon_spark.core.scan.scan import scan_buckets
    from paimon_spark.core.scan.splits import plan_splits

    splits = plan_splits(table, scan_buckets(table, table.snapshots.latest(), statistics=False))
    schema = to_arrow_schema(table.schema.fields)
    found = pa.Table.from_batches([b for s in splits for b in read_split(table, s)], schema=schema)
    return found.replace_schema_metadata(None)


def _of_kind(rows: pa.Table, kind: RowKind) -> pa.Table:
    return rows.append_column(ROW_KIND, pa.repeat(pa.scalar(int(kind), pa.int8()), rows.num_rows))


def _change(table: Table, rows: pa.Table, kind: RowKind) -> None:
    _write(table, _of_kind(rows.select(table.schema.field_names), kind))


def _write(table: Table, rows: pa.Table) -> None:
    """Commit rows with their kinds; no rows are no commit."""
    from paimon_spark.core.commit.committer import FileStoreCommit
    from paimon_spark.core.metadata.manifest_store import ManifestStore
    from paimon_spark.core.scan.scan import live_in_partitions
    from paimon_spark.core.write.table_writer import TableWriter, WriterRestoreState

    if not rows.num_rows:
        return
    sequences: dict[bytes, dict[int, int]] = {}
    for entry in live_in_partitions(ManifestStore(table), table.snapshots.latest(), None):
        buckets = sequences.setdefault(entry.partition, {})
        buckets[entry.bucket] = max(buckets.get(entry.bucket, -1), entry.file.max_sequence_number)
    with TableWriter(table, WriterRestoreState(max_sequences=sequences)) as writer:
        writer.write(rows)
        messages = writer.finish()
    commit = FileStoreCommit(table)
    with commit.or_abort(messages):
        commit.commit(messages)
