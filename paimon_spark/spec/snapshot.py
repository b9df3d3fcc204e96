"""Snapshot JSON (docs/spec/storage.md, section 3)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.bounds import FileName, Id, Long, Millis
from paimon_spark.spec.kinds import CommitKind, Operation
from paimon_spark.spec.stored_json import json_object, keys_of, read_as, texts

SNAPSHOT, TAG = "snapshot", "tag"
"""Kinds of files that hold a snapshot."""
_REMEDIES = {
    SNAPSHOT: "Restore the file from a backup. If it is the latest snapshot, roll back to an earlier snapshot or tag.",
    TAG: "Restore the file from a backup. To give up the tag, delete the file; sys.remove_orphan_files then removes "
    "what only the tag needed.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One immutable state of a table. Its fields are the keys of the file in their order.

    Attributes:
        operation: the statement, an `Operation`; another text if a later release of Paimon may have written it.
        extra: unknown keys of other writers, unchanged.
    """

    version: Long = 3
    uuid: str | None = None
    id: Id
    schema_id: Id
    base_manifest_list: FileName
    base_manifest_list_size: Long | None = None
    delta_manifest_list: FileName
    delta_manifest_list_size: Long | None = None
    changelog_manifest_list: FileName | None = None
    changelog_manifest_list_size: Long | None = None
    index_manifest: FileName | None = None
    commit_user: str
    commit_identifier: Long
    commit_kind: CommitKind
    time_millis: Millis
    total_record_count: Long = 0
    delta_record_count: Long = 0
    changelog_record_count: Long | None = None
    watermark: Long | None = None
    statistics: FileName | None = None
    properties: Mapping[str, str] | None = None
    next_row_id: Long | None = None
    operation: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def is_commit_of(self, other: Snapshot) -> bool:
        """Return whether both are the snapshot of one commit; a fast-forward may give its id to another one."""
        return (self.id, self.delta_manifest_list) == (other.id, other.delta_manifest_list)

    def to_json(self) -> str:
        """Return the file's text; keys without a value are left out."""
        out = {key: getattr(self, name) for key, name in keys_of(Snapshot).items()}
        return json.dumps({k: v for k, v in (out | dict(self.extra)).items() if v is not None}, indent=2)


RETIRED_OPERATIONS: Mapping[str, Operation | None] = {"DROP_PARTITION": Operation.TRUNCATE, "COMPACT": None}
"""Names that releases 0.1 of this project wrote and no release of Paimon reads, with their replacements."""
_OF_TAGS = ("tagCreateTime", "tagTimeRetained")


def parse_snapshot(text: str | bytes, where: str, of: str = SNAPSHOT) -> tuple[Snapshot, Mapping[str, Any]]:
    """Parse a snapshot or tag file; return it with the raw object (tags carry more keys).

    Raises:
        CorruptTableError: not JSON, a required key is missing, or a value has the wrong type.
    """
    try:
        raw = json_object(text)
        known = {k: v for k, v in raw.items() if k not in _OF_TAGS}
        if known.get("properties") is not None:
            known["properties"] = texts(known, "properties")
        operation = known.get("operation")
        if isinstance(operation, str):
            known["operation"] = _operation(operation)
        return read_as(Snapshot, known), raw
    except ValueError as e:
        raise corrupt(where, str(e), of) from e


def _operation(text: str) -> str | None:
    return Operation(text) if text in set(Operation) else RETIRED_OPERATIONS.get(text, text)


def corrupt(where: str, what: str, of: str) -> CorruptTableError:
    """Return the error about a malformed file of a snapshot or tag."""
    return CorruptTableError(f"The {of} file {where} is malformed: {what}.", hint=_REMEDIES[of])
