"""The codecs of new data files, by the names that `file.compression` may have."""

from __future__ import annotations

COMPRESSIONS: dict[str, tuple[str, ...]] = {
    "parquet": ("zstd", "snappy", "gzip", "lz4", "brotli", "none"),
    "orc": ("zstd", "snappy", "gzip", "none"),
    "avro": ("zstd", "gzip", "bzip2", "none"),
}
"""By the format of the files: what it can be written with. Arrow's ORC writer takes lz4, and compresses nothing."""
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
    return name if name in COMPRESSIONS[data_format] else None
