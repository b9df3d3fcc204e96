"""Examination of a table: what is wrong with it, what that costs, and the statement that fixes it.

Manifests and directory listings are read, data files are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from paimon_spark.core.metadata.lost_references import LostReference, lost_references, snapshot_gaps
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import ProtectingRef, RefKind, protecting_refs
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.engine.health.examined import Examined, Limits
from paimon_spark.engine.health.file_checks import check_files, check_manifests
from paimon_spark.engine.health.findings import Code, Finding, Severity, call, counted, in_order, sql_name
from paimon_spark.engine.health.history_checks import check_references, check_retention
from paimon_spark.engine.health.layout import layout_of
from paimon_spark.engine.health.listing import (
    DAY_MILLIS,
    entries_at,
    find_orphans,
    list_files,
    truly_missing,
)
from paimon_spark.engine.health.option_checks import check_options, valid_options
from paimon_spark.engine.health.places import Hashes
from paimon_spark.engine.health.references import ReferencedFiles, Unreadable, references_of, remaining
from paimon_spark.engine.health.trash_checks import check_trash
from paimon_spark.engine.health.verify import Verification, branches_of, lost_schemas
from paimon_spark.engine.runner import TaskRunner
from paimon_spark.errors import CorruptTableError, ErrorKind, PaimonError
from paimon_spark.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The findings about one table, most urgent first, what was looked at, and what readers cannot see any more."""

    findings: tuple[Finding, ...]
    examined: Examined | None = field(default=None, compare=False, repr=False)
    lost: tuple[LostReference, ...] = ()


@translate_io_errors()
def diagnose(
    table: Table, runner: TaskRunner, now: int, *, list_directories: bool = True, limits: Limits | None = None
) -> Diagnosis:
    """Examine a table; nothing is changed.

    Args:
        table: the table.
        runner: runs the listing tasks.
        now: current time in epoch milliseconds.
        list_directories: list the table's directories, to find missing files and orphans.
        limits: from which numbers on something is reported.
    """
    table = replace(table, options=valid_options(table.options))
    hidden_above = table.snapshots.rollback_target()
    referenced = references_of(table, protecting_refs)
    refs = [*referenced.refs, *(u.ref for u in referenced.unreadable)]
    own = (r.snapshot for r in refs if r.kind is RefKind.SNAPSHOT and r.branch == table.branch)
    visible = (s for s in own if hidden_above is None or s.id <= hidden_above)
    latest = max(visible, key=lambda s: s.id, default=None)
    sound = latest is not None and not any(_is_latest(table, u.ref, latest) for u in referenced.unreadable)
    lost = lost_references(table)
    findings = [_error(table, f"{found.error.message} {found.error.hint}") for found in lost]
    for place, held in branches_of(table, refs):
        findings += (_error(table, f"{e.message} {e.hint}") for _, e in lost_schemas(place, held))
        findings += (_error(table, f"{gap.path} is missing: {gap.text}") for gap in snapshot_gaps(place, held))
    findings += _unreadable(table, referenced, latest)
    metas = ManifestStore(table).data_manifests(latest) if latest is not None and sound else []
    examined = Examined(
        table=table,
        now=now,
        latest=latest,
        layout=layout_of(table, latest if sound else None, metas),
        metas=metas,
        refs=referenced.refs,
        limits=limits or Limits(),
    )
    findings += check_files(examined)
    findings += check_manifests(examined)
    findings += check_references(examined, referenced)
    findings += check_retention(examined)
    findings += check_options(examined)
    findings += check_trash(examined)
    if list_directories:
        findings += _directories(examined, referenced, runner, with_orphans=not lost)
    return Diagnosis(tuple(in_order(findings)), examined, tuple(lost))


def _is_latest(table: Table, ref: ProtectingRef, latest: Snapshot | None) -> bool:
    return ref.kind is RefKind.SNAPSHOT and ref.branch == table.branch and ref.snapshot == latest


def failed_diagnosis(name: str, error: PaimonError) -> Diagnosis:
    """Return the finding about a table that cannot be examined."""
    return Diagnosis((Finding(table=name, severity=Severity.ERROR, code=Code.UNREADABLE, found=str(error)),))


def _error(table: Table, found: str) -> Finding:
    return Finding(table=table.name, severity=Severity.ERROR, code=Code.UNREADABLE, found=found)


def _unreadable(table: Table, referenced: ReferencedFiles, latest: Snapshot | None) -> Iterator[Finding]:
    """Yield one finding per cause: a missing manifest makes many references unreadable."""
    manifests = _manifest_paths(table, latest) if referenced.unreadable else ()
    causes: dict[str, list[Unreadable]] = {}
    for found in referenced.unreadable:
        causes.setdefault(found.error.message, []).append(found)
    for message, found_here in causes.items():
        labels = [u.ref.label for u in found_here]
        missing = found_here[0].error.kind is ErrorKind.FILE_MISSING and any(path in message for path in manifests)
        yield Finding(
            table=table.name,
            severity=Severity.ERROR,
            code=Code.UNREADABLE,
            found=f"{', '.join(labels[:3])}{f' and {len(labels) - 3} more' if len(labels) > 3 else ''} cannot be read: "
            f"{message}",
            remedy=call("remove_unexisting_manifests", table=sql_name(table)) if missing else None,
        )


def _manifest_paths(table: Table, latest: Snapshot | None) -> list[str]:
    """Return the data manifests of the latest snapshot; none if its manifest lists cannot be read."""
    try:
        metas = [] if latest is None else ManifestStore(table).data_manifests(latest)
    except CorruptTableError:
        return []
    return [table.paths.manifest(m.file_name) for m in metas]


def _directories(
    e: Examined, referenced: ReferencedFiles, runner: TaskRunner, *, with_orphans: bool
) -> Iterator[Finding]:
    try:
        listed = list_files(e.table, runner)
    except CorruptTableError as error:
        yield e.finding(Severity.ERROR, Code.UNREADABLE, str(error))
        return
    latest = [r for r in e.refs if _is_latest(e.table, r, e.latest)]
    mask = referenced.of_any(latest)
    needed, told = referenced.files[mask], referenced.sizes[mask]
    sizes = listed.sizes_of(needed)
    absent = np.sort(needed[sizes < 0])
    missing = list(_missing(e, absent))
    if missing and remaining(e.table, latest):
        yield from missing
    verification = Verification(e.table, referenced, e.refs, listed)
    resized = np.sort(needed[(sizes >= 0) & (told >= 0) & (sizes != told)])
    doubtful = [
        (e.table.paths.data_file(d.partition, d.bucket, d.file), d.file.file_size)
        for d in entries_at(e.table, e.metas, resized)
    ]
    faults = verification.confirmed([*verification.metadata_files(), *verification.looked_up(doubtful)])
    if faults:
        more = f", and so are {len(faults) - 1} more" if len(faults) > 1 else ""
        yield e.finding(
            Severity.ERROR,
            Code.UNREADABLE,
            f"{faults[0].path} is missing or damaged ({faults[0].found}){more}",
            call("verify", table=e.sql_name),
        )
    if referenced.unreadable or not with_orphans:
        return
    orphans = find_orphans(e.table, referenced, listed, runner, e.now - DAY_MILLIS)
    if orphans.files:
        kept = e.table.options.trash_retention_ms > 0
        later = "; they go to the trash, which frees them when it is emptied" if kept else ""
        yield e.finding(
            Severity.WARNING,
            Code.ORPHAN_FILES,
            f"nothing refers to {counted(orphans.files, 'file')} older than a day ({orphans.bytes} bytes){later}",
            call("remove_orphan_files", table=e.sql_name),
            gain_bytes=orphans.bytes,
            gain_files=orphans.files,
        )


def _missing(e: Examined, absent: Hashes) -> Iterator[Finding]:
    """Yield a finding about the data files of the latest snapshot that do not exist, of those that were not listed."""
    count = rows = size = 0
    first = ""
    for entry in truly_missing(e.table, entries_at(e.table, e.metas, absent)):
        first = first or e.table.paths.data_file(entry.partition, entry.bucket, entry.file)
        count, rows, size = count + 1, rows + entry.file.row_count, size + entry.file.file_size
    if count:
        yield e.finding(
            Severity.ERROR,
            Code.MISSING_FILES,
            f"{counted(count, 'data file')} of the latest snapshot with {counted(rows, 'row')} ({size} bytes) do not "
            f"exist, such as {first}",
            call("remove_unexisting_files", table=e.sql_name),
        )
