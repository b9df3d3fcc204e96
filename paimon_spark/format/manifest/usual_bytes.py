"""Byte sequences of most data files in manifest entries, derived from `FILE_LAYOUT`, which need no decoding."""

from __future__ import annotations

from typing import Any

from paimon_spark.format.manifest.layout import FILE_LAYOUT, MANIFEST_VERSION, Kind, tail_layout
from paimon_spark.spec.kinds import FileKind, FileSource
from paimon_spark.spec.manifest import EMPTY_ROW

_SMALL = 64
"""Numbers below it take one byte."""
_ROW = bytes([len(EMPTY_ROW) << 1]) + EMPTY_ROW
_EMPTY = {Kind.BYTES: _ROW, Kind.STATS: _ROW * 2 + b"\2\0"}
HEADS = {bytes([MANIFEST_VERSION << 1, kind << 1]): kind for kind in FileKind}
"""The kind of an entry by its first bytes: version and kind."""
KEYS = ("_MIN_KEY", "_MAX_KEY", "_KEY_STATS")
"""Fields that are empty in tables without a key."""
_TAIL = tail_layout()


def _tail_bytes(values: dict[str, int]) -> bytes:
    """Return the bytes of a tail with small numbers in some fields, and null in all others."""
    return b"".join(bytes([2, values[f.name] << 1]) if f.name in values else b"\0" for f in _TAIL)


def _usual_tails() -> dict[bytes, tuple[Any, ...]]:
    found = {}
    for deleted in range(_SMALL):
        for source in FileSource:
            raw = _tail_bytes({"_DELETE_ROW_COUNT": deleted, "_FILE_SOURCE": int(source)})
            values = {"_DELETE_ROW_COUNT": deleted, "_FILE_SOURCE": source}
            found[raw] = tuple(values.get(f.name) for f in _TAIL)
    return found


TAILS = _usual_tails()
"""Values of the tail by its bytes, for files with only a number of deletes and a source in it."""
TAIL_BYTES = len(next(iter(TAILS)))
NO_KEYS = b"".join(_EMPTY[f.kind] for f in FILE_LAYOUT if f.name in KEYS)
"""The bytes of these fields there."""
