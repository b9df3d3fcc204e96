"""`paimon-spark selftest`: the trials of the test kit on the machine of a user, with a report."""

from __future__ import annotations

import logging
import secrets
import shutil
import tempfile
from pathlib import Path

from paimon_spark.errors import ArgumentError
from paimon_spark.testing.selftest import report_lines, selftest

_SEEDS = 1_000_000


def run(seed: int | None, minutes: float, directory: str | None) -> int:
    """Run the trials and print what they found; return 0 if all is well, else 1 and keep the tables.

    Raises:
        ArgumentError: the time is not positive, or the directory holds something.
    """
    if not minutes > 0:
        raise ArgumentError(f"--minutes is {minutes}.", hint="Give a positive number.")
    place = _place(directory)
    seed = secrets.randbelow(_SEEDS) if seed is None else seed
    print(f"seed {seed}, {minutes:g} minutes, in {place}", flush=True)
    logging.getLogger("paimon_spark").setLevel(logging.CRITICAL)
    tallies = selftest(seed, minutes * 60, place)
    print("\n".join(report_lines(tallies)))
    if any(t.complaints for t in tallies.values()):
        print(f"\nThe tables are kept in {place}. The same again: paimon-spark selftest --seed {seed}")
        return 1
    shutil.rmtree(place)
    return 0


def _place(directory: str | None) -> Path:
    if directory is None:
        return Path(tempfile.mkdtemp(prefix="paimon-spark-selftest-"))
    place = Path(directory).absolute()
    if place.exists() and any(place.iterdir()):
        raise ArgumentError(f"The directory {place} is not empty.", hint="Give an empty or a new one.")
    place.mkdir(parents=True, exist_ok=True)
    return place
