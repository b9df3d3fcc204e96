"""Bounded numbers and names: types of JSON keys, validated when a file is read."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

LEAST_MILLIS, MOST_MILLIS = -62_135_510_400_000, 253_402_214_400_000
Int = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Long = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Id = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Index = Annotated[int, Meta(ge=-1, le=2**63 - 1)]
"""-1 before the first one."""
HighestFieldId = Annotated[int, Meta(ge=-1, le=2**31 - 1)]
"""-1 in a table without columns."""
Millis = Annotated[int, Meta(ge=LEAST_MILLIS, le=MOST_MILLIS)]
"""Epoch milliseconds with a four-digit year in every time zone."""
Name = Annotated[str, Meta(min_length=1)]
FileName = Annotated[str, Meta(pattern=r"\A(?!\.{1,2}\Z)[^\x00-\x1f\x7f/\\\ud800-\udfff]+\Z")]
"""A single path component: `identifier.is_one_name` is true for it."""
