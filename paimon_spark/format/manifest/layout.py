"""Avro schemas of the three metadata files (docs/spec/storage.md, sections 4-7, appendix A).

Names and field order are those of Java Paimon. Every optional field is the union ``["null", T]`` in this order:
Java refuses the other one.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

LARGEST_INT = (1 << 31) - 1
"""Avro's ints have no more than 32 bits, which its reader does not look at."""
MANIFEST_VERSION = 2
INDEX_MANIFEST_VERSION = 1


def _optional(avro_type: Any) -> list[Any]:
    return ["null", avro_type]


def _array(items: Any) -> Json:
    return {"type": "array", "items": items}


def record(name: str, fields: dict[str, Any]) -> Json:
    """Return a record schema; a field whose type is a union gets the default null."""
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": n, "type": t, "default": None} if isinstance(t, list) else {"name": n, "type": t}
            for n, t in fields.items()
        ],
    }


def _stats(name: str) -> Json:
    return record(
        name, {"_MIN_VALUES": "bytes", "_MAX_VALUES": "bytes", "_NULL_COUNTS": _optional(_array(["null", "long"]))}
    )


FILE_FIELDS: dict[str, Any] = {
    "_FILE_NAME": "string",
    "_FILE_SIZE": "long",
    "_ROW_COUNT": "long",
    "_MIN_KEY": "bytes",
    "_MAX_KEY": "bytes",
    "_KEY_STATS": _stats("record__FILE__KEY_STATS"),
    "_VALUE_STATS": _stats("record__FILE__VALUE_STATS"),
    "_MIN_SEQUENCE_NUMBER": "long",
    "_MAX_SEQUENCE_NUMBER": "long",
    "_SCHEMA_ID": "long",
    "_LEVEL": "int",
    "_EXTRA_FILES": _array("string"),
    "_CREATION_TIME": _optional({"type": "long", "logicalType": "timestamp-millis"}),
    "_DELETE_ROW_COUNT": _optional("long"),
    "_EMBEDDED_FILE_INDEX": _optional("bytes"),
    "_FILE_SOURCE": _optional("int"),
    "_VALUE_STATS_COLS": _optional(_array("string")),
    "_EXTERNAL_PATH": _optional("string"),
    "_FIRST_ROW_ID": _optional("long"),
    "_WRITE_COLS": _optional(_array("string")),
}

ENTRY_FIELDS: dict[str, Any] = {
    "_VERSION": "int",
    "_KIND": "int",
    "_PARTITION": "bytes",
    "_BUCKET": "int",
    "_TOTAL_BUCKETS": "int",
    "_FILE": record("record__FILE", FILE_FIELDS),
}

LIST_FIELDS: dict[str, Any] = {
    "_VERSION": "int",
    "_FILE_NAME": "string",
    "_FILE_SIZE": "long",
    "_NUM_ADDED_FILES": "long",
    "_NUM_DELETED_FILES": "long",
    "_PARTITION_STATS": _stats("record__PARTITION_STATS"),
    "_SCHEMA_ID": "long",
    "_MIN_BUCKET": _optional("int"),
    "_MAX_BUCKET": _optional("int"),
    "_MIN_LEVEL": _optional("int"),
    "_MAX_LEVEL": _optional("int"),
    "_MIN_ROW_ID": _optional("long"),
    "_MAX_ROW_ID": _optional("long"),
}

INDEX_FIELDS: dict[str, Any] = {
    "_VERSION": "int",
    "_KIND": "int",
    "_PARTITION": "bytes",
    "_BUCKET": "int",
    "_INDEX_TYPE": "string",
    "_FILE_NAME": "string",
    "_FILE_SIZE": "long",
    "_ROW_COUNT": "long",
    "_DELETIONS_VECTORS_RANGES": _optional(
        _array(
            _optional(
                record(
                    "record__DELETIONS_VECTORS_RANGES",
                    {"f0": "string", "f1": "int", "f2": "int", "_CARDINALITY": _optional("long")},
                )
            )
        )
    ),
    "_EXTERNAL_PATH": _optional("string"),
    "_GLOBAL_INDEX": _optional(
        record(
            "record__GLOBAL_INDEX",
            {
                "_ROW_RANGE_START": "long",
                "_ROW_RANGE_END": "long",
                "_INDEX_FIELD_ID": "int",
                "_EXTRA_FIELD_IDS": _optional(_array("int")),
                "_INDEX_META": _optional("bytes"),
                "_SOURCE_META": _optional("bytes"),
            },
        )
    ),
}


def top_record(fields: dict[str, Any]) -> Json:
    """Return the schema of a whole file: the outermost record, which alone carries the namespace."""
    return record("record", fields) | {"namespace": "org.apache.paimon.avro.generated"}


def conforms(found: Any, wanted: Any, named: Json) -> bool:
    """Return whether values of the type `found`, as a file has it, are what is wanted, or null.

    Records are compared by the columns that both have; ``int`` does for ``long``. `named` has the types that the file
    defines.
    """
    found, wanted = _bare(found, named), _bare(wanted, {})
    if isinstance(wanted, str):
        return bool(found == wanted) or (found == "int" and wanted == "long")
    if not isinstance(found, dict):
        return bool(found == wanted["type"])
    if wanted["type"] == "record":
        types = {f["name"]: f["type"] for f in wanted["fields"]}
        return found.get("type") == "record" and all(
            conforms(f["type"], types[f["name"]], named) for f in found["fields"] if f.get("name") in types
        )
    if wanted["type"] == "array":
        return found.get("type") == "array" and conforms(found.get("items"), wanted["items"], named)
    return bool(found.get("type") == wanted["type"]) and found.get("logicalType") in (None, wanted.get("logicalType"))


def _bare(avro_type: Any, named: Json) -> Any:
    """Return a type without the choice of null, defined where it stands, and as a word where that says it all."""
    if isinstance(avro_type, list):
        rest = [t for t in avro_type if t != "null"]
        avro_type = rest[0] if len(rest) == 1 else avro_type
    if isinstance(avro_type, dict) and isinstance(avro_type.get("type"), str) and "logicalType" not in avro_type:
        plain = avro_type["type"] not in ("record", "array", "map", "enum", "fixed")
        return avro_type["type"] if plain else avro_type
    return named.get(avro_type.rpartition(".")[2], avro_type) if isinstance(avro_type, str) else avro_type
