"""Access to options by name. They are kept as text, and parsed when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paimon_spark.spec.option_catalogue import INFINITE, check_value, find_option, known_options
from paimon_spark.spec.units import MAX_INT, MAX_LONG, parse_duration_ms, parse_memory


@dataclass(frozen=True, slots=True)
class OptionValues:
    """Options; `values` contains those that were set, as text."""

    values: Mapping[str, str]

    def get(self, key: str) -> str | None:
        """Return the text of an option, set by its name or an alias; otherwise its default."""
        value = self.values.get(key)
        if value is not None:
            return value
        option = known_options().get(key)
        if option is None:
            return None
        for alias in option.aliases:
            if alias in self.values:
                return self.values[alias]
        return option.default

    def raw(self, key: str) -> str | None:
        """Return the text of an option with its spaces, or None if it is not set."""
        return self.values.get(key)

    def is_set(self, key: str) -> bool:
        """Return whether the option is set, by its name or an alias."""
        option = find_option(key)
        return key in self.values or (option is not None and any(a in self.values for a in option.aliases))

    def flag(self, key: str) -> bool:
        """Return a boolean."""
        return self._checked(key, "false").lower() == "true"

    def number(self, key: str) -> int:
        """Return an integer; ``infinite`` is the largest one."""
        text = self._checked(key, "0")
        if text.lower() != INFINITE:
            return int(text)
        option = find_option(key)
        return MAX_INT if option is None or option.type == "Integer" else MAX_LONG

    def number_or_none(self, key: str) -> int | None:
        """Return an integer, or None if it is not set and has no default."""
        return None if self.get(key) is None else self.number(key)

    def fraction(self, key: str) -> float:
        """Return a floating point number."""
        return float(self._checked(key, "0"))

    def memory(self, key: str) -> int:
        """Return a size in bytes."""
        return parse_memory(self._checked(key, "0"))

    def memory_or_none(self, key: str) -> int | None:
        """Return a size in bytes, or None if it is not set and has no default."""
        return None if self.get(key) is None else self.memory(key)

    def duration_ms(self, key: str) -> int:
        """Return a duration in milliseconds."""
        return parse_duration_ms(self._checked(key, "0"))

    def duration_ms_or_none(self, key: str) -> int | None:
        """Return a duration in milliseconds, or None if it is not set and has no default."""
        return None if self.get(key) is None else self.duration_ms(key)

    def names(self, key: str) -> tuple[str, ...]:
        """Return a comma-separated list."""
        return tuple(part.strip() for part in (self.get(key) or "").split(",") if part.strip())

    def word(self, key: str) -> str:
        """Return a text; values of enumerations are in the spelling of the catalogue."""
        text = self._checked(key, "")
        option = find_option(key)
        return next((v for v in option.values if v.lower() == text.lower()), text) if option else text

    def pairs(self, key: str) -> dict[str, str]:
        """Return a map written as ``k:v,k2:v2``."""
        parts = (part.partition(":") for part in self._checked(key, "").split(",") if part.strip())
        return {k.strip(): v.strip() for k, _, v in parts}

    def _checked(self, key: str, absent: str) -> str:
        text = self.get(key)
        if text is None:
            return absent
        option = find_option(key)
        if option is not None:
            check_value(key, text, option)
        return text.strip()
