"""Rewriting of the file indexes of a data file, which is not rewritten itself (docs/spec/semantics.md, R16)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.read.bucket_files import BucketFiles
from paimon_spark.core.scan.file_indexes import index_files
from paimon_spark.core.table import Table
from paimon_spark.format.file_index.container import ReadRange, read_places
from paimon_spark.format.file_index.writer import FileIndexWriter
from paimon_spark.spec.bounds import Int
from paimon_spark.spec.file_indexes import IndexSpec, index_specs, indexed_type, supports
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.paths import file_in
from paimon_spark.spec.types import DataField


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexTask:
    """A data file whose indexes are to be rewritten."""

    partition: bytes
    bucket: Int
    total_buckets: Int
    file: DataFileMeta


class IndexRewriter:
    """Compares the indexes of data files with the options of the table, and rewrites them."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._specs = index_specs(table.options.values)
        self._schemas: dict[int, Table] = {table.schema.id: table}
        self.written_bytes = 0
        """The size of the indexes that `rewrite` has written, in the manifest or beside their files."""

    def is_current(self, task: IndexTask) -> bool:
        """Return whether a file has indexes of the kinds that the options specify."""
        file = task.file
        wanted = {(s.name, str(s.kind)) for s in self._wanted(file)}
        names = index_files(file)
        if file.embedded_index is None and not names:
            return not wanted
        if len(names) > 1:
            return False
        try:
            places = read_places(self._reader(task))
        except (ValueError, FileNotFoundError):
            return False
        return {(column, kind) for column, kinds in places.items() for kind in kinds} == wanted

    def rewrite(self, task: IndexTask) -> CommitMessage | None:
        """Rewrite the indexes of a file; return None if they are unchanged."""
        file = task.file
        index = self._built(task)
        kept = tuple(n for n in file.extra_files if n not in index_files(file))
        bare = replace(file, extra_files=kept, embedded_index=None)
        if not index:
            after = bare
        elif len(index) <= self._table.options.file_index_in_manifest_threshold:
            after = replace(bare, embedded_index=index)
        elif index == self._stored(task):
            return None
        else:
            name = self._table.paths.new_file_index(file.file_name)
            self._table.file_io.write(file_in(self._directory(task), name), index)
            after = replace(bare, extra_files=(*kept, name))
        if after == file:
            return None
        self.written_bytes += len(index)
        return CommitMessage(
            partition=task.partition,
            bucket=task.bucket,
            total_buckets=task.total_buckets,
            compact_before=(file,),
            compact_after=(after,),
        )

    def _built(self, task: IndexTask) -> bytes:
        """Return the container of the wanted indexes, built from the rows of the file."""
        specs = self._wanted(task.file)
        if not specs:
            return b""
        view = self._at(task.file.schema_id)
        fields = [view.schema.field(n) for n in dict.fromkeys(s.column for s in specs)]
        writer = FileIndexWriter(specs, fields)
        for rows in BucketFiles(view, task.partition, task.bucket).chunks(task.file, fields):
            writer.add(rows)
        return writer.finish()

    def _wanted(self, file: DataFileMeta) -> list[IndexSpec]:
        """Return the indexes of a file, with the names that the columns had when it was written."""
        written = {f.id: f for f in self._at(file.schema_id).schema.fields if _holds(file, f)}
        out = []
        for spec in self._specs:
            stored = written.get(self._table.schema.field(spec.column).id)
            if stored is not None:
                found = replace(spec, column=stored.name)
                t = indexed_type(found, [stored])
                if t is not None and supports(found.kind, t):
                    out.append(found)
        return out

    def _at(self, schema_id: int) -> Table:
        if schema_id not in self._schemas:
            self._schemas[schema_id] = self._table.at_schema(schema_id)
        return self._schemas[schema_id]

    def _directory(self, task: IndexTask) -> str:
        return self._table.paths.data_file(task.partition, task.bucket, task.file).rpartition("/")[0]

    def _reader(self, task: IndexTask) -> ReadRange:
        data = task.file.embedded_index
        if data is not None:
            return lambda at, n: data[at : at + n]
        path = file_in(self._directory(task), index_files(task.file)[0])
        return lambda at, n: self._table.file_io.read_range(path, at, n)

    def _stored(self, task: IndexTask) -> bytes | None:
        """Return the container of a file's indexes beside it, if there is one."""
        names = index_files(task.file)
        if len(names) != 1 or task.file.embedded_index is not None:
            return None
        try:
            return self._table.file_io.read(file_in(self._directory(task), names[0]))
        except FileNotFoundError:
            return None


def _holds(file: DataFileMeta, field: DataField) -> bool:
    return file.write_cols is None or field.name in file.write_cols
