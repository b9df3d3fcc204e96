"""Processes that work on one table: writers, compactors, expirers and readers, run concurrently or killed.

They are forked from a server process that has imported all modules, so that starting one is cheap.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

from paimon_spark.api.catalog import CatalogHandle, connect
from paimon_spark.api.table import TableHandle
from paimon_spark.errors import ConflictError, NotFoundError, OutcomeUnknownError
from paimon_spark.testing.ledger import SCHEMA, Ledger, batch_number, batch_rows, snapshot_faults
from paimon_spark.testing.scenarios import SHOWN, Kind

NAME = "default.trial"
KINDS: Mapping[str, Kind] = {
    "fixed": Kind(("k",), (), {"bucket": "2"}),
    "dynamic": Kind(("k",), (), {"dynamic-bucket.target-row-num": "500"}),
    "partitioned": Kind(("p", "k"), ("p",), {"bucket": "1"}),
    "append": Kind((), (), {"bucket": "-1"}),
    "looked_up": Kind(("k",), (), {"bucket": "2", "changelog-producer": "lookup"}),
    "vectors": Kind(("k",), (), {"bucket": "2", "deletion-vectors.enabled": "true", **SHOWN}),
    "marked": Kind(
        ("k",),
        (),
        {
            "bucket": "2",
            "deletion-vectors.enabled": "true",
            "deletion-vectors.mark-deletes": "true",
            "write-only": "false",
            **SHOWN,
        },
    ),
    "aggregated": Kind(
        ("p", "k"),
        ("p",),
        {"bucket": "1", "merge-engine": "aggregation", "fields.batch.aggregate-function": "max"}
        | {"aggregation.remove-record-on-delete": "true", "changelog-producer": "lookup"},
    ),
    "partial": Kind(
        ("k",), (), {"bucket": "2", "merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
    ),
}
"""Kinds whose rows of one key end as the last batch that was written: each batch has a higher number than the last.

Their names are those of catalogs, too.
"""
_OPTIONS = {
    "commit.max-retries": "100",
    "commit.min-retry-wait": "2 ms",
    "commit.max-retry-wait": "100 ms",
    "write-only": "true",
}
_SERVER = multiprocessing.get_context("forkserver")
Options = Mapping[str, str]


def create_trial_table(warehouse: str, kind: str, options: Options | None = None) -> TableHandle:
    """Create the table of a trial in a warehouse; `options` are catalog options."""
    k = KINDS[kind]
    return connect(warehouse, options).create_table(
        NAME, SCHEMA, primary_key=k.primary_key, partition_by=k.partition_by, options={**_OPTIONS, **k.options}
    )


def start(role: str, warehouse: str, options: Options, number: int, directory: Path, seconds: float) -> BaseProcess:
    """Start a process in one of the `ROLES`; its ledger or report is a file in `directory`."""
    _SERVER.set_forkserver_preload([__name__, "paimon_spark.format.parquet", "paimon_spark.format.orc.orc_format"])
    process = _SERVER.Process(
        target=_run, args=(role, warehouse, dict(options), number, str(directory), seconds), name=f"{role}-{number}"
    )
    process.start()
    return process


def _run(role: str, warehouse: str, options: Options, number: int, directory: str, seconds: float) -> None:
    catalog = connect(warehouse, options)
    try:
        catalog.table(NAME)  # connecting to the store does not count against the duration
        ROLES[role](catalog, number, Path(directory), time.monotonic() + seconds)
    except Exception as e:
        _report(Path(directory), f"{role} {number} fails: {type(e).__name__}: {e}")
        raise


def _turns(until: float) -> Iterator[int]:
    """Count iterations from 1 until the time is up; there is at least one."""
    for turn in itertools.count(1):
        yield turn
        if time.monotonic() >= until:
            return


def _report(directory: Path, line: str) -> None:
    with (directory / "complaints").open("a") as f:
        f.write(line.replace("\n", " ") + "\n")


def reports(directory: Path) -> list[str]:
    """Return the complaints that the processes reported."""
    path = directory / "complaints"
    return path.read_text().splitlines() if path.exists() else []


def ledger_path(directory: Path, number: int) -> Path:
    """Return the path of a writer's ledger."""
    return directory / f"ledger-{number}"


def batches_tried(directory: Path, number: int) -> int:
    """Return the number of batches that a writer has attempted; a killed writer resumes after them."""
    path = ledger_path(directory, number)
    return path.read_text().count("try write") if path.exists() else 0


def _write(catalog: CatalogHandle, number: int, directory: Path, until: float) -> None:
    """Write one batch after the other, and occasionally delete one of them."""
    table, random = catalog.table(NAME), Random(os.getpid())
    keyed = bool(table.primary_key)
    before, ledger, mine = batches_tried(directory, number), Ledger(ledger_path(directory, number)), []
    for turn in _turns(until):
        batch = batch_number(number, before + turn)
        if _noted(ledger, "write", batch, partial(_write_batch, table, batch, keyed)):
            mine.append(batch)
        if mine and random.random() < 0.15:
            old = mine.pop(random.randrange(len(mine)))
            _noted(ledger, "delete", old, partial(table.delete, f"batch = {old} AND k >= 0"))
    ledger.close()


def _write_batch(table: TableHandle, batch: int, keyed: bool) -> object:  # noqa: FBT001
    return table.append(batch_rows(batch, shared=keyed))


def _noted(ledger: Ledger, what: str, batch: int, attempt: Callable[[], object]) -> bool:
    """Execute an operation between two ledger entries; return whether it was acknowledged."""
    ledger.tries(what, batch)
    try:
        attempt()
    except OutcomeUnknownError:
        return False
    except ConflictError:
        ledger.refused(what, batch)
        return False
    ledger.done(what, batch)
    return True


def _compact(catalog: CatalogHandle, number: int, directory: Path, until: float) -> None:
    """Compact repeatedly, in full and in part."""
    table = catalog.table(NAME)
    for turn in _turns(until):
        try:
            table.compact(full=turn % 3 == 0)
        except (ConflictError, OutcomeUnknownError):
            continue
        time.sleep(0.02)


def _expire(catalog: CatalogHandle, number: int, directory: Path, until: float) -> None:
    """Expire all but a few snapshots, repeatedly."""
    table = catalog.table(NAME)
    for _ in _turns(until):
        table.expire_snapshots(retain_max=5, retain_min=2)
        time.sleep(0.02 * (number == 0))


def _keep(catalog: CatalogHandle, number: int, directory: Path, until: float) -> None:
    """Create and delete tags and remove orphan files, repeatedly."""
    table = catalog.table(NAME)
    for turn in _turns(until):
        name = f"tag-{number}-{turn}"
        try:
            table.create_tag(name)
        except NotFoundError:
            continue  # the snapshot has expired, or there is none yet
        table.remove_orphan_files()
        table.delete_tag(name)


def _read(catalog: CatalogHandle, number: int, directory: Path, until: float) -> None:
    """Read repeatedly; no snapshot may contain a partial batch."""
    table = catalog.table(NAME)
    for _ in _turns(until):
        for fault in snapshot_faults(table.to_arrow()):
            _report(directory, f"reader {number}: {fault}")


def _everything(catalog: CatalogHandle, number: int, directory: Path, until: float) -> None:
    """Write, compact and expire in one process, which may be killed at any time."""
    table = catalog.table(NAME)
    keyed = bool(table.primary_key)
    before, ledger = batches_tried(directory, number), Ledger(ledger_path(directory, number))
    for n in map(before.__add__, _turns(until)):
        batch = batch_number(number, n)
        _noted(ledger, "write", batch, partial(_write_batch, table, batch, keyed))
        if n % 4 == 3:
            _noted(ledger, "delete", batch, partial(table.delete, f"batch = {batch} AND k >= 0"))
        if n % 3 == 0:
            table.compact(full=n % 2 == 0)
        if n % 3 == 1:
            table.expire_snapshots(retain_max=3, retain_min=1)
    ledger.close()


ROLES = {
    "writer": _write,
    "compactor": _compact,
    "expirer": _expire,
    "keeper": _keep,
    "reader": _read,
    "everything": _everything,
}
