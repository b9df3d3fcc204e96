"""Decoding of Avro records to Arrow columns, many blocks at once.

A walk over all blocks in lockstep notes where values begin; those of a column are then converted all at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_spark.format.arrays import I64
from paimon_spark.format.arrow_types import to_arrow_schema, to_arrow_type
from paimon_spark.format.avro.leaves import leaf
from paimon_spark.format.avro.lockstep import in_lockstep
from paimon_spark.format.avro.nested import List, Nullable, Struct
from paimon_spark.format.avro.walk import Content, Node, UnusualError
from paimon_spark.spec.types import ArrayType, DataField, DataType, MapType, MultisetType, RowType, entry_types

_MOST_NODES = 10_000
_TEXT_KEY: dict[str, Any] = {"name": "key", "type": "string"}


def decode_blocks(
    blocks: Sequence[tuple[int, bytes]],
    schema: Mapping[str, Any],
    named: Mapping[str, Any],
    fields: Sequence[DataField],
) -> pa.RecordBatch | None:
    """Return the rows of some blocks in file order.

    Args:
        blocks: the number of records of each block, and its bytes.
        schema: the record type of the file.
        named: the types that the schema defines, by name without namespace.
        fields: the columns to read; those that the file does not have are null.

    Returns:
        the rows, or None if they have to be decoded one by one.

    Raises:
        ValueError: the blocks are malformed.
        pa.ArrowException: a value is not one of its column's type.
    """
    content, counts = Content(), np.array([count for count, _ in blocks], np.int64)

    def walk(at: I64, begins: I64, ends: I64, rows: I64) -> I64:
        del begins
        content.step(len(at))
        return record.walk(at, rows, ends)

    try:
        types = _Schema(content, named)
        record = types.record(schema, fields)
        content.fill([data for _, data in blocks])
        in_lockstep(counts, np.array([len(data) for _, data in blocks], np.int64), walk)
        types.check()
        rows, target = int(counts.sum()), to_arrow_schema(fields)
        return pa.RecordBatch.from_arrays(record.arrays(None, rows, list(target)), schema=target)
    except UnusualError:
        return None
    except IndexError as e:
        raise ValueError("a value extends beyond its block") from e


class _Schema:
    """Translates a schema to nodes."""

    def __init__(self, content: Content, named: Mapping[str, Any]) -> None:
        self._content = content
        self._named = named
        self._unions: list[Nullable] = []
        self._nodes = 0

    def check(self) -> None:
        """Raise ValueError if a union has an unknown branch."""
        for union in self._unions:
            union.check()

    def record(
        self, schema: Mapping[str, Any], fields: Sequence[DataField] = (), target: pa.StructType | None = None
    ) -> Struct:
        """Return the node of a record.

        Args:
            schema: its schema.
            fields: those that are read.
            target: the type of the record as a value; None for a row, and for a record that is not read.
        """
        wanted = {f.name: f.type for f in fields}
        members = {m["name"]: self._node(m["type"], wanted.get(m["name"])) for m in schema["fields"]}
        return Struct(list(members.values()), [members.get(name) for name in wanted], target)

    def _node(self, schema: Any, wanted: DataType | None) -> Node:
        self._nodes += 1
        if self._nodes > _MOST_NODES:  # a named type has nodes for each of its uses
            raise UnusualError
        if isinstance(schema, list):
            return self._union(schema, wanted)
        if isinstance(schema, str):
            found = self._named.get(schema.rpartition(".")[2])
            return leaf(schema, {}, wanted, self._content) if found is None else self._node(found, wanted)
        kind = schema["type"]
        if kind == "record":
            return self._row(schema, wanted)
        if kind == "array":
            return self._list(schema["items"], wanted)
        if kind == "map":
            entry = {"type": "record", "fields": [_TEXT_KEY, {"name": "value", "type": schema["values"]}]}
            return self._list(entry, wanted)
        if isinstance(kind, str) and kind not in self._named:
            return leaf(kind, schema, wanted, self._content)
        return self._node(kind, wanted)

    def _union(self, schema: Sequence[Any], wanted: DataType | None) -> Node:
        others = [(n, s) for n, s in enumerate(schema) if s != "null"]
        if len(schema) != 2 or len(others) != 1:
            raise UnusualError
        (number, other), *_ = others
        found = Nullable(self._content, 2 * number, self._node(other, wanted))
        self._unions.append(found)
        return found

    def _row(self, schema: Mapping[str, Any], wanted: DataType | None) -> Node:
        if wanted is None:
            return self.record(schema)
        if not isinstance(wanted, RowType):
            raise UnusualError
        return self.record(schema, wanted.fields, to_arrow_type(wanted))

    def _list(self, items: Any, wanted: DataType | None) -> Node:
        """Return the node of an array, or of a map whose entries are such a record."""
        if wanted is None:
            return List(self._content, self._node(items, None), None)
        if isinstance(wanted, ArrayType):
            child = self._node(items, wanted.element)
        elif isinstance(wanted, MapType | MultisetType):
            key, value = entry_types(wanted)
            child = self._node(items, RowType((DataField(0, "key", key), DataField(1, "value", value))))
            if not isinstance(child, Struct):
                raise UnusualError
        else:
            raise UnusualError
        return List(self._content, child, to_arrow_type(wanted))
