"""File indexes by the options: their kinds, columns and settings (docs/spec/semantics.md, R16).

``file-index.<kind>.columns`` lists columns, or keys of a map column as ``column[key]``;
``file-index.<kind>.<column>.<setting>`` sets one of them up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from paimon_spark.errors import ErrorKind, NotFoundError, OptionError, UnsupportedError, did_you_mean
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import AtomicType, DataField, DataType, MapType, TypeRoot, atomic_text
from paimon_spark.spec.units import parse_memory

PREFIX = "file-index."
COLUMNS = ".columns"
INDEX_SUFFIX = ".index"
"""Suffix of the names of index files."""
_PARTS = 4
_WIDEST_DECIMAL = 18
"""Digits of the decimals that are stored as 64-bit numbers."""
_FINEST_RANGE = 6
"""Digits of the finest timestamps that a range bitmap supports."""


class IndexKind(StrEnum):
    """The kinds of file indexes."""

    BLOOM_FILTER = "bloom-filter"
    BITMAP = "bitmap"
    BSI = "bsi"
    RANGE_BITMAP = "range-bitmap"


_NUMBERS = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT)
_TIMES = (TypeRoot.DATE, TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_BINARIES = (TypeRoot.BINARY, TypeRoot.VARBINARY)
_SUPPORTED = {
    IndexKind.BLOOM_FILTER: (*_NUMBERS, *_TIMES, *_FLOATS, *_TEXTS, *_BINARIES),
    IndexKind.BITMAP: (*_NUMBERS, *_TIMES, *_FLOATS, *_TEXTS, TypeRoot.BOOLEAN),
    IndexKind.BSI: (*_NUMBERS, *_TIMES, TypeRoot.DECIMAL),
    IndexKind.RANGE_BITMAP: (*_NUMBERS, *_TIMES, *_FLOATS, *_TEXTS, TypeRoot.BOOLEAN, TypeRoot.DECIMAL),
}
_SETTINGS: Mapping[IndexKind, Mapping[str, str]] = {
    IndexKind.BLOOM_FILTER: {"fpp": "a number between 0 and 1", "items": "a positive number"},
    IndexKind.BITMAP: {"version": "1 or 2", "index-block-size": "a size of at least 64 bytes"},
    IndexKind.BSI: {},
    IndexKind.RANGE_BITMAP: {"chunk-size": "a size, such as 16kb"},
}
_LEAST_BLOCK = 64


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """One index of the data files of a table.

    Attributes:
        kind: the kind.
        column: the column.
        map_key: the key of a map column whose values are indexed; None for the column itself.
        settings: the settings of the index, by name.
    """

    kind: IndexKind
    column: str
    map_key: str | None = None
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def name(self) -> str:
        """Return the name of the column in index files."""
        return self.column if self.map_key is None else f"{self.column}[{self.map_key}]"


def supports(kind: IndexKind, t: DataType) -> bool:
    """Return whether a kind of index supports a type of column."""
    if not isinstance(t, AtomicType) or t.root not in _SUPPORTED[kind]:
        return False
    if t.root is TypeRoot.DECIMAL:
        return (t.precision or 0) <= _WIDEST_DECIMAL
    finest = kind is IndexKind.RANGE_BITMAP and t.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
    return not finest or (t.precision is None or t.precision <= _FINEST_RANGE)


def index_specs(options: Mapping[str, str]) -> tuple[IndexSpec, ...]:
    """Return the indexes that the options specify, each once, in the order of the kinds and of their columns.

    Raises:
        OptionError: an option names no kind, no column, a column without an index, or has an invalid value.
    """
    found = [spec for kind in IndexKind for spec in _of_kind(options, kind)]
    for key in options:
        if key.startswith(PREFIX):
            _check_key(key, found)
    return tuple(found)


def _of_kind(options: Mapping[str, str], kind: IndexKind) -> list[IndexSpec]:
    listed = options.get(f"file-index.{kind}.columns")
    if listed is None:
        return []
    out = []
    for name in dict.fromkeys(part.strip() for part in listed.split(",")):
        if not name:
            raise OptionError(
                f"The option '{PREFIX}{kind}{COLUMNS}' = '{listed}' has an empty column.",
                hint="Name the columns, separated by single commas.",
            )
        column = name.partition("[")[0] if name.endswith("]") and "[" in name else name
        settings = {}
        for setting in _SETTINGS[kind]:
            for owner in dict.fromkeys((column, name)):
                value = options.get(f"file-index.{kind}.{owner}.{setting}")
                if value is not None:
                    settings[setting] = _checked(kind, owner, setting, value)
        out.append(
            IndexSpec(kind, column, None if column == name else name[len(column) + 1 : -1], MappingProxyType(settings))
        )
    return out


def _checked(kind: IndexKind, owner: str, setting: str, value: str) -> str:
    if _is_valid(setting, value):
        return value.strip()
    raise OptionError(
        f"The option '{PREFIX}{kind}.{owner}.{setting}' cannot be {value!r}.",
        hint=f"It must be {_SETTINGS[kind][setting]}.",
    )


def _check_key(key: str, found: Sequence[IndexSpec]) -> None:
    """Reject an option that names an unknown kind or setting, or a column without an index."""
    parts = key.split(".")
    if len(parts) != _PARTS and not (len(parts) == _PARTS - 1 and key.endswith(COLUMNS)):
        return
    text, column, setting = parts[1], parts[2], parts[-1]
    if text not in set(IndexKind):
        raise OptionError(
            f"The option '{key}' names the kind of file index '{text}', which does not exist.",
            hint=f"The kinds are {', '.join(IndexKind)}.",
        )
    kind = IndexKind(text)
    if len(parts) != _PARTS:
        return
    if setting not in _SETTINGS[kind]:
        raise OptionError(
            f"The option '{key}' names the setting '{setting}', which the index '{kind}' does not have.",
            hint=f"Its settings are: {', '.join(_SETTINGS[kind]) or 'none'}.",
        )
    if not any(s.kind is kind and column in (s.column, s.name) for s in found):
        raise OptionError(
            f"The option '{key}' is about the column '{column}', which has no index of the kind '{kind}'.",
            hint=f"Name the column in '{PREFIX}{kind}{COLUMNS}' too.",
        )


def _is_valid(setting: str, value: str) -> bool:
    try:
        if setting == "fpp":
            return 0 < float(value) < 1
        if setting == "items":
            return 0 < int(value) < 1 << 31
        if setting == "version":
            return value.strip() in ("1", "2")
        return parse_memory(value) >= (_LEAST_BLOCK if setting == "index-block-size" else 0)
    except (ValueError, OptionError):
        return False


def indexed_type(spec: IndexSpec, fields: Sequence[DataField]) -> DataType | None:
    """Return the type of the indexed values; None if there is no such column, or no map with text keys."""
    found = next((f.type for f in fields if f.name == spec.column), None)
    if spec.map_key is None or found is None:
        return found
    texts = isinstance(found, MapType) and isinstance(found.key, AtomicType) and found.key.root in _TEXTS
    return found.value if isinstance(found, MapType) and texts else None


def check_file_indexes(schema: TableSchema) -> None:
    """Reject indexes that the columns of a table do not allow.

    Raises:
        OptionError: an option has an invalid name or value.
        NotFoundError: there is no such column.
        UnsupportedError: the kind of index does not support the type of the column.
    """
    for spec in index_specs(schema.options):
        option = f"{PREFIX}{spec.kind}{COLUMNS}"
        if spec.column not in schema.field_names:
            raise NotFoundError(
                f"The column '{spec.column}', which the option '{option}' names, does not exist; "
                f"the columns are {', '.join(schema.field_names)}.",
                hint=did_you_mean(spec.column, schema.field_names),
                kind=ErrorKind.COLUMN_NOT_FOUND,
            )
        t = indexed_type(spec, schema.fields)
        if t is None:
            raise UnsupportedError(
                f"The option '{option}' names '{spec.name}', but '{spec.column}' is no map with STRING keys.",
                hint="Name the column without a key, or a map column.",
            )
        if not supports(spec.kind, t):
            shown = atomic_text(t) if isinstance(t, AtomicType) else type(t).__name__.removesuffix("Type").upper()
            others = [k for k in IndexKind if supports(k, t)]
            raise UnsupportedError(
                f"The option '{option}' names '{spec.name}', but the index '{spec.kind}' does not support {shown}.",
                hint=f"Use one of {', '.join(others)} for it."
                if others
                else "Leave the column out: no kind supports it.",
            )
