"""Filters of rows by Arrow expressions."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc


def matching_rows(rows: pa.Table, expression: pc.Expression) -> pa.Table:
    """Return the rows for which `expression` is true, in their order.

    Equivalent to `pyarrow.Table.filter`, but in this thread: passing the few batches of a chunk to other threads takes
    longer.
    """
    from pyarrow import acero  # imports pandas if it is installed, which most processes do not need

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
    return acero.Declaration("filter", acero.FilterNodeOptions(expression), [source]).to_table(use_threads=False)


def has_match(batches: Iterable[pa.RecordBatch], expression: pc.Expression) -> bool:
    """Return whether `expression` is true for a row of some batches; those after it are not taken."""
    return any(matching_rows(pa.Table.from_batches([batch]), expression).num_rows for batch in batches)
