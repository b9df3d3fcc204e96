"""Hadoop's S3 client is fetched once, checked, and cut to what S3 needs."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from paimon_spark.bridge.s3_jars import RELEASES, Release, fetch_s3_jars, hadoop_version, maven_central, s3_jars
from paimon_spark.errors import EngineError, ErrorKind

SDK = "software/amazon/awssdk"
CLASSES = {
    f"{SDK}/services/s3/S3Client.class": b"s3",
    f"{SDK}/services/sso/SsoClient.class": b"sso",
    f"{SDK}/services/ec2/Ec2Client.class": b"ec2",
    f"{SDK}/core/SdkClient.class": b"core",
    "META-INF/services/software.amazon.awssdk.http.SdkHttpService": b"x",
    "META-INF/maven/software.amazon.awssdk/pom.xml": b"<pom/>",
    "META-INF/LICENSE": b"license",
}


@dataclass(frozen=True)
class Repository:
    """Jars of a release of Hadoop, and what is known of them."""

    root: Path
    releases: Mapping[str, Release]

    @property
    def maven(self) -> str:
        return self.root.as_uri()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository of two small jars, known by their check sums, and an empty cache."""
    monkeypatch.setenv("PAIMON_SPARK_CACHE", str(tmp_path / "cache"))
    hadoop = hadoop_version()
    client = tmp_path / f"repo/org/apache/hadoop/hadoop-aws/{hadoop}/hadoop-aws-{hadoop}.jar"
    bundle = tmp_path / "repo/software/amazon/awssdk/bundle/1.2.3/bundle-1.2.3.jar"
    for path in (client, bundle):
        path.parent.mkdir(parents=True)
    client.write_bytes(b"client")
    with zipfile.ZipFile(bundle, "w") as jar:
        for name, data in CLASSES.items():
            jar.writestr(name, data)
    sums = [hashlib.sha1(p.read_bytes(), usedforsecurity=False).hexdigest() for p in (client, bundle)]
    return Repository(tmp_path / "repo", {hadoop: Release("1.2.3", *sums)})


def test_the_installed_hadoop_is_known() -> None:
    assert hadoop_version() in RELEASES


def test_jars_are_fetched_once_and_cut(repository: Repository) -> None:
    said: list[str] = []
    assert s3_jars(repository.releases) == []
    jars = fetch_s3_jars(said.append, repository.maven, repository.releases)
    assert jars == s3_jars(repository.releases)
    assert Path(jars[0]).read_bytes() == b"client"
    with zipfile.ZipFile(jars[1]) as jar:
        kept = {n: jar.read(n) for n in jar.namelist()}
    assert kept == {n: d for n, d in CLASSES.items() if "ec2" not in n and "maven" not in n}
    assert any("bundle-1.2.3.jar" in line for line in said)
    said.clear()
    assert fetch_s3_jars(said.append, "file:///no/such/repository", repository.releases) == jars
    assert said == []
    assert sorted(p.name for p in Path(jars[0]).parent.iterdir()) == sorted(Path(j).name for j in jars)


def test_what_is_not_what_it_should_be_is_not_kept(repository: Repository) -> None:
    bundle = next(repository.root.rglob("bundle-*.jar"))
    bundle.write_bytes(bundle.read_bytes() + b"more")
    with pytest.raises(EngineError, match="SHA-1") as e:
        fetch_s3_jars(lambda _: None, repository.maven, repository.releases)
    assert e.value.kind is ErrorKind.ENVIRONMENT
    assert s3_jars(repository.releases) == []


@pytest.mark.parametrize("maven", ["file:///no/such/place", "http://127.0.0.1:9", "ftp://h", "no address"])
def test_a_repository_out_of_reach_is_one_clear_error(repository: Repository, maven: str) -> None:
    with pytest.raises(EngineError) as e:
        fetch_s3_jars(lambda _: None, maven, repository.releases)
    assert maven in str(e.value)
    assert s3_jars(repository.releases) == []


def test_a_release_of_hadoop_that_is_not_known() -> None:
    assert s3_jars({}) == []
    with pytest.raises(EngineError, match="No S3 client is known"):
        fetch_s3_jars(lambda _: None, releases={})


def test_maven_central_is_what_sparks_resolver_knows() -> None:
    assert re.fullmatch(r"https://[^/]+/maven2", maven_central())
