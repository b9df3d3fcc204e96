"""The aggregate functions by name: supported types, support of retracts, and construction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from paimon_spark.core.merge.aggregates import bitmaps, picks, sketches
from paimon_spark.core.merge.aggregates.collect import Collect
from paimon_spark.core.merge.aggregates.inputs import AggregateFunction, Inputs, spread
from paimon_spark.core.merge.aggregates.maps import MergeMapWithKeyTime, merge_map
from paimon_spark.core.merge.aggregates.nested import NestedPartialUpdate, NestedUpdate
from paimon_spark.core.merge.aggregates.numbers import Product, Sum
from paimon_spark.core.merge.aggregates.text import ListAgg
from paimon_spark.core.merge.key_groups import Merged
from paimon_spark.errors import ErrorKind, UnsupportedError
from paimon_spark.spec.aggregates import AggregateName, AggregateOptions, time_member
from paimon_spark.spec.types import DataField

Build: TypeAlias = Callable[[DataField, AggregateOptions], AggregateFunction]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """The aggregate function of one column.

    Attributes:
        column: name of the column.
        options: the function's name and options.
        function: its implementation.
    """

    column: str
    options: AggregateOptions
    function: AggregateFunction

    def __call__(self, inputs: Inputs) -> Merged:
        """Return one value per key.

        Raises:
            UnsupportedError: an input is a retract, and the function has none.
        """
        if inputs.retract is None:
            return self.function(inputs)
        if self.options.ignore_retract:
            return self._without_retracts(inputs)
        if not self.options.function.retractable:
            name = self.options.function
            raise UnsupportedError(
                f"The aggregate function '{name}' of column '{self.column}' cannot take back -U and -D rows.",
                hint=f"Set 'fields.{self.column}.ignore-retract' = 'true' to ignore them for this column.",
                kind=ErrorKind.RETRACT_NOT_SUPPORTED,
            )
        return self.function(inputs)

    def _without_retracts(self, inputs: Inputs) -> Merged:
        part, keys = inputs.where(~inputs.retracted)
        return spread(self(replace(part, retract=None)), keys, len(inputs.starts))


_BUILD: dict[AggregateName, Build] = {
    AggregateName.LAST_VALUE: lambda _f, _o: picks.last_value,
    AggregateName.LAST_NON_NULL_VALUE: lambda _f, _o: picks.last_non_null_value,
    AggregateName.FIRST_VALUE: lambda _f, _o: picks.first_value,
    AggregateName.FIRST_NON_NULL_VALUE: lambda _f, _o: picks.first_non_null_value,
    AggregateName.MAX: lambda f, _: picks.Extreme(f, largest=True),
    AggregateName.MIN: lambda f, _: picks.Extreme(f, largest=False),
    AggregateName.BOOL_AND: lambda f, _: picks.Extreme(f, largest=False),
    AggregateName.BOOL_OR: lambda f, _: picks.Extreme(f, largest=True),
    AggregateName.SUM: lambda f, _: Sum(f),
    AggregateName.PRODUCT: lambda f, _: Product(f),
    AggregateName.LISTAGG: lambda _, o: ListAgg(o.delimiter, distinct=o.distinct),
    AggregateName.COLLECT: lambda _, o: Collect(distinct=o.distinct),
    AggregateName.MERGE_MAP: lambda _f, _o: merge_map,
    AggregateName.MERGE_MAP_WITH_KEYTIME: lambda f, o: MergeMapWithKeyTime(time_member(f, o)),
    AggregateName.NESTED_UPDATE: NestedUpdate,
    AggregateName.NESTED_PARTIAL_UPDATE: NestedPartialUpdate,
    AggregateName.RBM32: lambda f, _: bitmaps.rbm32_union(f),
    AggregateName.RBM64: lambda f, _: bitmaps.rbm64_union(f),
    AggregateName.HLL_SKETCH: lambda f, _: sketches.hll_union(f),
    AggregateName.THETA_SKETCH: lambda f, _: sketches.theta_union(f),
}


def build_aggregate(field: DataField, options: AggregateOptions) -> Aggregate:
    """Return the aggregate function of a column."""
    return Aggregate(field.name, options, _BUILD[options.function](field, options))
