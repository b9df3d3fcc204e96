"""From a location to the store that serves it."""

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
    """Return the scheme of a location in lower case; a plain path has the scheme `file`."""
    found = _SCHEME.match(uri)
    return found[1].lower() if found else "file"


def file_io_for(uri: str, options: Mapping[str, str] | None = None) -> FileIO:
    """Return the FileIO for a location. `options` are the catalog's, for stores that need credentials.

    Raises:
        UnsupportedError: no store is known for the scheme.
        OptionError: an option for the store is wrong.
        EngineError: the package that reaches the store is not installed.
    """
    scheme = scheme_of(uri)
    if scheme in SCHEMES:
        _check_bucket(uri)
        require_library()
        return S3FileIO(S3Settings.of(options or {}, split(uri)[0]))
    return _build(scheme, "default")


def _check_bucket(uri: str) -> None:
    if not split(uri)[0]:
        raise OptionError(f"The location '{uri}' names no bucket.", hint="Write it as s3://bucket/path.")


def file_io_from_config(config: Mapping[str, str]) -> FileIO:
    """Rebuild what `to_config` described."""
    if config["scheme"] == "s3":
        require_library()
        return S3FileIO(S3Settings.from_text(config["settings"]))
    registered = _REGISTERED.get(config["scheme"])
    if registered is not None:
        return registered(config)
    return _build(config["scheme"], config.get("name", "default"))


_REGISTERED: dict[str, Callable[[Mapping[str, str]], FileIO]] = {}


def register(scheme: str, rebuild: Callable[[Mapping[str, str]], FileIO]) -> None:
    """Let tasks of this process rebuild stores of another scheme from their configuration."""
    _REGISTERED[scheme] = rebuild


def _build(scheme: str, name: str) -> FileIO:
    if scheme == "file":
        return LocalFileIO()
    if scheme == "memory":
        return _memory(name)
    raise UnsupportedError(
        f"There is no access to locations of the scheme '{scheme}:'.",
        hint="Use a local path, or a location that begins with file: or s3:.",
        kind=ErrorKind.UNSUPPORTED_STORE,
    )


_HELD: dict[str, InMemoryFileIO] = {}


def _memory(name: str) -> InMemoryFileIO:
    """Return the named store and keep it alive as long as the process: a location alone would not."""
    return _HELD.setdefault(name, InMemoryFileIO.named(name))
