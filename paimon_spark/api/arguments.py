"""Validation and normalization of arguments of public methods.

Public methods are decorated with `checked`, which applies a rule to each argument, chosen by the argument's name. An
invalid argument raises one ArgumentError with its name, its value and the accepted values, before any other work.
"""

from __future__ import annotations

import inspect
import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from paimon_spark.errors import ArgumentError

_P = ParamSpec("_P")
_R = TypeVar("_R")
Names = str | Iterable[str] | None
"""Columns: one, several, or none."""
Moment = datetime | date | str | int
"""A point in time: a datetime, a date, a string such as ``2026-01-31 12:00:00``, epoch milliseconds. Default zone:
UTC."""
Options = Mapping[str, Any] | None
"""Options; numbers and booleans are converted to text."""
Rule = Callable[[Any, str], Any]
_LONGEST = 60
_LARGEST = (1 << 63) - 1


def checked(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Validate the arguments of a function by the rules for their names.

    Raises:
        ArgumentError: on call, if an argument is invalid.
    """
    signature = inspect.signature(method)
    rules = {name: RULES[name] for name in signature.parameters if name in RULES}
    optional = {name for name in rules if signature.parameters[name].default is None}

    @wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as e:
            raise TypeError(f"{method.__name__}() {e}") from None
        for name, value in bound.arguments.items():
            if name in rules and not (value is None and name in optional):
                bound.arguments[name] = rules[name](value, name)
        return method(*bound.args, **bound.kwargs)

    return call


def text(value: Any, name: str) -> str:
    """Return a string."""
    if not isinstance(value, str):
        raise _refused(value, name, "a string")
    return _sound(value, name)


def location(value: Any, name: str) -> str:
    """Return a directory location as a string."""
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str) or not path.strip():
        raise _refused(value, name, "the path or the URI of a directory")
    return _sound(path, name)


def names(value: Any, name: str) -> tuple[str, ...]:
    """Return column names."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (_sound(value, name),)
    found: list[Any] = list(value) if isinstance(value, Iterable) and not isinstance(value, bytes | Mapping) else [None]
    if not all(isinstance(n, str) for n in found):
        raise _refused(value, name, "a name, a list of names, or None")
    return tuple(_sound(n, name) for n in found)


def flag(value: Any, name: str) -> bool:
    """Return a boolean."""
    if not isinstance(value, bool):
        raise _refused(value, name, "True or False")
    return value


def whole(value: Any, name: str) -> int:
    """Return a 64-bit integer."""
    try:
        if isinstance(value, bool):
            raise TypeError
        found = operator.index(value)
    except TypeError:
        raise _refused(value, name, "an integer") from None
    if not -_LARGEST <= found <= _LARGEST:
        raise _refused(value, name, "an integer of at most 64 bits")
    return found


def count(value: Any, name: str) -> int:
    """Return a positive integer."""
    found = whole(value, name)
    if found < 1:
        raise _refused(value, name, "an integer of at least 1")
    return found


def limit(value: Any, name: str) -> int:
    """Return a non-negative integer."""
    found = whole(value, name)
    if found < 0:
        raise _refused(value, name, "an integer of at least 0")
    return found


def version(value: Any, name: str) -> int | str:
    """Return a snapshot id or a tag name."""
    if isinstance(value, str):
        return _sound(value, name)
    try:
        return whole(value, name)
    except ArgumentError:
        raise _refused(value, name, "a snapshot id or the name of a tag") from None


def moment(value: Any, name: str) -> datetime:
    """Return a time-zone-aware datetime; the default zone is UTC."""
    try:
        found = _moment(value)
        if found is not None:
            zoned = found if found.tzinfo else found.replace(tzinfo=UTC)
            zoned.timestamp()
            return zoned
    except (TypeError, ValueError, OverflowError, OSError):
        pass
    raise _refused(value, name, "a datetime, a date, a string such as '2026-01-31 12:00:00', or epoch milliseconds")


def _moment(value: Any) -> datetime | None:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, str):
        return datetime.fromisoformat(value.strip())
    if isinstance(value, bool | float) or not hasattr(value, "__index__"):
        return None
    return datetime.fromtimestamp(operator.index(value) / 1000, UTC)


def millis(value: Any, name: str) -> int:
    """Return a point in time in epoch milliseconds."""
    return int(moment(value, name).timestamp() * 1000)


def options(value: Any, name: str) -> dict[str, str]:
    """Return options with values converted to text."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _refused(value, name, "a dict of options, such as {'bucket': '2'}")
    for key in value:
        if not isinstance(key, str):
            raise _refused(key, f"a key of {name}", "the name of an option")
    return {_sound(key, f"a key of {name}"): _option(item, f"{name}['{key}']") for key, item in value.items()}


def _option(value: Any, name: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float) and math.isfinite(value):
        return str(value)
    if not isinstance(value, str):
        raise _refused(value, name, "a string, a number, True or False")
    return _sound(value, name)


def _sound(value: str, name: str) -> str:
    """Return a string; unpaired surrogates and NUL characters are rejected, because files cannot store them safely."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _refused(value, name, "a string without unpaired surrogates") from None
    if "\0" in value:
        raise _refused(value, name, "a string without NUL characters")
    return value


def _refused(value: Any, name: str, takes: str) -> ArgumentError:
    try:
        shown = repr(value)
    except Exception:  # noqa: BLE001 - an object of the caller may raise anything
        shown = "…"
    if len(shown) > _LONGEST or not shown.isprintable():
        shown = f"{ascii(shown)[1:-1][:_LONGEST]}…"
    return ArgumentError(f"The argument '{name}' is {shown} ({type(value).__name__}).", hint=f"It takes {takes}.")


RULES: Mapping[str, Rule] = {
    "as_of": moment,
    "cascade": flag,
    "catalog": text,
    "columns": names,
    "comment": text,
    "database": text,
    "default_catalog": flag,
    "dynamic": flag,
    "filter": text,
    "full": flag,
    "ignore_if_exists": flag,
    "ignore_if_not_exists": flag,
    "limit": limit,
    "max_deletes": whole,
    "name": text,
    "new_name": text,
    "older_than": moment,
    "options": options,
    "partition_by": names,
    "partitions": text,
    "primary_key": names,
    "retain_max": whole,
    "retain_min": whole,
    "system_name": text,
    "target": version,
    "threads": count,
    "version": version,
    "warehouse": location,
}
"""The rule of each argument, by name. Rows and schemas are validated where they are used."""
