"""Resolves a location to its FileIO."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from paimon_spark.errors import ErrorKind, OptionError, UnsupportedError
from paimon_spark.fs.base import FileIO
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.fs.s3 import S3FileIO, split
from paimon_spark.fs.s3_client import require_library
from paimon_spark.fs.s3_settings import SCHEMES, S3Settings

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):")


def scheme_of(uri: str) -> str:
    """Return the lower-case scheme of a location; `file` for a plain path."""
    found = _SCHEME.match(uri)
    return found[1].lower() if found else "file"


def file_io_for(uri: str, options: Mapping[str, str] | None = None) -> FileIO:
    """Return the FileIO of a location. `options` are the catalog's, for stores with credentials.

    Raises:
        UnsupportedError: the scheme is not supported.
        OptionError: an option of the store is invalid.
        EngineError: the package for the store is not installed.
    """
    scheme = scheme_of(uri)
    if scheme in SCHEMES:
        _check_bucket(uri)
        require_library()
        return S3FileIO(S3Settings.of(options or {}, split(uri)[0]))
    return _build(scheme, "default")


def _check_bucket(uri: str) -> None:
    if not split(uri)[0]:
        raise OptionError(f"The location '{uri}' does not name a bucket.", hint="Write it as s3://bucket/path.")


def file_io_from_config(config: Mapping[str, str]) -> FileIO:
    """Rebuild a FileIO from the output of `to_config`."""
    if config["scheme"] == "s3":
        require_library()
        return S3FileIO(S3Settings.from_text(config["settings"]))
    registered = _REGISTERED.get(config["scheme"])
    if registered is not None:
        return registered(config)
    return _build(config["scheme"], config.get("name", "default"))


_REGISTERED: dict[str, Callable[[Mapping[str, str]], FileIO]] = {}


def register(scheme: str, rebuild: Callable[[Mapping[str, str]], FileIO]) -> None:
    """Register a scheme, so that tasks of this process can rebuild its FileIO from a configuration."""
    _REGISTERED[scheme] = rebuild


def _build(scheme: str, name: str) -> FileIO:
    if scheme == "file":
        return LocalFileIO()
    if scheme == "memory":
        return _memory(name)
    raise UnsupportedError(
        f"Locations with the scheme '{scheme}:' are not supported.",
        hint="Use a local path, or a location that begins with file: or s3:.",
        kind=ErrorKind.UNSUPPORTED_STORE,
    )


_HELD: dict[str, InMemoryFileIO] = {}


def _memory(name: str) -> InMemoryFileIO:
    """Return the named store and keep it for the lifetime of the process: a location holds no reference to it."""
    return _HELD.setdefault(name, InMemoryFileIO.named(name))
