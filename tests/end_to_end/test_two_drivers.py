"""Two Spark programs at once on the same tables, on files and on S3: both write and read, one compacts, one expires."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from paimon_spark.bridge.s3_jars import fetch_s3_jars
from paimon_spark.errors import EngineError
from paimon_spark.testing.ledger import Account
from paimon_spark.testing.processes import KINDS, create_trial_table, ledger_path
from paimon_spark.testing.trials_of_processes import faults_at_rest, faults_of_cleaning
from tests.end_to_end.kills import Program
from tests.stores import LOCAL, STORES, Ground

SECONDS = 12.0
STATEMENTS = 8
"""What each program must have done on each table; a slow machine gets more turns for it."""
TURNS = 20
ACTIONS = {1: "write,write,write,delete,compact,read", 2: "write,write,write,delete,trim,read"}
REFUSALS = ("[COMMIT_CONFLICT]", "[COMMIT_RETRIES_EXHAUSTED]")


def work(program: Program, number: int, kind: str, until: float) -> int:
    """Let a program go on until a moment of the monotonic clock; a refusal by name is no fault."""
    done = 0
    while time.monotonic() < until:
        program.tell(f"go {kind} {number} {ACTIONS[number]}")
        program.hear("begun")
        if not program.speaks(until):
            program.tell("stop")
        statements, _, failure = program.hear("over").partition(" ")
        assert not failure or any(code in failure for code in REFUSALS), failure
        done += int(statements)
    return done


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
def test_two_drivers_on_one_table(tmp_path: Path, store: str) -> None:
    with STORES[store](tmp_path) as ground:
        if store != LOCAL:
            _fetch_hadoops_client()
        _two_drivers(ground, tmp_path)


def _fetch_hadoops_client() -> None:
    """Let Spark's own scans read the store too; without a network the workers read it."""
    with suppress(EngineError):
        fetch_s3_jars(print)


def _two_drivers(ground: Ground, place: Path) -> None:
    tables = {}
    for kind in KINDS:
        (place / kind).mkdir()
        tables[kind] = create_trial_table(f"{ground.location}/{kind}", kind, ground.options)
    programs = [Program(ground.location, place, "local[2]", number, ground.options) for number in ACTIONS]
    for program in programs:
        program.hear("ready")
    with ThreadPoolExecutor(len(programs)) as pool:
        for kind, table in tables.items():
            done = [0] * len(programs)
            for _ in range(TURNS):
                until = time.monotonic() + SECONDS
                turn = pool.map(lambda p, n, k=kind, u=until: work(p, n, k, u), programs, ACTIONS)
                done = [n + m for n, m in zip(done, turn, strict=True)]
                if min(done) >= STATEMENTS:
                    break
            account = Account.of(ledger_path(place / kind, n) for n in ACTIONS)
            assert faults_at_rest(table, account) == []
            assert min(done) >= STATEMENTS, f"{kind}: {done}"
            assert account.acknowledged >= STATEMENTS // 2
    for program in programs:
        program.end()
    for kind, table in tables.items():
        account = Account.of(ledger_path(place / kind, n) for n in ACTIONS)
        assert faults_of_cleaning(table) + faults_at_rest(table, account) == []
