"""Readable answers from the streams of spark-sql."""

from __future__ import annotations

import io
import subprocess
import sys

from paimon_spark.cli.render import HELD, Answers, Renderer, answer_lines, gist, pass_on, pump, table_lines
from paimon_spark.cli.script_progress import ScriptProgress
from paimon_spark.sqlparse.script import split_script


def test_columns_are_aligned_and_numbers_stand_right() -> None:
    assert table_lines([["word", "cnt"], ["the", "96"], ["of", "NULL"]]) == [
        "word   cnt",
        "----  ----",
        "the     96",
        "of    NULL",
    ]


def test_an_answer_without_rows_shows_its_header() -> None:
    assert answer_lines(["a\tb"], 0) == ["a  b", "-  -"]


def test_a_statement_without_an_answer_shows_nothing() -> None:
    assert answer_lines(["Response code"], 0) == []
    assert answer_lines([], 0) == []


def test_cells_with_line_breaks_are_shown_as_they_are() -> None:
    assert answer_lines(["plan", "== Physical Plan ==", "Scan", ""], 1) == ["== Physical Plan ==", "Scan", ""]


def test_rows_with_line_breaks_are_complete() -> None:
    assert answer_lines(["a\tb", "1\tx", "y", "2\tz"], 2) == ["a\tb", "1\tx", "y", "2\tz"]


def test_changes_are_shown_as_they_arrive() -> None:
    out, err = io.StringIO(), io.StringIO()
    renderer = Renderer(ScriptProgress(split_script("SELECT 1;")), out=out, err=err)
    for line in ("op\tword\tcnt", "+I\tapple\t1", "+I\ttwo", "lines\t1", "+U\tapple\t20"):
        renderer.on_line(line)
    assert out.getvalue().splitlines() == ["op  word  cnt", "+I  apple  1", "+I  two", "lines  1", "+U     apple  20"]
    renderer.on_line("Response code")
    renderer.on_line("Time taken: 20.7 seconds")
    assert out.getvalue().splitlines()[5:] == ["(20.7 s, 3 changes)"]


def test_a_wide_single_row_is_shown_downwards() -> None:
    names = [f"a_long_column_name_{i}" for i in range(9)]
    lines = answer_lines(["\t".join(names), "\t".join("1" for _ in names)], 1)
    assert lines == [f"{name}  1" for name in names]


def test_paths_of_a_wide_answer_lose_what_they_share() -> None:
    place = "/a/long/way/to/the/warehouse/quickstart.db/word_count"
    rows = [f"delete\t{place}/{name}\t{'x' * 90}" for name in ("bucket-0/data-1", "snapshot/snapshot-1")]
    lines = answer_lines(["action\tpath\tx", *rows], 2)
    assert [line.split()[1] for line in lines[2:]] == ["…/bucket-0/data-1", "…/snapshot/snapshot-1"]


PROGRAM = """
import sys
print("a\\tb", flush=True); print("1\\tx", flush=True)
print("[Stage 0:>  (0 + 2) / 2]\\r" + " " * 20 + "\\r", end="", file=sys.stderr, flush=True)
print("Time taken: 1.25 seconds, Fetched 1 row(s)", file=sys.stderr, flush=True)
print("WARNING: Using incubator modules: some", file=sys.stderr, flush=True)
print("12:00:00 WARN Something: worth knowing", file=sys.stderr, flush=True)
print("Response code", flush=True)
print("Time taken: 0.04 seconds", file=sys.stderr, flush=True)
print("boom is unknown", file=sys.stderr, flush=True)
print("\\tat org.apache.spark.sql.Some.thing(Some.scala:1)", file=sys.stderr, flush=True)
print("\\t... 34 more", file=sys.stderr, flush=True)
sys.exit(3)
"""


def run(*, echo: bool) -> tuple[str, str, int]:
    out, err = io.StringIO(), io.StringIO()
    statements = split_script("-- Look.\nSELECT 1 AS a, 'x' AS b; CREATE TABLE t (a INT); SELECT boom")
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    renderer = Renderer(ScriptProgress(statements), echo=echo, out=out, err=err)
    renderer.announce()
    status = pump(process, renderer)
    return out.getvalue(), err.getvalue(), status


def test_a_run_is_rendered_in_order_and_its_status_kept() -> None:
    out, err, status = run(echo=True)
    assert out.splitlines() == [
        "",
        "-- Look.",
        "SELECT 1 AS a, 'x' AS b;",
        "a  b",
        "-  -",
        "1  x",
        "(1.2 s, 1 row)",
        "",
        "CREATE TABLE t (a INT);",
        "(0.0 s)",
        "",
        "SELECT boom;",
    ]
    assert err == "12:00:00 WARN Something: worth knowing\nboom is unknown\nFailed at line 2: SELECT boom\n"
    assert status == 3


def test_without_echo_the_answers_alone_are_printed() -> None:
    out, _, _ = run(echo=False)
    assert out.splitlines()[:3] == ["a  b", "-  -", "1  x"]
    assert "SELECT" not in out


def test_lines_with_tabs_are_passed_on_without_noise() -> None:
    out, err = io.BytesIO(), io.StringIO()
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    course = ScriptProgress(split_script("SELECT 1;\nCREATE TABLE t (a INT);\n-- now\nSELECT boom\nFROM t"), "some.sql")
    assert pass_on(process, course, out, err) == 3
    assert out.getvalue() == b"a\tb\n1\tx\n"
    said = "12:00:00 WARN Something: worth knowing\nboom is unknown\nFailed at line 4 of some.sql: SELECT boom …\n"
    assert err.getvalue() == said


def passed_on(*answers: tuple[list[bytes], int]) -> list[bytes]:
    """Return the output when all lines arrive before the first end is reported."""
    out = io.BytesIO()
    passing = Answers(out)
    for lines, _ in answers:
        for line in lines:
            passing.on_line(line)
    for _, fetched in answers:
        passing.on_end(fetched)
    passing.close()
    return out.getvalue().splitlines()


def test_rows_that_look_like_noise_are_passed_on() -> None:
    rows = [b"message", b"Response code", b"Time taken: 1.0 seconds", b"12:00:00 WARN x: y"]
    none = ([b"Response code"], 0)
    assert passed_on(none, (rows, 3), none, none, ([b"a"], 0), none) == [*rows, b"a"]


def test_a_long_answer_is_passed_on_before_its_end() -> None:
    out = io.BytesIO()
    passing = Answers(out)
    for number in range(HELD + 5):
        passing.on_line(b"%d" % number)
    assert out.getvalue() == b"0\n1\n2\n3\n4\n"
    passing.on_line(b"Response code")
    passing.on_end(HELD + 4)
    passing.on_end(0)
    assert out.getvalue().endswith(b"%d\n" % (HELD + 4))


def test_a_last_line_without_its_end_is_passed_on() -> None:
    out, err = io.BytesIO(), io.StringIO()
    program = "import sys; sys.stdout.write('x'); sys.stderr.write('y')"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert pass_on(process, ScriptProgress([]), out, err) == 0
    assert (out.getvalue(), err.getvalue()) == (b"x\n", "y\n")


ERROR = ["", "[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'. (line 1, pos 0)", "", "== SQL ==", "SELEC 1", "^^^"]


def test_the_gist_of_an_error_is_what_it_says() -> None:
    assert gist(ERROR) == ERROR[1:2]
    assert gist(["[A.B] one", "two"]) == ["[A.B] one", "two"]
    for other in (["", "== SQL ==", "told by !echo"], ["[1, 2]", ""], []):
        assert gist(other) == other


def typed(lines: list[str], *, readable: bool) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    renderer = Renderer(ScriptProgress((), alone=False), out=out, err=err, typed=True, readable=readable)
    for line in lines:
        renderer.on_line(line)
    renderer.close(0)
    return out.getvalue(), err.getvalue()


def test_every_typed_statement_gives_a_sign() -> None:
    answer = ["a\tb", "1\tx", "Time taken: 0.51 seconds, Fetched 1 row(s)"]
    nothing = ["Response code", "Time taken: 0.2 seconds"]
    assert typed(answer, readable=True) == ("a  b\n-  -\n1  x\n(0.5 s, 1 row)\n", "")
    assert typed(answer, readable=False) == ("a\tb\n1\tx\n(0.5 s, 1 row)\n", "")
    for readable in (True, False):
        assert typed(nothing, readable=readable) == ("(0.2 s)\n", "")


def test_a_typed_statement_that_fails_or_is_cancelled_is_a_line() -> None:
    assert typed(ERROR, readable=True) == ("", f"{ERROR[1]}\n")
    cancelled = ["Interrupting... Be patient, this might take some time.", "Press Ctrl+C again to kill JVM"]
    job = "[SPARK_JOB_CANCELLED] Job 1 cancelled as part of cancellation of all jobs SQLSTATE: XXKDA"
    task = (
        "14:06:18 WARN TaskSetManager: Lost task 0.0 in stage 0.0: TaskKilled (Stage cancelled: [SPARK_JOB_CANCELLED])"
    )
    said = typed([*cancelled, task, job], readable=True)
    assert said == ("", "[STATEMENT_CANCELLED] The statement was cancelled. Run it again if needed.\n")


def test_a_failed_statement_that_is_timed_is_a_line() -> None:
    time = "Time taken: 0.1 seconds"
    assert typed([*ERROR, time], readable=True) == ("", f"{ERROR[1]}\n")
    job = "org.apache.spark.SparkException: [SPARK_JOB_CANCELLED] Job 0 cancelled SQLSTATE: XXKDA"
    said = typed([job, "\tat org.apache.spark.rdd.RDD.collect(RDD.scala:1056)", time], readable=True)
    assert said == ("", "[STATEMENT_CANCELLED] The statement was cancelled. Run it again if needed.\n")
    assert typed(["[A] b", "1", "Time taken: 0.1 seconds, Fetched 1 row(s)"], readable=True)[1] == ""
