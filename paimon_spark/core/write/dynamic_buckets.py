"""Dynamic bucket assignment by key hash (docs/spec/semantics.md, B2; docs/spec/storage.md, section 10).

Several assigners may work on one partition concurrently. Assigner ``a`` of ``n`` receives the rows whose hash is ``a``
modulo ``n`` (floored) and owns the buckets that are ``a`` modulo ``n``. A known hash keeps its bucket; a new
hash goes to a bucket of its own assigner, so the index file of a bucket has a single writer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from paimon_spark.format.arrays import I32

MAX_BUCKETS = 32766


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketLimits:
    """Maximum keys per bucket, maximum buckets per partition, and the number of assigners."""

    target_rows: int = 2_000_000
    max_buckets: int = -1
    assigners: int = 1

    @property
    def ceiling(self) -> int:
        """Return the exclusive upper bound of bucket numbers."""
        return MAX_BUCKETS if self.max_buckets < 0 else min(self.max_buckets, MAX_BUCKETS)


class BucketFiller:
    """The dynamic buckets of one partition, and the keys counted in each; assigns buckets to new keys."""

    def __init__(self, counts: Mapping[int, int], limits: BucketLimits) -> None:
        self._limits = limits
        self._counts = dict(counts)

    def assign(self, fresh: I32) -> I32:
        """Return the buckets of new keys, given by their hashes in order of arrival; each assigner fills its own."""
        out = np.empty(len(fresh), dtype=np.int32)
        owner = np.mod(fresh.astype(np.int64), self._limits.assigners)
        for assigner in np.unique(owner).tolist():
            mine = np.flatnonzero(owner == assigner)
            out[mine] = self._place(fresh[mine], assigner)
        return out

    def _place(self, fresh: I32, assigner: int) -> I32:
        """Assign new hashes to buckets of `assigner`, filling one bucket after the other."""
        out = np.empty(len(fresh), dtype=np.int32)
        done = 0
        while done < len(fresh):
            bucket = self._open_bucket(assigner)
            if bucket is None:
                out[done:] = self._spread(fresh[done:], assigner)
                break
            n = min(len(fresh) - done, self._limits.target_rows - self._counts.get(bucket, 0))
            self._add(bucket, n)
            out[done : done + n] = bucket
            done += n
        return out

    def _open_bucket(self, assigner: int) -> int | None:
        step = self._limits.assigners
        owned = sorted(b for b in self._counts if b % step == assigner)
        for bucket in owned:
            if self._counts[bucket] < self._limits.target_rows:
                return bucket
        unused = next((b for b in range(assigner, self._limits.ceiling, step) if b not in self._counts), None)
        return unused if unused is not None and self._limits.target_rows > 0 else None

    def _spread(self, fresh: I32, assigner: int) -> I32:
        owned = np.array(sorted(b for b in self._counts if b % self._limits.assigners == assigner), dtype=np.int32)
        chosen = owned[np.abs(fresh.astype(np.int64) // self._limits.assigners) % len(owned)]
        for bucket, n in zip(*(part.tolist() for part in np.unique(chosen, return_counts=True)), strict=True):
            self._add(bucket, n)
        return chosen

    def _add(self, bucket: int, n: int) -> None:
        self._counts[bucket] = self._counts.get(bucket, 0) + n


class HashIndex:
    """The mapping from key hash to bucket of one partition, and the hashes added to it."""

    def __init__(self, known: Mapping[int, I32], limits: BucketLimits) -> None:
        self._hashes = {bucket: [hashes] for bucket, hashes in known.items()}
        self._filler = BucketFiller({bucket: len(hashes) for bucket, hashes in known.items()}, limits)
        self._segments: list[tuple[I32, I32]] = []
        self._gained: set[int] = set()
        if known:
            numbers = [np.full(len(h), b, dtype=np.int32) for b, h in known.items()]
            self._insert(np.concatenate(list(known.values())), np.concatenate(numbers))

    def assign(self, hashes: I32) -> I32:
        """Return the bucket of each hash; new hashes are assigned and recorded."""
        out = self._look_up(hashes)
        unknown = np.flatnonzero(out < 0)
        if len(unknown):
            fresh, first, inverse = np.unique(hashes[unknown], return_index=True, return_inverse=True)
            buckets = np.empty(len(fresh), dtype=np.int32)
            arrival = np.argsort(first, kind="stable")
            buckets[arrival] = self._filler.assign(fresh[arrival])
            for bucket in np.unique(buckets).tolist():
                self._hashes.setdefault(bucket, []).append(fresh[arrival][buckets[arrival] == bucket])
                self._gained.add(bucket)
            self._insert(fresh, buckets)
            out[unknown] = buckets[inverse.reshape(-1)]
        return out

    def gained(self) -> Iterator[tuple[int, I32]]:
        """Yield each bucket with new hashes, with all of its hashes."""
        for bucket in sorted(self._gained):
            yield bucket, np.concatenate(self._hashes[bucket])

    def _look_up(self, hashes: I32) -> I32:
        out = np.full(len(hashes), -1, dtype=np.int32)
        for keys, buckets in self._segments:
            at = np.minimum(np.searchsorted(keys, hashes), len(keys) - 1)
            out = np.where(keys[at] == hashes, buckets[at], out)
        return out

    def _insert(self, hashes: I32, buckets: I32) -> None:
        """Add a sorted segment; segments of similar size are merged, so that their number stays logarithmic."""
        if not len(hashes):
            return
        while self._segments and len(self._segments[-1][0]) <= 2 * len(hashes):
            keys, numbers = self._segments.pop()
            hashes, buckets = np.concatenate([keys, hashes]), np.concatenate([numbers, buckets])
        order = np.argsort(hashes, kind="stable")
        self._segments.append((hashes[order], buckets[order]))
