"""COPY INTO, as parsed."""

from __future__ import annotations

import pytest

from paimon_spark.errors import PaimonError
from paimon_spark.sqlparse.copy_into import (
    CopyFrom,
    CopyTo,
    FileFormat,
    OnError,
    is_copy_statement,
    parse_copy_statement,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("COPY INTO t FROM '/d' FILE_FORMAT = (TYPE = CSV)", CopyFrom(("t",), "/d", FileFormat("CSV"))),
        (
            "-- load\ncopy into c.db.`a b` (x, `y z`) from '/d' on_error = continue file_format = "
            "(type = csv, multi_line = true, skip_header = 1 null_if = ('', 'NULL'), field_delimiter = '|') pattern = 'a+' force = true;",
            CopyFrom(
                ("c", "db", "a b"),
                "/d",
                FileFormat(
                    "CSV", {"MULTI_LINE": "TRUE", "SKIP_HEADER": "1", "NULL_IF": ("", "NULL"), "FIELD_DELIMITER": "|"}
                ),
                columns=("x", "y z"),
                pattern="a+",
                force=True,
                on_error=OnError.CONTINUE,
            ),
        ),
        (
            "COPY INTO '/d' FROM (SELECT a FROM t WHERE a IN (1, 2)) FILE_FORMAT = (TYPE = JSON) OVERWRITE = TRUE",
            CopyTo("/d", "(SELECT a FROM t WHERE a IN (1, 2))", FileFormat("JSON"), overwrite=True),
        ),
        (
            "COPY INTO '/d' FROM db.`t$files` FILE_FORMAT = (TYPE = PARQUET, COMPRESSION = ZSTD)",
            CopyTo("/d", "db.`t$files`", FileFormat("PARQUET", {"COMPRESSION": "ZSTD"})),
        ),
    ],
)
def test_statements(text: str, expected: CopyFrom | CopyTo) -> None:
    assert is_copy_statement(text)
    assert parse_copy_statement(text) == expected


def test_other_statements_are_left_to_spark() -> None:
    assert not is_copy_statement("SELECT 'copy into t'")
    assert not is_copy_statement("-- copy into t\nSELECT 1")
    assert not is_copy_statement("COPY t")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("COPY INTO t", "at its end: expected FROM"),
        ("COPY INTO t FROM 'd'", "expected FILE_FORMAT"),
        ("COPY INTO t FROM 'd' FILE_FORMAT = (FIELD_DELIMITER = ',')", "has no TYPE"),
        ("COPY INTO t FROM 'd' FILE_FORMAT = (TYPE = ORC)", "TYPE ORC of FILE_FORMAT is unknown. Write TYPE = CSV"),
        ("COPY INTO t FROM 'd' FILE_FORMAT = (TYPE = CSV, HEADER = TRUE)", "no option HEADER for CSV here"),
        ("COPY INTO t FROM 'd' FILE_FORMAT = (TYPE = CSV, TYPE = CSV)", "option TYPE twice"),
        ("COPY INTO t FROM 'd' FILE_FORMAT = (TYPE = CSV) FORCE = MAYBE", "FORCE cannot be MAYBE"),
        ("COPY INTO t FROM 'd' FILE_FORMAT = (TYPE = CSV) OVERWRITE = TRUE", "expected PATTERN, FORCE, ON_ERROR"),
        ("COPY INTO t FROM 'd' FILE_FORMAT = (TYPE = CSV) ON_ERROR = SKIP_FILE_3", "Write one of ABORT_STATEMENT"),
        ("COPY INTO 'd' FROM 'e' FILE_FORMAT = (TYPE = CSV)", "expected a table, or a query in parentheses"),
    ],
)
def test_errors_name_what_is_wrong_and_the_choices(text: str, part: str) -> None:
    assert is_copy_statement(text)
    with pytest.raises(PaimonError) as caught:
        parse_copy_statement(text)
    assert part in str(caught.value)
