"""Put on PYTHONPATH of a program under test: its store takes its time for every manifest, and notes each read."""

from __future__ import annotations

import os
import time
from pathlib import Path

SECONDS = float(os.environ.get("SLOW_STORE_SECONDS", "0"))
LOG = os.environ.get("SLOW_STORE_LOG", "")

if SECONDS:
    from paimon_spark.fs.local import LocalFileIO

    _read = LocalFileIO.read

    def read(self: LocalFileIO, path: str) -> bytes:
        """Read a file after a while."""
        if "/manifest/manifest-" in path and "-list-" not in path:
            with Path(LOG).open("a", encoding="utf-8") as log:
                log.write(f"{path}\n")
            time.sleep(SECONDS)
        return _read(self, path)

    LocalFileIO.read = read  # type: ignore[method-assign]
