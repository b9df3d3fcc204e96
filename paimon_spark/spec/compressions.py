"""Codecs of new data files, by their names in `file.compression`."""

from __future__ import annotations

COMPRESSIONS: dict[str, tuple[str, ...]] = {
    "parquet": ("zstd", "snappy", "gzip", "lz4", "brotli", "none"),
    "orc": ("zstd", "snappy", "gzip", "none"),
    "avro": ("zstd", "gzip", "bzip2", "none"),
}
"""Codecs for writing, by file format."""
IDLE = frozenset({("orc", "lz4")})
"""Codecs that Arrow accepts but does not apply. Existing tables may keep them; new tables cannot use them."""
_SAME = {
    "zstandard": "zstd",
    "zlib": "gzip",
    "deflate": "gzip",
    "lz4_raw": "lz4",
    "uncompressed": "none",
    "null": "none",
}


def compression_of(data_format: str, text: str) -> str | None:
    """Return the codec of that name, or None if files of the format cannot be written with it."""
    name = text.strip().lower()
    name = _SAME.get(name, name)
    return name if name in COMPRESSIONS[data_format] or (data_format, name) in IDLE else None
