"""Resolution of the table of a request: catalogs by their options, tables by name, path, or the JVM's token."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from functools import lru_cache
from typing import Any

import msgspec

from paimon_spark.bridge.protocol import CatalogInfo, Envelope
from paimon_spark.catalog.base import Catalog
from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.core.metadata.branches import on_branch
from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.metadata.row_ranges import evolves
from paimon_spark.core.metadata.row_tracking import tracks_rows
from paimon_spark.core.metadata.time_travel import resolve_snapshot
from paimon_spark.core.table import START_OPTIONS, TRAVEL_OPTIONS, Table
from paimon_spark.engine.chain_read import asked_time, is_chain_read
from paimon_spark.engine.fallback import reads_other_branch
from paimon_spark.engine.row_level import marks_keyed_rows, rewrites_files
from paimon_spark.errors import ConflictError, EngineError, OptionError, UnsupportedError
from paimon_spark.spark.bucket_layout import is_bucketed
from paimon_spark.spark.conf import session_options
from paimon_spark.spark.types import struct_to_spark
from paimon_spark.spec.aggregates import sequence_groups
from paimon_spark.spec.identifier import Identifier, check_name
from paimon_spark.spec.kinds import BucketMode, MergeEngine, Operation
from paimon_spark.spec.merge_rules import rewrites_replaced_rows
from paimon_spark.spec.option_checks import STORE_PREFIXES
from paimon_spark.spec.paths import MAIN_BRANCH
from paimon_spark.spec.privileges import Privilege
from paimon_spark.spec.schema_rules import check_fit
from paimon_spark.spec.stored_files import differing_definition
from paimon_spark.spec.support import Scope, check_given
from paimon_spark.spec.types import DataField

BRANCH_OPTION = "branch"
_HIDDEN_OPTIONS = frozenset({"owner"})
_OF_SPARK = frozenset(
    {"path", "paths", "catalog", "database", "table", "__partition_columns", "versionasof", "timestampasof"}
)
"""Options that Spark itself adds to those of a reader or writer, in lower case."""


def catalog_of(info: CatalogInfo) -> Catalog:
    """Return the catalog with these options, which is opened once per process."""
    return _open(tuple(sorted(info.options.items())))


@lru_cache(maxsize=64)
def _open(options: tuple[tuple[str, str], ...]) -> Catalog:
    return open_catalog(dict(options))


@dataclass(frozen=True, slots=True)
class TableToken:
    """The JVM's reference to a loaded table: it identifies the table and its state at that time."""

    database: str
    name: str
    schema_id: int
    path: str | None = None
    snapshot: int | None = None
    writes: bool = False
    moment: int | None = None
    """The epoch milliseconds at which all branches of a chain table are read."""
    travels: bool = False
    """Whether VERSION AS OF or TIMESTAMP AS OF selects the snapshot."""
    analyzed: int | None = None
    """The snapshot that ANALYZE reads: with the schema of the token, and without the session's options of reads."""

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> TableToken:
        """Return the token encoded as `plain`; for a system table, that of its base table is beside it.

        Raises:
            EngineError: it is not a token.
        """
        try:
            return msgspec.convert(raw, cls)
        except msgspec.ValidationError as e:
            raise EngineError(f"A request has no valid table token: {e}.") from e

    @property
    def plain(self) -> dict[str, Any]:
        """Return the token as JSON values."""
        return {k: v for k, v in dataclasses.asdict(self).items() if v is not None and v is not False}

    @property
    def identifier(self) -> Identifier:
        """Return the name."""
        return Identifier.of((self.database, self.name))


def load_named(
    envelope: Envelope, identifier: Identifier, options: Mapping[str, str] | None = None, *, writes: bool = False
) -> Table:
    """Return a table with its options overlaid by those of the session and of the statement.

    Args:
        envelope: the request.
        identifier: the table.
        options: those of the statement.
        writes: whether the table is changed, so that options that choose a snapshot do not apply.
    """
    session = session_options(envelope.conf, envelope.catalog.name, identifier, travel=not writes)
    table = catalog_of(envelope.catalog).load_table(identifier, {**session, **(options or {})})
    return table.in_zone(envelope.zone)


def load_token(
    envelope: Envelope, token: TableToken, options: Mapping[str, str] | None = None, use: Scope = Scope.READ
) -> Table:
    """Return the table of a token at the schema that the query was analysed with; the arguments are as below."""
    return at_token(load_newest(envelope, token, options, use), token, use)


def at_token(newest: Table, token: TableToken, use: Scope = Scope.READ) -> Table:
    """Return a table at the schema that a statement was analysed with.

    Raises:
        ConflictError: the statement writes, and the table was replaced by one with another definition since.
    """
    if token.schema_id == newest.schema.id:
        return newest
    schema = newest.schema_store.get(token.schema_id)
    what = differing_definition(newest.schema, schema)
    if what is not None and (token.writes or use is Scope.WRITE):
        raise ConflictError(
            f"Table {newest.name} was replaced by one with another {what} after the statement was analysed.",
            hint="Nothing was changed by this statement. Run it again.",
        )
    return newest.with_schema(schema) if what is None and token.snapshot is None else newest.as_of(schema)


def load_newest(
    envelope: Envelope, token: TableToken, options: Mapping[str, str] | None = None, use: Scope = Scope.READ
) -> Table:
    """Return the table of a token at its newest schema.

    Args:
        envelope: the request.
        token: the table.
        options: those of the statement.
        use: what the statement does with the table.

    Raises:
        OptionError: an option of the statement does not exist, or has no effect on it.
        AccessDeniedError: the statement changes rows, and the user does not have the privilege INSERT.
    """
    writes = token.writes or token.analyzed is not None or use is Scope.WRITE
    given = dict(options or {})
    identifier = token.identifier
    if use is not Scope.WRITE:
        identifier, given = split_branch(identifier, given)
    if token.path is not None:
        table = path_table(envelope, token.path, given, branch=identifier.branch, writes=writes)
    else:
        table = load_named(envelope, identifier, writes=writes)
    if use is Scope.WRITE:
        table.require(Privilege.INSERT)
    table = table.with_options(checked_options(table, given, use))
    if token.travels:
        check_alone(given)
    if token.moment is not None:
        table = table.with_options({"scan.timestamp-millis": str(token.moment)})
    elif token.snapshot is not None:
        table = pinned(table, token.snapshot)
    return table


def split_branch(identifier: Identifier, options: Mapping[str, str]) -> tuple[Identifier, dict[str, str]]:
    """Return the table of a read, on the branch of the option `branch` if that is given, and the other options.

    Raises:
        OptionError: the name of the table has a different branch.
    """
    given = {k: v for k, v in options.items() if k.lower() == BRANCH_OPTION}
    others = {k: v for k, v in options.items() if k not in given}
    if not given:
        return identifier, others
    (name,) = {v.strip() for v in given.values()}
    named = identifier.branch or MAIN_BRANCH
    if identifier.branch is not None and name != named:
        raise OptionError(
            f"The option '{BRANCH_OPTION}' is '{name}', but the name of the table has the branch '{named}'.",
            hint="Leave one of the two out.",
        )
    check_name(name, "branch")
    return dataclasses.replace(identifier, branch=None if name == MAIN_BRANCH else name), others


def load_to_change(envelope: Envelope, raw: Mapping[str, Any], options: Mapping[str, str] | None = None) -> Table:
    """Return the table of a plain token for a statement that changes its rows.

    Raises:
        UnsupportedError: it is a system table, whose token also identifies the table that it describes.
    """
    system = raw.get("rows_of") or raw.get("scan_of")
    if system is not None:
        base = f"{raw['database']}.{raw['name']}" if "name" in raw else None
        raise UnsupportedError(
            f"'{f'{base}${system}' if base else system}' is a system table, and its rows cannot be changed.",
            hint=f"Name the table itself: {base}." if base else "",
        )
    return load_token(envelope, TableToken.of(raw), options, Scope.WRITE)


def newest_token(
    envelope: Envelope, raw: Mapping[str, Any], options: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the token of a table, or of a system table that reads one, without a snapshot and with its newest schema.

    Raises:
        NotFoundError: the token has only a path, and there is no table.
    """
    if "rows_of" in raw:
        return dict(raw)
    if "database" not in raw:
        path_table(envelope, raw["path"], options or {}, writes=True)
    token = TableToken.of(raw)
    identifier, _ = split_branch(token.identifier, options or {})
    if token.path is not None:
        table = path_table(envelope, token.path, options or {}, branch=identifier.branch, writes=True)
    else:
        table = load_named(envelope, identifier, writes=True)
    return {**{k: v for k, v in raw.items() if k not in ("snapshot", "moment")}, "schema_id": table.schema.id}


def catalog_at(envelope: Envelope, path: str, options: Mapping[str, str]) -> Catalog:
    """Return a catalog for the table at a directory; the options, and those of Hadoop, configure the store."""
    warehouse = path.rstrip("/").rpartition("/")[0] or "/"
    access = {k: v for k, v in options.items() if _is_access(k)}
    return open_catalog({**envelope.catalog.options, **access, "warehouse": warehouse})


def table_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the table options of a read or write."""
    return {k: v for k, v in options.items() if k.lower() not in _OF_SPARK and not _is_access(k)}


def _is_access(key: str) -> bool:
    return key.lower().startswith(STORE_PREFIXES)


def checked_options(table: Table, given: Mapping[str, str], use: Scope) -> dict[str, str]:
    """Return the table options of a statement, after checking that each has an effect on it.

    Options that the table has stored may be repeated, because rows are saved with the options that created their table.

    Raises:
        OptionError: there is no such option, or it has no effect on the statement.
    """
    options = table_options(given)
    of = "a write" if use is Scope.WRITE else "a query"
    scopes = (Scope.READ, Scope.STREAM) if use is Scope.STREAM else (use,)
    check_given(options, of=of, scopes=scopes, stored=table.schema.options)
    if use is Scope.WRITE and not table.with_options(options).options.flag("write.merge-schema"):  # may add columns
        check_fit(table.schema, options)
    return options


def check_alone(options: Mapping[str, str]) -> None:
    """Raise if options of a statement select what to read beside VERSION AS OF or TIMESTAMP AS OF.

    Raises:
        OptionError: one of them does.
    """
    also = sorted(k for k in options if k in (*START_OPTIONS, "scan.mode"))
    if also:
        raise OptionError(
            f"The option '{also[0]}' = '{options[also[0]]}' selects what is read, and so does VERSION AS OF or "
            "TIMESTAMP AS OF of the same reference.",
            hint="Give one of them.",
        )


def path_table(
    envelope: Envelope, path: str, options: Mapping[str, str], *, branch: str | None = None, writes: bool = False
) -> Table:
    """Return the table at a directory; of `options`, only those of the store are applied."""
    conf = {k: v for k, v in envelope.conf.items() if k.startswith("spark.paimon.")}
    session = session_options(conf, "*", Identifier("*", "*"), travel=not writes)
    table = catalog_at(envelope, path, options).load_table_at(path, {} if branch else session)
    if branch is not None:
        table = on_branch(table, branch).with_options(session)
    return table.in_zone(envelope.zone)


def pinned(table: Table, snapshot_id: int) -> Table:
    """Return the table reading exactly one snapshot, or a tag of it if the snapshot has expired."""
    if not table.snapshots.exists(snapshot_id):
        for name, tag in RefStore.of(table).tags().items():
            if tag.snapshot.id == snapshot_id:
                return table.with_options({"scan.tag-name": name})
    return table.with_options({"scan.snapshot-id": str(snapshot_id)})


def chain_moment(table: Table, travel: Mapping[str, Any], zone: tzinfo) -> int | None:
    """Return the time that a statement reads the branches of a chain table at; the arguments are as below."""
    if not is_chain_read(table):
        return None
    micros = travel.get("timestamp")
    return asked_time(table, travel.get("version"), None if micros is None else micros // 1000, zone)


def time_travelled(table: Table, travel: Mapping[str, Any], zone: tzinfo) -> tuple[Table, int | None]:
    """Return the table at the schema of the snapshot that a statement travels to, and that snapshot.

    Args:
        table: the table with the options of session and statement.
        travel: VERSION AS OF or TIMESTAMP AS OF, if given.
        zone: the time zone of the option `scan.timestamp`.
    """
    options = table.options.values
    if not travel and not any(options.get(k) for k in TRAVEL_OPTIONS):
        return table, None
    version = travel.get("version")
    micros = travel.get("timestamp")
    snapshot, schema = resolve_snapshot(
        table, version=version, timestamp_millis=None if micros is None else micros // 1000, local_zone=zone
    )
    return table.as_of(schema), snapshot.id if snapshot else None


def described(envelope: Envelope, table: Table, token: TableToken) -> dict[str, Any]:
    """Return the description of a data table for the JVM."""
    schema = table.schema
    return {
        "kind": "data",
        "name": table.name,
        "schema": struct_to_spark(shown_fields(table)),
        "partition_keys": list(schema.partition_keys),
        "primary_keys": list(schema.primary_keys),
        "routing_keys": _routing_keys(table),
        "bucketed": is_bucketed(table),
        "tracked": tracks_rows(table),
        "partial_update": _partial_update(table),
        "rewrites": _rewriting_statements(table),
        "marks_deletes": marks_keyed_rows(table),
        "evolves": _evolution(table),
        "row_by_row": table.options.flag("delete.force-produce-changelog"),
        "properties": _properties(table),
        "token": token.plain,
    }


def shown_fields(table: Table) -> tuple[DataField, ...]:
    """Return the columns of a table as a query has them: nullable if it also reads another branch, whose may be."""
    if not reads_other_branch(table):
        return table.schema.fields
    return tuple(dataclasses.replace(f, type=dataclasses.replace(f.type, nullable=True)) for f in table.schema.fields)


def _routing_keys(table: Table) -> list[str]:
    """Return the columns that determine the bucket of a row in an append table; none if any file may have it."""
    if table.is_primary_key_table or table.bucket_mode is BucketMode.BUCKET_UNAWARE:
        return []
    return [*table.schema.partition_keys, *(f.name for f in table.bucket_key_fields)]


def _evolution(table: Table) -> dict[str, int] | None:
    """Return how often an UPDATE of a table with data evolution is tried, and the wait in between in milliseconds."""
    if not evolves(table):
        return None
    options = table.options
    attempts = options.number("write.data-evolution.update-conflict-retry.max-attempts")
    return {
        "attempts": max(1, attempts),
        "wait": max(0, options.number("write.data-evolution.update-conflict-retry.wait-ms")),
    }


def _partial_update(table: Table) -> dict[str, Any] | None:
    """Return the rules by which row-level changes of a table with the partial-update engine are checked."""
    options = table.options
    if not table.is_primary_key_table or options.merge_engine is not MergeEngine.PARTIAL_UPDATE:
        return None
    groups = sequence_groups(options, table.schema.fields, table.schema.primary_keys)
    return {
        "groups": [{"sequence": g.sequence, "columns": g.columns, "removes": g.removes_record} for g in groups],
    }


def _rewriting_statements(table: Table) -> list[str]:
    """Return the statements that rewrite files; none if options are invalid, which the statements themselves report."""
    kinds: list[str] = ["REPLACE"] if rewrites_replaced_rows(table.schema, table.options) else []
    try:
        return kinds + [o for o in (Operation.DELETE, Operation.UPDATE, Operation.MERGE) if rewrites_files(table, o)]
    except OptionError:
        return []


def _properties(table: Table) -> dict[str, str]:
    schema = table.schema
    shown = {k: v for k, v in schema.options.items() if k not in _HIDDEN_OPTIONS}
    shown |= {"provider": "paimon", "location": _location(table.path), "path": _location(table.path)}
    if schema.primary_keys:
        shown["primary-key"] = ",".join(schema.primary_keys)
    if schema.comment:
        shown["comment"] = schema.comment
    if "owner" in schema.options:
        shown["owner"] = schema.options["owner"]
    return shown


def _location(path: str) -> str:
    return path if ":" in path.partition("/")[0] else f"file:{path}"
