# Generated from FILE_LAYOUT by `python -m paimon_spark.format.manifest.generate_file_decoder`. Do not edit.
"""Decoders of data files in manifest entries. Each returns the value at an offset, and its end.

They raise the errors of the functions of `primitives`.
"""

from __future__ import annotations

from typing import Any

from paimon_spark.format.manifest.primitives import (
    Counts,
    UnknownLayoutError,
    decode_bytes,
    decode_long,
    decode_optional_bytes,
    decode_optional_long,
    decode_optional_source,
    decode_optional_text,
    decode_optional_texts,
    decode_stats,
    decode_text,
    decode_texts,
)
from paimon_spark.format.manifest.usual_bytes import HEADS, NO_KEYS, TAIL_BYTES, TAILS
from paimon_spark.spec.identifier import is_one_name
from paimon_spark.spec.kinds import FileKind
from paimon_spark.spec.manifest import EMPTY_ROW, EMPTY_STATS, DataFileMeta


def decode_head(data: bytes, at: int) -> tuple[tuple[FileKind, bytes, int, int], int]:
    """Return the values of an entry before its file, without the version."""
    kind = HEADS.get(data[at : at + 2])
    if kind is None:
        raise UnknownLayoutError
    at += 2
    partition, at = decode_bytes(data, at)
    bucket, at = decode_long(data, at)
    total_buckets, at = decode_long(data, at)
    if not -2 <= bucket <= 2147483647 or not -2147483647 <= total_buckets <= 2147483647:
        raise UnknownLayoutError
    return (kind, partition, bucket, total_buckets), at


def _decode_keys(data: bytes, at: int, counts: Counts) -> tuple[tuple[Any, ...], int]:
    """Return the first and last key, and the statistics of keys."""
    if data.startswith(NO_KEYS, at):
        return (EMPTY_ROW, EMPTY_ROW, EMPTY_STATS), at + len(NO_KEYS)
    min_key, at = decode_bytes(data, at)
    max_key, at = decode_bytes(data, at)
    key_stats, at = decode_stats(data, at, counts)
    return (min_key, max_key, key_stats), at


def decode_tail(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    """Return the values of the fields after the creation time."""
    usual = TAILS.get(data[at : at + TAIL_BYTES])
    if usual is not None:
        return usual, at + TAIL_BYTES
    delete_row_count, at = decode_optional_long(data, at)
    embedded_index, at = decode_optional_bytes(data, at)
    file_source, at = decode_optional_source(data, at)
    value_stats_cols, at = decode_optional_texts(data, at)
    external_path, at = decode_optional_text(data, at)
    first_row_id, at = decode_optional_long(data, at)
    write_cols, at = decode_optional_texts(data, at)
    if (delete_row_count or 0) < 0 or (first_row_id or 0) < 0:
        raise UnknownLayoutError
    return (
        delete_row_count,
        embedded_index,
        file_source,
        value_stats_cols,
        external_path,
        first_row_id,
        write_cols,
    ), at


def decode_file(data: bytes, at: int, counts: Counts) -> tuple[DataFileMeta, int]:
    """Return a file; `counts` keeps null counts by their bytes."""
    file_name, at = decode_text(data, at)
    file_size, at = decode_long(data, at)
    row_count, at = decode_long(data, at)
    (min_key, max_key, key_stats), at = _decode_keys(data, at, counts)
    value_stats, at = decode_stats(data, at, counts)
    min_sequence_number, at = decode_long(data, at)
    max_sequence_number, at = decode_long(data, at)
    schema_id, at = decode_long(data, at)
    level, at = decode_long(data, at)
    extra_files, at = decode_texts(data, at)
    creation_time, at = decode_optional_long(data, at)
    tail, at = decode_tail(data, at)
    delete_row_count, embedded_index, file_source, value_stats_cols, external_path, first_row_id, write_cols = tail
    if (
        not is_one_name(file_name)
        or file_size < 0
        or row_count < 0
        or schema_id < 0
        or not 0 <= level <= 2147483647
        or not all(map(is_one_name, extra_files))
        or not -62135596800000 <= (creation_time or 0) <= 253402300799999
    ):
        raise UnknownLayoutError
    return DataFileMeta(
        file_name=file_name,
        file_size=file_size,
        row_count=row_count,
        min_key=min_key,
        max_key=max_key,
        key_stats=key_stats,
        value_stats=value_stats,
        min_sequence_number=min_sequence_number,
        max_sequence_number=max_sequence_number,
        schema_id=schema_id,
        level=level,
        extra_files=extra_files,
        creation_time=creation_time,
        delete_row_count=delete_row_count,
        embedded_index=embedded_index,
        file_source=file_source,
        value_stats_cols=value_stats_cols,
        external_path=external_path,
        first_row_id=first_row_id,
        write_cols=write_cols,
    ), at


def decode_file_without_stats(data: bytes, at: int) -> tuple[DataFileMeta, int]:
    """Return a file that was packed without its statistics."""
    file_name, at = decode_text(data, at)
    file_size, at = decode_long(data, at)
    row_count, at = decode_long(data, at)
    min_key, at = decode_bytes(data, at)
    max_key, at = decode_bytes(data, at)
    min_sequence_number, at = decode_long(data, at)
    max_sequence_number, at = decode_long(data, at)
    schema_id, at = decode_long(data, at)
    level, at = decode_long(data, at)
    extra_files, at = decode_texts(data, at)
    creation_time, at = decode_optional_long(data, at)
    tail, at = decode_tail(data, at)
    delete_row_count, embedded_index, file_source, value_stats_cols, external_path, first_row_id, write_cols = tail
    if (
        not is_one_name(file_name)
        or file_size < 0
        or row_count < 0
        or schema_id < 0
        or not 0 <= level <= 2147483647
        or not all(map(is_one_name, extra_files))
        or not -62135596800000 <= (creation_time or 0) <= 253402300799999
    ):
        raise UnknownLayoutError
    return DataFileMeta(
        file_name=file_name,
        file_size=file_size,
        row_count=row_count,
        min_key=min_key,
        max_key=max_key,
        min_sequence_number=min_sequence_number,
        max_sequence_number=max_sequence_number,
        schema_id=schema_id,
        level=level,
        extra_files=extra_files,
        creation_time=creation_time,
        delete_row_count=delete_row_count,
        embedded_index=embedded_index,
        file_source=file_source,
        value_stats_cols=value_stats_cols,
        external_path=external_path,
        first_row_id=first_row_id,
        write_cols=write_cols,
    ), at
