"""The benchmarks: what they call reached, what they count, and that the whole of it runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import commits, latency, rescales
from benchmarks.engines import parquet
from benchmarks.pages import PAGE, TABLES, written
from benchmarks.process_tree import Usage, cpu_seconds, tree
from benchmarks.report import save, write
from benchmarks.rounds import Results, Rounds
from benchmarks.session import Cost, EngineSession
from benchmarks.targets import verdicts
from benchmarks.workload import Data, staged

ROOT = Path(__file__).resolve().parents[2]


def cost(cpu: float, wall: float = 1.0) -> Cost:
    return Cost(cpu, wall, None, 0, 0, ())


@pytest.mark.parametrize(
    ("ours", "word"),
    [([5.0, 5.0, 5.0], "reached"), ([5.0, 7.0, 8.0], "within the spread"), ([7.0, 7.0, 8.0], "missed")],
)
def test_a_target_is_judged_by_ratios_within_a_round(ours: list[float], word: str) -> None:
    results = Results()
    for cpu in ours:
        results.add("paimon-spark", "load", cost(cpu, wall=0.1))
        results.add("paimon", "load", cost(10.0))
    found = {v.what: v for v in verdicts(results)}
    assert found["load, cpu, to paimon"].word == word
    assert found["load, wall, to paimon"].word == "reached"
    assert not any("iceberg" in what or "planning" in what for what in found)


def test_planning_is_judged_by_the_median_query_of_a_round() -> None:
    results = Results()
    for step, millis in (("scan before", (40, 90, 41)), ("lookup after", (20, 20, 20)), ("join after", (26, 28, 24))):
        for planned in millis:
            results.add("paimon-spark", f"{step} compaction", replace(cost(1.0), planning=planned / 1000))
    results.add("paimon-spark", "ORC: scan before compaction", replace(cost(1.0), planning=1.0))
    (found,) = (v for v in verdicts(results) if "planning" in v.what)
    assert (found.low, found.middle, found.high, found.word) == (24.0, 26.0, 28.0, "within the spread")


def test_figures_of_kinds_are_kept_by_a_run_without_them(tmp_path: Path) -> None:
    with_kinds, alone = Results(), Results()
    for results, steps in ((with_kinds, ("load", "ORC: load")), (alone, ("load",))):
        for engine in ("paimon-spark", "paimon"):
            for step in steps:
                results.add(engine, step, cost(1.0))
    about = {"rows": 10, "rounds": 1, "cpus": 2, "load_average": 0.0, "load_average_after": 0.0}
    write(with_kinds, (), {**about, "rows": 20}, tmp_path)
    write(alone, (), about, tmp_path)
    main, kinds = (json.loads((tmp_path / name).read_text()) for name in ("bench.json", "kinds.json"))
    assert (main["rows"], kinds["rows"]) == (10, 20)
    assert {step for by_step in main["costs"].values() for step in by_step} == {"load"}
    assert {step for by_step in kinds["costs"].values() for step in by_step} == {"ORC: load"}
    assert [v["what"] for v in kinds["targets"]] == ["ORC: load, cpu, to paimon", "ORC: load, wall, to paimon"]


def test_an_engine_that_ends_fails_its_steps_and_not_the_run(tmp_path: Path) -> None:
    program = tmp_path / "python"
    answer = json.dumps({"spark": "4.1", "rows": [], "seconds": 0.0, "planning": None})
    program.write_text(f"#!/bin/sh\nread line; echo '{answer}'\nread line; echo '{answer}'\n")
    program.chmod(0o755)
    rounds = Rounds([replace(parquet(), python=str(program))], Data("/data", 1000), tmp_path, lambda _: None)
    for number in (1, 2):
        rounds.run(number, Data("/data", 1000), measured=True)
    rounds.close()
    assert len(rounds.results.failures) == 2
    assert rounds.results.costs == {}


def answering(directory: Path, name: str, seconds: float, *, fails_on: str = "no statement") -> EngineSession:
    """Return a session of a program in place of Spark; each statement takes so long, but one kind fails."""
    program = directory / f"python-{name}"
    program.write_text(
        f"#!{sys.executable}\nimport json, sys\nfor line in sys.stdin:\n"
        "    texts = json.loads(line).get('statements', [])\n"
        f"    answer = {{'spark': '4.1', 'rows': [], 'seconds': 0, 'planning': None, 'each': [{seconds}] * len(texts)}}\n"
        f"    if any({fails_on!r} in t for t in texts): answer = {{'error': 'no'}}\n"
        "    print(json.dumps(answer), flush=True)\n"
    )
    program.chmod(0o755)
    changed = {"name": name, "database": f"{name}.bench", "python": str(program), "deletes": True}
    engine = replace(parquet(), **changed, compact=("CALL compact('{name}')",))
    return EngineSession(engine, directory / name, directory / f"{name}.log")


def test_small_statements_are_compared_with_the_fastest_peer(tmp_path: Path) -> None:
    sessions = [
        answering(tmp_path, "paimon-spark", 0.004),
        answering(tmp_path, "paimon", 0.008),
        answering(tmp_path, "iceberg", 0.005, fails_on="DESCRIBE"),
    ]
    found = latency.measure(sessions, lambda _: None, repeats=15, tables=3)
    rates = found.ratios()
    assert (rates["DESCRIBE"], rates["count(*)"]) == (pytest.approx(0.5), pytest.approx(0.8))
    assert len(found.times["count(*)"]["paimon"].wall) == 15
    assert (set(found.times["DESCRIBE"]), len(found.failures)) == ({"paimon-spark", "paimon"}, 1)
    assert any("DESCRIBE" in line and "0.50" in line for line in latency.as_text(found, [s.engine for s in sessions]))
    grown = commits.measure(sessions, lambda _: None, commits=45)
    assert set(grown.found["count(*)"]) == {"paimon-spark", "paimon"}
    assert grown.found["count(*)"]["paimon"].wall == (8.0, 8.0)
    for session in sessions:
        session.close()


@pytest.mark.parametrize("refused", ["no statement", "sys.rescale", "upsert3"])
def test_a_peer_without_a_usable_rescale_is_noted(tmp_path: Path, refused: str) -> None:
    sessions = [
        answering(tmp_path, "paimon", 0.1, fails_on=refused),
        answering(tmp_path, "iceberg", 0.1),
        answering(tmp_path, "paimon-spark", 0.1),
    ]
    data = Data("/data", 1000)
    found = rescales.measure(sessions, data, lambda _: None, rounds=2, warm=data)
    steps = [rescales.COMPACT, rescales.RESCALE, rescales.SCAN, rescales.WRITE]
    done = {"no statement": 4, "sys.rescale": 1, "upsert3": 3}[refused]
    assert {e: list(by_step) for e, by_step in found.costs.items()} == {"paimon": steps[:done], "paimon-spark": steps}
    assert (len(found.notes), found.failures) == (int(done < 4), [])
    assert [len(found.costs["paimon"][step]) for step in steps[:done]] == [2] * done
    assert found.as_text()[-1].startswith("  NOTE" if found.notes else f"  {rescales.WRITE}")
    for session in sessions:
        session.close()


def test_this_project_must_rescale(tmp_path: Path) -> None:
    session = answering(tmp_path, "paimon-spark", 0.1, fails_on="sys.rescale")
    data = Data("/data", 1000)
    found = rescales.measure([session], data, lambda _: None, rounds=1, warm=data)
    session.close()
    assert len(found.failures) == 1
    assert found.failures[0].startswith("rescale: ")


def test_the_tables_of_the_page_are_those_of_the_results() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert written(page) == page, "run: python -m benchmarks.pages"
    assert all(f"<!-- table: {name} -->" in page for name in TABLES)


def test_a_table_without_results_stays(tmp_path: Path) -> None:
    page = "a\n<!-- table: orphans -->\n| old |\n<!-- end of table -->\nb\n"
    assert written(page, tmp_path) == page
    costs = [{"operation": "plan", "seconds": 1.26, "wall": 0.04, "memory_mb": 1234.0}]
    (tmp_path / "orphans.json").write_text(json.dumps({"costs": costs}))
    assert "| plan | 1.3 | 0.0 | 1,234 |" in written(page, tmp_path)


def test_children_count_while_they_live_and_after() -> None:
    burn = "import time\nwhile time.process_time() < 0.5: pass\nx = bytearray(64 << 20)\ntime.sleep(1)"
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import subprocess, sys, time\nsubprocess.run([sys.executable, '-c', {burn!r}])\ntime.sleep(60)",
        ]
    )
    try:
        with Usage(process.pid, 0.05) as usage:
            deadline = time.monotonic() + 60
            while cpu_seconds(process.pid) < 0.5 and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(1.5)
        assert cpu_seconds(process.pid) >= 0.5
        assert usage.python > 64 << 20
    finally:
        process.kill()
        process.wait()


def test_children_that_nobody_waits_for_count_after_their_end() -> None:
    burn = "import os, time\nwhile time.process_time() < 0.5: pass\nprint(os.getpid(), flush=True)\ntime.sleep(60)"
    parent = (
        "import signal, subprocess, sys\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        f"for _ in sys.stdin: subprocess.Popen([sys.executable, '-c', {burn!r}])"
    )
    process = subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None

    def child() -> int:
        process.stdin.write("\n")
        process.stdin.flush()
        return int(process.stdout.readline())

    try:
        first = child()
        with Usage(process.pid, 0.02) as usage:
            os.kill(first, signal.SIGKILL)
            second = child()
            time.sleep(0.2)
            os.kill(second, signal.SIGKILL)
            while len(tree(process.pid)) > 1:
                time.sleep(0.02)
        assert 0.4 < usage.cpu < 1.0
    finally:
        process.kill()
        process.communicate()


def test_figures_are_written_beside_what_they_depend_on(tmp_path: Path) -> None:
    save(tmp_path / "new", "some.json", {"rows": 3, "load_average": 0.5})
    written = json.loads((tmp_path / "new" / "some.json").read_text())
    assert (written["rows"], written["load_average"]) == (3, 0.5), "what was measured before stays"
    assert {"cpus", "memory_mb", "python", "system", "time"} <= written.keys()


def test_half_of_the_changes_are_new_rows() -> None:
    data = Data("/data", 1000)
    text = staged(data)["upsert2"]
    assert "range(50)" in text
    assert "range(1050, 1100)" in text
    assert data.upsert_rows == 100


@pytest.mark.slow
def test_a_small_benchmark_runs_and_all_answers_agree(tmp_path: Path) -> None:
    options = [
        "--rows",
        "20000",
        "--rounds",
        "1",
        "--engines",
        "paimon-spark,parquet",
        "--commits",
        "30",
        "--streams",
        "5",
        "--stream-table",
        "20000",
        "--out",
        str(tmp_path / "out"),
    ]
    command = [sys.executable, "-m", "benchmarks", *options, "--work", str(tmp_path / "work")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "out" / "bench.json").read_text())
    assert found["failures"] == []
    assert set(found["costs"]) == {"paimon-spark", "parquet"}
    assert found["streams"]["batches"] == 5
    assert (tmp_path / "out" / "writes.svg").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "by_workers"), [(50, False), (20_000, True)])
def test_a_short_stream_tells_what_its_batches_took(rows: int, by_workers: bool, tmp_path: Path) -> None:
    """Small batches are written by the engine, and start no worker."""
    options = ["--batches", "4", "--every", "2", "--rows", str(rows), "--out", str(tmp_path)]
    command = [sys.executable, "-m", "benchmarks.long_stream", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    first, last = json.loads((tmp_path / "long_stream.json").read_text())["measured"]
    assert first["batches"] >= 2
    assert last["batches"] >= 4
    assert last["cpu"] > 0
    assert all(m["resident"][role] > 0 for m in (first, last) for role in ("jvm", "engine", "program"))
    assert 0 < last["heap"] < last["resident"]["jvm"]
    assert [(m["workers"] > 0, m["resident"]["workers"] > 0) for m in (first, last)] == [(by_workers, by_workers)] * 2
    assert last["files"]["data"] >= last["files"]["snapshot"] - 2 > 0
