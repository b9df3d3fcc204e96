"""Unsupported features of tables, named by the option or column that requires them.

A table is checked for three uses: reading it, writing (or compacting) it, and creating it with its options. The last
check is the strictest: an option that this release would not honour is rejected when it is set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.spec.compressions import COMPRESSIONS, IDLE, MANIFEST_COMPRESSIONS, compression_of, manifest_codec_of
from paimon_spark.spec.kinds import MergeEngine
from paimon_spark.spec.merge_rules import local_merge_obstacle
from paimon_spark.spec.options import POSTPONE_BUCKET, UNAWARE_OR_DYNAMIC_BUCKET, CoreOptions
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import AtomicType, DataField, MapType, TypeRoot, atomic_text, beyond_micros, holds_root

DATA_FORMATS = tuple(COMPRESSIONS)
_ELSEWHERE = "Use Apache Paimon for this table"
_MAP_LAYOUT = ".map.storage-layout"


class Use(IntEnum):
    """Use of a table; a later use includes the restrictions of the earlier ones."""

    READ = 0
    WRITE = 1
    CREATE = 2


@dataclass(frozen=True, slots=True)
class Unsupported:
    """An unsupported feature: what it is, a workaround, and the first use that it prevents."""

    what: str
    hint: str
    use: Use
    column: str | None = None


def unsupported(schema: TableSchema, use: Use) -> list[Unsupported]:
    """Return the features of a table that prevent `use`."""
    options = CoreOptions(schema.options)
    return [found for check in _CHECKS for found in check(schema, options) if found.use <= use]


def check_readable(schema: TableSchema, columns: tuple[str, ...] | None = None) -> None:
    """Reject a table that this release cannot read correctly.

    Args:
        schema: the table.
        columns: the columns to read; all by default. Columns of unsupported types matter only if they are read.

    Raises:
        UnsupportedError: the message names the option or column and a workaround.
    """
    found = [u for u in unsupported(schema, Use.READ) if u.column is None or columns is None or u.column in columns]
    _refuse(found, "read")


def check_writable(schema: TableSchema) -> None:
    """Reject a table that this release cannot write correctly.

    Raises:
        UnsupportedError: the message names the option or column and a workaround.
    """
    _refuse(unsupported(schema, Use.WRITE), "written")


def check_creatable(schema: TableSchema, before: TableSchema | None = None) -> None:
    """Reject a new or changed table that requires an unsupported feature.

    Features that the table required `before` the change are accepted.

    Raises:
        UnsupportedError: the message names the option or column and a workaround.
    """
    old = {u.what for u in unsupported(before, Use.CREATE)} if before is not None else set()
    _refuse([u for u in unsupported(schema, Use.CREATE) if u.what not in old], "created" if before is None else "set")


def _refuse(found: list[Unsupported], verb: str) -> None:
    if not found:
        return
    first = found[0]
    also = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    sentence = {
        "read": f"A table with {first.what} cannot be read by this release{also}.",
        "written": f"A table with {first.what} cannot be written by this release{also}.",
        "created": f"A table with {first.what} cannot be created by this release{also}.",
        "set": f"A table cannot be changed to have {first.what} by this release{also}.",
    }
    raise UnsupportedError(sentence[verb], hint=first.hint)


def _option(key: str, options: CoreOptions) -> str:
    return f"'{key}' = '{options.get(key)}'"


def _kind(schema: TableSchema, options: CoreOptions) -> Iterator[Unsupported]:
    if options.word("type") != "table":
        yield Unsupported(_option("type", options), f"{_ELSEWHERE}: it does not consist of Paimon's files.", Use.READ)
    if options.word("manifest.format").lower() != "avro":
        yield Unsupported(_option("manifest.format", options), f"{_ELSEWHERE}.", Use.READ)


def _merging(schema: TableSchema, options: CoreOptions) -> Iterator[Unsupported]:
    if not schema.primary_keys:
        return
    crossing = not set(schema.partition_keys) <= set(schema.primary_keys)
    if crossing and options.bucket == UNAWARE_OR_DYNAMIC_BUCKET and options.ignore_delete:
        yield Unsupported(
            f"{_option('ignore-delete', options)}, dynamic buckets and a primary key that does not contain the "
            "partition columns",
            f"Put the columns {', '.join(schema.partition_keys)} into the primary key, or leave the option out: a key "
            "that moves to another partition is deleted from the old one.",
            Use.WRITE,
        )
    if options.snapshot_ordering and options.bucket == POSTPONE_BUCKET:
        yield Unsupported(
            f"{_option('sequence.snapshot-ordering', options)} and postponed buckets",
            "Choose another 'bucket': a postponed row gets to its bucket by another snapshot than that which added it.",
            Use.WRITE,
        )


def _upserts(schema: TableSchema, options: CoreOptions) -> Iterator[Unsupported]:
    key = options.upsert_key
    if schema.primary_keys or not key:
        return
    if options.sequence_field and options.sequence_descending:
        what = f"{_option('upsert-key', options)} and {_option('sequence.field.sort-order', options)}"
        yield Unsupported(what, "Set the order to 'ascending': Apache Paimon keeps the largest sequence.", Use.WRITE)
    if options.rowkind_field is not None:
        what = f"{_option('upsert-key', options)} and {_option('rowkind.field', options)}"
        yield Unsupported(what, "Leave 'rowkind.field' out: a table without a primary key takes no deletes.", Use.WRITE)
    moving = [c for c in schema.partition_keys if c not in key]
    if moving and options.flag("data-evolution.enabled"):
        what = f"{_option('upsert-key', options)} and 'data-evolution.enabled' = 'true'"
        hint = f"Put the partition columns {', '.join(moving)} into 'upsert-key': a row that moved would lose its id."
        yield Unsupported(what, hint, Use.WRITE)


def _local_merge(schema: TableSchema, options: CoreOptions) -> Iterator[Unsupported]:
    try:
        if not schema.primary_keys or options.local_merge_buffer_size is None:
            return
        obstacle = local_merge_obstacle(schema, options)
    except OptionError:  # reported when the options are set, or the table is written
        return
    if obstacle is not None:
        option = _option("local-merge-buffer-size", options)
        yield Unsupported(f"{option} and {obstacle.what}", f"Leave the option out: {obstacle.why}.", Use.CREATE)


def _clustered(schema: TableSchema, options: CoreOptions) -> Iterator[Unsupported]:
    if not (schema.primary_keys and options.clusters_keyed_files):
        return
    what, why = _option("pk-clustering-override", options), "its files are not sorted by key, so they cannot be merged"
    if not options.deletion_vectors_enabled and options.merge_engine is not MergeEngine.FIRST_ROW:
        yield Unsupported(f"{what} and without deletion vectors", f"{_ELSEWHERE}: {why}.", Use.READ)
    for key, merged in (
        ("deletion-vectors.merge-on-read", options.deletion_vectors_merge_on_read),
        ("postpone.merge-on-read", options.postpone_merge_on_read and options.bucket == POSTPONE_BUCKET),
    ):
        if merged:
            yield Unsupported(f"{what} and {_option(key, options)}", f"Set '{key}' = 'false': {why}.", Use.READ)


_FLAGS = (
    ("pk-clustering-override", Use.WRITE, "its files are not sorted by key"),
    ("primary-key.nullable", Use.READ, "rows whose key is null cannot be merged"),
    ("query-auth.enabled", Use.READ, "a server decides who may read which rows"),
    ("visibility-callback.enabled", Use.WRITE, "its commits wait for other jobs"),
)


def _flags(schema: TableSchema, options: CoreOptions) -> Iterator[Unsupported]:
    if options.flag("row-tracking.enabled") and schema.primary_keys:
        way = "It can be read; to write it, leave the option out: it also has a primary key."
        yield Unsupported(_option("row-tracking.enabled", options), way, Use.WRITE)
    for key, use, why in _FLAGS:
        if options.flag(key):
            hint = f"It can be read; to write it, use Apache Paimon: {why}." if use is Use.WRITE else None
            yield Unsupported(_option(key, options), hint or f"{_ELSEWHERE}, or leave the option out: {why}.", use)


_SETTINGS = (
    ("data-file.external-paths", Use.WRITE, "new files would have to be written to other locations"),
    ("commit.callbacks", Use.WRITE, "the classes it names are not called"),
    ("commit.custom-listeners", Use.WRITE, "the classes it names are not called"),
    ("pk-bitmap.index.columns", Use.WRITE, "its index would be out of date"),
    ("pk-btree.index.columns", Use.WRITE, "its index would be out of date"),
    ("pk-full-text.index.columns", Use.WRITE, "its index would be out of date"),
    ("pk-multivalue.index.columns", Use.WRITE, "its index would be out of date"),
    ("pk-vector.index.columns", Use.WRITE, "its index would be out of date"),
    ("blob-descriptor-field", Use.WRITE, "its values are references to other files"),
    ("blob-view-field", Use.WRITE, "its values are references to other tables"),
    ("vector.file.format", Use.WRITE, "vectors would have to be written to files of their own"),
    ("tag.callbacks", Use.CREATE, "the classes it names are not called"),
)
_WORDS = (("metadata.iceberg.storage", "disabled", Use.WRITE, "no Iceberg metadata is written"),)


def _settings(schema: TableSchema, options: CoreOptions) -> Iterator[Unsupported]:
    for key, use, why in _SETTINGS:
        if (options.get(key) or "").strip():
            yield Unsupported(_option(key, options), f"{_ELSEWHERE}, or leave the option out: {why}.", use)
    for key, common, use, why in _WORDS:
        if options.word(key).lower() != common:
            hint = f"{_ELSEWHERE}, or set the option to '{common}': {why}."
            yield Unsupported(_option(key, options), hint, use)
    for name, (key, value) in _map_layouts(options.values).items():
        hint = f"{_ELSEWHERE}, or read the other columns only: these maps are stored in columns."
        yield Unsupported(f"'{key}' = '{value}'", hint, Use.READ, name)


def _map_layouts(options: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the options by which MAP columns are not stored as maps, by the name of the column."""
    return {
        key.removeprefix("fields.").removesuffix(_MAP_LAYOUT): (key, value)
        for key, value in options.items()
        if key.startswith("fields.") and key.endswith(_MAP_LAYOUT) and value.strip().lower() != "default"
    }


def maps_not_stored(schema: TableSchema, columns: Iterable[DataField]) -> dict[str, tuple[str, str]]:
    """Return the MAP columns that files of a schema do not store as maps, with the option that says so."""
    maps = [f.name for f in columns if isinstance(f.type, MapType)]
    layouts = _map_layouts(schema.options) if maps else {}
    return {name: layouts[name] for name in maps if name in layouts}


def check_maps_stored(schema: TableSchema, columns: Iterable[DataField], file_name: str) -> None:
    """Reject MAP columns that a file does not store as maps, by the schema that it was written with.

    Raises:
        UnsupportedError: there is such a column among `columns`.
    """
    for name, (key, value) in maps_not_stored(schema, columns).items():
        raise UnsupportedError(
            f"The data file {file_name} was written with '{key}' = '{value}', which this release cannot read.",
            hint=f"Leave out the column '{name}', or rewrite the table with Apache Paimon, by INSERT OVERWRITE of its "
            "own rows.",
        )


def _formats(schema: TableSchema, options: CoreOptions) -> Iterator[Unsupported]:
    named = {"file.format": options.file_format}
    named |= {f"file.format.per.level' at level '{n}": f for n, f in options.pairs("file.format.per.level").items()}
    for key, name in named.items():
        if name.lower() not in DATA_FORMATS:
            hint = f"Choose one of {', '.join(DATA_FORMATS)}."
            yield Unsupported(f"'{key}' = '{name}'", hint, Use.WRITE)


def _compressions(schema: TableSchema, options: CoreOptions) -> Iterator[Unsupported]:
    try:
        common, own = options.file_compression, options.pairs("file.compression.per.level")
    except OptionError as e:
        yield Unsupported(_option("file.compression.per.level", options), e.hint or "Unset it.", Use.WRITE)
        return
    formats = options.pairs("file.format.per.level")
    for level in (None, *sorted(own.keys() | formats.keys())):
        name, data_format = own.get(level or "", common), formats.get(level or "", options.file_format).lower()
        found = compression_of(data_format, name) if data_format in COMPRESSIONS else "none"
        if found is None or (data_format, found) in IDLE:
            key = f"file.compression.per.level' at level '{level}" if level in own else "file.compression"
            hint = f"For {data_format} files choose one of {', '.join(COMPRESSIONS[data_format])}."
            yield Unsupported(f"'{key}' = '{name}'", hint, Use.WRITE if found is None else Use.CREATE)


def _manifests(schema: TableSchema, options: CoreOptions) -> Iterator[Unsupported]:
    if manifest_codec_of(options.word("manifest.compression")) is None:
        hint = f"Choose one of {', '.join(MANIFEST_COMPRESSIONS)}; null does not compress."
        yield Unsupported(_option("manifest.compression", options), hint, Use.WRITE)


def _changelog_files(schema: TableSchema, options: CoreOptions) -> Iterator[Unsupported]:
    if not any(options.get(f"changelog-file.{part}") for part in ("format", "compression")):
        return
    name, codec = options.file_format_of(0, changelog=True), options.file_compression_of(0, changelog=True)
    if name not in DATA_FORMATS:
        yield Unsupported(f"'changelog-file.format' = '{name}'", f"Choose one of {', '.join(DATA_FORMATS)}.", Use.WRITE)
    elif compression_of(name, codec) is None:
        hint = f"For {name} files choose one of {', '.join(COMPRESSIONS[name])}."
        yield Unsupported(f"the codec '{codec}' of changelog files", hint, Use.WRITE)


def _columns(schema: TableSchema, options: CoreOptions) -> Iterator[Unsupported]:
    others = [name for name in options.file_formats if name != "parquet"]
    for f in schema.fields:
        if holds_root(f.type, TypeRoot.BLOB):
            yield from _blob(f, schema, options)
        if others and holds_root(f.type, TypeRoot.VARIANT):
            hint = "Set 'file.format' = 'parquet', or use BINARY or STRING."
            yield Unsupported(f"the column '{f.name}' of type VARIANT in {others[0]} files", hint, Use.WRITE, f.name)
        if "avro" in others and (fine := beyond_micros(f.type)) is not None:
            key = next(k for k, name in _format_options(options) if name == "avro")
            hint = f"Store at most 6 digits of the second, or choose parquet or orc in '{key}'."
            what = f"the column '{f.name}' of type {atomic_text(fine)} in avro files ('{key}')"
            yield Unsupported(what, hint, Use.WRITE, f.name)


def _format_options(options: CoreOptions) -> Iterator[tuple[str, str]]:
    """Yield the options that choose the formats of data files, with the formats."""
    yield "file.format", options.file_format
    yield from (("file.format.per.level", f.lower()) for f in options.pairs("file.format.per.level").values())


def _blob(f: DataField, schema: TableSchema, options: CoreOptions) -> Iterator[Unsupported]:
    """Yield the features that prevent the use of a BLOB column."""
    hint = "Read the other columns only."
    if not isinstance(f.type, AtomicType):
        yield Unsupported(f"the column '{f.name}' of type BLOB inside another type", hint, Use.READ, f.name)
    elif schema.primary_keys or not options.flag("data-evolution.enabled"):
        what = "without 'data-evolution.enabled'" if not schema.primary_keys else "and a primary key"
        yield Unsupported(f"the column '{f.name}' of type BLOB {what}", hint, Use.READ, f.name)
    for key in ("blob-descriptor-field", "blob-view-field"):
        if f.name in options.names(key):
            yield Unsupported(f"the column '{f.name}' in '{key}'", hint, Use.READ, f.name)


_CHECKS: tuple[Callable[[TableSchema, CoreOptions], Iterator[Unsupported]], ...] = (
    _kind,
    _merging,
    _upserts,
    _local_merge,
    _clustered,
    _flags,
    _settings,
    _formats,
    _compressions,
    _manifests,
    _changelog_files,
    _columns,
)
