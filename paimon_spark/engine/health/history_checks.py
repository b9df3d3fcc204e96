"""Checks of references: what snapshots, tags, branches, changelogs and consumers hold, and which should have gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from paimon_spark.core.maintenance.retention import RetentionRule, choose_end
from paimon_spark.core.metadata.refs import ProtectingRef, RefKind, RefStore
from paimon_spark.core.metadata.statistics import statistics_of
from paimon_spark.core.table import Table
from paimon_spark.engine.expiry.partition_expiry import (
    Strategy,
    partition_texts,
    plan_partition_expiry,
    strategy_of,
    time_before,
)
from paimon_spark.engine.health.examined import HOUR_MILLIS, Examined
from paimon_spark.engine.health.findings import Code, Finding, Severity, call, counted
from paimon_spark.engine.health.references import ReferencedFiles
from paimon_spark.engine.refs.tags import expired_tags
from paimon_spark.errors import PaimonError
from paimon_spark.spec.chain_tables import chain_branches
from paimon_spark.spec.kinds import CommitKind
from paimon_spark.spec.partition_times import partition_time
from paimon_spark.spec.paths import MAIN_BRANCH
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.time_texts import time_text
from paimon_spark.spec.units import MAX_INT

_EXPIRATION = "partition.expiration-time"


@dataclass(frozen=True, slots=True)
class Held:
    """References that go together, and the files that only they need."""

    refs: tuple[ProtectingRef, ...]
    files: int = 0
    bytes: int = 0


def held_alone(referenced: ReferencedFiles, groups: Mapping[str, Sequence[ProtectingRef]]) -> dict[str, Held]:
    """Return for each group of references the files that no other group needs."""
    times = np.zeros(len(referenced.files), np.int32)
    for refs in groups.values():
        times += referenced.of_any(refs)
    once = times == 1
    found = {}
    for name, refs in groups.items():
        alone = referenced.of_any(refs) & once
        found[name] = Held(tuple(refs), int(alone.sum()), referenced.total(alone))
    return found


def check_references(e: Examined, referenced: ReferencedFiles) -> Iterator[Finding]:
    """Yield what holds files, which snapshots, tags and partitions should have expired, and wrong commit times."""
    snapshots = (r for r in e.refs if r.kind is RefKind.SNAPSHOT and r.branch == e.table.branch)
    own = [r for r in snapshots if e.latest is None or r.snapshot.id <= e.latest.id]
    yield from _ahead(e, own)
    consumers = RefStore.of(e.table).needed_snapshots()
    ends = expiry_ends(e.table, [r.snapshot for r in own], e.now, consumers)
    groups = _groups(e, own, ends)
    held = held_alone(referenced, groups)
    live = referenced.total(referenced.of_any(own[-1:]))
    if "expired" in held:
        yield _expired(e, held["expired"], live)
    long_lived = [r for r in e.refs if r.kind is RefKind.CHANGELOG and r.branch == e.table.branch]
    yield from _consumers(e, held, consumers, own, long_lived)
    gone = expired_tags(e.table, e.now)
    if gone:
        freed = [held[f"tag {name}"] for name in gone if f"tag {name}" in held]
        yield e.finding(
            Severity.WARNING,
            Code.EXPIRED_TAGS,
            f"the retention of {counted(len(gone), 'tag')} has ended: {', '.join(sorted(gone)[:5])}"
            f"{', …' if len(gone) > 5 else ''}",
            call("expire_tags", table=e.sql_name),
            gain_bytes=sum(h.bytes for h in freed),
            gain_files=sum(h.files for h in freed),
        )
    first = own[0].snapshot.id if own else 0
    earliest = min((r.snapshot.id for r in long_lived), default=first)
    reading = sorted(name for name, following in consumers.items() if earliest <= following < first)
    yield from _pins(e, referenced, held, live, gone, reading)


def expiry_ends(table: Table, snapshots: Sequence[Snapshot], now: int, consumers: Mapping[str, int]) -> tuple[int, int]:
    """Return the exclusive ends of the snapshots that may expire by the table's options: with consumers, and without.

    Args:
        table: the table.
        snapshots: its snapshots, in order.
        now: current time.
        consumers: next snapshot by consumer.
    """
    if not snapshots:
        return 0, 0
    options = table.options
    least = max(options.snapshot_num_retained_min, 1)
    rule = RetentionRule(
        retain_max=max(options.snapshot_num_retained_max, least),
        retain_min=least,
        older_than_millis=now - options.snapshot_time_retained_ms,
        max_deletes=MAX_INT,
    )
    times = {s.id: s.time_millis for s in snapshots}
    floor = None if options.consumer_changelog_only else min(consumers.values(), default=None)
    with_consumers, without = (
        choose_end(rule, snapshots[0].id, snapshots[-1].id, consumer_floor=limit, time_of=times.get)
        for limit in (floor, None)
    )
    return with_consumers, without


def _groups(e: Examined, own: Sequence[ProtectingRef], ends: tuple[int, int]) -> dict[str, list[ProtectingRef]]:
    end, free = ends
    groups: dict[str, list[ProtectingRef]] = {}
    for ref in e.refs:
        if ref.branch != e.table.branch:
            name = f"branch {ref.branch}"
        elif ref.kind is RefKind.TAG:
            name = f"tag {ref.name}"
        elif ref.kind is RefKind.CHANGELOG:
            name = "changelogs"
        elif ref.snapshot.id < end:
            name = "expired"
        else:
            name = "consumed" if ref.snapshot.id < free else "kept"
        groups.setdefault(name, []).append(ref)
    return groups


def _expired(e: Examined, held: Held, live: int) -> Finding:
    count, limit = len(held.refs), e.table.options.snapshot_expire_limit
    more = {"max_deletes": count} if count > limit else {}
    urgent = count > limit or held.bytes * 100 > live * e.limits.pinned_percent
    first, last = held.refs[0].snapshot.id, held.refs[-1].snapshot.id
    return e.finding(
        Severity.WARNING if urgent else Severity.INFO,
        Code.EXPIRED_SNAPSHOTS,
        f"{counted(count, 'snapshot')}, {first} to {last}, may expire by the options of the table; only they need "
        f"{counted(held.files, 'file')} ({held.bytes} bytes)",
        call("expire_snapshots", table=e.sql_name, **more),
        gain_bytes=held.bytes,
        gain_files=held.files,
        estimated=e.table.options.changelog_lifecycle_decoupled,
    )


def _consumers(
    e: Examined,
    held: Mapping[str, Held],
    consumers: Mapping[str, int],
    own: Sequence[ProtectingRef],
    long_lived: Sequence[ProtectingRef],
) -> Iterator[Finding]:
    if not own:
        return
    times = {r.snapshot.id: r.snapshot.time_millis for r in (*long_lived, *own)}
    first, last = min(times), max(times)
    slowest = min(consumers, key=lambda name: (consumers[name], name), default=None)
    for name, following in consumers.items():
        pinned = held.get("consumed") if name == slowest else None
        if following < first:
            yield e.finding(
                Severity.ERROR,
                Code.CONSUMER_LOST,
                f"consumer '{name}' continues with snapshot {following}, but snapshots and changelogs before {first} "
                "have expired: it has lost changes",
                call("reset_consumer", table=e.sql_name, consumer_id=name, next_snapshot_id=first),
            )
        elif following in times and e.now - times[following] > e.limits.consumer_millis:
            hours = (e.now - times[following]) // HOUR_MILLIS
            yield e.finding(
                Severity.WARNING,
                Code.CONSUMER_BEHIND,
                f"consumer '{name}' has not read {counted(last - following + 1, 'snapshot')}; the oldest, "
                f"{following}, is {hours // 24} days and {hours % 24} hours old",
                call("reset_consumer", table=e.sql_name, consumer_id=name),
            )
        if pinned is not None and pinned.refs:
            yield e.finding(
                Severity.INFO,
                Code.CONSUMER_HOLDS_FILES,
                f"consumer '{name}' keeps {counted(len(pinned.refs), 'snapshot')} from expiry; only they need "
                f"{counted(pinned.files, 'file')} ({pinned.bytes} bytes)",
                call("reset_consumer", table=e.sql_name, consumer_id=name),
                gain_bytes=pinned.bytes,
                gain_files=pinned.files,
                estimated=len(consumers) > 1,
            )


def _pins(
    e: Examined,
    referenced: ReferencedFiles,
    held: Mapping[str, Held],
    live: int,
    gone: Iterable[str],
    reading: Sequence[str],
) -> Iterator[Finding]:
    going = {f"tag {name}" for name in gone}
    tags = [h for name, h in held.items() if name.startswith("tag ")]
    for name, found in held.items():
        kind, _, own = name.partition(" ")
        if kind not in _HOLDERS or not found.files or name in going:
            continue
        code, text, procedure, argument = _HOLDERS[kind]
        urgent = found.bytes * 100 > live * e.limits.pinned_percent
        which = f" '{own}'" if own else f" ({counted(len(found.refs), 'reference')})"
        after = _AFTER.get(kind, "")
        needing = bool(reading) and kind == "changelogs"
        if needing:
            after = f"; {counted(len(reading), 'consumer')} still to read them: {', '.join(reading[:3])}"
        given: dict[str, str | int] = {argument: own} if argument else {"delete_all": True}
        yield e.finding(
            Severity.WARNING if urgent else Severity.INFO,
            code,
            f"only {text}{which} needs {counted(found.files, 'file')} ({found.bytes} bytes){after}",
            None if own == MAIN_BRANCH or needing else call(procedure, table=e.sql_name, **given),
            gain_bytes=found.bytes,
            gain_files=found.files,
        )
    if len(tags) > 1:
        yield from _tags_together(e, referenced, held, sum(h.bytes for h in tags), len(tags))


_HOLDERS = {
    "tag": (Code.TAG_HOLDS_FILES, "tag", "delete_tag", "tag"),
    "branch": (Code.BRANCH_HOLDS_FILES, "branch", "delete_branch", "branch"),
    "changelogs": (Code.CHANGELOGS_HOLD_FILES, "the long-lived changelogs", "expire_changelogs", ""),
}


_AFTER = {"branch": "; they are orphans without it, and remove_orphan_files frees them"}
"""What happens to the files of a holder that is deleted, unless they are deleted with it."""


def _tags_together(
    e: Examined, referenced: ReferencedFiles, held: Mapping[str, Held], alone: int, count: int
) -> Iterator[Finding]:
    refs = [r for name, h in held.items() if name.startswith("tag ") for r in h.refs]
    rest = [r for name, h in held.items() if not name.startswith("tag ") for r in h.refs]
    both = held_alone(referenced, {"tags": refs, "rest": rest})["tags"]
    if both.bytes > alone:
        yield e.finding(
            Severity.INFO,
            Code.TAG_HOLDS_FILES,
            f"only the {count} tags together need {counted(both.files, 'file')} ({both.bytes} bytes); each alone would "
            f"free less, {alone} bytes in sum",
        )


def check_retention(e: Examined) -> Iterator[Finding]:
    """Yield a retention that is too short for readers, partitions past theirs, and stale statistics."""
    options = e.table.options
    if options.snapshot_time_retained_ms < e.limits.retention_millis and e.latest is not None:
        yield e.finding(
            Severity.INFO,
            Code.SHORT_RETENTION,
            f"'snapshot.time-retained' is {options.get('snapshot.time-retained')}: a query that takes longer may find "
            "its files deleted",
            e.alter("SET TBLPROPERTIES ('snapshot.time-retained' = '1 h')"),
        )
    if options.get(_EXPIRATION) and e.table.schema.partition_keys and chain_branches(options) is None:
        yield from _expired_partitions(e)
    yield from _statistics(e)


def _ahead(e: Examined, own: Sequence[ProtectingRef]) -> Iterator[Finding]:
    """Yield the first snapshot in the future, from a writer whose clock is ahead: commit times never decrease."""
    first = next((r.snapshot for r in own if r.snapshot.time_millis - e.now > e.limits.ahead_millis), None)
    if first is not None:
        yield e.finding(
            Severity.WARNING,
            Code.FUTURE_SNAPSHOT,
            f"snapshot {first.id} of commit user '{first.commit_user}' has the commit time "
            f"{time_text(first.time_millis)} UTC, {timedelta(seconds=(first.time_millis - e.now) // 1000)} "
            "ahead: later snapshots get no earlier time, none of them expires by age until then, and time travel by "
            "timestamp does not find them. Correct the clock of that writer",
        )


def _expired_partitions(e: Examined) -> Iterator[Finding]:
    options, layout = e.table.options, e.layout
    if strategy_of(options) is Strategy.UPDATE_TIME:
        plan = plan_partition_expiry(e.table, e.now, at_most=MAX_INT)
        count, files, size = len(plan.partitions), plan.files, sum(a.bytes for a in plan.actions)
    else:
        limit = time_before(e.now, options.duration_ms(_EXPIRATION))
        old = [at for p, at in layout.by_partition() if _is_before(e.table, p, limit)]
        count = len(old)
        files, size = (sum(int(column[at].sum()) for at in old) for column in (layout.files, layout.size))
    if count:
        yield e.finding(
            Severity.WARNING,
            Code.EXPIRED_PARTITIONS,
            f"{counted(count, 'partition')} with {counted(files, 'file')} are older than '{_EXPIRATION}' = "
            f"'{options.get(_EXPIRATION)}'",
            call("expire_partitions", table=e.sql_name),
            gain_bytes=size,
            gain_files=files,
        )


def _is_before(table: Table, partition: bytes, limit: datetime) -> bool:
    at = partition_time(partition_texts(table, partition), table.options)
    return at is not None and at < limit


def _statistics(e: Examined) -> Iterator[Finding]:
    try:
        known = statistics_of(e.table, e.latest)
    except PaimonError as error:
        yield e.finding(Severity.WARNING, Code.STALE_STATISTICS, str(error), _analyze(e, 1))
        return
    if known is None or e.latest is None:
        return
    later = [
        r.snapshot
        for r in e.refs
        if r.kind is RefKind.SNAPSHOT
        and r.branch == e.table.branch
        and known.snapshot_id < r.snapshot.id <= e.latest.id
    ]
    written = [s for s in later if s.commit_kind in (CommitKind.APPEND, CommitKind.OVERWRITE)]
    changed = sum(abs(s.delta_record_count) for s in written)
    rows = max(known.merged_record_count or 0, 1)
    stale = changed * 100 > rows * e.limits.statistics_percent
    if stale or (known.schema_id != e.latest.schema_id and known.col_stats):
        why = (
            f"{counted(changed, 'row')} changed since, {100 * changed // rows} % of {rows:,}"
            if stale
            else f"the schema was {known.schema_id} and is {e.latest.schema_id}"
        )
        yield e.finding(
            Severity.INFO,
            Code.STALE_STATISTICS,
            f"the statistics are those of snapshot {known.snapshot_id}: {why}",
            _analyze(e, len(known.col_stats)),
        )


def _analyze(e: Examined, columns: int) -> str:
    return f"ANALYZE TABLE {e.sql_name} COMPUTE STATISTICS{' FOR ALL COLUMNS' if columns else ''}"
