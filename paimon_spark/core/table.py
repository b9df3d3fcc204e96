"""A table as a value: identifier, path, schema, effective options and file access.

A Table can be pickled, and rebuilt in another process from a short JSON text without I/O.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta, timezone, tzinfo

from paimon_spark.core.manifest_cache import ManifestCache
from paimon_spark.core.messages import MessageCodec
from paimon_spark.core.schemas import SchemaStore
from paimon_spark.core.snapshots import SnapshotStore
from paimon_spark.errors import EngineError, ErrorKind, NotFoundError, OptionError
from paimon_spark.fs.base import FileIO
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.fs.resolve import file_io_from_config
from paimon_spark.spec import file_indexes
from paimon_spark.spec.column_options import is_about_columns
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.kinds import BucketMode
from paimon_spark.spec.option_catalogue import find_option
from paimon_spark.spec.option_checks import validate_options
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.paths import MAIN_BRANCH, TablePaths, new_write_token
from paimon_spark.spec.privileges import Privilege, TableAccess
from paimon_spark.spec.rows import decode_row
from paimon_spark.spec.schema import TableSchema, parse_schema
from paimon_spark.spec.stored_files import is_about_files
from paimon_spark.spec.support import Scope, scope_of
from paimon_spark.spec.types import DataField, DataType

TRAVEL_OPTIONS = (
    "scan.snapshot-id",
    "scan.tag-name",
    "scan.watermark",
    "scan.timestamp",
    "scan.timestamp-millis",
    "scan.version",
)
"""Options that select one snapshot, which is read with its own schema."""
CHANGE_OPTIONS = ("incremental-between", "incremental-between-timestamp", "incremental-to-auto-tag")
"""Options that read the changes between two snapshots."""
START_OPTIONS = (*TRAVEL_OPTIONS, "scan.file-creation-time-millis", "scan.creation-time-millis", *CHANGE_OPTIONS)
"""Options that determine the start of a read; setting one of them replaces all stored ones."""

_KEY_OPTIONS = ("primary-key", "partition")
"""Options that are separate fields of the stored schema."""
_PATH = ("path",)
_IGNORE_DELETE = "ignore-delete"
"""A statement can drop its deletes, but not write any into a table whose merges ignore them."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table at one schema, with the statement's options overlaid on the stored ones."""

    identifier: Identifier
    path: str
    schema: TableSchema
    file_io: FileIO
    options: CoreOptions
    branch: str = MAIN_BRANCH
    write_token: str = ""
    """Part of the names of all data and index files written through this table; see `with_write_token`."""
    zone: str = "UTC"
    """Time zone for casts between timestamps with and without time zone after a column type change."""
    manifest_cache: ManifestCache | None = field(default=None, compare=False, repr=False)
    """Cache of decoded manifests; None means the cache of the process."""
    access: TableAccess | None = field(default=None, compare=False, repr=False)
    """The access of the user, in a warehouse with privileges; None allows everything."""

    @classmethod
    def of(
        cls,
        identifier: Identifier,
        path: str,
        schema: TableSchema,
        file_io: FileIO,
        dynamic_options: Mapping[str, str] | None = None,
    ) -> Table:
        """Return the table of a schema; the branch is that of the identifier."""
        options = CoreOptions(dict(schema.options))
        table = cls(identifier, path.rstrip("/"), schema, file_io, options, identifier.branch or MAIN_BRANCH)
        return table.with_options(dynamic_options) if dynamic_options else table

    @property
    def name(self) -> str:
        """Return `database.table`, for messages."""
        return self.identifier.full_name

    @property
    def paths(self) -> TablePaths:
        """Return the paths of the table's files."""
        return TablePaths(self.path, self.options, self.schema.partition_fields, self.branch, self.write_token)

    @property
    def snapshots(self) -> SnapshotStore:
        """Return the snapshot store of the table's branch."""
        return SnapshotStore(self.file_io, self.paths)

    @property
    def schema_store(self) -> SchemaStore:
        """Return the schema store of the table's branch."""
        return SchemaStore(self.file_io, self.paths)

    @property
    def stored_options(self) -> CoreOptions:
        """Return the options of the schema, without those of the statement or session."""
        return CoreOptions(dict(self.schema.options))

    @property
    def is_file_store(self) -> bool:
        """Return whether the table stores its data in Paimon files."""
        return self.options.word("type") == "table"

    @property
    def is_primary_key_table(self) -> bool:
        """Return whether the table has a primary key."""
        return bool(self.schema.primary_keys)

    @property
    def key_fields(self) -> tuple[DataField, ...]:
        """Return the columns of the trimmed primary key; empty for an append table."""
        return self.schema.key_fields

    @property
    def key_types(self) -> tuple[DataType, ...]:
        """Return the types of the trimmed primary key."""
        return tuple(f.type for f in self.key_fields)

    @property
    def partition_types(self) -> tuple[DataType, ...]:
        """Return the types of the partition columns."""
        return tuple(f.type for f in self.schema.partition_fields)

    @property
    def bucket_mode(self) -> BucketMode:
        """Return how rows are assigned to buckets."""
        bucket = self.options.bucket
        if bucket > 0:
            return BucketMode.HASH_FIXED
        if not self.is_primary_key_table:
            return BucketMode.BUCKET_UNAWARE
        if bucket == -2:
            return BucketMode.POSTPONE
        covered = set(self.schema.partition_keys) <= set(self.schema.primary_keys)
        return BucketMode.HASH_DYNAMIC if covered else BucketMode.KEY_DYNAMIC

    @property
    def merges_postponed(self) -> bool:
        """Return whether queries return postponed rows."""
        return self.options.postpone_merge_on_read and self.bucket_mode is BucketMode.POSTPONE

    @property
    def bucket_key_fields(self) -> tuple[DataField, ...]:
        """Return the columns whose hash determines the bucket: `bucket-key`, or the trimmed primary key."""
        names: Sequence[str] = self.options.bucket_key or self.schema.trimmed_primary_keys
        return tuple(self.schema.field(n) for n in names)

    def partition_values(self, partition: bytes) -> tuple[object, ...]:
        """Return the values of a serialized partition."""
        return decode_row(partition, self.partition_types)

    def partition_text(self, partition: bytes) -> str:
        """Return a partition as `k=v/k2=v2`, which is its directory; empty for an unpartitioned table."""
        return self.paths.partition_path(partition)

    def with_options(self, dynamic: Mapping[str, str]) -> Table:
        """Return the table with options overlaid on the current ones.

        Raises:
            OptionError: an option is unknown, has an invalid value, or would change a fixed property of the stored
                table.
        """
        validate_options(dynamic)
        present = dict(self.options.values)
        for key, value in dynamic.items():
            if self._is_fixed(key, value):
                raise OptionError(
                    f"The option '{key}' of table {self.name} cannot be set for one statement or session.",
                    hint="Change it with ALTER TABLE … SET TBLPROPERTIES in SQL, where that is allowed.",
                    kind=ErrorKind.INVALID_OPTION,
                )
        if any(key.startswith(file_indexes.PREFIX) for key in dynamic):
            file_indexes.check_file_indexes(replace(self.schema, options=present | dict(dynamic)))
        if any(key in dynamic for key in START_OPTIONS):
            present = {k: v for k, v in present.items() if k not in (*START_OPTIONS, "scan.mode")}
        return replace(self, options=CoreOptions(present | dict(dynamic)))

    def _is_fixed(self, key: str, value: str) -> bool:
        """Return whether an option is a fixed property of the stored table and `value` differs from it."""
        if key in _KEY_OPTIONS:
            columns = self.schema.primary_keys if key == _KEY_OPTIONS[0] else self.schema.partition_keys
            return tuple(c.strip() for c in value.split(",")) != columns
        if key in _PATH:
            return value != self.options.values.get(key, value)
        option = find_option(key)
        if option is not None and option.name == _IGNORE_DELETE:
            return self.stored_options.ignore_delete and value.strip().lower() != "true"
        if option is None or not (option.immutable or scope_of(key) is Scope.TABLE):
            return False
        return value.strip().lower() != (self.options.get(option.name) or "").strip().lower()

    @property
    def effective_schema(self) -> TableSchema:
        """Return the schema with the effective options."""
        return replace(self.schema, options=dict(self.options.values))

    def at_schema(self, schema_id: int) -> Table:
        """Return the table at another schema version, with the same options."""
        return self if schema_id == self.schema.id else self.with_schema(self.schema_store.get(schema_id))

    def with_schema(self, schema: TableSchema) -> Table:
        """Return the table at the given schema, with the same options; those that name columns are of that schema."""
        if schema.id == self.schema.id:
            return replace(self, schema=schema)
        kept = {k: v for k, v in self.options.values.items() if not is_about_columns(k)}
        own = {k: v for k, v in schema.options.items() if is_about_columns(k)}
        return replace(self, schema=schema, options=CoreOptions(kept | own))

    def as_of(self, schema: TableSchema) -> Table:
        """Return the table at the schema of a snapshot to read.

        Options by which files are read are those of that schema. All others are those of this table, and so are those
        that were given in addition to its stored ones.
        """
        if schema.id == self.schema.id:
            return replace(self, schema=schema)
        given = {k for k, v in self.options.values.items() if v != self.schema.options.get(k)}
        kept = {k: v for k, v in self.with_schema(schema).options.values.items() if k in given or not is_about_files(k)}
        own = {k: v for k, v in schema.options.items() if k not in given and is_about_files(k)}
        return replace(self, schema=schema, options=CoreOptions(kept | own))

    def in_zone(self, zone: tzinfo) -> Table:
        """Return the table for a reader in a time zone: a region, or a fixed UTC offset."""
        region = getattr(zone, "key", None)
        text = region if isinstance(region, str) else str(timezone(zone.utcoffset(None) or timedelta()))
        return replace(self, zone=text.removeprefix("UTC") or "UTC")

    def require(self, *choices: Privilege) -> None:
        """Return if the user has one of the privileges on the table.

        Raises:
            AccessDeniedError: the user has none of them.
        """
        if self.access is not None:
            self.access.require(*choices)

    def allows(self, privilege: Privilege) -> bool:
        """Return whether the user has a privilege on the table."""
        return self.access is None or self.access.grants.has(privilege, self.access.table)

    def with_write_token(self) -> Table:
        """Return the table with a new write token, which identifies the files of one job by their names.

        Raises:
            AccessDeniedError: the user may not write to the table.
        """
        self.require(Privilege.INSERT)
        return replace(self, write_token=new_write_token())

    def to_config(self) -> str:
        """Return a JSON text from which another process can rebuild the table without I/O."""
        return _CONFIG.encode(
            _TableConfig(
                database=self.identifier.database,
                object_name=self.identifier.object_name,
                path=self.path,
                schema=self.schema.to_json(),
                options=self.options.values,
                branch=self.branch,
                write_token=self.write_token,
                zone=self.zone,
                file_io=self.file_io.to_config(),
            )
        )

    @classmethod
    def from_config(cls, text: str) -> Table:
        """Rebuild the table of a text of `to_config`.

        Raises:
            EngineError: the text is malformed.
        """
        config = _CONFIG.decode(text)
        return cls(
            identifier=Identifier.of((config.database, config.object_name)),
            path=config.path,
            schema=parse_schema(config.schema, "a task's table"),
            file_io=file_io_from_config(config.file_io),
            options=CoreOptions(config.options),
            branch=config.branch,
            write_token=config.write_token,
            zone=config.zone,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _TableConfig:
    """A table as sent to tasks; `schema` is the text of the schema's file."""

    database: str
    object_name: str
    path: str
    schema: str
    options: Mapping[str, str]
    branch: str
    write_token: str
    zone: str
    file_io: Mapping[str, str]


_CONFIG = MessageCodec[_TableConfig](_TableConfig, "table")


def table_of_task(text: str) -> Table:
    """Rebuild the table of a task on the machine that runs the task.

    Raises:
        NotFoundError: the directory of the database exists on this machine, but not that of the table.
        EngineError: neither exists; data written here would be lost.
    """
    table = Table.from_config(text)
    if isinstance(table.file_io, LocalFileIO) and not table.file_io.exists(table.paths.schema_dir):
        if table.file_io.exists(table.path.rpartition("/")[0]):
            raise NotFoundError(
                f"The directory of table {table.name}, {table.path}, does not exist on {platform.node()}.",
                hint="The table was dropped or renamed while the statement ran, or this machine has its own directory "
                "where the warehouse should be mounted.",
                kind=ErrorKind.TABLE_NOT_FOUND,
            )
        raise EngineError(
            f"The worker on {platform.node()} cannot access the directory of table {table.name}, {table.path}.",
            hint="Keep a warehouse for several machines on S3 or on a file system that all mount at the same path.",
            kind=ErrorKind.ENVIRONMENT,
        )
    return table
