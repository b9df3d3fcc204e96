"""history, diff, why and config."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from paimon_spark.calls.context import CallContext
from paimon_spark.cli.result_formats import Answer, printed
from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.scan.scan import live_in_partitions
from paimon_spark.errors import ArgumentError, NotFoundError
from paimon_spark.spec.evolution import AddColumn, RenameColumn, SetOption
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.rows import Timestamp
from paimon_spark.spec.secrets import HIDDEN_KEYS
from paimon_spark.spec.types import parse_atomic
from paimon_spark.testing.invariants import needed
from tests.unit.procedures.calling import NOW, REGISTRY, Lake

KEEP = {"write_only": "true", "snapshot__num_retained__min": "100", "snapshot__num_retained__max": "100"}


@pytest.fixture
def lake() -> Lake:
    lake = Lake({"p": "INT", "k": "INT"}, primary_key=["p", "k"], partition=["p"], bucket="1", **KEEP)
    lake.insert((1, 1), (1, 2), (2, 1))
    lake.insert((1, 3))
    lake.call("create_tag('t', 'two')")
    lake.call("compact('t')")
    return lake


def files(lake: Lake) -> list[str]:
    live = live_in_partitions(ManifestStore(lake.table), lake.table.snapshots.latest(), None)
    return [lake.table.paths.data_file(e.partition, e.bucket, e.file) for e in live]


def facts(lake: Lake, file: str) -> list[tuple[Any, ...]]:
    return [(r["fact"], r["reference"], r["snapshot_id"]) for r in lake.call(f"why('t', '{file}')")]


def test_history(lake: Lake) -> None:
    lake.call("create_branch('t', 'dev')")
    rows = lake.call("history('t')")
    assert [r["time"] for r in rows] == sorted(r["time"] for r in rows)
    events = {(r["branch"], r["event"], r["snapshot_id"], r["tag"]): r for r in rows}
    assert set(events) == {
        ("main", "snapshot", 1, None),
        ("main", "snapshot", 2, None),
        ("main", "tag", 2, "two"),
        ("main", "snapshot", 3, None),
        ("dev", "branch", None, None),
    }
    first, merged = events["main", "snapshot", 1, None], events["main", "snapshot", 3, None]
    assert (first["kind"], first["rows_added"], first["files_added"], first["total_rows"]) == ("APPEND", 3, 2, 3)
    assert (merged["kind"], merged["rows_added"], merged["rows_removed"]) == ("COMPACT", 4, 4)
    assert (merged["files_added"], merged["files_removed"]) == (2, 3)
    added = sum(len(lake.table.file_io.read(p)) for p in files(lake))
    assert merged["bytes_added"] == added
    assert lake.call("history(table => 't', limit => 1)") == rows[-1:]


def test_history_without_manifests(lake: Lake) -> None:
    snapshot = lake.table.snapshots.get(1)
    lake.table.file_io.delete(lake.table.paths.manifest(snapshot.delta_manifest_list))
    clear_cache()
    assert lake.call("history('t')")[0]["rows_added"] is None


def test_diff(lake: Lake) -> None:
    lake.alter_table(
        Identifier("db", "t"), [AddColumn(("v",), parse_atomic("INT")), SetOption("target-file-size", "1 mb")]
    )
    lake.alter_table(Identifier("db", "t"), [RenameColumn(("v",), "w")])
    lake.insert((3, 1, 1))
    rows = lake.call("diff('t', 'two')")
    plain = {(r["difference"], r["name"]): r for r in rows}
    assert (plain["rows", None]["before"], plain["rows", None]["after"], plain["rows", None]["rows"]) == ("4", "5", 1)
    assert {k: (r["files"], r["rows"]) for k, r in plain.items() if "files" in k[0]} == {
        ("files removed", "p=1"): (2, 3),
        ("files added", "p=1"): (1, 3),
        ("files added", "p=3"): (1, 1),
    }
    assert (plain["column", "w"]["before"], plain["column", "w"]["after"]) == (None, "w INT")
    assert plain["option", "target-file-size"]["after"] == "1 mb"
    assert plain["query", "the changed rows"]["after"].endswith("('db.t', 'two', '4')")


def test_diff_of_the_same_and_backwards(lake: Lake) -> None:
    assert [r["difference"] for r in lake.call("diff('t', 'two', '2')")] == ["rows", "query"]
    forth, back = lake.call("diff('t', '1', '3')"), lake.call("diff('t', '3', '1')")
    assert (forth[0]["rows"], back[0]["rows"]) == (1, -1)
    assert back[-1]["after"] == forth[-1]["after"]
    later = lake.call("diff(table => 't', from_version => '1', to => '2099-01-01 00:00:00')")
    assert [list(r.values())[:6] for r in later] == [list(r.values())[:6] for r in forth]


def test_why_a_data_file(lake: Lake) -> None:
    replaced = (p for p in needed(lake.table) - set(files(lake)) if p.endswith(".parquet"))
    old = min(replaced, key=lambda p: lake.table.file_io.status(p).mtime_ms)
    assert facts(lake, old) == [
        ("exists", None, None),
        ("added by", "snapshot 1", 1),
        ("removed by", "snapshot 3", 3),
        ("needed by", "snapshot 1", 1),
        ("needed by", "snapshot 2", 2),
        ("needed by", "tag 'two'", 2),
    ]
    lake.call("reset_consumer('t', 'slow', 2)")
    reasons = {r["reference"]: r["detail"] for r in lake.call(f"why('t', '{old.rpartition('/')[2]}')")}
    assert "'snapshot.num-retained.min' = 100" in reasons["snapshot 2"]
    lake.table = lake.table.with_options({"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    reasons = {r["reference"]: r["detail"] for r in lake.call(f"why('t', '{old}')") if r["fact"] == "needed by"}
    assert reasons["snapshot 1"].startswith("the snapshot may expire")
    assert reasons["snapshot 2"] == "consumer 'slow' has not read the snapshot"
    assert reasons["tag 'two'"].startswith("a tag keeps")
    (latest,) = (r for r in lake.call(f"why('t', '{files(lake)[0]}')") if r["fact"] == "needed by")
    assert latest["detail"] == "it is the latest snapshot"


def test_why_every_needed_file_is_needed(lake: Lake) -> None:
    for path in needed(lake.table):
        assert "needed by" in {f[0] for f in facts(lake, path)}, path


def test_why_an_index_beside_a_file() -> None:
    index = {"file_index__bloom_filter__columns": "k", "file_index__in_manifest_threshold": "1 b"}
    lake = Lake({"k": "INT"}, **KEEP, **index)
    lake.insert((1,))
    (path,) = (p for p in lake.state() if p.endswith(".index"))
    assert [f[0] for f in facts(lake, path)] == ["exists", "added by", "needed by"]


def test_why_orphans_and_others(lake: Lake) -> None:
    gone = files(lake)[0]
    lake.call("rollback_to('t', 2)")
    (exists, orphan) = lake.call(f"why('t', '{gone}')")
    assert (exists["fact"], orphan["fact"]) == ("exists", "orphan")
    assert orphan["time"] == exists["time"]
    assert facts(lake, "no-such-file") == [("missing", None, None)]
    assert facts(lake, "snapshot-1") == [("exists", None, None), ("is", "snapshot 1", 1)]
    assert facts(lake, "tag-two")[1:] == [("is", "tag 'two'", 2)]


class _Configured(Lake):
    options = {"warehouse": "/w", "s3.secret-key": "hidden"}  # noqa: RUF012

    def ctx(self) -> CallContext:
        return replace(super().ctx(), table_options=lambda i: {"target-file-size": "2 mb"} if i.table != "u" else {})


def test_config() -> None:
    lake = _Configured({"k": "INT"}, target_file_size="1 mb", merg_engin="x", sink__use_managed_memory_allocator="true")
    found = {r["key"]: r for r in lake.call("config('t')")}
    assert (found["target-file-size"]["value"], found["target-file-size"]["source"]) == ("2 mb", "session")
    assert (found["merg-engin"]["source"], found["merg-engin"]["applies_to"]) == ("table", None)
    assert (found["s3.secret-key"]["value"], found["s3.secret-key"]["source"]) == ("***", "catalog")
    assert (found["bucket"]["value"], found["bucket"]["source"]) == ("-1", "default")
    few = lake.call("config(table => 't', defaults => false)")
    assert {r["source"] for r in few} == {"session", "table", "catalog"}
    assert {r["key"] for r in lake.call("config(defaults => false)")} == {
        "target-file-size",
        "warehouse",
        "s3.secret-key",
    }


@pytest.mark.parametrize(
    ("call", "error", "part"),
    [
        ("diff('t', 'nope')", NotFoundError, "neither a tag nor a snapshot id"),
        ("diff('t', '1999-01-01')", NotFoundError, "no snapshot at or before"),
        ("diff('t', '2024-99-01')", ArgumentError, "'from'"),
        ("history('t', 0)", ArgumentError, "limit is 0"),
        ("why('t')", ArgumentError, "lacks the required argument file"),
    ],
)
def test_wrong_arguments(lake: Lake, call: str, error: type[Exception], part: str) -> None:
    with pytest.raises(error, match=part):
        lake.call(call)


def test_times_are_readable_on_the_command_line() -> None:
    found = printed(Answer([("time", "timestamp")], [(Timestamp(NOW),)]), "tsv")
    assert found[1][:4] in ("2099", "2100")
    assert REGISTRY.get("history").columns[0].type == "timestamp"


@pytest.mark.parametrize("name", ["schema-0", "LATEST", "consumer-c"])
def test_why_definitions(lake: Lake, name: str) -> None:
    lake.call("reset_consumer('t', 'c', 1)")
    assert [f[0] for f in facts(lake, name)] == ["exists", "is"]
    lake.call("reset_consumer('t', 'c')")


def test_why_a_file_in_the_trash() -> None:
    lake = Lake({"k": "INT"})
    lake.insert((1,))
    (name,) = (p.rpartition("/")[2] for p in lake.state() if p.endswith(".parquet"))
    lake.call("purge_files('t')")
    (row,) = lake.call(f"why('t', '{name}')")
    assert row["fact"] == "in the trash"
    lake.call(row["detail"].partition("; ")[2].removesuffix(" restores it"))
    assert facts(lake, name)[0][0] == "exists"


def test_why_with_an_unreadable_snapshot() -> None:
    lake = Lake({"k": "INT"})
    lake.insert((1,))
    lake.table.file_io.write(f"{lake.table.paths.manifest_dir}/stray", b"x")
    assert [f[0] for f in facts(lake, "stray")] == ["exists", "orphan"]
    lake.table.file_io.write(lake.table.paths.tag("bad"), b"{")
    assert [f[0] for f in facts(lake, "stray")] == ["exists", "unreadable"]


@pytest.mark.parametrize("name", ["snapshot/snapshot-2", "tag/tag-old", "changelog/changelog-1"])
def test_why_a_malformed_reference(name: str) -> None:
    lake = Lake({"k": "INT"})
    for i in range(2):
        lake.insert((i,))
    lake.call("create_tag('t', 'old', 1)")
    lake.call("create_branch('t', 'dev', 'old')")
    path = f"{lake.table.path}/{name}"
    lake.table.file_io.write(path, b"{")
    exists, unreadable, *others = lake.call(f"why('t', '{path}')")
    assert (exists["fact"], exists["detail"]) == ("exists", f"{path} (1 bytes)")
    assert unreadable["fact"] == "unreadable"
    assert path in unreadable["detail"]
    assert [f["fact"] for f in others] == (["exists", "is"] if "tag" in name else [])


@pytest.mark.parametrize(
    "key",
    ["fs.azure.account.key.x", "fs.azure.sas.c.a", "header.Authorization", "s3.access-key", "token", "s3.secret-key"],
)
def test_keys_of_secrets(key: str) -> None:
    assert re.search(HIDDEN_KEYS, key)
    assert not re.search(HIDDEN_KEYS, "sequence.field")
