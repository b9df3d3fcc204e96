"""The names that releases of Apache Paimon accept in metadata files, recorded in `vocabulary.json`.

``python -m tests.peers.vocabulary`` records the released bundles anew; ``python -m tests.peers.vocabulary 2.0.0=JAR``
records one more release from a jar of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

from paimon_spark.spec.types import AtomicType, TypeRoot, type_to_json
from tests.peers.java_peer import RELEASES, bundle_jar, command

HERE = Path(__file__).resolve().parent
FILE = HERE / "vocabulary.json"
_LENGTHS = (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY)
_MOMENTS = (TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


def written_types() -> list[str]:
    """Return every spelling of an atomic type in a schema file, with some lengths and precisions."""
    found: list[str] = []
    for root, nullable in product(TypeRoot, (True, False)):
        found += (str(type_to_json(t)) for t in _examples(root, nullable))
    return found


def _examples(root: TypeRoot, nullable: bool) -> list[AtomicType]:
    if root in _LENGTHS:
        return [AtomicType(root, nullable, length=n) for n in (1, 77, 2147483647)]
    if root in _MOMENTS:
        return [AtomicType(root, nullable, precision=p) for p in (0, 3, 6, 9)]
    if root is TypeRoot.DECIMAL:
        return [AtomicType(root, nullable, precision=p, scale=s) for p, s in ((1, 0), (10, 2), (38, 38))]
    return [AtomicType(root, nullable)]


def recorded() -> dict[str, Any]:
    """Return what each release accepts, by release."""
    loaded: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return loaded


def ask(jar: Path) -> dict[str, Any]:
    """Return what the release in a jar accepts."""
    done = subprocess.run(
        command("Vocabulary", jar),
        input="\n".join(written_types()),
        capture_output=True,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    return answer


def record(jars: dict[str, Path]) -> None:
    """Record releases; those that are not among `jars` stay as they are."""
    known = (recorded() if FILE.exists() else {}) | {release: ask(jar) for release, jar in jars.items()}
    text = json.dumps(known, indent=1, sort_keys=True)
    FILE.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    more = dict(argument.split("=", 1) for argument in sys.argv[1:])
    record({r: bundle_jar(r) for r in RELEASES} | {r: Path(jar) for r, jar in more.items()})
