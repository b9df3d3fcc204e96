"""Messages between the processes of one job as JSON texts: the types of a dataclass say what a text may hold."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from paimon_spark.errors import EngineError

T = TypeVar("T")


class MessageCodec(Generic[T]):
    """Texts for values of one type, and back. Bytes travel as base64; nothing is converted that has another type.

    Args:
        kind: the type, made of dataclasses, enumerations and what JSON has.
        what: what a text holds, for messages.
    """

    def __init__(self, kind: Any, what: str) -> None:
        self._decoder = msgspec.json.Decoder(kind)
        self._what = what

    def encode(self, value: T) -> str:
        """Return the text of a value; it has no line feeds and no tabs."""
        return msgspec.json.encode(value).decode()

    def decode(self, text: str) -> T:
        """Return the value of a text.

        Raises:
            EngineError: the text holds something else.
        """
        try:
            return self._decoder.decode(text)
        except (ValueError, RecursionError) as e:
            raise EngineError(
                f"A text of {len(text)} characters is not a {self._what}: {e}"[:300] + ".",
                hint="Make sure that the driver and all executors have the same release of paimon-spark.",
            ) from e
