"""Plans are kept for the JVM to come back to, but not without bounds."""

from __future__ import annotations

from paimon_spark.bridge.handlers.scan import _KEPT_FILES, _KEPT_PLANS, PlannedScan, _Plans
from paimon_spark.core.scan.result import ScanCounts
from paimon_spark.engine.select import SelectPlan
from paimon_spark.spark.read_modes import ReadRequest
from paimon_spark.spec.predicate import TRUE
from tests.unit.core import samples


def plan(files: int) -> PlannedScan:
    table = samples.table()
    found = SelectPlan(table=table, snapshot_id=1, columns=(), counts=ScanCounts(files=files))
    return PlannedScan((found,), (ReadRequest(table, (), TRUE, ()),))


def test_only_so_many_plans_are_kept() -> None:
    plans = _Plans()
    keys = [plans.put(plan(1)) for _ in range(_KEPT_PLANS + 1)]
    assert [plans.get(k) is not None for k in keys] == [False, *[True] * _KEPT_PLANS]


def test_only_so_many_files_are_kept_but_always_the_newest_plan() -> None:
    plans = _Plans()
    half = _KEPT_FILES // 2
    first, second, third = (plans.put(plan(half)) for _ in range(3))
    assert [plans.get(k) is not None for k in (first, second, third)] == [False, True, True]
    large = plans.put(plan(10 * _KEPT_FILES))
    assert [plans.get(k) is not None for k in (second, third, large)] == [False, False, True]
    small = plans.put(plan(1))
    assert [plans.get(k) is not None for k in (large, small)] == [False, True]
