"""Statements on a disk that is full at every point of their way: ``python -m tests.property.full_disk DIRECTORY KIND …``.

The directory is a small file system of its own. Before each statement all of its space but a few blocks is taken, or
all of its inodes but a few; one more is left each time, until the statement succeeds.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

import paimon_spark
from paimon_spark.api.table import TableHandle
from paimon_spark.errors import PaimonError
from paimon_spark.testing.invariants import leaked

_MOST = 60
_SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
KEYED = {"bucket": "1", "num-sorted-run.compaction-trigger": "100"}


def rows(begin: int, end: int) -> pa.Table:
    return pa.table({"id": range(begin, end), "v": [f"value {i}" for i in range(begin, end)]}, schema=_SCHEMA)


STATEMENTS: dict[str, Callable[[TableHandle], object]] = {
    "append": lambda t: t.append(rows(3, 5)),
    "overwrite": lambda t: t.overwrite(rows(7, 9)),
    "delete": lambda t: t.delete("id = 1"),
    "compact": lambda t: t.compact(),
    "create_tag": lambda t: t.create_tag("now"),
    "rollback_to": lambda t: t.rollback_to(1),
}


@contextmanager
def left(disk: Path, *, blocks: int | None = None, inodes: int | None = None) -> Iterator[None]:
    """Take all the space of a disk but so many blocks, or all its inodes but so many."""
    ballast = disk / "ballast"
    ballast.mkdir()
    free = os.statvfs(disk)
    if blocks is not None:
        with (ballast / "block").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, (free.f_bfree - blocks) * free.f_frsize)
    for i in range(free.f_ffree - inodes if inodes is not None else 0):
        (ballast / str(i)).touch()
    try:
        yield
    finally:
        shutil.rmtree(ballast)


def state(table: TableHandle) -> dict[str, object]:
    """Return what a reader finds: the newest snapshot, its rows, and the tags."""
    ids = [s.id for s in table.snapshots()]
    return {"ids": ids, "rows": sorted(map(str, table.to_arrow().to_pylist())), "tags": table.tags()}


def attempt(disk: Path, kind: str, statement: str, **room: int) -> dict[str, object]:
    """Run a statement on a new table with little space, and return the outcome."""
    place = disk / "warehouse"
    warehouse = paimon_spark.connect(place)
    warehouse.create_database("d")
    keys = ["id"] if kind == "keyed" else []
    table = warehouse.create_table("d.t", _SCHEMA, primary_key=keys, options=KEYED if keys else None)
    table.append(rows(0, 2))
    table.append(rows(1, 3))
    before = state(table)
    failure = None
    with left(disk, **room):
        try:
            STATEMENTS[statement](table)
        except PaimonError as e:
            failure = [str(e.kind), str(e)]
        except Exception as e:  # noqa: BLE001 - told in the report
            failure = [type(e).__name__, str(e)]
    after = state(table)
    stray = sorted(leaked(table.load()))
    shutil.rmtree(place)
    return {"failure": failure, "changed": before != after, "stray": stray}


def main(disk: Path, kinds: Sequence[str]) -> None:
    """Print a line of JSON for each attempt on tables of some kinds: keyed, append."""
    for kind in kinds:
        for statement in STATEMENTS:
            for resource in ("blocks", "inodes"):
                for n in range(_MOST):
                    found = attempt(disk, kind, statement, **{resource: n})
                    print(json.dumps({"kind": kind, "statement": statement, resource: n, **found}), flush=True)
                    if found["failure"] is None:
                        break
                else:
                    raise AssertionError(f"{statement} never succeeds")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
