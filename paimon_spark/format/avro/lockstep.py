"""A walk over the entries of many blocks at once.

Where an entry ends is known only after it is decoded, but the start of every block is known before. The first entries
of all blocks are decoded together, then the second ones, and so on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from paimon_spark.format.arrays import I64


class BlockSizeError(ValueError):
    """A block does not have the size of its entries."""


def in_lockstep(counts: I64, sizes: I64, decode: Callable[[I64, I64, I64, I64], I64]) -> None:
    """Decode the n-th entries of all blocks that have so many, for every n.

    Args:
        counts: the number of entries of each block.
        sizes: the bytes of each block; the blocks are consecutive.
        decode: takes the offsets of entries, where their blocks begin and end, and the numbers of the entries among
            those of all blocks; returns where the entries end.

    Raises:
        BlockSizeError: an entry extends beyond its block, or bytes are left after the last one.
    """
    order = np.argsort(-counts, kind="stable")
    block_ends, entry_ends = np.cumsum(sizes), np.cumsum(counts)
    begins, ends, firsts = (block_ends - sizes)[order], block_ends[order], (entry_ends - counts)[order]
    at, descending = begins.copy(), -counts[order]
    for step in range(-int(descending[0]) if len(order) else 0):
        some = int(np.searchsorted(descending, -step, side="left"))
        at[:some] = decode(at[:some].copy(), begins[:some], ends[:some], firsts[:some] + step)
        if (at[:some] > ends[:some]).any():
            raise BlockSizeError("a record extends beyond its block")
    if (at != ends).any():
        raise BlockSizeError("a block has more bytes than its records")
