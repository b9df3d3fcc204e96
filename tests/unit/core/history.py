"""Tables with a history for the tests of expiry, rollback and tags, and what must hold of their files afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from paimon_spark.core.commit import Committed, FileStoreCommit
from paimon_spark.core.manifests import ManifestStore
from paimon_spark.core.messages import CommitMessage
from paimon_spark.core.refs import HolderKind, holders
from paimon_spark.core.scan import live_entries
from paimon_spark.core.table import Table
from paimon_spark.fs.base import FileIO
from paimon_spark.spec.manifest import DataFileMeta
from tests.unit.core import samples

MINUTE = 60_000


class History:
    """A primary-key table of one bucket; every commit happens at a minute that the test names."""

    def __init__(
        self,
        options: Mapping[str, str] | None = None,
        branch: str | None = None,
        *,
        file_io: FileIO | None = None,
        path: str = "/wh/db.db/t",
    ) -> None:
        self.table: Table = samples.table({"bucket": "1", **(options or {})}, keys=["k"], file_io=file_io, path=path)
        if branch is not None:
            self.table = replace(self.table, branch=branch)
        self.minute = 0

    def at(self, minute: int) -> History:
        """Set the clock."""
        self.minute = minute
        return self

    def add(self, *files: DataFileMeta) -> int:
        """Commit new files, by default one of level 0; return the snapshot's id."""
        new = files or (samples.file(1, 9),)
        return self._commit(samples.message(*new, total_buckets=1), new)

    def compact(self, *before: DataFileMeta, into: DataFileMeta) -> int:
        """Commit the compaction of some files into one."""
        message = CommitMessage(
            partition=samples.partition(), bucket=0, total_buckets=1, compact_before=before, compact_after=(into,)
        )
        return self._commit(message, (into,))

    def path(self, file: DataFileMeta) -> str:
        """Return where a data file stands."""
        return self.table.paths.data_file(samples.partition(), 0, file)

    def exists(self, file: DataFileMeta) -> bool:
        """Return whether a data file is there."""
        return self.table.file_io.exists(self.path(file))

    def _commit(self, message: CommitMessage, written: tuple[DataFileMeta, ...]) -> int:
        for file in written:
            self.table.file_io.write(self.path(file), b"x" * file.file_size)
        clock = self.minute * MINUTE / 1000
        result = FileStoreCommit(self.table, "me", clock=lambda: clock).commit([message])
        assert isinstance(result, Committed)
        return result.snapshot_ids[-1]


def needed(table: Table) -> set[str]:
    """Return every data and metadata file that some snapshot, tag or changelog refers to."""
    store, paths, found = ManifestStore(table), table.paths, set()
    for holder in holders(table):
        s = holder.snapshot
        lists = [s.base_manifest_list, s.delta_manifest_list]
        metas = store.data_manifests(s)
        if holder.kind is HolderKind.SNAPSHOT and s.changelog_manifest_list is not None:
            lists.append(s.changelog_manifest_list)
            changelog = store.read_list(s.changelog_manifest_list)
            metas += changelog
        found |= {paths.manifest(n) for n in (*lists, *(m.file_name for m in metas))}
        for e in live_entries(store, metas):
            found |= {paths.data_file(e.partition, e.bucket, e.file), *paths.extra_files(e.partition, e.bucket, e.file)}
        if s.index_manifest is not None:
            found.add(paths.manifest(s.index_manifest))
            found |= {paths.index_file(i.partition, i.bucket, i.file) for i in store.read_index(s.index_manifest)}
        if s.statistics is not None:
            found.add(paths.statistics(s.statistics))
    return found


def present(table: Table) -> set[str]:
    """Return every data and metadata file that is there."""
    roots = [s for s in table.file_io.list(table.path) if s.is_dir]
    own = ("schema", "snapshot", "tag", "branch", "consumer", "changelog")
    return {f.path for r in roots if r.name not in own for f in table.file_io.list_recursive(r.path)}


def lost(table: Table) -> set[str]:
    """Return the files that something still refers to but that are gone."""
    return needed(table) - present(table)


def leaked(table: Table) -> set[str]:
    """Return the files that nothing refers to any more."""
    return present(table) - needed(table)
