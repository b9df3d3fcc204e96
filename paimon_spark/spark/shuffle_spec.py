"""How the JVM shuffles the rows of a write: the message that `ShuffleSpec.scala` reads."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class HashedField:
    """A column of the hash; the precision of its type, or 0, decides how a timestamp or decimal is encoded."""

    name: str
    precision: int


@dataclass(frozen=True, slots=True)
class HashColumn:
    """A column to add: the bucket of each row among `buckets`, or the hash of its key where `buckets` is 0."""

    name: str
    buckets: int
    fields: tuple[HashedField, ...]


@dataclass(frozen=True, slots=True)
class ShuffleSpec:
    """What is added to the rows of a write, and which task each row goes to."""

    columns: tuple[str, ...]
    """Names of the columns of the rows, in order."""
    partition: tuple[str, ...] = ()
    """The partition columns."""
    hash: HashColumn | None = None
    tasks: int | None = None
    """How many tasks write; without a number, rows stay in the tasks that they are in."""
    classes: int = 0
    """How many assigners share the hashes of dynamic buckets; 0 for fixed buckets."""
    exact: bool = False
    """Whether so many tasks are wanted even for a handful of rows."""

    def to_json(self) -> str:
        """Return the message."""
        return json.dumps(asdict(self))
