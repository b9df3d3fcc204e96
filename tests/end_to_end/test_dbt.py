"""dbt-spark over Thrift: seeds, models of all materializations, snapshots, tests and documentation."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest
from pyhive import hive

from tests.end_to_end.programs import BIN, ROOT, Place, free_port, server

DBT = Path(os.environ.get("PAIMON_SPARK_DBT", ROOT / ".venv-dbt" / "bin" / "dbt"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not DBT.exists(), reason=f"no dbt at {DBT}; run make .venv-dbt/.ready"),
]


def dbt(project: Path, port: int, *arguments: str) -> None:
    environ = os.environ | {"THRIFT_PORT": str(port), "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    environ.pop("PYTHONPATH", None)
    command = [DBT, "--no-use-colors", *arguments, "--profiles-dir", "."]
    done = subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_a_project_is_built_twice(tmp_path: Path) -> None:
    place = Place(tmp_path)
    project = shutil.copytree(Path(__file__).parent / "dbt", tmp_path / "project")
    (project / "macros").mkdir()
    shutil.copy(str(files("paimon_spark.clients") / "dbt" / "paimon.sql"), project / "macros")
    port = free_port()
    command = [BIN / "paimon-spark", "thriftserver", "--warehouse", place.warehouse, "--port", str(port)]
    with server(place, [*command, "--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2"], port):
        dbt(project, port, "build")
        seed = project / "seeds" / "items.csv"
        seed.write_text(seed.read_text().replace("2.5", "3.5") + "3,c,4.5\n")
        dbt(project, port, "build")
        dbt(project, port, "docs", "generate")
        with hive.connect("localhost", port, database="dbt").cursor() as cursor:

            def answer(statement: str) -> list[tuple]:
                cursor.execute(statement)
                return cursor.fetchall()

            new = [(1, 1.5), (2, 3.5), (3, 4.5)]
            assert answer("SELECT id, price FROM priced ORDER BY id") == new
            assert answer("SELECT id, price FROM merged ORDER BY id") == new
            assert answer("SELECT id, price FROM overwritten ORDER BY id") == new
            assert answer("SELECT id, count(*) FROM appended GROUP BY id ORDER BY id") == [(1, 2), (2, 2), (3, 1)]
            assert answer("SELECT id, name FROM named ORDER BY id") == [(1, "a"), (2, "b"), (3, "c")]
            assert answer("SELECT id, price, dbt_valid_to IS NULL FROM history ORDER BY id, price") == [
                (1, 1.5, True),
                (2, 2.5, False),
                (2, 3.5, True),
                (3, 4.5, True),
            ]
            assert [r[1] for r in answer("SHOW VIEWS")] == ["named"]
    catalog = json.loads((project / "target" / "catalog.json").read_text())["nodes"]
    assert sorted(catalog["model.shop.priced"]["columns"]) == ["id", "name", "price"]
    assert catalog["model.shop.named"]["metadata"]["type"] == "view"
