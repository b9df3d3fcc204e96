"""The arguments of a CALL, bound to the parameters of its procedure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

from paimon_spark.errors import ArgumentError, OptionError, did_you_mean
from paimon_spark.spec.option_checks import validate_options
from paimon_spark.spec.support import Scope, check_given
from paimon_spark.spec.units import parse_duration_ms
from paimon_spark.sqlparse.casts import timestamp_millis
from paimon_spark.sqlparse.options_text import parse_options


@dataclass(frozen=True, slots=True)
class Arguments:
    """Bound values by parameter name, without arguments that were not given; `form` names the positional form used."""

    values: Mapping[str, Any]
    form: str = ""
    dry_run: bool = False

    def text(self, name: str) -> str:
        """Return a required STRING."""
        return str(self.values[name])

    def optional_text(self, name: str) -> str | None:
        """Return a STRING, or None when it was not given."""
        value = self.values.get(name)
        return None if value is None else str(value)

    def integer(self, name: str) -> int | None:
        """Return an INT or BIGINT, or None when it was not given."""
        value = self.values.get(name)
        return None if value is None else int(value)

    def choice(self, name: str, choices: Iterable[str], default: str) -> str:
        """Return the choice that a STRING names in any letter case, or `default` when it was not given.

        Raises:
            ArgumentError: it is none of them.
        """
        given, known = self.optional_text(name) or default, [str(c) for c in choices]
        found = next((c for c in known if c.lower() == given.strip().lower()), None)
        if found is None:
            raise ArgumentError(
                f"{name} is '{given}'; the choices are {', '.join(known)}.", hint=did_you_mean(given, known)
            )
        return found

    def count(self, name: str) -> int | None:
        """Return an INT of 1 or more, or None when it was not given.

        Raises:
            ArgumentError: it is less than 1.
        """
        found = self.integer(name)
        if found is not None and found < 1:
            raise ArgumentError(f"{name} is {found}.", hint="Give 1 or more, or leave it out.")
        return found

    def millis(self, name: str, zone: tzinfo) -> int | None:
        """Return a time as epoch milliseconds, read in `zone`, or None when it was not given.

        Raises:
            ArgumentError: it is not a time.
        """
        text = self.optional_text(name)
        return None if text is None else timestamp_millis(text, zone=zone, parameter=name)

    def duration_ms(self, name: str) -> int | None:
        """Return a duration in milliseconds, or None when it was not given.

        Raises:
            ArgumentError: it is not a duration.
        """
        text = self.optional_text(name)
        try:
            return None if text is None else parse_duration_ms(text)
        except OptionError as e:
            raise ArgumentError(f"In the argument '{name}': {e.message}", hint=e.hint) from None

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a BOOLEAN, or `default` when it was not given."""
        value = self.values.get(name)
        return default if value is None else bool(value)

    def table_options(self, name: str) -> dict[str, str]:
        """Return the table options listed in a STRING; empty when it was not given.

        Raises:
            ArgumentError: the value is not a list of `key=value` pairs.
            OptionError: a key is unknown, its value is invalid, or it does not apply to a CALL.
        """
        options = parse_options(self.optional_text(name) or "", name)
        validate_options(options)
        check_given(options, of="a CALL", scopes=(Scope.WRITE, Scope.CALL))
        return options
