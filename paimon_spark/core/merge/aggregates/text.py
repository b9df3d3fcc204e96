"""The aggregate function listagg: texts joined by a delimiter."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.core.arrow import string_parts
from paimon_spark.core.merge.aggregates.elements import (
    Cells,
    counts_of,
    element_index,
    list_array,
    list_bounds,
)
from paimon_spark.core.merge.aggregates.inputs import Inputs, in_fold_order
from paimon_spark.core.merge.aggregates.value_codes import valid_mask, value_codes
from paimon_spark.core.merge.key_groups import nullable_positions
from paimon_spark.format.arrays import I64, Mask
from paimon_spark.spec.paths import JAVA_BLANKS

_SPACE = 0x20
_ASCII = 0x80
_TEXTS = pa.list_(pa.string())


class ListAgg:
    """Joins the inputs that are not blank. If distinct, it joins the delimited words of them that are new.

    The first input stays as it is. Words are those of the inputs, also where a word together with the delimiter
    contains the delimiter once more; an empty delimiter splits inputs at spaces.
    """

    def __init__(self, delimiter: str, *, distinct: bool) -> None:
        self._delimiter = delimiter
        self._distinct = distinct

    def __call__(self, inputs: Inputs) -> pa.Array:
        """Return the text of each key; null if all inputs are null or blank."""
        folded = in_fold_order(inputs)
        values = folded.values
        counts = ~is_blank(values)
        keys = folded.keys[counts]
        texts = values if counts.all() else values.filter(pa.array(counts))
        if self._distinct and len(texts):
            texts, keys = self._new_words(texts, keys)
        lengths = counts_of(keys, len(inputs.starts))
        lists = list_array(_TEXTS, lengths, texts, lengths > 0)
        joined = pc.binary_join(lists, pa.scalar(self._delimiter, pa.string()))
        if joined.null_count and (inputs.late is not None or inputs.preset is not None):
            joined = pc.coalesce(joined, inputs.column.take(nullable_positions(_blank_results(inputs))))
        return joined

    def _new_words(self, texts: pa.Array, keys: I64) -> tuple[pa.Array, I64]:
        """Return the first text of each key and then the words that are new in it, and the keys of all these."""
        heads = np.ones(len(keys), dtype=np.bool_)
        heads[1:] = keys[1:] != keys[:-1]
        split = pc.split_pattern(texts, self._delimiter or " ")
        starts, lengths = list_bounds(split)
        words = split.values.take(pa.array(element_index(starts, lengths)))
        word_keys = np.repeat(keys, lengths)
        cells = Cells(word_keys, value_codes(words))
        new = np.zeros(len(words), dtype=np.bool_)
        new[cells.order[cells.starts]] = True
        new &= ~np.repeat(heads, lengths) & ~is_blank(words)
        all_keys = np.concatenate([keys[heads], word_keys[new]])
        order = np.argsort(all_keys, kind="stable")
        parts = pa.concat_arrays([texts.filter(pa.array(heads)), words.filter(pa.array(new))])
        return parts.take(pa.array(order)), all_keys[order]


def is_blank(values: pa.Array) -> Mask:
    """Return which texts are null, empty or nothing but whitespace."""
    blank = ~valid_mask(values)
    starts, lengths, raw = string_parts(values)
    if not len(raw):
        return blank | (lengths == 0)
    first = raw[np.minimum(starts, len(raw) - 1)]
    blank |= lengths == 0
    maybe = np.flatnonzero(~blank & ((first <= _SPACE) | (first >= _ASCII)))
    if len(maybe):
        trimmed = pc.utf8_ltrim(values.take(pa.array(maybe)), characters=JAVA_BLANKS)
        blank[maybe] = np.asarray(pc.equal(pc.binary_length(trimmed), 0))
    return blank


def _blank_results(inputs: Inputs) -> I64:
    """Return the value of keys without a text: the last late input, else the preset one, as blank as they are."""
    index = np.full(len(inputs.starts), -1, dtype=np.int64)
    if inputs.preset is not None:
        index = inputs.last_where(inputs.preset)
    if inputs.late is not None:
        late = inputs.last_where(inputs.late)
        index = np.where(late < 0, index, late)
    return inputs.picked(index)
