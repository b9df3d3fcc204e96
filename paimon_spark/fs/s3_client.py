"""The client of an S3 store, one per process and settings, and the translation of its errors."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from paimon_spark.errors import EngineError, ErrorKind, StoreError
from paimon_spark.fs.s3_settings import S3Settings

POOL = 32
_KEYS = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "TokenRefreshRequired")
_REGION = ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException")
_BUSY = ("SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout", "Throttling", "OperationAborted")
_FULL = ("XMinioStorageFull", "QuotaExceeded", "XMinioAdminBucketQuotaExceeded")
_INSUFFICIENT_STORAGE = 507
_ABSENT = ("NoSuchKey", "404", "NotFound")


def require_library() -> None:
    """Check that the S3 library is installed; it is imported only after this check.

    Raises:
        EngineError: the library is not installed or cannot be imported.
    """
    try:
        import botocore.exceptions
        import botocore.session  # noqa: F401 - required by `client`
    except ImportError as e:
        raise EngineError(
            f"Locations on S3 need the package botocore, which this Python ({sys.executable}) does not have ({e}).",
            hint="Run `pip install 'paimon-spark[s3]'` there; the workers of a cluster need it too.",
            kind=ErrorKind.ENVIRONMENT,
        ) from None


@lru_cache(maxsize=32)
def client(settings: S3Settings) -> Any:
    """Return the client for these settings. Clients are thread-safe.

    Raises:
        EngineError: the library is not installed.
        StoreError: the AWS configuration of this machine is invalid.
    """
    require_library()
    from botocore import UNSIGNED, session
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    extra: dict[str, Any] = {"signature_version": UNSIGNED} if settings.anonymous else {}
    if settings.proxy:
        extra["proxies"] = {"http": settings.proxy, "https": settings.proxy}
    try:
        return session.get_session().create_client(
            "s3",
            endpoint_url=settings.endpoint,
            region_name=settings.region or ("us-east-1" if settings.endpoint else None),
            aws_access_key_id=settings.access_key,
            aws_secret_access_key=settings.secret_key,
            aws_session_token=settings.session_token,
            config=Config(
                connect_timeout=settings.connect_seconds,
                read_timeout=settings.read_seconds,
                retries={"mode": "standard", "total_max_attempts": settings.attempts},
                s3={"addressing_style": "path" if settings.path_style else "auto"},
                max_pool_connections=POOL,
                request_checksum_calculation="when_required",  # stores other than AWS may not support newer checksums
                response_checksum_validation="when_required",
                tcp_keepalive=True,
                **extra,
            ),
        )
    except (BotoCoreError, ValueError) as e:
        raise store_error(e, settings, "") from None


os.register_at_fork(after_in_child=client.cache_clear)


@contextmanager
def translate_io_errors(settings: S3Settings, path: str) -> Iterator[None]:
    """Translate client errors into FileNotFoundError or StoreError."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (ClientError, BotoCoreError) as e:
        raise store_error(e, settings, path) from None


def code_of(error: Exception) -> str:
    """Return the error code of a response, or an empty string if there was no response."""
    response = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


def status_of(error: Exception) -> int:
    """Return the HTTP status of a response, or 0 if there was no response."""
    response = getattr(error, "response", None)
    return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)) if isinstance(response, dict) else 0


def is_absent(error: Exception) -> bool:
    """Return whether the error means that the object does not exist."""
    return code_of(error) in _ABSENT


def is_full(error: Exception) -> bool:
    """Return whether the error means that the store is full."""
    return status_of(error) == _INSUFFICIENT_STORAGE or code_of(error) in _FULL


def store_error(error: Exception, settings: S3Settings, path: str) -> OSError:
    """Return the error for a client error. The text is built here, so that it never contains credentials."""
    code, status, place = code_of(error), status_of(error), settings.place
    where = f" for {path}" if path else ""
    if is_absent(error):
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if code in ("NoSuchBucket", "InvalidBucketName"):
        bucket = path.partition("://")[2].partition("/")[0]
        return StoreError(
            f"There is no bucket '{bucket}' at {place}.",
            hint="Create it, or correct the warehouse or s3.endpoint.",
            kind=ErrorKind.BUCKET_NOT_FOUND,
        )
    if is_full(error):
        return StoreError(
            f"{place} is full ({code or status}){where}.",
            hint="Make room in the store or raise the quota, then run the statement again.",
            kind=ErrorKind.STORE_FULL,
        )
    if code in _KEYS:
        return StoreError(
            f"{place} refuses the credentials ({code}){where}.",
            hint="Check s3.access-key and s3.secret-key, or the AWS configuration of this machine.",
        )
    if code in _REGION or status in (301, 307):
        return StoreError(
            f"{place} reports that the bucket is in another region ({code or status}){where}.",
            hint="Set s3.endpoint.region to the region of the bucket.",
        )
    if status in (401, 403):
        return StoreError(
            f"{place} denies access ({code or status}){where}.",
            hint="Check s3.access-key and s3.secret-key, and that they may list, read, write and delete in the bucket.",
        )
    if status and status < 500 and code not in _BUSY:
        return StoreError(
            f"{place} refuses the request ({code or status}){where}.", hint="Check the options that begin with s3."
        )
    return _unanswered(error, settings, status, where)


def _unanswered(error: Exception, settings: S3Settings, status: int, where: str) -> StoreError:
    name = type(error).__name__
    if name in ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "TokenRetrievalError"):
        return StoreError(
            f"No AWS credentials were found ({name}){where}.",
            hint="Set s3.access-key and s3.secret-key, or use the environment variables, profile or role of AWS.",
        )
    if not status and name in ("ProfileNotFound", "ConfigParseError", "NoRegionError", "InvalidEndpointDiscovery"):
        return StoreError(f"The AWS configuration of this machine does not work ({name}).", hint="Check ~/.aws.")
    what = f"failed ({code_of(error) or status})" if status else f"does not answer ({name})"
    return StoreError(
        f"{settings.place} {what}{where}.",
        hint="Check s3.endpoint and that the store runs, then try again.",
        kind=ErrorKind.STORE_UNAVAILABLE,
    )
