"""Manifest, manifest list and index manifest: Avro bytes to values and back.

Reading is by column name: a column that the file lacks is null, an unknown column is kept with its record (`foreign`)
and written back by the next rewrite.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeVar, cast

import fastavro
from fastavro.schema import SchemaParseException

from paimon_spark.errors import CorruptTableError, UnsupportedError
from paimon_spark.format.avro.container import MALFORMED, SNAPPY, AvroContainer, check_schema, with_snappy
from paimon_spark.format.manifest.entry_decoder import decode_entries, has_known_layout
from paimon_spark.format.manifest.file_records import file_record, stats_record
from paimon_spark.format.manifest.layout import (
    ENTRY_FIELDS,
    FILE_FIELDS,
    FILE_LAYOUT,
    INDEX_FIELDS,
    INDEX_MANIFEST_VERSION,
    LARGEST_INT,
    LIST_FIELDS,
    MANIFEST_VERSION,
    Kind,
    column_conforms,
    record,
    top_record,
)
from paimon_spark.format.manifest.lazy_manifest import FEWEST_BLOCKS, Manifest, decode_lazily
from paimon_spark.spec.identifier import is_one_name, shown
from paimon_spark.spec.kinds import FileKind, FileSource
from paimon_spark.spec.manifest import (
    EMPTY_STATS,
    DataFileMeta,
    DeletionRange,
    ForeignColumn,
    IndexFileMeta,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
    SimpleStats,
)
from paimon_spark.spec.paths import POSTPONE_BUCKET

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLI = timedelta(milliseconds=1)
_MAX_BLOCK = 16 << 20
_MAX_TOTAL = 256 << 20
_MAX_RATIO = 1000
"""No block of a metadata file unpacks to more than `_MAX_BLOCK` bytes; all of them to no more than `_MAX_TOTAL`, and
`_MAX_RATIO` bytes for each byte of the file: statistics of many empty columns pack well."""
_FEW_RECORDS = 100_000
_RECORD_BYTES = 8
"""Minimum compressed size of a record, which has a file name; small files may compress better."""

_ENTRY_NEEDED = ("_PARTITION", "_BUCKET", "_FILE")
_FILE_COUNTS = tuple(f.name for f in FILE_LAYOUT if f.least == 0)
_FILE_NEEDED = tuple(f.name for f in FILE_LAYOUT if f.kind in (Kind.INT, Kind.LONG, Kind.BYTES))
_LIST_COUNTS = ("_FILE_SIZE", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES", "_SCHEMA_ID")
_LIST_INTS = ("_MIN_BUCKET", "_MAX_BUCKET", "_MIN_LEVEL", "_MAX_LEVEL")
_INDEX_COUNTS = ("_FILE_SIZE", "_ROW_COUNT")
_INDEX_NEEDED = (*_INDEX_COUNTS, "_PARTITION", "_BUCKET", "_INDEX_TYPE")
_T = TypeVar("_T")
_Q = TypeVar("_Q")
_Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Compression:
    """The Avro codec of a new file, and the level of zstandard."""

    codec: str = "zstandard"
    level: int = 1


ZSTD = Compression()


@dataclass(frozen=True, slots=True)
class _Unknown:
    """One column that the file has and the tables of `layout` lack."""

    path: str
    avro_type: str

    def pick(self, raw: _Record) -> Any:
        outer, _, name = self.path.rpartition(".")
        return raw[outer][name] if outer else raw[name]


def read_manifest(data: bytes, where: str = "a manifest", size: int | None = None) -> list[ManifestEntry]:
    """Return the entries of a manifest in file order.

    Args:
        data: the file's bytes.
        where: the file's name for error messages.
        size: the size that the manifest list records; fewer bytes mean a truncated file.

    Raises:
        CorruptTableError: the bytes are not a manifest.
        UnsupportedError: the manifest has an unknown version.
    """
    return list(open_manifest(data, where, size).entries())


def open_manifest(
    data: bytes, where: str = "a manifest", size: int | None = None, *, fewest_blocks: int = FEWEST_BLOCKS
) -> Manifest:
    """Return a manifest; arguments and errors as in `read_manifest`.

    Its entries are decoded to objects if the file has fewer Avro blocks than `fewest_blocks`.
    """
    known = {"": ENTRY_FIELDS, "_FILE": FILE_FIELDS}

    def quick(file: AvroContainer) -> Manifest | None:
        if not has_known_layout(file.schema):
            return None
        found = decode_lazily(file, where) if len(file.blocks) >= fewest_blocks else None
        if found is not None:
            return found
        entries = decode_entries(file.unpacked())
        return None if entries is None else Manifest(entries)

    found = _read(data, where, size, MANIFEST_VERSION, known, _entry, quick)
    return found if isinstance(found, Manifest) else Manifest(found)


def write_manifest(entries: Iterable[ManifestEntry], compression: Compression = ZSTD) -> bytes:
    """Return the bytes of a manifest."""
    items = list(entries)
    extra = _union(e.foreign for e in items)
    file_record = record("record__FILE", FILE_FIELDS | extra.get("_FILE", {}))
    schema = top_record(ENTRY_FIELDS | {"_FILE": file_record} | extra.get("", {}))
    return _write(schema, (_with_foreign(_entry_record(e), e.foreign) for e in items), compression)


def read_manifest_list(data: bytes, where: str = "a manifest list", size: int | None = None) -> list[ManifestFileMeta]:
    """Return the records of a manifest list in file order; errors as in `read_manifest`."""
    return _read(data, where, size, MANIFEST_VERSION, {"": LIST_FIELDS}, _list_meta)


def write_manifest_list(metas: Iterable[ManifestFileMeta], compression: Compression = ZSTD) -> bytes:
    """Return the bytes of a manifest list."""
    items = list(metas)
    schema = top_record(LIST_FIELDS | _union(m.foreign for m in items).get("", {}))
    return _write(schema, (_with_foreign(_list_record(m), m.foreign) for m in items), compression)


def read_index_manifest(data: bytes, where: str = "an index manifest") -> list[IndexManifestEntry]:
    """Return the entries of an index manifest; errors as in `read_manifest`."""
    return _read(data, where, None, INDEX_MANIFEST_VERSION, {"": INDEX_FIELDS}, _index_entry)


def write_index_manifest(entries: Iterable[IndexManifestEntry], compression: Compression = ZSTD) -> bytes:
    """Return the bytes of an index manifest."""
    items = list(entries)
    schema = top_record(INDEX_FIELDS | _union(e.foreign for e in items).get("", {}))
    return _write(schema, (_with_foreign(_index_record(e), e.foreign) for e in items), compression)


def _read(
    data: bytes,
    where: str,
    size: int | None,
    version: int,
    known: dict[str, _Record],
    make: Callable[[_Record, tuple[ForeignColumn, ...]], _T],
    quick: Callable[[AvroContainer], _Q | None] = lambda _: None,
) -> list[_T] | _Q:
    if size is not None and len(data) < size:
        raise CorruptTableError(f"{where} is truncated: it has {len(data)} bytes of {size}.", hint=_RESTORE)
    most = _FEW_RECORDS + len(data) // _RECORD_BYTES
    try:
        file = AvroContainer(data, max_block=_MAX_BLOCK, max_total=_MAX_TOTAL + _MAX_RATIO * len(data))
        if file.row_count > most:
            raise ValueError(f"its {len(data)} bytes claim to hold {file.row_count} records")
        if (found := quick(file)) is not None:
            return found
        unknown = _unknown_columns(file, known)
        out = []
        for raw in cast("Iterable[_Record]", fastavro.reader(file.stream())):
            if raw["_VERSION"] != version:
                raise UnsupportedError(
                    f"{where} has version {raw['_VERSION']}; this release reads version {version}.",
                    hint="Read the table with the release of Apache Paimon that wrote it.",
                )
            out.append(make(raw, _foreign(raw, unknown) if unknown else ()))
    except MALFORMED as e:
        raise CorruptTableError(f"{where} cannot be read: {_reason(e)}.", hint=_RESTORE) from e
    return out


_RESTORE = "Restore the file from a backup, or roll the table back to a snapshot that does not need it."


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0].rstrip(". :")


def _write(schema: _Record, records: Iterable[_Record], compression: Compression) -> bytes:
    out = io.BytesIO()
    try:
        parsed = fastavro.parse_schema(schema)
    except SchemaParseException as e:
        raise UnsupportedError(
            f"The unknown columns of the table's metadata cannot be merged: {_reason(e)}.",
            hint="Compact the table with the release of Apache Paimon that wrote it.",
        ) from e
    codec = compression.codec
    level = compression.level if codec == ZSTD.codec else None
    fastavro.writer(out, parsed, records, codec="null" if codec == SNAPPY else codec, codec_compression_level=level)
    return with_snappy(out.getvalue(), max_block=_MAX_BLOCK) if codec == SNAPPY else out.getvalue()


def _unknown_columns(file: AvroContainer, known: dict[str, _Record]) -> tuple[_Unknown, ...]:
    """Return the columns of the file's schema that are not in `known` (record path → types by name).

    Raises:
        ValueError: a known column has another type.
        UnsupportedError: an unknown column has a type that is defined elsewhere in the file.
    """
    found = []
    for outer, types in known.items():
        fields = _fields_of(file.schema, outer)
        for f in fields:
            name = f["name"]
            if name not in types:
                path = f"{outer}.{name}" if outer else name
                found.append(_Unknown(path, json.dumps(_self_contained(f["type"], path))))
            elif not column_conforms(name, f["type"], types[name], file.named):
                raise ValueError(f"its column {name} has the type {json.dumps(f['type'])[:80]}")
        for f in fields:
            if sum(g["name"] == f["name"] for g in fields) > 1:
                raise ValueError(f"it has the column {f['name']} more than once")
    return tuple(found)


def _self_contained(avro_type: Any, path: str) -> Any:
    """Return the type of an unknown column if it can be written without the rest of the file's schema."""
    try:
        check_schema(avro_type)
    except ValueError as e:
        raise UnsupportedError(
            f"The unknown metadata column {path} has a conflicting type: {e}.",
            hint="Read the table with the release of Apache Paimon that wrote it.",
        ) from e
    return avro_type


def _fields_of(schema: Any, outer: str) -> Sequence[_Record]:
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ValueError("its records have no columns")
    fields: Sequence[_Record] = schema["fields"]
    if not all(isinstance(f.get("name"), str) for f in fields):
        raise ValueError("a column has no name")
    if not outer:
        return fields
    return next((_fields_of(f["type"], "") for f in fields if f["name"] == outer), ())


def _foreign(raw: _Record, unknown: tuple[_Unknown, ...]) -> tuple[ForeignColumn, ...]:
    """Return the values of the unknown columns; columns that cannot be written again are an error."""
    found = [ForeignColumn(u.path, u.avro_type, v) for u in unknown if (v := u.pick(raw)) is not None]
    for column in found:
        fastavro.schemaless_writer(io.BytesIO(), _parsed(column.avro_type), column.value)
    return tuple(found)


@lru_cache(64)
def _parsed(avro_type: str) -> Any:
    return fastavro.parse_schema(json.loads(avro_type))


def _union(groups: Iterable[tuple[ForeignColumn, ...]]) -> dict[str, dict[str, Any]]:
    """Return the unknown columns of all records as optional fields: record path → name → type."""
    out: dict[str, dict[str, Any]] = {}
    for column in (c for group in groups for c in group):
        outer, _, name = column.path.rpartition(".")
        avro_type = json.loads(column.avro_type)
        optional = avro_type if isinstance(avro_type, list) else ["null", avro_type]
        if out.setdefault(outer, {}).setdefault(name, optional) != optional:
            raise UnsupportedError(
                f"The unknown metadata column {column.path} has several types in the files of one table.",
                hint="Compact the table with the release of Apache Paimon that wrote it.",
            )
    return out


def _with_foreign(raw: _Record, foreign: tuple[ForeignColumn, ...]) -> _Record:
    for column in foreign:
        outer, _, name = column.path.rpartition(".")
        (raw[outer] if outer else raw)[name] = column.value
    return raw


def _stats(raw: _Record | None) -> SimpleStats:
    if raw is None:
        return EMPTY_STATS
    _sound(raw, ("_MIN_VALUES", "_MAX_VALUES"), ())
    return SimpleStats(raw["_MIN_VALUES"], raw["_MAX_VALUES"], tuple(raw.get("_NULL_COUNTS") or ()))


def _names(values: list[str | None] | None) -> tuple[str, ...] | None:
    if values is not None and None in values:
        raise ValueError("the name of a column is null")
    return None if values is None else tuple(cast("list[str]", values))


def _millis(value: datetime | int | None) -> int | None:
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).__sub__(_EPOCH) // _MILLI
    return value


def _sound(raw: _Record, needed: tuple[str, ...], counts: tuple[str, ...]) -> None:
    """Reject a record with missing required values, or negative counts."""
    for name in needed:
        if raw[name] is None:
            raise ValueError(f"{name} is null")
    for name in counts:
        if raw.get(name) is not None and raw[name] < 0:
            raise ValueError(f"{name} is {raw[name]}")


def _bare_name(name: str | None) -> str:
    """Return the name of a file after checking that it is a plain name."""
    if name is None or not is_one_name(name):
        raise ValueError(f"{shown(name or '')} is not a file name: it would lead out of its directory")
    return name


def _source(value: int | str | None) -> FileSource | None:
    if isinstance(value, str):
        return FileSource[value]
    return None if value is None else FileSource(value)


def _file(raw: _Record) -> DataFileMeta:
    get = raw.get
    _sound(raw, _FILE_NEEDED, _FILE_COUNTS)
    _check_ints(raw, ("_LEVEL",))
    return DataFileMeta(
        file_name=_bare_name(raw["_FILE_NAME"]),
        file_size=raw["_FILE_SIZE"],
        row_count=raw["_ROW_COUNT"],
        min_key=raw["_MIN_KEY"],
        max_key=raw["_MAX_KEY"],
        key_stats=_stats(get("_KEY_STATS")),
        value_stats=_stats(get("_VALUE_STATS")),
        min_sequence_number=raw["_MIN_SEQUENCE_NUMBER"],
        max_sequence_number=raw["_MAX_SEQUENCE_NUMBER"],
        schema_id=raw["_SCHEMA_ID"],
        level=raw["_LEVEL"],
        extra_files=tuple(map(_bare_name, get("_EXTRA_FILES") or ())),
        creation_time=_millis(get("_CREATION_TIME")),
        delete_row_count=get("_DELETE_ROW_COUNT"),
        embedded_index=get("_EMBEDDED_FILE_INDEX"),
        file_source=_source(get("_FILE_SOURCE")),
        value_stats_cols=_names(get("_VALUE_STATS_COLS")),
        external_path=get("_EXTERNAL_PATH"),
        first_row_id=get("_FIRST_ROW_ID"),
        write_cols=_names(get("_WRITE_COLS")),
    )


def _entry(raw: _Record, foreign: tuple[ForeignColumn, ...]) -> ManifestEntry:
    _sound(raw, _ENTRY_NEEDED, ())
    _check_ints(raw, ("_TOTAL_BUCKETS",))
    _check_bucket(raw["_BUCKET"])
    return ManifestEntry(
        FileKind(raw["_KIND"]),
        raw["_PARTITION"],
        raw["_BUCKET"],
        -1 if raw.get("_TOTAL_BUCKETS") is None else raw["_TOTAL_BUCKETS"],
        _file(raw["_FILE"]),
        foreign,
    )


def _entry_record(e: ManifestEntry) -> _Record:
    return {
        "_VERSION": MANIFEST_VERSION,
        "_KIND": int(e.kind),
        "_PARTITION": e.partition,
        "_BUCKET": e.bucket,
        "_TOTAL_BUCKETS": e.total_buckets,
        "_FILE": file_record(e.file),
    }


def _check_ints(raw: _Record, names: tuple[str, ...]) -> None:
    for name in names:
        value = raw.get(name)
        if value is not None and not -LARGEST_INT <= value <= LARGEST_INT:
            raise ValueError(f"{name} is {value}")


def _check_bucket(bucket: int) -> None:
    if not POSTPONE_BUCKET <= bucket <= LARGEST_INT:
        raise ValueError(f"_BUCKET is {bucket}")


def _list_meta(raw: _Record, foreign: tuple[ForeignColumn, ...]) -> ManifestFileMeta:
    _sound(raw, _LIST_COUNTS, _LIST_COUNTS)
    _check_ints(raw, _LIST_INTS)
    return ManifestFileMeta(
        file_name=_bare_name(raw["_FILE_NAME"]),
        file_size=raw["_FILE_SIZE"],
        num_added_files=raw["_NUM_ADDED_FILES"],
        num_deleted_files=raw["_NUM_DELETED_FILES"],
        partition_stats=_stats(raw.get("_PARTITION_STATS")),
        schema_id=raw["_SCHEMA_ID"],
        min_bucket=raw.get("_MIN_BUCKET"),
        max_bucket=raw.get("_MAX_BUCKET"),
        min_level=raw.get("_MIN_LEVEL"),
        max_level=raw.get("_MAX_LEVEL"),
        min_row_id=raw.get("_MIN_ROW_ID"),
        max_row_id=raw.get("_MAX_ROW_ID"),
        foreign=foreign,
    )


def _list_record(m: ManifestFileMeta) -> _Record:
    return {
        "_VERSION": MANIFEST_VERSION,
        "_FILE_NAME": m.file_name,
        "_FILE_SIZE": m.file_size,
        "_NUM_ADDED_FILES": m.num_added_files,
        "_NUM_DELETED_FILES": m.num_deleted_files,
        "_PARTITION_STATS": stats_record(m.partition_stats),
        "_SCHEMA_ID": m.schema_id,
        "_MIN_BUCKET": m.min_bucket,
        "_MAX_BUCKET": m.max_bucket,
        "_MIN_LEVEL": m.min_level,
        "_MAX_LEVEL": m.max_level,
        "_MIN_ROW_ID": m.min_row_id,
        "_MAX_ROW_ID": m.max_row_id,
    }


def _index_entry(raw: _Record, foreign: tuple[ForeignColumn, ...]) -> IndexManifestEntry:
    _sound(raw, _INDEX_NEEDED, _INDEX_COUNTS)
    _check_bucket(raw["_BUCKET"])
    ranges = raw.get("_DELETIONS_VECTORS_RANGES")
    global_index = raw.get("_GLOBAL_INDEX")
    for column in () if global_index is None else _column_ids(global_index):
        if not -LARGEST_INT <= column <= LARGEST_INT:
            raise ValueError(f"the id of an indexed column is {column}")
    file = IndexFileMeta(
        index_type=raw["_INDEX_TYPE"],
        file_name=_bare_name(raw["_FILE_NAME"]),
        file_size=raw["_FILE_SIZE"],
        row_count=raw["_ROW_COUNT"],
        deletion_ranges=None if ranges is None else tuple(_range(r) for r in ranges if r is not None),
        external_path=raw.get("_EXTERNAL_PATH"),
        global_index=None if global_index is None else _pack(global_index),
    )
    return IndexManifestEntry(FileKind(raw["_KIND"]), raw["_PARTITION"], raw["_BUCKET"], file, foreign)


def _column_ids(global_index: _Record) -> list[int]:
    return [global_index["_INDEX_FIELD_ID"], *(global_index.get("_EXTRA_FIELD_IDS") or ())]


def indexed_columns(file: IndexFileMeta) -> list[int]:
    """Return the ids of the columns that a global index covers; none for other index files."""
    return [] if file.global_index is None else _column_ids(_unpack(file.global_index))


def _range(raw: _Record) -> DeletionRange:
    _sound(raw, ("f0", "f1", "f2"), ("f1", "f2", "_CARDINALITY"))
    _check_ints(raw, ("f1", "f2"))
    return DeletionRange(raw["f0"], raw["f1"], raw["f2"], raw.get("_CARDINALITY"))


def _index_record(e: IndexManifestEntry) -> _Record:
    f = e.file
    ranges = f.deletion_ranges
    return {
        "_VERSION": INDEX_MANIFEST_VERSION,
        "_KIND": int(e.kind),
        "_PARTITION": e.partition,
        "_BUCKET": e.bucket,
        "_INDEX_TYPE": f.index_type,
        "_FILE_NAME": f.file_name,
        "_FILE_SIZE": f.file_size,
        "_ROW_COUNT": f.row_count,
        "_DELETIONS_VECTORS_RANGES": None
        if ranges is None
        else [{"f0": r.data_file, "f1": r.offset, "f2": r.length, "_CARDINALITY": r.cardinality} for r in ranges],
        "_EXTERNAL_PATH": f.external_path,
        "_GLOBAL_INDEX": None if f.global_index is None else _unpack(f.global_index),
    }


def _pack(raw: _Record) -> bytes:
    plain = {k: {"b64": base64.b64encode(v).decode("ascii")} if isinstance(v, bytes) else v for k, v in raw.items()}
    return json.dumps(plain).encode()


def _unpack(data: bytes) -> _Record:
    plain = json.loads(data)
    return {k: base64.b64decode(v["b64"]) if isinstance(v, dict) else v for k, v in plain.items()}
