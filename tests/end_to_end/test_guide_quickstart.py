"""The quick start of Paimon's Flink guide through the stock spark-sql program."""

from __future__ import annotations

import pytest

from tests.end_to_end.programs import ROOT, Place

PRINTED = """
SET 'execution.runtime-mode' = 'batch';
CREATE TEMPORARY TABLE p (a INT, b STRING) WITH ('connector' = 'print', 'print-identifier' = 'me');
INSERT INTO p VALUES (1, 'x'), (2, NULL);
"""


@pytest.mark.slow
def test_the_guides_quick_start(place: Place) -> None:
    text = (ROOT / "sql/guide/quickstart.sql").read_text(encoding="utf-8")
    script = place.directory / "quickstart.sql"
    script.write_text(text.replace("file:/tmp/paimon", f"file:{place.directory}/guide") + PRINTED)
    lines = place.stock("spark-sql", "-f", script).stdout.splitlines()
    counts = [line.split("\t") for line in lines if len(line.split("\t")) == 2 and line[0] in "0123456789abcdef"]
    assert {word for word, count in counts if count.isdecimal()} == set("0123456789abcdef")
    changes = [line.split("\t") for line in lines if line.startswith(("+I", "-U", "+U", "-D"))]
    assert changes
    assert sum(int(c[2]) * (1 if c[0] in ("+I", "+U") else -1) for c in changes) == 16  # each word is in one interval
    assert any("insert-into_my_catalog.default.word_count" in line for line in lines)
    assert not list((place.directory / "guide/default.db").glob("word_count"))
    assert {"me> +I[1, x]", "me> +I[2, null]"} <= set(lines)
