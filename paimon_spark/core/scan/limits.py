"""Limits: the splits, and their files, that suffice for a number of rows.

(docs/spec/semantics.md, R9, R18)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paimon_spark.core.scan.splits import Split, known_rows


def least_rows(split: Split) -> int:
    """Return the minimum number of rows of a split.

    A key occurs once in a file. Without retracts each key has a merged row: there are as many as in the largest file.
    """
    if split.row_count is not None:
        return split.row_count
    merges = not (split.unmerged or split.difference or split.vectors or split.postponed)
    if not merges or any(f.delete_row_count != 0 for f in split.files):
        return 0
    return max((f.row_count for f in split.files), default=0)


def enough_splits(splits: Sequence[Split], limit: int) -> Sequence[Split]:
    """Return splits with at least `limit` rows, or all if their numbers of rows are unknown.

    Splits with a known number of rows come first, and the last of them has only the files that are needed.
    """
    rows, out = 0, list[Split]()
    for split in sorted(splits, key=lambda s: s.row_count is None):
        if rows >= limit:
            break
        out.append(_leading_files(split, limit - rows))
        rows += least_rows(out[-1])
    return out


def _leading_files(split: Split, limit: int) -> Split:
    """Return a split with the leading files that suffice for `limit` rows, if they need no merge."""
    counted = split.row_count is not None and split.raw and split.difference is None
    if not counted or split.row_count != known_rows(split.files, split.vectors):
        return split
    files, rows = [], 0
    for i, file in enumerate(split.files):
        if rows >= limit:
            break
        files.append(file)
        rows += known_rows((file,), (split.vector_of(i),)) or 0
    if len(files) == len(split.files):
        return split
    return replace(split, files=tuple(files), vectors=split.vectors[: len(files)], row_count=rows)
