"""Where the files of a table stand, and what new ones are called (storage spec, section 1)."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paimon_spark.spec.literals import value_text
from paimon_spark.spec.manifest import DataFileMeta, IndexFileMeta
from paimon_spark.spec.rows import decode_row
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.types import DataField, DataType

MAIN_BRANCH = "main"
DEFAULT_PARTITION = "__DEFAULT_PARTITION__"
POSTPONE_BUCKET = -2
_SPECIAL = set("\"#%'*/:=?\\{}[]^\x7f") | {chr(c) for c in range(0x20)}
_ESCAPES = str.maketrans({c: f"%{ord(c):02X}" for c in _SPECIAL})
_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")


def escape(text: str) -> str:
    """Return `text` with the characters that a partition directory cannot carry as ``%XX``."""
    return text.translate(_ESCAPES)


def unescape(text: str) -> str:
    """Undo `escape`; a percent sign that starts no escape stays."""
    return _ESCAPED.sub(lambda m: chr(int(m[1], 16)), text)


def partition_text(value: Any, t: DataType, *, legacy: bool = True, default_name: str = DEFAULT_PARTITION) -> str:
    """Return the text of a partition value, not escaped; null and blank texts are the default partition."""
    text = "" if value is None else value_text(value, t, legacy=legacy)
    return text if text.strip() else default_name


def partition_path(
    values: Sequence[Any],
    fields: Sequence[DataField],
    *,
    legacy: bool = True,
    default_name: str = DEFAULT_PARTITION,
) -> str:
    """Return the directory of a partition below the data root: ``k=v/k2=v2``, or an empty text."""
    return "/".join(
        f"{escape(f.name)}={escape(partition_text(v, f.type, legacy=legacy, default_name=default_name))}"
        for v, f in zip(values, fields, strict=True)
    )


def bucket_name(bucket: int) -> str:
    """Return the name of a bucket's directory."""
    return "bucket-postpone" if bucket == POSTPONE_BUCKET else f"bucket-{bucket}"


@dataclass(frozen=True, slots=True)
class TablePaths:
    """Paths of one table, in the spelling of `root`; a branch has its own metadata and shares everything else."""

    root: str
    partition_fields: tuple[DataField, ...] = ()
    branch: str = MAIN_BRANCH
    legacy_partition_name: bool = True
    default_partition: str = DEFAULT_PARTITION
    data_directory: str | None = None
    index_in_data: bool = False
    _partitions: dict[bytes, str] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, root: str, schema: TableSchema, options: Mapping[str, str], branch: str = MAIN_BRANCH) -> TablePaths:
        """Return the paths of the table at `root`."""
        return cls(
            root.rstrip("/") or "/",
            schema.partition_fields,
            branch,
            options.get("partition.legacy-name", "true").strip().lower() != "false",
            options.get("partition.default-name", DEFAULT_PARTITION),
            options.get("data-file.path-directory"),
            options.get("index-file-in-data-file-dir", "false").strip().lower() == "true",
        )

    # ---- metadata of the branch

    @property
    def metadata_root(self) -> str:
        """Return where schema, snapshot, tag, consumer and changelog directories stand."""
        return self.root if self.branch == MAIN_BRANCH else self.branch_dir(self.branch)

    @property
    def schema_dir(self) -> str:
        """Return the directory of schemas."""
        return f"{self.metadata_root}/schema"

    @property
    def snapshot_dir(self) -> str:
        """Return the directory of snapshots."""
        return f"{self.metadata_root}/snapshot"

    @property
    def tag_dir(self) -> str:
        """Return the directory of tags."""
        return f"{self.metadata_root}/tag"

    @property
    def consumer_dir(self) -> str:
        """Return the directory of consumers."""
        return f"{self.metadata_root}/consumer"

    @property
    def changelog_dir(self) -> str:
        """Return the directory of long-lived changelogs."""
        return f"{self.metadata_root}/changelog"

    @property
    def latest_hint(self) -> str:
        """Return the file that names the newest snapshot."""
        return f"{self.snapshot_dir}/LATEST"

    @property
    def earliest_hint(self) -> str:
        """Return the file that names the oldest snapshot."""
        return f"{self.snapshot_dir}/EARLIEST"

    def schema(self, schema_id: int) -> str:
        """Return a schema file."""
        return f"{self.schema_dir}/schema-{schema_id}"

    def snapshot(self, snapshot_id: int) -> str:
        """Return a snapshot file."""
        return f"{self.snapshot_dir}/snapshot-{snapshot_id}"

    def tag(self, name: str) -> str:
        """Return a tag file."""
        return f"{self.tag_dir}/tag-{name}"

    def consumer(self, name: str) -> str:
        """Return a consumer file."""
        return f"{self.consumer_dir}/consumer-{name}"

    def changelog(self, snapshot_id: int) -> str:
        """Return a long-lived changelog file."""
        return f"{self.changelog_dir}/changelog-{snapshot_id}"

    # ---- shared by all branches

    @property
    def branches_dir(self) -> str:
        """Return the directory of branches."""
        return f"{self.root}/branch"

    def branch_dir(self, name: str) -> str:
        """Return the metadata directory of a branch."""
        return f"{self.branches_dir}/branch-{name}"

    @property
    def manifest_dir(self) -> str:
        """Return the directory of manifests, manifest lists and index manifests."""
        return f"{self.root}/manifest"

    @property
    def index_dir(self) -> str:
        """Return the directory of index files."""
        return f"{self.root}/index"

    @property
    def statistics_dir(self) -> str:
        """Return the directory of ANALYZE results."""
        return f"{self.root}/statistics"

    @property
    def data_root(self) -> str:
        """Return the directory below which partitions and buckets stand."""
        return f"{self.root}/{self.data_directory}" if self.data_directory else self.root

    def manifest(self, name: str) -> str:
        """Return a manifest, a manifest list or an index manifest."""
        return f"{self.manifest_dir}/{name}"

    def statistics(self, name: str) -> str:
        """Return a statistics file."""
        return f"{self.statistics_dir}/{name}"

    def partition_values(self, partition: bytes) -> tuple[Any, ...]:
        """Return the values of a serialized partition row."""
        return decode_row(partition, [f.type for f in self.partition_fields])

    def partition_path(self, partition: bytes) -> str:
        """Return ``k=v/k2=v2`` of a serialized partition row; an empty text without partition columns."""
        path = self._partitions.get(partition)
        if path is None:
            path = partition_path(
                self.partition_values(partition),
                self.partition_fields,
                legacy=self.legacy_partition_name,
                default_name=self.default_partition,
            )
            self._partitions[partition] = path
        return path

    def partition_dir(self, partition: bytes) -> str:
        """Return the directory of a serialized partition row."""
        path = self.partition_path(partition)
        return f"{self.data_root}/{path}" if path else self.data_root

    def bucket_dir(self, partition: bytes, bucket: int) -> str:
        """Return the directory of a bucket."""
        return f"{self.partition_dir(partition)}/{bucket_name(bucket)}"

    def data_file(self, partition: bytes, bucket: int, file: DataFileMeta) -> str:
        """Return where a data file stands."""
        return file.external_path or f"{self.bucket_dir(partition, bucket)}/{file.file_name}"

    def extra_files(self, partition: bytes, bucket: int, file: DataFileMeta) -> list[str]:
        """Return where the files stand that belong to a data file."""
        directory = self.data_file(partition, bucket, file).rpartition("/")[0]
        return [f"{directory}/{name}" for name in file.extra_files]

    def index_file(self, partition: bytes, bucket: int, file: IndexFileMeta) -> str:
        """Return where an index file stands."""
        return file.external_path or self.new_index_file(partition, bucket, file.file_name)

    def new_index_file(self, partition: bytes, bucket: int, name: str) -> str:
        """Return where to write an index file called `name`."""
        directory = self.bucket_dir(partition, bucket) if self.index_in_data else self.index_dir
        return f"{directory}/{name}"


class NameSource:
    """Names for new files of one writer: a random part of its own and a counter, unique inside the table."""

    __slots__ = ("_next", "_prefix", "_suffix")

    def __init__(self, prefix: str, suffix: str = "", token: str | None = None) -> None:
        self._prefix = f"{prefix}{token or uuid.uuid4()}"
        self._suffix = suffix
        self._next = 0

    def __call__(self) -> str:
        """Return the next name."""
        name = f"{self._prefix}-{self._next}{self._suffix}"
        self._next += 1
        return name


def data_names(prefix: str, file_format: str, compression: str | None = None) -> NameSource:
    """Return names of data files; `compression` is given where the option asks for it in the name."""
    return NameSource(prefix, f".{compression}.{file_format}" if compression else f".{file_format}")


def manifest_names() -> NameSource:
    """Return names of manifests."""
    return NameSource("manifest-")


def manifest_list_names() -> NameSource:
    """Return names of manifest lists."""
    return NameSource("manifest-list-")


def index_manifest_names() -> NameSource:
    """Return names of index manifests."""
    return NameSource("index-manifest-")


def index_names() -> NameSource:
    """Return names of index files."""
    return NameSource("index-")
