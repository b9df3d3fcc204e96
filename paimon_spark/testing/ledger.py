"""What a writing process tried and what it was told, line by line in a file that survives its death."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

BATCH_ROWS = 20
CONTESTED = -1_000_000_000
"""The key that all batches of all writers have."""
_SPAN = 1_000_000
SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.string()), ("batch", pa.int64())])
"""Columns of the tables for processes: `batch` tells which write a row came with."""


def batch_number(writer: int, n: int) -> int:
    """Return the number of a writer's nth batch; writers and batches count from 1."""
    return writer * _SPAN + n


def writer_of(batch: int) -> int:
    """Return who wrote a batch."""
    return batch // _SPAN


def batch_rows(batch: int, *, shared: bool) -> pa.Table:
    """Return the rows of a batch: keys of its own and, if wanted, two others.

    These are the one key that all batches of its writer have, and the one that all batches have.
    """
    keys = [batch * BATCH_ROWS + i for i in range(BATCH_ROWS)]
    if shared:
        keys += [-writer_of(batch), CONTESTED]
    parts = ["abc"[k % 3] for k in keys]
    return pa.table([keys, parts, [batch] * len(keys)], schema=SCHEMA)


class Ledger:
    """The file of one writer; every line is written at once."""

    def __init__(self, path: str | Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def tries(self, what: str, batch: int) -> None:
        """Note before the attempt: `what` is write or delete."""
        self._line("try", what, batch)

    def done(self, what: str, batch: int) -> None:
        """Note that it was acknowledged."""
        self._line("done", what, batch)

    def refused(self, what: str, batch: int) -> None:
        """Note an error that says that nothing happened."""
        self._line("refused", what, batch)

    def _line(self, *words: object) -> None:
        os.write(self._handle, (" ".join(map(str, words)) + "\n").encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)


@dataclass(slots=True)
class Account:
    """What the ledgers of some writers together allow a table to hold."""

    tried: dict[int, str] = field(default_factory=dict)
    """By batch, what became of its write: try, done or refused."""
    deleted: dict[int, str] = field(default_factory=dict)
    """By batch, what became of its deletion."""
    last: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By writer, the last acknowledged batch and the last tried one."""

    @classmethod
    def of(cls, paths: Iterable[Path]) -> Account:
        """Read ledgers; one that was never begun is empty, and a last line that was cut off does not count."""
        account = cls()
        for path in (p for p in paths if p.exists()):
            text = path.read_text(encoding="ascii")
            for line in text[: text.rfind("\n") + 1].splitlines():
                account._take(*line.split())
        return account

    def _take(self, outcome: str, what: str, number: str) -> None:
        batch = int(number)
        (self.tried if what == "write" else self.deleted)[batch] = outcome
        if what == "write":
            done, _ = self.last.get(writer_of(batch), (0, 0))
            self.last[writer_of(batch)] = (batch if outcome == "done" else done, batch)

    @property
    def acknowledged(self) -> int:
        """Return how many writes were acknowledged."""
        return sum(o == "done" for o in self.tried.values())

    def complaints(self, rows: pa.Table) -> list[str]:
        """Return what is lost, doubled, half visible or should not be there; for a table at rest."""
        found = snapshot_faults(rows)
        counts = _counts(rows)
        for batch, outcome in self.tried.items():
            there, deleted = batch in counts, self.deleted.get(batch)
            if outcome == "done" and not there and deleted in (None, "refused"):
                found.append(f"the acknowledged batch {batch} is lost")
            if there and (outcome == "refused" or deleted == "done"):
                found.append(f"the batch {batch} is there, but was {'deleted' if deleted == 'done' else 'refused'}")
        found += (f"nobody wrote the batch {b}" for b in counts if b not in self.tried)
        return found + list(self._shared_complaints(_shared(rows)))

    def _shared_complaints(self, shared: dict[int, int]) -> Iterator[str]:
        """Yield which keys that are written again and again do not hold a last write, or are gone."""
        wanted = {-writer for writer, (low, _) in self.last.items() if low}
        yield from (f"the key {key} is lost" for key in sorted(wanted - shared.keys() if shared else ()))
        for key, batch in shared.items():
            spans = list(self.last.values()) if key == CONTESTED else [self.last.get(-key, (0, 0))]
            if not any(low <= batch <= high for low, high in spans):
                last = ", ".join(f"{low} to {high}" for low, high in spans)
                yield f"the key {key} holds batch {batch}, but {last} were written last"


def snapshot_faults(rows: pa.Table) -> list[str]:
    """Return what no reader may ever see: a batch in part or doubled, a writer's key more than once."""
    faults = [f"batch {b} is visible with {n} rows" for b, n in _counts(rows).items() if n != BATCH_ROWS]
    keys = Counter(k for k in rows.column("k").to_pylist())
    return faults + [f"key {k} is there {n} times" for k, n in keys.items() if n > 1]


def _counts(rows: pa.Table) -> Counter[int]:
    pairs = zip(rows.column("k").to_pylist(), rows.column("batch").to_pylist(), strict=True)
    return Counter(b for k, b in pairs if k >= 0)


def _shared(rows: pa.Table) -> dict[int, int]:
    pairs = zip(rows.column("k").to_pylist(), rows.column("batch").to_pylist(), strict=True)
    return {k: b for k, b in pairs if k < 0}
