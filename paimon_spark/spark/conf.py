"""Session options: ``spark.paimon.<key>`` and ``spark.paimon.<catalog>.<database>.<table>.<key>`` (sql spec, 3.8)."""

from __future__ import annotations

from collections.abc import Mapping

from paimon_spark.spec.identifier import Identifier

PREFIX = "spark.paimon."
FLINK_PREFIX = "paimon."
_OWN = ("python", "pythonPath", "log.dir", "progress", "requiredSparkConfsCheck.enabled")


def session_options(conf: Mapping[str, str], catalog: str, identifier: Identifier) -> dict[str, str]:
    """Return the options that the session sets for one table.

    Options for all tables come first, then those with a name pattern; the pattern with more exact names wins.
    """
    names = (catalog, identifier.database, identifier.table)
    ranked: list[tuple[int, str, str]] = []
    for full, value in conf.items():
        key = full.removeprefix(PREFIX if full.startswith(PREFIX) else FLINK_PREFIX)
        if key == full or key in _OWN:
            continue
        ranked.extend(_matching(key, value, names))
    return {key: value for _, key, value in sorted(ranked, key=lambda r: r[0])}


def _matching(key: str, value: str, names: tuple[str, str, str]) -> list[tuple[int, str, str]]:
    parts = key.split(".", 3)
    if len(parts) == 4 and all(p in ("*", n) for p, n in zip(parts[:3], names, strict=True)):
        exact = sum(p != "*" for p in parts[:3])
        return [(1 + exact, parts[3], value)]
    return [(0, key, value)]
