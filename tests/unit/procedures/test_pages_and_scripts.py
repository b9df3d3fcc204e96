"""Every procedure has a current page and a script that shows each of its arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_spark.calls.binding import bind
from paimon_spark.calls.help import pages
from paimon_spark.calls.run import is_paimon_statement
from paimon_spark.sqlparse.call import parse_call
from paimon_spark.sqlparse.script import split_script
from tests.procedure_table import PAGE, render
from tests.unit.procedures.calling import REGISTRY, Lake

ROOT = Path(__file__).parents[3]
NAMES = [p.name for p in REGISTRY]


def test_the_first_procedures() -> None:
    assert NAMES == [
        "alter_column_default_value",
        "cancel",
        "clear_consumers",
        "clone",
        "compact",
        "compact_chain_table",
        "compact_database",
        "compact_manifest",
        "config",
        "copy",
        "copy_files",
        "create_branch",
        "create_global_index",
        "create_privileged_user",
        "create_tag",
        "create_tag_from_timestamp",
        "create_tag_from_watermark",
        "data_evolution_merge_into",
        "delete_branch",
        "delete_tag",
        "diff",
        "doctor",
        "drop_global_index",
        "drop_partition",
        "drop_privileged_user",
        "empty_trash",
        "expire_changelogs",
        "expire_partitions",
        "expire_snapshots",
        "expire_tags",
        "fast_forward",
        "grant_privilege_to_user",
        "help",
        "history",
        "init_file_based_privilege",
        "maintain",
        "mark_partition_done",
        "merge_branch",
        "merge_into",
        "migrate_database",
        "migrate_file",
        "migrate_table",
        "purge_files",
        "reassign_row_id",
        "remove_orphan_files",
        "remove_unexisting_files",
        "remove_unexisting_manifests",
        "rename_branch",
        "rename_tag",
        "repair_earliest_snapshot",
        "repair_snapshots",
        "replace_tag",
        "rescale",
        "reset_consumer",
        "revoke_privilege_from_user",
        "rewrite_file_index",
        "rollback",
        "rollback_to",
        "rollback_to_as_latest",
        "rollback_to_timestamp",
        "rollback_to_watermark",
        "running",
        "stop",
        "trash",
        "trigger_tag_automatic_creation",
        "undo",
        "verify",
        "why",
    ]


@pytest.mark.parametrize(("name", "text"), pages(REGISTRY).items())
def test_pages_are_current(name: str, text: str) -> None:
    page = ROOT / "docs" / "procedures" / name
    assert page.read_text(encoding="utf-8") == text, "run: python -m paimon_spark.calls.help docs/procedures"


def test_the_table_of_tests_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run: python -m tests.procedure_table"


@pytest.mark.parametrize("name", NAMES)
def test_the_script_uses_every_argument(name: str) -> None:
    procedure = REGISTRY.get(name)
    script = (ROOT / "sql" / "procedures" / f"{name}.sql").read_text(encoding="utf-8")
    used: set[str] = set()
    for statement in split_script(script):
        if is_paimon_statement(statement.text, REGISTRY):
            call = parse_call(statement.text)
            target = REGISTRY.get(call.procedure)
            bind(target, call.positional, call.named)
            if target is procedure:
                used |= {target.find(n).name for n, _ in call.named}  # type: ignore[union-attr]
                used |= {p.name for p, _ in zip(target.params, call.positional, strict=False)}
    wanted = {p.name for p in procedure.params}
    assert wanted <= used


def test_help() -> None:
    lake = Lake({"k": "INT"})
    assert [r["name"] for r in lake.call("help()")] == NAMES
    assert [r["name"] for r in lake.call("CALL help('')")] == NAMES
    rows = lake.call("help('sys.compact')")
    assert {"procedure", "form", "argument", "result", "example"} == {r["kind"] for r in rows}
    assert lake.call("EXPLAIN CALL sys.help()") == []
