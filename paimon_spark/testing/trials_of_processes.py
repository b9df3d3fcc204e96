"""Trials with real processes: many on one table concurrently, and one that is killed repeatedly."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

from paimon_spark.api.table import TableHandle
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.engine.expiry.orphans import DAY_MILLIS, execute_orphans, plan_orphans
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.testing.invariants import leaked, violations
from paimon_spark.testing.ledger import Account
from paimon_spark.testing.processes import create_trial_table, ledger_path, reports, start

_GRACE_SECONDS = 120
_LIFE_SECONDS = 0.6
_BEGIN_SECONDS = 60
OTHERS: Mapping[str, int] = {"compactor": 1, "expirer": 1, "reader": 1}
"""The number of processes in each role, besides the writers."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a trial; `complaints` is empty if it passed."""

    complaints: tuple[str, ...]
    acknowledged: int
    snapshots: int
    kills: int = 0


def concurrency_trial(
    warehouse: str,
    directory: Path,
    *,
    kind: str,
    writers: int = 8,
    seconds: float = 10,
    others: Mapping[str, int] = OTHERS,
    options: Mapping[str, str] | None = None,
) -> Outcome:
    """Run writers, a compactor, expirers, readers and others on one table concurrently, then check it.

    Args:
        warehouse: location of the table.
        directory: a local directory for the ledgers.
        kind: the kind of table, one of `processes.KINDS`.
        writers: number of writer processes.
        seconds: duration.
        others: number of processes in each other role.
        options: catalog options of the warehouse.
    """
    table = create_trial_table(warehouse, kind, options)
    roles = [("writer", n) for n in range(1, writers + 1)]
    roles += [(role, n) for role, count in others.items() for n in range(count)]
    running = [start(role, warehouse, options or {}, n, directory, seconds) for role, n in roles]
    complaints = []
    for process in running:
        process.join(seconds + _GRACE_SECONDS)
        if process.exitcode != 0:
            complaints.append(f"{process.name} ended with {process.exitcode}")
            process.kill()
    account = Account.of(ledger_path(directory, n) for n in range(1, writers + 1))
    complaints += reports(directory) + faults_at_rest(table, account)
    return Outcome(tuple(complaints), account.acknowledged, table.load().snapshots.latest_id() or 0)


def crash_loop(
    warehouse: str,
    directory: Path,
    *,
    kind: str,
    kills: int,
    seed: int,
    options: Mapping[str, str] | None = None,
    until: float | None = None,
) -> Outcome:
    """Kill a process that writes, compacts and expires at random moments; check the table after each kill.

    Args:
        warehouse: location of the table.
        directory: a local directory for the ledger.
        kind: the kind of table, one of `processes.KINDS`.
        kills: number of kills.
        seed: random seed of the moments.
        options: catalog options of the warehouse.
        until: no kills, except the first, after this time of the monotonic clock.
    """
    table, random, done = create_trial_table(warehouse, kind, options), Random(seed), 0
    ledger = ledger_path(directory, 1)
    while done < kills and (not done or until is None or time.monotonic() < until):
        size = ledger.stat().st_size if ledger.exists() else 0
        process = start("everything", warehouse, options or {}, 1, directory, _GRACE_SECONDS)
        _await_begin(process, ledger, size)
        time.sleep(random.random() * _LIFE_SECONDS)
        if process.pid is not None:
            os.kill(process.pid, signal.SIGKILL)
        process.join(_GRACE_SECONDS)
        done += 1
        faults = faults_at_rest(table, Account.of([ledger]))
        if faults:
            return Outcome((f"after kill {done}: {faults[0]}", *faults[1:]), 0, 0, done)
    account = Account.of([ledger])
    complaints = reports(directory) + faults_of_cleaning(table) + faults_at_rest(table, account)
    return Outcome(tuple(complaints), account.acknowledged, table.load().snapshots.latest_id() or 0, done)


def _await_begin(process: BaseProcess, ledger: Path, size: int) -> None:
    """Wait for a process to write to its ledger."""
    limit = time.monotonic() + _BEGIN_SECONDS
    while time.monotonic() < limit and process.is_alive():
        if ledger.exists() and ledger.stat().st_size > size:
            return
        time.sleep(0.005)


def faults_at_rest(table: TableHandle, account: Account) -> list[str]:
    """Return violations of a table's invariants, or of its ledgers, without running writers."""
    clear_cache()
    found = violations(table.load())
    return found or account.complaints(table.to_arrow())


def faults_of_cleaning(table: TableHandle) -> list[str]:
    """Remove orphan files, and return unreferenced files that are left."""
    loaded = table.load()
    now = time.time_ns() // 1_000_000
    plan = plan_orphans([loaded], LocalRunner(), clock_millis=now + 2 * DAY_MILLIS, older_than=now + DAY_MILLIS)
    execute_orphans(plan)
    clear_cache()
    left = [f.path for f in loaded.file_io.list_recursive(loaded.path) if f.name.startswith(".")]
    return [f"orphan cleaning leaves {path}" for path in sorted([*leaked(loaded), *left])[:5]]
