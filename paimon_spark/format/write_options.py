"""The table options that file writers apply, parsed from the plain option map."""

from __future__ import annotations

from collections.abc import Mapping

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.spec.compressions import COMPRESSIONS, compression_of
from paimon_spark.spec.units import parse_memory

DEFAULT_LEVEL = 1


def codec_of(data_format: str, compression: str, names: Mapping[str, str]) -> str:
    """Return the writing library's name of the codec for new files.

    Args:
        data_format: format of the files.
        compression: value of `file.compression`.
        names: library names that are not the upper-case name.

    Raises:
        UnsupportedError: the format does not support the compression.
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
    raise OptionError(f"'{value}' is not a boolean.", hint="Use true or false.")


def memory(value: str | None, default: int) -> int:
    """Return a size option in bytes."""
    return default if value is None else parse_memory(value)


def compression_level(options: Mapping[str, str]) -> int:
    """Return the zstd level."""
    value = options.get("file.compression.zstd-level", str(DEFAULT_LEVEL))
    try:
        return int(value)
    except ValueError as e:
        raise OptionError(
            f"'{value}' is not a compression level.", hint="Set file.compression.zstd-level to a number."
        ) from e
