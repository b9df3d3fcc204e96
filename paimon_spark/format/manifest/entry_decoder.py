"""Entries of manifests in the layout that is written today, read without the Avro library's detour over dictionaries.

A table of many files is planned by reading as many entries, so this is about speed alone: what is not exactly as it is
usually written is left to the general reader, which reads it or tells what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from paimon_spark.format.manifest.layout import ENTRY_FIELDS, LARGEST_INT, MANIFEST_VERSION, top_record
from paimon_spark.spec.identifier import is_one_name
from paimon_spark.spec.kinds import FileKind, FileSource
from paimon_spark.spec.manifest import EMPTY_ROW, EMPTY_STATS, DataFileMeta, ManifestEntry, SimpleStats
from paimon_spark.spec.paths import POSTPONE_BUCKET

_KINDS = {int(k): k for k in FileKind}
SOURCES = {int(s): s for s in FileSource}
_LEVELS = range(LARGEST_INT + 1)
_MAX_SHIFT = 70
TIMES = range(-62_135_596_800_000, 253_402_300_800_000)
"""Milliseconds of the years that dates have."""
_HEAD = bytes([MANIFEST_VERSION << 1])
_NO_KEYS = (bytes([len(EMPTY_ROW) << 1]) + EMPTY_ROW) * 4 + b"\2\0"
"""First and last key, and statistics of keys, where the table has none."""
_Texts = tuple[str, ...]
_Rest = tuple[int | None, bytes | None, FileSource | None, _Texts | None, str | None, int | None, _Texts | None]
"""What a file has behind its creation time."""
REST_BYTES = 9
REST: dict[bytes, _Rest] = {
    bytes([2, n << 1, 0, 2, source << 1, 0, 0, 0, 0]): (n, None, source, None, None, None, None)
    for n in range(64)
    for source in FileSource
}
"""The same as bytes, for files that have nothing there but the number of deletes and their source."""
Counts = dict[bytes, tuple[int | None, ...]]
_Head = tuple[FileKind, bytes, int, int]
_NO_HEAD: _Head = (FileKind.ADD, b"", 0, 0)


class UnknownLayoutError(ValueError):
    """What stands here is for the general reader."""


def has_known_layout(schema: Any) -> bool:
    """Return whether records of an Avro schema are laid out as the entries that are written today."""
    return _shape(schema) == _USUAL


def decode_entries(blocks: Iterable[tuple[int, bytes]]) -> list[ManifestEntry] | None:
    """Return the entries of a manifest, or None if not every one of them is sound and usual.

    Args:
        blocks: the blocks of a file whose schema `has_known_layout`: the number of records in each, and their bytes.
    """
    out: list[ManifestEntry] = []
    counts: Counts = {}
    head_bytes, head = b"", _NO_HEAD
    try:
        for count, data in blocks:
            at = 0
            for _ in range(count):
                if head_bytes and data.startswith(head_bytes, at):
                    begin = at + len(head_bytes)
                else:
                    head, begin = _decode_head(data, at)
                    head_bytes = data[at:begin]
                file, at = decode_file(data, begin, counts)
                out.append(ManifestEntry(*head, file))
            if at != len(data):
                return None
    except (LookupError, UnknownLayoutError, UnicodeDecodeError):
        return None
    return out


def decode_entry(data: bytes, at: int, counts: Counts) -> tuple[ManifestEntry, int]:
    """Return the entry that begins at a place, and where it ends; `counts` remembers null counts.

    Raises:
        UnknownLayoutError, LookupError, UnicodeDecodeError: it is for the general reader.
    """
    head, at = _decode_head(data, at)
    file, at = decode_file(data, at, counts)
    return ManifestEntry(*head, file), at


def _decode_head(data: bytes, at: int) -> tuple[_Head, int]:
    """Read what an entry says before its file; neighbours often say the same."""
    if data[at] != _HEAD[0]:
        raise UnknownLayoutError
    kind = _KINDS[data[at + 1] >> 1] if not data[at + 1] & 0x81 else None
    if kind is None:
        raise UnknownLayoutError
    partition, at = _bytes(data, at + 2)
    bucket, at = _long(data, at)
    total, at = _long(data, at)
    if not POSTPONE_BUCKET <= bucket <= LARGEST_INT or not -LARGEST_INT <= total <= LARGEST_INT:
        raise UnknownLayoutError
    return (kind, partition, bucket, total), at


def decode_file(data: bytes, at: int, counts: Counts | None) -> tuple[DataFileMeta, int]:
    """Return the file that begins at a place, and where it ends; no `counts` if its statistics were left out."""
    raw, at = _bytes(data, at)
    name = raw.decode()
    size, at = _long(data, at)
    rows, at = _long(data, at)
    min_key, max_key, key_stats, value_stats, at = _keys(data, at, counts)
    first, at = _long(data, at)
    last, at = _long(data, at)
    schema_id, at = _long(data, at)
    level, at = _long(data, at)
    extra, at = decode_texts(data, at)
    created, at = _optional_long(data, at)
    rest = REST.get(data[at : at + REST_BYTES])
    if rest is not None:
        at += REST_BYTES
    else:
        rest, at = decode_rest(data, at)
    deleted, index, source, stats_cols, external, first_row, write_cols = rest
    if size < 0 or rows < 0 or schema_id < 0 or level not in _LEVELS or (deleted or 0) < 0 or (first_row or 0) < 0:
        raise UnknownLayoutError
    if not is_one_name(name) or not all(map(is_one_name, extra)) or not (created is None or created in TIMES):
        raise UnknownLayoutError
    return DataFileMeta(
        file_name=name,
        file_size=size,
        row_count=rows,
        min_key=min_key,
        max_key=max_key,
        key_stats=key_stats,
        value_stats=value_stats,
        min_sequence_number=first,
        max_sequence_number=last,
        schema_id=schema_id,
        level=level,
        extra_files=extra,
        creation_time=created,
        delete_row_count=deleted,
        embedded_index=index,
        file_source=source,
        value_stats_cols=stats_cols,
        external_path=external,
        first_row_id=first_row,
        write_cols=write_cols,
    ), at


def _keys(data: bytes, at: int, counts: Counts | None) -> tuple[bytes, bytes, SimpleStats, SimpleStats, int]:
    """Read the first and last key and the statistics, if there are any."""
    if counts is None:
        min_key, at = _bytes(data, at)
        max_key, at = _bytes(data, at)
        return min_key, max_key, EMPTY_STATS, EMPTY_STATS, at
    if data.startswith(_NO_KEYS, at):
        min_key = max_key = EMPTY_ROW
        key_stats, at = EMPTY_STATS, at + len(_NO_KEYS)
    else:
        min_key, at = _bytes(data, at)
        max_key, at = _bytes(data, at)
        key_stats, at = _stats(data, at, counts)
    value_stats, at = _stats(data, at, counts)
    return min_key, max_key, key_stats, value_stats, at


def decode_rest(data: bytes, at: int) -> tuple[_Rest, int]:
    """Return what a file has behind its creation time, and where it ends."""
    deleted, at = _optional_long(data, at)
    index, at = _optional_bytes(data, at)
    source, at = _optional_long(data, at)
    stats_cols, at = _optional_texts(data, at)
    external, at = _optional_bytes(data, at)
    first_row, at = _optional_long(data, at)
    write_cols, at = _optional_texts(data, at)
    made_by = None if source is None else SOURCES[source]
    external_path = None if external is None else external.decode()
    return (deleted, index, made_by, stats_cols, external_path, first_row, write_cols), at


def _long(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value, shift = byte & 0x7F, 7
    while byte > 0x7F:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift += 7
    if shift > _MAX_SHIFT or value >> 64:
        raise UnknownLayoutError
    return (value >> 1) ^ -(value & 1), at + 1


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size = data[at]
    if size & 0x81:
        size, at = _long(data, at)
    else:
        size, at = size >> 1, at + 1
    end = at + size
    if size < 0 or end > len(data):
        raise UnknownLayoutError
    return data[at:end], end


def _is_there(data: bytes, at: int) -> bool:
    """Return whether the union that begins here holds its second type, which is not null."""
    branch = data[at]
    if branch not in (0, 2):
        raise UnknownLayoutError
    return branch == 2


def _optional_long(data: bytes, at: int) -> tuple[int | None, int]:
    return _long(data, at + 1) if _is_there(data, at) else (None, at + 1)


def _optional_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    return _bytes(data, at + 1) if _is_there(data, at) else (None, at + 1)


def _optional_texts(data: bytes, at: int) -> tuple[tuple[str, ...] | None, int]:
    return decode_texts(data, at + 1) if _is_there(data, at) else (None, at + 1)


def decode_texts(data: bytes, at: int) -> tuple[tuple[str, ...], int]:
    """Return the texts of a list that begins at a place, and where it ends."""
    if data[at] == 0:
        return (), at + 1
    out = []
    while (count := data[at]) != 0:
        count, at = _long(data, at)
        if count < 0:
            raise UnknownLayoutError
        for _ in range(count):
            text, at = _bytes(data, at)
            out.append(text.decode())
    return tuple(out), at + 1


def _stats(data: bytes, at: int, counts: Counts) -> tuple[SimpleStats, int]:
    low, at = _bytes(data, at)
    high, at = _bytes(data, at)
    if not _is_there(data, at):
        nulls: tuple[int | None, ...] = ()
        at += 1
    else:
        nulls, at = decode_null_counts(data, at + 1, counts)
    if not nulls and low == EMPTY_ROW and high == EMPTY_ROW:
        return EMPTY_STATS, at
    return SimpleStats(low, high, nulls), at


def decode_null_counts(data: bytes, at: int, known: Counts) -> tuple[tuple[int | None, ...], int]:
    """Read null counts; most are small numbers, and many files have the same ones.

    With n counts below 64 that are all known, they take a byte for n, two for each, and one for the end. The same
    bytes mean the same counts, and end at the same place.
    """
    if data[at] == 0:
        return (), at + 1
    span = data[at : at + (data[at] & 0x7E) + 2]
    found = known.get(span)
    if found is not None:
        return found, at + len(span)
    out: list[int | None] = []
    start = at
    while data[at] != 0:
        count, at = _long(data, at)
        if count < 0:
            raise UnknownLayoutError
        for _ in range(count):
            number, at = _optional_long(data, at)
            out.append(number)
    found, end = tuple(out), at + 1
    if end - start == len(span):
        known[span] = found
    return found, end


def _shape(schema: Any) -> Any:
    """Return of an Avro schema what tells how its values are laid out and what they mean."""
    if isinstance(schema, list):
        return ["union", *map(_shape, schema)]
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if kind == "record":
        return ["record", *((f.get("name"), _shape(f["type"])) for f in schema["fields"])]
    if kind == "array":
        return ["array", _shape(schema["items"])]
    logical = schema.get("logicalType")
    return kind if logical is None else [kind, logical]


_USUAL = _shape(top_record(ENTRY_FIELDS))
