"""A pure Python model of a table's content, for comparison with random histories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from paimon_spark.spec.kinds import RowKind

Row = Mapping[str, Any]
_RETRACTS = (RowKind.UPDATE_BEFORE, RowKind.DELETE)


class TableModel:
    """A model of a primary key table with the deduplicate engine (`key` given), or of an append table."""

    def __init__(self, key: Sequence[str] = (), sequence_field: str | None = None) -> None:
        self._key = tuple(key)
        self._sequence = sequence_field
        self._rows: dict[tuple[Any, ...], tuple[RowKind, Row]] = {}
        self._appended: list[Row] = []

    def write(self, rows: Iterable[Row], kinds: Iterable[RowKind] | None = None) -> None:
        """Apply one commit, row by row."""
        items = list(rows)
        for row, kind in zip(items, kinds or [RowKind.INSERT] * len(items), strict=True):
            if not self._key:
                self._appended.append(dict(row))
                continue
            key = tuple(row[k] for k in self._key)
            present = self._rows.get(key)
            if present is None or self._version(row) >= self._version(present[1]):
                self._rows[key] = (kind, dict(row))

    def replace(self, rows: Iterable[Row], partition: Sequence[str] | None = None) -> None:
        """Overwrite the table or, with `partition`, the partitions of the rows."""
        items = list(rows)
        if partition is None:
            self._rows, self._appended = {}, []
        else:
            gone = {tuple(r[p] for p in partition) for r in items}
            self._rows = {k: v for k, v in self._rows.items() if tuple(v[1][p] for p in partition) not in gone}
            self._appended = [r for r in self._appended if tuple(r[p] for p in partition) not in gone]
        self.write(items)

    def _version(self, row: Row) -> tuple[bool, Any]:
        value = row[self._sequence] if self._sequence else 0
        return (value is not None, 0 if value is None else value)

    @property
    def rows(self) -> list[Row]:
        """Return the visible rows, unordered."""
        kept = [row for kind, row in self._rows.values() if kind not in _RETRACTS]
        return self._appended if not self._key else kept

    def differs(self, rows: Iterable[Row]) -> str:
        """Return the differences between `rows` and the model; an empty text if there are none."""
        have, want = _counted(rows), _counted(self.rows)
        missing, extra = want - have, have - want
        if not missing and not extra:
            return ""
        return f"missing {sorted(missing.elements())[:5]}, unexpected {sorted(extra.elements())[:5]}"


def _counted(rows: Iterable[Row]) -> Counter[str]:
    return Counter(repr(sorted(r.items())) for r in rows)
