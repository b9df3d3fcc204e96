"""How the JVM shuffles the rows of a write: the message that `ShuffleSpec.scala` reads."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from paimon_spark.spec.types import AtomicType, DataField


@dataclass(frozen=True, slots=True)
class HashedField:
    """A column of the hash; the precision of its type, or 0, decides how a timestamp or decimal is encoded."""

    name: str
    precision: int


@dataclass(frozen=True, slots=True)
class HashColumn:
    """A column to add: the bucket of each row, or the hash of its key if there is no number of buckets.

    Attributes:
        name: the column.
        buckets: the number of buckets, or 0.
        fields: the columns of the key.
        function: the bucket function.
        counts: a column of the rows with the number of buckets of their partitions, which is dropped.
    """

    name: str
    buckets: int
    fields: tuple[HashedField, ...]
    function: str = "default"
    counts: str | None = None


def hashed_fields(fields: Iterable[DataField]) -> tuple[HashedField, ...]:
    """Return columns of the table as columns of a hash."""
    return tuple(HashedField(f.name, (f.type.precision or 0) if isinstance(f.type, AtomicType) else 0) for f in fields)


@dataclass(frozen=True, slots=True)
class ShuffleSpec:
    """The columns that are added to the rows of a write, and the task of each row."""

    columns: tuple[str, ...]
    """Names of the columns of the rows, in order."""
    partition: tuple[str, ...] = ()
    """The partition columns."""
    hash: HashColumn | None = None
    tasks: int | None = None
    """Number of writing tasks; without it, rows stay in their tasks."""
    classes: int = 0
    """Number of assigners of dynamic buckets; 0 for fixed buckets."""
    exact: bool = False
    """Whether this number of tasks is used even for few rows."""

    def to_json(self) -> str:
        """Return the message."""
        return json.dumps(asdict(self))
