"""S3 objects as files: ranged reads and multipart uploads with bounded memory."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from paimon_spark.fs.s3_client import client, code_of, translate_io_errors
from paimon_spark.fs.s3_settings import S3Settings

TAIL_BYTES = 256 << 10
"""Size of the first read, at the end of the object: it contains the footers of file formats, and returns the size."""
AHEAD_BYTES = 1 << 20
"""Minimum read size: adjacent columns are usually read one after the other."""
LONGEST_KEY = 1024
"""Maximum length of a key in bytes."""
IN_FLIGHT = 2
"""Number of parts of one file in concurrent upload; memory is limited to these and one more part."""


def fetch(settings: S3Settings, path: str, bucket: str, key: str, span: str | None) -> tuple[bytes, int]:
    """Return a range of an object (`bytes=…`, or None for all of it) and the object's size."""
    from botocore.exceptions import ClientError

    if len(key.encode()) > LONGEST_KEY:
        raise missing(path)
    arguments = {"Bucket": bucket, "Key": key} | ({"Range": span} if span else {})
    with translate_io_errors(settings, path):
        try:
            answer = client(settings).get_object(**arguments)
        except ClientError as e:
            if code_of(e) in ("InvalidRange", "416"):
                return b"", 0
            raise
        data = answer["Body"].read()
    total = str(answer.get("ContentRange", "")).rpartition("/")[2]
    return data, int(total) if total.isdigit() else len(data)


class ObjectInput(io.RawIOBase):
    """An object open for random reads. The end of the object and the last read range are cached."""

    def __init__(self, settings: S3Settings, path: str, bucket: str, key: str) -> None:
        super().__init__()
        self._fetch: Callable[[str], tuple[bytes, int]] = lambda span: fetch(settings, path, bucket, key, span)
        self._path = path
        self._tail, self._size = self._fetch(f"bytes=-{TAIL_BYTES}")
        self._block, self._block_at = b"", 0
        self._at = 0

    def close(self) -> None:
        """Close the object and release what is cached of it."""
        self._tail = self._block = b""
        super().close()

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def size(self) -> int:
        """Return the size of the object."""
        return self._size

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position and return it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Return the next `size` bytes, or all remaining ones."""
        end = self._size if size is None or size < 0 else min(self._at + size, self._size)
        data = self._range(self._at, end) if end > self._at else b""
        self._at += len(data)
        return data

    def readall(self) -> bytes:
        """Return all remaining bytes."""
        return self.read()

    def _range(self, start: int, end: int) -> bytes:
        tail_at = self._size - len(self._tail)
        if start >= tail_at:
            return self._tail[start - tail_at : end - tail_at]
        if start < self._block_at or end > self._block_at + len(self._block):
            last = min(max(end, start + AHEAD_BYTES), self._size)
            block, _ = self._fetch(f"bytes={start}-{last - 1}")
            if len(block) != last - start:
                raise OSError(errno.EIO, f"{self._path} ended early: it is not the object that was opened")
            self._block, self._block_at = block, start
        return self._block[start - self._block_at : end - self._block_at]


class ObjectOutput(io.RawIOBase):
    """A writer of a new object: a single PUT if it is small, else a multipart upload. It becomes visible on close."""

    def __init__(self, settings: S3Settings, path: str, bucket: str, key: str, extra: dict[str, str]) -> None:
        super().__init__()
        self._settings = settings
        self._path = path
        self._place = {"Bucket": bucket, "Key": key}
        self._extra = extra
        self._buffer = bytearray()
        self._written = 0
        self._upload: str | None = None
        self._parts: list[Future[dict[str, Any]]] = []
        self._pool: ThreadPoolExecutor | None = None

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self._written

    def write(self, data: Any) -> int:
        """Append bytes; blocks while too many parts are being uploaded."""
        view = memoryview(data).cast("B")
        self._buffer += view
        self._written += len(view)
        while len(self._buffer) >= self._settings.part_bytes:
            part = bytes(memoryview(self._buffer)[: self._settings.part_bytes])
            del self._buffer[: self._settings.part_bytes]
            self._send(part)
        return len(view)

    def close(self) -> None:
        """Upload the remaining bytes and complete the object."""
        if self.closed:
            return
        super().close()
        if self._upload is None:
            with translate_io_errors(self._settings, self._path):
                client(self._settings).put_object(**self._place, **self._extra, Body=bytes(self._buffer))
            return
        try:
            if self._buffer:
                self._send(bytes(self._buffer))
            parts = [p.result() for p in self._parts]
            with translate_io_errors(self._settings, self._path):
                client(self._settings).complete_multipart_upload(
                    **self._place, UploadId=self._upload, MultipartUpload={"Parts": parts}
                )
        except BaseException:
            self._abort()
            raise
        finally:
            self._shutdown()
            self._buffer.clear()

    def __del__(self) -> None:
        """Abort the upload of an object that was never closed: its content is incomplete."""
        if not self.closed:
            super().close()
            if self._upload is not None:
                self._abort()

    def _send(self, part: bytes) -> None:
        """Start the upload of a part; blocks while too many parts are being uploaded."""
        if self._pool is None or self._upload is None:
            with translate_io_errors(self._settings, self._path):
                answer = client(self._settings).create_multipart_upload(**self._place, **self._extra)
            self._upload = str(answer["UploadId"])
            self._pool = ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="paimon-s3")
        running = [p for p in self._parts if not p.done()]
        if len(running) >= IN_FLIGHT:
            running[0].result()
        for part_before in self._parts:
            if part_before.done():
                part_before.result()
        arguments = {**self._place, "UploadId": self._upload, "PartNumber": len(self._parts) + 1, "Body": part}
        self._parts.append(self._pool.submit(_send_part, self._settings, self._path, arguments))

    def _abort(self) -> None:
        """Abort the multipart upload. If that fails, a lifecycle rule of the bucket has to remove the parts."""
        self._shutdown()
        try:
            with translate_io_errors(self._settings, self._path):
                client(self._settings).abort_multipart_upload(**self._place, UploadId=self._upload)
        except OSError:
            return

    def _shutdown(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


def _send_part(settings: S3Settings, path: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Upload one part. Not a method: an upload thread must not hold the last reference to the file."""
    with translate_io_errors(settings, path):
        answer = client(settings).upload_part(**arguments)
    return {"PartNumber": arguments["PartNumber"], "ETag": answer["ETag"]}


def missing(path: str) -> FileNotFoundError:
    """Return the error for a missing object or directory."""
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
