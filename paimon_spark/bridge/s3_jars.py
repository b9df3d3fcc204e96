"""Hadoop's S3 client for Spark's own scans: two jars that match the installed pyspark, downloaded once.

Hadoop's client is small. The AWS SDK that it needs comes as one jar of some 600 MB, nearly all of it clients of other
services; only the clients of S3 and of the credential services are kept.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paimon_spark.bridge.jars import cache_dir, spark_home
from paimon_spark.errors import EngineError, ErrorKind

_RESOLVER = "org/apache/ivy/plugins/resolver/IBiblioResolver.class"
_CLIENT = "org/apache/hadoop/hadoop-aws/{0}/hadoop-aws-{0}.jar"
_BUNDLE = "software/amazon/awssdk/bundle/{0}/bundle-{0}.jar"
_SERVICES = "software/amazon/awssdk/services/"
_KEPT_SERVICES = ("s3", "sts", "sso", "ssooidc", "signin", "kms")
_DROPPED = ("META-INF/maven/", "META-INF/native-image/", "META-INF/jandex.idx")
_BLOCK = 1 << 20
_STAMP = (2020, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Release:
    """The jars of one release of Hadoop: the version of its AWS SDK, and the SHA-1 of both jars."""

    sdk: str
    client_sha1: str
    bundle_sha1: str


_SDK_2_35 = "7252265e3970b214708e68a8b74a8fa8c875af1e"
RELEASES: Mapping[str, Release] = {
    "3.4.1": Release("2.24.6", "641d8fe1d7683cdcc05cc3a794c0374553f6bd6a", "242317b028d951dbbf6a142241e041b684696a3b"),
    "3.4.2": Release("2.29.52", "16f9de6da5c7862241d55a13d34843404d0cbb88", "b63eb928c2ac13bde07746bcfe7fb38bbdb4b5c5"),
    "3.4.3": Release("2.35.4", "b7216440dee020e699bd9191a6001e0d6ad6c8cc", _SDK_2_35),
    "3.5.0": Release("2.35.4", "9e594525d264c0db653c7f68da98b245f7d61ea5", _SDK_2_35),
}


def hadoop_version() -> str:
    """Return the release of Hadoop in the installed pyspark.

    Raises:
        EngineError: there is no pyspark, or no Hadoop in it.
    """
    found = sorted((spark_home() / "jars").glob("hadoop-client-api-*.jar"))
    if not found:
        raise EngineError("The installed pyspark has no Hadoop client.", kind=ErrorKind.ENVIRONMENT)
    return found[0].stem.removeprefix("hadoop-client-api-")


def s3_jars(releases: Mapping[str, Release] = RELEASES) -> list[str]:
    """Return the jars for the installed pyspark if they were downloaded, else nothing.

    Args:
        releases: the jars by release of Hadoop.
    """
    hadoop = hadoop_version()
    release = releases.get(hadoop)
    places = _places(hadoop, release) if release else ()
    return [str(p) for p in places] if places and all(p.exists() for p in places) else []


def _places(hadoop: str, release: Release) -> tuple[Path, Path]:
    directory = cache_dir() / f"s3-hadoop-{hadoop}"
    return directory / f"hadoop-aws-{hadoop}.jar", directory / f"aws-sdk-s3-{release.sdk}.jar"


def maven_central() -> str:
    """Return the URL of Maven Central in Spark's own resolver.

    Raises:
        EngineError: the installed pyspark has no resolver.
    """
    for jar in (spark_home() / "jars").glob("ivy-*.jar"):
        with zipfile.ZipFile(jar) as opened:
            found = re.search(rb"https://[\w./-]+", opened.read(_RESOLVER))
        if found:
            return found[0].decode().rstrip("/")
    raise EngineError(
        "The installed pyspark has no URL of Maven Central.",
        hint="Name a repository: paimon-spark env --s3 --maven URL.",
        kind=ErrorKind.ENVIRONMENT,
    )


def fetch_s3_jars(
    report: Callable[[str], None], maven: str | None = None, releases: Mapping[str, Release] = RELEASES
) -> list[str]:
    """Download the missing jars, and return all.

    Args:
        report: called with lines about the progress.
        maven: the URL of a repository in Maven's layout; `file:` works too. None means Maven Central.
        releases: the jars by release of Hadoop.

    Raises:
        EngineError: the download failed, a checksum differs, or Hadoop's release is unknown.
    """
    hadoop = hadoop_version()
    release = releases.get(hadoop)
    if release is None:
        raise EngineError(
            f"No S3 client is known for Hadoop {hadoop} of the installed pyspark.",
            hint=f"It is known for {', '.join(releases)}. Put hadoop-aws and the AWS SDK into spark.jars yourself.",
            kind=ErrorKind.ENVIRONMENT,
        )
    maven = (maven or maven_central()).rstrip("/")
    client, sdk = _places(hadoop, release)
    client.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=client.parent) as work:
        if not client.exists():
            fetched = _fetch(f"{maven}/{_CLIENT.format(hadoop)}", Path(work), release.client_sha1, report)
            fetched.replace(client)
        if not sdk.exists():
            fetched = _fetch(f"{maven}/{_BUNDLE.format(release.sdk)}", Path(work), release.bundle_sha1, report)
            report(f"Extracting the part for S3: {sdk.name}")
            part = Path(work) / sdk.name
            _cut(fetched, part)
            part.replace(sdk)
    return [str(client), str(sdk)]


def _fetch(url: str, directory: Path, sha1: str, report: Callable[[str], None]) -> Path:
    if not url.startswith(("https://", "http://", "file://")):
        raise EngineError(f"'{url}' is not the URL of a repository.", kind=ErrorKind.ENVIRONMENT)
    target = directory / url.rpartition("/")[2]
    try:
        with urllib.request.urlopen(url, timeout=60) as source, target.open("wb") as out:  # noqa: S310 - checked above
            found = _copy(source, out, int(source.headers.get("Content-Length") or 0), target.name, report)
    except (urllib.error.URLError, OSError) as e:
        reason = getattr(e, "reason", None) or e
        raise EngineError(
            f"{url} cannot be fetched: {reason}.",
            hint="Check the network, or name a reachable repository: paimon-spark env --s3 --maven URL.",
            kind=ErrorKind.ENVIRONMENT,
        ) from e
    if found != sha1:
        raise EngineError(
            f"{url} has the SHA-1 {found} instead of {sha1}.",
            hint="The download was discarded. Try again, or use another repository.",
            kind=ErrorKind.ENVIRONMENT,
        )
    return target


def _copy(source: Any, out: Any, total: int, name: str, report: Callable[[str], None]) -> str:
    """Copy and return the SHA-1; report every tenth of a large file."""
    digest = hashlib.sha1(usedforsecurity=False)
    done = reported = 0
    report(f"Fetching {name}" + (f" ({total / 1e6:.0f} MB)" if total else ""))
    while block := source.read(_BLOCK):
        out.write(block)
        digest.update(block)
        done += len(block)
        if total > 100 * _BLOCK and done * 10 // total > reported:
            reported = done * 10 // total
            report(f"  {done / 1e6:.0f} of {total / 1e6:.0f} MB")
    return digest.hexdigest()


def _cut(bundle: Path, target: Path) -> None:
    """Copy the classes of the bundle without the services that S3 does not need."""
    with zipfile.ZipFile(bundle) as whole, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as part:
        for entry in whole.infolist():
            name = entry.filename
            service = name.removeprefix(_SERVICES).partition("/")[0] if name.startswith(_SERVICES) else ""
            if entry.is_dir() or name.startswith(_DROPPED) or (service and service not in _KEPT_SERVICES):
                continue
            kept = zipfile.ZipInfo(name, _STAMP)
            kept.compress_type = zipfile.ZIP_DEFLATED
            with whole.open(entry) as source, part.open(kept, "w") as out:
                shutil.copyfileobj(source, out)
