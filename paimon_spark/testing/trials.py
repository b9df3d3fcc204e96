"""Single-fault trials: after one fault, the table must be in the state before or after, and a retry must succeed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.errors import CorruptTableError, OutcomeUnknownError, PaimonError
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.testing.faults import CRASHES, FaultFileIO, Mode, Never, Nth, Recorder, applies
from paimon_spark.testing.invariants import leaked, violations
from paimon_spark.testing.scenarios import (
    KINDS,
    NAME,
    Rows,
    Scenario,
    State,
    create,
    observe,
    open_warehouse,
    read_rows,
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A scenario with the states before and after a run without faults."""

    scenario: Scenario
    store: InMemoryFileIO
    before: State
    after: State
    leaked_before: frozenset[str]
    leaked: frozenset[str]
    """Unreferenced files after a run without faults; `leaked_before` are those before it."""

    @property
    def readable(self) -> set[Rows | None]:
        """Return the rows that a reader may see at any time."""
        return {self.before.rows, self.after.rows}

    @property
    def history(self) -> set[Rows]:
        """Return the rows that any snapshot or tag may have."""
        states = (self.before, self.after)
        return {r for s in states for r in (*s.history.values(), *s.tags.values())}


def prepare(scenario: Scenario) -> Prepared:
    """Create the table of a scenario, and observe a run without faults."""
    store = InMemoryFileIO()
    catalog = open_warehouse(store)
    create(catalog, KINDS[scenario.kind], scenario.options)
    scenario.prepare(catalog)
    before, left = observe(store), frozenset(leaked(catalog.table(NAME).load()))
    done = store.fork()
    scenario.act(open_warehouse(done))
    table = open_warehouse(done).table(NAME).load()
    assert violations(table) == []
    return Prepared(scenario, store, before, observe(done), left, frozenset(leaked(table)))


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a trial. `complaints` is empty if it passed; `fired` is the operation that failed."""

    fired: str | None
    error: str | None
    complaints: tuple[str, ...]


def numbers(prepared: Prepared, mode: Mode) -> list[int]:
    """Return the numbers of the operations to fail in a mode: all, but only two of the writes to one file.

    Threads may reorder some operations, so a number identifies an operation only approximately.
    """
    recorder = Recorder()
    clear_cache()
    prepared.scenario.act(open_warehouse(FaultFileIO(prepared.store.fork(), recorder)))
    possible = [entry for entry in recorder.log if applies(mode, entry[0])]
    pieces = Counter(possible)
    left = Counter(pieces)
    chosen = []
    for n, entry in enumerate(possible, 1):
        if left[entry] in (1, pieces[entry]) or entry[0] != "output":
            chosen.append(n)
        left[entry] -= 1
    return chosen


def trials(prepared: Prepared, mode: Mode, first: int = 0, step: int = 1) -> Iterator[Trial]:
    """Yield a trial for each operation that a mode applies to, or for each `step`-th from `first` on."""
    for n in numbers(prepared, mode)[first::step]:
        yield trial(prepared, n, mode)


def trial(prepared: Prepared, n: int, mode: Mode) -> Trial:
    """Run a trial in which the nth operation fails."""
    return _Run(prepared, n, mode).result()


class _Run:
    """The execution of one trial."""

    def __init__(self, prepared: Prepared, n: int, mode: Mode) -> None:
        self.prepared, self.mode = prepared, mode
        self.inner = prepared.store.fork()
        self.schedule = Nth(n, mode)
        self.faulty = FaultFileIO(self.inner, self.schedule, self._watch)
        self.complaints: list[str] = []
        self.state = prepared.before

    def result(self) -> Trial:
        """Run with the fault, check, retry, and check again."""
        error = self._act()
        self.faulty.watch, self.faulty.schedule, self.faulty.crashed = None, Never(), False
        clear_cache()
        if self.schedule.fired is None and error is None:
            return Trial(None, None, ())
        try:
            self._judge(error)
            self._retry()
        except PaimonError as e:
            self._complain(f"the table cannot be read any more: {e}")
        message = None if error is None else f"{type(error).__name__}: {error}"
        return Trial(self.schedule.fired, message, tuple(self.complaints))

    def _act(self) -> Exception | None:
        clear_cache()
        try:
            self.prepared.scenario.act(open_warehouse(self.faulty))
        except Exception as e:  # noqa: BLE001 - every exception is judged
            return e
        return None

    def _judge(self, error: Exception | None) -> None:
        state, p = self._look("after the fault"), self.prepared
        self.state = state
        died = self.mode in CRASHES
        unknown = isinstance(error, OutcomeUnknownError)
        if error is None and not died and not self._is_after(state):
            self._complain("success was reported, but it did not happen")
        if error is not None and not died:
            if not isinstance(error, PaimonError):
                self._complain(f"an error without a code: {type(error).__name__}: {error}")
            if p.scenario.atomic and not unknown and not self._same(state, p.before):
                self._complain("an error was reported, but it happened")
            if isinstance(error, CorruptTableError):
                self._complain(f"a valid table is reported as corrupt: {error}")

    def _retry(self) -> None:
        scenario = self.prepared.scenario
        if self._is_after(self.state) and not scenario.repeatable:
            return
        clear_cache()
        try:
            scenario.act(open_warehouse(self.faulty))
        except PaimonError as e:
            self._complain(f"a retry fails: {e}")
            return
        if not self._is_after(self._look("after the retry")):
            self._complain("a retry does not complete it")

    def _look(self, when: str) -> State:
        """Check the invariants; return the observed state."""
        clear_cache()
        table = open_warehouse(self.inner).table(NAME).load()
        self.complaints += (f"{when}: {v}" for v in violations(table))
        state, p = observe(self.inner), self.prepared
        if p.scenario.rolls_back and state.history not in (p.before.history, p.after.history):
            self._complain(f"{when}: there are the snapshots {list(state.history)}, neither all nor what should stay")
        if state.rows not in self.prepared.readable:
            self._complain(f"{when}: the table is in neither state: {state.rows}")
        for name, rows in (*state.history.items(), *state.tags.items()):
            if rows not in self.prepared.history:
                self._complain(f"{when}: {name} holds what was never there: {rows}")
        return state

    def _watch(self, operation: str, path: str) -> None:
        """Read the latest snapshot as a concurrent reader would; skipped for writes of data files and manifests."""
        if operation in ("output", "close_output", "mkdirs") or (operation == "write" and "/manifest/" in path):
            return
        clear_cache()
        try:
            catalog = open_warehouse(self.inner)
            rows = read_rows(catalog.table(NAME)) if catalog.table_exists(NAME) else None
        except PaimonError as e:
            self._complain(f"a reader fails after {operation} of {path}: {e}")
            return
        if rows not in self.prepared.readable:
            self._complain(f"a reader after {operation} of {path} finds {rows}")

    def _is_after(self, state: State) -> bool:
        return self._same(state, self.prepared.after)

    def _same(self, one: State, other: State) -> bool:
        """Return whether two states are equal to users; repeated commits of the same rows are ignored."""
        same = (one.rows, one.tags, one.columns) == (other.rows, other.tags, other.columns)
        return same and (self.prepared.scenario.cleans_up or set(one.history.values()) == set(other.history.values()))

    def _complain(self, what: str) -> None:
        self.complaints.append(what)
