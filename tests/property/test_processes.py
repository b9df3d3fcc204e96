"""Real processes on one table: many at once, and one that is killed again and again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.testing.ledger import BATCH_ROWS, CONTESTED, SCHEMA, Account, Ledger, batch_number, batch_rows
from paimon_spark.testing.processes import KINDS
from paimon_spark.testing.trials_of_processes import OTHERS, concurrency_trial, crash_loop
from tests.stores import LOCAL, MOTO, REAL, STORES
from tests.variants import mostly_slow

LONG = [pytest.param(kind, store, 30, id=f"{kind}-{store}") for kind in sorted(KINDS) for store in (LOCAL, REAL)]
KILLS = [
    *(pytest.param(kind, LOCAL, 4, id=f"{kind}-{LOCAL}-few") for kind in ("fixed", "append", "looked_up", "marked")),
    *(pytest.param(kind, LOCAL, 50, id=f"{kind}-{LOCAL}", marks=pytest.mark.slow) for kind in sorted(KINDS)),
    *(pytest.param(kind, REAL, 10, id=f"{kind}-{REAL}", marks=pytest.mark.slow) for kind in ("dynamic", "append")),
]
"""Fifty kills on files for each kind of table; fewer on a server, where the same code runs."""


def eight_processes(directory: Path, kind: str, store: str, seconds: float, readers: int = 1) -> None:
    with STORES[store](directory) as ground:
        outcome = concurrency_trial(
            ground.location,
            directory,
            kind=kind,
            writers=8,
            seconds=seconds,
            others={**OTHERS, "reader": readers},
            options=ground.options,
        )
    assert outcome.complaints == ()
    assert outcome.acknowledged >= 8


@pytest.mark.parametrize(
    ("kind", "store", "seconds"),
    mostly_slow(
        [("fixed", LOCAL, 4), ("append", LOCAL, 4), ("fixed", MOTO, 1)], ("fixed", LOCAL, 4), ("fixed", MOTO, 1)
    ),
)
def test_eight_writers_a_compactor_an_expirer_and_a_reader(
    tmp_path: Path, kind: str, store: str, seconds: float
) -> None:
    eight_processes(tmp_path, kind, store, seconds)


@pytest.mark.parametrize("seconds", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_many_expirers_are_in_nobodys_way(tmp_path: Path, seconds: float) -> None:
    warehouse, others = str(tmp_path / "warehouse"), {"compactor": 1, "expirer": 4, "keeper": 2}
    outcome = concurrency_trial(warehouse, tmp_path, kind="fixed", writers=2, seconds=seconds, others=others)
    assert outcome.complaints == ()
    assert outcome.acknowledged >= 2


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "store", "seconds"), LONG)
def test_eight_processes_for_longer(tmp_path: Path, kind: str, store: str, seconds: float) -> None:
    eight_processes(tmp_path, kind, store, seconds, readers=2)


@pytest.mark.parametrize(("kind", "store", "kills"), KILLS)
def test_kills(tmp_path: Path, kind: str, store: str, kills: int) -> None:
    with STORES[store](tmp_path) as ground:
        outcome = crash_loop(ground.location, tmp_path, kind=kind, kills=kills, seed=kills, options=ground.options)
    assert outcome.complaints == ()
    assert outcome.kills == kills


def account(tmp_path: Path, *lines: tuple[str, str, int]) -> Account:
    ledger = Ledger(tmp_path / "l")
    for outcome, what, n in lines:
        {"try": ledger.tries, "done": ledger.done, "refused": ledger.refused}[outcome](what, batch_number(1, n))
    ledger.close()
    return Account.of([tmp_path / "l"])


def rows(*batches: int) -> pa.Table:
    parts = [batch_rows(batch_number(1, n), shared=False) for n in batches]
    return pa.concat_tables(parts) if parts else SCHEMA.empty_table()


def test_the_account_tells_losses_doubles_halves_and_strangers(tmp_path: Path) -> None:
    one = account(tmp_path, ("try", "write", 1), ("done", "write", 1), ("try", "write", 2))
    assert one.acknowledged == 1
    assert one.complaints(rows(1)) == []
    assert one.complaints(rows(1, 2)) == []
    assert "lost" in one.complaints(rows(2))[0]
    assert f"with {2 * BATCH_ROWS} rows" in one.complaints(rows(1, 1))[0]
    assert "visible with 5 rows" in one.complaints(pa.concat_tables([rows(1), rows(2).slice(0, 5)]))[0]
    assert "nobody wrote" in one.complaints(rows(1, 3))[0]


def test_the_account_knows_deletions_and_refusals(tmp_path: Path) -> None:
    lines = [("try", "write", 1), ("done", "write", 1), ("try", "delete", 1)]
    assert account(tmp_path, *lines).complaints(rows()) == account(tmp_path, *lines).complaints(rows(1)) == []
    deleted = account(tmp_path, *lines, ("done", "delete", 1))
    assert deleted.complaints(rows()) == []
    assert "was deleted" in deleted.complaints(rows(1))[0]
    refused = account(tmp_path, ("try", "write", 4), ("refused", "write", 4))
    assert "was refused" in refused.complaints(rows(4))[0]


def test_the_account_follows_a_key_that_is_written_repeatedly(tmp_path: Path) -> None:
    lines = [(o, "write", n) for n in (1, 2) for o in ("try", "done")]
    one = account(tmp_path, *lines, ("try", "write", 3))
    newest = batch_rows(batch_number(1, 2), shared=True)
    assert one.complaints(pa.concat_tables([rows(1), newest])) == []
    older = pa.concat_tables([rows(2), batch_rows(batch_number(1, 1), shared=True)])
    assert "key -1 holds batch 1000001, but 1000002 to 1000003 were written last" in one.complaints(older)[0]
    assert f"key {CONTESTED} holds batch 1000001" in one.complaints(older)[1]
    assert one.complaints(pa.concat_tables([rows(1, 2), newest.slice(BATCH_ROWS + 1)])) == ["the key -1 is lost"]


def test_a_key_of_all_writers_holds_the_last_write_of_one(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "other")
    for n in (1, 2):
        ledger.tries("write", batch_number(2, n))
        ledger.done("write", batch_number(2, n))
    ledger.close()
    account(tmp_path, ("try", "write", 1), ("done", "write", 1))
    both = Account.of([tmp_path / "l", tmp_path / "other"])
    one, old, new = (batch_rows(batch_number(w, n), shared=True) for w, n in ((1, 1), (2, 1), (2, 2)))
    contested, own = BATCH_ROWS + 1, BATCH_ROWS
    assert both.complaints(pa.concat_tables([one, old.slice(0, own), new.slice(0, contested)])) == []
    assert both.complaints(pa.concat_tables([one.slice(0, contested), old.slice(0, own), new])) == []
    stale = pa.concat_tables(
        [one.slice(0, contested), old.slice(0, own), new.slice(0, contested), old.slice(contested)]
    )
    assert [c for c in both.complaints(stale) if "holds batch 2000001" in c]
