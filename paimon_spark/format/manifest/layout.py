"""Avro schemas of the three metadata files (docs/spec/storage.md, sections 4-7, appendix A).

Names and field order are those of Java Paimon. Every optional field is the union ``["null", T]`` in this order:
Java refuses the other one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from paimon_spark.spec.kinds import FileKind
from paimon_spark.spec.paths import POSTPONE_BUCKET

Json = dict[str, Any]

LARGEST_INT = (1 << 31) - 1
"""The range of Avro's ints, which its reader does not check."""
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


class Kind(Enum):
    """The encoding of a field in the bytes of an entry."""

    INT = auto()
    LONG = auto()
    BYTES = auto()
    STRING = auto()
    STRINGS = auto()
    STATS = auto()
    OPTIONAL_SOURCE = auto()
    OPTIONAL_LONG = auto()
    OPTIONAL_MILLIS = auto()
    OPTIONAL_BYTES = auto()
    OPTIONAL_STRING = auto()
    OPTIONAL_STRINGS = auto()


_AVRO: dict[Kind, Any] = {
    Kind.INT: "int",
    Kind.LONG: "long",
    Kind.BYTES: "bytes",
    Kind.STRING: "string",
    Kind.STRINGS: _array("string"),
    Kind.OPTIONAL_SOURCE: _optional("int"),
    Kind.OPTIONAL_LONG: _optional("long"),
    Kind.OPTIONAL_MILLIS: _optional({"type": "long", "logicalType": "timestamp-millis"}),
    Kind.OPTIONAL_BYTES: _optional("bytes"),
    Kind.OPTIONAL_STRING: _optional("string"),
    Kind.OPTIONAL_STRINGS: _optional(_array("string")),
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of an entry or of the data file in it.

    Attributes:
        name: its name in the file.
        attribute: its name in `ManifestEntry` or `DataFileMeta`.
        kind: the encoding of its value.
        least: the least valid value.
        most: the greatest valid value.
        names_files: whether its texts are names of files, which are never paths.
    """

    name: str
    attribute: str
    kind: Kind
    least: int | None = None
    most: int | None = None
    names_files: bool = False

    @property
    def avro(self) -> Any:
        """Return its Avro type."""
        return _stats(f"record__FILE_{self.name}") if self.kind is Kind.STATS else _AVRO[self.kind]


HEAD_LAYOUT = (
    Field("_VERSION", "version", Kind.INT, MANIFEST_VERSION, MANIFEST_VERSION),
    Field("_KIND", "kind", Kind.INT, min(FileKind), max(FileKind)),
    Field("_PARTITION", "partition", Kind.BYTES),
    Field("_BUCKET", "bucket", Kind.INT, POSTPONE_BUCKET, LARGEST_INT),
    Field("_TOTAL_BUCKETS", "total_buckets", Kind.INT, -LARGEST_INT, LARGEST_INT),
)
"""The fields of an entry before its data file, in the order of the bytes."""

FILE_LAYOUT = (
    Field("_FILE_NAME", "file_name", Kind.STRING, names_files=True),
    Field("_FILE_SIZE", "file_size", Kind.LONG, 0),
    Field("_ROW_COUNT", "row_count", Kind.LONG, 0),
    Field("_MIN_KEY", "min_key", Kind.BYTES),
    Field("_MAX_KEY", "max_key", Kind.BYTES),
    Field("_KEY_STATS", "key_stats", Kind.STATS),
    Field("_VALUE_STATS", "value_stats", Kind.STATS),
    Field("_MIN_SEQUENCE_NUMBER", "min_sequence_number", Kind.LONG),
    Field("_MAX_SEQUENCE_NUMBER", "max_sequence_number", Kind.LONG),
    Field("_SCHEMA_ID", "schema_id", Kind.LONG, 0),
    Field("_LEVEL", "level", Kind.INT, 0, LARGEST_INT),
    Field("_EXTRA_FILES", "extra_files", Kind.STRINGS, names_files=True),
    Field("_CREATION_TIME", "creation_time", Kind.OPTIONAL_MILLIS, -62_135_596_800_000, 253_402_300_799_999),
    Field("_DELETE_ROW_COUNT", "delete_row_count", Kind.OPTIONAL_LONG, 0),
    Field("_EMBEDDED_FILE_INDEX", "embedded_index", Kind.OPTIONAL_BYTES),
    Field("_FILE_SOURCE", "file_source", Kind.OPTIONAL_SOURCE),
    Field("_VALUE_STATS_COLS", "value_stats_cols", Kind.OPTIONAL_STRINGS),
    Field("_EXTERNAL_PATH", "external_path", Kind.OPTIONAL_STRING),
    Field("_FIRST_ROW_ID", "first_row_id", Kind.OPTIONAL_LONG, 0),
    Field("_WRITE_COLS", "write_cols", Kind.OPTIONAL_STRINGS),
)
"""A data file in the order of the bytes: the schema of the writer, all decoders and the sort of packed files follow it.

The bounds of the creation time are those of the supported years in milliseconds.
"""

FILE_FIELDS: dict[str, Any] = {f.name: f.avro for f in FILE_LAYOUT}
ENTRY_FIELDS: dict[str, Any] = {f.name: f.avro for f in HEAD_LAYOUT} | {"_FILE": record("record__FILE", FILE_FIELDS)}


def tail_layout() -> tuple[Field, ...]:
    """Return the fields after the creation time, of which most files have only deletes and a source."""
    first = next(i for i, f in enumerate(FILE_LAYOUT) if f.name == "_DELETE_ROW_COUNT")
    return FILE_LAYOUT[first:]


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


_OTHER_TYPES = {"_FILE_SOURCE": "string"}
"""Types in files of released writers besides those of the layout: pypaimon 1.3.0 writes a source as text."""


def column_conforms(name: str, found: Any, wanted: Any, named: Json) -> bool:
    """Return whether the values of a column, of the type `found`, can be read as `wanted`; see `conforms`."""
    return conforms(found, wanted, named) or (name in _OTHER_TYPES and _bare(found, named) == _OTHER_TYPES[name])


def conforms(found: Any, wanted: Any, named: Json) -> bool:
    """Return whether values of a file's type `found` are of the type `wanted`, or null.

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
            column_conforms(f["name"], f["type"], types[f["name"]], named)
            for f in found["fields"]
            if f.get("name") in types
        )
    if wanted["type"] == "array":
        return found.get("type") == "array" and conforms(found.get("items"), wanted["items"], named)
    return bool(found.get("type") == wanted["type"]) and found.get("logicalType") in (None, wanted.get("logicalType"))


def _bare(avro_type: Any, named: Json) -> Any:
    """Return a type without the null alternative, with named types resolved, and as a plain name if possible."""
    if isinstance(avro_type, list):
        rest = [t for t in avro_type if t != "null"]
        avro_type = rest[0] if len(rest) == 1 else avro_type
    if isinstance(avro_type, dict) and isinstance(avro_type.get("type"), str) and "logicalType" not in avro_type:
        plain = avro_type["type"] not in ("record", "array", "map", "enum", "fixed")
        return avro_type["type"] if plain else avro_type
    return named.get(avro_type.rpartition(".")[2], avro_type) if isinstance(avro_type, str) else avro_type
