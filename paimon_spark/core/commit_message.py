"""Commit messages: what writers and compactors send to the committer, serialized as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from paimon_spark.core.messages import MessageCodec
from paimon_spark.spec.bounds import Int, Long
from paimon_spark.spec.manifest import DataFileMeta, IndexFileMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMessage:
    """The changes of one bucket. Files are given by name, not by path; names are resolved against the table."""

    partition: bytes
    bucket: Int
    total_buckets: Int
    new_files: tuple[DataFileMeta, ...] = ()
    deleted_files: tuple[DataFileMeta, ...] = ()
    new_changelog: tuple[DataFileMeta, ...] = ()
    compact_before: tuple[DataFileMeta, ...] = ()
    compact_after: tuple[DataFileMeta, ...] = ()
    compact_changelog: tuple[DataFileMeta, ...] = ()
    new_index_files: tuple[IndexFileMeta, ...] = ()
    deleted_index_files: tuple[IndexFileMeta, ...] = ()
    vectors_seen: tuple[tuple[str, Long], ...] = ()
    """Data files whose deleted rows this change relies on, with the fingerprint of the vector that was read."""


_CODEC = MessageCodec[list[CommitMessage]](list[CommitMessage], "list of commit messages")


def messages_to_json(messages: Iterable[CommitMessage]) -> str:
    """Return `messages` as one JSON text."""
    return _CODEC.encode(list(messages))


def messages_from_json(text: str) -> list[CommitMessage]:
    """Parse the output of `messages_to_json`.

    Raises:
        EngineError: the text is malformed.
    """
    return _CODEC.decode(text)
