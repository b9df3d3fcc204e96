"""All targets by name."""

from __future__ import annotations

from tests.fuzz import blobs, files, indexes, texts

TARGETS = [*texts.TARGETS, *files.TARGETS, *blobs.TARGETS, *indexes.TARGETS]
BY_NAME = {target.name: target for target in TARGETS}
