"""Settings of an S3 store, from catalog options and the Hadoop configuration, and back to Hadoop's names.

Paimon's name is `s3.access-key`, Hadoop's `fs.s3a.access.key`; all variants are equivalent. Catalog options take
precedence over Hadoop's, and in Hadoop, per-bucket options (`fs.s3a.bucket.<name>.access.key`) over general ones.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from urllib.parse import urlsplit

from paimon_spark.errors import OptionError, UnsupportedError

SCHEMES = ("s3", "s3a")
HADOOP_PREFIX = "fs.s3a."
HADOOP_CLASS = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_PREFIXES = ("s3.", "s3a.", HADOOP_PREFIX)
_PER_BUCKET = "fs.s3a.bucket."
_FROM_HADOOP = "hadoop."
"""Prefix of options from the Hadoop configuration, as opposed to the catalog."""

_ALIASES = {
    "region": "endpoint.region",
    "server.side.encryption.algorithm": "encryption.algorithm",
    "server.side.encryption.key": "encryption.key",
}
_KNOWN = (
    "endpoint",
    "endpoint.region",
    "access.key",
    "secret.key",
    "session.token",
    "path.style.access",
    "connection.ssl.enabled",
    "aws.credentials.provider",
    "connection.establish.timeout",
    "connection.timeout",
    "attempts.maximum",
    "multipart.size",
    "encryption.algorithm",
    "encryption.key",
    "proxy.host",
    "proxy.port",
)
_REFUSED = {
    "security.credential.provider.path": "credential files of Hadoop",
    "delegation.token.binding": "delegation tokens",
    "signing.algorithm": "signing algorithms other than the default",
    "signer.type": "signing algorithms other than the default",
    "custom.signers": "signing algorithms other than the default",
    "proxy.username": "proxies that want a password",
    "proxy.password": "proxies that want a password",
}
_WHOLE = re.compile(r"[0-9]{1,9}")
_STATIC = ("SimpleAWSCredentialsProvider", "TemporaryAWSCredentialsProvider")
_ANONYMOUS = ("AnonymousAWSCredentialsProvider", "AnonymousCredentialsProvider")
_CHAIN = (
    "DefaultCredentialsProvider",
    "DefaultAWSCredentialsProviderChain",
    "EnvironmentVariableCredentialsProvider",
    "ProfileCredentialsProvider",
    "ContainerCredentialsProvider",
    "EC2ContainerCredentialsProviderWrapper",
    "IAMInstanceCredentialsProvider",
    "InstanceProfileCredentialsProvider",
    "WebIdentityTokenFileCredentialsProvider",
    "WebIdentityTokenCredentialsProvider",
)
_JAVA_CHAIN = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
_JAVA_STATIC = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
_JAVA_TEMPORARY = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
_JAVA_ANONYMOUS = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 0.001}
_SIZES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SMALLEST_PART = 5 << 20


@dataclass(frozen=True, slots=True)
class S3Settings:
    """Settings of a client. Credentials are not part of the repr."""

    endpoint: str | None = None
    region: str | None = None
    path_style: bool = False
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    anonymous: bool = False
    connect_seconds: float = 5.0
    read_seconds: float = 60.0
    attempts: int = 3
    part_bytes: int = 8 << 20
    encryption: str | None = None
    encryption_key: str | None = field(default=None, repr=False)
    proxy: str | None = field(default=None, repr=False)
    native: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Options that only Hadoop's client supports, by Hadoop's names."""

    @property
    def place(self) -> str:
        """Return the address of the store, for messages."""
        return self.endpoint or "AWS S3" + (f" in {self.region}" if self.region else "")

    @classmethod
    def of(cls, options: Mapping[str, str], bucket: str, environ: Mapping[str, str] = os.environ) -> S3Settings:
        """Return the settings of a bucket from the options of a catalog.

        Raises:
            OptionError: an option is unknown or has an invalid value.
            UnsupportedError: an option requests an unsupported feature.
        """
        given, native = _canonical(options, bucket)
        access_key, secret_key, session_token, anonymous = _credentials(given)
        encryption, encryption_key = _encryption(given)
        return cls(
            endpoint=_endpoint(given, environ),
            region=given.get("endpoint.region") or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION"),
            path_style=_flag(given, "path.style.access"),
            access_key=access_key,
            secret_key=secret_key,
            session_token=session_token,
            anonymous=anonymous,
            connect_seconds=_seconds(given, "connection.establish.timeout", 5.0),
            read_seconds=_seconds(given, "connection.timeout", 60.0),
            attempts=max(_number(given, "attempts.maximum", 3), 1),
            part_bytes=max(_bytes(given, "multipart.size", 8 << 20), _SMALLEST_PART),
            encryption=encryption,
            encryption_key=encryption_key,
            proxy=_proxy(given),
            native=tuple(sorted(native.items())),
        )

    def to_text(self) -> str:
        """Serialize the settings, including credentials."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> S3Settings:
        """Parse the output of `to_text`."""
        raw = json.loads(text)
        known = {f.name for f in fields(cls)}
        values = {k: v for k, v in raw.items() if k in known}
        return cls(**values | {"native": tuple((k, v) for k, v in raw["native"])})

    def hadoop(self, bucket: str) -> dict[str, str]:
        """Return the settings as per-bucket Hadoop options, which take precedence over general ones."""
        conf = dict(self.native)
        given = {
            "endpoint": self.endpoint,
            "endpoint.region": self.region or ("us-east-1" if self.endpoint else None),
            "path.style.access": str(self.path_style).lower(),
            "connection.ssl.enabled": str(not (self.endpoint or "https").startswith("http:")).lower(),
            "aws.credentials.provider": self._java_provider,
            "access.key": self.access_key,
            "secret.key": self.secret_key,
            "session.token": self.session_token,
            "encryption.algorithm": {"AES256": "SSE-S3", "aws:kms": "SSE-KMS"}.get(self.encryption or ""),
            "encryption.key": self.encryption_key,
        }
        if self.proxy:
            address = urlsplit(self.proxy)
            given |= {"proxy.host": address.hostname, "proxy.port": str(address.port)}
        for name, value in given.items():
            if value is not None:
                conf[f"{_PER_BUCKET}{bucket}.{name}"] = value
        return conf | {f"fs.{scheme}.impl": HADOOP_CLASS for scheme in SCHEMES}

    @property
    def _java_provider(self) -> str:
        if self.anonymous:
            return _JAVA_ANONYMOUS
        if self.access_key is None:
            return _JAVA_CHAIN
        return _JAVA_TEMPORARY if self.session_token else _JAVA_STATIC


def _canonical(options: Mapping[str, str], bucket: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the supported options by canonical name, and all others by Hadoop's name."""
    known: dict[str, tuple[int, str]] = {}
    native: dict[str, str] = {}
    for key, value in options.items():
        own = key.removeprefix(_FROM_HADOOP)
        per_bucket = own.startswith(f"{_PER_BUCKET}{bucket}.")
        if own.startswith(_PER_BUCKET) and not per_bucket:
            continue
        prefix = f"{_PER_BUCKET}{bucket}." if per_bucket else next((p for p in _PREFIXES if own.startswith(p)), "")
        if not prefix:
            continue
        name = own.removeprefix(prefix).strip()
        plain = name.lower().replace("-", ".")
        plain = _ALIASES.get(plain, plain)
        _refuse(plain, own, value)
        if plain not in _KNOWN:
            if own == key and prefix != HADOOP_PREFIX:
                _check_spelling(plain, own)
            native[HADOOP_PREFIX + name] = value
            continue
        rank = (own == key) * 4 + (prefix in ("s3.", "s3a.")) * 2 + per_bucket
        if value.strip() and rank >= known.get(plain, (-1, ""))[0]:
            known[plain] = (rank, value.strip())
    return {name: value for name, (_, value) in known.items()}, native


def _refuse(plain: str, key: str, value: str) -> None:
    what = _REFUSED.get(plain)
    if plain == "requester.pays.enabled" and value.strip().lower() == "true":
        what = "buckets whose requester pays"
    if what is not None and value.strip():
        raise UnsupportedError(
            f"The option '{key}' cannot be honoured: {what} are not supported.",
            hint="Leave it out, and give access with s3.access-key and s3.secret-key or the AWS default chain.",
        )


def _check_spelling(plain: str, key: str) -> None:
    near = difflib.get_close_matches(plain, _KNOWN, n=1, cutoff=0.8)
    if near:
        raise OptionError(f"There is no option '{key}'.", hint=f"Did you mean 's3.{near[0]}'?")


def _credentials(given: Mapping[str, str]) -> tuple[str | None, str | None, str | None, bool]:
    """Return access key, secret key, session token and anonymous flag; without any, the AWS provider chain is used."""
    access, secret, token = (given.get(k) for k in ("access.key", "secret.key", "session.token"))
    classes = [c.strip().rpartition(".")[2] for c in given.get("aws.credentials.provider", "").split(",") if c.strip()]
    foreign = [c for c in classes if c not in (*_STATIC, *_ANONYMOUS, *_CHAIN)]
    if foreign and not (access and secret):
        raise UnsupportedError(
            f"The credentials provider {foreign[0]} cannot be used: it is a Java class, and Python needs access too.",
            hint="Set s3.access-key and s3.secret-key, or leave the option out for the AWS default chain.",
        )
    if bool(access) != bool(secret):
        missing = "s3.secret-key" if access else "s3.access-key"
        raise OptionError(f"The option '{missing}' is missing.", hint="Give both keys, or none for the AWS chain.")
    static = bool(access) and (not classes or bool(foreign) or any(c in _STATIC for c in classes))
    anonymous = bool(classes) and not static and all(c in (*_ANONYMOUS, *_STATIC) for c in classes)
    if anonymous and not any(c in _ANONYMOUS for c in classes):
        raise OptionError(
            "The credentials provider needs keys, but none are set.", hint="Set s3.access-key and s3.secret-key."
        )
    return (access, secret, token, False) if static else (None, None, None, anonymous)


def _endpoint(given: Mapping[str, str], environ: Mapping[str, str]) -> str | None:
    text = given.get("endpoint") or environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
    if not text:
        return None
    if "://" not in text:
        text = ("https://" if _flag(given, "connection.ssl.enabled", default=True) else "http://") + text
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise OptionError(
            "The option 's3.endpoint' is not the address of a store.",
            hint="Write it as http://host:9000 or https://host.",
        )
    return None if parts.hostname == "s3.amazonaws.com" else text.rstrip("/")


def _encryption(given: Mapping[str, str]) -> tuple[str | None, str | None]:
    wanted = given.get("encryption.algorithm", "").strip()
    known = {"": None, "SSE-S3": "AES256", "AES256": "AES256", "SSE-KMS": "aws:kms", "AWS:KMS": "aws:kms"}
    if wanted.upper() not in known:
        raise UnsupportedError(
            f"The encryption '{wanted}' is not supported.", hint="The choices are SSE-S3 and SSE-KMS."
        )
    return known[wanted.upper()], given.get("encryption.key")


def _proxy(given: Mapping[str, str]) -> str | None:
    host = given.get("proxy.host")
    return f"http://{host}:{_number(given, 'proxy.port', 8080)}" if host else None


def _flag(given: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    text = given.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise _bad(name, text, "true or false")
    return text == "true"


def _number(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name, str(default))
    if not _WHOLE.fullmatch(text):
        raise _bad(name, text, "a whole number")
    return int(text)


def _seconds(given: Mapping[str, str], name: str, default: float) -> float:
    text = given.get(name)
    if text is None:
        return default
    found = re.fullmatch(r"(\d+)\s*(ms|s|m|h|)", text.lower())
    if found is None:
        raise _bad(name, text, "a time such as 5s or 5000 (milliseconds)")
    return int(found[1]) * _UNITS[found[2]] or default


def _bytes(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name)
    if text is None:
        return default
    found = re.fullmatch(r"(\d+)\s*([bkmg]|)b?", text.lower())
    if found is None:
        raise _bad(name, text, "a size such as 16M")
    return int(found[1]) * _SIZES[found[2]]


def _bad(name: str, text: str, wanted: str) -> OptionError:
    return OptionError(f"The option 's3.{name}' holds '{text}'.", hint=f"It takes {wanted}.")
