"""Avro's container format, written block by block."""

from __future__ import annotations

import bz2
import os
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from paimon_spark.format import zstd
from paimon_spark.format.arrays import I64
from paimon_spark.format.avro.container import SYNC_BYTES, header, number

_Content = bytes | memoryview
BLOCK_BYTES: Final = 64_000
"""The size of a block before compression, as Java writes it: a block ends with the row that reaches it."""


class ContainerOutput:
    """An Avro container that is being written.

    Args:
        out: the file.
        schema: the Avro schema of a record.
        codec: the name of the compression in the header.
        level: the level of zstandard.
    """

    def __init__(self, out: pa.NativeFile, schema: Mapping[str, Any], codec: str, level: int) -> None:
        self._out = out
        self._compress = _codec(codec, level)
        self._sync = os.urandom(SYNC_BYTES)
        self._waiting: list[bytes | memoryview] = []
        self._waiting_rows = 0
        self.waiting_bytes = 0
        """Bytes of the rows of the unfinished block."""
        out.write(header(schema, codec, self._sync))

    def write(self, begins: I64, data: pa.Buffer) -> None:
        """Append records: where each begins in `data`, and where the last one ends."""
        content, rows, row = memoryview(data), len(begins) - 1, 0
        while row < rows:
            room = begins[row] + BLOCK_BYTES - self.waiting_bytes
            end = min(int(np.searchsorted(begins, room, "left")), rows)
            self._waiting.append(content[begins[row] : begins[end]])
            self._waiting_rows += end - row
            self.waiting_bytes += int(begins[end] - begins[row])
            row = end
            if self.waiting_bytes >= BLOCK_BYTES:
                self.end_block()
        self._waiting = [bytes(w) for w in self._waiting]

    def end_block(self) -> None:
        """Write the block of the records that wait for more, if there are any."""
        if not self._waiting_rows:
            return
        block = self._compress(self._waiting[0] if len(self._waiting) == 1 else b"".join(self._waiting))
        self._out.write(number(self._waiting_rows) + number(len(block)))
        self._out.write(block)
        self._out.write(self._sync)
        self._waiting.clear()
        self._waiting_rows = self.waiting_bytes = 0


def _codec(name: str, level: int) -> Callable[[_Content], _Content]:
    if name == "zstandard":
        return lambda data: zstd.compress(data, level)
    if name == "deflate":
        return _deflated
    return bz2.compress if name == "bzip2" else _plain


def _plain(data: _Content) -> _Content:
    return data


def _deflated(data: _Content) -> _Content:
    step = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return step.compress(data) + step.flush()
