"""Decoder of manifest entries in the usual layout, without the dictionaries of the Avro library.

Planning decodes one entry per file. Other layouts and invalid entries are left to the generic reader, which decodes
them or reports the error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from paimon_spark.format.manifest.file_decoder import decode_file, decode_head
from paimon_spark.format.manifest.layout import ENTRY_FIELDS, top_record
from paimon_spark.format.manifest.primitives import Counts, UnknownLayoutError
from paimon_spark.spec.kinds import FileKind
from paimon_spark.spec.manifest import ManifestEntry

_Head = tuple[FileKind, bytes, int, int]
_NO_HEAD: _Head = (FileKind.ADD, b"", 0, 0)


def has_known_layout(schema: Any) -> bool:
    """Return whether records of an Avro schema have the usual layout of entries."""
    return _shape(schema) == _USUAL


def decode_entries(blocks: Iterable[tuple[int, bytes]]) -> list[ManifestEntry] | None:
    """Return the entries of a manifest, or None unless all of them are valid and usual.

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
                    head, begin = decode_head(data, at)
                    head_bytes = data[at:begin]
                file, at = decode_file(data, begin, counts)
                out.append(ManifestEntry(*head, file))
            if at != len(data):
                return None
    except (LookupError, UnknownLayoutError, UnicodeDecodeError):
        return None
    return out


def decode_entry(data: bytes, at: int, counts: Counts) -> tuple[ManifestEntry, int]:
    """Return the entry at an offset, and its end; `counts` caches null counts.

    Raises:
        UnknownLayoutError, LookupError, UnicodeDecodeError: it is left to the generic reader.
    """
    head, at = decode_head(data, at)
    file, at = decode_file(data, at, counts)
    return ManifestEntry(*head, file), at


def _shape(schema: Any) -> Any:
    """Return the parts of an Avro schema that determine the layout and the meaning of values."""
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
