"""How the rows of a read lie in buckets: Spark then joins and groups them by the bucket key without a shuffle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from paimon_spark.core.table import Table
from paimon_spark.engine.select import SelectPlan
from paimon_spark.spark.shuffle_spec import HashedField, hashed_fields
from paimon_spark.spec.kinds import BucketMode
from paimon_spark.spec.types import AtomicType, DataType, TypeRoot, beyond_micros


@dataclass(frozen=True, slots=True)
class BucketLayout:
    """The message that `BucketLayout` of the bridge reads.

    Attributes:
        buckets: the number of buckets of every partition.
        function: the bucket function.
        fields: the columns of the bucket key.
    """

    buckets: int
    function: str
    fields: tuple[HashedField, ...]


def is_bucketed(table: Table) -> bool:
    """Return whether the bucket of a row is a fixed function of its key."""
    return table.bucket_mode is BucketMode.HASH_FIXED


def bucket_layout(plans: Sequence[SelectPlan]) -> dict[str, object] | None:
    """Return the layout of a read, or None unless the bucket of each row follows from its key alone.

    Partitions of a table may have different numbers of buckets, as have snapshots. Changes, and the rows of other
    branches, have no such layout.
    """
    if len(plans) != 1:
        return None
    plan = plans[0]
    table = plan.table
    if not is_bucketed(table) or plan.changes or plan.keep_kinds:
        return None
    counts = {s.total_buckets for s in plan.splits} or {table.options.bucket}
    buckets = counts.pop()
    if counts or buckets < 1 or any(not 0 <= s.bucket < buckets or s.postponed for s in plan.splits):
        return None
    if any(_equal_in_several_buckets(f.type) for f in table.bucket_key_fields):
        return None
    fields = hashed_fields(table.bucket_key_fields)
    return asdict(BucketLayout(buckets, table.options.bucket_function_type.value, fields))


def _equal_in_several_buckets(t: DataType) -> bool:
    """Return whether equal values in Spark may have several hashes: 0.0 and -0.0, or digits that Spark cuts."""
    return (isinstance(t, AtomicType) and t.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE)) or beyond_micros(t) is not None
