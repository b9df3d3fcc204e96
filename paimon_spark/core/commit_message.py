"""Commit messages: what writers and compactors send to the committer, serialized as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from paimon_spark.errors import EngineError
from paimon_spark.spec.kinds import FileSource
from paimon_spark.spec.manifest import DataFileMeta, DeletionRange, IndexFileMeta, SimpleStats


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMessage:
    """The changes of one bucket. Files are given by name, not by path; names are resolved against the table."""

    partition: bytes
    bucket: int
    total_buckets: int
    new_files: tuple[DataFileMeta, ...] = ()
    deleted_files: tuple[DataFileMeta, ...] = ()
    new_changelog: tuple[DataFileMeta, ...] = ()
    compact_before: tuple[DataFileMeta, ...] = ()
    compact_after: tuple[DataFileMeta, ...] = ()
    compact_changelog: tuple[DataFileMeta, ...] = ()
    new_index_files: tuple[IndexFileMeta, ...] = ()
    deleted_index_files: tuple[IndexFileMeta, ...] = ()
    vectors_seen: tuple[tuple[str, int], ...] = ()
    """Data files whose deletion vectors this change depends on, with the fingerprint of the vector that was read."""


def messages_to_json(messages: Iterable[CommitMessage]) -> str:
    """Serialize `messages` as JSON."""
    return json.dumps([_plain(asdict(m)) for m in messages], separators=(",", ":"))


def messages_from_json(text: str) -> list[CommitMessage]:
    """Parse the output of `messages_to_json`.

    Raises:
        EngineError: the text is malformed.
    """
    with decode_errors("commit messages", text):
        return [_message(raw) for raw in json.loads(text)]


@contextmanager
def decode_errors(what: str, text: str) -> Iterator[None]:
    """Turn parse errors of a malformed text into an EngineError."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as e:
        raise EngineError(
            f"A text of {len(text)} characters is no list of {what}: {type(e).__name__} {e}"[:300] + ".",
            hint="Make sure that the driver and all executors have the same release of paimon-spark.",
        ) from e


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values; raise TypeError if one is still a JSON object or array, or holds one."""
    for name, value in values.items():
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, dict | list):
                raise TypeError(f"{name} is or holds a {type(one).__name__}")
    return values


def _bytes(value: dict[str, str]) -> bytes:
    return base64.b64decode(value["b64"])


def _stats(raw: dict[str, Any]) -> SimpleStats:
    counts = {"null_counts": tuple(raw["null_counts"])}
    return SimpleStats(_bytes(raw["min_values"]), _bytes(raw["max_values"]), **_flat(counts))


def file_from_plain(raw: dict[str, Any]) -> DataFileMeta:
    """Rebuild a data file from its plain JSON object."""
    values = dict(raw)
    values |= {k: _bytes(raw[k]) for k in ("min_key", "max_key", "embedded_index") if k in raw}
    values |= {k: _stats(raw[k]) for k in ("key_stats", "value_stats")}
    values |= {k: tuple(raw[k]) for k in ("extra_files", "value_stats_cols", "write_cols") if k in raw}
    if "file_source" in raw:
        values["file_source"] = FileSource(raw["file_source"])
    return DataFileMeta(**_flat(values))


def file_to_plain(file: DataFileMeta) -> dict[str, Any]:
    """Return a data file as a plain JSON object."""
    plain: dict[str, Any] = _plain(asdict(file))
    return plain


def _index(raw: dict[str, Any]) -> IndexFileMeta:
    values = dict(raw)
    if "deletion_ranges" in raw:
        values["deletion_ranges"] = tuple(DeletionRange(**_flat(r)) for r in raw["deletion_ranges"])
    if "global_index" in raw:
        values["global_index"] = _bytes(raw["global_index"])
    return IndexFileMeta(**_flat(values))


def _message(raw: dict[str, Any]) -> CommitMessage:
    values: dict[str, Any] = {}
    for name, value in raw.items():
        if name == "partition":
            values[name] = _bytes(value)
        elif name.endswith("index_files"):
            values[name] = tuple(_index(v) for v in value)
        elif name in ("bucket", "total_buckets"):
            values[name] = value
        elif name == "vectors_seen":
            values[name] = tuple((str(file), int(seen)) for file, seen in value)
        else:
            values[name] = tuple(file_from_plain(v) for v in value)
    return CommitMessage(**_flat(values))
