"""Scan modes of batch reads: which option determines where a read starts (docs/spec/semantics.md, section 11)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from paimon_spark.core.table import CHANGE_OPTIONS, START_OPTIONS
from paimon_spark.errors import OptionError
from paimon_spark.spec.options import CoreOptions

DEFAULT = "default"
COMPACTED_FULL = "compacted-full"
_NEWEST = ("latest-full", "full", "latest")
_OPTIONS_OF = {
    "from-timestamp": ("scan.timestamp", "scan.timestamp-millis"),
    "from-snapshot": ("scan.snapshot-id", "scan.tag-name", "scan.watermark", "scan.version"),
    "from-snapshot-full": ("scan.snapshot-id",),
    "from-file-creation-time": ("scan.file-creation-time-millis",),
    "from-creation-timestamp": ("scan.creation-time-millis",),
    "incremental": CHANGE_OPTIONS,
}


@dataclass(frozen=True, slots=True)
class ScanStart:
    """The start of a read: the value of an option; without one, the newest snapshot.

    `compacted`: at the newest snapshot of a compaction.
    """

    option: str | None = None
    value: str = ""
    compacted: bool = False

    @property
    def reads_changes(self) -> bool:
        """Return whether changes are read, rather than a state of the table."""
        return self.option in CHANGE_OPTIONS

    def number(self) -> int:
        """Return the value as an integer.

        Raises:
            OptionError: it is not one.
        """
        try:
            return int(self.value)
        except ValueError as e:
            raise OptionError(
                f"The option '{self.option}' holds '{self.value}', which is not a number.", hint="Give an integer."
            ) from e


def scan_start(options: CoreOptions) -> ScanStart:
    """Return where a read with these options starts.

    Raises:
        OptionError: the options contradict each other.
    """
    texts = {k: (options.get(k) or "").strip() for k in START_OPTIONS}
    given = {k: v for k, v in texts.items() if v}
    if len(given) > 1:
        raise OptionError(
            f"The options {_list(given)} exclude each other.",
            hint="Set only one of them.",
        )
    mode = options.word("scan.mode").lower()
    _check_mode(mode, given)
    for key, value in given.items():
        return ScanStart(key, value)
    return ScanStart(compacted=mode == COMPACTED_FULL)


def _check_mode(mode: str, given: dict[str, str]) -> None:
    if mode in _OPTIONS_OF:
        wanted = _OPTIONS_OF[mode]
        foreign = [k for k in given if k not in wanted]
        if foreign or not given:
            raise OptionError(
                f"The scan mode '{mode}' needs one of the options {_list(wanted)}"
                + (f" and excludes {_list(foreign)}." if foreign else "."),
                hint="Set it, or leave 'scan.mode' out.",
            )
    elif mode in (*_NEWEST, COMPACTED_FULL):
        if given:
            raise OptionError(
                f"The scan mode '{mode}' excludes the option {_list(given)}.",
                hint="Leave 'scan.mode' out.",
            )
    elif mode != DEFAULT:
        raise OptionError(
            f"The option 'scan.mode' holds '{mode}', which is not a scan mode.",
            hint=f"Use one of {', '.join([DEFAULT, *_NEWEST, COMPACTED_FULL, *_OPTIONS_OF])}.",
        )


def _list(keys: Iterable[str]) -> str:
    return ", ".join(f"'{k}'" for k in keys)
