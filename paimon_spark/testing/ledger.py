"""Ledgers of writer processes: attempted operations and their outcomes, in a file that survives a crash."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

BATCH_ROWS = 20
CONTESTED = -1_000_000_000
"""The key that all batches of all writers contain."""
_SPAN = 1_000_000
SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.string()), ("batch", pa.int64())])
"""Columns of the tables for processes: `batch` identifies the write of a row."""


def batch_number(writer: int, n: int) -> int:
    """Return the number of a writer's nth batch; both are counted from 1."""
    return writer * _SPAN + n


def writer_of(batch: int) -> int:
    """Return the writer of a batch."""
    return batch // _SPAN


def batch_rows(batch: int, *, shared: bool) -> pa.Table:
    """Return the rows of a batch: unique keys and, if `shared`, two shared ones.

    The shared keys are one that all batches of its writer contain, and one that all batches contain.
    """
    keys = [batch * BATCH_ROWS + i for i in range(BATCH_ROWS)]
    if shared:
        keys += [-writer_of(batch), CONTESTED]
    parts = ["abc"[k % 3] for k in keys]
    return pa.table([keys, parts, [batch] * len(keys)], schema=SCHEMA)


class Ledger:
    """The ledger file of one writer; each line is written immediately."""

    def __init__(self, path: str | Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def tries(self, what: str, batch: int) -> None:
        """Record an attempt before it is made: `what` is write or delete."""
        self._line("try", what, batch)

    def done(self, what: str, batch: int) -> None:
        """Record the acknowledgement."""
        self._line("done", what, batch)

    def refused(self, what: str, batch: int) -> None:
        """Record an error which states that nothing was changed."""
        self._line("refused", what, batch)

    def _line(self, *words: object) -> None:
        os.write(self._handle, (" ".join(map(str, words)) + "\n").encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)


@dataclass(slots=True)
class Account:
    """The table content that the ledgers of several writers allow."""

    tried: dict[int, str] = field(default_factory=dict)
    """State of each batch's write: try, done or refused."""
    deleted: dict[int, str] = field(default_factory=dict)
    """State of each batch's deletion."""
    last: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The last acknowledged and the last attempted batch of each writer."""

    @classmethod
    def of(cls, paths: Iterable[Path]) -> Account:
        """Read ledgers; a missing ledger is empty, and an incomplete last line is ignored."""
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
        """Return the number of acknowledged writes."""
        return sum(o == "done" for o in self.tried.values())

    def complaints(self, rows: pa.Table) -> list[str]:
        """Return lost, duplicated, partially visible and unexpected rows of a table without running writers."""
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
        """Yield the shared keys that are missing, or do not have the value of a last write."""
        wanted = {-writer for writer, (low, _) in self.last.items() if low}
        yield from (f"the key {key} is lost" for key in sorted(wanted - shared.keys() if shared else ()))
        for key, batch in shared.items():
            spans = list(self.last.values()) if key == CONTESTED else [self.last.get(-key, (0, 0))]
            if not any(low <= batch <= high for low, high in spans):
                last = ", ".join(f"{low} to {high}" for low, high in spans)
                yield f"the key {key} holds batch {batch}, but {last} were written last"


def snapshot_faults(rows: pa.Table) -> list[str]:
    """Return violations of snapshot isolation: a partial or duplicated batch, or a duplicated key of a writer."""
    faults = [f"batch {b} is visible with {n} rows" for b, n in _counts(rows).items() if n != BATCH_ROWS]
    keys = Counter(k for k in rows.column("k").to_pylist())
    return faults + [f"key {k} is there {n} times" for k, n in keys.items() if n > 1]


def _counts(rows: pa.Table) -> Counter[int]:
    pairs = zip(rows.column("k").to_pylist(), rows.column("batch").to_pylist(), strict=True)
    return Counter(b for k, b in pairs if k >= 0)


def _shared(rows: pa.Table) -> dict[int, int]:
    pairs = zip(rows.column("k").to_pylist(), rows.column("batch").to_pylist(), strict=True)
    return {k: b for k, b in pairs if k < 0}
