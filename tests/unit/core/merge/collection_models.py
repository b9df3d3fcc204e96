"""Aggregate functions of texts, arrays, maps and nested tables over single values, for the models of merge engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.unit.core.merge.merge_models import Function, skipping_nulls

NO_LIMIT = (1 << 31) - 1
Rows = list[dict[str, Any]]


def listagg(delimiter: str = ",", *, distinct: bool = False) -> Function:
    def blank(text: str | None) -> bool:
        return text is None or not text.strip()

    def agg(acc: str | None, value: str | None) -> str | None:
        if value is None or blank(value):
            return acc
        if acc is None or blank(acc):
            return value
        if not distinct:
            return acc + delimiter + value
        seen = acc.split(delimiter)
        for word in value.split(delimiter):
            if not blank(word) and word not in seen:
                seen.append(word)
                acc += delimiter + word
        return acc

    return Function(agg)


def collect(*, distinct: bool = False) -> Function:
    def agg(acc: list[Any] | None, value: list[Any] | None) -> list[Any] | None:
        if acc is None and value is None:
            return None
        out: list[Any] = []
        for element in [*(acc or []), *(value or [])]:
            if not distinct or element not in out:
                out.append(element)
        return out

    def back(acc: list[Any] | None, value: list[Any] | None) -> list[Any] | None:
        if acc is None:
            return None
        gone = list(value or [])
        out = []
        for element in acc:
            if element in gone:
                gone.remove(element)
            else:
                out.append(element)
        return out

    return Function(agg, back, agg)


def merge_map() -> Function:
    def back(acc: Any, value: Any) -> Any:
        return None if acc is None else [(k, v) for k, v in acc if k not in dict(value or [])]

    return Function(skipping_nulls(lambda a, b: list((dict(a) | dict(b)).items())), back)


def merge_map_with_keytime(time: str) -> Function:
    def agg(acc: Any, value: Any) -> Any:
        out = dict(acc)
        for k, row in value:
            if row is None:
                out.pop(k, None)
            elif row[time] is not None:
                old = out.get(k)
                if old is None or old[time] is None or row[time] > old[time]:
                    out[k] = row
        return list(out.items())

    return Function(skipping_nulls(agg))


def _not_null(rows: Rows | None) -> Rows:
    return [r for r in rows or [] if r is not None]


def nested_rows(limit: int = NO_LIMIT) -> Function:
    """Return ``nested_update`` without a nested key."""

    def agg(acc: Rows | None, value: Rows | None) -> Rows | None:
        if value is None:
            return acc
        if acc is None:
            return _not_null(value)[: max(limit, 0)]
        return acc if len(acc) >= limit else acc + _not_null(value)[: limit - len(acc)]

    def late(acc: Rows | None, value: Rows | None) -> Rows | None:
        if value is None or acc is None:
            return agg(None, acc) if value is None else _not_null(value)
        return agg(_not_null(value), acc)

    def back(acc: Rows | None, value: Rows | None) -> Rows | None:
        return acc if acc is None or value is None else [r for r in acc if r not in value]

    return Function(agg, back, late)


class _Table:
    """A nested table with a key."""

    def __init__(self, key: Sequence[str], sequence: Sequence[str], *, ignore_nulls: bool) -> None:
        self._key = key
        self._sequence = sequence
        self._ignore_nulls = ignore_nulls
        self.rows: dict[tuple[Any, ...], dict[str, Any]] = {}

    def keyed(self, rows: Rows | None) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        pairs = [(tuple(r[n] for n in self._key), r) for r in _not_null(rows)]
        return [(k, r) for k, r in pairs if not (self._ignore_nulls and None in k)]

    def put(self, rows: Rows | None, limit: int = NO_LIMIT) -> None:
        for k, row in self.keyed(rows):
            old = self.rows.get(k)
            if old is None:
                if len(self.rows) < limit:
                    self.rows[k] = row
            elif self._order(row) >= self._order(old):
                self.rows[k] = row

    def _order(self, row: dict[str, Any]) -> list[tuple[bool, Any]]:
        return [(row[n] is not None, row[n] or 0) for n in self._sequence]


def nested_update(
    key: Sequence[str], sequence: Sequence[str] = (), limit: int = NO_LIMIT, *, ignore_nulls: bool = False
) -> Function:
    """Return ``nested_update`` with a nested key."""

    def table(rows: Rows | None) -> _Table:
        out = _Table(key, sequence, ignore_nulls=ignore_nulls)
        out.put(rows)
        return out

    def agg(acc: Rows | None, value: Rows | None) -> Rows | None:
        if value is None:
            return acc
        out = table(acc)
        out.put(value, limit)
        return list(out.rows.values())

    def late(acc: Rows | None, value: Rows | None) -> Rows | None:
        return agg(value, acc) if acc is not None or value is None else list(table(value).rows.values())

    def back(acc: Rows | None, value: Rows | None) -> Rows | None:
        if acc is None or value is None:
            return acc
        out = table(acc)
        for k, _ in out.keyed(value):
            out.rows.pop(k, None)
        return list(out.rows.values())

    return Function(agg, back, late)


def nested_partial_update(key: Sequence[str], *, ignore_nulls: bool = False) -> Function:
    def agg(acc: Rows | None, value: Rows | None) -> Rows | None:
        if value is None:
            return acc
        out = _Table(key, (), ignore_nulls=ignore_nulls)
        for k, row in out.keyed([*(acc or []), *value]):
            old = out.rows.setdefault(k, dict(row))
            old.update({n: v for n, v in row.items() if v is not None})
        return list(out.rows.values())

    def late(acc: Rows | None, value: Rows | None) -> Rows | None:
        return agg(value, acc) if acc is not None or value is None else agg(None, value)

    return Function(agg, reversed=late)
