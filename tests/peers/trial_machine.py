"""Random histories of one table, each step taken here or by Paimon, all states compared after each."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from paimon_spark.testing.scenarios import PLAIN_KINDS
from tests.peers.trial_engine_machine import EngineMachine
from tests.peers.trial_peer import TrialPeer
from tests.peers.trial_table import Item, Side, TrialTable

SIDES = st.sampled_from(Side)
ITEMS = st.lists(
    st.builds(Item, st.integers(0, 12), st.integers(0, 2), st.integers(0, 99), st.integers(0, 40)),
    min_size=1,
    max_size=8,
)
NAMES = st.sampled_from("xyz")
NUMBERS = st.integers(0, 99)
STEPS = 15
"""Steps of one history."""
ENGINES = "engines"
"""The kind that stands for tables of all merge engines other than deduplicate."""


class TrialMachine(RuleBasedStateMachine):
    """One table that both sides change."""

    peer: TrialPeer
    warehouse: Path
    kinds: tuple[str, ...] = tuple(sorted(PLAIN_KINDS))
    steps: ClassVar[Counter[str]] = Counter()
    tables = 0
    table: TrialTable | None = None

    @initialize(
        data=st.data(),
        form=st.sampled_from(["parquet", "orc", "avro"]),
        side=SIDES,
        write_only=st.booleans(),
        merging=st.integers(2, 5),
    )
    def begin(self, data: Any, form: str, side: Side, *, write_only: bool, merging: int) -> None:
        kind = data.draw(st.sampled_from(self.kinds), label="kind")
        write_only = write_only or PLAIN_KINDS[kind].options.get("write-only") == "true"
        if kind == "tracked" and form == "avro":
            form = "parquet"  # Paimon fails to compact its own Avro files with row tracking
        cls = type(self)
        cls.tables += 1
        options = {
            "file.format": form,
            "write-only": str(write_only).lower(),
            "num-sorted-run.compaction-trigger": "3",
            "manifest.merge-min-count": str(merging),
        }
        self.table = TrialTable(self.warehouse, self.peer, f"t{cls.tables}", PLAIN_KINDS[kind], options)
        self.count("create", side)
        self.table.create(side)

    def count(self, what: str, side: Side) -> None:
        self.steps[f"{what} {side}"] += 1

    @property
    def t(self) -> TrialTable:
        assert self.table is not None
        return self.table

    @rule(writes=st.lists(st.tuples(SIDES, ITEMS), min_size=1, max_size=4))
    def write(self, writes: list[tuple[Side, list[Item]]]) -> None:
        for side, items in writes:
            self.count("write", side)
            self.t.write(side, items)

    @rule(first=SIDES, second=SIDES, items=ITEMS)
    def write_and_compact(self, first: Side, second: Side, items: list[Item]) -> None:
        self.write([(first, items), (second, items[::-1])])
        self.compact(second, full=False)

    @precondition(lambda self: self.table is not None and self.table.keyed)
    @rule(side=SIDES, items=ITEMS)
    def delete_keys(self, side: Side, items: list[Item]) -> None:
        self.count("delete keys", side)
        self.t.write(side, items, delete=True)

    @rule(side=SIDES, low=NUMBERS, span=st.integers(0, 40))
    def delete_where(self, side: Side, low: int, span: int) -> None:
        self.count("delete where", side)
        self.t.delete_where(side, low, low + span)

    @rule(side=SIDES, items=ITEMS)
    def overwrite(self, side: Side, items: list[Item]) -> None:
        self.count("overwrite", side)
        self.t.overwrite(side, items)

    @rule(side=SIDES, part=st.one_of(st.none(), st.integers(0, 2)))
    def truncate(self, side: Side, part: int | None) -> None:
        self.count("truncate", side)
        self.t.truncate(side, part)

    @rule(side=SIDES, full=st.booleans())
    def compact(self, side: Side, *, full: bool) -> None:
        self.count("compact", side)
        self.t.compact(side, full=full)

    @precondition(lambda self: self.table is not None and self.table.snapshots)
    @rule(side=SIDES, retain=st.integers(1, 4))
    def expire(self, side: Side, retain: int) -> None:
        self.count("expire", side)
        self.t.expire(side, retain)

    @precondition(lambda self: self.table is not None and self.table.snapshots)
    @rule(side=SIDES, name=NAMES, at=NUMBERS)
    def tag(self, side: Side, name: str, at: int) -> None:
        self.count("tag", side)
        self.t.tag(side, name, at)

    @precondition(lambda self: self.table is not None and self.table.tags)
    @rule(side=SIDES, name=NAMES)
    def untag(self, side: Side, name: str) -> None:
        self.count("untag", side)
        self.t.untag(side, name)

    @precondition(lambda self: self.table is not None and self.table.snapshots)
    @rule(side=SIDES, at=NUMBERS)
    def roll_back(self, side: Side, at: int) -> None:
        self.count("roll back", side)
        self.t.roll_back(side, at)

    @precondition(lambda self: self.table is not None and self.table.tags)
    @rule(side=SIDES, name=NAMES)
    def roll_back_to_tag(self, side: Side, name: str) -> None:
        self.count("roll back to a tag", side)
        self.t.roll_back_to_tag(side, name)

    @precondition(lambda self: self.table is not None and self.table.snapshots)
    @rule()
    def remove_orphans(self) -> None:
        self.count("remove orphans", Side.THERE)
        self.t.remove_orphans(Side.THERE)

    @rule(side=SIDES, what=st.sampled_from(["add", "rename", "drop", "widen", "cast"]), number=NUMBERS)
    def alter(self, side: Side, what: str, number: int) -> None:
        self.count(what, side)
        self.t.alter(side, what, number)

    @invariant()
    def both_sides_hold_what_was_written(self) -> None:
        if self.table is not None:
            differences = self.table.differences(Random(sum(self.steps.values())))
            assert not differences, "\n".join(differences)


def run_histories(
    peer: TrialPeer, warehouse: Path, start: int, histories: int, *, kinds: tuple[str, ...] = (), shrink: bool = True
) -> Counter[str]:
    """Run random histories and return the steps that were taken, by name and side.

    Args:
        peer: the process that takes Paimon's steps.
        warehouse: its warehouse.
        start: the seed.
        histories: how many histories of the kinds, and of tables with other merge engines.
        kinds: the kinds of tables, `ENGINES` among them; all by default.
        shrink: whether a failing history is made as short as possible.

    Raises:
        AssertionError: the sides differ, or PeerError: Paimon fails; after the history was made as short as possible.
    """
    steps = Counter[str]()
    chosen = kinds or (*sorted(PLAIN_KINDS), ENGINES)
    attributes = {"peer": peer, "warehouse": warehouse, "steps": steps, "tables": start * 10_000}
    if named := tuple(k for k in chosen if k != ENGINES):
        _run(type("Machine", (TrialMachine,), attributes | {"kinds": named}), start, histories, shrink=shrink)
    if ENGINES in chosen:
        _run(type("EnginesMachine", (EngineMachine,), attributes | {"start": start}), start, histories, shrink=shrink)
    return steps


def _run(machine: type[RuleBasedStateMachine], start: int, histories: int, *, shrink: bool) -> None:
    quiet = settings(
        max_examples=histories,
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    run_state_machine_as_test(seed(start)(machine), settings=quiet)
