"""The layout of a table: what the files of its rows depend on.

ALTER TABLE does not change it once the table has rows; REPLACE TABLE does, and replaces the rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from paimon_spark.spec.column_options import rename_in_options
from paimon_spark.spec.option_catalogue import known_options
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.schema import TableSchema

_KEYS = ("primary-key", "partition", "bucket-key")
"""Options whose columns are compared by their ids."""
_BUCKET = "bucket"


def layout_change(old: TableSchema, new: TableSchema) -> str | None:
    """Return how the layout of `new` differs from that of `old`, for a message, or None if rows of `old` fit `new`.

    The layout is the keys, the way rows get to buckets, and the options that are fixed once a table has rows. A renamed
    column is the same column. The number of fixed buckets may change: every file names that of its partition. New
    columns do not change the layout if they accept nulls.
    """
    for what, was, key in (
        ("primary key is", old.primary_keys, new.primary_keys),
        ("partition columns are", old.partition_keys, new.partition_keys),
        ("bucket key is", _bucket_key(old), _bucket_key(new)),
    ):
        if _ids(old, was) != _ids(new, key):
            return f"its {what} {_listed(key)} instead of {_listed(was)}"
    before, after = CoreOptions(_renamed(old, new)), CoreOptions(new.options)
    fixed = [name for name, option in known_options().items() if option.immutable and name not in _KEYS]
    changed = [name for name in fixed if before.get(name) != after.get(name)]
    if _bucketing(before) != _bucketing(after):
        changed.insert(0, _BUCKET)
    if changed:
        return _text(changed[0], before.get(changed[0]), after.get(changed[0]))
    known = {f.id for f in old.fields}
    required = [f.name for f in new.fields if f.id not in known and not f.type.nullable]
    return f"its column '{required[0]}' is new and NOT NULL" if required else None


def _ids(schema: TableSchema, names: Sequence[str]) -> list[int]:
    return [schema.field(name).id for name in names]


def _bucket_key(schema: TableSchema) -> tuple[str, ...]:
    return CoreOptions(schema.options).bucket_key or schema.trimmed_primary_keys


def _listed(names: Sequence[str]) -> str:
    return f"({', '.join(names)})" if names else "none"


def _text(key: str, before: str | None, after: str | None) -> str:
    told = ["not set" if value is None else f"'{value}'" for value in (after, before)]
    return f"its option '{key}' is {told[0]} instead of {told[1]}"


def _bucketing(options: CoreOptions) -> int:
    """Return the value of `bucket`, or 1 for any number of fixed buckets."""
    return min(options.bucket, 1)


def _renamed(old: TableSchema, new: TableSchema) -> dict[str, str]:
    """Return the options of `old` with the names that its columns have in `new`."""
    names = {f.id: f.name for f in new.fields}
    moved = [f for f in old.fields if names.get(f.id, f.name) != f.name]
    options = dict(old.options)
    for f in moved:  # in two steps, because columns may have exchanged their names
        options = rename_in_options(options, (f.name,), _between(f.id))
    for f in moved:
        options = rename_in_options(options, (_between(f.id),), names[f.id])
    return options


def _between(field_id: int) -> str:
    return f"\0{field_id}"
