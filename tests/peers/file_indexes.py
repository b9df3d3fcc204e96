"""File indexes that Apache Paimon wrote, recorded in `file_indexes.json`.

``python -m tests.peers.file_indexes`` records them anew with the newest released bundle;
``python -m tests.peers.file_indexes JAR`` compares them with what another release writes.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from paimon_spark.spec.file_indexes import IndexKind, supports
from paimon_spark.spec.predicate import Comparison, InList, IsNull, Operator, Predicate
from paimon_spark.spec.rows import Timestamp
from tests.file_indexes import TYPES
from tests.peers.java_peer import bundle_jar, command

FILE = Path(__file__).resolve().parent / "file_indexes.json"
ROWS = 40
_CODES = {
    "boolean": [True, False],
    "tinyint": [-128, -1, 0, 1, 127],
    "smallint": [-32768, -1, 0, 1, 32767],
    "int": [-(1 << 31), -1, 0, 1, 5, (1 << 31) - 1],
    "bigint": [-(1 << 63) + 1, -1, 0, 1, 1 << 40, (1 << 63) - 1],
    "float": [-math.inf, -1.5, -0.0, 0.0, 1.5, math.nan],
    "double": [-math.inf, -1.5, -0.0, 0.0, 1.5, 1e300, math.nan],
    "date": [-1, 0, 20_000],
    "time": [0, 1, 86_399_999],
    "decimal": [Decimal("-1.50"), Decimal("0.00"), Decimal("9999999999.99")],
    "string": ["", "a", "b", "é", "paimon", "\U0001f600", "x" * 40],
    "char": ["a", "ab", "abcd"],
    "bytes": [b"", b"\x00", b"\xff\x00", bytes(range(40))],
    "timestamp(3)": [Timestamp(-1), Timestamp(0), Timestamp(1_700_000_000_000)],
    "timestamp(6)": [Timestamp(-1, 999_000), Timestamp(0, 1000), Timestamp(1_700_000_000_000, 5000)],
    "timestamp(9)": [Timestamp(-1, 999_999), Timestamp(0, 1001), Timestamp(1_700_000_000_000, 5)],
    "timestamp_ltz(6)": [Timestamp(-1, 999_000), Timestamp(0, 1000)],
}
_SETTINGS: dict[IndexKind, list[dict[str, str]]] = {
    IndexKind.BLOOM_FILTER: [{"items": "20", "fpp": "0.05"}],
    IndexKind.BITMAP: [{"version": "1"}, {"index-block-size": "100b"}],
    IndexKind.BSI: [{}],
    IndexKind.RANGE_BITMAP: [{}, {"chunk-size": "20b"}],
}


def values_of(name: str) -> list[Any]:
    """Return the values of the rows of a file: some of each, a value of one row, and nulls."""
    codes: list[Any] = [*_CODES[name], None]
    return [codes[(i * i + i // 7) % len(codes)] for i in range(ROWS - 1)] + codes[:1]


def cases() -> Iterator[tuple[str, IndexKind, dict[str, str]]]:
    """Yield what is recorded: a type, a kind that supports it, and settings."""
    for name, t in TYPES.items():
        for kind in IndexKind:
            if supports(kind, t):
                for settings in _SETTINGS[kind]:
                    yield name, kind, settings


def plain(value: Any) -> Any:
    """Return a value as `FileIndexes.java` takes it."""
    if isinstance(value, Timestamp):
        return list(value)
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN" if math.isnan(value) else repr(value))
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    return {"unscaled": int(value.scaleb(2))} if isinstance(value, Decimal) else value


def ask(steps: Sequence[dict[str, Any]], jar: Path | None = None) -> list[Any]:
    """Return the answers of `FileIndexes.java`."""
    done = subprocess.run(
        command("FileIndexes", jar or bundle_jar()),
        input="".join(json.dumps(s) + "\n" for s in steps),
        capture_output=True,
        text=True,
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) != len(steps):
        raise RuntimeError(done.stderr[-2000:])
    return answers


def record(jar: Path | None = None) -> list[dict[str, Any]]:
    """Return the indexes that Paimon writes."""
    asked = list(cases())
    steps = [
        {"do": "write", "kind": k, "type": n, "settings": s, "values": [plain(v) for v in values_of(n)]}
        for n, k, s in asked
    ]
    return [
        {"type": n, "kind": str(k), "settings": s, "index": index}
        for (n, k, s), index in zip(asked, ask(steps, jar), strict=True)
    ]


def predicates_of(name: str) -> list[Predicate]:
    """Return conditions on the column ``v`` of a type."""
    codes = _CODES[name]
    operators: list[Operator] = ["=", "!=", "<", "<=", ">", ">="]
    compared = [Comparison(op, "v", code) for code in (codes[0], codes[-1]) for op in operators]
    nulls, some = (IsNull("v"), IsNull("v", negated=True)), tuple(codes[:2])
    return [*nulls, *compared, InList("v", some), InList("v", some, negated=True)]


def recorded() -> list[dict[str, Any]]:
    """Return what is in `file_indexes.json`."""
    found: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit("they differ" if record(Path(sys.argv[1])) != recorded() else 0)
    FILE.write_text("[\n" + ",\n".join(json.dumps(r) for r in record()) + "\n]\n", encoding="utf-8")
