from __future__ import annotations

import types
from typing import Any

import pytest

from paimon_spark.calls.context import CallContext
from paimon_spark.calls.help import describe, help_rows, index, page, pages
from paimon_spark.calls.plan import Plan
from paimon_spark.calls.procedure import Column, Param, ParamType, procedure
from paimon_spark.calls.refusals import REFUSED
from paimon_spark.calls.registry import Registry, installed_registry
from paimon_spark.calls.report import NOTHING_TO_DO, Report
from paimon_spark.calls.run import answer_columns, is_paimon_statement, run_call, run_named
from paimon_spark.core.maintenance.deletion import Action
from paimon_spark.errors import ArgumentError, EngineError, ErrorKind, NotFoundError, UnsupportedError

DONE = []


@procedure(
    name="Touch",
    summary="Touch a thing.",
    params=(Param("what", ParamType.STRING, "The thing.", required=True), Param("times", ParamType.INT, "How often.")),
    columns=(Column("result", "boolean", "fine"),),
    example="CALL sys.touch('x');",
)
class Touch:
    """Touch a thing so many times."""

    def plan(self, ctx: Any, args: Any) -> Any:
        times = args.integer("times")
        return Plan((Action("write", args.text("what"), 7, "touched"),), 1 if times is None else times)

    def execute(self, ctx: Any, plan: Any) -> Any:
        DONE.append(plan.payload)
        if plan.payload == 0:
            return Report(result_rows=[(True,)], status=NOTHING_TO_DO)
        return Report(
            result_rows=[(True,)], snapshot_before=1, snapshot_after=2, files_out=plan.payload, changed_tables=("d.t",)
        )


@procedure(
    name="count",
    summary="Count.",
    params=(Param("dry_run", ParamType.BOOLEAN, "Only count."),),
    columns=(Column("n", "bigint", "how many", nullable=False),),
    example="CALL sys.count();",
    reports=False,
)
class Count:
    """Answer with its own dry run."""

    def plan(self, ctx: Any, args: Any) -> Any:
        return Plan((), args.flag("dry_run"))

    def execute(self, ctx: Any, plan: Any) -> Any:
        return Report(result_rows=[(0 if plan.payload else 5,)])


MODULE = types.SimpleNamespace(Touch=Touch, Count=Count, other=5, Plan=Plan)
REGISTRY = Registry.of_modules([MODULE])


@pytest.fixture
def ctx() -> Any:
    DONE.clear()
    ticks = iter(range(100, 1000, 25))
    return CallContext(catalog=None, catalog_name="paimon", runner=None, clock_millis=lambda: next(ticks))


def test_a_call_runs_once_and_reports(ctx: Any) -> None:
    result = run_call("CALL paimon.SYS.touch('x', 3)", ctx, REGISTRY)
    assert DONE == [3]
    assert result.columns[:4] == [
        ("result", "boolean"),
        ("status", "string"),
        ("snapshot_before", "bigint"),
        ("snapshot_after", "bigint"),
    ]
    assert result.rows == [(True, "done", 1, 2, 0, 3, 0, 0, 0, 25)]
    assert len(result.nullable) == len(result.columns)
    assert result.changed_tables == ("d.t",)


def test_nothing_to_do_is_a_status(ctx: Any) -> None:
    assert run_call("CALL touch('x', 0)", ctx, REGISTRY).rows[0][:2] == (True, "nothing to do")


@pytest.mark.parametrize("text", ["EXPLAIN CALL sys.touch('x')", "CALL sys.touch(what => 'x', dry_run => true)"])
def test_a_plan_changes_nothing(ctx: Any, text: Any) -> None:
    result = run_call(text, ctx, REGISTRY)
    assert DONE == []
    assert [c for c, _ in result.columns] == ["action", "path", "bytes", "reason", "kept_by"]
    assert result.rows == [("write", "x", 7, "touched", None)]
    assert result.changed_tables == ()


def test_a_dry_run_of_paimons_own_answers_in_its_columns(ctx: Any) -> None:
    assert run_call("CALL sys.count(dry_run => true)", ctx, REGISTRY).rows == [(0,)]
    assert run_call("CALL sys.count(true)", ctx, REGISTRY).rows == [(0,)]
    assert run_call("CALL sys.count()", ctx, REGISTRY).columns == [("n", "bigint")]
    assert run_call("EXPLAIN CALL sys.count()", ctx, REGISTRY).columns[0] == ("action", "string")


def test_plain_values(ctx: Any) -> None:
    assert run_named("touch", {"what": "x", "times": None}, ctx, REGISTRY).rows[0][5] == 1
    assert run_named("touch", {"what": "x", "times": "2"}, ctx, REGISTRY, explain=True).rows[0][1] == "x"
    with pytest.raises(ArgumentError, match="what"):
        run_named("touch", {"what": ""}, ctx, REGISTRY)


@pytest.mark.parametrize(
    ("text", "error", "part"),
    [
        ("CALL sys.tuch('x')", NotFoundError, "Did you mean 'touch'?"),
        ("CALL sys.Vector_Search('x')", UnsupportedError, "'sys.vector_search' of Apache Paimon is not supported"),
        ("EXPLAIN CALL paimon.sys.repair()", UnsupportedError, "this catalog has none"),
        ("CALL other.touch('x')", NotFoundError, "namespace sys"),
        ("CALL lake.sys.touch('x')", ArgumentError, "'lake', but runs in 'paimon'"),
    ],
)
def test_wrong_names(ctx: Any, text: Any, error: Any, part: Any) -> None:
    with pytest.raises(error) as caught:
        run_call(text, ctx, REGISTRY)
    assert part in str(caught.value)
    if error is NotFoundError:
        assert caught.value.kind is ErrorKind.PROCEDURE_NOT_FOUND


@pytest.mark.parametrize(
    "text",
    [
        "CALL sys.touch('x')",
        "EXPLAIN CALL sys.touch('x')",
        "CALL sys.touch(what => 'x', dry_run => 'true')",
        "CALL sys.count(true)",
    ],
)
def test_the_columns_are_known_before_a_call_runs(ctx: Any, text: Any) -> None:
    columns = answer_columns(text, "paimon", REGISTRY)
    assert DONE == []
    result = run_call(text, ctx, REGISTRY)
    assert [c[:2] for c in columns] == result.columns
    assert [c[2] for c in columns] == result.nullable


def test_claims() -> None:
    assert is_paimon_statement("CALL sys.`TOUCH`('x')", REGISTRY)
    assert not is_paimon_statement("CALL sys.compact('x')", REGISTRY)
    assert not is_paimon_statement("SELECT 1", REGISTRY)


def test_two_of_one_name() -> None:
    with pytest.raises(EngineError, match="Two procedures"):
        Registry([*REGISTRY, *REGISTRY])


def test_descriptions() -> None:
    count, touch = describe(REGISTRY)
    assert (count["name"], touch["name"]) == ("count", "Touch")
    assert touch["signature"] == "sys.Touch(what STRING, [times INT])"
    assert [p["name"] for p in touch["parameters"]] == ["what", "times", "dry_run"]
    assert [p["named_only"] for p in touch["parameters"]] == [False, False, True]
    assert [p["named_only"] for p in count["parameters"]] == [False]
    assert touch["columns"][0] == {"name": "result", "type": "boolean", "nullable": True}
    assert REGISTRY.get("COUNT").result_columns == [("n", "bigint", False)]


def test_help() -> None:
    assert [(r[0], r[1]) for r in help_rows(REGISTRY)] == [("procedure", "count"), ("procedure", "Touch")]
    rows = help_rows(REGISTRY, "sys.touch")
    assert ("argument", "what", "STRING", True, "The thing.") in rows
    assert rows[-1][:2] == ("example", "CALL sys.touch('x');")
    with pytest.raises(NotFoundError):
        help_rows(REGISTRY, "nope")


def test_help_lists_each_status() -> None:
    for name, upgraded in (("compact", True), ("rollback_to", False)):
        (meaning,) = [r[4] for r in help_rows(installed_registry(), name) if r[:2] == ("result", "status")]
        assert "`nothing to do`" in meaning
        assert ("`upgraded`" in meaning) is upgraded


def test_pages() -> None:
    assert set(pages(REGISTRY)) == {"index.md", "count.md", "Touch.md"}
    assert "| `what` | STRING | yes | The thing. |" in page(REGISTRY.get("touch"))
    assert "[`Touch`](Touch.md) | Touch a thing." in index(REGISTRY)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused_procedures_are_claimed_and_explained(name: str) -> None:
    text = f"CALL sys.{name}('db.t')"
    assert is_paimon_statement(text, REGISTRY)
    with pytest.raises(UnsupportedError) as caught:
        answer_columns(text, "paimon", REGISTRY)
    assert (caught.value.kind, caught.value.hint) == (ErrorKind.UNSUPPORTED_FEATURE, REFUSED[name].instead)
    assert name not in installed_registry().names
