"""The directory of reference data beside the source tree; tests over it are skipped without it."""

from __future__ import annotations

import os
from pathlib import Path

SHARED = Path(os.environ.get("PAIMON_SPARK_SHARED", Path(__file__).resolve().parents[2] / "shared"))
BUCKET_VECTORS = SHARED / "spec" / "bucket_vectors.json"
