"""The API in a process that has no pyspark, no py4j and no java, and its documentation."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import paimon_spark

ROOT = Path(paimon_spark.__file__).resolve().parents[1]
BLOCK = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pyspark", "py4j"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""


def run(script: str, tmp_path: Path) -> str:
    environment = {"PATH": "", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    command = [sys.executable, "-c", BLOCK + script]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_block_blocks(tmp_path: Path) -> None:
    script = "try:\n    import pyspark\nexcept ModuleNotFoundError as e:\n    print(e)\n"
    assert "pyspark" in run(script, tmp_path)


def test_a_table_lives_without_pyspark(tmp_path: Path) -> None:
    script = """
import paimon_spark, pyarrow as pa
catalog = paimon_spark.connect("w")
table = catalog.create_table("t", pa.schema([("k", pa.int64()), ("v", pa.string())]), primary_key=["k"])
table.upsert(pa.table({"k": [1, 2], "v": ["a", "b"]}))
table.delete("k = 1")
table.compact()
table.expire_snapshots(retain_max=1)
print(table.to_arrow().to_pylist(), [m for m in sys.modules if m.split(".")[0] in ("pyspark", "py4j")])
"""
    assert run(script, tmp_path).strip() == "[{'k': 2, 'v': 'b'}] []"


def test_the_examples_of_the_documentation_run(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/python.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 6
    first, *rest = [b.replace('"/data/warehouse"', '"w"') for b in blocks]
    opening = "\n".join(line for line in first.splitlines() if "orders" not in line)
    out = run(
        "\n".join([opening, *rest, "print(catalog.list_tables('shop'), orders.tags(), orders.count())"]), tmp_path
    )
    assert out.splitlines()[0] == "2 1"
    assert out.splitlines()[-1] == "['orders'] {} 1"
