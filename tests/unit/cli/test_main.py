"""The command line itself."""

from __future__ import annotations

import csv
import io
import json
import shlex
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

import paimon_spark
from paimon_spark.cli.call import statement_of
from paimon_spark.cli.env import CatalogChoice, launch_conf
from paimon_spark.cli.launch import spark_command
from paimon_spark.cli.local_zone import LocalZone
from paimon_spark.cli.main import build_parser, main
from paimon_spark.engine.insert import write_arrow
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.sqlparse.call import parse_call
from paimon_spark.sqlparse.casts import timestamp_millis
from paimon_spark.testing.tables import new_table
from paimon_spark.version import __version__
from tests.unit.procedures.warehouse import Warehouse


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("help", "CALL sys.help()"),
        ("compact('a.b')", "CALL sys.compact('a.b')"),
        ("sys.compact('a.b');", "CALL sys.compact('a.b')"),
        ("CALL paimon.sys.compact('a.b')", "CALL paimon.sys.compact('a.b')"),
        ("explain call sys.compact('a.b')", "explain call sys.compact('a.b')"),
        ("CALL\n  sys.compact('a.b')", "CALL\n  sys.compact('a.b')"),
    ],
)
def test_the_short_forms_of_a_call(given: str, meant: str) -> None:
    assert statement_of(given, explain=False) == meant
    assert statement_of(given, explain=True).upper().split()[:2] == ["EXPLAIN", "CALL"]


@pytest.mark.parametrize("comment", ["-- daily\n", "/* daily */ ", " \n"])
def test_a_call_may_begin_with_a_comment(comment: str) -> None:
    text = f"{comment}CALL sys.compact('a.b')"
    assert parse_call(statement_of(text, explain=False)).procedure == "compact"


@pytest.mark.parametrize(
    "program",
    [
        "print('a' * 100_000)",
        "print('a'); print('b', flush=True); print('c')",
        "sys.stdout.buffer.write(b'a' * 100_000); sys.stdout.buffer.flush()",
    ],
)
def test_a_program_goes_on_when_nobody_reads_its_output(program: str) -> None:
    body = f"with forgiving_output(): {program}; print('done', file=sys.stderr)"
    command = [sys.executable, "-c", f"import sys; from paimon_spark.cli.output import forgiving_output\n{body}"]
    assert unread(command) == (0, b"done\n")


def test_output_is_as_unbuffered_as_it_was() -> None:
    body = "with forgiving_output(): print(1); os.write(1, b'2\\n'); print(3)"
    program = f"import os; from paimon_spark.cli.output import forgiving_output\n{body}"
    assert subprocess.check_output([sys.executable, "-u", "-c", program]).split() == [b"1", b"2", b"3"]


def test_output_that_nobody_reads_to_its_end_is_no_error(tmp_path: Path) -> None:
    call = [sys.executable, "-m", "paimon_spark.cli.main", "call", "help()", "--warehouse", str(tmp_path)]
    assert unread(call) == (0, b"")


@pytest.mark.parametrize(
    ("words", "done"),
    [
        (["--help"], ""),
        (["create_tag", "--help"], ""),
        (["verify"], ""),
        (["create_tag", "--tag_name", "a"], " The action itself was done."),
        (["create_tag", "--tag_name", "b", "--dry_run"], ""),
        (["call", "create_tag('db.t', 'c')"], " The command itself was done."),
    ],
    ids=lambda words: words if isinstance(words, str) else words[0],
)
def test_output_on_a_full_disk(tmp_path: Path, words: list[str], done: str) -> None:
    house = Warehouse(tmp_path)
    house.create("db.t")
    house.insert("db.t", (1, "a"))
    place = ["--warehouse", house.path] if "call" in words else ["--path", f"{house.path}/db.db/t"]
    command = [sys.executable, "-m", "paimon_spark.cli.main", *words, *place]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    told = f"[ENVIRONMENT] Standard output cannot be written: No space left on device.{done}\n"
    assert (ended.returncode, ended.stderr) == (1, told)


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_an_action_with_closed_streams(tmp_path: Path, closed: str) -> None:
    house = Warehouse(tmp_path)
    house.create("db.t")
    house.insert("db.t", (1, "a"))
    action = ["-m", "paimon_spark.cli.main", "create_tag", "--tag_name", "a", "--path", f"{house.path}/db.db/t"]
    statuses = [subprocess.call(["sh", "-c", f'"$0" "$@" {closed}', sys.executable, *action]) for _ in range(2)]
    assert statuses == [0, 1]
    assert house.call("create_tag('t', 'b')")


def unread(command: list[str]) -> tuple[int, bytes]:
    """Run a command whose output is closed; return its status and its error output."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate()
    return process.returncode, errors


def test_the_package_is_run_as_the_command() -> None:
    command = [sys.executable, "-m", "paimon_spark"]
    assert subprocess.check_output([*command, "--version"], text=True).strip() == f"paimon-spark {__version__}"
    assert subprocess.run([*command, "cmpact"], capture_output=True, check=False).returncode == 2


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"paimon-spark {__version__}\n"


@pytest.mark.parametrize("wrong", [[], ["env", "--nonsense"], ["sql", "-f", "a", "-e", "b"]])
def test_a_wrong_command_line_is_refused_with_status_2(wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(wrong)
    assert ended.value.code == 2


def test_a_script_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "-f", "/no/such/script.sql"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("[INVALID_ARGUMENT] the script /no/such/script.sql cannot be read")
    assert said.count("\n") == 1


def test_commands_that_start_a_program_pass_its_arguments_on() -> None:
    options, rest = build_parser().parse_known_args(
        ["spark-sql", "--warehouse", "w", "--conf", "a=b", "-e", "SELECT 1"]
    )
    assert (options.warehouse, rest) == ("w", ["--conf", "a=b", "-e", "SELECT 1"])


@pytest.mark.parametrize("command", ["sql", "spark-sql", "thriftserver", "submit"])
def test_the_help_of_a_launcher_names_what_it_passes_on(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    told = capsys.readouterr().out
    for flag in ("--conf NAME=VALUE", "--properties-file", "--master", "--driver-memory", "--jars", "--packages"):
        assert flag in told
    examples = [line.strip() for line in told.splitlines() if line.startswith(f"  paimon-spark {command}")]
    assert examples
    assert any("--conf spark." in example for example in examples)
    for example in examples:
        options, rest = build_parser().parse_known_args(shlex.split(example)[1:])
        assert options.passes_on
        assert "--conf" in rest or "--conf" not in example
    assert max(map(len, told.splitlines())) <= 130


@pytest.mark.parametrize("command", ["call", "env", "selftest"])
def test_the_help_of_other_commands_promises_nothing_to_pass_on(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    told = capsys.readouterr().out
    assert "passed on" not in told


def test_env_quotes_what_a_shell_would_split(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "--conf", "--warehouse", "/data/my warehouse"]) == 0
    assert "--conf 'spark.sql.catalog.paimon.warehouse=/data/my warehouse'" in capsys.readouterr().out


def test_call_works_without_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import pyarrow as pa

    path = str(tmp_path / "db.db" / "t")
    columns = {"id": "INT", "v": "STRING"}
    table = new_table(columns, primary_key=["id"], options={"bucket": "1"}, file_io=LocalFileIO(), path=path)
    for text in "ab":
        write_arrow(table, pa.table({"id": pa.array([1], pa.int32()), "v": [text]}))
    run = ["call", "--warehouse", str(tmp_path)]
    assert main([*run, "--explain", "compact('db.t')"]) == 0
    assert "action" in capsys.readouterr().out
    assert table.snapshots.latest_id() == 2
    assert main([*run, "create_tag('db.t', 'one')"]) == 0
    assert "true" in capsys.readouterr().out
    assert main([*run, "compakt('db.t')"]) == 1
    assert "compact" in capsys.readouterr().err


def test_a_plan_without_actions_is_told_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "db.db" / "t")
    new_table({"id": "INT"}, primary_key=["id"], options={"bucket": "1"}, file_io=LocalFileIO(), path=path)
    run = ["call", "--warehouse", str(tmp_path), "--explain", "compact('db.t')"]
    assert main(run) == 0
    assert capsys.readouterr().out == "nothing to do\n"
    columns = ["action", "path", "bytes", "reason", "kept_by"]
    for form, printed in (("tsv", "\t".join(columns)), ("csv", ",".join(columns)), ("json", "[]")):
        assert main([*run, "--format", form]) == 0
        assert capsys.readouterr().out == f"{printed}\n", "a program counts rows"


@pytest.mark.parametrize("month", ["01", "07"])
def test_times_in_a_call_are_those_of_this_machine(month: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        here = timestamp_millis(f"2026-{month}-15 12:00:00", zone=LocalZone(), parameter="older_than")
        there = ZoneInfo("America/New_York")
        assert LocalZone().key == there.key
        assert here == datetime(2026, int(month), 15, 12, tzinfo=there).timestamp() * 1000
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_launchers_start_in_their_catalog(tmp_path: Path) -> None:
    conf = launch_conf(CatalogChoice("lake", "/data"), tmp_path)
    assert conf["spark.sql.defaultCatalog"] == "lake"
    assert "spark.sql.defaultCatalog" not in launch_conf(None, tmp_path)


@pytest.mark.parametrize("line", ["spark.sql.defaultCatalog other", " spark.sql.defaultCatalog=other", ""])
def test_a_catalog_of_the_users_properties_file_is_kept(line: str, tmp_path: Path) -> None:
    file = tmp_path / "own.conf"
    file.write_text(f"# mine\n{line}\nspark.x y\n")
    for given in (["--properties-file", str(file)], [f"--properties-file={file}", "-e", "x"]):
        with spark_command((), CatalogChoice("lake", "/data"), {}, given) as command:
            assert ("spark.sql.defaultCatalog=lake" in command) == (not line)


def test_a_program_configures_its_current_catalog_when_asked_to() -> None:
    class Builder:
        def __init__(self) -> None:
            self.conf: dict[str, str] = {}

        def config(self, key: str, value: str) -> Builder:
            self.conf[key] = value
            return self

    plain = paimon_spark.configure(Builder(), catalog="lake", file_format="orc")
    current = paimon_spark.configure(Builder(), catalog="lake", default_catalog=True)
    assert "spark.sql.defaultCatalog" not in plain.conf
    assert plain.conf["spark.sql.catalog.lake.file-format"] == "orc"
    assert current.conf["spark.sql.defaultCatalog"] == "lake"


@pytest.mark.parametrize("threads", ["0", "-1", "two"])
@pytest.mark.parametrize("words", [["call", "compact('db.t')"], ["doctor", "--table", "db.t"]])
def test_numbers_of_threads_below_one_are_refused(
    words: list[str], threads: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--threads", threads])
    assert ended.value.code == 2
    assert f"'{threads}' is not a number of 1 or more" in capsys.readouterr().err


def test_values_with_tabs_and_line_breaks_keep_rows_on_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, odd = str(tmp_path / "db.db" / "t"), "\t\n\\|"
    options = {"bucket": "1", "csv.field-delimiter": odd}
    new_table({"id": "INT"}, primary_key=["id"], options=options, file_io=LocalFileIO(), path=path)
    run = ["call", "--warehouse", str(tmp_path), "config('db.t')", "--format"]

    def printed(form: str) -> str:
        assert main([*run, form]) == 0
        return capsys.readouterr().out

    rows = [line.split("\t") for line in printed("tsv").splitlines()]
    assert {len(row) for row in rows} == {5}
    assert dict(row[:2] for row in rows)["csv.field-delimiter"] == r"\t\n\\|"
    assert r"  \t\n\|  " in printed("table")
    assert {row["key"]: row["value"] for row in json.loads(printed("json"))}["csv.field-delimiter"] == odd
    assert {row[0]: row[1] for row in csv.reader(io.StringIO(printed("csv")))}["csv.field-delimiter"] == odd


@pytest.mark.parametrize("words", [["call", "help()"], ["doctor", "--table", "db.t"], ["sql", "-e", "SELECT 1"]])
def test_an_empty_warehouse_is_not_the_current_directory(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--warehouse", ""]) == 1
    assert "--warehouse is empty. Give a directory" in capsys.readouterr().err
