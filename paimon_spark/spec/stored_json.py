"""JSON files of a table: one object each, read strictly by the types of a dataclass.

Malformed files are reported when they are read.
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
    """Return the object in a file.

    Raises:
        ValueError: the file is not a JSON object.
    """
    try:
        raw = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as e:
        raise ValueError(f"it is not JSON ({e})") from e
    if not isinstance(raw, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - one error type for all faults
    return raw


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text[:40])


@cache
def keys_of(kind: type[Any]) -> Mapping[str, str]:
    """Return the keys of a kind of file in the order of its fields, each with the name of its field."""
    return {re.sub("_(.)", lambda m: m[1].upper(), f.name): f.name for f in fields(kind) if f.name != _EXTRA}


def read_as(kind: type[T], raw: Mapping[str, Any]) -> T:
    """Convert a JSON object to a dataclass. A key that is null counts as missing.

    Args:
        kind: the dataclass; its types define the allowed values. A field `extra` takes the keys without a field.
        raw: the object.

    Raises:
        ValueError: a key is missing or has another type.
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
    """Translate an error of msgspec about a field into one about its key."""
    for pattern in (_MISSING, _PLACE):
        found = pattern.search(text)
        if found is not None:
            key = next(k for k, name in keys.items() if name == found[1])
            return missing(key) if pattern is _MISSING else wrong_type(key, raw[key])
    return ValueError(text)


def texts(raw: Mapping[str, Any], key: str) -> dict[str, str]:
    """Return the object of texts at a key; numbers and booleans are converted to text.

    Raises:
        ValueError: the key is missing or has another type.
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
    """Return the error for a missing key."""
    return ValueError(f"the key '{key}' is missing")


def wrong_type(key: str, value: Any) -> ValueError:
    """Return the error for a value of the wrong type."""
    text = repr(value)
    return ValueError(f"the key '{key}' holds {text if len(text) <= 60 else text[:60] + '…'}")


def _text(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
