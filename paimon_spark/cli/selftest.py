"""`paimon-spark selftest`: runs the trials of the test kit on the user's machine or store, with a report."""

from __future__ import annotations

import logging
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from paimon_spark.errors import ArgumentError
from paimon_spark.fs.base import FileIO
from paimon_spark.fs.resolve import file_io_for
from paimon_spark.testing.selftest import report_lines, selftest

_SEEDS = 1_000_000
_PREFIX = "paimon-spark-selftest-"


def run(seed: int | None, minutes: float, directory: str | None, options: Mapping[str, str]) -> int:
    """Run the trials and print a report; return 0 if all passed, else 1 and keep the tables.

    Args:
        seed: random seed; random by default.
        minutes: duration.
        directory: directory of the tables, a path or a store URI; a temporary directory by default.
        options: catalog options of that store.

    Raises:
        ArgumentError: the duration is not positive, or the directory is not empty.
    """
    if not minutes > 0:
        raise ArgumentError(f"--minutes is {minutes}.", hint="Give a positive number.")
    with _ground(directory, options) as ground:
        seed = secrets.randbelow(_SEEDS) if seed is None else seed
        print(f"seed {seed}, {minutes:g} minutes, in {ground.location}", flush=True)
        logging.getLogger("paimon_spark").setLevel(logging.CRITICAL)
        tallies = selftest(seed, minutes * 60, ground.notes, location=ground.location, options=options)
        print("\n".join(report_lines(tallies)))
        if not any(t.complaints for t in tallies.values()):
            ground.file_io.delete_dir(ground.location)
            return 0
    print(f"\nThe tables are kept in {ground.location}. The same again: paimon-spark selftest --seed {seed}")
    return 1


@dataclass(frozen=True, slots=True)
class _Ground:
    """An empty directory for tables, and a local one for the ledgers of processes."""

    file_io: FileIO
    location: str
    notes: Path


@contextmanager
def _ground(directory: str | None, options: Mapping[str, str]) -> Iterator[_Ground]:
    location = tempfile.mkdtemp(prefix=_PREFIX) if directory is None else directory.rstrip("/")
    is_uri = ":" in location.split("/", 1)[0]
    if not is_uri:
        location = str(Path(location).absolute())
    file_io = file_io_for(location, options)
    if file_io.exists(location) and file_io.list(location):
        raise ArgumentError(f"The directory {location} is not empty.", hint="Give an empty or a new one.")
    with tempfile.TemporaryDirectory(prefix=_PREFIX) if is_uri else nullcontext(location) as notes:
        yield _Ground(file_io, location, Path(notes))
