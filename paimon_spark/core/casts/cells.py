"""Helpers that all casts share: conversion to and from NumPy, parsing by pattern, processing by group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.format.arrays import I64, Mask

BLANKS = r"[\x00-\x20]*"
"""The characters that Java's `String.trim` removes."""


def valid_mask(column: pa.Array) -> Mask:
    """Return where `column` has a value."""
    return np.asarray(column.is_valid())


def from_numpy(values: npt.NDArray[Any], arrow: pa.DataType, like: pa.Array) -> pa.Array:
    """Return `values` as a column of type `arrow` that is null where `like` is."""
    mask = None if like.null_count == 0 else ~valid_mask(like)
    return (
        pa.array(values, mask=mask).view(arrow) if pa.types.is_temporal(arrow) else pa.array(values, arrow, mask=mask)
    )


def refuse(column: pa.Array, bad: pa.Array | Mask, what: str) -> None:
    """Raise ValueError with the first value of `column` for which `bad` is true, if any."""
    mask = np.asarray(pc.fill_null(bad, False)) if isinstance(bad, pa.Array) else bad  # noqa: FBT003
    if mask.any():
        raise ValueError(f"{_shown(column, int(mask.argmax()))} is not {what}")


def _shown(column: pa.Array, at: int) -> str:
    """Return the text of one value. Arrow formats dates and times: Python supports only the years 1 to 9999."""
    value = column.slice(at, 1)
    if not pa.types.is_temporal(column.type):
        return repr(value[0].as_py())
    text = str(value.cast(pa.string())[0].as_py())
    return str(value.view(f"int{column.type.bit_width}")[0].as_py()) if text.startswith("<") else text


def parsed(column: pa.Array, pattern: str, what: str) -> dict[str, pa.Array]:
    """Return the named groups of `pattern` for each text: empty if a group did not match, null if the text is null.

    Raises:
        ValueError: a text does not match.
    """
    found = pc.extract_regex(column, pattern)
    refuse(column, pc.and_(found.is_null(), column.is_valid()), what)
    return {found.type.field(i).name: pc.struct_field(found, [i]) for i in range(found.type.num_fields)}


def whole_numbers(texts: pa.Array, default: int = 0) -> I64:
    """Return texts of up to 18 digits as integers; `default` for empty texts and nulls."""
    given = pc.fill_null(texts, "")
    filled = pc.if_else(pc.equal(given, ""), str(default), pc.utf8_ltrim(given, "+"))
    return np.asarray(filled.cast(pa.int64()))


def in_groups(groups: I64, columns: list[pa.Array], make: Callable[[int, list[pa.Array]], pa.Array]) -> pa.Array:
    """Apply `make` to the rows of each group and return the results in row order; without rows, to one empty group."""
    order = np.argsort(groups, kind="stable")
    ordered = [c.take(pa.array(order)) for c in columns]
    names, starts = np.unique(groups[order], return_index=True)
    if not len(names):
        return make(0, columns)
    stops = [*starts[1:], len(order)]
    parts = [
        make(int(name), [c.slice(int(start), int(stop) - int(start)) for c in ordered])
        for name, start, stop in zip(names, starts, stops, strict=True)
    ]
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_arrays(parts).take(pa.array(back))
