"""The sort key of packed files, decoded for many of them at once: first sequence number, and name."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import numpy as np
import numpy.typing as npt

from paimon_spark.format.arrays import I64
from paimon_spark.format.manifest.column_decoder import decode_longs
from paimon_spark.format.manifest.layout import FILE_LAYOUT, Kind
from paimon_spark.format.manifest.lazy_manifest import unpack_file
from paimon_spark.format.manifest.primitives import UnknownLayoutError

WORD = 8
"""Bytes of a name that are compared at a time."""
_PAD = bytes(WORD)
_SIZED = (Kind.STRING, Kind.BYTES)
"""Kinds whose bytes are prefixed with their length."""
_BEFORE = tuple(takewhile(lambda f: f.name != "_MIN_SEQUENCE_NUMBER", (f for f in FILE_LAYOUT if f.kind != Kind.STATS)))
"""The fields before the first sequence number of a file without statistics."""


def first_sequence_numbers(data: bytes, begins: I64) -> npt.NDArray[np.int64]:
    """Return the first sequence number of the files at some offsets, packed without their statistics."""
    raw, at = np.frombuffer(data, np.uint8), begins
    try:
        for field in _BEFORE:
            value, at = decode_longs(raw, at)
            at = at + value if field.kind in _SIZED else at
        return decode_longs(raw, at)[0]
    except (UnknownLayoutError, LookupError):
        files = (unpack_file(data, at, statistics=False) for at in begins.tolist())
        return np.array([f.min_sequence_number for f in files], np.int64)


def name_words(data: bytes, begins: I64, number: int) -> npt.NDArray[Any]:
    """Return a word of each name as a number, so that numbers are in the order of the bytes; 0 after the end."""
    raw = np.frombuffer(data + _PAD, np.uint8)
    size, at = decode_longs(raw, begins)
    left = size - number * WORD
    places = np.where(left > 0, at + number * WORD, len(data))[:, None] + np.arange(WORD)
    letters = np.where(np.arange(WORD) < left[:, None], raw[np.minimum(places, len(raw) - 1)], 0).astype(np.uint8)
    return letters.view(">u8").ravel().astype(np.uint64)
