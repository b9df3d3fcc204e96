"""Options that name columns or members of nested columns, in their key or in their value.

A renamed column is renamed in them, and a column that one of them names cannot be dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Path = tuple[str, ...]

_NAMING = (
    "bucket-key",
    "sequence.field",
    "rowkind.field",
    "record-level.time-field",
    "upsert-key",
    "clustering.columns",
    "partial-update.remove-record-on-sequence-group",
    "changelog-producer.row-deduplicate-ignore-fields",
    "manifest-sort.partition-field",
    "blob-field",
    "blob-descriptor-field",
    "blob-view-field",
    "vector-field",
)
"""Options whose value is a list of columns."""
_NAMING_VALUES = ".sequence-group"
"""Suffix of the ``fields.`` options whose value is a list of columns."""
_NAMING_MEMBERS = (".nested-key", ".nested-sequence-field", ".ts-field")
"""Suffixes of the ``fields.`` options whose value is a list of members of the rows in an array or a map."""
_MEMBER_DEPTH = 3
"""The length of the path of such a member: the column, ``element`` or ``value``, the member."""


_INDEX = "file-index."
_INDEX_PARTS = 4


def _names_in_key(key: str) -> tuple[str, tuple[str, ...], str]:
    """Split ``fields.<columns>.<what>`` and ``file-index.<kind>.<column>.<what>`` into three parts.

    There are no columns in other keys.
    """
    if key.startswith(_INDEX) and len(parts := key.split(".")) == _INDEX_PARTS:
        return f"{_INDEX}{parts[1]}.", (parts[2],), f".{parts[3]}"
    prefix, _, rest = key.partition(".")
    columns, dot, what = rest.partition(".")
    if prefix == "fields" and dot:
        return "fields.", tuple(columns.split(",")), dot + what
    return key, (), ""


def _names_columns(key: str) -> bool:
    index = key.startswith(_INDEX) and key.endswith(".columns")
    return key in _NAMING or index or (key.startswith("fields.") and key.endswith(_NAMING_VALUES))


def _names_members(key: str, column: Path) -> bool:
    """Return whether the value of an option lists members beside the one at the path `column`."""
    _, columns, what = _names_in_key(key)
    return len(column) == _MEMBER_DEPTH and what in _NAMING_MEMBERS and column[0] in {c.strip() for c in columns}


def _list(value: str) -> list[str]:
    return [c.strip() for c in value.split(",")]


def _columns(key: str, names: Iterable[str]) -> set[str]:
    """Return the columns among names in an option; a file index may name the key of a map column, ``column[key]``."""
    return {_split(key, name)[0] for name in names}


def _split(key: str, name: str) -> tuple[str, str]:
    column, bracket, rest = name.strip().partition("[")
    return (column, bracket + rest) if key.startswith(_INDEX) and rest.endswith("]") else (name.strip(), "")


def _renamed(key: str, names: Iterable[str], old: str, new: str) -> str:
    found = ((name, *_split(key, name)) for name in names)
    return ",".join(new + rest if column == old else name for name, column, rest in found)


def is_about_columns(key: str) -> bool:
    """Return whether an option names columns, in its key or in its value."""
    return _names_columns(key) or bool(_names_in_key(key)[1])


def rename_in_options(options: Mapping[str, str], column: Path, new: str) -> dict[str, str]:
    """Return options with the last part of the path `column` renamed to `new`, in keys and values."""
    if len(column) > 1:
        old = column[-1]
        return {k: _renamed(k, v.split(","), old, new) if _names_members(k, column) else v for k, v in options.items()}
    (old,) = column
    out: dict[str, str] = {}
    for key, value in options.items():
        prefix, columns, suffix = _names_in_key(key)
        renamed = prefix + _renamed(key, columns, old, new) + suffix
        out[renamed] = _renamed(key, value.split(","), old, new) if _names_columns(key) else value
    return out


def options_naming(options: Mapping[str, str], column: Path) -> list[str]:
    """Return the options that name the column or member at a path, in their key or in their value."""
    name = column[-1]
    if len(column) > 1:
        return [k for k, v in options.items() if _names_members(k, column) and name in _list(v)]
    return [
        k
        for k, v in options.items()
        if name in _columns(k, _names_in_key(k)[1]) or (_names_columns(k) and name in _columns(k, _list(v)))
    ]
