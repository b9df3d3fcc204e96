"""The kinds of primary-key tables whose merges and compactions the benchmarks of the core and of memory measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MergeKind:
    """A kind of table.

    Attributes:
        options: the options of the table.
        merge_rate: target of rows per second and core of its merge on read; 0 if level 0 is not read.
        lookup_rate: the same for a compaction with a lookup, counted in rows of all files; 0 for no lookup.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    merge_rate: float = 0
    lookup_rate: float = 0


_SUMS = {f"fields.{name}.aggregate-function": "sum" for name in ("i", "d", "amount")}
_AGGREGATION = {"merge-engine": "aggregation", "fields.b.aggregate-function": "max", **_SUMS}
_PARTIAL = {"merge-engine": "partial-update"}
_LOOKUP = {"changelog-producer": "lookup"}
MERGE_KINDS: Mapping[str, MergeKind] = {
    "aggregation": MergeKind(_AGGREGATION, merge_rate=2.5e6),
    "partial-update": MergeKind(_PARTIAL, merge_rate=2.5e6),
    "first-row": MergeKind({"merge-engine": "first-row"}, lookup_rate=1e6),
    "vectors": MergeKind({"deletion-vectors.enabled": "true"}, lookup_rate=1e6),
    "lookup changelog": MergeKind(_LOOKUP, lookup_rate=1e6),
    "aggregation, lookup changelog": MergeKind({**_AGGREGATION, **_LOOKUP}, lookup_rate=1e6),
    "partial-update, vectors": MergeKind({**_PARTIAL, "deletion-vectors.enabled": "true"}, lookup_rate=1e6),
    "full-compaction changelog": MergeKind({"changelog-producer": "full-compaction"}),
    "ORC": MergeKind({"file.format": "orc"}),
    "Avro": MergeKind({"file.format": "avro"}),
}
