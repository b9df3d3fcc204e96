"""Validation of options: misspelled names, invalid values, options that contradict each other.

Tables that were created elsewhere may have such options and can still be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from paimon_spark.errors import OptionError
from paimon_spark.spec.option_catalogue import Option, bad_value, check_key, check_value
from paimon_spark.spec.options import POSTPONE_BUCKET, CoreOptions
from paimon_spark.spec.stats import StatsMode
from paimon_spark.spec.time_zones import time_zone
from paimon_spark.spec.units import MAX_INT, parse_memory

STORE_PREFIXES = ("s3.", "s3a.", "fs.s3a.", "hadoop.fs.s3a.")
"""Prefixes of the options for access to a store. They are never stored with a table."""


def validate_options(options: Mapping[str, Any], *, for_create: bool = False) -> None:
    """Reject missing and misspelled names and invalid values.

    A key that is not Paimon's is accepted: it is stored with the table and has no effect here.

    Raises:
        OptionError: the message names the option, the value and the allowed values.
    """
    for key, value in options.items():
        if not key.strip():
            raise OptionError("An option has no name.", hint="Give it a name, or leave it out.")
        _check_no_access(key)
        option = check_key(key)
        if option is not None:
            check_value(key, str(value), option)
            _check_special(option.name, key, str(value))
    if for_create:
        check_together(CoreOptions({k: str(v) for k, v in options.items()}))


def _check_no_access(key: str) -> None:
    if key.strip().lower().startswith(STORE_PREFIXES):
        raise OptionError(
            f"The option '{key}' belongs to the catalog: everyone who can read a table can read its options.",
            hint=f"Set it as spark.sql.catalog.<name>.{key.strip()}.",
        )


def _check_special(name: str, key: str, value: str) -> None:
    number = CoreOptions({name: value}).number
    if name == "bucket" and (number(name) == 0 or number(name) not in _BUCKETS):
        raise OptionError(
            f"The option 'bucket' cannot be {value!r}.",
            hint="It must be a positive number, -1 (dynamic buckets, or none for an append table) or -2 (postpone).",
        )
    if name.endswith(".per.level"):
        _check_levels(key, value)
    if name.endswith("stats-mode"):
        _check_stats_mode(key, value)
    elif name == "metadata.stats-mode.per.level":
        for mode in CoreOptions({key: value}).pairs(name).values():
            _check_stats_mode(key, mode)
    elif (limit := _LIMITS.get(name)) is not None and not limit[0](number(name)):
        raise bad_value(key, value, limit[1])
    elif name in _TIME_ZONES:
        _check_zone(key, value)
    elif name in _AT_LEAST_ONE_BYTE and parse_memory(value) == 0:
        raise bad_value(key, value, "at least 1 byte")
    elif name == "spill-compression":
        _ = CoreOptions({name: value}).spill_compression
    elif key in _SETTINGS_OF_FORMATS:
        check_value(key, value, Option(key, _SETTINGS_OF_FORMATS[key], "format"))
    elif name.endswith("default-name") and not value.strip():
        raise OptionError(f"The option '{key}' cannot be blank.", hint="Leave it out for the default name.")


def _check_levels(key: str, value: str) -> None:
    """Reject ``<level>:<value>`` pairs whose level is no number."""
    for level in CoreOptions({key: value}).pairs(key):
        if not (level.isascii() and level.isdigit()):
            raise bad_value(key, value, "pairs of a level and a value, such as 0:avro,3:parquet")


def _check_zone(key: str, value: str) -> None:
    try:
        time_zone(value)
    except ValueError:
        wanted = "a region such as Europe/Paris, or an offset such as +02:00"
        raise bad_value(key, value, wanted) from None


def _check_stats_mode(key: str, value: str) -> None:
    try:
        StatsMode.parse(value)
    except OptionError as e:
        raise OptionError(
            f"The option '{key}' cannot be {value!r}: it is not a statistics mode.", hint=e.hint
        ) from None


_AT_LEAST_ONE_BYTE = (
    "local-merge-buffer-size",
    "manifest.full-compaction-threshold-size",
    "postpone.target-size-per-bucket",
    "target-file-size",
)
_BUCKETS = range(POSTPONE_BUCKET, MAX_INT)
_TIME_ZONES = ("sink.process-time-zone", "sink.watermark-time-zone")
_SETTINGS_OF_FORMATS = {
    "parquet.block.size": "MemorySize",
    "parquet.page.size": "MemorySize",
    "parquet.delta-encoding": "Boolean",
    "orc.stripe.size": "MemorySize",
}
"""Honoured options among those with the prefix of a file format, with their types."""
_AT_LEAST_ONE = (
    "snapshot.num-retained.min",
    "changelog.num-retained.min",
    "snapshot.expire.limit",
    "num-sorted-run.compaction-trigger",
    "dynamic-bucket.target-row-num",
    "postpone.batch-write-fixed-bucket.max-parallelism",
    "postpone.default-bucket-num",
    "postpone.target-row-num-per-bucket",
    "target-file-row-num",
    "read.batch-size",
)


_LIMITS: Mapping[str, tuple[Callable[[int], bool], str]] = {
    **dict.fromkeys(_AT_LEAST_ONE, (lambda n: n >= 1, "at least 1")),
    **dict.fromkeys(
        ("file.compression.zstd-level", "spill-compression.zstd-level"), (lambda n: 1 <= n <= 22, "from 1 to 22")
    ),
    "num-levels": (lambda n: n >= 2, "at least 2: level 0, and one for sorted files"),
    "dynamic-bucket.max-buckets": (lambda n: n == -1 or n >= 1, "a positive number, or -1 for any number of buckets"),
    "commit.strict-mode.last-safe-snapshot": (lambda n: n >= -1, "the id of a snapshot, or -1"),
}
"""The numbers that an option may have."""


def check_together(options: CoreOptions) -> None:
    """Reject options that are valid individually but contradict each other.

    Raises:
        OptionError: the message names both options.
    """
    for kept in ("snapshot", "changelog"):
        low, least = _kept(options, kept, "min")
        high, most = _kept(options, kept, "max")
        if least > most:
            raise OptionError(
                f"The option '{low}' = {least} is larger than '{high}' = {most}.",
                hint="Lower the first or raise the second.",
            )
    if options.get("scan.fallback-branch") and options.get("scan.primary-branch"):
        raise OptionError(
            "The options 'scan.fallback-branch' and 'scan.primary-branch' contradict each other.",
            hint="Set only one of them.",
        )


def _kept(options: CoreOptions, kept: str, end: str) -> tuple[str, int]:
    """Return the option that limits how many snapshots or changelogs are retained, and its value."""
    own = f"{kept}.num-retained.{end}"
    key = own if options.get(own) is not None else f"snapshot.num-retained.{end}"
    return key, options.number(key)
