"""Drive pypaimon from a script; runs in an environment of its own, since pypaimon pins an old pyarrow.

    python pypaimon_peer.py WAREHOUSE < script

Each script line is one JSON object {"do": "read" | "write", "table": "db.t", ...}, each answer one JSON line:
`read` gives {"rows": [[...]...]}, `write` takes "rows" (lists in column order) and appends or upserts them.
"""

from __future__ import annotations

import datetime
import decimal
import json
import sys
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory
from pypaimon.schema.data_types import PyarrowFieldParser


def plain(value: Any) -> Any:
    """Return `value` as JSON holds it."""
    if isinstance(value, datetime.date | datetime.datetime):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    return value


def typed(value: Any, kind: pa.DataType) -> Any:
    """Return the Python value of type `kind` that a JSON value stands for."""
    if value is None:
        return None
    if pa.types.is_decimal(kind):
        return decimal.Decimal(value)
    if pa.types.is_timestamp(kind):
        return datetime.datetime.fromisoformat(value)
    if pa.types.is_date(kind):
        return datetime.date.fromisoformat(value)
    if pa.types.is_binary(kind):
        return bytes.fromhex(value)
    return value


def read(table: Any) -> list[list[Any]]:
    """Return all rows of the latest snapshot."""
    builder = table.new_read_builder()
    splits = builder.new_scan().plan().splits()
    data = builder.new_read().to_arrow(splits)
    columns = [column.to_pylist() for column in data.columns]
    return [[plain(v) for v in row] for row in zip(*columns, strict=True)]


def write(table: Any, rows: list[list[Any]]) -> None:
    """Write `rows` in one commit."""
    schema = PyarrowFieldParser.from_paimon_schema(table.table_schema.fields)
    arrays = [pa.array([typed(row[i], f.type) for row in rows], f.type) for i, f in enumerate(schema)]
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(pa.Table.from_arrays(arrays, schema=schema))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


def main() -> None:
    """Answer the script on stdin."""
    catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
    for line in sys.stdin:
        step = json.loads(line)
        answer: dict[str, Any] = {}
        try:
            table = catalog.get_table(step["table"])
            if step["do"] == "read":
                answer["rows"] = read(table)
            else:
                write(table, step["rows"])
        except Exception as e:  # noqa: BLE001 - the caller decides what a failure means
            answer["error"] = f"{type(e).__name__}: {e}"
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
