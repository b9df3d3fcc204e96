"""The snapshot of a time or watermark, among the snapshots and the tagged snapshots."""

from __future__ import annotations

from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.metadata.time_travel import no_watermark
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.errors import ErrorKind, NotFoundError
from paimon_spark.spec.snapshot import Snapshot


@translate_io_errors()
def first_from_time(table: Table, millis: int) -> Snapshot:
    """Return the first snapshot committed at or after an epoch time; it may have expired if a tag protects it.

    Raises:
        NotFoundError: all snapshots are older, or there is none.
    """
    tagged = [s for s in _tagged(table) if s.time_millis >= millis]
    found = [s for s in (_stored_from(table, millis), *tagged) if s is not None]
    if found:
        return min(found, key=lambda s: (s.time_millis, s.id))
    raise NotFoundError(
        f"Table {table.name} has no snapshot committed at or after {millis} ms after 1970.",
        hint="See its $snapshots table.",
        kind=ErrorKind.SNAPSHOT_NOT_FOUND,
    )


@translate_io_errors()
def first_from_watermark(table: Table, watermark: int) -> Snapshot:
    """Return the first snapshot with at least this watermark; it may have expired if a tag protects it.

    Raises:
        NotFoundError: no snapshot has such a watermark.
    """
    found = [(s.watermark, s.id, s) for s in _tagged(table) if s.watermark is not None and s.watermark >= watermark]
    for snapshot_id in table.snapshots.ids():
        stored = table.snapshots.find(snapshot_id)
        if stored is not None and stored.watermark is not None and stored.watermark >= watermark:
            found.append((stored.watermark, stored.id, stored))
            break
    if found:
        return min(found, key=lambda item: item[:2])[2]
    raise no_watermark(table, watermark, "later")


@translate_io_errors()
def last_to_watermark(table: Table, watermark: int) -> Snapshot:
    """Return the newest snapshot whose watermark is at most this one; snapshots without a watermark are skipped.

    Raises:
        NotFoundError: no snapshot has such a watermark.
    """
    for snapshot_id in reversed(table.snapshots.ids()):
        stored = table.snapshots.find(snapshot_id)
        if stored is not None and stored.watermark is not None and stored.watermark <= watermark:
            return stored
    raise no_watermark(table, watermark, "earlier")


def _tagged(table: Table) -> list[Snapshot]:
    return [tag.snapshot for tag in RefStore.of(table).tags().values()]


def _stored_from(table: Table, millis: int) -> Snapshot | None:
    """Return the first stored snapshot committed at or after a time."""
    store = table.snapshots
    before = store.at_or_before(millis - 1)
    if before is None:
        return store.earliest()
    return next((s for i in store.ids() if i > before.id and (s := store.find(i)) is not None), None)
