"""The stored form of options: the spelling that every reader of the format parses to the same value.

This project ignores blanks around values and names, and accepts ISO durations and ``infinite``; Paimon does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from paimon_spark.spec.option_catalogue import INFINITE, field_of, find_option
from paimon_spark.spec.units import MAX_INT, MAX_LONG, parse_duration_ms

_MOST = {"Integer": str(MAX_INT), "Long": str(MAX_LONG), "MemorySize": f"{MAX_LONG} b"}
_PLAIN = ("Boolean", "Double", "Enum", "Float")
_WITH_UNIT = re.compile(r"\d+\s*[a-zµμ]*", re.IGNORECASE)


def stored_key(key: str) -> str:
    """Return the name of an option without blanks around the columns in it."""
    columns = field_of(key)
    if len(columns) < 2:
        return key
    return f"fields.{','.join(columns)}.{key.rpartition('.')[2]}"


def stored_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return valid options as they are stored."""
    return {stored_key(k): stored_value(k, v) for k, v in options.items()}


def stored_value(key: str, value: str) -> str:
    """Return the text of a valid value as it is stored; that of an unknown option is unchanged."""
    option = find_option(key)
    if option is None:
        return value
    text = value.strip()
    if option.values or option.type in _PLAIN:
        return text
    if option.type in _MOST:
        return _MOST[option.type] if text.lower() == INFINITE else text
    if option.type == "Duration":
        return text if _WITH_UNIT.fullmatch(text) else f"{parse_duration_ms(text)} ms"
    form = _FORMS.get(option.name)
    return value if form is None else form(text)


def _names(text: str) -> str:
    return ",".join(part.strip() for part in text.split(",") if part.strip())


def _pairs(text: str) -> str:
    parts = (part.partition(":") for part in text.split(",") if part.strip())
    return ",".join(f"{k.strip()}:{v.strip()}" for k, _, v in parts)


_FORMS: dict[str, Callable[[str], str]] = {
    **dict.fromkeys(
        (
            "bucket-key",
            "chain-table.chain-partition-keys",
            "changelog-producer.row-deduplicate-ignore-fields",
            "clustering.columns",
            "partial-update.remove-record-on-sequence-group",
            "partition.mark-done-action",
            "sequence.field",
            "upsert-key",
        ),
        _names,
    ),
    **dict.fromkeys(("file.compression.per.level", "file.format.per.level", "metadata.stats-mode.per.level"), _pairs),
    **dict.fromkeys(
        ("fields.<col[,col]>.sequence-group", "fields.<col>.nested-key", "fields.<col>.nested-sequence-field"), _names
    ),
    **dict.fromkeys(
        ("fields.default-aggregate-function", "fields.<col>.aggregate-function", "fields.<col>.ts-field"), str.strip
    ),
}
