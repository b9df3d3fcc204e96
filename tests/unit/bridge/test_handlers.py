"""The methods of the engine, and what its start imports."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

from paimon_spark.bridge.handlers import registry
from paimon_spark.bridge.handlers.flink import run_statement
from paimon_spark.bridge.handlers.write import merge_schema
from paimon_spark.bridge.protocol import VERSION, CatalogInfo, Envelope, Request
from paimon_spark.spec.identifier import Identifier
from tests.unit.procedures.warehouse import Warehouse

ZONE = {"spark.sql.session.timeZone": "UTC"}


def test_the_start_imports_no_parser_of_sql() -> None:
    lines = (
        "import sys",
        "import paimon_spark.bridge.handlers.registry",
        "print([m for m in sys.modules if 'sqlglot' in m])",
    )
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_methods_imported_later_are_those_of_their_modules() -> None:
    for module, names in registry._PARSING.items():
        assert set(import_module(f"paimon_spark.bridge.handlers.{module}").HANDLERS) == set(names)
        assert set(names) <= set(registry.HANDLERS)


def test_writers_that_add_the_same_columns_at_once(tmp_path: Path) -> None:
    house = Warehouse(tmp_path)
    house.create("db.t")

    def merged(n: int) -> Any:
        column = {"name": f"c{n}", "type": "long", "nullable": True, "metadata": {}}
        args = {
            "table": {"database": "db", "name": "t", "schema_id": 0},
            "options": {"write.merge-schema": "true"},
            "schema": {"type": "struct", "fields": [column]},
        }
        info = CatalogInfo(name="paimon", options={"warehouse": str(house.path)})
        envelope = Envelope(version=VERSION, session="s", conf=ZONE, catalog=info, args=args)
        return merge_schema(Request(envelope, None))["merged"]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(merged, [n // 8 for n in range(40)]))
    names = house.catalog.load_table(Identifier("db", "t")).schema.field_names
    assert names[-5:] == tuple(f"c{n}" for n in range(5))


def test_a_warning_that_the_comment_of_a_catalog_is_not_kept(tmp_path: Path) -> None:
    def answer(comment: str) -> Any:
        text = f"CREATE CATALOG c {comment} WITH ('type' = 'paimon', 'warehouse' = '{tmp_path}')"
        args = {
            "text": text,
            "catalogs": ["paimon"],
            "current_catalog": "paimon",
            "session_catalog": None,
            "catalog_settings": [],
        }
        info = CatalogInfo(name="paimon", options={"warehouse": str(tmp_path)})
        return run_statement(Request(Envelope(version=VERSION, session="s", conf=ZONE, catalog=info, args=args), None))

    created = {"spark.sql.catalog.c": "paimon.spark.Catalog", "spark.sql.catalog.c.warehouse": str(tmp_path)}
    assert answer("") == {"set": created}
    warning = "The comment of the catalog 'c' is not kept: catalogs of Spark have none."
    assert answer("COMMENT 'of the ''day'' '") == {"set": created, "warn": warning}
