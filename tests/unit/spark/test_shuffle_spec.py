"""The message about a shuffle is one, on both sides of the bridge."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import paimon_spark
from paimon_spark.spark.shuffle_spec import HashColumn, HashedField, ShuffleSpec

SCALA = Path(paimon_spark.__file__).parent / "bridge" / "scala" / "engine" / "ShuffleSpec.scala"


@pytest.mark.parametrize("message", [ShuffleSpec, HashColumn, HashedField])
def test_scala_reads_every_key_of_the_message(message: Any) -> None:
    reader = SCALA.read_text(encoding="utf-8").partition(f"object {message.__name__} {{")[2].partition("\n}")[0]
    read = [a or b for a, b in re.findall(r'json\.get\("(\w+)"\)|Json\.optional\(json, "(\w+)"\)', reader)]
    assert read == [f.name for f in fields(message)]


def test_a_message_is_plain_json() -> None:
    spec = ShuffleSpec(("id", "p"), ("p",), HashColumn("h", 4, (HashedField("id", 0),)), tasks=2)
    assert json.loads(spec.to_json()) == {
        "columns": ["id", "p"],
        "partition": ["p"],
        "hash": {
            "name": "h",
            "buckets": 4,
            "fields": [{"name": "id", "precision": 0}],
            "function": "default",
            "counts": None,
        },
        "tasks": 2,
        "classes": 0,
        "exact": False,
    }
