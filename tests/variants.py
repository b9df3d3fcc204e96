"""Which variants of a test are left to `make test-all`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def mostly_slow(values: Iterable[Any], *kept: Any) -> list[Any]:
    """Return `values` as parameters of a test: those that are not `kept` are slow ones.

    Raises:
        ValueError: a kept value is none of the values.
    """
    found = list(values)
    if missing := [k for k in kept if k not in found]:
        raise ValueError(f"{missing} are not among {found}")
    return [v if v in kept else _slow(v) for v in found]


def every(step: int, values: Iterable[Any]) -> list[Any]:
    """Return `values` as parameters of a test: all but each `step`-th one, beginning with the first, are slow."""
    return [_slow(v) if n % step else v for n, v in enumerate(values)]


def _slow(value: Any) -> Any:
    """A tuple has the values of several parameters."""
    values = value if type(value) is tuple else (value,)
    return pytest.param(*values, marks=pytest.mark.slow)
