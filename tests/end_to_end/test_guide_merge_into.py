"""The merge_into statements of the guide, as printed, through the stock spark-sql program."""

from __future__ import annotations

import pytest

from tests.end_to_end.programs import Place

pytestmark = pytest.mark.slow

TABLES = """
USE paimon;
CREATE TABLE default.T (id INT, price INT, mark STRING) TBLPROPERTIES ('primary-key' = 'id');
CREATE TABLE default.S (order_id INT, price INT, mark STRING);
INSERT INTO default.T VALUES (1, 5, 'a'), (2, 15, 'b'), (3, 25, 'trivial');
INSERT INTO default.S VALUES (1, 100, 's1'), (9, 900, 's9');
"""
EXAMPLE = "CALL sys.merge_into('default.T', '', '', 'default.S', 'T.id=S.order_id', '', 'price=T.price+20', '', '*');"
FORMS = """
SELECT concat_ws(',', 'after', collect_list(concat_ws(':', id, price, mark))) FROM (SELECT * FROM default.T ORDER BY id);
"""
CALLS = [
    # matched rows are deleted: six values
    "CALL sys.merge_into('default.T','','','default.S','T.id=S.order_id','T.price<30')",
    # matched rows are upserted: seven values, an alias, and a view as the source
    "CALL paimon.sys.merge_into('default.T','TT','CREATE TEMPORARY VIEW SS AS SELECT 2 AS order_id, 5 AS p','SS',"
    "'TT.id = SS.order_id','','price = TT.price * SS.p')",
    # upsert, insert and delete: ten values
    "CALL sys.merge_into('default.T','','','default.S','T.id=S.order_id','T.price > 1000','mark=S.mark',"
    "'order_id < 5','order_id, -1, mark','T.price = 900')",
    # what the source lacks is deleted: thirteen values
    "CALL sys.merge_into('default.T','','','default.S','T.id=S.order_id','','','','','','','','mark=''trivial''')",
]


def test_every_form(place: Place) -> None:
    script = TABLES + EXAMPLE + FORMS + "".join(call + ";" + FORMS for call in CALLS)
    done = place.stock("spark-sql", "-e", script)
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("after")] == [
        "after,1:25:a,2:15:b,3:25:trivial,9:900:s9",
        "after,2:15:b,3:25:trivial,9:900:s9",
        "after,2:75:b,3:25:trivial,9:900:s9",
        "after,1:-1:s1,2:75:b,3:25:trivial",
        "after,1:-1:s1,2:75:b",
    ]
    assert [line.split("\t")[:2] for line in lines if line.startswith("Success")] == [["Success", "done"]] * 5
