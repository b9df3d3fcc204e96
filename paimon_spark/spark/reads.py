"""A planned read as a frame: native scans for files that need no merge, Arrow workers for everything else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain, groupby, islice
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from paimon_spark.core.bin_packing import SMALL_TASK_WORK, group_tasks, task_cost
from paimon_spark.core.merge.config import merge_order
from paimon_spark.core.metadata.row_tracking import TRACKING_FIELDS
from paimon_spark.core.read.bucket_files import BUCKET, FILE_PATH, METADATA_FIELDS, ROW_INDEX, VECTOR
from paimon_spark.core.scan.packed_files import PackedFileList
from paimon_spark.core.scan.splits import Split, splits_to_json
from paimon_spark.core.table import Table
from paimon_spark.spark.arrow_map import map_in_arrow, quoted
from paimon_spark.spark.executor.worker import FOUND, finder, keyed_splits, reader
from paimon_spark.spark.jvm_frames import empty_frame, native_frame, superseded_rows_of, tasks_at_once, text_frame
from paimon_spark.spark.native_access import native_access
from paimon_spark.spark.types import plain_struct, type_to_spark
from paimon_spark.spark.values import value_to_jvm
from paimon_spark.spec.manifest import DataFileMeta
from paimon_spark.spec.predicate import TRUE, Predicate, fixed_values, project, to_json
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.stats import UNKNOWN, may_precede, stats_view
from paimon_spark.spec.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    TypeRoot,
    children,
)

NATIVE_OPTIONS = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED", "mergeSchema": "false"}
PARTITION = "__paimon_partition"
METADATA_COLUMNS = (*(f.name for f in METADATA_FIELDS), PARTITION)
"""Names of the columns that tell where a row is; `SELECT *` does not show them."""
_TIMES = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_MILLIS = 3
GREGORIAN_FROM = -141_427
"""The first day of the calendar that all readers share: 15 October 1582."""
_TOGETHER = 1_000
FEWEST_ROWS = 100_000
MOST_ROWS = 500_000_000
"""How many rows must be in the files of splits with superseded rows for a job of its own that finds them."""
SMALL_FILE = 64 << 10
MANY_FILES = 1_000
"""From so many files of so few bytes on, workers read them: Spark's own reader takes several times as long to open one,
and for larger files that does not count beside the rows, which cost less there."""


@dataclass(frozen=True)
class ReadRequest:
    """What to read: columns of the table in order, a filter that merging reads apply, and the splits."""

    table: Table
    columns: tuple[str, ...]
    predicate: Predicate
    splits: tuple[Split, ...]
    keep_kinds: bool = False
    limit: int | None = None
    metadata: tuple[str, ...] = ()
    """Which of `METADATA_COLUMNS` come after the columns."""
    prunes_later: bool = False
    """Whether Spark finds out while the query runs which partitions it needs: its own scans then skip the others."""

    @cached_property
    def read_modes(self) -> ReadModes:
        """Return how each split is read, decided once."""
        return _divide(self)

    @cached_property
    def native_columns(self) -> NativeColumns:
        """Return where Spark's own reader finds the columns, looked up once for each format and schema."""
        return NativeColumns(self.table, self.read_columns, rows_located=ROW_INDEX in self.metadata)

    @property
    def read_columns(self) -> tuple[DataField, ...]:
        """Return the columns that are read: those needed, or one where none is, since rows must be counted."""
        schema = self.table.schema
        keys = schema.partition_keys if PARTITION in self.metadata else ()
        names = [*self.columns, *(k for k in keys if k not in self.columns)]
        return tuple(schema.field(c) for c in names) or (min(schema.fields, key=_width),)

    @property
    def places(self) -> tuple[DataField, ...]:
        """Return the columns that readers add to each row."""
        return tuple(f for f in METADATA_FIELDS if f.name in self.metadata)


def _width(field: DataField) -> int:
    order = (TypeRoot.BOOLEAN, TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.DATE, TypeRoot.BIGINT)
    root = field.type.root if isinstance(field.type, AtomicType) else None
    return order.index(root) if root in order else len(order)


def read_frame(session: SparkSession, request: ReadRequest) -> DataFrame:
    """Return the rows of `request` as a frame without any shuffle. Columns that were needed besides may come too."""
    read_modes = request.read_modes
    frames = [_native(session, request, files) for files in _by_key(request, read_modes.native)]
    if read_modes.live:
        dead = _superseded_rows(session, request.table, read_modes.live)
        frames += [_native(session, request, files, dead) for files in _by_key(request, read_modes.live)]
    if read_modes.workers or read_modes.small:
        slots = tasks_at_once(session)
        tasks = chain(
            group_tasks(read_modes.workers, _work, slots), group_tasks(read_modes.small, _work, slots, SMALL_TASK_WORK)
        )
        lines = map(splits_to_json, tasks)
        predicate = None if request.predicate == TRUE else to_json(request.predicate)
        names = [f.name for f in request.read_columns]
        places = tuple(p.name for p in request.places)
        run = reader(request.table, names, predicate, places=places, kinds=request.keep_kinds, limit=request.limit)
        frames.append(map_in_arrow(text_frame(session, lines), run, _row_type(request)))
    rows = reduce(DataFrame.unionAll, frames) if frames else empty_frame(session, _row_type(request))
    if PARTITION not in request.metadata:
        return rows
    return rows.withColumn(PARTITION, f.struct(*[f.col(quoted(k)) for k in request.table.schema.partition_keys]))


def _native(session: SparkSession, request: ReadRequest, files: NativeFiles, dead: Any | None = None) -> DataFrame:
    spec, groups = _native_spec(request, files, filtered=dead is not None)
    return native_frame(session, spec, groups, native_access(request.table).conf, dead)


def _superseded_rows(session: SparkSession, table: Table, splits: Sequence[Split]) -> Any:
    """Return what is known of the superseded rows of `splits`, and how the rest is found."""
    by_name = {_identity(table, s): s for s in splits}

    def find(missing: Sequence[str]) -> DataFrame:
        tasks = group_tasks(missing, lambda name: _work(by_name[name]), tasks_at_once(session))
        lines = (keyed_splits((name, by_name[name]) for name in names) for names in tasks)
        return map_in_arrow(text_frame(session, lines), finder(table), FOUND)

    return superseded_rows_of(list(by_name), find)


def _work(split: Split) -> int:
    return task_cost(split.size, len(split.files))


def _identity(table: Table, split: Split) -> str:
    """Return a name of the superseded rows of a split: which files, none of which ever changes, and how they merge."""
    order = merge_order(table) if table.is_primary_key_table else None
    rules = None if order is None else (order.key, order.sequence, order.descending, order.function.__name__)
    files = [f.file_name for f in split.files]
    text = repr((table.path, split.partition, split.bucket, files, split.vectors, split.raw, rules))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _row_type(request: ReadRequest) -> StructType:
    struct = plain_struct((*request.read_columns, *request.places))
    if request.keep_kinds:
        kind = {"name": "rowkind", "type": "string", "nullable": True, "metadata": {}}
        struct = {"type": "struct", "fields": [kind, *struct["fields"]]}
    return StructType.fromJson(struct)


NativeKey = tuple[str, int]
"""(file format, schema id)."""
PlacedFile = tuple[Split, DataFileMeta]


@dataclass(frozen=True, slots=True)
class NativeFiles:
    """The files of some splits that have one format and one schema; each look at them reads the splits again."""

    key: NativeKey
    splits: Sequence[Split]

    def __iter__(self) -> Iterator[PlacedFile]:
        return ((split, file) for split in self.splits for file in split.files if _key_of(file) == self.key)

    def digest(self) -> int:
        """Return a number that other files have not."""
        return hash((self.key, tuple(map(_split_digest, self.splits))))


def _split_digest(split: Split) -> int:
    files = split.files.digest() if isinstance(split.files, PackedFileList) else tuple(f.file_name for f in split.files)
    return hash((split.partition, split.bucket, files))


@dataclass(frozen=True, slots=True)
class ReadModes:
    """How each split is read: by a native scan, by one that leaves superseded rows out, or by Python workers.

    Those of `small` are for workers because of how many small files they have, all others because they must be merged
    or are not for Spark's own reader.
    """

    native: tuple[Split, ...]
    live: tuple[Split, ...]
    workers: tuple[Split, ...]
    small: tuple[Split, ...] = ()


def _divide(request: ReadRequest) -> ReadModes:
    """Decide how each split of a read is read."""
    if native_access(request.table).refusal:
        return ReadModes((), (), request.splits)
    tracked = any(f in TRACKING_FIELDS for f in request.places)
    known = [s for s in request.splits if not (request.keep_kinds or tracked) and request.native_columns.know(s)]
    plain = [s for s in known if s.raw and not any(s.vectors)]
    small = _many_small(request, plain)
    kept = {id(s) for s in small}
    native = [s for s in plain if id(s) not in kept]
    others = [s for s in known if not s.raw or any(s.vectors)]
    live = others if _worth_finding(request, others) and all(map(_locatable, others)) else []
    taken = {id(s) for s in (*plain, *live)}
    rest = tuple(s for s in request.splits if id(s) not in taken)
    return ReadModes(tuple(native), tuple(live), rest, tuple(small))


def _many_small(request: ReadRequest, splits: Sequence[Split]) -> list[Split]:
    """Return the splits of small files if there are many of them."""
    if request.prunes_later:
        return []
    small = [s for s in splits if s.size <= SMALL_FILE * len(s.files)]
    return small if sum(len(s.files) for s in small) >= MANY_FILES else []


def _worth_finding(request: ReadRequest, splits: Sequence[Split]) -> bool:
    """Return whether a job that only finds superseded rows pays: not for few rows, nor where its answer is large.

    A query with a limit is better off with the rows of its first split, and a look at single keys with row groups that
    statistics leave over.
    """
    rows = sum(s.file_rows for s in splits)
    if VECTOR in request.metadata or request.limit is not None or not FEWEST_ROWS <= rows <= MOST_ROWS:
        return False
    keys = [f.name for f in request.table.key_fields] if request.table.is_primary_key_table else []
    return not keys or fixed_values(project(request.predicate, keys), keys) is None


def _locatable(split: Split) -> bool:
    return all(_format_of(f) == "parquet" for f in split.files)


def _format_of(file: DataFileMeta) -> str:
    return file.file_name.rpartition(".")[2].lower()


def _key_of(file: DataFileMeta) -> NativeKey:
    return _format_of(file), file.schema_id


def _by_key(request: ReadRequest, splits: Iterable[Split]) -> list[NativeFiles]:
    groups: dict[NativeKey, list[Split]] = {}
    for split in splits:
        for key in request.native_columns.keys(split):
            groups.setdefault(key, []).append(split)
    return [NativeFiles(key, found) for key, found in groups.items()]


class NativeColumns:
    """For each format and schema: where each wanted column comes from, or None where Spark cannot read it so.

    Args:
        table: the table that is read.
        carried: the wanted columns.
        rows_located: whether the position of each row in its file is wanted, too.
    """

    def __init__(self, table: Table, read_columns: Sequence[DataField], *, rows_located: bool) -> None:
        self._table = table
        self._carried = read_columns
        self._formats = ("parquet",) if rows_located else ("parquet", "orc")
        self._known: dict[NativeKey, list[DataField | None] | None] = {}
        self._schemas: dict[int, TableSchema] = {table.schema.id: table.schema}
        keys = table.schema.partition_keys
        self._days = [f.name for f in read_columns if _is_day(f.type) and f.name not in keys]
        self._keys: dict[int, tuple[NativeKey, ...]] = {}
        self._same: dict[tuple[NativeKey, ...], tuple[NativeKey, ...]] = {}

    def know(self, split: Split) -> bool:
        """Return whether Spark can read all files of `split` as they are wanted."""
        found: dict[NativeKey, None] = {}
        for file in split.files:
            key = _key_of(file)
            if file.write_cols is not None or (key not in found and self.of(key) is None) or self._moves_days(file):
                return False
            found[key] = None
        keys = tuple(found)
        self._keys[id(split)] = self._same.setdefault(keys, keys)
        return True

    def _moves_days(self, file: DataFileMeta) -> bool:
        """Return whether the file may hold days that Spark's ORC reader takes for those of an older calendar."""
        if not self._days or _format_of(file) != "orc":
            return False
        stats = stats_view(file, self._schema(file.schema_id), self._table.schema)
        return any(may_precede(stats.get(day, UNKNOWN), GREGORIAN_FROM, file.row_count) for day in self._days)

    def _schema(self, schema_id: int) -> TableSchema:
        """Return the schema that files were written with. It is asked for each file, and read once."""
        if schema_id not in self._schemas:
            self._schemas[schema_id] = self._table.schema_store.get(schema_id)
        return self._schemas[schema_id]

    def keys(self, split: Split) -> tuple[NativeKey, ...]:
        """Return the formats and schemas of the files of a split of the request that Spark can read."""
        return self._keys[id(split)]

    def of(self, key: NativeKey) -> list[DataField | None] | None:
        """Return the columns of the files, in the order of those wanted."""
        if key not in self._known:
            self._known[key] = self._find(*key)
        return self._known[key]

    def _find(self, file_format: str, schema_id: int) -> list[DataField | None] | None:
        if file_format not in self._formats:
            return None
        table, schema = self._table, self._schema(schema_id)
        if file_format == "orc" and any(_holds_instants(f.type) for f in schema.fields):
            return None
        by_id = {f.id: f for f in schema.fields}
        found: list[DataField | None] = []
        for wanted in self._carried:
            source = by_id.get(wanted.id)
            if source is not None and source.name.lower() in (FILE_PATH, ROW_INDEX):
                return None  # a scan that leaves rows out adds columns of these names
            if wanted.name in table.schema.partition_keys:
                found.append(wanted)
            elif source is None:
                found.append(None)
            elif _same(source.type, wanted.type) and _readable(source.type, file_format):
                found.append(source)
            else:
                return None
        return found


def _same(a: DataType, b: DataType) -> bool:
    """Return whether two types are equal but for nullability."""
    if isinstance(a, RowType) and isinstance(b, RowType):
        return [(f.id, f.name) for f in a.fields] == [(f.id, f.name) for f in b.fields] and all(
            _same(x.type, y.type) for x, y in zip(a.fields, b.fields, strict=True)
        )
    if isinstance(a, AtomicType) and isinstance(b, AtomicType):
        return (a.root, a.length, a.precision, a.scale) == (b.root, b.length, b.precision, b.scale)
    if type(a) is not type(b):
        return False
    return all(_same(x, y) for x, y in zip(children(a), children(b), strict=True))


def _is_day(t: DataType) -> bool:
    return isinstance(t, AtomicType) and t.root is TypeRoot.DATE


def _holds_instants(t: DataType) -> bool:
    """Return whether Spark's ORC reader fails over the type in a file's schema, even where the column is not read."""
    if isinstance(t, ArrayType | MapType | RowType):
        return any(map(_holds_instants, children(t)))
    return isinstance(t, AtomicType) and t.root is TypeRoot.TIMESTAMP_LTZ


def _readable(t: DataType, file_format: str) -> bool:
    """Return whether Spark's own reader gives exactly the table's values."""
    if isinstance(t, ArrayType | MapType | RowType):
        return all(_readable(c, file_format) and not (file_format == "orc" and _is_day(c)) for c in children(t))
    if not isinstance(t, AtomicType) or t.root in (TypeRoot.TIME, TypeRoot.VARIANT):
        return False
    if t.root in _TIMES:
        return file_format == "parquet" and (t.precision or 0) <= 6
    return not (file_format == "orc" and t.root is TypeRoot.CHAR)


def _has_millis(t: DataType) -> bool:
    """Return whether a time in the column has no more than milliseconds in the files."""
    if isinstance(t, ArrayType | MapType | RowType):
        return any(map(_has_millis, children(t)))
    return isinstance(t, AtomicType) and t.root in _TIMES and (t.precision or 0) <= _MILLIS


def _native_spec(
    request: ReadRequest, files: NativeFiles, *, filtered: bool
) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """Return what Spark is told of a scan, and its files in groups, which are made as they are asked for."""
    table = request.table
    keys = table.schema.partition_keys
    native_columns = request.native_columns.of(files.key) or []
    wanted = list(zip(request.read_columns, native_columns, strict=True))
    data = [s for f, s in wanted if s is not None and f.name not in keys]
    partition = [f for f, _ in wanted if f.name in keys]
    placed = {p.name for p in request.places} | ({FILE_PATH, ROW_INDEX} if filtered else set())
    fixed = [p for p in METADATA_FIELDS if p.name in placed and p.name not in (ROW_INDEX, VECTOR)]
    spec = {
        "format": files.key[0],
        "root": table.path,
        "identity": f"{table.path}|{files.splits[0].snapshot_id}|{files.digest()}",
        "options": NATIVE_OPTIONS,
        "has_millis": any(_has_millis(s.type) for s in data),
        "row_index": ROW_INDEX if ROW_INDEX in placed else None,
        "file_path": FILE_PATH,
        "data_schema": plain_struct(data),
        "partition_schema": plain_struct([*partition, *fixed]),
        "select": [
            {"name": f.name, "from": None if s is None else s.name, "type": plain_struct([f])["fields"][0]["type"]}
            for f, s in [*wanted, *((p, None if p.name == VECTOR else p) for p in request.places)]
        ],
    }
    return spec, _groups(table, [f.name for f in partition], [p.name for p in fixed], files)


def _groups(
    table: Table, columns: Sequence[str], fixed: Sequence[str], files: Iterable[PlacedFile]
) -> Iterator[dict[str, Any]]:
    """Yield the files, neighbours together for which partition columns and the `fixed` ones have the same values."""
    paths = table.paths
    placed = ((s, paths.data_file(s.partition, s.bucket, file), file) for s, file in files)

    def alike(one: tuple[Split, str, DataFileMeta]) -> tuple[bytes, tuple[str, ...]]:
        split, path, _ = one
        of_file = {FILE_PATH: path, BUCKET: str(split.bucket)}
        return split.partition, tuple(of_file[name] for name in fixed)

    for (partition, others), members in groupby(placed, alike):
        values = [*_values(table, columns, partition), *others]
        while some := [[path, f.file_size, f.creation_time or 0] for _, path, f in islice(members, _TOGETHER)]:
            yield {"values": values, "files": some}


def _values(table: Table, columns: Sequence[str], partition: bytes) -> list[str | None]:
    values = dict(zip(table.schema.partition_keys, table.partition_values(partition), strict=True))
    return [value_to_jvm(values[c]) for c in columns]


__all__ = ["METADATA_COLUMNS", "ReadRequest", "read_frame", "type_to_spark"]
