"""Spellings of the options of an S3 store."""

from __future__ import annotations

import pytest

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.fs.s3_settings import S3Settings

KEYS = {"s3.access-key": "AK", "s3.secret-key": "SK"}


def of(options: dict[str, str], environ: dict[str, str] | None = None, bucket: str = "b") -> S3Settings:
    return S3Settings.of(options, bucket, environ or {})


def hadoop(options: dict[str, str]) -> dict[str, str]:
    """Return options as they come from the Hadoop configuration of Spark."""
    return {f"hadoop.{k}": v for k, v in options.items() if k.startswith("fs.s3a.")}


@pytest.mark.parametrize(
    "options",
    [
        {"s3.endpoint": "http://h:1", "s3.access-key": "AK", "s3.secret-key": "SK", "s3.path.style.access": "true"},
        {"s3.endpoint": "http://h:1", "s3.access.key": "AK", "s3.secret.key": "SK", "s3.path-style-access": "TRUE"},
        {
            "s3a.endpoint": "http://h:1",
            "s3a.access-key": "AK",
            "s3a.secret-key": "SK",
            "s3a.path.style.access": "true",
        },
        {
            "fs.s3a.endpoint": "h:1",
            "fs.s3a.connection.ssl.enabled": "false",
            "fs.s3a.access.key": "AK",
            "fs.s3a.secret.key": "SK",
            "fs.s3a.path.style.access": "true",
        },
        hadoop(
            {
                "fs.s3a.endpoint": "http://other",
                "fs.s3a.bucket.b.endpoint": "http://h:1",
                "fs.s3a.bucket.c.endpoint": "http://c",
                "fs.s3a.access.key": "AK",
                "fs.s3a.secret.key": "SK",
                "fs.s3a.path.style.access": "true",
                "io.file.buffer.size": "4096",
            }
        ),
    ],
)
def test_all_spellings_mean_the_same(options: dict[str, str]) -> None:
    assert of(options) == S3Settings(endpoint="http://h:1", path_style=True, access_key="AK", secret_key="SK")  # noqa: S106


def test_the_catalog_wins_over_hadoop_and_that_over_variables() -> None:
    given = hadoop({"fs.s3a.bucket.b.access.key": "HK", "fs.s3a.secret.key": "HS", "fs.s3a.endpoint": "http://h"})
    environ = {"AWS_ENDPOINT_URL": "http://e", "AWS_REGION": "eu-west-1"}
    found = of(given | KEYS, environ)
    assert (found.access_key, found.secret_key, found.endpoint, found.region) == ("AK", "SK", "http://h", "eu-west-1")
    assert of({}, environ).endpoint == "http://e"


def test_what_only_hadoop_understands_is_kept_for_its_scans() -> None:
    found = of({"s3.readahead.range": "1M", **hadoop({"fs.s3a.threads.max": "7"})})
    assert dict(found.native) == {"fs.s3a.readahead.range": "1M", "fs.s3a.threads.max": "7"}
    assert found.hadoop("b").items() >= {("fs.s3a.readahead.range", "1M"), ("fs.s3a.threads.max", "7")}


def test_hadoop_is_told_the_same() -> None:
    found = of({"s3.endpoint": "http://h:1", "s3.path.style.access": "true", "s3.session.token": "T", **KEYS})
    conf = found.hadoop("b")
    assert conf["fs.s3.impl"] == conf["fs.s3a.impl"] == "org.apache.hadoop.fs.s3a.S3AFileSystem"
    assert conf["fs.s3a.bucket.b.endpoint"] == "http://h:1"
    assert conf["fs.s3a.bucket.b.path.style.access"] == "true"
    assert conf["fs.s3a.bucket.b.connection.ssl.enabled"] == "false"
    assert conf["fs.s3a.bucket.b.aws.credentials.provider"].endswith("TemporaryAWSCredentialsProvider")
    assert [conf[f"fs.s3a.bucket.b.{k}"] for k in ("access.key", "secret.key", "session.token")] == ["AK", "SK", "T"]
    assert of({}).hadoop("b")["fs.s3a.bucket.b.aws.credentials.provider"].endswith("DefaultCredentialsProvider")


@pytest.mark.parametrize(
    ("provider", "anonymous", "static"),
    [
        ("org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider", False, True),
        ("org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider", True, False),
        ("software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider", False, False),
        (
            "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider, com.x.InstanceProfileCredentialsProvider",
            False,
            True,
        ),
        ("com.example.Own", False, True),
    ],
)
def test_providers_of_hadoop(provider: str, anonymous: bool, static: bool) -> None:
    found = of({"fs.s3a.aws.credentials.provider": provider, **KEYS})
    assert (found.anonymous, found.access_key is not None) == (anonymous, static)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"s3.acces-key": "AK"}, "Did you mean 's3.access.key'"),
        ({"s3.access-key": "AK"}, "s3.secret-key"),
        ({"s3.secret-key": "SK"}, "s3.access-key"),
        ({"s3.endpoint": "ftp://h"}, "s3.endpoint"),
        ({"s3.endpoint": "http://user:word@h"}, "s3.endpoint"),
        ({"s3.path.style.access": "yes"}, "true or false"),
        ({"s3.connection.timeout": "soon"}, "5s"),
        ({"s3.attempts.maximum": "-1"}, "whole number"),
        ({"s3.attempts.maximum": "²"}, "whole number"),
        ({"s3.attempts.maximum": "1" * 5000}, "whole number"),
        ({"s3.multipart.size": "big"}, "16M"),
        ({"fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"}, "access-key"),
    ],
)
def test_wrong_options_are_told(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError) as e:
        of(options)
    assert text in str(e.value)
    assert "SK" not in str(e.value)
    assert "word" not in str(e.value)


@pytest.mark.parametrize(
    "options",
    [
        {"fs.s3a.aws.credentials.provider": "com.example.Own"},
        {"fs.s3a.security.credential.provider.path": "jceks://x"},
        {"s3.requester.pays.enabled": "true"},
        {"s3.encryption.algorithm": "CSE-KMS"},
        {"s3.signing-algorithm": "S3SignerType"},
        hadoop({"fs.s3a.proxy.password": "pw"}),
    ],
)
def test_what_python_cannot_do_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(UnsupportedError):
        of(options)


def test_times_and_sizes() -> None:
    found = of({"s3.connection.timeout": "2500", "s3.connection.establish.timeout": "3s", "s3.multipart.size": "64M"})
    assert (found.read_seconds, found.connect_seconds, found.part_bytes) == (2.5, 3.0, 64 << 20)
    assert of({"s3.multipart.size": "1"}).part_bytes == 5 << 20


def test_settings_travel_and_show_no_secret() -> None:
    found = of({"s3.session-token": "TT", "s3.readahead.range": "1M", **KEYS})
    assert S3Settings.from_text(found.to_text()) == found
    assert hash(found) == hash(S3Settings.from_text(found.to_text()))
    assert not {"AK", "SK", "TT"} & set(repr(found).replace("'", " ").replace("=", " ").split())
