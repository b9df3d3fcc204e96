"""Repair of snapshot and tag files that Paimon cannot read because of a retired operation name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from paimon_spark.core.maintenance.deletion import WRITE, Action
from paimon_spark.core.metadata.refs import ProtectingRef, RefKind, protecting_refs, ref_path
from paimon_spark.core.metadata_io import read_if_there, translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.errors import ConflictError
from paimon_spark.spec.kinds import Operation
from paimon_spark.spec.snapshot import RETIRED_OPERATIONS
from paimon_spark.spec.stored_json import json_object

_KEY = "operation"


@dataclass(frozen=True, slots=True)
class Repair:
    """One file to rewrite: its content when planned, and its new content."""

    holder: ProtectingRef
    path: str
    before: bytes
    after: bytes
    reason: str

    @property
    def action(self) -> Action:
        """Return the rewrite as a row of EXPLAIN CALL."""
        return Action(WRITE, self.path, len(self.after), f"{self.holder.label}: {self.reason}")


def plan_repair(table: Table) -> tuple[Repair, ...]:
    """Return the snapshot, tag and changelog files of all branches that contain a retired operation name.

    Unknown names are kept: a later Paimon release may have written them.

    Raises:
        CorruptTableError: a file is damaged.
    """
    return tuple(r for holder in protecting_refs(table) for r in _repairs(table, holder))


def _repairs(table: Table, holder: ProtectingRef) -> Iterator[Repair]:
    path = ref_path(table, holder)
    data = read_if_there(table.file_io, path)
    raw = {} if data is None else json_object(data)
    name = raw.get(_KEY)
    if data is None or not isinstance(name, str) or name not in RETIRED_OPERATIONS:
        return
    instead = RETIRED_OPERATIONS[name]
    what = f"the operation '{name}' is removed" if instead is None else f"the operation '{name}' becomes '{instead}'"
    yield Repair(holder, path, data, _repaired(raw, instead), what)


def _repaired(raw: Mapping[str, Any], operation: Operation | None) -> bytes:
    kept = {k: v for k, v in raw.items() if k != _KEY or operation is not None}
    return json.dumps(kept | ({} if operation is None else {_KEY: str(operation)}), indent=2).encode()


@translate_io_errors()
def execute_repair(table: Table, repairs: tuple[Repair, ...]) -> int:
    """Rewrite the planned files; return their number. A file that no longer exists is skipped.

    Raises:
        ConflictError: a file has changed since planning; files before it are repaired.
    """
    done = 0
    for repair in repairs:
        now = read_if_there(table.file_io, repair.path)
        if now is None:
            continue
        if now != repair.before:
            raise ConflictError(
                f"{repair.path} changed while the repair was being planned.",
                hint="Stop other writers of the table, then call it again.",
            )
        whole = _has_lists(table, repair)
        table.file_io.write(repair.path, repair.after)
        if whole and repair.holder.kind is RefKind.SNAPSHOT and not _has_lists(table, repair):
            table.file_io.delete(repair.path)  # expired: manifest lists are deleted before the snapshot
            continue
        done += 1
    return done


def _has_lists(table: Table, repair: Repair) -> bool:
    s = repair.holder.snapshot
    return all(table.file_io.exists(table.paths.manifest(n)) for n in (s.delta_manifest_list, s.base_manifest_list))
