"""The interfaces of all kinds of indexes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa
from pyroaring import BitMap

from paimon_spark.format.file_index.values import Code

Rows = BitMap | None
"""Rows of a file that may match; None stands for all of them."""


class IndexWriter(Protocol):
    """Builds one index of one column of one file."""

    def add(self, values: pa.Array) -> None:
        """Add the values of the next rows, nulls included."""
        ...

    def finish(self) -> bytes | None:
        """Return the index; None if the kind cannot represent the values."""
        ...


class IndexReader:
    """Finds the rows that may match. A method returns None if the kind of index does not support it.

    The results of `valid`, and of `among` if `exact`, have only rows that match.
    """

    exact = True

    def among(self, codes: Sequence[Code]) -> Rows:
        """Return the rows whose value has one of the codes."""
        return None

    def valid(self) -> Rows:
        """Return the rows that are not null."""
        return None

    def nulls(self) -> Rows:
        """Return the rows that are null."""
        return None

    def at_least(self, code: Code, *, strictly: bool = False) -> Rows:
        """Return the rows whose code is `code` or greater, or greater only."""
        return None

    def at_most(self, code: Code, *, strictly: bool = False) -> Rows:
        """Return the rows whose code is `code` or less, or less only."""
        return None


class NoValues(IndexReader):
    """The index of a column without any value: no comparison is true."""

    exact = False

    def among(self, codes: Sequence[Code]) -> Rows:
        """Return no rows."""
        return BitMap()

    def at_least(self, code: Code, *, strictly: bool = False) -> Rows:
        """Return no rows."""
        return BitMap()

    def at_most(self, code: Code, *, strictly: bool = False) -> Rows:
        """Return no rows."""
        return BitMap()
