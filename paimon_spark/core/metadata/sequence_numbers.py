"""The highest sequence number of a table, in the properties of snapshots (`write.sequence-number-init-mode`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.table import Table
from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.kinds import BucketMode, FileKind
from paimon_spark.spec.manifest import ManifestEntry
from paimon_spark.spec.snapshot import Snapshot

MAX_SEQUENCE = "sequence.generation.max-sequence-number"
NONE = -1


def recorded_max_sequence(snapshot: Snapshot | None) -> int | None:
    """Return the highest sequence number that a snapshot records, if it does.

    Raises:
        CorruptTableError: the property is not a number.
    """
    text = (snapshot.properties or {}).get(MAX_SEQUENCE) if snapshot is not None else None
    try:
        return None if text is None else int(text)
    except ValueError as e:
        raise CorruptTableError(
            f"The property '{MAX_SEQUENCE}' of a snapshot is {text!r}, which is no number.",
            hint="Roll the table back to a snapshot before this one.",
        ) from e


def starting_max_sequence(table: Table, snapshot: Snapshot | None) -> int:
    """Return the sequence number that new writers continue in every bucket at least; -1 for none."""
    recorded = recorded_max_sequence(snapshot) if table.options.starts_sequences_from_snapshot else None
    return NONE if recorded is None else recorded


def needs_files(table: Table, snapshot: Snapshot | None) -> bool:
    """Return whether writers find their first sequence numbers in files, and not only in the snapshot.

    Without them, writers do not notice that the number of buckets of a partition differs: their commit does.
    """
    fixed = table.is_primary_key_table and table.bucket_mode in (BucketMode.HASH_FIXED, BucketMode.HASH_DYNAMIC)
    if not (fixed and table.options.write_only and table.options.starts_sequences_from_snapshot):
        return True
    return snapshot is not None and recorded_max_sequence(snapshot) is None


def properties_with_max_sequence(
    store: ManifestStore, base: Snapshot | None, new: Iterable[ManifestEntry], given: Mapping[str, str] | None
) -> Mapping[str, str] | None:
    """Return the properties of a snapshot with its highest sequence number, if the option of the table asks for it.

    Args:
        store: manifests of the table.
        base: the snapshot before. If it records no number, its manifests are read.
        new: the entries of the snapshot.
        given: the other properties of the snapshot.
    """
    if not store.table.options.starts_sequences_from_snapshot:
        return given
    before = recorded_max_sequence(base)
    if before is None and base is not None:
        before = max((_highest(store.read(m)) for m in store.data_manifests(base)), default=None)
    highest = max(NONE if before is None else before, _highest(new))
    return given if highest == NONE else {**(given or {}), MAX_SEQUENCE: str(highest)}


def _highest(entries: Iterable[ManifestEntry]) -> int:
    return max((e.file.max_sequence_number for e in entries if e.kind is FileKind.ADD), default=NONE)
