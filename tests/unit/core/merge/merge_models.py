"""Merge engines row by row, as plain functions over Python values: what the columnar engines are compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Row = dict[str, Any]
Version = tuple[str, Row]
"""A kind (``+I``, ``-U``, ``+U``, ``-D``) and the values of the columns."""


@dataclass
class Function:
    """An aggregate function over single values; `state` lives as long as the key."""

    agg: Callable[[Any, Any], Any]
    retract: Callable[[Any, Any], Any] | None = None
    reversed: Callable[[Any, Any], Any] | None = None

    def aggregate(self, acc: Any, value: Any) -> Any:
        return self.agg(acc, value)

    def late(self, acc: Any, value: Any) -> Any:
        return self.reversed(acc, value) if self.reversed else self.agg(value, acc)


def skipping_nulls(step: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda acc, value: acc if value is None else value if acc is None else step(acc, value)


def _sum_back(acc: Any, value: Any) -> Any:
    return acc if value is None else -value if acc is None else acc - value


FUNCTIONS: dict[str, Function] = {
    "sum": Function(skipping_nulls(lambda a, b: a + b), _sum_back),
    "max": Function(skipping_nulls(lambda a, b: b if a < b else a)),
    "min": Function(skipping_nulls(lambda a, b: b if b < a else a)),
    "last_value": Function(lambda _, b: b, lambda _a, _b: None),
    "last_non_null_value": Function(lambda a, b: a if b is None else b, lambda a, b: a if b is None else None),
    "bool_and": Function(skipping_nulls(lambda a, b: a and b)),
    "bool_or": Function(skipping_nulls(lambda a, b: a or b)),
    **dict.fromkeys(("rbm32", "rbm64", "hll_sketch", "theta_sketch"), Function(skipping_nulls(lambda a, b: a | b))),
}
"""Functions without a state, bitmaps and sketches as sets; `first_value` and `first_non_null_value` are in `Column`."""


@dataclass
class Column:
    """The accumulated value of one column."""

    function: str
    ignore_retract: bool = False
    seen: bool = False
    own: Function | None = None

    @property
    def steps(self) -> Function:
        return self.own or FUNCTIONS[self.function]

    def anew(self) -> Column:
        return replace(self, seen=False)

    def agg(self, acc: Any, value: Any) -> Any:
        if self.function.startswith("first"):
            if self.seen or (value is None and "non_null" in self.function):
                return acc
            self.seen = True
            return value
        return self.steps.aggregate(acc, value)

    def late(self, acc: Any, value: Any) -> Any:
        if self.function.startswith("first"):
            if value is None and "non_null" in self.function:
                return acc
            self.seen = True
            return value
        return self.steps.late(acc, value)

    def back(self, acc: Any, value: Any) -> Any:
        if self.ignore_retract:
            return acc
        retract = self.steps.retract
        if retract is None:
            raise NotImplementedError(self.function)
        return retract(acc, value)


def aggregation(
    versions: Sequence[Version], functions: Mapping[str, Column], *, remove_on_delete: bool = False
) -> Version:
    """Merge the versions of one key; columns without a function have their last value."""
    if len(versions) == 1:
        return versions[0]
    columns = {n: c.anew() for n, c in functions.items()}
    row: Row = {}
    deleted = False
    for kind, values in versions:
        deleted = remove_on_delete and kind == "-D"
        if deleted:
            row = dict(values)
            columns = {n: c.anew() for n, c in functions.items()}
            continue
        for name, value in values.items():
            column, acc = columns.get(name), row.get(name)
            if column is None:
                row[name] = value
            else:
                row[name] = column.back(acc, value) if kind in ("-U", "-D") else column.agg(acc, value)
    return ("-D" if deleted else "+I"), row


@dataclass
class Group:
    """A sequence group."""

    sequence: tuple[str, ...]
    columns: tuple[str, ...]
    functions: Mapping[str, Column] = field(default_factory=dict)
    removes: bool = False


def _older(a: Sequence[Any], b: Sequence[Any]) -> bool:
    for x, y in zip(a, b, strict=True):
        if x != y:
            return x is None or (y is not None and x < y)
    return False


class PartialUpdateModel:
    """Merges the versions of one key."""

    def __init__(
        self, key: str, groups: Sequence[Group] = (), *, ignore_delete: bool = False, remove_on_delete: bool = False
    ) -> None:
        self.key = key
        self.groups = groups
        self.ignore_delete = ignore_delete
        self.remove_on_delete = remove_on_delete

    def merge(self, versions: Sequence[Version]) -> Version:
        if len(versions) == 1:
            return versions[0]
        self._columns = {n: c.anew() for g in self.groups for n, c in g.functions.items()}
        self._row: Row = dict.fromkeys(versions[0][1])
        started = met_add = deleted = False
        for kind, values in versions:
            deleted = False
            if kind in ("-U", "-D"):
                if not started:
                    self._row, started = dict(values), True
                if self.ignore_delete:
                    continue
                if self.groups:
                    deleted = self._retract(kind, values)
                elif self.remove_on_delete:
                    if kind == "-D":
                        self._row, deleted = dict(values), True
                else:
                    raise NotImplementedError("retract")
                continue
            self._add(values)
            started = met_add = True
        return ("-D" if deleted or not met_add else "+I"), self._row

    def _add(self, values: Row) -> None:
        grouped = {n for g in self.groups for n in (*g.sequence, *g.columns)}
        for name, value in values.items():
            if name not in grouped and value is not None:
                self._row[name] = value
        for group in self.groups:
            new = [values[n] for n in group.sequence]
            if all(v is None for v in new):
                continue
            late = _older(new, [self._row[n] for n in group.sequence])
            for name in group.columns:
                column = self._columns.get(name)
                if column is not None:
                    step = column.late if late else column.agg
                    self._row[name] = step(self._row[name], values[name])
                elif not late:
                    self._row[name] = values[name]
            if not late:
                self._row.update(zip(group.sequence, new, strict=True))

    def _retract(self, kind: str, values: Row) -> bool:
        for group in self.groups:
            new = [values[n] for n in group.sequence]
            if all(v is None for v in new):
                continue
            late = _older(new, [self._row[n] for n in group.sequence])
            if not late and kind == "-D" and group.removes:
                self._row = dict(values)
                self._columns = {n: c.anew() for n, c in self._columns.items()}
                return True
            for name in group.columns:
                column = self._columns.get(name)
                if column is not None:
                    self._row[name] = column.back(self._row[name], values[name])
                elif not late:
                    self._row[name] = None
            if not late:
                self._row.update(zip(group.sequence, new, strict=True))
        return False
