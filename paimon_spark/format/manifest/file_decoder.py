"""Decoders of data files in manifest entries, generated from `FILE_LAYOUT`.

A plan of a table of many files decodes as many entries. A loop over the layout for each of them costs a fifth more than
the straight-line code that is generated here once, when this module is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from paimon_spark.format.manifest import primitives
from paimon_spark.format.manifest.layout import FILE_LAYOUT, Field, Kind, tail_layout
from paimon_spark.format.manifest.primitives import Counts
from paimon_spark.spec.identifier import is_one_name
from paimon_spark.spec.kinds import FileSource
from paimon_spark.spec.manifest import EMPTY_ROW, EMPTY_STATS, DataFileMeta

_DECODERS = {
    Kind.INT: "decode_long",
    Kind.LONG: "decode_long",
    Kind.BYTES: "decode_bytes",
    Kind.STRING: "decode_text",
    Kind.STRINGS: "decode_texts",
    Kind.STATS: "decode_stats",
    Kind.OPTIONAL_SOURCE: "decode_optional_source",
    Kind.OPTIONAL_LONG: "decode_optional_long",
    Kind.OPTIONAL_MILLIS: "decode_optional_long",
    Kind.OPTIONAL_BYTES: "decode_optional_bytes",
    Kind.OPTIONAL_STRING: "decode_optional_text",
    Kind.OPTIONAL_STRINGS: "decode_optional_texts",
}
_SMALL = 64
"""Numbers below it take one byte."""
_EMPTY = {
    Kind.BYTES: ("EMPTY_ROW", bytes([len(EMPTY_ROW) << 1]) + EMPTY_ROW),
    Kind.STATS: ("EMPTY_STATS", (bytes([len(EMPTY_ROW) << 1]) + EMPTY_ROW) * 2 + b"\2\0"),
}
"""Keys and statistics of tables without a key: the name of the value, and its bytes."""
_KEYS = ("_MIN_KEY", "_MAX_KEY", "_KEY_STATS")
_TAIL = tail_layout()


def _tail_bytes(values: dict[str, int]) -> bytes:
    """Return the bytes of a tail with small numbers in some fields, and null in all others."""
    return b"".join(bytes([2, values[f.name] << 1]) if f.name in values else b"\0" for f in _TAIL)


def _usual_tails() -> dict[bytes, tuple[Any, ...]]:
    found = {}
    for deleted in range(_SMALL):
        for source in FileSource:
            raw = _tail_bytes({"_DELETE_ROW_COUNT": deleted, "_FILE_SOURCE": int(source)})
            values = {"_DELETE_ROW_COUNT": deleted, "_FILE_SOURCE": source}
            found[raw] = tuple(values.get(f.name) for f in _TAIL)
    return found


TAILS = _usual_tails()
"""Values of the tail by its bytes, for files that have a number of deletes and a source there, and nothing else."""
TAIL_BYTES = len(next(iter(TAILS)))
_NO_KEYS = b"".join(_EMPTY[f.kind][1] for f in FILE_LAYOUT if f.name in _KEYS)


def _decoding(field: Field) -> str:
    counts = ", counts" if field.kind is Kind.STATS else ""
    return f"{field.attribute}, at = {_DECODERS[field.kind]}(data, at{counts})"


def _doubt(field: Field) -> str:
    """Return the condition under which a value is not sound; none for fields without bounds."""
    name, value = field.attribute, f"({field.attribute} or 0)" if "OPTIONAL" in field.kind.name else field.attribute
    if field.names_files:
        return f"not all(map(is_one_name, {name}))" if field.kind is Kind.STRINGS else f"not is_one_name({name})"
    if field.least is None:
        return ""
    return f"{value} < {field.least}" if field.most is None else f"not {field.least} <= {value} <= {field.most}"


def _checks(fields: Sequence[Field]) -> list[str]:
    return [f"if {' or '.join(filter(None, map(_doubt, fields)))}: raise UnknownLayoutError"]


def _keys_or_none(fields: Sequence[Field]) -> list[str]:
    empty = [f"{f.attribute} = {_EMPTY[f.kind][0]}" for f in fields]
    return [
        f"if data.startswith(_NO_KEYS, at): {'; '.join(empty)}; at += {len(_NO_KEYS)}",
        "else:",
        *(f"    {_decoding(f)}" for f in fields),
    ]


def _body(*, statistics: bool) -> list[str]:
    """Return the statements that decode a file; files without statistics stand without them in the bytes too."""
    lines: list[str] = []
    keys = [f for f in FILE_LAYOUT if f.name in _KEYS]
    for field in FILE_LAYOUT:
        if field in _TAIL:
            continue
        if statistics and field in keys:
            lines += _keys_or_none(keys) if field == keys[0] else []
        elif statistics or field.kind is not Kind.STATS:
            lines.append(_decoding(field))
    names = ", ".join(f.attribute for f in _TAIL)
    values = ", ".join(f"{f.attribute}={f.attribute}" for f in FILE_LAYOUT if statistics or f.kind is not Kind.STATS)
    return [
        *lines,
        f"tail = TAILS.get(data[at:at + {TAIL_BYTES}])",
        f"if tail is not None: at += {TAIL_BYTES}",
        "else: tail, at = decode_tail(data, at)",
        f"{names} = tail",
        *_checks([f for f in FILE_LAYOUT if f not in _TAIL]),
        f"return DataFileMeta({values}), at",
    ]


def _tail_body() -> list[str]:
    names = ", ".join(f.attribute for f in _TAIL)
    return [*map(_decoding, _TAIL), *_checks(_TAIL), f"return ({names}), at"]


_NAMES: dict[str, Any] = {
    "EMPTY_ROW": EMPTY_ROW,
    "EMPTY_STATS": EMPTY_STATS,
    "TAILS": TAILS,
    "_NO_KEYS": _NO_KEYS,
    "DataFileMeta": DataFileMeta,
    "is_one_name": is_one_name,
}
"""What the generated code names beside the primitives."""


def _function(name: str, parameters: str, body: Sequence[str]) -> Callable[..., Any]:
    source = "\n    ".join([f"def {name}({parameters}):", *body])
    scope = vars(primitives) | _NAMES
    exec(compile(source, f"<{name} of FILE_LAYOUT>", "exec"), scope)  # noqa: S102 - the source is made above
    made: Callable[..., Any] = scope[name]
    _NAMES[name] = made
    return made


decode_tail: Callable[[bytes, int], tuple[tuple[Any, ...], int]] = _function("decode_tail", "data, at", _tail_body())
"""Return the values of the fields behind the creation time, and where they end."""
decode_file: Callable[[bytes, int, Counts], tuple[DataFileMeta, int]] = _function(
    "decode_file", "data, at, counts", _body(statistics=True)
)
"""Return the file at an offset, and where it ends; `counts` keeps null counts by their bytes."""
decode_file_without_stats: Callable[[bytes, int], tuple[DataFileMeta, int]] = _function(
    "decode_file_without_stats", "data, at", _body(statistics=False)
)
"""The same for files that were packed without their statistics."""
