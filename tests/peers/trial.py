"""``make trial``: random histories of tables that this project and a release of Paimon change in turn."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from paimon_spark.testing.scenarios import PLAIN_KINDS
from tests.peers.java_peer import bundle_jar
from tests.peers.trial_machine import ENGINES, run_histories
from tests.peers.trial_peer import TrialPeer

HISTORIES = 5
"""Histories of one seed."""


def main(arguments: list[str] | None = None) -> int:
    """Try seed after seed until the time is over; return 1 at the first difference."""
    parser = argparse.ArgumentParser(prog="make trial", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--minutes", type=float, default=10, help="how long to go on")
    parser.add_argument(
        "--kind", action="append", choices=[*sorted(PLAIN_KINDS), ENGINES], help="only this kind of table"
    )
    parser.add_argument("--jar", default="", help="a jar of Paimon; by default its released bundle")
    parser.add_argument("--no-shrink", action="store_true", help="report a difference as it was found, at once")
    given = parser.parse_args(arguments)
    jar = Path(given.jar) if given.jar else bundle_jar()
    end, now, steps = time.monotonic() + 60 * given.minutes, given.seed, Counter[str]()
    with tempfile.TemporaryDirectory() as place:
        warehouse = Path(place) / "warehouse"
        warehouse.mkdir()
        with TrialPeer(jar, warehouse) as peer:
            while time.monotonic() < end:
                print(f"seed {now} …", end=" ", flush=True)
                steps += run_histories(
                    peer, warehouse, now, HISTORIES, kinds=tuple(given.kind or ()), shrink=not given.no_shrink
                )
                print(f"{sum(steps.values())} steps", flush=True)
                now += 1
    print(f"No difference from {jar.name} in {sum(steps.values())} steps, seeds {given.seed} to {now - 1}:")
    for name, count in sorted(steps.items()):
        print(f"{count:6} {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
