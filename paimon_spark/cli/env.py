"""Environment information, and the settings that attach paimon-spark to a stock Spark program."""

from __future__ import annotations

import platform
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from paimon_spark.bridge.jars import jar_path, spark_home
from paimon_spark.bridge.java import check_java
from paimon_spark.bridge.s3_jars import s3_jars
from paimon_spark.bridge.session import DEFAULT_CATALOG, HIDDEN, settings
from paimon_spark.cli.class_archive import archive_state
from paimon_spark.errors import EngineError
from paimon_spark.version import __version__

PACKAGES = ("pyspark", "pyarrow", "numpy", "sqlglot", "msgspec", "fastavro")

ACTIONS_PROGRAM = Path(__file__).with_name("paimon_actions.py")


@dataclass(frozen=True, slots=True)
class CatalogChoice:
    """The catalog that a launcher registers: its SQL name, its warehouse and its options."""

    name: str
    warehouse: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)


def shipped(relative: str) -> Path:
    """Return the path of a file in ``conf/`` or ``sql/``, in the source tree or in the installed wheel.

    Raises:
        EngineError: the file does not exist in either location.
    """
    tree = Path(__file__).resolve().parents[2]
    places = [tree] if (tree / "pyproject.toml").exists() else []
    places += [Path(sysconfig.get_path("data")) / "share" / "paimon_spark"]
    for place in places:
        if (place / relative).exists():
            return place / relative
    message = f"{relative} is not part of this installation (looked in {', '.join(map(str, places))})."
    raise EngineError(message, hint="Install paimon-spark from its wheel or work in its source tree.")


def attach_conf(choice: CatalogChoice | None) -> dict[str, str]:
    """Return the settings for a user's Spark program: extension, jar, Python and, if given, a catalog."""
    if choice is None:
        return settings(None, None)
    options = {f"spark.sql.catalog.{choice.name}.{key}": value for key, value in choice.options}
    return settings(choice.name, choice.warehouse) | options


def launch_conf(choice: CatalogChoice | None, scratch: Path) -> dict[str, str]:
    """Return the settings of the launchers: those of `attach_conf`, with a temporary session catalog.

    Unqualified names refer to the chosen catalog: tables of the session catalog are deleted when the program ends.
    """
    log4j = shipped("conf/log4j2.properties").as_uri()
    java_options = f"-Dlog4j2.configurationFile={log4j} -Dderby.stream.error.file=/dev/null"
    conf = attach_conf(choice)
    if choice is not None:
        conf[DEFAULT_CATALOG] = choice.name
    return conf | {
        "spark.redaction.regex": HIDDEN,
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": scratch.as_uri(),
        "spark.sql.artifact.isolation.enabled": "false",
        "spark.driver.extraJavaOptions": java_options,
        "spark.log.structuredLogging.enabled": "false",
        "spark.ui.enabled": "false",
    }


def conf_arguments(conf: Mapping[str, str]) -> list[str]:
    """Return `conf` as ``--conf key=value`` arguments."""
    return [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]


def describe() -> dict[str, str]:
    """Return the installed components in display order; problems are included as values."""
    facts = {"paimon-spark": __version__, "python": f"{platform.python_version()} ({sys.executable})"}
    for package in PACKAGES:
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            facts[package] = "not installed"
    facts["actions"] = f"{ACTIONS_PROGRAM} (for spark-submit)"
    for name, ask in (
        ("java", _java),
        ("spark home", spark_home),
        ("jar", jar_path),
        ("s3 jars", _s3),
        ("classes", archive_state),
    ):
        try:
            facts[name] = str(ask())
        except EngineError as error:
            facts[name] = str(error)
    return facts


def _s3() -> str:
    return ", ".join(s3_jars()) or "not fetched; needed for Spark's own scans on S3: paimon-spark env --s3"


def _java() -> str:
    java = check_java()
    return f"{java.major} ({java.command})"
