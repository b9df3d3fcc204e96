"""Success files: JSON that tells other programs that a partition or tag is complete, and since when."""

from __future__ import annotations

import json
from typing import Any

from paimon_spark.fs.base import FileIO

SUCCESS_FILE = "_SUCCESS"


def write_success_file(file_io: FileIO, path: str, clock_millis: int) -> None:
    """Write a success file; an existing one keeps its creation time."""
    created = _stored(file_io, path).get("creationTime", clock_millis)
    text = json.dumps({"creationTime": created, "modificationTime": clock_millis})
    file_io.write(path, text.encode())


def _stored(file_io: FileIO, path: str) -> dict[str, Any]:
    try:
        found = json.loads(file_io.read(path))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
