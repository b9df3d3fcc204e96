"""Paths of a table's files, and names of new files (docs/spec/storage.md, section 1)."""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from paimon_spark.errors import ArgumentError, CorruptTableError, UnsupportedError
from paimon_spark.spec.file_indexes import INDEX_SUFFIX
from paimon_spark.spec.identifier import is_one_name, shown
from paimon_spark.spec.literals import value_text
from paimon_spark.spec.manifest import DataFileMeta, IndexFileMeta
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.rows import decode_row
from paimon_spark.spec.types import DataField, DataType

MAIN_BRANCH = "main"
_MARK_START = 19
_SUCCESS_DIRECTORY = "tag-success-file"
DEFAULT_PARTITION = "__DEFAULT_PARTITION__"
POSTPONE_BUCKET = -2
BUCKET_PREFIX = "bucket-"
JAVA_BLANKS = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \u1680"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a\u2028\u2029\u205f\u3000"
)
"""Whitespace as in Java, without no-break spaces."""
_SPECIAL = set("\"#%'*/:=?\\{}[]^\x7f") | {chr(c) for c in range(0x20)}
_ESCAPES = str.maketrans({c: f"%{ord(c):02X}" for c in _SPECIAL})
_LOCAL = re.compile("^(?:file:)?/+")


def escape(text: str) -> str:
    """Return `text` with the characters that a partition directory cannot contain as ``%XX``."""
    return text.translate(_ESCAPES)


def partition_text(value: Any, t: DataType, *, legacy: bool = True, default_name: str = DEFAULT_PARTITION) -> str:
    """Return the text of a partition value, not escaped; null and blank texts are the default partition."""
    text = "" if value is None else value_text(value, t, legacy=legacy)
    return text if text.strip(JAVA_BLANKS) else default_name


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


def file_in(directory: str, name: str) -> str:
    """Return the path of the table's file `name`, which must be directly in `directory`.

    Raises:
        CorruptTableError: `name` leads to another directory.
    """
    if not is_one_name(name):
        raise CorruptTableError(
            f"The table refers to a file {shown(name)}, which is outside of the directory {directory}.",
            hint="No writer creates such a table: do not trust it, and check who can write to its directory.",
        )
    return f"{directory}/{name}"


def bucket_name(bucket: int) -> str:
    """Return the name of a bucket's directory."""
    return f"{BUCKET_PREFIX}{'postpone' if bucket == POSTPONE_BUCKET else bucket}"


def _named(name: str, what: str) -> str:
    if not is_one_name(name):
        raise ArgumentError(f"{shown(name)} cannot be the name of a {what}.", hint="Use a name without slashes.")
    return name


Partition = bytes | str
"""A partition as its serialized row, or as its directory: ``k=v/k2=v2``, empty for an unpartitioned table."""


def new_write_token() -> str:
    """Return a write token, half a UUID, for the names of all data and index files of one statement."""
    return str(uuid.uuid4())[_MARK_START:]


class TablePaths:
    """Paths of one table, below `root` as it is spelled; a branch has its own metadata and shares everything else."""

    __slots__ = ("_options", "_partitions", "branch", "partition_fields", "root", "write_token")

    def __init__(
        self,
        root: str,
        options: CoreOptions,
        partition_fields: Sequence[DataField] = (),
        branch: str = MAIN_BRANCH,
        write_token: str = "",
    ) -> None:
        self.write_token = write_token
        self.root = root.rstrip("/") or "/"
        self.partition_fields = tuple(partition_fields)
        self.branch = branch
        self._options = options
        self._partitions: dict[bytes, str] = {}

    # ---- metadata of the branch

    @property
    def metadata_root(self) -> str:
        """Return the parent of the schema, snapshot, tag, consumer and changelog directories."""
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
        """Return the file that names the latest snapshot."""
        return f"{self.snapshot_dir}/LATEST"

    @property
    def earliest_hint(self) -> str:
        """Return the file that names the earliest snapshot."""
        return f"{self.snapshot_dir}/EARLIEST"

    def schema(self, schema_id: int) -> str:
        """Return a schema file."""
        return f"{self.schema_dir}/schema-{schema_id}"

    def snapshot(self, snapshot_id: int) -> str:
        """Return a snapshot file."""
        return f"{self.snapshot_dir}/snapshot-{snapshot_id}"

    def tag(self, name: str) -> str:
        """Return a tag file."""
        return f"{self.tag_dir}/tag-{_named(name, 'tag')}"

    @property
    def tag_success_dir(self) -> str:
        """Return the directory of the success files of tags."""
        return f"{self.tag_dir}/{_SUCCESS_DIRECTORY}"

    def tag_success(self, name: str) -> str:
        """Return the success file of a tag."""
        return f"{self.tag_success_dir}/{_named(name, 'tag')}_SUCCESS"

    def consumer(self, name: str) -> str:
        """Return a consumer file."""
        return f"{self.consumer_dir}/consumer-{_named(name, 'consumer')}"

    def changelog(self, snapshot_id: int) -> str:
        """Return a long-lived changelog file."""
        return f"{self.changelog_dir}/changelog-{snapshot_id}"

    def stream_attempt(self, query: str) -> str:
        """Return the file that records what a streaming query is about to commit."""
        return f"{self.metadata_root}/stream/attempt-{_named(query, 'query')}"

    def stream_stop(self, job: str) -> str:
        """Return the file that requests the job with an id or name to end."""
        return f"{self.metadata_root}/stream/stop-{escape(job)}"

    # ---- shared by all branches

    @property
    def branches_dir(self) -> str:
        """Return the directory of branches."""
        return f"{self.root}/branch"

    def branch_dir(self, name: str) -> str:
        """Return the metadata directory of a branch."""
        return f"{self.branches_dir}/branch-{_named(name, 'branch')}"

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
        """Return the directory that contains partitions and buckets."""
        directory = self._options.data_file_path_directory
        return f"{self.root}/{directory}" if directory else self.root

    def manifest(self, name: str) -> str:
        """Return a manifest, a manifest list or an index manifest."""
        return file_in(self.manifest_dir, name)

    def statistics(self, name: str) -> str:
        """Return a statistics file."""
        return file_in(self.statistics_dir, name)

    def partition_values(self, partition: bytes) -> tuple[Any, ...]:
        """Return the values of a serialized partition row."""
        return decode_row(partition, [f.type for f in self.partition_fields])

    def partition_path(self, partition: Partition) -> str:
        """Return ``k=v/k2=v2`` of a partition; an empty text without partition columns."""
        if isinstance(partition, str):
            return partition
        path = self._partitions.get(partition)
        if path is None:
            path = partition_path(
                self.partition_values(partition),
                self.partition_fields,
                legacy=self._options.partition_legacy_name,
                default_name=self._options.partition_default_name,
            )
            self._partitions[partition] = path
        return path

    def partition_dir(self, partition: Partition) -> str:
        """Return the directory of a partition."""
        path = self.partition_path(partition)
        return f"{self.data_root}/{path}" if path else self.data_root

    def bucket_dir(self, partition: Partition, bucket: int) -> str:
        """Return the directory of a bucket."""
        return f"{self.partition_dir(partition)}/{bucket_name(bucket)}"

    def data_file(self, partition: Partition, bucket: int, file: DataFileMeta) -> str:
        """Return the path of a data file.

        Raises:
            CorruptTableError: its name leads outside of its bucket.
            UnsupportedError: it is outside of the table.
        """
        if file.external_path:
            return self._external(file.external_path)
        return file_in(self.bucket_dir(partition, bucket), file.file_name)

    def extra_files(self, partition: Partition, bucket: int, file: DataFileMeta) -> list[str]:
        """Return the paths of the extra files of a data file."""
        directory = self.data_file(partition, bucket, file).rpartition("/")[0]
        return [file_in(directory, name) for name in file.extra_files]

    def file_paths(self, partition: Partition, bucket: int, file: DataFileMeta) -> list[str]:
        """Return the paths of a data file and its extra files."""
        return [self.data_file(partition, bucket, file), *self.extra_files(partition, bucket, file)]

    def index_file(self, partition: Partition, bucket: int, file: IndexFileMeta) -> str:
        """Return the path of an index file; errors as in `data_file`."""
        if file.external_path:
            return self._external(file.external_path)
        if file.global_index is not None:
            return self.global_index_file(file.file_name)
        return self.new_index_file(partition, bucket, file.file_name)

    def global_index_file(self, name: str) -> str:
        """Return the path of the global index file `name`."""
        return file_in(self.index_dir, name)

    def new_index_file(self, partition: Partition, bucket: int, name: str) -> str:
        """Return the path for a new index file `name`."""
        inside = self._options.index_file_in_data_file_dir
        return file_in(self.bucket_dir(partition, bucket) if inside else self.index_dir, name)

    def is_inside(self, path: str) -> bool:
        """Return whether an absolute path is that of a file inside the table."""
        root, wanted = _LOCAL.sub("/", self.root), _LOCAL.sub("/", path)
        inside = wanted.startswith(f"{root.rstrip('/')}/")
        return inside and all(map(is_one_name, wanted[len(root.rstrip("/")) + 1 :].split("/")))

    def _external(self, path: str) -> str:
        """Return the absolute path of an entry, which must be inside the table."""
        if self.is_inside(path):
            return path
        raise UnsupportedError(
            f"The table {self.root} refers to a file outside of its own directory: {shown(path)}.",
            hint="Files outside of a table are neither read nor deleted, because a manipulated table could name any "
            "file. With Apache Paimon, remove 'data-file.external-paths' and compact the table, or remove "
            "'global-index.external-path', drop the index and expire snapshots.",
        )

    # ---- names of new files: each has its own random part

    def new_data_file(self, file_format: str, compression: str | None = None) -> str:
        """Return a name for a data file; `compression` is included if an option of the table is set."""
        return self._new_file(self._options.data_file_prefix, file_format, compression)

    def new_changelog_file(self, file_format: str, compression: str | None = None) -> str:
        """Return a name for a changelog file; `compression` is included if an option of the table is set."""
        return self._new_file(self._options.changelog_file_prefix, file_format, compression)

    def _new_file(self, prefix: str, file_format: str, compression: str | None) -> str:
        inside = f".{compression}" if compression and self._options.file_suffix_include_compression else ""
        return f"{prefix}{self._unique()}-0{inside}.{file_format}"

    def new_file_index(self, data_file: str) -> str:
        """Return a name for another file index of a data file; Paimon counts the number at its end up."""
        return f"{data_file}-{self._unique()}-0{INDEX_SUFFIX}"

    def new_manifest_name(self) -> str:
        """Return a name for a manifest."""
        return f"manifest-{uuid.uuid4()}-0"

    def new_manifest_list_names(self) -> Iterator[str]:
        """Yield names for the manifest lists of one commit, numbered as Paimon numbers them."""
        unique = uuid.uuid4()
        for number in itertools.count():
            yield f"manifest-list-{unique}-{number}"

    def new_index_manifest_name(self) -> str:
        """Return a name for an index manifest."""
        return f"index-manifest-{uuid.uuid4()}-0"

    def new_index_name(self) -> str:
        """Return a name for an index file."""
        return f"index-{self._unique()}-0"

    def new_global_index_name(self, kind: str) -> str:
        """Return a name for a global index file."""
        return f"{kind}-global-index-{self._unique()}.index"

    def _unique(self) -> str:
        text = str(uuid.uuid4())
        return text[: -len(self.write_token)] + self.write_token if self.write_token else text

    def new_statistics_name(self) -> str:
        """Return a name for a statistics file."""
        return f"stat-{uuid.uuid4()}-0"
