"""The few table options that file writers obey, read from the plain option map."""

from __future__ import annotations

from collections.abc import Mapping

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.spec.compressions import COMPRESSIONS, compression_of
from paimon_spark.spec.options import parse_memory

DEFAULT_LEVEL = 1


def codec_of(data_format: str, compression: str, names: Mapping[str, str]) -> str:
    """Return the codec of new files as the library that writes them calls it.

    Args:
        data_format: the format of the files.
        compression: value of `file.compression`.
        names: what the library calls otherwise than in capitals.

    Raises:
        UnsupportedError: files of the format cannot be written with it.
    """
    found = compression_of(data_format, compression)
    if found is None:
        raise UnsupportedError(
            f"Files of the format {data_format} are not written with the compression '{compression}'.",
            hint=f"Use one of {', '.join(COMPRESSIONS[data_format])}.",
        )
    return names.get(found, found.upper())


def flag(value: str | None) -> bool:
    """Return a boolean option."""
    text = (value or "false").strip().lower()
    if text in ("true", "false"):
        return text == "true"
    raise OptionError(f"'{value}' is no boolean.", hint="Use true or false.")


def memory(value: str | None, default: int) -> int:
    """Return a size option in bytes."""
    return default if value is None else parse_memory(value)


def compression_level(options: Mapping[str, str]) -> int:
    """Return the level of zstd."""
    value = options.get("file.compression.zstd-level", str(DEFAULT_LEVEL))
    try:
        return int(value)
    except ValueError as e:
        raise OptionError(
            f"'{value}' is no compression level.", hint="Set file.compression.zstd-level to a number."
        ) from e
