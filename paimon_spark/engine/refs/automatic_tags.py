"""Automatic tags: one for each period, created by the commits that follow it (docs/spec/semantics.md, section 15)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo

from paimon_spark.core.maintenance.deletion import Action
from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.engine.refs.tags import (
    DeleteTagsPlan,
    TagPlan,
    execute_delete_tags,
    execute_tag,
    plan_create_tag,
    plan_delete_tags,
)
from paimon_spark.spec.bounds import LEAST_MILLIS, MOST_MILLIS
from paimon_spark.spec.options import CoreOptions
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.tag_periods import previous_period, tag_name, tag_period, tag_time
from paimon_spark.spec.time_zones import time_zone

_BATCH_PREFIX = "batch-write-"
_EXCESS = "there are more automatic tags than `tag.num-retained-max`"


@dataclass(frozen=True, slots=True)
class AutomaticTagsPlan:
    """Tags to write, in order, and the deletion of automatic tags beyond `tag.num-retained-max`."""

    tags: tuple[TagPlan, ...] = ()
    excess: DeleteTagsPlan = field(default_factory=DeleteTagsPlan)

    @property
    def actions(self) -> tuple[Action, ...]:
        """Return all actions in the order of their execution."""
        return (*(a for plan in self.tags for a in plan.actions), *self.excess.actions)


@translate_io_errors()
def plan_automatic_tags(
    table: Table, clock_millis: int, *, after_batch: bool = False, exact: bool = True
) -> AutomaticTagsPlan:
    """Plan the tags that are due, by `tag.automatic-creation`; nothing is changed.

    Args:
        table: the table at its latest schema.
        clock_millis: current time; stored if the tags have a retention.
        after_batch: a batch write has committed, which creates the tags of the mode `batch`.
        exact: measure the files to delete.
    """
    mode = table.options.word("tag.automatic-creation").lower()
    of_batches = mode == "batch"
    if mode == "none" or (of_batches and not after_batch):
        return AutomaticTagsPlan()
    if of_batches:
        due = _tag_of_batch(table, clock_millis)
    else:
        due = tuple(_due_tags(table, clock_millis, watermark=mode == "watermark"))
    old = _oldest(table, due, of_batches=of_batches) if due else set()
    stored = sorted(old - {plan.name for plan in due})
    excess = plan_delete_tags(table, stored, exact=exact, because=dict.fromkeys(stored, _EXCESS)) if stored else None
    return AutomaticTagsPlan(tuple(p for p in due if p.name not in old), excess or DeleteTagsPlan())


@translate_io_errors()
def execute_automatic_tags(table: Table, plan: AutomaticTagsPlan) -> tuple[str, ...]:
    """Write the tags of a plan, then delete those beyond the limit; return the names of the written tags."""
    created = tuple(p.name for p in plan.tags if execute_tag(table, p) is not None)
    if plan.excess.names:
        execute_delete_tags(table, plan.excess)
    return created


def create_automatic_tags(table: Table, clock_millis: int) -> tuple[str, ...]:
    """Create the tags that are due after a batch commit; return their names."""
    return execute_automatic_tags(table, plan_automatic_tags(table, clock_millis, after_batch=True, exact=False))


def _due_tags(table: Table, clock_millis: int, *, watermark: bool) -> Iterator[TagPlan]:
    """Yield the tags of all periods that have ended.

    Snapshots after the last automatic tag are examined in order. It gets a tag if it is the first of a period that
    has none: the tag of the period before, or, with `tag.automatic-completion`, of the oldest period without one.
    """
    options = table.options
    period, delay = tag_period(options), timedelta(milliseconds=options.duration_ms("tag.creation-delay"))
    zone = _zone(options, watermark=watermark)
    last = _last_tag(table)
    done = 0 if last is None else last[1]
    following = None if last is None else last[0] + period

    def ends_period(time: datetime) -> bool:
        return following is None or time - delay >= following + period

    newest = table.snapshots.latest()
    latest = None if newest is None else _time_of(newest, zone, watermark=watermark)
    if latest is not None and not ends_period(latest):
        return  # times do not decrease, so the snapshots before it need not be read
    for snapshot in _snapshots_from(table, done + 1):
        time = _time_of(snapshot, zone, watermark=watermark)
        if time is None or not ends_period(time):
            continue
        complete = options.flag("tag.automatic-completion") and following is not None
        start = following if complete and following is not None else previous_period(time, options)
        name = tag_name(start, options)
        plan = plan_create_tag(table, name, clock_millis=clock_millis, snapshot_id=snapshot.id, if_not_exists=True)
        if plan.tag is not None:
            yield plan
        following = start + period


def _time_of(snapshot: Snapshot, zone: tzinfo | None, *, watermark: bool) -> datetime | None:
    """Return the time of a snapshot by which periods end; None without one: in Flink, the least number is none."""
    millis = snapshot.watermark if watermark else snapshot.time_millis
    if millis is None or not LEAST_MILLIS <= millis <= MOST_MILLIS:
        return None
    return datetime.fromtimestamp(millis / 1000, zone).replace(tzinfo=None)


def _snapshots_from(table: Table, first: int) -> Iterator[Snapshot]:
    latest = table.snapshots.latest_id()
    if latest is None:
        return
    for snapshot_id in range(max(first, table.snapshots.earliest_id() or latest), latest + 1):
        found = table.snapshots.find(snapshot_id)
        if found is not None:
            yield found


def _last_tag(table: Table) -> tuple[datetime, int] | None:
    """Return the time and the snapshot id of the newest automatic tag."""
    refs = RefStore.of(table)
    times = {n: t for n in refs.tag_names() if (t := tag_time(n, table.options)) is not None}
    if not times:
        return None
    newest = max(times, key=lambda n: times[n])
    return times[newest], refs.get_tag(newest).snapshot.id


def _tag_of_batch(table: Table, clock_millis: int) -> tuple[TagPlan, ...]:
    """Return the tag of today's batch writes, which points to the latest snapshot."""
    latest = table.snapshots.latest()
    if latest is None:
        return ()
    zone = _zone(table.options, watermark=False)
    day = datetime.fromtimestamp(latest.time_millis / 1000, zone)
    name = table.options.get("tag.batch.customized-name") or f"{_BATCH_PREFIX}{day:%Y-%m-%d}"
    exists = RefStore.of(table).find_tag(name) is not None
    return (plan_create_tag(table, name, clock_millis=clock_millis, replace=exists, anew=True),)


def _oldest(table: Table, due: Iterable[TagPlan], *, of_batches: bool) -> set[str]:
    """Return the oldest automatic tags beyond `tag.num-retained-max`, the due ones included."""
    most = table.options.number_or_none("tag.num-retained-max")
    if most is None:
        return set()
    own = table.options.get("tag.batch.customized-name")
    stored = {n: t.snapshot.id for n, t in RefStore.of(table).tags().items()}
    new = {p.name: p.tag.snapshot.id for p in due if p.tag is not None}
    ids = {n: i for n, i in (stored | new).items() if _is_automatic(n, table.options, own, of_batches=of_batches)}
    return set(sorted(ids, key=lambda n: (ids[n], n))[: max(0, len(ids) - most)])


def _is_automatic(name: str, options: CoreOptions, own: str | None, *, of_batches: bool) -> bool:
    """Return whether a name is that of an automatic tag: of a batch write, or of a period."""
    if of_batches and (name == own or name.startswith(_BATCH_PREFIX)):
        return True
    return tag_time(name, options) is not None


def _zone(options: CoreOptions, *, watermark: bool) -> tzinfo | None:
    """Return the zone in which periods begin; None for the zone of the machine."""
    name = options.word("sink.watermark-time-zone") if watermark else options.get("sink.process-time-zone")
    return None if name is None else time_zone(name)
