"""Messages between the processes of one job as JSON texts, validated by the types of a dataclass."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from paimon_spark.errors import EngineError

T = TypeVar("T")


class MessageCodec(Generic[T]):
    """Codec of values of one type. Bytes are encoded as base64; values of other types are not converted.

    Args:
        kind: the type, made of dataclasses, enumerations and what JSON has.
        what: the kind of message, for error messages.
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
