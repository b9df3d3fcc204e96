"""Actions: their table, their command lines, and what they do in this process."""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.calls.binding import bind, literal_of
from paimon_spark.calls.refusals import REFUSED
from paimon_spark.calls.registry import installed_family
from paimon_spark.cli.actions.arguments import Request, parse, request_of
from paimon_spark.cli.actions.derived import derived, derived_actions
from paimon_spark.cli.actions.help import help_text
from paimon_spark.cli.actions.names import action_of
from paimon_spark.cli.actions.statement import call_statement
from paimon_spark.cli.actions.table import ACTIONS, CAPTURES, DESTROYS, Action, Option, Target
from paimon_spark.cli.main import main
from paimon_spark.errors import PaimonError, UsageError
from paimon_spark.spec.identifier import split_name
from paimon_spark.sqlparse.call import parse_call
from tests.unit.procedures.calling import REGISTRY
from tests.unit.procedures.warehouse import Warehouse

RETENTION = "retain_max retain_min older_than max_deletes"
COPIES = "target_warehouse target_database target_table target_catalog_conf parallelism"
CONTRACT = {
    "compact": "partition where order_strategy order_by partition_idle_time compact_strategy",
    "compact_database": "including_databases including_tables excluding_tables mode partition_idle_time compact_strategy",
    "compact_chain_table": "partition overwrite",
    "rescale": "bucket_num partition scan_parallelism sink_parallelism",
    "rewrite_file_index": "identifier partitions",
    "create_tag": "tag_name snapshot time_retained",
    "replace_tag": "tag_name snapshot time_retained",
    "create_tag_from_timestamp": "tag timestamp time_retained",
    "create_tag_from_watermark": "tag watermark time_retained",
    "delete_tag": "tag_name",
    "rename_tag": "tag_name target_tag_name",
    "expire_tags": "older_than",
    "rollback_to": "version",
    "rollback_to_timestamp": "timestamp",
    "create_branch": "branch_name tag_name ignore_if_exists",
    "delete_branch": "branch_name",
    "rename_branch": "from to",
    "fast_forward": "branch_name",
    "merge_branch": "source_branch target_branch",
    "expire_snapshots": f"{RETENTION} options",
    "expire_changelogs": f"{RETENTION} delete_all",
    "expire_partitions": "expiration_time timestamp_formatter timestamp_pattern expire_strategy",
    "drop_partition": "partition",
    "mark_partition_done": "partition",
    "remove_orphan_files": "older_than dry_run parallelism",
    "remove_unexisting_files": "dry_run parallelism",
    "remove_unexisting_manifests": "",
    "reset_consumer": "consumer_id next_snapshot",
    "clear_consumers": "including_consumers excluding_consumers",
    "merge_into": "target_as source_sql source_table on merge_actions matched_upsert_condition matched_upsert_set "
    "matched_delete_condition not_matched_insert_condition not_matched_insert_values "
    "not_matched_by_source_upsert_condition not_matched_by_source_upsert_set "
    "not_matched_by_source_delete_condition",
    "data_evolution_merge_into": "target_as source_sql source_table on matched_update_set sink_parallelism",
    "delete": "where source_sql sink_parallelism",
    "migrate_table": "source_type options parallelism",
    "migrate_database": "source_type options parallelism",
    "clone": f"{COPIES} where included_tables excluded_tables prefer_file_format clone_from meta_only clone_if_exists",
    "copy_files": COPIES,
    "repair": "identifier",
    "query_service": "parallelism",
    "reassign_row_id": "partition",
}
"""Paimon's actions and their options."""
PLACE = ["--database", "d", "--table", "t"]


def request(action: str, *words: str) -> Request:
    return request_of(parse(action_of(action), words))


def test_every_action_of_paimon_has_its_options() -> None:
    own = ("streaming", "trash")  # of this project
    found = {name: " ".join(o.name for o in a.options if o.name not in own) for name, a in ACTIONS.items()}
    assert found == CONTRACT


@pytest.mark.parametrize("action", [a for a in ACTIONS.values() if a.procedure in REGISTRY.names], ids=lambda a: a.name)
def test_every_option_sets_a_parameter(action: Action) -> None:
    procedure = REGISTRY.get(action.procedure)
    own = [o for o in action.options if not o.refused and not o.table_option and o.name != "merge_actions"]
    assert all(procedure.find(o.sets) is not None for o in own)
    sets = {procedure.find(o.sets).name for o in own}  # type: ignore[union-attr]
    if action.target is not Target.NONE:
        sets |= {"database"} if action.target is Target.DATABASE_NAME else {action.table}
    assert {p.name for p in procedure.params if p.required} <= sets
    assert set(action.spark_options) <= {o.name for o in action.options}


@pytest.mark.parametrize("name", sorted({*ACTIONS, *CAPTURES}))
def test_an_action_is_described_or_refused(name: str) -> None:
    if name in REFUSED or name in CAPTURES:
        with pytest.raises(PaimonError, match="is not supported"):
            action_of(name)
        return
    told = help_text(action_of(name))
    assert max(map(len, told.splitlines())) <= 120
    for option in action_of(name).options:
        assert (f"--{option.name}" in told) == (not option.refused)


def test_every_other_procedure_is_an_action() -> None:
    called = {a.procedure for a in ACTIONS.values()}
    assert called - REGISTRY.names <= {*REFUSED, ""}
    for procedure in REGISTRY:
        action = derived(procedure)
        assert {o.sets for o in action.options if not o.fails_on_rows} <= {p.name for p in procedure.params}


KEEP = [
    "alter_column_default_value",
    "compact",
    "compact_chain_table",
    "compact_database",
    "compact_manifest",
    "config",
    "create_branch",
    "create_global_index",
    "create_privileged_user",
    "create_tag",
    "create_tag_from_timestamp",
    "create_tag_from_watermark",
    "data_evolution_merge_into",
    "diff",
    "doctor",
    "drop_global_index",
    "grant_privilege_to_user",
    "history",
    "init_file_based_privilege",
    "mark_partition_done",
    "merge_branch",
    "merge_into",
    "reassign_row_id",
    "rename_branch",
    "rename_tag",
    "rescale",
    "revoke_privilege_from_user",
    "rewrite_file_index",
    "rollback_to_as_latest",
    "stop",
    "trash",
    "verify",
    "why",
]
"""Actions after which nothing is gone for good that the table had; what statements write is in their own hands."""


def test_each_action_says_what_it_destroys() -> None:
    known = {**ACTIONS, **derived_actions()}
    assert {n for n, a in known.items() if not a.destroys and n not in REFUSED} == set(KEEP)
    assert DESTROYS.keys() <= derived_actions().keys() | {"rollback"}


@pytest.mark.parametrize("name", ["running", "cancel"])
def test_calls_are_listed_in_their_application(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 2
    assert f"Write CALL sys.{name}(" in capsys.readouterr().err
    assert name not in derived_actions()


def test_an_own_option_hides_that_of_every_action() -> None:
    own = Action("look", "look", (Option("format"), Option("path"), Option("database")), Target.NONE)
    asked = request_of(parse(own, ["--format", "html", "--path", "/x", "--database", "d"]))
    assert asked.arguments == {"format": "html", "path": "/x", "database": "d"}
    assert (asked.form, asked.warehouse, asked.table) == ("table", "paimon-warehouse", None)


def test_dashes_underscores_and_repeated_options() -> None:
    one = request("expire-snapshots", *PLACE, "--retain-max", "3", "--older_than=2026-01-01", "--options", "a=b")
    assert one.arguments == {
        "table": "d.t",
        "retain_max": "3",
        "older_than": "2026-01-01",
        "options": "a=b",
    }
    two = request("compact", "--path", "s3://b/w/d.db/t", "--partition", "p=1,q=2", "--partition", "p=2")
    assert (two.warehouse, two.table, two.arguments["partitions"]) == ("s3://b/w", ("d", "t"), "p=1,q=2;p=2")


@pytest.mark.parametrize(
    ("path", "warehouse"),
    [("/w/d.db/t", "/w"), ("/d.db/t/", "/"), ("d.db/t", "."), ("w/d.db/t", "w"), ("file:/w/d.db/t", "file:/w")],
)
def test_a_path_names_warehouse_database_and_table(path: str, warehouse: str) -> None:
    found = request("compact", "--path", path)
    assert (found.warehouse, found.table) == (warehouse, ("d", "t"))


def test_the_catalog_s_options_win_over_the_warehouse() -> None:
    found = request("compact", *PLACE, "--warehouse", "a", "--catalog_conf", "warehouse=b", "--catalog-conf", "k=v=w")
    assert (found.warehouse, found.catalog_conf) == ("b", {"k": "v=w"})


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("compact", "misses --database, --table"),
        ("compact --database d", "misses --table"),
        ("verify --table d.*", "misses --database. Write --database d --table '*'"),
        ("compact --table d.t", "misses --database. Write --database d --table t."),
        ("compact --table t", "misses --database. --path names"),
        ("compact x", "'x' is not an option"),
        ("compact --path /w/d/t", "not the path of a table"),
        ("compact --path /w/.db/t", "not the path of a table"),
        ("compact --path /w/d.db/t --table t", "together with --table"),
        ("purge_files --yes --path /w/d.db/t --catalog_conf warehouse=/v", "together with --catalog_conf warehouse="),
        ("compact --path /w/d.db/t --wherre x", "Did you mean '--where'"),
        ("compact --path /w/d.db/t --where", "--where lacks its value"),
        ("compact --path /w/d.db/t --where --format json", "--where lacks its value"),
        ("compact --path /w/d.db/t --where a --where b", "given twice"),
        ("compact --path /w/d.db/t --format xml", "the choices are table, json, csv"),
        ("compact --path /w/d.db/t --threads 0", "--threads is '0'"),
        ("compact --path /w/d.db/t --threads 2 --master local[2]", "on Spark"),
        ("compact --path /w/d.db/t --table_conf k", "takes KEY=VALUE"),
        ("compact --path /w/d.db/t --yes=maybe", "--yes is 'maybe'"),
        ("compact_database --table t", "does not take --table"),
        ("create_tag --path /w/d.db/t", "misses --tag_name"),
        ("delete --path /w/d.db/t", "misses --where"),
        ("delete --path /w/d.db/t --where x=1 --dry-run", "has no dry run"),
        ("history --path /w/d.db/t --dry_run", "has no dry run"),
        ("expire_partitions --path /w/d.db/t --expiration_time 1d", "misses --timestamp_formatter"),
        ("rewrite_file_index --path /w/d.db/t --identifier d.t", "--identifier is given together"),
        ("purge_files --path /w/d.db/t", "Give --yes"),
        ("compakt", "Did you mean 'compact'"),
        ("nonsense", "no action or command 'nonsense'"),
    ],
)
def test_a_wrong_command_line_has_status_2(words: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.startswith("[INVALID_ARGUMENT]")


@pytest.mark.parametrize("option", ["rescale --scan_parallelism", "delete --where a=1 --source_sql"])
def test_an_option_of_paimon_s_may_be_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*option.split(), "2", *PLACE]) == 1
    assert "[UNSUPPORTED_FEATURE]" in capsys.readouterr().err


MERGE = ["--source_table", "s", "--on", "a=b", *PLACE]


@pytest.mark.parametrize(
    ("actions", "more", "told"),
    [
        ("matched-upsert", [], "misses --matched_upsert_set"),
        ("matched-upsert,nothing", ["--matched_upsert_set", "*"], "names 'nothing'"),
        ("matched-delete,matched-delete", [], "twice"),
        ("matched-delete", ["--matched_upsert_set", "*"], "without matched-upsert"),
        ("matched-delete,matched-upsert", ["--matched_upsert_set", "*"], "need a condition each"),
    ],
)
def test_merge_actions_are_checked(actions: str, more: list[str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        request("merge_into", *MERGE, "--merge_actions", actions, *more)


def test_a_merge_action_may_delete_without_a_condition() -> None:
    arguments = request("merge_into", *MERGE, "--merge-actions", "matched-delete").arguments
    assert arguments["matched_delete_condition"] == "TRUE"
    assert arguments["target_table"] == "d.t"
    assert "not_matched_by_source_delete_condition" not in arguments


def test_copies_go_to_another_catalog() -> None:
    words = ["--target_warehouse", "/b", "--target_catalog_conf", "k=a,'b'", "--target_table", "u"]
    clone = request("clone", "--database", "d", "--table", "t", "--clone_from", "paimon", *words)
    assert clone.arguments == {
        "target_catalog_conf": "warehouse=/b,k='a,\\'b\\''",
        "target_table": "u",
        "clone_from": "paimon",
        "database": "d",
        "table": "t",
    }


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(str.strip)


@settings(deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=2), TEXTS, TEXTS, st.booleans())
def test_a_statement_says_what_the_command_line_says(wheres: list[str], database: str, table: str, dry: bool) -> None:
    words = [f"--where={wheres[0]}", f"--database={database}", f"--table={table}", f"--dry_run={str(dry).lower()}"]
    words += [f"--partition={text}" for text in wheres]
    asked = request("compact", *words)
    procedure = REGISTRY.get("compact")
    here = bind(procedure, (), [(name, literal_of(value)) for name, value in asked.arguments.items()])
    statement = parse_call(call_statement(asked))
    assert (statement.catalog, statement.namespace, statement.procedure) == ("paimon", "sys", "compact")
    assert bind(procedure, (), statement.named) == here
    assert here.dry_run == dry
    if table != "*":
        assert split_name(here.text("table")) == [database, table]


DOCUMENTED = [
    line.removeprefix("$ paimon-spark ").split("  #")[0]
    for line in (Path(__file__).parents[3] / "docs/actions.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("$ paimon-spark ")
]


@pytest.mark.parametrize("line", DOCUMENTED)
def test_the_documented_lines_are_right(line: str) -> None:
    name, *words = shlex.split(line)
    asked = request_of(parse(action_of(name), words))
    assert asked.on_spark == ("--master" in words)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    house = Warehouse(tmp_path)
    house.create("db.t")
    for k in (1, 2):
        house.insert("db.t", (k, "a"), (k, "b"))
    return house


def test_actions_in_this_process(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    def run(action: str, *words: str) -> int:
        return main([action, "--path", f"{warehouse.path}/db.db/t", *words])

    idle = "--nothing_to_do_exits_3"
    assert run("create_tag", "--tag_name", "one", "--snapshot", "1") == 0
    assert run("compact", "--partition", "p=a", idle) == 0
    assert run("compact", "--partition", "p=a", idle) == 3
    assert run("compact", "--partition", "p=a") == 0
    assert run("compact", "--partition", "p=a", "--dry_run", idle) == 3
    assert run("compact", "--partition", "p=nope", idle) == 3
    assert run("compact", "--partition", "p=nope", "--dry_run", idle) == 3
    assert run("compact", "--partition", "p=b", "--partition", "p=nope", "--dry_run", idle) == 0
    capsys.readouterr()
    assert run("compact", "--where", "nope = 1") == 1
    assert run("compact", "--table_conf", "nope=1") == 1
    assert run("rollback_to", "--version", "nope") == 1
    assert [line.split("]")[0] for line in capsys.readouterr().err.splitlines()] == [
        "[INVALID_ARGUMENT",
        "[INVALID_OPTION",
        "[TAG_NOT_FOUND",
    ]
    assert run("rollback_to", "--version", "one", "--force_start_flink_job", "true") == 0
    assert warehouse.rows("db.t") == [(1, "a"), (1, "b")]


def test_a_database_without_work_is_idle(warehouse: Warehouse) -> None:
    command = ["compact_database", "--warehouse", warehouse.path, "--nothing_to_do_exits_3"]
    assert main([*command, "--including_databases", "nope"]) == 3
    assert [main(command), main(command)] == [0, 3]


def test_verify_fails_on_defects(warehouse: Warehouse) -> None:
    verify = ["verify", "--path", f"{warehouse.path}/db.db/t"]
    assert main([*verify, "--fail_on_defects"]) == 0
    next(Path(warehouse.path, "db.db/t").rglob("data-*.parquet")).unlink()
    assert [main(verify), main([*verify, "--fail-on-defects"]), main([*verify, "--fail_on_defects=false"])] == [0, 1, 0]


@pytest.mark.parametrize("form", ["table", "csv"])
def test_characters_that_the_output_lacks(warehouse: Warehouse, form: str) -> None:
    place = ["--path", f"{warehouse.path}/db.db/t"]
    assert main(["create_tag", *place, "--tag_name", "p€ü", "--snapshot", "1"]) == 0
    command = [sys.executable, "-m", "paimon_spark.cli.main", "history", *place, "--format", form]
    done = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "PYTHONIOENCODING": "latin-1"})
    assert "p\\u20acü" in done.stdout.decode("latin-1")
    assert done.stderr == b""


@pytest.mark.parametrize("action", [a for a in ACTIONS.values() if a.family], ids=lambda a: a.name)
def test_the_family_of_an_action_has_its_procedure(action: Action) -> None:
    assert action.procedure in installed_family(action.family).names


LOADED = """
import sys
from paimon_spark.cli.main import main
status = main(sys.argv[1:])
heavy = ("pyspark", "py4j", "sqlglot", "paimon_spark.engine.insert", "paimon_spark.core.write.table_writer")
print(status, *(name for name in heavy if name in sys.modules))
"""


@pytest.mark.parametrize(
    "words",
    [
        "create_tag --tag_name a",
        "create_branch --branch_name b",
        "expire_snapshots --retain_max 9",
        "delete_tag --tag_name a",
    ],
)
def test_a_small_action_starts_no_jvm_and_loads_little(warehouse: Warehouse, words: str) -> None:
    command = [sys.executable, "-c", LOADED, *words.split(), "--path", f"{warehouse.path}/db.db/t"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0"


def test_the_forms_of_an_answer(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    compact = ["compact", "--warehouse", warehouse.path, "--database", "db", "--table", "t"]
    assert main([*compact, "--dry-run", "--format", "json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert main([*compact, "--dry-run", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [{k: "" if v is None else str(v) for k, v in row.items()} for row in plan] == rows
    assert main([*compact, "--format", "json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done[0]["result"], done[0]["status"], done[0]["rows"]) == (True, "done", 4)


def test_a_database_fails_with_one_of_its_tables(warehouse: Warehouse) -> None:
    place = ["--warehouse", warehouse.path, "--including-databases", "db"]
    assert main(["compact_database", *place]) == 0
    assert main(["compact_database", *place, "--nothing-to-do-exits-3"]) == 3
    warehouse.create("db.u")
    warehouse.insert("db.u", (1, "a"))
    warehouse.insert("db.u", (1, "a"))
    assert main(["compact_database", *place, "--nothing-to-do-exits-3"]) == 0
    warehouse.insert("db.u", (1, "a"))
    for file in Path(warehouse.path).glob("db.db/u/p=a/bucket-0/data-*"):
        file.unlink()
    assert main(["compact_database", *place]) == 1


def test_delete_and_copies(warehouse: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--warehouse", warehouse.path, "--database", "db"]
    delete = ["delete", *place, "--table", "t", "--where", "k = 1 AND p = 'a'", "--format", "csv"]
    assert main(delete) == 0
    assert main([*delete, "--nothing-to-do-exits-3"]) == 3
    assert capsys.readouterr().out.splitlines()[1::2] == ["done,2,3", "nothing to do,3,3"]
    assert warehouse.rows("db.t") == [(1, "b"), (2, "a"), (2, "b")]
    other = tmp_path / "other"
    assert main(["clone", *place, "--target_warehouse", str(other), "--clone_from", "paimon"]) == 0
    copies = Warehouse(other)
    assert copies.rows("db.t") == warehouse.rows("db.t")
    assert main(["remove_orphan_files", *place, "--dry_run", "true"]) == 0


def test_a_question_on_a_terminal(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def run(answer: str, *words: str) -> tuple[int, str]:
        said = Terminal()
        monkeypatch.setattr("sys.stdin", Terminal(answer))
        monkeypatch.setattr("sys.stderr", said)
        place = ["--path", f"{warehouse.path}/db.db/t"]
        return main(["drop_partition", *place, "--partition", "p=a", *words]), said.getvalue()

    status, said = run("n\n")
    assert (status, len(warehouse.rows("db.t"))) == (1, 4)
    assert said.startswith("drop_partition destroys the rows of the partitions: ")
    assert said.endswith("Go on? [y/N] Nothing was changed.\n")
    assert run("", "--dry_run") == (0, "")
    status, said = run("", "--yes")
    assert (status, len(warehouse.rows("db.t"))) == (0, 2)
    assert "Go on" not in said
