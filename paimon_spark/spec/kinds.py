"""Enumerations of the format: row kinds, bucket modes, commit kinds, merge engines."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class RowKind(IntEnum):
    """Kind of a row as stored in ``_VALUE_KIND``."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def short(self) -> str:
        """Return the two-character spelling: ``+I``, ``-U``, ``+U`` or ``-D``."""
        return ("+I", "-U", "+U", "-D")[self]


class FileKind(IntEnum):
    """Kind of a manifest entry."""

    ADD = 0
    DELETE = 1


class FileSource(IntEnum):
    """What produced a data file."""

    APPEND = 0
    COMPACT = 1


class CommitKind(StrEnum):
    """Kind of a snapshot."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


class Operation(StrEnum):
    """Statement that produced a snapshot. Readers of Paimon 2.0 fail on any other name."""

    WRITE = "WRITE"
    OVERWRITE = "OVERWRITE"
    DELETE = "DELETE"
    TRUNCATE = "TRUNCATE"
    UPDATE = "UPDATE"
    MERGE = "MERGE"
    CREATE_TABLE_AS_SELECT = "CREATE_TABLE_AS_SELECT"
    REPLACE_TABLE_AS_SELECT = "REPLACE_TABLE_AS_SELECT"
    CREATE_OR_REPLACE_TABLE_AS_SELECT = "CREATE_OR_REPLACE_TABLE_AS_SELECT"


class BucketMode(StrEnum):
    """How rows are assigned to buckets (docs/spec/storage.md, section 10)."""

    HASH_FIXED = "HASH_FIXED"
    HASH_DYNAMIC = "HASH_DYNAMIC"
    KEY_DYNAMIC = "KEY_DYNAMIC"
    BUCKET_UNAWARE = "BUCKET_UNAWARE"
    POSTPONE = "POSTPONE"


class MergeEngine(StrEnum):
    """How rows with the same key are merged."""

    DEDUPLICATE = "deduplicate"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATION = "aggregation"
    FIRST_ROW = "first-row"


PICKING = (MergeEngine.DEDUPLICATE, MergeEngine.FIRST_ROW)
"""Engines whose merged rows are versions of their keys."""


class ChangelogProducer(StrEnum):
    """How the changelog is produced."""

    NONE = "none"
    INPUT = "input"
    FULL_COMPACTION = "full-compaction"
    LOOKUP = "lookup"


class ChangeSource(StrEnum):
    """The files that changes between two snapshots are read from."""

    AUTO = "auto"
    DELTA = "delta"
    CHANGELOG = "changelog"
    DIFF = "diff"


KEY_PREFIX = "_KEY_"
SEQUENCE_NUMBER = "_SEQUENCE_NUMBER"
VALUE_KIND = "_VALUE_KIND"
ROW_ID = "_ROW_ID"
KEY_FIELD_ID_START = 1073741823
SEQUENCE_NUMBER_FIELD_ID = 2147483646
VALUE_KIND_FIELD_ID = 2147483645
ROW_ID_FIELD_ID = 2147483642
BATCH_COMMIT_IDENTIFIER = 9223372036854775807
