"""What packed files are put in order by, read for many of them at once: first sequence number, and name."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from paimon_spark.format.arrays import I64
from paimon_spark.format.manifest.column_decoder import decode_longs
from paimon_spark.format.manifest.entry_decoder import UnknownLayoutError
from paimon_spark.format.manifest.lazy_manifest import unpack_file

WORD = 8
"""Bytes of a name that are compared at a time."""
_PAD = bytes(WORD)


def first_sequence_numbers(data: bytes, begins: I64) -> npt.NDArray[np.int64]:
    """Return the first sequence number of the files that begin at some places, packed without their statistics."""
    raw = np.frombuffer(data, np.uint8)
    try:
        size, at = decode_longs(raw, begins)
        for _ in range(2):
            _, at = decode_longs(raw, at + size)
            size = np.zeros_like(at)
        for _ in range(2):
            size, at = decode_longs(raw, at)
            at += size
        return decode_longs(raw, at)[0]
    except (UnknownLayoutError, LookupError):
        files = (unpack_file(data, at, statistics=False) for at in begins.tolist())
        return np.array([f.min_sequence_number for f in files], np.int64)


def name_words(data: bytes, begins: I64, number: int) -> npt.NDArray[Any]:
    """Return a word of each name as a number, so that words are ordered as their bytes are; 0 is behind the end."""
    raw = np.frombuffer(data + _PAD, np.uint8)
    size, at = decode_longs(raw, begins)
    left = size - number * WORD
    places = np.where(left > 0, at + number * WORD, len(data))[:, None] + np.arange(WORD)
    letters = np.where(np.arange(WORD) < left[:, None], raw[np.minimum(places, len(raw) - 1)], 0).astype(np.uint8)
    return letters.view(">u8").ravel().astype(np.uint64)
