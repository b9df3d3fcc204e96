"""FileIO of S3 buckets. A directory is a common key prefix, or an empty object whose key ends in a slash."""

from __future__ import annotations

import errno
import os
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from paimon_spark.errors import ErrorKind, OutcomeUnknownError, StoreError, UnsupportedError
from paimon_spark.fs.base import FileStatus
from paimon_spark.fs.s3_client import client, code_of, is_absent, is_full, status_of, store_error, translate_io_errors
from paimon_spark.fs.s3_settings import S3Settings
from paimon_spark.fs.s3_streams import AHEAD_BYTES, LONGEST_KEY, ObjectInput, ObjectOutput, fetch, missing

_TOKEN = "paimon-writer"  # noqa: S105 - the metadata key of the writer token, not a secret
_CREATE_ATTEMPTS = 2
_CREATE_PAUSE_SECONDS = 0.1
_BATCH = 1000
_THREADS = 8
_LARGEST_COPY = 5 << 30
_checked: set[tuple[str, str]] = set()
"""Stores and buckets for which this process has verified conditional writes."""
_checking = threading.Lock()


@dataclass(frozen=True, slots=True)
class S3FileIO:
    """FileIO of the buckets of one store."""

    settings: S3Settings

    @property
    def preferred_read_bytes(self) -> int:
        """Return the optimal request size for piecewise reads."""
        return AHEAD_BYTES

    @property
    def exclusive_create(self) -> bool:
        """Return True: conditional writes are verified before first use, and a store that ignores them is rejected."""
        return True

    def read(self, path: str) -> bytes:
        """Return the content of an object."""
        return fetch(self.settings, path, *split(path), None)[0]

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`; fewer at the end of the object."""
        span = f"bytes={offset}-{offset + max(length, 1) - 1}"
        return fetch(self.settings, path, *split(path), span)[0][:length]

    def open_input(self, path: str) -> pa.NativeFile:
        """Open an object for random access."""
        return pa.PythonFile(ObjectInput(self.settings, path, *split(path)), mode="r")

    def open_output(self, path: str) -> pa.NativeFile:
        """Open a new object for sequential writing; it becomes visible when it is closed."""
        return pa.PythonFile(ObjectOutput(self.settings, path, *_writable(path), self._encryption), mode="w")

    def write(self, path: str, data: bytes, overwrite: bool = True) -> None:  # noqa: FBT001, FBT002
        """Write a whole object."""
        if overwrite:
            self._call(path, "put_object", Body=data, **self._encryption)
            return
        try:
            created = self.create_exclusive(path, data)
        except OutcomeUnknownError as e:  # commits do not depend on the outcome
            raise StoreError(
                f"{self.settings.place} does not write {path}.",
                hint="Check that the store runs, then try again.",
                kind=ErrorKind.STORE_UNAVAILABLE,
            ) from e
        if not created:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)

    def sync(self, paths: Sequence[str]) -> None:
        """Do nothing: an acknowledged object is durable."""

    def create_exclusive(self, path: str, data: bytes) -> bool:
        """Create `path` unless it exists, by a conditional PUT."""
        self._require_conditions(path)
        return self._create(path, data)

    def exists(self, path: str) -> bool:
        """Return whether a file or directory exists."""
        return self._head(path) is not None or self._is_dir(path)

    def status(self, path: str) -> FileStatus:
        """Return the metadata of a file or directory."""
        found = self._head(path)
        if found is not None:
            return FileStatus(path, int(found["ContentLength"]), _millis(found["LastModified"]), is_dir=False)
        if self._is_dir(path):
            return FileStatus(path, 0, 0, is_dir=True)
        raise missing(path)

    def list(self, path: str) -> list[FileStatus]:
        """Return the entries of a directory, sorted by path."""
        base, prefix = path.rstrip("/"), _prefix(path)
        found: list[FileStatus] = []
        for page in self._pages(path, Delimiter="/"):
            names = (p["Prefix"][len(prefix) : -1] for p in page.get("CommonPrefixes", ()))
            found.extend(FileStatus(f"{base}/{name}", 0, 0, is_dir=True) for name in names if name)
            found.extend(_file(base, prefix, o) for o in page.get("Contents", ()) if o["Key"] != prefix)
        return sorted(found, key=lambda s: s.path)

    def list_recursive(self, path: str) -> Iterator[FileStatus]:
        """Yield all files below a directory."""
        base, prefix = path.rstrip("/"), _prefix(path)
        for page in self._pages(path):
            yield from (_file(base, prefix, o) for o in page.get("Contents", ()) if not o["Key"].endswith("/"))

    def delete(self, path: str) -> bool:
        """Delete one object; return False if it did not exist."""
        if self._head(path) is None:
            if self._is_dir(path):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            return False
        self._call(path, "delete_object")
        return True

    def delete_dir(self, path: str) -> None:
        """Delete a directory and its content."""
        for page in self._pages(path):
            self._delete_keys(path, [o["Key"] for o in page.get("Contents", ())])

    def delete_empty_dir(self, path: str) -> bool:
        """Delete the marker object of a directory if it contains no other object."""
        bucket, _ = split(path)
        with translate_io_errors(self.settings, path):
            answer = client(self.settings).list_objects_v2(Bucket=bucket, Prefix=_prefix(path), MaxKeys=2)
        if [o["Key"] for o in answer.get("Contents", ())] != [_prefix(path)]:
            return False
        self._delete_keys(path, [_prefix(path)])
        return True

    def rename(self, source: str, target: str) -> bool:
        """Rename a file or directory unless the target exists.

        S3 has no rename: all objects are copied, and the source is deleted after the last copy. If a copy fails, the
        copies are deleted. Objects that others write to the source meanwhile are kept.
        """
        old, new = source.rstrip("/"), target.rstrip("/")
        head = self._head(old)
        is_file = head is not None
        if not is_file and not self._is_dir(old):
            raise missing(source)
        if self.exists(new):
            return False
        base = split(old)[1]
        if head is not None:
            found: list[dict[str, Any]] = [{"Key": base, "Size": int(head["ContentLength"])}]
        else:
            found = [o for page in self._pages(old) for o in page.get("Contents", ())]
        large = [o["Key"] for o in found if o["Size"] > _LARGEST_COPY]
        if large:
            raise UnsupportedError(
                f"{source} cannot be renamed: {large[0]} exceeds 5 GiB, the limit of one copy request.",
                hint="Create the table under the new name with CREATE TABLE … AS SELECT.",
            )
        tails = [""] if is_file else [o["Key"][len(base) :] for o in found]
        self._copy_all(old, new, tails)
        bucket = f"{old.partition('://')[0]}://{split(old)[0]}"
        self._delete_keys(bucket, [base + t for t in sorted(tails, key=lambda t: not t.startswith("/schema/"))])
        return True

    def mkdirs(self, path: str) -> None:
        """Create a directory; its parents need no marker objects."""
        if _prefix(path) and not self._is_dir(path):
            self._call(path.rstrip("/") + "/", "put_object", Body=b"")

    def to_config(self) -> Mapping[str, str]:
        """Return the settings, including credentials: they are sent to workers with tasks, and are never printed."""
        return {"scheme": "s3", "settings": self.settings.to_text()}

    # ---- exclusive creation

    def _create(self, path: str, data: bytes) -> bool:
        """Create the object and return whether this writer created it, by the writer token in its metadata.

        If a response is lost, including that of a retry by the client library, the token of the stored object decides.
        """
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

        token = uuid.uuid4().hex
        arguments: dict[str, Any] = {"Body": data, "IfNoneMatch": "*", "Metadata": {_TOKEN: token}, **self._encryption}
        bucket, key = _writable(path)
        last: Exception | None = None
        for attempt in range(_CREATE_ATTEMPTS):
            time.sleep(attempt * _CREATE_PAUSE_SECONDS)
            try:
                client(self.settings).put_object(Bucket=bucket, Key=key, **arguments)
            except ClientError as e:
                refused = 400 <= status_of(e) < 500 and status_of(e) not in (408, 409, 412, 429)
                if refused or (is_full(e) and self._owner(path) is None):
                    raise self._refusal(e, path) from None
                last = e
            except HTTPClientError as e:
                last = e
            except BotoCoreError as e:
                raise store_error(e, self.settings, path) from None
            else:
                return True
            found = self._owner(path)
            if found is not None:
                return found == token
        raise _unknown(path, last)

    def _owner(self, path: str) -> str | None:
        """Return the writer token of the object at `path`, empty if it has none, or None if there is no object."""
        try:
            found = self._head(path)
        except OSError as e:
            raise _unknown(path, e) from None
        return None if found is None else str(found.get("Metadata", {}).get(_TOKEN, ""))

    def _refusal(self, error: Exception, path: str) -> OSError | UnsupportedError:
        if code_of(error) == "NotImplemented" or status_of(error) == 501:
            return self._no_conditions(path)
        return store_error(error, self.settings, path)

    def _require_conditions(self, path: str) -> None:
        """Verify once per process that the store honours conditional writes; AWS is known to."""
        place = (self.settings.place, split(path)[0])
        if self.settings.endpoint is None or place in _checked:
            return
        with _checking:
            if place in _checked:
                return
            probe = f"{path.rpartition('/')[0]}/.exclusive-create-{uuid.uuid4().hex}"
            self._create(probe, b"")
            try:
                twice = self._create(probe, b"")
            finally:
                self._call(probe, "delete_object")
            if twice:
                raise self._no_conditions(path)
            _checked.add(place)

    def _no_conditions(self, path: str) -> UnsupportedError:
        return UnsupportedError(
            f"The store {self.settings.place} ignores If-None-Match: two writers of {path} would lose data.",
            hint="Use a store with conditional writes; this release has no lock to replace them.",
            kind=ErrorKind.UNSUPPORTED_STORE,
        )

    # ---- requests

    @property
    def _encryption(self) -> dict[str, str]:
        found = {"ServerSideEncryption": self.settings.encryption, "SSEKMSKeyId": self.settings.encryption_key}
        return {k: v for k, v in found.items() if v} if self.settings.encryption else {}

    def _call(self, path: str, operation: str, **arguments: Any) -> Any:
        bucket, key = _writable(path)
        with translate_io_errors(self.settings, path):
            return getattr(client(self.settings), operation)(Bucket=bucket, Key=key, **arguments)

    def _head(self, path: str) -> dict[str, Any] | None:
        from botocore.exceptions import ClientError

        key = split(path)[1]
        if not key or len(key.encode()) > LONGEST_KEY:
            return None
        with translate_io_errors(self.settings, path):
            try:
                return self._call_raw(path, "head_object")
            except ClientError as e:
                if is_absent(e):
                    return None
                raise

    def _call_raw(self, path: str, operation: str) -> dict[str, Any]:
        bucket, key = split(path)
        return getattr(client(self.settings), operation)(Bucket=bucket, Key=key)

    def _is_dir(self, path: str) -> bool:
        bucket, key = split(path)
        if len(key.encode()) > LONGEST_KEY:
            return False
        with translate_io_errors(self.settings, path):
            answer = client(self.settings).list_objects_v2(Bucket=bucket, Prefix=_prefix(path), MaxKeys=1)
        return bool(answer.get("Contents") or answer.get("CommonPrefixes"))

    def _pages(self, path: str, **arguments: Any) -> Iterator[dict[str, Any]]:
        bucket, _ = split(path)
        if len(_prefix(path).encode()) > LONGEST_KEY:
            return
        pages = client(self.settings).get_paginator("list_objects_v2")
        with translate_io_errors(self.settings, path):
            yield from pages.paginate(Bucket=bucket, Prefix=_prefix(path), **arguments)

    def _delete_keys(self, path: str, keys: Sequence[str]) -> None:
        bucket, _ = split(path)
        for start in range(0, len(keys), _BATCH):
            batch = [{"Key": k} for k in keys[start : start + _BATCH]]
            with translate_io_errors(self.settings, path):
                answer = client(self.settings).delete_objects(Bucket=bucket, Delete={"Objects": batch, "Quiet": True})
            failed = answer.get("Errors")
            if failed:
                raise StoreError(
                    f"{self.settings.place} did not delete {len(failed)} objects of {path} ({failed[0].get('Code')}).",
                    hint="Check that the credentials may delete, then run the statement again.",
                )

    def _copy_all(self, old: str, new: str, tails: Sequence[str]) -> None:
        """Copy all objects; schema files, which make a directory a table, are copied last."""
        source_bucket, source = split(old)
        done: list[str] = []

        def copy(tail: str) -> None:
            origin = {"Bucket": source_bucket, "Key": source + tail}
            self._call(new + tail, "copy_object", CopySource=origin, **self._encryption)
            done.append(split(new + tail)[1])

        late = [t for t in tails if t.startswith("/schema/")]
        try:
            for group in ([t for t in tails if not t.startswith("/schema/")], late):
                with ThreadPoolExecutor(_THREADS) as pool:
                    list(pool.map(copy, group))
        except BaseException:
            self._delete_keys(new, done)
            raise


def split(path: str) -> tuple[str, str]:
    """Return bucket and key of a location."""
    bucket, _, key = path.partition("://")[2].partition("/")
    return bucket, key


def _writable(path: str) -> tuple[str, str]:
    bucket, key = split(path)
    if len(key.encode()) > LONGEST_KEY:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)
    return bucket, key


def _prefix(path: str) -> str:
    key = split(path)[1].rstrip("/")
    return key + "/" if key else ""


def _file(base: str, prefix: str, found: Mapping[str, Any]) -> FileStatus:
    path = f"{base}/{found['Key'][len(prefix) :]}"
    return FileStatus(path, int(found["Size"]), _millis(found["LastModified"]), is_dir=False)


def _millis(moment: Any) -> int:
    return int(moment.timestamp() * 1000)


def _unknown(path: str, error: Exception | None) -> OutcomeUnknownError:
    what = type(error).__name__ if error is not None and not code_of(error) else code_of(error or Exception())
    return OutcomeUnknownError(
        f"The store did not report whether '{path}' was created ({what}).",
        hint="Check whether it exists before you try again.",
    )
