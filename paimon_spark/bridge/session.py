"""Attaches paimon-spark to a PySpark session."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from paimon_spark.api.arguments import checked, location
from paimon_spark.api.arguments import options as option_texts
from paimon_spark.bridge.jars import jar_path
from paimon_spark.bridge.s3_jars import s3_jars
from paimon_spark.errors import ArgumentError
from paimon_spark.spec.secrets import HIDDEN_KEYS

EXTENSION = "paimon.spark.SessionExtension"
CATALOG_CLASS = "paimon.spark.Catalog"
GENERIC_CATALOG_CLASS = "paimon.spark.GenericCatalog"
SESSION_CATALOG = "spark_catalog"
DEFAULT_CATALOG = "spark.sql.defaultCatalog"
HIDDEN = HIDDEN_KEYS
"""Settings whose values Spark redacts; its own default does not cover `access-key`."""


def settings(catalog: str | None, warehouse: str | None) -> dict[str, str]:
    """Return the settings of a Spark program that uses this installation: extension, jar, Python, and a catalog.

    Args:
        catalog: the catalog's name in SQL; `spark_catalog` replaces Spark's own by one for tables of both kinds.
        warehouse: the catalog's root directory.
    """
    jars = ",".join([jar_path(), *s3_jars()])
    conf = {"spark.jars": jars, "spark.sql.extensions": EXTENSION, "spark.paimon.python": sys.executable}
    root = Path(__file__).resolve().parents[2]
    if root.is_file() or (root / "pyproject.toml").exists():  # an archive, or the source tree
        conf["spark.paimon.pythonPath"] = str(root)
    if catalog is not None:
        prefix = f"spark.sql.catalog.{catalog}"
        conf[prefix] = GENERIC_CATALOG_CLASS if catalog == SESSION_CATALOG else CATALOG_CLASS
        if warehouse is not None:
            conf[f"{prefix}.warehouse"] = warehouse
    return conf


@checked
def configure(
    builder: Any,
    catalog: str = "paimon",
    warehouse: str | os.PathLike[str] | None = None,
    *,
    default_catalog: bool = False,
    **options: Any,
) -> Any:
    """Return `builder` with the extension, the bridge jar and a Paimon catalog.

    Args:
        builder: a `SparkSession.builder`.
        catalog: the catalog's name in SQL; `spark_catalog` replaces Spark's own by one for tables of both kinds.
        warehouse: the catalog's root directory.
        default_catalog: whether names without a catalog refer to this one, as after ``USE paimon``.
        options: further catalog options; an underscore in a name stands for a hyphen.

    Raises:
        ArgumentError: an argument is invalid. EngineError: there is no bridge jar for the installed Spark, and none can
            be built.
    """
    if not callable(getattr(builder, "config", None)):
        raise ArgumentError(
            f"The argument 'builder' is a {type(builder).__name__}, but must be a SparkSession builder.",
            hint="Pass SparkSession.builder.",
        )
    if not re.fullmatch(r"\w+", catalog):
        raise ArgumentError(
            f"'{catalog}' cannot be the name of a catalog.", hint="Use letters, digits and underscores."
        )
    conf = settings(catalog, None if warehouse is None else location(warehouse, "warehouse"))
    for jar in conf["spark.jars"].split(","):
        _add_to_running_driver(jar)
    for key in ("spark.jars", "spark.sql.extensions"):
        _add(builder, key, conf.pop(key))
    conf["spark.redaction.regex"] = HIDDEN
    given = option_texts(options, "options")
    conf |= {f"spark.sql.catalog.{catalog}.{key.replace('_', '-')}": value for key, value in given.items()}
    if default_catalog:
        conf[DEFAULT_CATALOG] = catalog
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder


def _add(builder: Any, key: str, value: str) -> None:
    """Append to a comma-separated setting, and keep the user's values."""
    present = [v for v in str(getattr(builder, "_options", {}).get(key, "")).split(",") if v]
    builder.config(key, ",".join(present + [v for v in value.split(",") if v not in present]))


def _add_to_running_driver(jar: str) -> None:
    """Add the jar to a JVM that is already running; under `spark-submit`, a builder's settings come too late."""
    from pyspark import SparkContext  # the launchers read the settings without loading pyspark

    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        return
    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getClass().getName().endswith("MutableURLClassLoader"):
        loader.addURL(jvm.java.net.URL(Path(jar).as_uri()))
