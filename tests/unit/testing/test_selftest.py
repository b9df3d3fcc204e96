from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from paimon_spark.cli.main import main
from paimon_spark.errors import EngineError
from paimon_spark.testing.selftest import PARTS, RunStats, TimeBudget, report_lines, selftest
from tests.stores import moto_server


@pytest.fixture(autouse=True)
def restored_log_level() -> Iterator[None]:
    """Let the messages that the command silences in its process come again after a test."""
    logger = logging.getLogger("paimon_spark")
    level = logger.level
    yield
    logger.setLevel(level)


def test_complaints_and_errors_are_told_with_the_seed(tmp_path: Path) -> None:
    def complains(turn: TimeBudget, stats: RunStats) -> None:
        stats.add("looks", 1)
        stats.complaints.append(f"{turn.name}: a batch is lost")

    def fails(turn: TimeBudget, stats: RunStats) -> None:
        raise EngineError("It broke.")

    tallies = selftest(7, 0, tmp_path, {"losing": complains, "failing": fails})
    report = "\n".join(report_lines(tallies))
    assert "losing 1 of seed 7: a batch is lost" in report
    assert "failing 1 of seed 7: [ENGINE_FAILED] It broke." in report
    assert "1 looks" in report
    assert "1 wrong" in report


def test_turns_are_drawn_from_the_seed_and_time_is_shared(tmp_path: Path) -> None:
    now = [0.0]
    drawn: dict[int, list[tuple[str, int]]] = {1: [], 2: []}

    def part(cost: float, seed: int) -> object:
        def run(turn: TimeBudget, stats: RunStats) -> None:
            now[0] += cost
            drawn[seed].append((turn.name, turn.random.randrange(1000)))

        return run

    for seed in (1, 2, 1):
        drawn[seed], now[0] = [], 0.0
        parts = {"cheap": part(1, seed), "dear": part(5, seed)}
        selftest(seed, 20, tmp_path, parts, clock=lambda: now[0])  # type: ignore[arg-type]
        names = [name.split()[0] for name, _ in drawn[seed]]
        assert names.count("cheap") > 2 * names.count("dear") > 0
    assert [n for _, n in drawn[1]] != [n for _, n in drawn[2]]


def test_the_command_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selftest", "--minutes", "0"]) == 1
    assert "--minutes" in capsys.readouterr().err
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    assert main(["selftest", "--directory", str(tmp_path / "full")]) == 1
    assert "not empty" in capsys.readouterr().err
    assert main(["selftest", "--seed", "3", "--minutes", "0.001", "--directory", str(tmp_path / "new")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("seed 3, 0.001 minutes, in ")
    lines = [line.split("  ")[0] for line in out.splitlines()]
    assert [line for line in lines if line in PARTS] == list(PARTS)
    assert " operations made to fail" in out
    assert out.splitlines()[-1] == "Nothing was lost, nothing was half visible."
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_it_runs_on_a_store_that_options_lead_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with moto_server() as server:
        bucket = server.bucket()
        options = [part for pair in server.options.items() for part in ("--option", "=".join(pair))]
        command = ["selftest", "--seed", "4", "--minutes", "0.001", "--directory", f"s3://{bucket}/new/", *options]
        assert main(command) == 0
        assert f"in s3://{bucket}/new\n" in capsys.readouterr().out
        assert server.door is not None
        tables = {r.split("/")[3] for r in server.door.seen if r.startswith(f"PUT /{bucket}/new/")}
        assert tables >= {"kills-1", "concurrency-1"}
        assert server.keys(bucket) == []
        server.client().put_object(Bucket=bucket, Key="new/file", Body=b"")
        assert main(command) == 1
        assert "not empty" in capsys.readouterr().err
