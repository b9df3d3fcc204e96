"""The partial-update engine: later values that are not null win, column by column (docs/spec/semantics.md, 4.2).

A sequence group orders the updates of its columns by its own sequence fields instead of the order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from paimon_spark.core.arrow import one_chunk, values_of
from paimon_spark.core.merge.aggregates.inputs import Inputs, spread
from paimon_spark.core.merge.aggregates.registry import Aggregate
from paimon_spark.core.merge.key_groups import KeyGroups, Merged, assemble, check_required, first_where, last_where
from paimon_spark.core.merge.keys import dense_ranks, sequence_codes
from paimon_spark.errors import ErrorKind, UnsupportedError
from paimon_spark.format.arrays import I64, Mask
from paimon_spark.spec.kinds import SEQUENCE_NUMBER, VALUE_KIND, RowKind
from paimon_spark.spec.types import DataField


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """Columns whose updates are ordered by sequence fields.

    Attributes:
        sequence: the sequence fields, most significant first.
        columns: the columns that they order.
        functions: the aggregate functions of some of these columns.
        removes_record: whether a ``-D`` that is not older than the group deletes the row.
    """

    sequence: tuple[DataField, ...]
    columns: tuple[str, ...]
    functions: Mapping[str, Aggregate] = field(default_factory=dict)
    removes_record: bool = False


@dataclass(frozen=True, slots=True)
class PartialUpdate:
    """Merges keys column by column.

    Attributes:
        key: names of the key columns.
        groups: the sequence groups.
        ignore_delete: whether retracts are ignored; the first version of a key still sets its values.
        remove_record_on_delete: whether ``-D`` deletes the row.
        required: the columns that are NOT NULL.
    """

    key: frozenset[str]
    groups: tuple[SequenceGroup, ...] = ()
    ignore_delete: bool = False
    remove_record_on_delete: bool = False
    required: frozenset[str] = frozenset()

    def __call__(self, groups: KeyGroups) -> pa.Table:
        """Return the merged rows in key order.

        Raises:
            UnsupportedError: a retract, and no option defines its effect.
            PaimonError: a NOT NULL column becomes null.
        """
        several, merging = groups.several()
        if not len(merging.starts):
            return assemble(groups, several, {})
        groups = groups.in_one_chunk()
        merging = merging.of_rows(groups.rows)
        history = _History(self, merging)
        out: dict[str, Merged] = dict(history.system_columns())
        grouped = {n for g in self.groups for n in (*g.columns, *(f.name for f in g.sequence))}
        present = groups.rows.column_names
        for name in present:
            if name not in grouped and name not in self.key and name not in (SEQUENCE_NUMBER, VALUE_KIND):
                out[name] = history.last_non_null(name)
        for group in self.groups:
            out.update(history.of_group(group, present))
        return check_required(assemble(groups, several, out), self.required)


class _History:
    """The versions of keys, of which only those from the last deletion of the row on count.

    A version is an add, or a retract. The version that the merged row begins with sets all columns: an add like any
    other, and a retract, or a deletion of the row, with its own values.
    """

    def __init__(self, engine: PartialUpdate, groups: KeyGroups) -> None:
        self._engine = engine
        self._rows = groups.rows
        self._order = groups.order
        self._starts = groups.starts
        self._last = groups.last
        self._counts = self._last + 1 - self._starts
        self._keys = np.repeat(np.arange(len(self._starts), dtype=np.int64), self._counts)
        self._index = np.arange(len(self._order), dtype=np.int64)
        kinds = values_of(one_chunk(groups.rows.column(VALUE_KIND)))[self._order]
        self._retract = (kinds == RowKind.UPDATE_BEFORE) | (kinds == RowKind.DELETE)
        self._delete = kinds == RowKind.DELETE
        self._ignored = self._retract if engine.ignore_delete else np.zeros_like(self._retract)
        self._codes: dict[tuple[DataField, ...], tuple[I64, Mask]] = {}
        self._check_retracts()
        self._removed = self._removals()
        self._begin = np.where(self._removed < 0, self._starts, self._removed)
        self._counting = self._index >= self._begin[self._keys]
        self._initial = np.zeros_like(self._retract)
        self._initial[self._begin] = self._retract[self._begin]

    def _check_retracts(self) -> None:
        engine = self._engine
        if engine.ignore_delete or engine.groups or engine.remove_record_on_delete or not self._retract.any():
            return
        raise UnsupportedError(
            "A table with 'merge-engine' = 'partial-update' cannot merge -U and -D rows.",
            hint="Set 'ignore-delete' or 'partial-update.remove-record-on-delete' to 'true', or define sequence groups "
            "whose columns a retract sets to null.",
            kind=ErrorKind.RETRACT_NOT_SUPPORTED,
        )

    # ---- deletions of the row

    def _removals(self) -> I64:
        """Return the index of the last version that deletes the row, -1 for keys without one."""
        none = np.full(len(self._starts), -1, dtype=np.int64)
        if not self._delete.any() or self._engine.ignore_delete:
            return none
        if not self._engine.groups:
            return self._last_where(self._delete) if self._engine.remove_record_on_delete else none
        removing = [g for g in self._engine.groups if g.removes_record]
        if len(removing) == 1:  # a deletion is never older than its group, so earlier ones do not change the next ones
            return self._last_where(self._delete & self._advances(removing[0], self._starts)[0])
        removed = none
        while removing:
            begin = np.where(removed < 0, self._starts, removed)
            removes = np.zeros_like(self._delete)
            for group in removing:
                removes |= self._delete & self._advances(group, begin)[0]
            removes &= self._index > removed[self._keys]
            first = self._first_where(removes)
            if (first < 0).all():
                break
            removed = np.where(first < 0, removed, first)
        return removed

    def _last_where(self, mask: Mask) -> I64:
        return last_where(mask, self._starts)

    def _first_where(self, mask: Mask) -> I64:
        return first_where(mask, self._starts)

    # ---- sequence groups

    def _sequence(self, group: SequenceGroup) -> tuple[I64, Mask]:
        """Return the rank of each version's sequence, and which versions have one."""
        found = self._codes.get(group.sequence)
        if found is None:
            names = [f.name for f in group.sequence]
            rows = self._rows.select(names).take(pa.array(self._order))
            columns = sequence_codes(rows, group.sequence, descending=False)
            active = np.zeros(len(self._order), dtype=np.bool_)
            for name in names:
                active |= np.asarray(one_chunk(rows.column(name)).is_valid())
            found = self._codes[group.sequence] = (_sequence_ranks(columns), active)
        return found

    def _advances(self, group: SequenceGroup, begin: I64) -> tuple[Mask, Mask]:
        """Return which versions update the group from `begin` on, and which come late for it.

        The version at `begin` sets the sequence fields whatever they are if it is a retract.
        """
        ranks, active = self._sequence(group)
        counting = self._index >= begin[self._keys]
        takes_part = active & counting & ~self._ignored
        sets = takes_part.copy()
        sets[begin] |= self._retract[begin]
        span = np.int64(int(ranks.max(initial=0)) + 2)
        floor = self._keys * span
        reached = np.maximum.accumulate(np.where(sets, floor + ranks + 1, floor))
        late = takes_part & (floor + ranks + 1 < reached)
        return takes_part & ~late, late

    # ---- merged columns

    def system_columns(self) -> Iterator[tuple[str, Merged]]:
        """Return the sequence number of the last version that counted, and the kind of the merged row."""
        engine = self._engine
        last = self._last_where(~self._ignored)
        yield SEQUENCE_NUMBER, self._order[np.where(last < 0, self._last, last)]
        removed_last = (self._removed == self._last) if not engine.ignore_delete else np.zeros_like(self._removed, bool)
        no_adds = self._last_where(~self._retract) < 0
        kinds = np.where(removed_last | no_adds, np.int8(RowKind.DELETE), np.int8(RowKind.INSERT))
        yield VALUE_KIND, pa.array(kinds)

    def last_non_null(self, name: str) -> I64:
        """Return the position of the last value of a column that is in no group, -1 for null."""
        column = self._rows.column(name)
        counts = self._counting & (~self._retract | self._initial)
        if column.null_count:
            counts &= np.asarray(one_chunk(column).is_valid())[self._order]
        return self._picked(self._last_where(counts))

    def of_group(self, group: SequenceGroup, present: Sequence[str]) -> Iterator[tuple[str, Merged]]:
        """Return the columns of a sequence group."""
        wanted = [n for n in (*(f.name for f in group.sequence), *group.columns) if n in present]
        if not wanted:
            return
        advances, late = self._advances(group, self._begin)
        removed = np.zeros_like(advances)
        removed[self._removed[self._removed >= 0]] = True
        advances |= removed
        last = self._last_where(advances)
        initial = np.where(self._initial[self._begin], self._begin, np.int64(-1))
        sequence = self._picked(np.where(last < 0, initial, last))
        emptied = (last >= 0) & self._retract[last] & ~removed[last]
        plain = np.where(emptied, np.int64(-1), sequence)
        for name in wanted:
            function = group.functions.get(name)
            if function is not None:
                yield name, self._aggregated(name, function, advances | late, late, removed)
            else:
                yield name, plain if name in group.columns else sequence

    def _aggregated(self, name: str, function: Aggregate, takes_part: Mask, late: Mask, removed: Mask) -> Merged:
        """Return a column of a group that has an aggregate function.

        A retract that the merged row begins with first sets the column's value and is then retracted.
        """
        counts = takes_part | self._initial
        retract = self._retract & takes_part & ~removed
        twice = (self._initial & retract).astype(np.int64) + 1
        events = np.repeat(self._index, np.where(counts, twice, 0))
        again = np.append(False, events[1:] == events[:-1])
        retract, late = retract[events], late[events]
        retract[:-1] &= ~again[1:]
        preset = self._initial[events] & ~again
        keys, starts = np.unique(self._keys[events], return_index=True)
        inputs = Inputs(
            one_chunk(self._rows.column(name)),
            self._order[events],
            starts.astype(np.int64, copy=False),
            retract if retract.any() else None,
            late if late.any() else None,
            preset if preset.any() else None,
        )
        return spread(function(inputs), keys, len(self._starts))

    def _picked(self, index: I64) -> I64:
        return np.where(index < 0, np.int64(-1), self._order[index])


def _sequence_ranks(columns: Sequence[I64]) -> I64:
    """Return the dense rank of each row of `sequence_codes`."""
    if len(columns) == 2 and bool(columns[0].all()):  # one sequence field, never null
        return np.unique(columns[1], return_inverse=True)[1].astype(np.int64, copy=False)
    return dense_ranks(columns)
