"""The compact statements of the guide, as printed, through the stock spark-sql program."""

from __future__ import annotations

import pytest

from tests.end_to_end.programs import Place

pytestmark = pytest.mark.slow

TABLE = """
USE paimon;
CREATE TABLE default.T (a INT, b INT, p INT) PARTITIONED BY (p);
INSERT INTO default.T SELECT id % 100, id DIV 100, id % 2 FROM range(10000);
"""
CALLS = [
    "CALL sys.compact('default.T', 'p=0', 'zorder', 'a,b', 'sink.parallelism=4')",
    "CALL paimon.sys.compact('default.T', '', 'order', 'a', '')",
    "CALL sys.compact('default.T', '', 'none', '', '')",
    "CALL sys.compact('default.T', '', '', '', 'sink.parallelism=4')",
    "CALL sys.compact('default.T')",
    "CALL sys.compact('default.T', 'p=0;p=1')",
]
LOOK = """
SELECT 'look', commit_kind, total_record_count FROM default.`T$snapshots` ORDER BY snapshot_id DESC LIMIT 1;
SELECT 'rows', count(*), sum(a * b * (p + 1)) FROM default.T;
"""


def test_every_form(place: Place) -> None:
    done = place.stock("spark-sql", "-e", TABLE + LOOK + "".join(f"{call};" for call in CALLS) + LOOK)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    looks = [line for line in lines if line[0] == "look"]
    assert looks == [["look", "APPEND", "10000"], ["look", "OVERWRITE", "10000"]]
    first, last = (line for line in lines if line[0] == "rows")
    assert first == last
    answers = [line for line in lines if line[0] == "true"]
    assert [line[1] for line in answers] == ["done", "done", *["nothing to do"] * 4]
    assert answers[0][5] == "4"
