"""Random histories of schema changes and writes, and a model of what every read returns.

The model names columns and members by tokens that no change reuses. It keeps each value as it was written and converts
it when it is read. Its only type changes are INT to BIGINT to STRING and FLOAT to DOUBLE, of which any order of
conversions, by readers or by a compaction in between, has the same result.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from paimon_spark.spec.evolution import (
    AddColumn,
    DropColumn,
    RenameColumn,
    ReplaceColumns,
    SchemaChange,
    UpdateColumnPosition,
    UpdateColumnType,
)
from paimon_spark.spec.types import ArrayType, DataField, DataType, MapType, RowType, parse_atomic

KEY = "k"
WIDER = {"INT": "BIGINT", "BIGINT": "STRING", "FLOAT": "DOUBLE"}
_TEXT = parse_atomic("STRING NOT NULL")


@dataclass(frozen=True)
class RowOf:
    """A ROW type."""

    members: tuple[Column, ...]


@dataclass(frozen=True)
class ListOf:
    """An ARRAY type."""

    element: Type


@dataclass(frozen=True)
class MapOf:
    """A MAP type with texts as keys."""

    value: Type


Type = str | RowOf | ListOf | MapOf


@dataclass(frozen=True)
class Column:
    """A column or member: its identity, its current name and type."""

    token: int
    name: str
    type: Type


def data_type(t: Type) -> DataType:
    """Return the type of the table format; ids of members are assigned later."""
    if isinstance(t, str):
        return parse_atomic(t)
    if isinstance(t, RowOf):
        return RowType(tuple(DataField(0, c.name, data_type(c.type)) for c in t.members))
    return ArrayType(data_type(t.element)) if isinstance(t, ListOf) else MapType(_TEXT, data_type(t.value))


def shown(value: Any, t: Type) -> Any:
    """Return what a read with the type `t` returns for a value as it was written."""
    if value is None:
        return None
    if isinstance(t, RowOf):
        return {c.name: shown(value.get(c.token), c.type) for c in t.members}
    if isinstance(t, ListOf):
        return [shown(v, t.element) for v in value]
    if isinstance(t, MapOf):
        return {k: shown(v, t.value) for k, v in value.items()}
    return str(value) if t == "STRING" else value


def given(value: Any, t: Type) -> Any:
    """Return a value as it is written, with the current names; a map is a list of pairs."""
    if value is None or isinstance(t, str):
        return value
    if isinstance(t, RowOf):
        return {c.name: given(value[c.token], c.type) for c in t.members}
    if isinstance(t, ListOf):
        return [given(v, t.element) for v in value]
    return [(k, given(v, t.value)) for k, v in value.items()]


@dataclass
class History:
    """The columns and rows of a table, and the random changes of both."""

    rng: Random
    partial_update: bool = False
    keyed: bool = True
    columns: list[Column] = field(default_factory=list)
    rows: list[dict[int, Any]] = field(default_factory=list)
    _tokens: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.columns = [Column(next(self._tokens), KEY, "INT"), *(self._new(str(n)) for n in range(3))]

    @property
    def fields(self) -> list[DataField]:
        """Return the columns of the table, to be created with them."""
        return [DataField(i, c.name, data_type(c.type)) for i, c in enumerate(self.columns)]

    def expected(self) -> list[dict[str, Any]]:
        """Return the rows that a read returns."""
        return [{c.name: shown(row.get(c.token), c.type) for c in self.columns} for row in self.rows]

    # ---- rows

    def write(self, n: int) -> list[dict[str, Any]]:
        """Return `n` random rows, and add them to the model."""
        written = [{c.token: self._value(c.type, depth=0) for c in self.columns} for _ in range(n)]
        for row in written:
            row[self.columns[self._at(KEY)].token] = self.rng.randint(0, 6)
            self._merge(row)
        return [{c.name: given(row[c.token], c.type) for c in self.columns} for row in written]

    def _merge(self, row: dict[int, Any]) -> None:
        key = self.columns[self._at(KEY)].token
        old = next((r for r in self.rows if r[key] == row[key]), None) if self.keyed else None
        if old is None:
            self.rows.append(dict(row))
        elif self.partial_update:
            old.update({token: v for token, v in row.items() if v is not None})
        else:
            old.clear()
            old.update(row)

    def _value(self, t: Type, depth: int) -> Any:
        if self.rng.random() < 0.2:
            return None
        if isinstance(t, RowOf):
            return {c.token: self._value(c.type, depth + 1) for c in t.members}
        if isinstance(t, ListOf):
            return [self._value(t.element, depth + 1) for _ in range(self.rng.randint(0, 2))]
        if isinstance(t, MapOf):
            return {
                k: self._value(t.value, depth + 1) for k in self.rng.sample(["x", "y", "z"], self.rng.randint(0, 2))
            }
        if t == "STRING":
            return self.rng.choice(["", "5", "text", "é"])
        number = self.rng.randint(-3, 9)
        return number if t in ("INT", "BIGINT") else number / 4

    # ---- columns

    def change(self) -> SchemaChange | None:
        """Change the columns at random and return the change for the table; None if there is nothing to change."""
        if self.rng.random() < 0.1:
            return self._replace()
        at = self.rng.randrange(len(self.columns))
        inner = self._lists(self.columns[at].type)
        if inner and self.rng.random() < 0.6:
            path, members = self.rng.choice(inner)
            made = self._change_list(members, (self.columns[at].name, *path))
            if made is not None:
                changed, change = made
                self.columns[at] = replace(self.columns[at], type=_with_list(self.columns[at].type, path, changed))
                return change
        made = self._change_list(tuple(self.columns), ())
        if made is None:
            return None
        self.columns[:] = made[0]
        return made[1]

    def _change_list(
        self, members: Sequence[Column], path: tuple[str, ...]
    ) -> tuple[tuple[Column, ...], SchemaChange] | None:
        free = [i for i, c in enumerate(members) if path or c.name != KEY]
        steps: list[Callable[..., Any]] = [self._add]
        if free:
            steps += [self._rename, self._widen, self._move]
        if len(members) > 1 and free:
            steps.append(self._drop)
        out: tuple[tuple[Column, ...], SchemaChange] | None = self.rng.choice(steps)(list(members), path, free)
        return out

    def _add(self, members: list[Column], path: tuple[str, ...], _: list[int]) -> Any:
        new = self._new(self._name(members))
        at = self.rng.randint(0, len(members))
        after = members[at - 1].name if at else None
        members.insert(at, new)
        return tuple(members), AddColumn((*path, new.name), data_type(new.type), after=after, first=at == 0)

    def _rename(self, members: list[Column], path: tuple[str, ...], free: list[int]) -> Any:
        at = self.rng.choice(free)
        old, new = members[at].name, self._name(members)
        members[at] = replace(members[at], name=new)
        return tuple(members), RenameColumn((*path, old), new)

    def _drop(self, members: list[Column], path: tuple[str, ...], free: list[int]) -> Any:
        dropped = members.pop(self.rng.choice(free))
        return tuple(members), DropColumn((*path, dropped.name))

    def _move(self, members: list[Column], path: tuple[str, ...], free: list[int]) -> Any:
        moved = members.pop(self.rng.choice(free))
        at = self.rng.randint(0, len(members))
        after = members[at - 1].name if at else None
        members.insert(at, moved)
        return tuple(members), UpdateColumnPosition((*path, moved.name), after=after, first=at == 0)

    def _widen(self, members: list[Column], path: tuple[str, ...], free: list[int]) -> Any:
        choices = [(i, *leaf) for i in free for leaf in _leaves(members[i].type) if leaf[1] in WIDER]
        if not choices:
            return None
        at, inside, old = self.rng.choice(choices)
        column = members[at]
        members[at] = replace(column, type=_with_leaf(column.type, inside, WIDER[old]))
        return tuple(members), UpdateColumnType((*path, column.name, *inside), parse_atomic(WIDER[old]))

    def _replace(self) -> SchemaChange:
        """Replace the columns: some go, some come, the others are in another order."""
        old = tuple(c.name for c in self.columns)
        kept = [c for c in self.columns if c.name == KEY or self.rng.random() < 0.7]
        self.rng.shuffle(kept)
        kept.insert(self.rng.randint(0, len(kept)), self._new(self._name(self.columns)))
        self.columns[:] = kept
        nullable = [DataField(0, c.name, data_type(c.type)) for c in kept]
        return ReplaceColumns(old, tuple(nullable))

    # ---- names and types

    def _at(self, name: str) -> int:
        return next(i for i, c in enumerate(self.columns) if c.name == name)

    def _name(self, taken: Sequence[Column]) -> str:
        """Return a name that is free; names of dropped and renamed columns come back."""
        return self.rng.choice([n for n in "abcdefghijklmnop" if all(c.name != n for c in taken)])

    def _new(self, name: str, depth: int = 0) -> Column:
        name = name if name.isalpha() else "abc"[int(name)]
        return Column(next(self._tokens), name, self._type(depth))

    def _type(self, depth: int) -> Type:
        kind = self.rng.choice(["INT", "INT", "FLOAT", "STRING", "row", "list", "map"][: 7 if depth < 2 else 4])
        if kind == "row":
            return RowOf(tuple(self._new(n, depth + 1) for n in "ab"))
        if kind == "list":
            return ListOf(self._type(depth + 1))
        return MapOf(self._type(depth + 1)) if kind == "map" else kind

    def _lists(self, t: Type) -> list[tuple[tuple[str, ...], tuple[Column, ...]]]:
        """Return the member lists inside of a type, with the path to each."""
        if isinstance(t, RowOf):
            own = [((), t.members)]
            return own + [((c.name, *p), m) for c in t.members for p, m in self._lists(c.type)]
        if isinstance(t, str):
            return []
        word, inner = ("element", t.element) if isinstance(t, ListOf) else ("value", t.value)
        return [((word, *p), m) for p, m in self._lists(inner)]


def _leaves(t: Type) -> list[tuple[tuple[str, ...], str]]:
    """Return the atomic types in a column, through arrays and maps but not through rows, with the path to each."""
    if isinstance(t, str):
        return [((), t)]
    if isinstance(t, RowOf):
        return []
    word, inner = ("element", t.element) if isinstance(t, ListOf) else ("value", t.value)
    return [((word, *p), leaf) for p, leaf in _leaves(inner)]


def _with_leaf(t: Type, path: tuple[str, ...], leaf: str) -> Type:
    if not path:
        return leaf
    if isinstance(t, ListOf):
        return ListOf(_with_leaf(t.element, path[1:], leaf))
    assert isinstance(t, MapOf)
    return MapOf(_with_leaf(t.value, path[1:], leaf))


def _with_list(t: Type, path: tuple[str, ...], members: tuple[Column, ...]) -> Type:
    """Return a type with the member list at a path replaced."""
    if isinstance(t, RowOf):
        if not path:
            return RowOf(members)
        return RowOf(
            tuple(replace(c, type=_with_list(c.type, path[1:], members)) if c.name == path[0] else c for c in t.members)
        )
    if isinstance(t, ListOf):
        return ListOf(_with_list(t.element, path[1:], members))
    assert isinstance(t, MapOf)
    return MapOf(_with_list(t.value, path[1:], members))
