"""OPTIONS hints are rewritten in place to Spark's clause."""

from __future__ import annotations

import pytest

from paimon_spark.errors import PaimonError
from paimon_spark.sqlparse.hints import rewrite_hints

GUIDE = (
    "INSERT INTO paimon_table /*+ OPTIONS('sink.use-managed-memory-allocator'='true', "
    "'sink.managed.writer-buffer-memory'='256M') */\nSELECT * FROM source"
)


def flat(text: str) -> str:
    return " ".join(text.split())


def test_the_example_of_the_guide() -> None:
    out = rewrite_hints(GUIDE)
    assert flat(out) == (
        "INSERT INTO paimon_table WITH ('sink.use-managed-memory-allocator'='true', "
        "'sink.managed.writer-buffer-memory'='256M') SELECT * FROM source"
    )
    assert len(out) == len(GUIDE)
    assert out.index("SELECT") == GUIDE.index("SELECT")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT * FROM t /*+ OPTIONS('a'='1') */ x", "SELECT * FROM t WITH ('a'='1') x"),
        (
            "SELECT * FROM c.d.`my t` /*+options ( 'a' = '1' , 'b'='2') */",
            "SELECT * FROM c.d.`my t` WITH ('a'='1', 'b'='2')",
        ),
        (
            "SELECT * FROM a /*+ OPTIONS('k'='1') */ JOIN b /*+ OPTIONS('k'='2') */ b USING (id), c /*+ OPTIONS('k'='3') */",
            "SELECT * FROM a WITH ('k'='1') JOIN b WITH ('k'='2') b USING (id), c WITH ('k'='3')",
        ),
        (
            "INSERT OVERWRITE t /*+ OPTIONS('k'='1') */ PARTITION (p=1) SELECT 1",
            "INSERT OVERWRITE t WITH ('k'='1') PARTITION (p=1) SELECT 1",
        ),
        (
            "INSERT INTO TABLE t /*+ OPTIONS('k'='1') */ (a) VALUES (1)",
            "INSERT INTO TABLE t WITH ('k'='1') (a) VALUES (1)",
        ),
        (
            "SELECT * FROM t /*+ OPTIONS('a'='1') */ /*+ OPTIONS('a'='2', 'b'='3') */",
            "SELECT * FROM t WITH ('a'='2', 'b'='3')",
        ),
        (
            "SELECT * FROM t /*+ OPTIONS('a'='it''s', 'b'='x,y=z)') */",
            "SELECT * FROM t WITH ('a'='it\\'s', 'b'='x,y=z)')",
        ),
        (
            "SELECT * FROM t /*+ OPTIONS(scan.snapshot-id = 1, `b`=true) */",
            "SELECT * FROM t WITH ('scan.snapshot-id'='1', 'b'='true')",
        ),
        (
            "SELECT * FROM t VERSION AS OF 1 /*+ OPTIONS('a'='1') */ x",
            "SELECT * FROM t VERSION AS OF 1 WITH ('a'='1') x",
        ),
        (
            "SELECT * FROM t TIMESTAMP AS OF TIMESTAMP '2024-01-01' /*+ OPTIONS('a'='1') */ x",
            "SELECT * FROM t TIMESTAMP AS OF TIMESTAMP '2024-01-01' WITH ('a'='1') x",
        ),
        (
            "SELECT * FROM t FOR SYSTEM_TIME AS OF date_sub(now(), 1) /*+ OPTIONS('a'='1') */",
            "SELECT * FROM t FOR SYSTEM_TIME AS OF date_sub(now(), 1) WITH ('a'='1')",
        ),
        (
            "SELECT * FROM t FOR TIMESTAMP AS OF '2024' /*+ OPTIONS('a'='1') */",
            "SELECT * FROM t FOR TIMESTAMP AS OF '2024' WITH ('a'='1')",
        ),
        (
            "SELECT /*+ BROADCAST(t) */ * FROM t /*+ OPTIONS('a'='1') */",
            "SELECT /*+ BROADCAST(t) */ * FROM t WITH ('a'='1')",
        ),
        ("SELECT * FROM (SELECT * FROM t /*+ OPTIONS('a'='1') */)", "SELECT * FROM (SELECT * FROM t WITH ('a'='1') )"),
    ],
)
def test_rewritten(text: str, wanted: str) -> None:
    assert flat(rewrite_hints(text)) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "SELECT '/*+ OPTIONS(1) */' FROM t",
        "SELECT 1 -- /*+ OPTIONS('a'='1') */",
        "SELECT /*+ BROADCAST(t) */ * FROM t",
        "SELECT * FROM t /* OPTIONS('a'='1') */",
        "",
    ],
)
def test_left_alone(text: str) -> None:
    assert rewrite_hints(text) == text


def test_lines_stay_lines() -> None:
    text = "SELECT *\nFROM t /*+ OPTIONS(\n  'a' = '1',\n  'b' = '2'\n) */\nWHERE x"
    assert rewrite_hints(text).count("\n") == text.count("\n")
    assert rewrite_hints(text).splitlines()[-1] == "WHERE x"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("SELECT /*+ OPTIONS('a'='1') */ * FROM t", "follow the name of a table"),
        ("SELECT * FROM t x /*+ OPTIONS('a'='1') */", "before its alias; 'x' is not one"),
        ("SELECT * FROM t AS x /*+ OPTIONS('a'='1') */", "before its alias"),
        ("SELECT * FROM t /*+ OPTIONS('a') */", "malformed"),
        ("SELECT * FROM t /*+ OPTIONS('a'='1' 'b'='2') */", "malformed"),
        ("SELECT * FROM t /*+ OPTIONS('a'='1', BROADCAST(t)) */", "malformed"),
        ("SELECT * FROM t /*+ OPTIONS() */", "malformed"),
        ("SELECT * FROM t /*+ OPTIONS */", "malformed"),
        ("SELECT * FROM t /*+ OPTIONS('a'='1'", "malformed"),
        ("SELECT * FROM t /*+ OPTIONS('a'='1') */ VERSION AS OF 1", "must follow VERSION AS OF"),
        ("SELECT * FROM t VERSION AS OF 1 x /*+ OPTIONS('a'='1') */", "directly follow the name"),
        ("SELECT * FROM f(1) JOIN (a) /*+ OPTIONS('a'='1') */", "must follow the name of a table"),
        ("DELETE FROM t /*+ OPTIONS('a'='1') */ WHERE k = 1", "SET 'paimon."),
        ("UPDATE t /*+ OPTIONS('a'='1') */ SET a = 1", "SET 'paimon."),
        ("MERGE INTO t /*+ OPTIONS('a'='1') */ USING s ON 1=1", "SET 'paimon."),
        ("MERGE INTO t USING s /*+ OPTIONS('a'='1') */ ON 1=1", "USING (SELECT"),
    ],
)
def test_malformed_and_misplaced_hints_are_errors(text: str, part: str) -> None:
    with pytest.raises(PaimonError) as e:
        rewrite_hints(text)
    assert part in str(e.value)
