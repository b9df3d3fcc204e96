"""64-bit bitmaps in the radix tree layout, made of their values."""

from __future__ import annotations

import numpy as np
from pyroaring import BitMap

from paimon_spark.format.arrays import U64
from paimon_spark.format.roaring64_art import ArtBitmap


def art_bitmap(values: U64) -> ArtBitmap:
    """Return a bitmap whose values were added in ascending order."""
    ordered = np.unique(values)
    keys = ordered >> np.uint64(16)
    cuts = np.flatnonzero(np.diff(keys)) + 1
    low = np.split((ordered & np.uint64(0xFFFF)).astype(np.uint32), cuts)
    out = ArtBitmap()
    if len(keys):
        starts = np.append(0, cuts)
        out.add_all(ArtBitmap({k: BitMap(v) for k, v in zip(keys[starts].tolist(), low, strict=True)}))
    return out
