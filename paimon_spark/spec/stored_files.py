"""Options by which the files of a table are found and read, and what differs between two definitions of a table.

REPLACE TABLE changes them all except `PLACES`, so that the files of earlier snapshots are read by the options of their
own schema.
"""

from __future__ import annotations

from paimon_spark.spec.column_options import is_about_columns
from paimon_spark.spec.option_catalogue import find_option
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.schema import TableSchema

PLACES = (
    "data-file.path-directory",
    "data-file.external-paths",
    "global-index.external-path",
    "index-file-in-data-file-dir",
    "partition.default-name",
    "partition.legacy-name",
)
"""Options that determine the paths of files. Maintenance finds the files of all snapshots by those of the table."""
_ALTERABLE = (
    "bucket",
    "changelog-producer",
    "deletion-vectors.enabled",
    "fields.default-aggregate-function",
    "ignore-delete",
    "num-levels",
    "num-sorted-run.compaction-trigger",
    "sequence.field.sort-order",
)
"""Options that ALTER TABLE may change, although files are read by them; those about columns are found by their name."""
_RULES = (
    "merge-engine",
    "aggregation.remove-record-on-delete",
    "partial-update.remove-record-on-delete",
    "partial-update.remove-record-on-sequence-group",
    "sequence.snapshot-ordering",
    "pk-clustering-override",
    "data-evolution.enabled",
    "bucket-key",
    "bucket-function.type",
)
"""Options by which rows are found and merged, and which no release of Paimon has ever altered once there were files."""


def is_about_files(key: str) -> bool:
    """Return whether stored files are found or read by an option, in addition to those that name columns."""
    option = find_option(key)
    return option is not None and (option.immutable or option.name in (*_ALTERABLE, *PLACES))


def differing_place(one: TableSchema, other: TableSchema) -> str | None:
    """Return the first of `PLACES` that differs between two schemas, if any."""
    return next((k for k in PLACES if _value(one, k) != _value(other, k)), None)


def differing_definition(one: TableSchema, other: TableSchema) -> str | None:
    """Return the first rule by which files are read that differs between two schemas; None if there is none.

    Files of one of the schemas must then not be read by the other. ALTER TABLE leads to no such schemas.
    """
    if _ids(one, one.primary_keys) != _ids(other, other.primary_keys):
        return "primary key"
    return next((f"'{name}'" for name in _RULES if _value(one, name) != _value(other, name)), None)


def _value(schema: TableSchema, name: str) -> object:
    """Return the value of an option for a comparison; columns are compared by their ids, which outlast their names."""
    options, option = CoreOptions(schema.options), find_option(name)
    if is_about_columns(name):
        return _ids(schema, options.names(name))
    text = (options.get(name) or "").strip()
    return text.lower() if option is not None and option.type in ("Boolean", "Enum") else text


def _ids(schema: TableSchema, names: tuple[str, ...]) -> list[object]:
    known = {f.name: f.id for f in schema.fields}
    return [known.get(name, name) for name in names]
