"""The few table options that file writers obey, read from the plain option map."""

from __future__ import annotations

from collections.abc import Mapping

from paimon_spark.errors import OptionError
from paimon_spark.spec.options import parse_memory

DEFAULT_LEVEL = 1


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
