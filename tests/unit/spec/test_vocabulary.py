"""Every name that is written into metadata files is one that each supported release of Paimon accepts."""

from __future__ import annotations

from typing import Any

import pytest

from paimon_spark.spec.kinds import ChangelogProducer, CommitKind, FileKind, FileSource, MergeEngine, Operation, RowKind
from paimon_spark.spec.manifest import DELETION_VECTORS_INDEX, HASH_INDEX
from paimon_spark.spec.option_catalogue import known_options
from paimon_spark.spec.types import TypeRoot
from tests.peers.vocabulary import recorded, written_types

RELEASES = recorded()
BY_RELEASE = pytest.mark.parametrize("release", RELEASES)
YOUNGER = {"0.9.0": (TypeRoot.VARIANT, TypeRoot.BLOB)}
"""Types that a release does not have: a table with such a column is not for it."""


def test_the_releases() -> None:
    assert sorted(RELEASES) == ["0.9.0", "1.4.2", "2.0.0"]


@BY_RELEASE
def test_names_in_snapshots(release: str) -> None:
    enums: dict[str, Any] = RELEASES[release]["enums"]
    assert {str(k) for k in CommitKind} == set(enums["commitKind"])
    assert enums["operation"] is None or {str(o) for o in Operation} <= set(enums["operation"])


def test_operations_are_those_of_the_newest_release() -> None:
    assert [str(o) for o in Operation] == RELEASES["2.0.0"]["enums"]["operation"]


@BY_RELEASE
def test_numbers_in_manifests_and_rows(release: str) -> None:
    enums: dict[str, Any] = RELEASES[release]["enums"]
    for ours, theirs in ((FileKind, "fileKind"), (FileSource, "fileSource"), (RowKind, "rowKind")):
        assert [k.name for k in sorted(ours)] == enums[theirs]


@BY_RELEASE
def test_types_of_index_files(release: str) -> None:
    constants = RELEASES[release]["constants"]
    assert (constants["hashIndex"], constants["deletionVectorsIndex"]) == (HASH_INDEX, DELETION_VECTORS_INDEX)


@BY_RELEASE
def test_types_in_schemas(release: str) -> None:
    accepted = RELEASES[release]["types"]
    younger = YOUNGER.get(release, ())
    refused = [t for t in written_types() if not accepted[t] and not t.startswith(younger)]
    assert refused == []


def test_words_of_options() -> None:
    newest = RELEASES["2.0.0"]["options"]
    ours = {o.name: o for o in known_options().values() if o.values and o.name in newest}
    assert {"merge-engine", "changelog-producer", "bucket-function.type"} <= set(ours)
    for name, option in ours.items():
        assert newest[name] is None or set(option.values) <= set(newest[name]), name
    assert {str(e) for e in MergeEngine} <= set(newest["merge-engine"])
    assert {str(p) for p in ChangelogProducer} <= set(newest["changelog-producer"])


@BY_RELEASE
def test_words_that_tables_of_a_release_may_have(release: str) -> None:
    ours = known_options()
    for name, words in RELEASES[release]["options"].items():
        if words is not None and name in ours and ours[name].values:
            assert set(words) <= set(ours[name].values), name
