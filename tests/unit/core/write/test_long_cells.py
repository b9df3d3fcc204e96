"""What one very long value costs in memory: a few copies at a time, which the libraries make, and none of ours."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.long_values import NAME, SMALL_FILES, LongValue, alone
from paimon_spark import connect
from tests.variants import every

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the memory of a process")


@pytest.mark.parametrize(
    ("file_format", "kind", "keyed", "limits"),
    every(
        2,
        [
            ("parquet", "STRING", False, (3.5, 5.0, 4.5)),
            ("parquet", "BYTES", True, (3.5, 5.0, 4.5)),
            ("orc", "BYTES", False, (1.5, 4.0, 4.0)),
            ("avro", "STRING", True, (3.5, 7.0, 8.0)),
        ],
    ),
)
def test_a_long_value_is_not_copied_more_often_than_it_must(
    file_format: str, kind: str, keyed: bool, limits: tuple[float, ...], tmp_path: Path
) -> None:
    """The limits leave a margin above what the library of each format needs by itself.

    The margin of reads is one copy: on a busy machine the allocator returns memory late.
    """
    value = LongValue(tmp_path, file_format, kind, keyed, 48 << 20)
    value.make()
    assert alone("add", value) < limits[0]
    assert alone("compact", value) < limits[1]
    assert alone("read", value) < limits[2]
    assert connect(tmp_path).table(NAME).count() == SMALL_FILES + 1
