"""Whatever happened to a table: what references need is known exactly, and so is what deleting one of them frees."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.metadata.refs import ProtectingRef, RefKind, protecting_refs
from paimon_spark.engine.compaction.rewrite_file_index import execute_index_rewrite, plan_index_rewrite
from paimon_spark.engine.health.doctor import diagnose
from paimon_spark.engine.health.findings import Code, Severity
from paimon_spark.engine.health.history_checks import held_alone
from paimon_spark.engine.health.maintain import Measure, Status, by_gain, plan_jobs, run_job
from paimon_spark.engine.health.places import Places
from paimon_spark.engine.health.references import ReferencedFiles
from paimon_spark.engine.health.verify import Depth, verify
from paimon_spark.engine.refs.tags import execute_delete_tags, plan_delete_tags
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.testing.history import History, random_step
from paimon_spark.testing.invariants import leaked, needed
from paimon_spark.testing.scenarios import KINDS
from tests.unit.core import samples
from tests.unit.engine.test_maintenance_histories import ACTIONS, Story

FAR = 4_102_444_800_000
STEPS = st.lists(st.tuples(st.sampled_from([*ACTIONS, "index", "index"]), st.integers(0, 99)), max_size=25)


class IndexedStory(Story):
    """A table whose files get other indexes, too: a file of the same name and level is removed and added."""

    def index(self, n: int) -> None:
        index = None if n % 5 == 0 else bytes([n])
        live = tuple(f for f in self._live() if f.embedded_index != index)
        files = tuple(replace(f, embedded_index=index) for f in live)
        if live:
            message = samples.message(total_buckets=1, compact_before=live, compact_after=files)
            self.history._commit(message, ())


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_what_references_need_and_hold(steps: list[tuple[str, int]]) -> None:
    story = IndexedStory()
    for step, n in steps:
        story.run(step, n)
    table = story.history.table
    refs = protecting_refs(table)
    referenced = ReferencedFiles(table, refs)
    before = needed(table)
    assert referenced.unreadable == []
    places = Places(table).of_paths(before)
    assert referenced.files[referenced.of_any(refs)].tolist() == sorted(places.tolist())
    groups: dict[str, list[ProtectingRef]] = {}
    for r in refs:
        groups.setdefault(r.name if r.kind is RefKind.TAG and r.branch == "main" else "rest", []).append(r)
    held = held_alone(referenced, groups)
    for name in sorted(groups.keys() - {"rest"})[:1]:
        execute_delete_tags(table, plan_delete_tags(table, name))
        clear_cache()
        assert held[name].files == len(before - needed(table))


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(KINDS)), st.integers(0, 10_000))
@example("marked", 501)
def test_maintenance_loses_nothing(kind: str, seed: int) -> None:
    draw, history = random.Random(seed), History(kind)
    for step in range(10):
        random_step(history, draw)
        if step == 5:
            indexed = history.table.load().with_options({"file-index.bloom-filter.columns": draw.choice("kv")})
            execute_index_rewrite(plan_index_rewrite(indexed), LocalRunner())
        assert history.complaints() == []
    table, runner = history.table.load(), LocalRunner()
    assert list(verify(table, runner, Depth.DATA)) == []
    diagnosis = diagnose(table, runner, FAR)
    assert [f for f in diagnosis.findings if f.severity is Severity.ERROR] == []
    jobs = by_gain(plan_jobs(table, diagnosis, frozenset(Measure), runner, FAR))
    outcomes = [run_job(job, runner, lambda: FAR, None) for job in jobs]
    assert [o.reason for o in outcomes if o.status is Status.FAILED] == []
    assert history.complaints() == []
    assert list(verify(table, runner, Depth.DATA)) == []
    again = {f.code for f in diagnose(table, runner, FAR).findings}
    assert again.isdisjoint({Code.ORPHAN_FILES, Code.SMALL_FILES, Code.LEVEL_0_FILES, Code.SMALL_MANIFESTS})
    assert leaked(table) == set()
