"""Tables of Apache Paimon whose columns changed their types: rows, filters, and the files that statistics leave out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.core.table import Table
from paimon_spark.engine.insert import write_arrow
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.predicate import Comparison, InList, IsNull, Not, Predicate
from paimon_spark.spec.types import AtomicType, TypeRoot, parse_atomic
from paimon_spark.testing.tables import read_arrow
from tests.tables.casting import column, shown
from tests.tables.evolved import FORMATS, Column, evolved_columns, height
from tests.tables.plain import DATABASE, unpacked

HERE = Path(__file__).parent / "evolved"


@pytest.fixture(params=FORMATS)
def evolved(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Table, list[Column]]:
    """The table of a format, and what is known of its columns."""
    name = f"evolved_{request.param}"
    catalog = unpacked(HERE / f"{name}.tar.gz", tmp_path / "warehouse")
    return catalog.load_table(Identifier(DATABASE, name)), evolved_columns(request.param)


def expected(c: Column, rows: int) -> list[str]:
    return shown(column([*c.answers, *[None] * (rows - len(c.answers))], parse_atomic(c.new)))


def assert_read(table: Table, columns: list[Column]) -> None:
    rows = height(columns)
    read = read_arrow(table).sort_by("id")
    assert read["id"].to_pylist() == list(range(rows))
    wrong = [c for c in columns if shown(read[c.name].combine_chunks()) != expected(c, rows)]
    assert wrong == []


def test_old_files_are_read_as_paimon_reads_them(evolved: tuple[Table, list[Column]]) -> None:
    table, columns = evolved
    assert len(columns) > 350
    assert_read(table, columns)


def test_rewritten_rows_are_the_same(evolved: tuple[Table, list[Column]]) -> None:
    table, columns = evolved
    rows = read_arrow(table).sort_by("id")
    numbers = pa.array([i + 1000 for i in rows["id"].to_pylist()], pa.int32())
    write_arrow(table, rows.set_column(0, "id", numbers))
    again = read_arrow(table).sort_by("id").slice(rows.num_rows)
    assert [c.name for c in columns if trimmed(c, shown(again[c.name])) != trimmed(c, shown(rows[c.name]))] == []


def trimmed(c: Column, texts: list[str]) -> list[str]:
    """Return values without the blanks at the end of a CHAR, which not every format stores."""
    return [t.rstrip(" '") for t in texts] if parse_atomic(c.new).root is TypeRoot.CHAR else texts


def predicates(c: Column, read: pa.Array) -> list[Predicate]:
    """Return filters of every kind by values that a column holds now."""
    values = [v for v in read.drop_null().to_pylist() if v == v][:3]  # noqa: PLR0124 - NaN
    atomic = parse_atomic(c.new)
    out: list[Predicate] = [IsNull(c.name), Not(IsNull(c.name))]
    if not values or not literal(atomic):
        return out
    out += [Comparison(op, c.name, v) for v in values for op in ("=", "!=", "<", "<=", ">", ">=")]
    return [*out, InList(c.name, tuple(values))]


def literal(t: AtomicType) -> bool:
    """Return whether Python's value of a column is a literal of a filter."""
    return t.root not in (TypeRoot.DATE, TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


def kept(p: Predicate, value: Any) -> bool:
    """Return whether a row stays, said by Python."""
    if isinstance(p, Not):
        return not kept(p.part, value)
    if isinstance(p, IsNull):
        return value is None
    if value is None:
        return False
    if isinstance(p, InList):
        return value in p.values
    assert isinstance(p, Comparison)
    if value != value:  # noqa: PLR0124 - NaN is the largest number of all
        return p.op in (">", ">=", "!=")
    a, b = value, p.value
    return {"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[p.op]


def test_filters_judge_the_new_values(evolved: tuple[Table, list[Column]]) -> None:
    table, columns = evolved
    whole = read_arrow(table).sort_by("id")
    chosen = [c for c in columns if parse_atomic(c.new).root is not TypeRoot.CHAR][::23]
    for c in chosen:
        values = whole[c.name].to_pylist()
        for p in predicates(c, whole[c.name].combine_chunks()):
            got = read_arrow(table, columns=["id"], predicate=p)["id"].to_pylist()
            assert sorted(got) == [i for i, v in enumerate(values) if kept(p, v)], (c, p)
