"""Generates `file_decoder.py` from `FILE_LAYOUT`: ``python -m paimon_spark.format.manifest.generate_file_decoder``.

Planning decodes one entry per file. A loop over the layout for each of them costs a fifth more than straight-line code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from paimon_spark.format.manifest.layout import FILE_LAYOUT, HEAD_LAYOUT, Field, Kind, tail_layout
from paimon_spark.format.manifest.usual_bytes import KEYS

TARGET = Path(__file__).with_name("file_decoder.py")
_HEAD = """\
# Generated from FILE_LAYOUT by `python -m paimon_spark.format.manifest.generate_file_decoder`. Do not edit.
\"\"\"Decoders of data files in manifest entries. Each returns the value at an offset, and its end.

They raise the errors of the functions of `primitives`.
\"\"\"

from __future__ import annotations

from typing import Any

from paimon_spark.format.manifest.primitives import (
    Counts,
    UnknownLayoutError,
{imports}
)
from paimon_spark.format.manifest.usual_bytes import HEADS, NO_KEYS, TAIL_BYTES, TAILS
from paimon_spark.spec.identifier import is_one_name
from paimon_spark.spec.kinds import FileKind
from paimon_spark.spec.manifest import EMPTY_ROW, EMPTY_STATS, DataFileMeta
"""
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
_LINE = 116
"""Characters of a line after its indent."""
_EMPTY = {Kind.BYTES: "EMPTY_ROW", Kind.STATS: "EMPTY_STATS"}
_TAIL = tail_layout()
_BODY = tuple(f for f in FILE_LAYOUT if f not in _TAIL)
_KEYS = tuple(f for f in _BODY if f.name in KEYS)


def _names(fields: Iterable[Field]) -> str:
    return ", ".join(f.attribute for f in fields)


def _decoding(field: Field) -> str:
    counts = ", counts" if field.kind is Kind.STATS else ""
    return f"{field.attribute}, at = {_DECODERS[field.kind]}(data, at{counts})"


def _doubt(field: Field) -> str:
    """Return the condition under which a value is invalid; none for fields without bounds."""
    name, value = field.attribute, f"({field.attribute} or 0)" if "OPTIONAL" in field.kind.name else field.attribute
    if field.names_files:
        return f"not all(map(is_one_name, {name}))" if field.kind is Kind.STRINGS else f"not is_one_name({name})"
    if field.least is None:
        return ""
    return f"{value} < {field.least}" if field.most is None else f"not {field.least} <= {value} <= {field.most}"


def _checks(fields: Sequence[Field]) -> list[str]:
    doubts = list(filter(None, map(_doubt, fields)))
    if len(line := f"if {' or '.join(doubts)}:") <= _LINE:
        return [line, "    raise UnknownLayoutError"]
    return ["if (", f"    {doubts[0]}", *(f"    or {d}" for d in doubts[1:]), "):", "    raise UnknownLayoutError"]


def _function(signature: str, doc: str, body: Sequence[str]) -> str:
    return "\n    ".join([f"def {signature}:", f'"""{doc}"""', *body])


def _keys() -> str:
    body = [
        "if data.startswith(NO_KEYS, at):",
        f"    return ({', '.join(_EMPTY[f.kind] for f in _KEYS)}), at + len(NO_KEYS)",
        *map(_decoding, _KEYS),
        f"return ({_names(_KEYS)}), at",
    ]
    signature = "_decode_keys(data: bytes, at: int, counts: Counts) -> tuple[tuple[Any, ...], int]"
    return _function(signature, "Return the first and last key, and the statistics of keys.", body)


def _head() -> str:
    fields = HEAD_LAYOUT[2:]
    body = [
        "kind = HEADS.get(data[at : at + 2])",
        "if kind is None:",
        "    raise UnknownLayoutError",
        "at += 2",
        *map(_decoding, fields),
        *_checks(fields),
        f"return (kind, {_names(fields)}), at",
    ]
    signature = "decode_head(data: bytes, at: int) -> tuple[tuple[FileKind, bytes, int, int], int]"
    return _function(signature, "Return the values of an entry before its file, without the version.", body)


def _tail() -> str:
    body = [
        "usual = TAILS.get(data[at : at + TAIL_BYTES])",
        "if usual is not None:",
        "    return usual, at + TAIL_BYTES",
        *map(_decoding, _TAIL),
        *_checks(_TAIL),
        "return (",
        *(f"    {f.attribute}," for f in _TAIL),
        "), at",
    ]
    signature = "decode_tail(data: bytes, at: int) -> tuple[tuple[Any, ...], int]"
    return _function(signature, "Return the values of the fields after the creation time.", body)


def _file(signature: str, doc: str, *, statistics: bool) -> str:
    lines: list[str] = []
    for field in _BODY:
        if statistics and field in _KEYS:
            first = field == _KEYS[0]
            lines += [f"({_names(_KEYS)}), at = _decode_keys(data, at, counts)"] if first else []
        elif statistics or field.kind is not Kind.STATS:
            lines.append(_decoding(field))
    held = [f.attribute for f in FILE_LAYOUT if statistics or f.kind is not Kind.STATS]
    return _function(
        f"{signature} -> tuple[DataFileMeta, int]",
        doc,
        [
            *lines,
            "tail, at = decode_tail(data, at)",
            f"{_names(_TAIL)} = tail",
            *_checks(_BODY),
            "return DataFileMeta(",
            *(f"    {name}={name}," for name in held),
            "), at",
        ],
    )


def source() -> str:
    """Return the text of the module."""
    decoders = sorted({_DECODERS[f.kind] for f in FILE_LAYOUT})
    parts = [
        _HEAD.format(imports="\n".join(f"    {d}," for d in decoders)),
        _head(),
        _keys(),
        _tail(),
        _file(
            "decode_file(data: bytes, at: int, counts: Counts)",
            "Return a file; `counts` keeps null counts by their bytes.",
            statistics=True,
        ),
        _file(
            "decode_file_without_stats(data: bytes, at: int)",
            "Return a file that was packed without its statistics.",
            statistics=False,
        ),
    ]
    return "\n\n".join(parts[:1]) + "\n\n" + "\n\n\n".join(parts[1:]) + "\n"


if __name__ == "__main__":
    TARGET.write_text(source(), encoding="utf-8")
