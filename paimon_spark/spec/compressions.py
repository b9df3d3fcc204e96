"""The codecs of new data files, by the names that `file.compression` may have."""

from __future__ import annotations

COMPRESSIONS: dict[str, tuple[str, ...]] = {
    "parquet": ("zstd", "snappy", "gzip", "lz4", "brotli", "none"),
    "orc": ("zstd", "snappy", "gzip", "none"),
    "avro": ("zstd", "gzip", "bzip2", "none"),
}
"""By the format of the files: what they can be written with."""
IDLE = frozenset({("orc", "lz4")})
"""What Arrow writes without compressing anything. Tables that have it may keep it, but no table gets it."""
_SAME = {
    "zstandard": "zstd",
    "zlib": "gzip",
    "deflate": "gzip",
    "lz4_raw": "lz4",
    "uncompressed": "none",
    "null": "none",
}


def compression_of(data_format: str, text: str) -> str | None:
    """Return the codec of that name, or None where files of a format cannot be written with it."""
    name = text.strip().lower()
    name = _SAME.get(name, name)
    return name if name in COMPRESSIONS[data_format] or (data_format, name) in IDLE else None
