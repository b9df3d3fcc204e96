"""Data frames of pandas, with every kind of index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.api.catalog import CatalogHandle
from paimon_spark.errors import ArgumentError, ErrorKind

pandas: Any = pytest.importorskip("pandas")
COLUMNS = {"k": [3, 1, 2], "v": ["c", "a", "b"]}


@pytest.fixture
def catalog(tmp_path: Path) -> CatalogHandle:
    return paimon_spark.connect(tmp_path / "w")


@pytest.fixture
def frame() -> Any:
    return pandas.DataFrame(COLUMNS)


def test_filtered_and_sorted_frames_are_written(catalog: CatalogHandle, frame: Any) -> None:
    table = catalog.create_table("t", frame[frame.k > 1], primary_key="k", options={"bucket": 1})
    assert table.schema.names == ["k", "v"]
    table.append(frame)
    table.upsert(frame[frame.k > 1])
    table.upsert(pa.Table.from_pandas(frame.sort_values("k")))
    table.delete(keys=frame[["k"]][frame.k > 2])
    table.overwrite(frame.set_index([[7, 8, 9], ["x", "y", "z"]]))
    assert sorted(table.to_arrow().column("k").to_pylist()) == [1, 2, 3]


def test_an_index_with_a_name_is_a_column(catalog: CatalogHandle, frame: Any) -> None:
    table = catalog.create_table("t", frame.set_index("k"))
    assert sorted(table.schema.names) == ["k", "v"]
    table.append(frame.set_index("k"))
    assert table.count("k = 3") == 1
    with pytest.raises(ArgumentError, match="a column 'n' that") as e:
        table.append(frame.set_index(pandas.Index([4, 5, 6], name="n")))
    assert e.value.kind is ErrorKind.COLUMN_NOT_FOUND


def test_a_column_of_the_table_may_be_called_like_an_index(catalog: CatalogHandle, frame: Any) -> None:
    table = catalog.create_table("t", pa.schema([("k", pa.int64()), ("__index_level_0__", pa.int64())]))
    table.append(frame[["k"]][frame.k > 2])
    assert table.to_arrow().to_pylist() == [{"k": 3, "__index_level_0__": 0}]


@pytest.mark.parametrize("text", [b"{", b"[]", b"{}", b"\xff", b'{"index_columns": [], "columns": [5]}'])
def test_other_metadata_of_that_name_is_ignored(catalog: CatalogHandle, text: bytes) -> None:
    data = pa.table(COLUMNS).replace_schema_metadata({"pandas": text})
    table = catalog.create_table("t", data)
    assert table.append(data).rows == 3
