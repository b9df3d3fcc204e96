"""Attach paimon-spark to a PySpark session."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from paimon_spark.bridge.jars import jar_path

EXTENSION = "paimon.spark.SessionExtension"
CATALOG_CLASS = "paimon.spark.Catalog"
GENERIC_CATALOG_CLASS = "paimon.spark.GenericCatalog"
SESSION_CATALOG = "spark_catalog"


def configure(builder: Any, catalog: str = "paimon", warehouse: str | None = None, **options: str) -> Any:
    """Return `builder` with the extension, the bridge jar and a Paimon catalog.

    Args:
        builder: a `SparkSession.builder`.
        catalog: the catalog's name in SQL; `spark_catalog` replaces Spark's own by one that knows both.
        warehouse: the catalog's root directory.
        options: further catalog options; an underscore in a name stands for a hyphen.
    """
    prefix = f"spark.sql.catalog.{catalog}"
    generic = catalog == SESSION_CATALOG
    settings = {
        "spark.paimon.python": sys.executable,
        "spark.paimon.pythonPath": str(Path(__file__).parents[2]),
        prefix: GENERIC_CATALOG_CLASS if generic else CATALOG_CLASS,
    }
    if warehouse is not None:
        settings[f"{prefix}.warehouse"] = warehouse
    settings |= {f"{prefix}.{key.replace('_', '-')}": str(value) for key, value in options.items()}
    _add(builder, "spark.jars", jar_path())
    _add(builder, "spark.sql.extensions", EXTENSION)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder


def _add(builder: Any, key: str, value: str) -> None:
    """Append to a comma-separated setting without losing what the user put there."""
    present = [v for v in str(getattr(builder, "_options", {}).get(key, "")).split(",") if v]
    if value not in present:
        present.append(value)
    builder.config(key, ",".join(present))
