"""The arguments of a CALL, bound to the parameters of its procedure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paimon_spark.spec.option_checks import validate_options
from paimon_spark.spec.support import Scope, check_given
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
