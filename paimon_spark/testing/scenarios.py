"""Scenarios for fault injection: how to create a table, the operation to execute, and how to observe the state."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa

from paimon_spark.api.catalog import CatalogHandle
from paimon_spark.api.table import TableHandle
from paimon_spark.catalog.filesystem import FileSystemCatalog
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.engine.expiry.orphans import DAY_MILLIS, execute_orphans, plan_orphans
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.fs.base import FileIO

WAREHOUSE = "/warehouse"
NAME = "default.t"
SCHEMA = pa.schema([("k", pa.int32()), ("p", pa.string()), ("v", pa.int64())])
FAST = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "2 ms", "write-only": "true"}
"""Table options of trials: short waits, and no maintenance other than the trial's own."""
Row = tuple[Any, ...]
Rows = tuple[Row, ...]


class Merge(StrEnum):
    """How two rows of one key are merged."""

    LAST = "the last one wins"
    FIRST = "the first one wins"
    SUM = "the values are added, other columns are those of the last one"
    PARTIAL = "the last value of each column that is not null"

    def __call__(self, old: Row, new: Row) -> Row:
        """Return the row of a key after a new one."""
        if self is Merge.SUM:
            return (*new[:2], old[2] + new[2])
        if self is Merge.PARTIAL:
            return tuple(a if b is None else b for a, b in zip(old, new, strict=True))
        return old if self is Merge.FIRST else new


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of table."""

    primary_key: Sequence[str] = ()
    partition_by: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    merge: Merge = Merge.LAST

    @property
    def is_plain(self) -> bool:
        """Return whether a write is one snapshot with all of its rows, of which the last of each key stays."""
        one = self.options.get("write-only") != "false" and self.options.get("bucket") != "-2"
        return one and self.merge is Merge.LAST and not self.moves_keys

    @property
    def moves_keys(self) -> bool:
        """Return whether a key may be in any partition."""
        return bool(self.primary_key) and not set(self.partition_by) <= set(self.primary_key)

    @property
    def hides_new_rows(self) -> bool:
        """Return whether rows are visible only after a compaction."""
        return self.merge is Merge.FIRST


SHOWN = {"deletion-vectors.merge-on-read": "true"}
"""Rows that no compaction has moved out of level 0 are visible, too: trials read after every write."""
ORDERED = {"sequence.snapshot-ordering": "true"}
"""Versions of rows are ordered by the snapshots that added them."""
_SUM = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"} | {
    "aggregation.remove-record-on-delete": "true"
}
_PARTIAL = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
_REWRITTEN = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
_FIRST_ROW = {"merge-engine": "first-row"}
_VECTORS = {"deletion-vectors.enabled": "true", "deletion-vectors.mark-deletes": "true", **SHOWN}
_BY_SNAPSHOT = {**ORDERED, "write-only": "true"}
KINDS: Mapping[str, Kind] = {
    "fixed": Kind(("k",), (), {"bucket": "2"}),
    "dynamic": Kind(("k",), (), {"dynamic-bucket.target-row-num": "3"}),
    "ordered by snapshot": Kind(("k",), (), {"bucket": "2", **_BY_SNAPSHOT}),
    "ordered by snapshot, looked up": Kind(
        ("p", "k"), ("p",), {"bucket": "1", "changelog-producer": "lookup", **_BY_SNAPSHOT}
    ),
    "ordered by snapshot, partial": Kind(("k",), (), {"bucket": "2", **_PARTIAL, **_BY_SNAPSHOT}, Merge.PARTIAL),
    "text key": Kind(("p", "k"), (), {"bucket": "3"}),
    "partitioned": Kind(("p", "k"), ("p",), {"bucket": "1", "file.format": "orc"}),
    "partitioned dynamic": Kind(("p", "k"), ("p",), {"dynamic-bucket.target-row-num": "3"}),
    "looked up": Kind(("k",), (), {"bucket": "2", "changelog-producer": "lookup"}),
    "full changelog": Kind(("p", "k"), ("p",), {"bucket": "1", "changelog-producer": "full-compaction"}),
    "input changelog": Kind(("k",), (), {"changelog-producer": "input", "dynamic-bucket.target-row-num": "3"}),
    "vectors": Kind(("k",), (), {"bucket": "2", "deletion-vectors.enabled": "true", **SHOWN}),
    "vectors and changelog": Kind(
        ("p", "k"), ("p",), {"deletion-vectors.enabled": "true", "changelog-producer": "lookup", "bucket": "1", **SHOWN}
    ),
    "vectors, deletes marked": Kind(("k",), (), {"bucket": "2", "write-only": "false", **_VECTORS}),
    "aggregated": Kind(("k",), (), {"bucket": "2", **_SUM}, Merge.SUM),
    "aggregated, full changelog": Kind(
        ("p", "k"), ("p",), {"bucket": "1", "changelog-producer": "full-compaction", **_SUM}, Merge.SUM
    ),
    "aggregated, vectors and changelog": Kind(
        ("p", "k"), ("p",), {"bucket": "1", "changelog-producer": "lookup", **_SUM, **_VECTORS}, Merge.SUM
    ),
    "aggregated, deletes marked": Kind(
        ("k",), (), {"dynamic-bucket.target-row-num": "3", "write-only": "false", **_SUM, **_VECTORS}, Merge.SUM
    ),
    "aggregated, rewritten": Kind(("k",), (), {"dynamic-bucket.target-row-num": "3", **_REWRITTEN}, Merge.SUM),
    "aggregated, vectors, rewritten": Kind(
        ("p", "k"), ("p",), {"bucket": "1", "changelog-producer": "lookup", **_REWRITTEN, **_VECTORS}, Merge.SUM
    ),
    "partial": Kind(("k",), (), {"dynamic-bucket.target-row-num": "3", **_PARTIAL}, Merge.PARTIAL),
    "partial, looked up": Kind(
        ("p", "k"), ("p",), {"bucket": "1", "changelog-producer": "lookup", **_PARTIAL}, Merge.PARTIAL
    ),
    "partial, vectors": Kind(("k",), (), {"bucket": "2", **_PARTIAL, **_VECTORS}, Merge.PARTIAL),
    "first row": Kind(("k",), (), {"bucket": "2", **_FIRST_ROW}, Merge.FIRST),
    "first row, looked up": Kind(
        ("p", "k"), ("p",), {"bucket": "1", "changelog-producer": "lookup", **_FIRST_ROW}, Merge.FIRST
    ),
    "postponed": Kind(
        ("k",), (), {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false", "postpone.merge-on-read": "true"}
    ),
    "moving keys": Kind(("k",), ("p",), {"dynamic-bucket.target-row-num": "3"}),
    "append": Kind((), (), {"compaction.min.file-num": "2"}),
    "tracked": Kind((), (), {"row-tracking.enabled": "true", "compaction.min.file-num": "2"}),
    "marked": Kind((), (), {"deletion-vectors.enabled": "true", "compaction.min.file-num": "2"}),
    "marked buckets": Kind(
        (), ("p",), {"deletion-vectors.enabled": "true", "bucket": "2", "bucket-key": "k", "file.format": "orc"}
    ),
    "partitioned append": Kind((), ("p",), {"bucket": "2", "bucket-key": "k", "file.format": "orc"}),
}
PLAIN_KINDS: Mapping[str, Kind] = {name: kind for name, kind in KINDS.items() if kind.is_plain}


def open_warehouse(file_io: FileIO, warehouse: str = WAREHOUSE) -> CatalogHandle:
    """Return the warehouse of a store."""
    return CatalogHandle(FileSystemCatalog(warehouse, {}, file_io))


def create(catalog: CatalogHandle, kind: Kind, options: Mapping[str, str] | None = None) -> TableHandle:
    """Create the table of a trial."""
    return catalog.create_table(
        NAME,
        SCHEMA,
        primary_key=kind.primary_key,
        partition_by=kind.partition_by,
        options={**FAST, **kind.options, **(options or {})},
    )


def rows_of(items: Iterable[Row]) -> pa.Table:
    """Return rows (k, p, v) as Arrow."""
    columns = list(zip(*items, strict=True)) or [(), (), ()]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def read_rows(table: TableHandle, version: int | str | None = None) -> Rows:
    """Return the rows of a snapshot, sorted."""
    found = table.to_arrow(version=version)
    return tuple(sorted(zip(*(found.column(n).to_pylist() for n in SCHEMA.names), strict=True), key=in_order))


def in_order(row: Row) -> tuple[object, ...]:
    """Return what rows are sorted by; nulls come first."""
    return tuple((v is not None, v) for v in row)


@dataclass(frozen=True, slots=True)
class State:
    """The observable state of a table; `rows` is None if the table does not exist."""

    rows: Rows | None
    history: Mapping[int, Rows] = field(default_factory=dict)
    tags: Mapping[str, Rows] = field(default_factory=dict)
    columns: tuple[str, ...] = ()


def observe(file_io: FileIO, name: str = NAME) -> State:
    """Read the full state of a table, without caches of this process."""
    clear_cache()
    catalog = open_warehouse(file_io)
    if not catalog.table_exists(name):
        return State(None)
    table = catalog.table(name)
    history = {s.id: read_rows(table, s.id) for s in table.snapshots()}
    tags = {tag: read_rows(table, tag) for tag in table.tags()}
    return State(read_rows(table), history, tags, tuple(table.schema.names))


@dataclass(frozen=True, slots=True)
class Scenario:
    """One operation under test.

    Attributes:
        kind: kind of table.
        prepare: creates the initial state.
        act: executes the operation.
        atomic: an error means that nothing was changed; otherwise the operation may be partially done.
        repeatable: repeating the completed operation changes nothing.
        rolls_back: the existing snapshots are those before or those after; files of removed snapshots stay.
        cleans_up: a compaction and an expiry follow, whose failure does not fail the operation.
        options: additional table options.
    """

    kind: str
    prepare: Callable[[CatalogHandle], None]
    act: Callable[[CatalogHandle], object]
    atomic: bool = True
    repeatable: bool = True
    rolls_back: bool = False
    cleans_up: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


def _table(catalog: CatalogHandle) -> TableHandle:
    return catalog.table(NAME)


_FIRST = [(k, "ab"[k % 2], k) for k in range(6)]
_SECOND = [(k, "ab"[k % 2], 100 + k) for k in range(3, 9)]


def _two_commits(catalog: CatalogHandle) -> None:
    _table(catalog).append(rows_of(_FIRST))
    _table(catalog).append(rows_of(_SECOND))


def _history(catalog: CatalogHandle) -> None:
    _two_commits(catalog)
    _table(catalog).create_tag("two")
    _table(catalog).compact()
    _table(catalog).append(rows_of([(20, "a", 20)]))


def _marked(catalog: CatalogHandle) -> None:
    """Create deletion vectors for several files, and a tag of a state with other vectors."""
    _two_commits(catalog)
    _table(catalog).delete("v IN (1, 104)")
    _table(catalog).create_tag("two")
    _table(catalog).delete("v IN (2, 3, 105)")


def _expired_tag(catalog: CatalogHandle) -> None:
    _history(catalog)
    _table(catalog).expire_snapshots(retain_max=1, retain_min=1)


def _nothing(_: CatalogHandle) -> None:
    """Leave the table as created."""


def _append(catalog: CatalogHandle) -> object:
    return _table(catalog).append(rows_of([(k, "abc"[k % 3], 1000 + k) for k in range(2, 12)]))


def _compact(catalog: CatalogHandle) -> object:
    return _table(catalog).compact()


def _expire(catalog: CatalogHandle) -> object:
    return _table(catalog).expire_snapshots(retain_max=1, retain_min=1)


def _auto_compacting(catalog: CatalogHandle) -> object:
    options = {"write-only": "false", "num-sorted-run.compaction-trigger": "2"}
    expiry = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}
    return catalog.table(NAME, {**options, **expiry}).append(rows_of([(k, "a", 7) for k in range(4)]))


def _with_orphans(catalog: CatalogHandle) -> None:
    """Create a history, and files of crashed writers."""
    _history(catalog)
    table = _table(catalog).load()
    for name in ("bucket-0/data-left.parquet", "manifest/manifest-left", "snapshot/.snapshot-9.left.tmp"):
        table.file_io.write(f"{table.path}/{name}", b"left")


def _clean(catalog: CatalogHandle) -> object:
    now = time.time_ns() // 1_000_000
    plan = plan_orphans(
        [_table(catalog).load()], LocalRunner(), clock_millis=now + 2 * DAY_MILLIS, older_than=now + DAY_MILLIS
    )
    return execute_orphans(plan)


SCENARIOS: Mapping[str, Scenario] = {
    "first write": Scenario("fixed", _nothing, _append),
    "insert into an append table": Scenario("append", _two_commits, _append, repeatable=False),
    "insert into a partitioned append table": Scenario("partitioned append", _two_commits, _append, repeatable=False),
    "upsert, fixed buckets": Scenario("fixed", _two_commits, _append),
    "upsert, dynamic buckets": Scenario("dynamic", _two_commits, _append),
    "upsert, partitions": Scenario("partitioned", _two_commits, _append),
    "upsert with compaction and expiry": Scenario("fixed", _two_commits, _auto_compacting, cleans_up=True),
    "delete by condition, primary key": Scenario("dynamic", _two_commits, lambda c: _table(c).delete("v > 100")),
    "delete by condition, append table": Scenario("append", _two_commits, lambda c: _table(c).delete("v > 104")),
    "delete by condition, row tracking": Scenario("tracked", _two_commits, lambda c: _table(c).delete("v > 104")),
    "compact, row tracking": Scenario("tracked", _two_commits, _compact),
    "delete by deletion vectors": Scenario("marked", _marked, lambda c: _table(c).delete("v > 103")),
    "delete by deletion vectors, buckets": Scenario("marked buckets", _marked, lambda c: _table(c).delete("v > 103")),
    "delete by rewriting": Scenario("aggregated, rewritten", _two_commits, lambda c: _table(c).delete("v > 100")),
    "delete by key": Scenario(
        "fixed", _two_commits, lambda c: _table(c).delete(keys=pa.table({"k": pa.array([1, 5], pa.int32())}))
    ),
    "overwrite": Scenario("dynamic", _two_commits, lambda c: _table(c).overwrite(rows_of([(1, "a", 5)]))),
    "overwrite one partition": Scenario(
        "partitioned", _two_commits, lambda c: _table(c).overwrite(rows_of([(1, "a", 5)]), dynamic=True)
    ),
    "compact, primary key": Scenario("fixed", _two_commits, _compact),
    "compact, dynamic buckets": Scenario("dynamic", _history, _compact),
    "compact, append table": Scenario("append", _two_commits, _compact),
    "compact, deletion vectors": Scenario("marked", _marked, _compact),
    "compact, deletion vectors in buckets": Scenario("marked buckets", _marked, _compact),
    "expire, deletion vectors": Scenario("marked", _marked, _expire, atomic=False),
    "roll back to a tag with deletion vectors": Scenario(
        "marked", _marked, lambda c: _table(c).rollback_to("two"), atomic=False, rolls_back=True
    ),
    "expire": Scenario("fixed", _history, _expire, atomic=False),
    "expire, append table": Scenario("append", _history, _expire, atomic=False),
    "expire, dynamic buckets": Scenario("dynamic", _history, _expire, atomic=False),
    "roll back": Scenario("fixed", _history, lambda c: _table(c).rollback_to(1), atomic=False, rolls_back=True),
    "roll back to a tag": Scenario(
        "dynamic", _history, lambda c: _table(c).rollback_to("two"), atomic=False, rolls_back=True
    ),
    "roll back to an expired tag": Scenario(
        "fixed", _expired_tag, lambda c: _table(c).rollback_to("two"), atomic=False, rolls_back=True
    ),
    "create a tag": Scenario("fixed", _two_commits, lambda c: _table(c).create_tag("new", 1), repeatable=False),
    "delete a tag": Scenario("fixed", _history, lambda c: _table(c).delete_tag("two"), repeatable=False),
    "delete the tag of an expired snapshot": Scenario(
        "append", _expired_tag, lambda c: _table(c).delete_tag("two"), atomic=False, repeatable=False
    ),
    "remove orphan files": Scenario("dynamic", _with_orphans, _clean, atomic=False),
    "create a table": Scenario(
        "fixed", _nothing, lambda c: c.create_table("default.other", SCHEMA, primary_key=["k"]), repeatable=False
    ),
}
