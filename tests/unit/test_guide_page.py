"""The page of Paimon's Flink guide and the tests that are named after its statements."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _tested() -> Iterator[int]:
    for path in sorted((ROOT / "tests/spark").glob("test_guide_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                named = re.match(r"test_s(\d+)_", node.name)
                assert named, f"{node.name} is named after no statement"
                yield int(named[1])


def test_numbers_of_the_guide_are_those_of_tests() -> None:
    page = (ROOT / "docs/flink-guide.md").read_text(encoding="utf-8")
    shown = {int(number) for number in re.findall(r"^\| S(\d+) \|", page, re.MULTILINE)}
    assert shown == set(_tested())
    assert shown == {*range(3, 20), 43, 45, 50, *range(62, 66)}
