"""`DataFrame.mapInArrow` without PySpark's own wrapper.

That wrapper builds its function by `pandas_udf`, which imports pandas: more than a second of every first statement, for
a package that is not used here. The function is built directly instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from paimon_spark.spark.executor.task_watchdog import Watched
from paimon_spark.spark.jvm_frames import jvm_frames
from paimon_spark.spec.quoted_text import quoted_name

BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def map_in_arrow(frame: DataFrame, function: BatchFunction, schema: StructType | str) -> DataFrame:
    """Return the batches that `function` yields for those of each partition of `frame`, divided into rows.

    Args:
        frame: the input, which must have a column: without one, its number of rows would be lost.
        function: runs on the executors, once per task.
        schema: columns of the batches it yields.
    """
    return DataFrame(jvm_frames().describe(_mapped(frame, function, schema)), frame.sparkSession)


def read_in_arrow(splits: DataFrame, function: BatchFunction, schema: StructType | str) -> DataFrame:
    """Return the batches that `function` yields for the splits of a `text_frame`, not divided into rows."""
    return DataFrame(jvm_frames().workerBatches(_mapped(splits, function, schema)), splits.sparkSession)


def _mapped(frame: DataFrame, function: BatchFunction, schema: StructType | str) -> Any:
    kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    call = UserDefinedFunction(Watched(function), returnType=schema, evalType=kind)
    column = call(*(frame[quoted_name(name)] for name in frame.columns))
    barrier = False
    return frame._jdf.mapInArrow(column._jc, barrier, None)
