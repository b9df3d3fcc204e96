"""XXH64 with seed 0 of many byte strings at once, by array operations.

Strings are ordered by length, longest first, so that the strings with remaining bytes at a step are the first ones. The
number of steps depends only on the longest string.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]

_PRIMES = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_P1, _P2, _P3, _P4, _P5 = map(np.uint64, _PRIMES)
_WORD = (1 << 64) - 1
_STRIPE, _LANE, _HALF = 32, 8, 4
_SEEDS = tuple(np.uint64(s & _WORD) for s in (_PRIMES[0] + _PRIMES[1], _PRIMES[1], 0, -_PRIMES[0]))


def hash_bytes(data: Bytes, offsets: Offsets) -> U64:
    """Return the hash of each string; `offsets` has one more entry than there are strings."""
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")
    starts, sizes = offsets[:-1][order], lengths[order]
    padded = np.concatenate((data, np.zeros(_LANE, np.uint8)))
    with np.errstate(over="ignore"):
        sorted_hashes = _avalanche(_tails(padded, starts, sizes, _stripes(padded, starts, sizes)))
    out = np.empty(len(order), np.uint64)
    out[order] = sorted_hashes
    return out


def _stripes(data: Bytes, starts: Offsets, sizes: Offsets) -> U64:
    """Return the state of each string after its whole stripes of 32 bytes, with the length added."""
    words = _unaligned(data, "<u8")
    state = np.full(len(sizes), _P5)
    count = _at_least(sizes, _STRIPE)
    if count:
        lanes = [np.full(count, seed) for seed in _SEEDS]
        for at in range(0, int(sizes[0]) - _STRIPE + 1, _STRIPE):
            active = _at_least(sizes, at + _STRIPE)
            for number, lane in enumerate(lanes):
                lane[:active] = _round(lane[:active], words[starts[:active] + at + number * _LANE])
        mixed = sum((_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)), np.uint64(0))
        for lane in lanes:
            mixed = (mixed ^ _round(np.zeros(count, np.uint64), lane)) * _P1 + _P4
        state[:count] = mixed
    return state + sizes.astype(np.uint64)


def _tails(data: Bytes, starts: Offsets, sizes: Offsets, state: U64) -> U64:
    """Return the state after the remaining bytes: up to three words, a half word, three bytes."""
    words, halves = _unaligned(data, "<u8"), _unaligned(data, "<u4")
    rest = sizes % _STRIPE
    at = starts + sizes - rest
    for step in range(_STRIPE // _LANE - 1):
        has = np.flatnonzero(rest >= (step + 1) * _LANE)
        word = _round(np.zeros(len(has), np.uint64), words[at[has] + step * _LANE])
        state[has] = _rotated(state[has] ^ word, 27) * _P1 + _P4
    at, rest = at + rest // _LANE * _LANE, rest % _LANE
    has = np.flatnonzero(rest >= _HALF)
    state[has] = _rotated(state[has] ^ halves[at[has]].astype(np.uint64) * _P1, 23) * _P2 + _P3
    at, rest = at + rest // _HALF * _HALF, rest % _HALF
    for step in range(_HALF - 1):
        has = np.flatnonzero(rest > step)
        state[has] = _rotated(state[has] ^ data[at[has] + step].astype(np.uint64) * _P5, 11) * _P1
    return state


def _at_least(sizes: Offsets, length: int) -> int:
    """Return how many of the strings, longest first, have at least `length` bytes."""
    return int(np.searchsorted(-sizes, -length, side="right"))


def _unaligned(data: Bytes, dtype: str) -> npt.NDArray[np.unsignedinteger]:
    """Return a view of the words that begin at each byte."""
    size = np.dtype(dtype).itemsize
    return np.ndarray((len(data) - size + 1,), dtype, data, strides=(1,))


def _rotated(x: U64, by: int) -> U64:
    return (x << np.uint64(by)) | (x >> np.uint64(64 - by))


def _round(accumulator: U64, lane: U64) -> U64:
    return _rotated(accumulator + lane.astype(np.uint64) * _P2, 31) * _P1


def _avalanche(x: U64) -> U64:
    x = (x ^ (x >> np.uint64(33))) * _P2
    x = (x ^ (x >> np.uint64(29))) * _P3
    return x ^ (x >> np.uint64(32))
