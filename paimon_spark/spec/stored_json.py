"""The JSON files of a table: one object each, taken strictly, so that damage is told where it is and not much later."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

LONG = (-(2**63), 2**63 - 1)
ID = (0, 2**63 - 1)
FIELD_ID = (-1, 2**31 - 1)
MILLIS = (-62_135_510_400_000, 253_402_214_400_000)
"""Epoch milliseconds whose wall clock has a year of four digits in any zone."""


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


def whole(raw: Mapping[str, Any], key: str, bounds: tuple[int, int] = LONG) -> int:
    """Return the whole number of a key.

    Raises:
        ValueError: the key is missing or holds something else.
    """
    value = raw.get(key)
    if value is None:
        raise ValueError(f"the key '{key}' is missing")
    if type(value) is not int or not bounds[0] <= value <= bounds[1]:
        raise wrong_type(key, value)
    return value


def names(raw: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Return the list of names of a key; errors as in `whole`."""
    value = raw.get(key)
    if value is None:
        raise ValueError(f"the key '{key}' is missing")
    if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
        raise wrong_type(key, value)
    return tuple(value)


def texts(raw: Mapping[str, Any], key: str) -> dict[str, str]:
    """Return the object of texts of a key; numbers and flags count as their text; errors as in `whole`."""
    value = raw.get(key)
    if value is None:
        raise ValueError(f"the key '{key}' is missing")
    if not isinstance(value, dict):
        raise wrong_type(key, value)
    for k, v in value.items():
        if not isinstance(v, str | int | float):
            raise wrong_type(f"{key}.{k}", v)
    return {k: _text(v) for k, v in value.items()}


def text_or_none(raw: Mapping[str, Any], key: str) -> str | None:
    """Return the text of a key, or None where it is missing or null.

    Raises:
        ValueError: the key holds something else.
    """
    value = raw.get(key)
    if value is not None and not isinstance(value, str):
        raise wrong_type(key, value)
    return value


def wrong_type(key: str, value: Any) -> ValueError:
    """Return the error for a value that a key cannot have."""
    text = repr(value)
    return ValueError(f"the key '{key}' holds {text if len(text) <= 60 else text[:60] + '…'}")


def _text(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
