"""Reads: plan once, return statistics, and return the frame when Spark plans the query."""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from paimon_spark.bridge.protocol import Request, scan_predicate
from paimon_spark.bridge.server import JvmAnswer
from paimon_spark.bridge.system_tables import is_rows, struct_of, system_rows
from paimon_spark.bridge.tables import TableToken, at_token, load_newest, pinned
from paimon_spark.core.columns import AUDIT_ROW_KIND, METADATA_COLUMNS
from paimon_spark.core.metadata.time_travel import ReadStart
from paimon_spark.core.read.superseded_rows import SUPERSEDED
from paimon_spark.core.scan.top import RowOrder
from paimon_spark.core.system.tables import SYSTEM_SCANS, SystemScan
from paimon_spark.core.table import Table
from paimon_spark.engine.aggregates import Aggregate, Aggregation, Function, aggregated
from paimon_spark.engine.branch_reads import OTHER_BRANCH
from paimon_spark.engine.fallback import plan_reads, total_rows
from paimon_spark.engine.local_read import read_small, small_bytes
from paimon_spark.engine.row_level import with_all_rows
from paimon_spark.engine.select import ReadOptions, SelectPlan
from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.bucket_layout import bucket_layout
from paimon_spark.spark.conf import drops_retracts
from paimon_spark.spark.jvm_frames import arrow_frame, session_for
from paimon_spark.spark.native_access import native_access
from paimon_spark.spark.read_modes import ReadRequest
from paimon_spark.spark.reads import read_frame
from paimon_spark.spark.superseded import superseded_in_engine
from paimon_spark.spark.types import batch_for_spark, variant_types
from paimon_spark.spark.values import value_to_jvm
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.predicate import TRUE, Predicate
from paimon_spark.spec.quoted_text import quoted_name

_KEPT_PLANS = 256
_KEPT_FILES = 1_000_000
"""In all plans together; the newest one is always kept."""


@dataclass(frozen=True, slots=True)
class PlannedScan:
    """The plans whose frame the JVM may request, one for each branch that is read, and how they are read."""

    plans: tuple[SelectPlan, ...]
    readings: tuple[ReadRequest, ...]
    local_bytes: int | None = None
    """How many bytes of data files the engine takes if it reads the rows itself; None if it does not."""

    @property
    def local(self) -> bool:
        """Return whether the engine reads the rows itself."""
        return self.local_bytes is not None

    @property
    def snapshot_id(self) -> int | None:
        """Return the snapshot that is read, if reading it by its id gives the same rows: not with other branches."""
        return self.plans[0].snapshot_id if self.plans[0].pinned and len(self.plans) == 1 else None

    @property
    def files(self) -> int:
        """Return the number of files to read."""
        return sum(p.counts.files for p in self.plans)


class _Plans:
    """The newest plans by id; an evicted plan, or one of an earlier engine process, is made again."""

    def __init__(self) -> None:
        self._plans: OrderedDict[str, PlannedScan] = OrderedDict()
        self._files = 0
        self._lock = threading.Lock()

    def put(self, plan: PlannedScan) -> str:
        key = str(uuid.uuid4())
        with self._lock:
            self._plans[key] = plan
            self._files += plan.files
            while len(self._plans) > _KEPT_PLANS or (len(self._plans) > 1 and self._files > _KEPT_FILES):
                _, oldest = self._plans.popitem(last=False)
                self._files -= oldest.files
        return key

    def get(self, key: str) -> PlannedScan | None:
        with self._lock:
            return self._plans.get(key)


_plans = _Plans()


def plan_scan(request: Request) -> dict[str, Any]:
    """Plan a read; return its id, snapshot, size and what was pruned."""
    token = request.args["table"]
    if is_rows(token):
        return {"scan": "", "snapshot": token.get("snapshot"), "rows": None, "bytes": 1 << 16, "info": "system table"}
    return _described(_plan(request))


def _described(planned: PlannedScan) -> dict[str, Any]:
    exact = total_rows(planned.plans)
    rows = exact if exact is not None else sum(s.file_rows for plan in planned.plans for s in plan.splits)
    parts = list(zip(planned.plans, planned.readings, strict=True))
    size = sum(_bytes(plan, reading.columns) for plan, reading in parts)
    return {
        "scan": _plans.put(planned),
        "snapshot": planned.snapshot_id,
        "rows": rows,
        "bytes": size if planned.local_bytes is None else max(min(size, planned.local_bytes), 1),
        "info": "; ".join(_info(plan, reading, local=planned.local) for plan, reading in parts),
        "local": planned.local,
        "layout": None if planned.local else bucket_layout(planned.plans, planned.readings),
    }


def _info(plan: SelectPlan, reading: ReadRequest, *, local: bool) -> str:
    counts = plan.counts
    parts = [_source(plan)]
    if plan.table.schema.partition_keys:
        parts.append(f"partitions={counts.partitions}/{counts.partitions_seen}")
    parts.append(f"files={counts.files}/{counts.files_seen}")
    parts.append(f"splits={len(plan.splits)} ({'read by the engine' if local else _how_read(plan, reading)})")
    if plan.limit is not None:
        parts.append(f"limit={plan.limit}")
    if plan.order is not None:
        parts.append(f"top={plan.top} by {plan.order}")
    return ", ".join(parts)


def _how_read(plan: SelectPlan, reading: ReadRequest) -> str:
    refusal = native_access(plan.table).refusal
    modes = reading.read_modes
    raw = sum(s.raw for s in plan.splits) if refusal else len(modes.native)
    small = f"{len(modes.small)} of small files, " if modes.small else ""
    filtered = f"{len(modes.filtered)} native without superseded rows, " if modes.filtered else ""
    merged = len(plan.splits) - raw - len(modes.filtered) - len(modes.small)
    return f"{raw} {refusal or 'native'}, {filtered}{small}{merged} merge"


def _source(plan: SelectPlan) -> str:
    """Return which state, or which changes, a plan reads."""
    snapshot = plan.snapshot_id if plan.snapshot_id is not None else "none"
    return f"changes={plan.changes}" if plan.changes else f"snapshot={snapshot}"


def _bytes(plan: SelectPlan, columns: tuple[str, ...]) -> int:
    """Return the estimated size of the columns in bytes; never 0, which Spark would take as exact."""
    total = sum(s.size for s in plan.splits)
    share = max(len(columns), 1) / max(len(plan.table.schema.fields), 1)
    return max(int(total * min(share, 1.0)), 1)


def _plan(request: Request) -> PlannedScan:
    args = request.args
    table, lost = _table(request)
    system = SYSTEM_SCANS.get(args["table"].get("scan_of", ""), SystemScan())
    metadata = tuple(c for c in METADATA_COLUMNS if c in args["columns"] and c not in table.schema.field_names)
    columns = tuple(c for c in args["columns"] if not (system.keep_kinds and c == AUDIT_ROW_KIND) and c not in metadata)
    changes = bool(args["table"].get("writes"))
    plans = plan_reads(
        _to_read(table, writes=changes, located=bool(metadata)),
        columns=columns,
        predicate=TRUE if system.pairs else _predicate(request, table),
        limit=args["limit"],
        how=replace(
            _how(request),
            keep_kinds=system.keep_kinds,
            top_level_only=system.top_level_only,
            order=_order(args.get("order")),
        ),
        begin=_begin(table, args["table"].get("analyzed")),
    )
    if lost:
        _check_no_newer_files(plans, table, lost)
    readings = tuple(_reading(plan, columns, metadata, pairs=system.pairs) for plan in plans)
    plain = not (metadata or system.keep_kinds)
    return PlannedScan(plans, readings, small_bytes(plans, changes=changes) if plain else None)


def _reading(plan: SelectPlan, columns: tuple[str, ...], metadata: tuple[str, ...], *, pairs: bool) -> ReadRequest:
    return ReadRequest(
        plan.table,
        columns,
        plan.predicate,
        plan.splits,
        keep_kinds=plan.keep_kinds,
        pairs=pairs,
        limit=plan.limit,
        metadata=metadata,
    )


def _begin(table: Table, analyzed: int | None) -> ReadStart | None:
    return None if analyzed is None else ReadStart(table.snapshots.get(analyzed), table.schema)


def _to_read(table: Table, *, writes: bool, located: bool) -> Table:
    """Return the table of a query, or of a statement that `writes`, which changes all rows of its own branch.

    The rows of another branch have no location in the table, either.
    """
    if not (writes or located):
        return table
    own = {k: v for k, v in table.options.values.items() if k not in OTHER_BRANCH}
    table = replace(table, options=CoreOptions(own))
    return with_all_rows(table) if writes else table


def _order(raw: Mapping[str, Any] | None) -> RowOrder | None:
    return None if raw is None else RowOrder(**raw)


def _how(request: Request) -> ReadOptions:
    envelope = request.envelope
    return ReadOptions(drop_retracts=drops_retracts(envelope.conf), local_zone=envelope.zone)


def _table(request: Request) -> tuple[Table, tuple[str, ...]]:
    """Return the table at the schema of the query, and the NOT NULL columns read that newer files may have as NULL."""
    args = request.args
    token = TableToken.of(args["table"])
    newest = load_newest(request.envelope, token, args["options"])
    table = at_token(newest, token)
    lost: tuple[str, ...] = ()
    if newest is not table:
        required = {f.id for f in newest.schema.fields if not f.type.nullable}
        held = [f for f in table.schema.fields if not f.type.nullable and f.name in args["columns"]]
        lost = tuple(f.name for f in held if f.id not in required)
    return (pinned(table, args["snapshot"]) if args.get("snapshot") is not None else table), lost


def _check_no_newer_files(plans: Iterable[SelectPlan], table: Table, lost: Sequence[str]) -> None:
    """Reject a read of files of a newer schema: Spark would take a NULL in a NOT NULL column for a value."""
    known = table.schema.id
    own = [p for p in plans if p.table.schema.id == known]
    if any(f.schema_id > known for plan in own for split in plan.splits for f in split.files):
        raise UnsupportedError(
            f"The column '{lost[0]}' of table {table.name} was NOT NULL when the query was analysed. "
            "In newer files it may be NULL.",
            hint="Create the DataFrame again, or run the statement again.",
        )


def _predicate(request: Request, table: Table) -> Predicate:
    return scan_predicate(request.args["predicate"], table.schema)


def scan_frame(request: Request) -> JvmAnswer:
    """Return the frame of a planned read, with exactly the requested columns."""
    session = session_for(request.envelope.session, request.jsession)
    token = request.args["table"]
    if is_rows(token):
        rows = system_rows(request.envelope, token)
        chosen = rows.select(request.args["columns"] or rows.schema.names[:1])
        frame = arrow_frame(session, chosen, StructType.fromJson(struct_of(chosen.schema)))
        return JvmAnswer(frame._jdf)
    planned = _plans.get(request.args["scan"]) or _plan(request)
    readings = planned.readings
    if request.args.get("prunes_later"):
        readings = tuple(replace(r, prunes_later=True) for r in readings)
    by_bucket = bool(request.args.get("by_bucket"))
    asks_engine = planned.snapshot_id is not None  # otherwise a plan that is made again may have other files
    frames = [read_frame(session, r, by_bucket=by_bucket, asks_engine=asks_engine) for r in readings]
    first, names = readings[0], request.args["columns"]
    if len(frames) > 1 and not names:
        names = frames[0].columns[:1]
    if (first.keep_kinds or first.metadata or len(frames) > 1) and names:
        frames = [frame.select(*[quoted_name(c) for c in names]) for frame in frames]
    return JvmAnswer(reduce(DataFrame.unionAll, frames)._jdf)


def local_rows(request: Request) -> bytes | dict[str, Any]:
    """Read the rows of a small scan: an Arrow stream, or nothing if there are too many for the driver."""
    planned = _plans.get(request.args["scan"]) or _plan(request)
    found = read_small(planned.plans)
    if found is None:
        return {"rows": None}
    first = planned.plans[0]
    variants = variant_types(first.table.schema.fields)
    empty = batch_for_spark(pa.RecordBatch.from_pylist([], first.schema), variants)
    return _stream(empty.schema, (batch_for_spark(batch, variants) for batch in found))


def superseded_rows(request: Request) -> bytes:
    """Find the superseded rows of splits of a planned read of one snapshot: an Arrow stream of `SUPERSEDED` rows."""
    (reading,) = (_plans.get(request.args["scan"]) or _plan(request)).readings
    return _stream(SUPERSEDED, superseded_in_engine(reading, request.args["missing"]))


def _stream(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return sink.getvalue().to_pybytes()


def aggregate_rows(request: Request) -> dict[str, Any]:
    """Aggregate by metadata; if that is not possible, plan the scan of the columns that the aggregates need."""
    args, planned = request.args, _plan(request)
    calls = tuple(Aggregate(Function(name), column) for name, column in args["aggregates"])
    found = aggregated(planned.plans, Aggregation(calls, tuple(args["group_by"])))
    if found is None:
        return {"plan": _described(planned), "snapshot": planned.snapshot_id}
    return {
        "snapshot": planned.snapshot_id,
        "rows": [[value_to_jvm(v) for v in row] for row in found],
        "info": "; ".join(map(_source, planned.plans)),
    }


HANDLERS = {h.__name__: h for h in (plan_scan, scan_frame, local_rows, superseded_rows, aggregate_rows)}
