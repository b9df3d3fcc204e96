"""Bitmaps and sketches that Apache Paimon built and merged, recorded in `aggregate_bytes.json`.

``python -m tests.peers.aggregate_bytes`` records them anew with the newest released bundle;
``python -m tests.peers.aggregate_bytes 2.0.0=JAR`` does so with the jar of another release.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from tests.peers.java_peer import NEWEST, bundle_jar, command

FILE = Path(__file__).resolve().parent / "aggregate_bytes.json"

CASES: dict[str, tuple[str, ...]] = {
    "rbm32 of the specification": ("rbm32 1,2", "rbm32 2,3"),
    "rbm32 of runs and arrays": ("rbm32 0..8000..7,70000..80000", "rbm32:plain 5,131072..131080", "rbm32 -1"),
    "rbm32 of one run out of two arrays": ("rbm32 1..19..2", "rbm32 2..20..2"),
    "rbm64 of the specification": ("rbm64 1,2", "rbm64 2,3"),
    "rbm64 of an empty one": ("rbm64", "rbm64", "rbm64 7"),
    "rbm64 of runs, arrays and a bitmap": (
        "rbm64 0..65535..7,70000..80000",
        "rbm64:plain 5,131072..131080",
        "rbm64 -1",
    ),
    "rbm64 with a prefix that is split": (
        "rbm64 1099511627776,1099511693312",
        "rbm64 1099511627777,1099528404992",
        "rbm64 281474976710656",
    ),
    "rbm64 of 4, 5, 16 and 17 containers": (
        "rbm64 0..196608..65536",
        "rbm64 262144",
        "rbm64 1048576..1703936..65536",
        "rbm64 720896",
    ),
    "rbm64 of 48 and 49 containers": (
        "rbm64 6553600..6619136..65536,65536,131072",
        "rbm64 3276800..5505024..65536",
        "rbm64 262144..851968..65536",
        "rbm64 1048576",
    ),
    "rbm64 of 256 and more containers": (
        "rbm64 6553600..19660800..65536",
        "rbm64 -9223372036854775808,0..9961472..65536",
    ),
    "hll_sketch of the specification": ("hll_sketch:12:HLL_4 1,2", "hll_sketch:12:HLL_4 2,3"),
    "hll_sketch of an empty one": ("hll_sketch:12:HLL_4", "hll_sketch:12:HLL_6 1..3"),
    "hll_sketch of lists to a set": (
        "hll_sketch:12:HLL_4 1..6",
        "hll_sketch:12:HLL_8 4..9",
        "hll_sketch:12:HLL_6 9..30",
    ),
    "hll_sketch of a set to an array": ("hll_sketch:8:HLL_4 1..20", "hll_sketch:8:HLL_4 15..60"),
    "hll_sketch of arrays": ("hll_sketch:7:HLL_4 1..500", "hll_sketch:7:HLL_6 400..900", "hll_sketch:7:HLL_8 1..5000"),
    "hll_sketch of two sizes": ("hll_sketch:8:HLL_4 1..5", "hll_sketch:10:HLL_4 4..9", "hll_sketch:9:HLL_8 1..7"),
    "hll_sketch of updatable ones": ("hll_sketch:8:HLL_8:update 1..5", "hll_sketch:8:HLL_4:update 1..300"),
    "theta_sketch of the specification": ("theta_sketch:12 1,2", "theta_sketch:12 2,3"),
    "theta_sketch of empty ones": ("theta_sketch:12", "theta_sketch:5:update", "theta_sketch:12"),
    "theta_sketch of single items": ("theta_sketch:12 1", "theta_sketch:12", "theta_sketch:12:update 1"),
    "theta_sketch of estimates": ("theta_sketch:4 1..500", "theta_sketch:5 300..900", "theta_sketch:4:update 1..100"),
}
"""What is merged, by name: kinds and values as `AggregateBytes.java` takes them."""


@dataclass(frozen=True)
class Case:
    """Recorded inputs and the bytes that Paimon merged them to."""

    function: str
    inputs: tuple[bytes, ...]
    merged: bytes


def ask(jar: Path, lines: Sequence[str]) -> list[str]:
    """Return the answers of `AggregateBytes.java`, one per line."""
    done = subprocess.run(
        command("AggregateBytes", jar), input="\n".join(lines) + "\n", capture_output=True, text=True, check=True
    )
    answers = done.stdout.splitlines()
    if len(answers) != len(lines) or any(a.startswith("error") for a in answers):
        raise RuntimeError(done.stdout[-500:] + done.stderr[-2000:])
    return answers


def merged(jar: Path, cases: Sequence[Sequence[str]]) -> list[tuple[list[str], str]]:
    """Return the inputs and the result of each case, hexadecimal."""
    built = iter(ask(jar, [f"of {value}" for case in cases for value in case]))
    inputs = [[*islice(built, len(case))] for case in cases]
    results = ask(jar, [f"merge {_function(c)} {' '.join(i)}" for c, i in zip(cases, inputs, strict=True)])
    return list(zip(inputs, results, strict=True))


def _function(case: Sequence[str]) -> str:
    return case[0].split(" ")[0].split(":")[0]


def recorded() -> dict[str, Case]:
    """Return the recorded cases by name."""
    loaded: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))["cases"]
    return {
        name: Case(_function(CASES[name]), tuple(map(bytes.fromhex, case["inputs"])), bytes.fromhex(case["merged"]))
        for name, case in loaded.items()
    }


def record(release: str, jar: Path) -> None:
    """Record all cases with a release."""
    found = merged(jar, list(CASES.values()))
    cases = {n: {"inputs": inputs, "merged": out} for n, (inputs, out) in zip(CASES, found, strict=True)}
    text = json.dumps({"release": release, "cases": cases}, indent=1)
    FILE.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    given = dict(argument.split("=", 1) for argument in sys.argv[1:])
    for name, path in (given or {NEWEST: str(bundle_jar())}).items():
        record(name, Path(path))
