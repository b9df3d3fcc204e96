"""A data file as the record of it in a manifest."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from paimon_spark.format.manifest.layout import FILE_LAYOUT, Kind
from paimon_spark.spec.manifest import DataFileMeta, SimpleStats

_Record = dict[str, Any]
_NAMES = tuple(f.name for f in FILE_LAYOUT)
_VALUES = attrgetter(*(f.attribute for f in FILE_LAYOUT))


def file_record(file: DataFileMeta) -> _Record:
    """Return the values of a file by the names of their columns."""
    raw = dict(zip(_NAMES, _VALUES(file), strict=True))
    for name, written in _WRITTEN:
        if raw[name] is not None:
            raw[name] = written(raw[name])
    return raw


def stats_record(stats: SimpleStats) -> _Record:
    """Return the values of statistics by the names of their columns."""
    return {
        "_MIN_VALUES": stats.min_values,
        "_MAX_VALUES": stats.max_values,
        "_NULL_COUNTS": list(stats.null_counts),
    }


_OF_KIND: dict[Kind, Callable[[Any], Any]] = {
    Kind.STATS: stats_record,
    Kind.STRINGS: list,
    Kind.OPTIONAL_STRINGS: list,
    Kind.OPTIONAL_SOURCE: int,
}
_WRITTEN = tuple((f.name, _OF_KIND[f.kind]) for f in FILE_LAYOUT if f.kind in _OF_KIND)
