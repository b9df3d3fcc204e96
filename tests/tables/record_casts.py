"""Record Apache Paimon's casts of column types in ``casts.json``: ``python -m tests.tables.record_casts``."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from tests.peers.java_peer import NEWEST, coordinate, run_steps
from tests.tables.cast_values import NESTED, NESTED_TARGETS, TARGETS, VALUES, ZONES, looks_at_zone

FILE = Path(__file__).resolve().parent / "casts.json"


def record() -> None:
    """Ask the newest release that is a peer for every cast."""
    casts = {zone: _ask(zone, _pairs(zone)) for zone in ZONES}
    casts["nested"] = _ask(ZONES[0], [(s, t, v) for s, v in NESTED for t in NESTED_TARGETS])
    lines = [f' "written_by": {json.dumps(coordinate(NEWEST))},']
    for n, (zone, answers) in enumerate(casts.items()):
        lines.append(f" {json.dumps(zone)}: [")
        lines.append(",\n".join(f"  {json.dumps(a, ensure_ascii=False)}" for a in answers))
        lines.append(" ]," if n < len(casts) - 1 else " ]")
    FILE.write_text("\n".join(["{", *lines, "}"]) + "\n", "utf-8")


def _pairs(zone: str) -> list[tuple[Any, str, list[Any]]]:
    every = zone == ZONES[0]
    return [(s, t, v) for s, v in VALUES.items() for t in TARGETS if s != t and (every or looks_at_zone(s, t))]


def _ask(zone: str, casts: list[tuple[Any, str, list[Any]]]) -> list[dict[str, Any]]:
    steps = [{"do": "cast", "from": s, "to": t, "values": v} for s, t, v in casts]
    with tempfile.TemporaryDirectory() as tmp:
        answers = run_steps(Path(tmp), steps, zone=zone)
    return [{"from": s, "to": t} | a for (s, t, _), a in zip(casts, answers, strict=True)]


if __name__ == "__main__":
    record()
