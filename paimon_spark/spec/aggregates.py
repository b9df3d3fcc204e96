"""Options of merge engines: aggregate functions of columns and sequence groups (docs/spec/semantics.md, sections 4, 5).

The options are checked against the columns; `core.merge.aggregates` has the functions themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from paimon_spark.errors import OptionError, did_you_mean, suggestion
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
    has_root,
    type_to_json,
)
from paimon_spark.spec.units import MAX_INT

_PREFIX = "fields."
_SEQUENCE_GROUP = ".sequence-group"
_NULL_STRATEGY = "nested-key-null-strategy"
REMOVE_ON_SEQUENCE_GROUP = "partial-update.remove-record-on-sequence-group"
REMOVE_ON_DELETE = "partial-update.remove-record-on-delete"
AGGREGATION_REMOVE_ON_DELETE = "aggregation.remove-record-on-delete"


class AggregateName(StrEnum):
    """Names of aggregate functions, as in the options."""

    SUM = "sum"
    PRODUCT = "product"
    MAX = "max"
    MIN = "min"
    LAST_VALUE = "last_value"
    LAST_NON_NULL_VALUE = "last_non_null_value"
    FIRST_VALUE = "first_value"
    FIRST_NON_NULL_VALUE = "first_non_null_value"
    LISTAGG = "listagg"
    BOOL_AND = "bool_and"
    BOOL_OR = "bool_or"
    COLLECT = "collect"
    MERGE_MAP = "merge_map"
    MERGE_MAP_WITH_KEYTIME = "merge_map_with_keytime"
    NESTED_UPDATE = "nested_update"
    NESTED_PARTIAL_UPDATE = "nested_partial_update"
    RBM32 = "rbm32"
    RBM64 = "rbm64"
    HLL_SKETCH = "hll_sketch"
    THETA_SKETCH = "theta_sketch"

    @property
    def retractable(self) -> bool:
        """Return whether the function can retract ``-U`` and ``-D`` rows."""
        return self in _RETRACTABLE


_ALIASES = {"first_not_null_value": AggregateName.FIRST_NON_NULL_VALUE}
_RETRACTABLE = frozenset(
    {
        AggregateName.SUM,
        AggregateName.PRODUCT,
        AggregateName.LAST_VALUE,
        AggregateName.LAST_NON_NULL_VALUE,
        AggregateName.COLLECT,
        AggregateName.MERGE_MAP,
        AggregateName.NESTED_UPDATE,
    }
)
_NUMBERS = (
    TypeRoot.TINYINT,
    TypeRoot.SMALLINT,
    TypeRoot.INT,
    TypeRoot.BIGINT,
    TypeRoot.FLOAT,
    TypeRoot.DOUBLE,
    TypeRoot.DECIMAL,
)
_MAX_LENGTH = MAX_INT
_UNLIMITED = MAX_INT
_UNORDERED = (TypeRoot.VARIANT, TypeRoot.BLOB)


MERGE_NULLS = "merge"
REFUSE_NULLS = "error"
"""What happens to rows of nested tables whose nested key has a null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateOptions:
    """The aggregate function of a column and its options."""

    function: AggregateName
    ignore_retract: bool = False
    distinct: bool = False
    delimiter: str = ","
    nested_key: tuple[str, ...] = ()
    nested_key_null_strategy: str = MERGE_NULLS
    nested_sequence: tuple[str, ...] = ()
    count_limit: int = _UNLIMITED
    ts_field: str | None = None


@dataclass(frozen=True, slots=True)
class SequenceGroupOptions:
    """A sequence group: the sequence fields, the columns that they order, and whether its ``-D`` deletes the row."""

    key: str
    sequence: tuple[str, ...]
    columns: tuple[str, ...]
    removes_record: bool = False


def sequence_groups(
    options: CoreOptions, fields: Sequence[DataField], key: Sequence[str]
) -> list[SequenceGroupOptions]:
    """Return the sequence groups of a table, in the order of their first column.

    Args:
        options: the options of the table.
        fields: its columns.
        key: its primary key.

    Raises:
        OptionError: a group names an unknown or a key column, or two groups name one column.
    """
    names = [f.name for f in fields]
    removing = options.remove_record_on_sequence_group
    groups: list[SequenceGroupOptions] = []
    owner: dict[str, str] = {}
    for option in options.values:
        if not (option.startswith(_PREFIX) and option.endswith(_SEQUENCE_GROUP)):
            continue
        text = option[len(_PREFIX) : -len(_SEQUENCE_GROUP)]
        sequence = tuple(n.strip() for n in text.split(",") if n.strip())
        columns = options.names(f"fields.{text}.sequence-group")
        if not sequence or not columns:
            raise OptionError(f"The option '{option}' needs a sequence field in its name, and columns as its value.")
        for name in (*sequence, *columns):
            _check_group_column(option, name, names, key)
        for f in (f for f in fields if f.name in sequence and not _is_ordered(f.type)):
            raise OptionError(
                f"The option '{option}' orders by the column '{f.name}' of type {type_to_json(f.type)}, which has no "
                "order.",
                hint="Name columns of atomic types.",
            )
        for name in dict.fromkeys((*sequence, *columns)):
            if name in owner:
                raise OptionError(
                    f"The column '{name}' is in two sequence groups: '{owner[name]}' and '{option}'.",
                    hint="Name each column in one sequence group only.",
                )
            owner[name] = option
        removes = any(name in removing for name in sequence)
        groups.append(SequenceGroupOptions(option, sequence, tuple(c for c in columns if c not in sequence), removes))
    unknown = [name for name in removing if not any(name in g.sequence for g in groups)]
    if unknown:
        raise OptionError(
            f"The option '{REMOVE_ON_SEQUENCE_GROUP}' names '{unknown[0]}', which is not a field of a sequence group.",
            hint=suggestion(unknown[0], [name for g in groups for name in g.sequence])
            or "Define the group first: 'fields.<sequence column>.sequence-group'.",
        )
    return sorted(groups, key=lambda g: min(names.index(n) for n in (*g.sequence, *g.columns)))


def _check_group_column(option: str, name: str, names: Sequence[str], key: Sequence[str]) -> None:
    if name not in names:
        raise OptionError(
            f"The option '{option}' names the column '{name}', which does not exist.", hint=suggestion(name, names)
        )
    if name in key:
        raise OptionError(
            f"The option '{option}' names '{name}', a column of the primary key.",
            hint="Sequence groups order the other columns only.",
        )


def aggregate_options(
    options: CoreOptions, field: DataField, default: AggregateName | None = None
) -> AggregateOptions | None:
    """Return the aggregate function of a column by its own option or that for all columns, else `default`.

    Raises:
        OptionError: the function is unknown, does not take the column's type, or one of its options is wrong.
    """
    key, name = f"fields.{field.name}.aggregate-function", field.name
    text = options.get(f"fields.{name}.aggregate-function")
    if text is None:
        key, text = "fields.default-aggregate-function", options.get("fields.default-aggregate-function") or default
    if text is None:
        return None
    limit = options.number_or_none(f"fields.{name}.count-limit")
    delimiter = options.raw(f"fields.{name}.list-agg-delimiter")
    found = AggregateOptions(
        function=_function(key, text),
        ignore_retract=options.flag(f"fields.{name}.ignore-retract"),
        distinct=options.flag(f"fields.{name}.distinct"),
        delimiter="," if delimiter is None else delimiter,
        nested_key=options.names(f"fields.{name}.nested-key"),
        nested_key_null_strategy=options.word(f"fields.{name}.nested-key-null-strategy") or MERGE_NULLS,
        nested_sequence=options.names(f"fields.{name}.nested-sequence-field"),
        count_limit=_UNLIMITED if limit is None else limit,
        ts_field=options.get(f"fields.{name}.ts-field"),
    )
    _check_type(key, field, found)
    _check_members(field, found, has_null_strategy=options.is_set(f"fields.{name}.nested-key-null-strategy"))
    return found


def _function(key: str, text: str) -> AggregateName:
    name = text.strip()
    try:
        return _ALIASES.get(name) or AggregateName(name)
    except ValueError:
        raise OptionError(
            f"The option '{key}' names '{text}', which is not an aggregate function.",
            hint=did_you_mean(name, AggregateName) or f"Choose one of {', '.join(AggregateName)}.",
        ) from None


def _is_number(t: DataType) -> bool:
    return has_root(t, _NUMBERS)


def _is_ordered(t: DataType) -> bool:
    return isinstance(t, AtomicType) and t.root not in _UNORDERED


def _among(*roots: TypeRoot) -> Callable[[DataType], bool]:
    return lambda t: has_root(t, roots)


def _is_text(t: DataType) -> bool:
    return isinstance(t, AtomicType) and t.root is TypeRoot.VARCHAR and t.length == _MAX_LENGTH


def _is_array_of_rows(t: DataType) -> bool:
    return isinstance(t, ArrayType) and isinstance(t.element, RowType)


def _is_map_of_rows(t: DataType) -> bool:
    return isinstance(t, MapType) and isinstance(t.value, RowType) and len(t.value.fields) > 1


_NUMBER = (_is_number, "numbers")
_ORDERED = (_is_ordered, "columns of an atomic type that has an order")
_BOOLEAN = (_among(TypeRoot.BOOLEAN), "BOOLEAN columns")
_BYTES = (_among(TypeRoot.VARBINARY), "VARBINARY columns")
_ROWS = (_is_array_of_rows, "columns of type ARRAY<ROW>")
_TYPES: dict[AggregateName, tuple[Callable[[DataType], bool], str]] = {
    AggregateName.SUM: _NUMBER,
    AggregateName.PRODUCT: _NUMBER,
    AggregateName.MAX: _ORDERED,
    AggregateName.MIN: _ORDERED,
    AggregateName.LISTAGG: (_is_text, "STRING columns"),
    AggregateName.BOOL_AND: _BOOLEAN,
    AggregateName.BOOL_OR: _BOOLEAN,
    AggregateName.COLLECT: (lambda t: isinstance(t, ArrayType), "ARRAY columns"),
    AggregateName.MERGE_MAP: (lambda t: isinstance(t, MapType), "MAP columns"),
    AggregateName.MERGE_MAP_WITH_KEYTIME: (_is_map_of_rows, "columns of type MAP<…, ROW> with at least two members"),
    AggregateName.NESTED_UPDATE: _ROWS,
    AggregateName.NESTED_PARTIAL_UPDATE: _ROWS,
    AggregateName.RBM32: _BYTES,
    AggregateName.RBM64: _BYTES,
    AggregateName.HLL_SKETCH: _BYTES,
    AggregateName.THETA_SKETCH: _BYTES,
}
"""The types that a function takes, and their name; the other functions take all."""


def _check_type(key: str, field: DataField, options: AggregateOptions) -> None:
    accepts = _TYPES.get(options.function)
    if accepts is not None and not accepts[0](field.type):
        raise OptionError(
            f"The aggregate function '{options.function}' does not take the column '{field.name}' of type "
            f"{type_to_json(field.type)}.",
            hint=f"It takes {accepts[1]}. Choose another function in '{key}'.",
        )


def _check_members(field: DataField, options: AggregateOptions, *, has_null_strategy: bool) -> None:
    own = f"{_PREFIX}{field.name}."
    if options.function is AggregateName.NESTED_PARTIAL_UPDATE and not options.nested_key:
        raise OptionError(f"The aggregate function 'nested_partial_update' needs the option '{own}nested-key'.")
    for option, is_set in (("nested-sequence-field", options.nested_sequence), (_NULL_STRATEGY, has_null_strategy)):
        if is_set and not options.nested_key:
            raise OptionError(f"The option '{own}{option}' needs '{own}nested-key'.")
    members = _members(field.type)
    named = [("nested-key", n) for n in options.nested_key] + [
        ("nested-sequence-field", n) for n in options.nested_sequence
    ]
    if options.ts_field is not None:
        named.append(("ts-field", options.ts_field))
    for option, name in named:
        if name not in members:
            raise OptionError(
                f"The option '{own}{option}' names '{name}', which is not a member of the column '{field.name}'.",
                hint=suggestion(name, list(members)),
            )
    for name in options.nested_sequence:
        if not _is_ordered(members[name]):
            raise OptionError(
                f"The option '{own}nested-sequence-field' names '{name}' of type {type_to_json(members[name])}.",
                hint="Name members of an atomic type that has an order.",
            )
    if options.function is AggregateName.MERGE_MAP_WITH_KEYTIME:
        time = time_member(field, options)
        if not _among(TypeRoot.CHAR, TypeRoot.VARCHAR)(members[time]):
            raise OptionError(
                f"The time '{time}' of the column '{field.name}' has the type {type_to_json(members[time])}.",
                hint=f"Times are compared as text: name a STRING member in '{own}ts-field'.",
            )


def time_member(field: DataField, options: AggregateOptions) -> str:
    """Return the member with the time of a ``merge_map_with_keytime`` column, by default the last one."""
    return options.ts_field or list(_members(field.type))[-1]


def _members(t: DataType) -> dict[str, DataType]:
    """Return the members of the rows in an array or map."""
    row = t.element if isinstance(t, ArrayType) else t.value if isinstance(t, MapType) else None
    return {f.name: f.type for f in row.fields} if isinstance(row, RowType) else {}
