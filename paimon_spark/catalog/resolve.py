"""Creates a catalog from its options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from paimon_spark.catalog.base import Catalog
from paimon_spark.catalog.filesystem import FileSystemCatalog
from paimon_spark.catalog.privilege_tables import PrivilegeTables, password_hash
from paimon_spark.catalog.privileged import PrivilegedCatalog
from paimon_spark.errors import OptionError, UnsupportedError, did_you_mean
from paimon_spark.fs.resolve import file_io_for
from paimon_spark.spec.option_catalogue import find_option, known_options, near_miss
from paimon_spark.spec.privileges import ANONYMOUS

_GROUPS = ("catalog", "spark-catalog")
_KNOWN_METASTORES = ("filesystem", "hive", "jdbc", "rest")


def open_catalog(options: Mapping[str, str], *, creates: bool = True) -> Catalog:
    """Return the catalog for the options. No I/O is done yet.

    With `creates`, a missing warehouse is created on first use; without, it is an error then.

    Raises:
        OptionError: the warehouse is missing, the metastore is unknown, or an option is misspelt.
        UnsupportedError: the metastore, the scheme of the location, or a catalog lock is not supported.
    """
    _check_keys(options)
    metastore = options.get("metastore", "filesystem").strip().lower()
    if metastore not in _KNOWN_METASTORES:
        raise OptionError(
            f"The catalog option 'metastore' holds '{metastore}'; the choices are {', '.join(_KNOWN_METASTORES)}.",
            hint=did_you_mean(metastore, _KNOWN_METASTORES),
        )
    if metastore != "filesystem":
        raise UnsupportedError(
            f"The metastore '{metastore}' is not supported by this release.",
            hint="Use metastore=filesystem, or leave the option out.",
        )
    if options.get("lock.enabled", "false").strip().lower() == "true":
        raise UnsupportedError(
            "The catalog option 'lock.enabled' requests a lock, which this release does not support.",
            hint="Leave it out: commits create their file exclusively. Do not mix with writers that rely on a lock.",
        )
    warehouse = options.get("warehouse", "").strip()
    if not warehouse:
        raise OptionError(
            "The catalog option 'warehouse' is missing.",
            hint="Set it to the directory of the tables: spark.sql.catalog.<name>.warehouse=/path/to/warehouse.",
        )
    catalog = FileSystemCatalog(absolute(warehouse), options, file_io_for(warehouse, options), creates=creates)
    user, password = options.get("user", ANONYMOUS), options.get("password", ANONYMOUS)
    privileges = PrivilegeTables(catalog.warehouse, catalog.file_io, user, password_hash(password))
    return PrivilegedCatalog(catalog, privileges)


def _check_keys(options: Mapping[str, str]) -> None:
    known = [name for name, option in known_options().items() if option.group in _GROUPS]
    for key in options:
        near = None if find_option(key) else near_miss(key, known)
        if near is not None:
            raise OptionError(f"There is no catalog option '{key}'.", hint=f"Did you mean '{near}'?")


def absolute(location: str) -> str:
    """Return a location that is valid in every process: relative local paths are resolved.

    Raises:
        OptionError: it begins with a tilde. Only shells take that for a home directory, and not in every argument;
            other programs would use another directory than this one.
    """
    scheme, colon, rest = location.partition(":")
    local = rest if colon and scheme.lower() == "file" else location
    if local.startswith("~"):
        home = str(Path(local).expanduser()) if local.split("/", 1)[0] == "~" else "/home/…"
        raise OptionError(
            f"The location '{location}' begins with '~', which is not replaced by a home directory here.",
            hint=f"Write the whole path: {home}. A directory of that name is ./{local}.",
        )
    if colon and scheme.isalnum() and len(scheme) > 1:
        return location if scheme != "file" or rest.startswith("/") else f"file:{Path(rest).absolute()}"
    return str(Path(location).absolute())
