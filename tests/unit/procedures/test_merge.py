"""merge_into: which arguments turn which action on, and which of them contradict each other."""

from __future__ import annotations

import pytest

from paimon_spark.calls.binding import bind
from paimon_spark.engine.merge_into import Clause, check_target
from paimon_spark.errors import ArgumentError, EngineError, ErrorKind, UnsupportedError
from paimon_spark.sqlparse.call import parse_call
from procedures.merge import _actions
from tests.unit.procedures.calling import REGISTRY, Lake

FORMS = [
    ("'', '', 'S', 'c', 'd'", {Clause.MATCHED_DELETE: ("d", None)}),
    ("'', '', 'S', 'c', 'u', 'a=1'", {Clause.MATCHED_UPSERT: ("u", "a=1")}),
    ("'', '', 'S', 'c', '', '*', 'i', '*'", {Clause.MATCHED_UPSERT: (None, "*"), Clause.INSERT: ("i", "*")}),
    ("'', '', 'S', 'c', '', '', '', '*', ''", {Clause.INSERT: (None, "*")}),
    (
        "'', '', 'S', 'c', 'u', '*', '', '*', 'd'",
        {Clause.MATCHED_UPSERT: ("u", "*"), Clause.MATCHED_DELETE: ("d", None), Clause.INSERT: (None, "*")},
    ),
    ("'', '', 'S', 'c', '', '', '', '', '', '', '', 'TRUE'", {Clause.BY_SOURCE_DELETE: ("TRUE", None)}),
    (
        "NULL, NULL, 'S', 'c', '', '', '', '', '', 'p', 'a=1', 'q'",
        {Clause.BY_SOURCE_UPSERT: ("p", "a=1"), Clause.BY_SOURCE_DELETE: ("q", None)},
    ),
]


@pytest.mark.parametrize(("values", "actions"), FORMS, ids=[str(v.count(",") + 2) + "-" + v for v, _ in FORMS])
def test_the_number_of_values_chooses_the_form(values: str, actions: dict) -> None:
    call = parse_call(f"CALL sys.merge_into('db.t', {values})")
    args = bind(REGISTRY.get("merge_into"), call.positional, call.named)
    assert {a.clause: (a.condition, a.values) for a in _actions(args)} == actions


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "at least one action"),
        ("matched_upsert_condition => 'x'", "without 'matched_upsert_setting'"),
        ("not_matched_insert_condition => 'x'", "without 'not_matched_insert_values'"),
        ("not_matched_by_source_upsert_condition => 'x'", "without 'not_matched_by_source_upsert_setting'"),
        ("matched_upsert_setting => 'a=1', matched_delete_condition => 'x'", "not 'matched_upsert_condition'"),
        (
            "not_matched_by_source_upsert_setting => 'a=1', not_matched_by_source_delete_condition => 'x'",
            "not 'not_matched_by_source_upsert_condition'",
        ),
        ("not_matched_by_source_upsert_setting => ' * '", "no source row"),
    ],
)
def test_contradictions(arguments: str, message: str) -> None:
    more = f", {arguments}" if arguments else ""
    with pytest.raises(ArgumentError) as caught:
        Lake({"k": "INT"}, primary_key=["k"]).call(
            f"merge_into(target_table => 't', source_table => 's', merge_condition => 'c'{more})"
        )
    assert message in str(caught.value)


@pytest.mark.parametrize("missing", ["target_table", "source_table", "merge_condition"])
def test_target_source_and_condition_are_needed(missing: str) -> None:
    names = ("target_table", "source_table", "merge_condition")
    given = ", ".join(f"{n} => '{'' if n == missing else 't'}'" for n in names)
    with pytest.raises(ArgumentError, match=missing):
        Lake({"k": "INT"}, primary_key=["k"]).call(f"merge_into({given}, matched_delete_condition => 'TRUE')")


def test_targets_that_cannot_be_merged_into() -> None:
    with pytest.raises(UnsupportedError, match="no primary key"):
        check_target(Lake({"k": "INT"}).table)
    with pytest.raises(UnsupportedError, match="aggregation"):
        check_target(Lake({"k": "INT"}, primary_key=["k"], merge_engine="aggregation").table)
    check_target(Lake({"k": "INT"}, primary_key=["k"], merge_engine="partial-update").table)


def test_it_needs_spark() -> None:
    with pytest.raises(EngineError, match="without it") as caught:
        Lake({"k": "INT"}, primary_key=["k"]).call("merge_into('t', '', '', 's', 't.k = s.k', 'TRUE')")
    assert caught.value.kind is ErrorKind.ENVIRONMENT
