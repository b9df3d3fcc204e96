"""The text of errors."""

from __future__ import annotations

import pytest

from paimon_spark.errors import EngineError, UsageError


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("It broke: no answer..", "It broke: no answer."),
        ("It broke: no answer.. ", "It broke: no answer."),
        ("It broke.", "It broke."),
        ("There is more ...", "There is more ..."),
        ("Nothing ends it", "Nothing ends it"),
    ],
)
def test_a_sentence_ends_once(message: str, text: str) -> None:
    """What is quoted at the end of a sentence may be one itself."""
    assert str(UsageError(message)) == f"[INVALID_ARGUMENT] {text}"
    assert EngineError(message, hint="Try.").message == text
    assert str(EngineError(message, hint="Try.")) == f"[ENGINE_FAILED] {text} Try."
