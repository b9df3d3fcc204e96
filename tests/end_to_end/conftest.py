"""A fresh directory for every test that starts programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.programs import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A directory of its own with a warehouse below it."""
    return Place(tmp_path)
