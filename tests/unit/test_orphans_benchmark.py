"""The benchmark of orphan cleaning, on a small table."""

from __future__ import annotations

from pathlib import Path

from benchmarks.orphans import clean, make, undo
from benchmarks.synthetic import Shape


def test_the_benchmark_cleans_what_it_makes(tmp_path: Path) -> None:
    shape = Shape(20, 2, 2)
    make(tmp_path / "table", shape, orphans=7)
    before = {p.name for p in tmp_path.rglob("data-*.parquet")}
    assert len([n for n in before if "orphan" in n]) == 7
    costs = clean(tmp_path / "table", shape, trash=True)
    assert [c.operation for c in costs] == ["plan", "move to the trash"]
    left = {p.name for p in tmp_path.rglob("data-*.parquet") if ".trash" not in p.parts}
    assert not [n for n in left if "orphan" in n]
    assert len(left) >= 20
    assert [c.operation for c in undo(tmp_path / "table", shape)] == ["undo"]
    assert {p.name for p in tmp_path.rglob("data-*.parquet") if ".trash" not in p.parts} == before
