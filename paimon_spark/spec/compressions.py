"""Codecs of new data files and manifests, by their names in `file.compression` and `manifest.compression`."""

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


MANIFEST_COMPRESSIONS = ("zstd", "snappy", "deflate", "bzip2", "xz", "null")
"""Codecs of manifests, by their names in `manifest.compression`; ``null`` does not compress."""


def manifest_codec_of(text: str) -> str | None:
    """Return the Avro name of a codec of manifests, or None if Paimon knows none of that name.

    Only the letters of ``zstd`` may have any case.
    """
    name = text.strip()
    if name.lower() == "zstd":
        return "zstandard"
    return name if name in MANIFEST_COMPRESSIONS or name == "zstandard" else None


def compression_of(data_format: str, text: str) -> str | None:
    """Return the codec of that name, or None if files of the format cannot be written with it."""
    name = text.strip().lower()
    name = _SAME.get(name, name)
    return name if name in COMPRESSIONS[data_format] or (data_format, name) in IDLE else None
