"""Rows merged before they are shuffled: the table reads as without that, and where it might not, nothing is merged."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_spark.core.columns import ROW_KIND
from paimon_spark.core.merge.config import merge_order
from paimon_spark.core.merge.sort_merge import merge_rows
from paimon_spark.core.table import Table
from paimon_spark.core.write.local_merge import LocalMerger, merges_locally
from paimon_spark.core.write.row_conversion import WriteRules, prepare_batch
from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.spec.features import check_creatable, check_readable
from paimon_spark.spec.option_checks import validate_options
from paimon_spark.testing.tables import new_table

COLUMNS = {"k": "INT", "a": "INT", "b": "INT", "t": "STRING", "g": "INT", "h": "INT", "s": "INT"}
TYPES = {"t": pa.string(), ROW_KIND: pa.int8()}
SIZE = "local-merge-buffer-size"
SUMS = {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum", "fields.b.aggregate-function": "max"}
LISTS = {"merge-engine": "aggregation", "fields.t.aggregate-function": "listagg"}
GROUPS = {"merge-engine": "partial-update", "fields.g.sequence-group": "a,t", "fields.h.sequence-group": "b"}
FIRST = {"merge-engine": "aggregation", "fields.default-aggregate-function": "first_value"}
LAST = {"merge-engine": "aggregation", "fields.default-aggregate-function": "last_value"}
MERGING: dict[str, Mapping[str, str]] = {
    "deduplicate": {},
    "deduplicate by sequence": {"sequence.field": "s,g"},
    "descending": {"sequence.field": "s", "sequence.field.sort-order": "descending"},
    "no deletes": {"ignore-delete": "true"},
    "first-row": {"merge-engine": "first-row", "ignore-delete": "true"},
    "partial-update": {"merge-engine": "partial-update", "ignore-delete": "true"},
    "removed": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "groups": GROUPS,
    "groups of sums": GROUPS | {"fields.a.aggregate-function": "sum", "fields.t.aggregate-function": "last_value"},
    "aggregation": {"merge-engine": "aggregation"},
    "sums": SUMS | {"fields.b.ignore-retract": "true"},
    "removed sums": SUMS | {"aggregation.remove-record-on-delete": "true"},
    "lists": LISTS | {"ignore-delete": "true"},
    "first values": FIRST | {"ignore-delete": "true"},
    "last by sequence": LAST | {"sequence.field": "s"},
    "sums by sequence": LAST | SUMS | {"sequence.field": "s", "ignore-update-before": "true"},
}
ADDS, ALL = (0, 2), (0, 0, 2, 1, 3)


def keyed(options: Mapping[str, str], size: str = "512 b", **more: Any) -> Table:
    return new_table(COLUMNS, primary_key=["k"], options={"bucket": "1", SIZE: size, **options}, **more)


def batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    fields = [pa.field(n, TYPES.get(n, pa.int32())) for n in (*COLUMNS, ROW_KIND)]
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema(fields))


def merged(table: Table, batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Return the rows that a writer makes of batches."""
    rows = [prepare_batch(b, WriteRules.of(table)) for b in batches]
    columns = pa.concat_tables([r.columns for r in rows])
    if not columns.num_rows:
        return []
    whole = columns.append_column("_SEQUENCE_NUMBER", pa.array(np.arange(columns.num_rows)))
    whole = whole.append_column("_VALUE_KIND", pa.array(np.concatenate([r.kinds for r in rows])))
    found: list[dict[str, Any]] = merge_rows(whole, merge_order(table, stored=False)).to_pylist()
    return [{n: v for n, v in row.items() if n != "_SEQUENCE_NUMBER"} for row in found]


def locally(table: Table, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    merger = LocalMerger(table)
    out = [rows for b in batches for rows in merger.add(b)]
    return [b for rows in (*out, *merger.finish()) for b in rows.combine_chunks().to_batches()]


def tasks(seed: int, kinds: tuple[int, ...]) -> list[list[pa.RecordBatch]]:
    """Return random batches of random tasks."""
    random = Random(seed)

    def row() -> dict[str, Any]:
        numbers = {n: random.choice((None, -3, -1, 0, 1, 2)) for n in ("a", "b", "g", "h", "s")}
        text = random.choice((None, "x", "y", "z"))
        return numbers | {"k": random.randrange(3), "t": text, ROW_KIND: random.choice(kinds)}

    return [
        [batch([row() for _ in range(random.randint(1, 12))]) for _ in range(random.randint(1, 3))]
        for _ in range(random.randint(1, 3))
    ]


@pytest.mark.parametrize("name", MERGING)
@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 1 << 32), size=st.sampled_from(["1 b", "512 b", "4 kb"]))
def test_rows_that_are_merged_first_read_alike(name: str, seed: int, size: str) -> None:
    table = keyed(MERGING[name], size)
    assert merges_locally(table)
    found = tasks(seed, ADDS if WriteRules.of(table).refused_rows else ALL)
    shuffled = [b for task in found for b in locally(table, task)]
    expected = merged(table, [b for task in found for b in task])
    assert (merged(table, shuffled) if shuffled else []) == expected


def test_few_rows_go_on_and_they_keep_their_kinds() -> None:
    rows = [dict.fromkeys(COLUMNS, 0) | {"k": n % 3, "t": "x", "a": n, ROW_KIND: 0} for n in range(3000)]
    rows.append(rows[1] | {"a": -1, ROW_KIND: 3})
    batches = [batch(rows[i : i + 500]) for i in range(0, len(rows), 500)]
    out = [row for b in locally(keyed({}, "16 kb"), batches) for row in b.to_pylist()]
    assert [(r["k"], r["a"], r[ROW_KIND]) for r in out] == [(0, 2997, 0), (1, -1, 3), (2, 2999, 0)]
    sums = locally(keyed(SUMS | {"fields.b.ignore-retract": "true"}, "16 kb"), batches)
    counts = [sum(r["k"] == k for b in sums for r in b.to_pylist()) for k in range(3)]
    assert counts[0] == counts[2] == 1
    assert 1 < counts[1] <= 501, "the rows since the buffer was last merged, with the one that is taken back"


REFUSED = {
    "changelog": ({"changelog-producer": "input"}, "would lack the rows"),
    "updates by sequence": ({"merge-engine": "partial-update", "sequence.field": "s"}, "null in the latest"),
    "lists in a group": (GROUPS | {"fields.t.aggregate-function": "listagg"}, "'listagg' of column 't'"),
    "lists by sequence": (LISTS | {"sequence.field": "s"}, "in order"),
    "defaults by sequence": (SUMS | {"sequence.field": "s"}, "'last_non_null_value' of column 't'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_could_change_the_result_is_refused(name: str) -> None:
    options, why = REFUSED[name]
    table = keyed(options)
    assert not merges_locally(table), "another engine may have made such a table"
    check_readable(table.schema)
    check_creatable(table.schema, table.schema)
    with pytest.raises(UnsupportedError) as e:
        check_creatable(table.schema)
    assert why in f"{e.value.message} {e.value.hint}"


def test_which_tables_merge() -> None:
    assert not merges_locally(new_table(COLUMNS, options={SIZE: "1 mb"}))
    assert not merges_locally(new_table(COLUMNS, primary_key=["k"]))
    for engine, merges in (("deduplicate", True), ("first-row", True), ("partial-update", False)):
        crossing = {"bucket": "-1", SIZE: "1 mb", "merge-engine": engine}
        assert merges_locally(new_table(COLUMNS, primary_key=["k"], partition=["g"], options=crossing)) is merges
    with pytest.raises(OptionError, match="at least 1 byte"):
        validate_options({SIZE: "0"})
