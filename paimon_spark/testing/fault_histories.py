"""Random histories whose operations fail, crash or race with another commit, compared with the model after each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from paimon_spark.api.table import TableHandle
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.merge.config import KIND_FIELD
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.table import Table
from paimon_spark.errors import OutcomeUnknownError, PaimonError
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.kinds import VALUE_KIND, RowKind
from paimon_spark.testing.faults import CRASHES, WRITES, FaultFileIO, Mode, Never, Nth
from paimon_spark.testing.history import History, Model, random_rows
from paimon_spark.testing.scenarios import KINDS, NAME, Row, Rows, in_order, open_warehouse, read_rows, rows_of

MODES = tuple(m for m in Mode if m not in (Mode.SLOW, Mode.CRASH_BEFORE))
_FURTHEST = 60
"""The last operation of the store that fails, counted from the start of a step; most steps have fewer."""
_APART = 1000
"""The keys of concurrent commits start here: no other step writes them."""


class Interloper:
    """A schedule without failures that runs something before the nth change of the store."""

    def __init__(self, n: int, run: Callable[[], object]) -> None:
        self.left = n
        self.run = run

    def choose(self, operation: str, path: str) -> Mode | None:
        """Count the changes; run it at the nth."""
        if operation in WRITES:
            self.left -= 1
            if self.left == 0:
                self.run()
        return None


class FaultHistory:
    """A history on a store that fails.

    A table whose compactions write a changelog is neither overwritten nor expired, so that the whole changelog can be
    replayed at the end.

    Args:
        kind: the kind of table: a name in `scenarios.KINDS`.
        random: decides all steps and faults.
        options: additional table options.
    """

    def __init__(self, kind: str, random: Random, options: Mapping[str, str] | None = None) -> None:
        self.random = random
        self.replayed = KINDS[kind].options.get("changelog-producer") in ("lookup", "full-compaction")
        self.inner = InMemoryFileIO()
        self.store = FaultFileIO(self.inner)
        self.history = History(kind, file_io=self.store, options=options)
        self.faults = self.errors = self.met = 0

    @property
    def _beside(self) -> TableHandle:
        """The table in another program, on a store that does not fail."""
        return open_warehouse(self.inner).table(NAME)

    def step(self) -> str:
        """Execute a random operation, mostly with a fault or another commit; return its description."""
        before = self.history.model.copy()
        self.history.intended = before
        name, run = self._operation()
        schedule, added = self._schedule()
        how = getattr(schedule, "mode", type(schedule).__name__)
        self.store.schedule = schedule or Never()
        error = self._run(run)
        self.store.schedule, self.store.crashed = Never(), False
        fired = schedule.fired if isinstance(schedule, Nth) else None
        self.faults += fired is not None
        self.errors += error is not None
        self._settle(before, error, how, added, replaces=name == "overwrite")
        return f"{name}, {how}: {fired or 'nothing'}, {error!r}"

    def _run(self, run: Callable[[], None]) -> Exception | None:
        clear_cache()
        try:
            run()
        except Exception as e:  # noqa: BLE001 - every exception is judged
            return e
        return None

    def _operation(self) -> tuple[str, Callable[[], None]]:
        random, history = self.random, self.history
        rows, some = random_rows(random), random_rows(random, 5)
        low = random.randrange(100)
        choices: dict[str, tuple[int, Callable[[], None]]] = {
            "write": (6, lambda: history.write(rows)),
            "delete where": (3, lambda: history.delete_where(low, low + 30)),
            "delete keys": (2, lambda: history.delete_keys(some)),
            "overwrite": (0 if self.replayed else 1, lambda: history.overwrite(some)),
            "compact": (4, lambda: history.compact(full=low < 50)),
            "expire": (0 if self.replayed else 1, lambda: history.expire(1 + low % 4)),
        }
        name = random.choices(list(choices), [weight for weight, _ in choices.values()])[0]
        return name, choices[name][1]

    def _schedule(self) -> tuple[Nth | Interloper | None, list[Row]]:
        """Return the fault or concurrent commit of the next operation, and the list that receives the rows it adds."""
        added: list[Row] = []
        draw, at = self.random.random(), self.random.randrange(1, _FURTHEST)
        if draw < 0.2:
            return None, added
        if draw < 0.7:
            return Nth(at, self.random.choice(MODES)), added
        return Interloper(at // 4 + 1, self._other(added)), added

    def _other(self, added: list[Row]) -> Callable[[], object]:
        """Return the operation of another program: a compaction, an expiry, or a write of keys of its own."""
        table, draw = self._beside, self.random.random()
        if draw < 0.4 or self.history.kind.moves_keys:
            return lambda: self._meet(lambda: table.compact(full=draw < 0.2))
        if draw < 0.5 and not self.replayed:
            return lambda: self._meet(lambda: table.expire_snapshots(retain_max=2, retain_min=1))
        rows = [(_APART + self.random.randrange(20), "a", -1 - self.random.randrange(9)) for _ in range(4)]
        return lambda: self._meet(lambda: self._write_beside(table, rows, added))

    def _meet(self, run: Callable[[], object]) -> None:
        self.met += 1
        run()

    def _write_beside(self, table: TableHandle, rows: list[Row], added: list[Row]) -> None:
        rows = self.history.rows_to_write(rows)
        table.append(rows_of(rows))
        added += rows

    def finish(self) -> None:
        """Compact the table, and replay its changelog: it must lead to the rows of the table, without a contradiction.

        Raises:
            AssertionError: it does not.
        """
        if not self.replayed:
            return
        self.history.compact(full=True)
        table = self.history.table.load()
        state: dict[Row, Row] = {}
        for i in table.snapshots.ids():
            for kind, row in changelog_of(table, i):
                key = self.history.model.key(row)
                adds = kind in (RowKind.INSERT, RowKind.UPDATE_AFTER)
                if (state.get(key) is not None) if kind is RowKind.INSERT else not adds and state.get(key) != row:
                    raise AssertionError(f"snapshot {i}: {kind.short} {row} does not follow {state.get(key)}")
                if adds:
                    state[key] = row
                elif kind is RowKind.DELETE:
                    del state[key]
        found, want = tuple(sorted(state.values(), key=in_order)), self.history.model.sorted()
        if found != want:
            raise AssertionError(f"the changelog leads to {found}, not to {want}")

    def _settle(self, before: Model, error: Exception | None, how: object, added: list[Row], *, replaces: bool) -> None:
        """Set the model to the state of the table, which must be that before or after the operation.

        Raises:
            AssertionError: it is neither, or an invariant is violated.
        """
        if error is not None and how not in CRASHES and not isinstance(error, PaimonError):
            raise AssertionError(f"an error without a code: {type(error).__name__}: {error}") from error
        history = self.history
        if history.kind.hides_new_rows:
            history.compact(full=False)
        unknown = how in CRASHES or isinstance(error, OutcomeUnknownError) or history.kind.hides_new_rows
        models = [before, history.intended] if unknown else [history.intended if error is None else before]
        allowed = [_with(model, added) for model in models]
        if replaces:
            allowed += [model.sorted() for model in models]
        clear_cache()
        found = read_rows(history.table)
        if found not in allowed:
            raise AssertionError(f"{how}, {error!r}: the table holds {found}, not one of {allowed}") from error
        history.model = before.copy()
        history.model.rows = list(found)
        history.pin()
        complaints = history.complaints()
        if complaints:
            raise AssertionError(f"{how}, {error!r}: {complaints}") from error


def changelog_of(table: Table, snapshot_id: int) -> list[tuple[RowKind, Row]]:
    """Return the rows of the changelog files of a snapshot, with their kinds."""
    out: list[tuple[RowKind, Row]] = []
    for entry in ManifestStore(table).changelog_entries(table.snapshots.get(snapshot_id)):
        files = BucketFiles(table, entry.partition, entry.bucket)
        for rows in files.chunks(entry.file, (KIND_FIELD, *table.schema.fields)):
            columns = [rows.column(n).to_pylist() for n in (VALUE_KIND, *table.schema.field_names)]
            out += ((RowKind(row[0]), row[1:]) for row in zip(*columns, strict=True))
    return out


def _with(model: Model, added: list[Row]) -> Rows:
    more = model.copy()
    more.write(added)
    return more.sorted()
