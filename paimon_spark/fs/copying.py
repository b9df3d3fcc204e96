"""Copies of files, within a store or from one to another."""

from __future__ import annotations

from paimon_spark.fs.base import FileIO

_PIECE = 8 << 20


def copy_file(source: FileIO, path: str, target: FileIO, new_path: str) -> int:
    """Copy a file piece by piece, replacing an existing one; return its size in bytes."""
    size = 0
    with source.open_input(path) as given, target.open_output(new_path) as taken:
        while piece := given.read(_PIECE):
            taken.write(piece)
            size += len(piece)
    return size
