"""REPLACE TABLE: the next schema of a table whose definition is replaced and whose history is kept."""

from __future__ import annotations

from dataclasses import replace

from paimon_spark.errors import UnsupportedError
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.stored_files import differing_place
from paimon_spark.spec.types import AtomicType, DataField, not_null, reassign_ids, type_to_json


def replacing_schema(old: TableSchema, new: TableSchema) -> TableSchema:
    """Return `new`, made by `evolution.new_schema`, as the version that follows `old`.

    A column of the same name and type keeps its id, so that earlier snapshots stay readable; all others get ids
    that the table never had.

    Raises:
        UnsupportedError: the partition columns, or an option that determines paths, differ; the files of earlier
            snapshots could not be found.
    """
    before, after = _partitions(old), _partitions(new)
    if before != after:
        raise UnsupportedError(
            "Replacing a table cannot change its partition columns: they are "
            f"{', '.join(before) or 'none'} and would be {', '.join(after) or 'none'}.",
            hint="Drop the table and create it again.",
        )
    place = differing_place(old, new)
    if place is not None:
        raise _other_place(place, *(CoreOptions(s.options).get(place) for s in (old, new)))
    known = {f.name: f for f in old.fields}
    next_id = old.highest_field_id + 1
    fields: list[DataField] = []
    for f in new.fields:
        present = known.get(f.name)
        if present is not None and isinstance(f.type, AtomicType) and not_null(present.type) == not_null(f.type):
            fields.append(replace(f, id=present.id))
            continue
        inner, following = reassign_ids(f.type, next_id + 1)
        fields.append(replace(f, id=next_id, type=inner))
        next_id = following
    return replace(new, id=old.id + 1, fields=tuple(fields), highest_field_id=next_id - 1)


def _other_place(option: str, before: str | None, after: str | None) -> UnsupportedError:
    was, would_be = (f"'{value}'" if value else "not set" for value in (before, after))
    keep = f"Set it to {was} in the statement" if before else "Leave it out"
    return UnsupportedError(
        f"Replacing a table cannot change the option '{option}', by which the files of its snapshots are found: it is "
        f"{was} and would be {would_be}.",
        hint=f"{keep}, or drop the table and create it again.",
    )


def _partitions(schema: TableSchema) -> list[str]:
    return [f"{f.name} {type_to_json(not_null(f.type))}".removesuffix(" NOT NULL") for f in schema.partition_fields]
