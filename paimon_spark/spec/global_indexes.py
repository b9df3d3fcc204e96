"""Global indexes: what the manifest entry of an index file says, and which kinds are written and read.

A file of a global index has, for the values of a column, the ids of the rows of a range. The ids in it count from the
first row of the range (docs/spec/storage.md, section 7).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from paimon_spark.spec.kinds import FileKind
from paimon_spark.spec.manifest import IndexManifestEntry

MOST_ROWS = 1 << 32
"""An index file of a longer range is not read."""


class GlobalIndexKind(StrEnum):
    """The kinds of global indexes that are written and read; manifests name them so."""

    BTREE = "btree"
    BITMAP = "bitmap"


@dataclass(frozen=True, slots=True)
class GlobalIndex:
    """The range of row ids of an index file, both ends included, its columns, and metadata of its kind."""

    first_row: int
    last_row: int
    field_id: int
    extra_field_ids: tuple[int, ...] = ()
    meta: bytes | None = None
    source: bytes | None = None
    """Metadata of indexes of primary key tables, whose rows have no ids."""

    @property
    def rows(self) -> int:
        """Return the number of rows of the range."""
        return self.last_row - self.first_row + 1

    @property
    def field_ids(self) -> tuple[int, ...]:
        """Return the ids of all indexed columns, in order."""
        return (self.field_id, *self.extra_field_ids)

    def packed(self) -> bytes:
        """Return the value of `IndexFileMeta.global_index`."""
        return json.dumps(
            {
                "_ROW_RANGE_START": self.first_row,
                "_ROW_RANGE_END": self.last_row,
                "_INDEX_FIELD_ID": self.field_id,
                "_EXTRA_FIELD_IDS": list(self.extra_field_ids) or None,
                "_INDEX_META": _binary(self.meta),
                "_SOURCE_META": _binary(self.source),
            }
        ).encode()

    @classmethod
    def parse(cls, data: bytes) -> GlobalIndex:
        """Read the value of `IndexFileMeta.global_index`."""
        raw = json.loads(data)
        return cls(
            raw["_ROW_RANGE_START"],
            raw["_ROW_RANGE_END"],
            raw["_INDEX_FIELD_ID"],
            tuple(raw.get("_EXTRA_FIELD_IDS") or ()),
            _bytes(raw.get("_INDEX_META")),
            _bytes(raw.get("_SOURCE_META")),
        )


def _binary(data: bytes | None) -> dict[str, str] | None:
    return None if data is None else {"b64": base64.b64encode(data).decode("ascii")}


def _bytes(value: dict[str, str] | None) -> bytes | None:
    return None if value is None else base64.b64decode(value["b64"])


def global_index_of(entry: IndexManifestEntry) -> GlobalIndex | None:
    """Return what an entry says about a global index; None for other index files."""
    return None if entry.file.global_index is None else GlobalIndex.parse(entry.file.global_index)


def added_indexes(changes: Iterable[IndexManifestEntry]) -> list[tuple[IndexManifestEntry, GlobalIndex]]:
    """Return the files of global indexes that a change adds."""
    return [(e, i) for e in changes if e.kind is FileKind.ADD and (i := global_index_of(e)) is not None]


Range = tuple[int, int]
"""A range of row ids: the first, and the one after the last."""


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Return ranges in ascending order, overlapping and adjacent ones joined."""
    out: list[Range] = []
    for first, end in sorted(ranges):
        if out and first <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((first, end))
    return out


def outside(wanted: Range, covered: Iterable[Range]) -> list[Range]:
    """Return the parts of a range that are in none of `covered`, which are merged."""
    out, at = [], wanted[0]
    for first, end in covered:
        if end <= at or first >= wanted[1]:
            continue
        if first > at:
            out.append((at, first))
        at = end
    if at < wanted[1]:
        out.append((at, wanted[1]))
    return out
