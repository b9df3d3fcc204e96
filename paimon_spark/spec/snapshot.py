"""Snapshot JSON (docs/spec/storage.md, section 3)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.identifier import is_one_name
from paimon_spark.spec.kinds import CommitKind, Operation
from paimon_spark.spec.stored_json import ID, LONG, MILLIS, json_object, text_or_none, texts, whole, wrong_type

NO_WATERMARK = -9223372036854775808


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One immutable state of a table.

    Attributes:
        operation: what the statement was; text where a later release of Paimon may have written it.
        extra: keys of other writers as they were read.
    """

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: CommitKind
    time_millis: int
    total_record_count: int
    delta_record_count: int
    version: int = 3
    uuid: str | None = None
    base_manifest_list_size: int | None = None
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    index_manifest: str | None = None
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: Mapping[str, str] | None = None
    next_row_id: int | None = None
    operation: Operation | str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the file's text; keys without a value are left out."""
        out = {key: getattr(self, name) for key, name in _KEYS.items()}
        return json.dumps({k: v for k, v in (out | dict(self.extra)).items() if v is not None}, indent=2)


_KEYS = {
    "version": "version",
    "uuid": "uuid",
    "id": "id",
    "schemaId": "schema_id",
    "baseManifestList": "base_manifest_list",
    "baseManifestListSize": "base_manifest_list_size",
    "deltaManifestList": "delta_manifest_list",
    "deltaManifestListSize": "delta_manifest_list_size",
    "changelogManifestList": "changelog_manifest_list",
    "changelogManifestListSize": "changelog_manifest_list_size",
    "indexManifest": "index_manifest",
    "commitUser": "commit_user",
    "commitIdentifier": "commit_identifier",
    "commitKind": "commit_kind",
    "timeMillis": "time_millis",
    "totalRecordCount": "total_record_count",
    "deltaRecordCount": "delta_record_count",
    "changelogRecordCount": "changelog_record_count",
    "watermark": "watermark",
    "statistics": "statistics",
    "properties": "properties",
    "nextRowId": "next_row_id",
    "operation": "operation",
}
RETIRED_OPERATIONS: Mapping[str, Operation | None] = {"DROP_PARTITION": Operation.TRUNCATE, "COMPACT": None}
"""Names that releases 0.1 of this project wrote and no release of Paimon reads, with what replaces them."""
_FILES = {"baseManifestList", "deltaManifestList", "changelogManifestList", "indexManifest", "statistics"}
"""Keys that hold the name of a file, which is never a path."""
_NUMBERS = {
    k
    for k, n in _KEYS.items()
    if k.endswith(("Count", "Size"))
    or n in {"version", "id", "schema_id", "commit_identifier", "time_millis", "watermark", "next_row_id"}
}
_BOUNDS = {"id": ID, "schemaId": ID, "timeMillis": MILLIS}
_REQUIRED = (
    "id",
    "schemaId",
    "baseManifestList",
    "deltaManifestList",
    "commitUser",
    "commitIdentifier",
    "commitKind",
    "timeMillis",
)


def parse_snapshot(text: str | bytes, where: str) -> tuple[Snapshot, Mapping[str, Any]]:
    """Parse a snapshot or tag file; return it with the raw object (tags carry more keys).

    Raises:
        CorruptTableError: not JSON, a required key is missing, or a value has the wrong type.
    """
    try:
        raw = json_object(text)
        for key in _REQUIRED:
            if raw.get(key) is None:
                raise ValueError(f"the key '{key}' is missing")
        values = {name: _value(raw, key) for key, name in _KEYS.items() if raw.get(key) is not None}
    except ValueError as e:
        raise _corrupt(where, str(e)) from e
    known = set(_KEYS) | {"tagCreateTime", "tagTimeRetained"}
    defaults = {"total_record_count": 0, "delta_record_count": 0}
    return Snapshot(
        **(defaults | values), extra={k: v for k, v in raw.items() if k not in known and v is not None}
    ), raw


def _value(raw: Mapping[str, Any], key: str) -> Any:
    if key in _NUMBERS:
        return whole(raw, key, _BOUNDS.get(key, LONG))
    if key == "properties":
        return texts(raw, key)
    text = text_or_none(raw, key)
    if key == "operation" and text is not None:
        return Operation(text) if text in set(Operation) else RETIRED_OPERATIONS.get(text, text)
    if key in _FILES and (not text or not is_one_name(text)):
        raise wrong_type(key, text)
    if key != "commitKind":
        return text
    if text not in set(CommitKind):
        raise ValueError(f"the commit kind {text!r} is unknown")
    return CommitKind(text)


def _corrupt(where: str, what: str) -> CorruptTableError:
    return CorruptTableError(
        f"The snapshot file {where} is malformed: {what}.",
        hint="Restore the file, or roll back to an earlier snapshot or tag.",
    )
