"""The compatibility matrix has every kind of table that the test kit disturbs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from paimon_spark.testing.scenarios import KINDS
from tests.peers import compat

pytestmark = pytest.mark.peer
TRAITS = (
    "merge-engine",
    "changelog-producer",
    "deletion-vectors.enabled",
    "deletion-vectors.mark-deletes",
    "row-tracking.enabled",
)


def traits(keys: Sequence[str], partitions: Sequence[str], options: Mapping[str, str]) -> tuple[str, ...]:
    """Return what makes a kind of table another one for readers and writers."""
    bucket = options.get("bucket", "-1")
    moves = bool(keys) and not set(partitions) <= set(keys)
    return (
        "keys" if keys else "rows",
        "fixed" if not bucket.startswith("-") else "moving" if moves else bucket,
        *(options.get(name, "") for name in TRAITS),
    )


def test_every_kind_has_a_row() -> None:
    rows = {line.split("|")[1].strip() for line in compat.PAGE.read_text().splitlines() if line.startswith("| ")}
    assert {k.name for k in compat.KINDS} <= rows
    tried = {traits(k.keys, k.partitions, k.options) for k in compat.KINDS}
    lacking = [n for n, k in KINDS.items() if traits(k.primary_key, k.partition_by, k.options) not in tried]
    assert lacking == []
