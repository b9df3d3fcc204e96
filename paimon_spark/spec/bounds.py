"""Numbers and names with the bounds that the format sets: types of the keys of a JSON text, checked when it is read."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Int = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Long = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
