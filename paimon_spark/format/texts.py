"""Texts in Arrow arrays, which may hold bytes that are not UTF-8: only a full validation finds them."""

from __future__ import annotations

import pyarrow as pa


def is_valid(column: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether all values of a column, nested ones included, are valid: texts are UTF-8."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
