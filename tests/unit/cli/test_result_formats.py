"""Forms of results on the command line."""

from __future__ import annotations

import csv

from paimon_spark.cli.result_formats import Answer, printed


def test_csv_tells_empty_text_from_null() -> None:
    rows = [(None, ""), ("a,b", 'say "x"'), ("two\nlines", True), (1, 2.5)]
    lines = printed(Answer((("a", "string"), ("b c", "string")), rows), "csv")
    assert lines == ["a,b c", ',""', '"a,b","say ""x"""', '"two\nlines",true', "1,2.5"]
    assert list(csv.reader("\n".join(lines).splitlines(keepends=True)))[3] == ["two\nlines", "true"]
