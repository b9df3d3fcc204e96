"""The JSON files of a table: one object each, read strictly by the types of a dataclass.

Damage is told where it is and not much later.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_MISSING = re.compile(r"missing required field `(\w+)`")
_PLACE = re.compile(r"at `\$\.(\w+)")
_EXTRA = "extra"


def json_object(text: str | bytes) -> dict[str, Any]:
    """Return the object that a file holds.

    Raises:
        ValueError: says what is there instead.
    """
    try:
        raw = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as e:
        raise ValueError(f"it is not JSON ({e})") from e
    if not isinstance(raw, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - one error for all that can be wrong
    return raw


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text[:40])


@cache
def keys_of(kind: type[Any]) -> Mapping[str, str]:
    """Return the keys of a kind of file in the order of its fields, each with the name of its field."""
    return {re.sub("_(.)", lambda m: m[1].upper(), f.name): f.name for f in fields(kind) if f.name != _EXTRA}


def read_as(kind: type[T], raw: Mapping[str, Any]) -> T:
    """Return the value of a dataclass that an object holds. A key that is null counts as missing.

    Args:
        kind: the dataclass, whose types say what a key may hold. A field `extra` takes the keys that have no field.
        raw: the object.

    Raises:
        ValueError: a key is missing or holds something else.
    """
    keys = keys_of(kind)  # type: ignore[arg-type]  # classes are hashable
    values = {name: raw[key] for key, name in keys.items() if raw.get(key) is not None}
    if _EXTRA in kind.__annotations__:
        values[_EXTRA] = {k: v for k, v in raw.items() if k not in keys and v is not None}
    try:
        return msgspec.convert(values, kind)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except msgspec.ValidationError as e:
        raise _fault(str(e), raw, keys) from e


def _fault(text: str, raw: Mapping[str, Any], keys: Mapping[str, str]) -> ValueError:
    """Return the error for what msgspec says of a field, in terms of the key."""
    for pattern in (_MISSING, _PLACE):
        found = pattern.search(text)
        if found is not None:
            key = next(k for k, name in keys.items() if name == found[1])
            return missing(key) if pattern is _MISSING else wrong_type(key, raw[key])
    return ValueError(text)


def texts(raw: Mapping[str, Any], key: str) -> dict[str, str]:
    """Return the object of texts of a key; numbers and flags count as their text.

    Raises:
        ValueError: the key is missing or holds something else.
    """
    value = raw.get(key)
    if value is None:
        raise missing(key)
    if not isinstance(value, dict):
        raise wrong_type(key, value)
    for k, v in value.items():
        if not isinstance(v, str | int | float):
            raise wrong_type(f"{key}.{k}", v)
    return {k: _text(v) for k, v in value.items()}


def missing(key: str) -> ValueError:
    """Return the error for a key that is not there."""
    return ValueError(f"the key '{key}' is missing")


def wrong_type(key: str, value: Any) -> ValueError:
    """Return the error for a value that a key cannot have."""
    text = repr(value)
    return ValueError(f"the key '{key}' holds {text if len(text) <= 60 else text[:60] + '…'}")


def _text(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
