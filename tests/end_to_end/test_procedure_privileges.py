"""Every procedure that changes a table, called by a user who may only read: it is refused, and changes nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from paimon_spark.calls.context import CallContext
from paimon_spark.calls.run import run_call
from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import AccessDeniedError
from tests.end_to_end.procedure_calls import CALLS
from tests.end_to_end.test_procedure_kills import template as template
from tests.unit.procedures.calling import REGISTRY

LATER = 4_102_444_800_000


def called(warehouse: Path, text: str, user: str = "reader") -> str:
    catalog = open_catalog({"warehouse": str(warehouse), "user": user, "password": user})
    ctx = CallContext(catalog=catalog, catalog_name="paimon", runner=LocalRunner(), clock_millis=lambda: LATER)
    return str(run_call(f"CALL sys.{text}", ctx, REGISTRY).rows)


@pytest.fixture(scope="module")
def warehouse(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("guarded") / "warehouse"
    shutil.copytree(template, path)
    clear_cache()
    called(path, "init_file_based_privilege('root')", "anonymous")
    called(path, "create_privileged_user('reader', 'reader')", "root")
    called(path, "grant_privilege_to_user('reader', 'SELECT')", "root")
    return path


def files(warehouse: Path) -> dict[str, bytes]:
    return {str(f): f.read_bytes() for f in warehouse.rglob("*") if f.is_file()}


def test_readers_change_nothing(warehouse: Path) -> None:
    before, told = files(warehouse), {}
    for name, text in CALLS.items():
        try:
            told[name] = called(
                warehouse, text.format(warehouse=warehouse, fourth=LATER)
            )  # one may have rows of errors
        except AccessDeniedError as e:
            told[name] = e.message
    for name in CALLS:
        wanted = "CREATE_TABLE" if name in ("clone", "copy", "copy_files") else REGISTRY.get(name).requires
        assert f"does not have the privilege {wanted} on " in told.get(name, "nothing"), name
    assert files(warehouse) == before


@pytest.mark.parametrize("name", [p.name for p in REGISTRY if p.read_only])
def test_readers_may_look(name: str, warehouse: Path) -> None:
    texts = {"diff": "diff('t', '3')", "why": "why('t', 'manifest-left')", "help": "help()", "running": "running()"}
    before = files(warehouse)
    assert "PRIVILEGE_MISSING" not in called(warehouse, texts.get(name, f"{name}('t')"))
    assert files(warehouse) == before
