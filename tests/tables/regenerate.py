"""Write the sample tables anew with Apache Paimon's Java release: ``python -m tests.tables.regenerate``.

Each case of ``cases.json`` becomes ``NAME.tar.gz`` (the table directory) and ``NAME.json``: what that release itself
reads back from the latest snapshot and from every earlier one. Names of cases write only these. Cases of a later
release than the bundle's need its jar in `PEER_JAR`; without it they are kept.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.peers.java_peer import NEWEST, coordinate, run_steps
from tests.tables.evolved import FORMATS, evolved_columns, evolved_steps, expected_rows
from tests.tables.record_casts import record

HERE = Path(__file__).resolve().parent
DATABASE = "samples"
PROGRAM = "EvolvingPeer"


def regenerate(names: Sequence[str] = ()) -> None:
    """Write some cases, or all of them, the table of casts, and tables whose columns went through all of them."""
    cases = json.loads((HERE / "cases.json").read_text(encoding="utf-8"))
    if names:
        cases = {name: cases[name] for name in names}
    else:
        record()
        with tempfile.TemporaryDirectory() as tmp:
            _evolve(Path(tmp))
    jar = os.environ.get("PEER_JAR", "")
    _write({name: case for name, case in cases.items() if "release" not in case})
    if jar:
        _write({name: case for name, case in cases.items() if "release" in case}, Path(jar))


def _write(cases: Mapping[str, Any], jar: Path | None = None) -> None:
    """Write some cases by the bundle, or by the release in a jar."""
    with tempfile.TemporaryDirectory() as tmp:
        warehouse = Path(tmp)
        _run(warehouse, [s | {"table": f"{DATABASE}.{n}"} for n, c in cases.items() for s in c["steps"]], jar)
        for name, case in cases.items():
            _pack(warehouse / f"{DATABASE}.db" / name, HERE / f"{name}.tar.gz")
            known = {"written_by": coordinate(case.get("release", NEWEST)), "shows": case["shows"]}
            expected = known | _read_back(warehouse, name, jar)
            (HERE / f"{name}.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _run(warehouse: Path, steps: Sequence[Mapping[str, Any]], jar: Path | None) -> list[dict[str, Any]]:
    return run_steps(warehouse, steps, program=PROGRAM, jar=jar)


def _evolve(warehouse: Path) -> None:
    for file_format in FORMATS:
        name = f"evolved_{file_format}"
        steps = [s | {"table": f"{DATABASE}.{name}"} for s in evolved_steps(file_format)]
        rows = run_steps(warehouse, steps)[-1]["rows"]
        if rows != expected_rows(evolved_columns(file_format)):
            message = f"The table {name} is not read as its casts were recorded."
            raise RuntimeError(message)
        _pack(warehouse / f"{DATABASE}.db" / name, HERE / "evolved" / f"{name}.tar.gz")


def _read_back(warehouse: Path, name: str, jar: Path | None) -> dict[str, Any]:
    table = f"{DATABASE}.{name}"
    snapshots = sorted(
        int(p.name.removeprefix("snapshot-")) for p in (warehouse / f"{DATABASE}.db" / name).glob("snapshot/snapshot-*")
    )
    reads = [{"do": "read", "table": table}, *({"do": "read", "table": table, "snapshot": i} for i in snapshots)]
    answers = _run(warehouse, reads, jar)
    return {
        "rows": answers[0]["rows"],
        "rows_by_snapshot": {str(i): a["rows"] for i, a in zip(snapshots, answers[1:], strict=True)},
    }


def _pack(source: Path, target: Path) -> None:
    with tarfile.open(target, "w:gz") as archive:
        for path in sorted(source.rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                info = tarfile.TarInfo(str(path.relative_to(source.parent)))
                data = path.read_bytes()
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))


if __name__ == "__main__":
    regenerate(sys.argv[1:])
