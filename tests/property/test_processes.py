"""Real processes on one table: many at once, and one that is killed again and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.testing.ledger import BATCH_ROWS, SCHEMA, Account, Ledger, batch_number, batch_rows
from paimon_spark.testing.processes import KINDS
from paimon_spark.testing.trials_of_processes import crowd, kill_loop

STORES: Mapping[str, Callable[[Path], tuple[str, Mapping[str, str]]]] = {"local": lambda tmp: (str(tmp / "w"), {})}
"""By name, the warehouse and the catalog options of a store to try."""


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("kind", ["fixed", "append"])
def test_eight_writers_a_compactor_an_expirer_and_a_reader(tmp_path: Path, store: str, kind: str) -> None:
    warehouse, options = STORES[store](tmp_path)
    outcome = crowd(warehouse, tmp_path, kind=kind, writers=8, seconds=4, options=options)
    assert outcome.complaints == ()
    assert outcome.acknowledged > 0


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_crowd_for_longer(tmp_path: Path, store: str, kind: str) -> None:
    warehouse, options = STORES[store](tmp_path)
    outcome = crowd(warehouse, tmp_path, kind=kind, writers=8, seconds=30, readers=2, options=options)
    assert outcome.complaints == ()
    assert outcome.acknowledged >= 8


@pytest.mark.parametrize("kind", ["fixed", "append"])
def test_a_few_kills(tmp_path: Path, kind: str) -> None:
    outcome = kill_loop(str(tmp_path / "w"), tmp_path, kind=kind, kills=4, seed=1)
    assert outcome.complaints == ()
    assert outcome.kills == 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_many_kills(tmp_path: Path, kind: str) -> None:
    """Fifty for each kind of table: two hundred in all."""
    outcome = kill_loop(str(tmp_path / "w"), tmp_path, kind=kind, kills=50, seed=2)
    assert outcome.complaints == ()
    assert outcome.kills == 50


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


def test_the_account_follows_the_key_that_a_writer_writes_again_and_again(tmp_path: Path) -> None:
    lines = [(o, "write", n) for n in (1, 2) for o in ("try", "done")]
    one = account(tmp_path, *lines, ("try", "write", 3))
    newest = batch_rows(batch_number(1, 2), shared=True)
    assert one.complaints(pa.concat_tables([rows(1), newest])) == []
    older = pa.concat_tables([rows(2), batch_rows(batch_number(1, 1), shared=True)])
    assert "key -1 holds batch 1000001, but 1000002 to 1000003 were written last" in one.complaints(older)[0]
