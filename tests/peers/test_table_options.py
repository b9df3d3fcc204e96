"""Options of tables on which Paimon 2.0 and this project write, tag and expire in turn. Needs its jar in `PEER_JAR`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.api.row_changes import deletions
from paimon_spark.core.metadata.refs import RefStore
from paimon_spark.core.scan.scan import scan
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import execute_compaction, plan_compaction
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.row_level import change_arrow, with_all_rows
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import plan_select
from paimon_spark.errors import ConflictError
from paimon_spark.format.avro.container import AvroContainer
from paimon_spark.spec.evolution import new_schema
from paimon_spark.spec.identifier import Identifier
from paimon_spark.spec.predicate import Comparison
from paimon_spark.spec.types import DataField, parse_atomic
from paimon_spark.testing.tables import read_arrow
from tests.column_changes import update
from tests.peers.trial_peer import PeerError, TrialPeer
from tests.small_tables import frame
from tests.unit.procedures.warehouse import Warehouse

JAR = os.environ.get("PEER_JAR", "")
pytestmark = [
    pytest.mark.peer,
    pytest.mark.slow,
    pytest.mark.skipif(not JAR, reason="PEER_JAR names no jar of Paimon 2.0"),
]
NAME = "db.t"


class Duo:
    """One warehouse of both sides."""

    def __init__(self, place: Path, peer: TrialPeer) -> None:
        self.lake = Warehouse(place)
        self._peer = peer

    @property
    def table(self) -> Table:
        return self.lake.catalog.load_table(Identifier.parse(NAME))

    def ask(self, do: str, **step: Any) -> Any:
        return self._peer.ask(do, NAME, **step)

    def take_turns(self, *keys: int) -> None:
        """Insert rows here and there."""
        for key in keys:
            if key % 2:
                self.lake.insert(NAME, (key, "a"), (key, "b"))
            else:
                self.ask("write", rows=[["+I", key, "a"], ["+I", key, "b"]])

    def check(self) -> None:
        """Check that both sides read the same rows."""
        found = sorted(tuple(r) for r in self.ask("read")["rows"])
        assert found == self.lake.rows(NAME)

    def directories(self) -> set[str]:
        """Return the directories of partitions and buckets."""
        root = Path(self.table.path)
        return {
            str(p.relative_to(root)) for p in root.rglob("*") if p.is_dir() and str(p.relative_to(root))[:2] == "p="
        }


@pytest.fixture
def duo(tmp_path: Path) -> Iterator[Duo]:
    place = tmp_path / "wh"
    place.mkdir()
    with TrialPeer(Path(JAR), place) as peer:
        yield Duo(place, peer)


def test_both_sides_remove_empty_directories(duo: Duo) -> None:
    duo.lake.create(NAME, snapshot__clean_empty_directories="true")
    for here in (True, False):
        duo.take_turns(1, 2)
        assert duo.directories() == {"p=a", "p=a/bucket-0", "p=b", "p=b/bucket-0"}
        if here:
            duo.ask("truncate", partitions=[{"p": "a"}])
            duo.lake.call("expire_snapshots(table => 't', retain_max => 1, older_than => '2100-01-01')")
        else:
            duo.lake.call("drop_partition('t', 'p=a')")
            duo.ask("expire", retain=1)
        assert duo.directories() == {"p=b", "p=b/bucket-0"}
        duo.check()


def test_both_sides_write_success_files_of_tags(duo: Duo) -> None:
    duo.lake.create(NAME, tag__create_success_file="true")
    duo.take_turns(1, 2)
    duo.lake.call("create_tag('t', 'here', 1)")
    duo.ask("createTag", name="there", snapshot=2)
    directory = Path(duo.table.path, "tag", "tag-success-file")
    files = {p.name: json.loads(p.read_text()) for p in directory.iterdir() if not p.name.startswith(".")}
    assert files.keys() == {"here_SUCCESS", "there_SUCCESS"}
    assert {tuple(f) for f in files.values()} == {("creationTime", "modificationTime")}
    assert RefStore.of(duo.table).tag_names() == ["here", "there"]
    duo.take_turns(3)
    duo.ask("expire", retain=1)
    duo.ask("deleteTag", name="here")
    duo.lake.call("delete_tag('t', 'there')")
    assert [p.name for p in directory.iterdir() if not p.name.startswith(".")] == []
    duo.ask("removeOrphans")
    duo.check()


def test_both_sides_refuse_commits_after_changes_of_others(duo: Duo) -> None:
    key = "commit.strict-mode.last-safe-snapshot"
    duo.lake.create(NAME, **{key.replace(".", "__").replace("-", "_"): "2", "deletion_vectors__enabled": "true"})
    duo.take_turns(1, 2)
    duo.ask("truncate", partitions=[{"p": "a"}])
    for here in (True, False):
        if here:
            duo.lake.insert(NAME, (3, "b"))
            with pytest.raises(ConflictError, match="p=a in snapshot 3"):
                duo.lake.insert(NAME, (3, "a"))
        else:
            duo.ask("write", rows=[["+I", 4, "b"]])
            with pytest.raises(PeerError, match=r"Giving up committing as commit\.strict-mode"):
                duo.ask("write", rows=[["+I", 4, "a"]])
    duo.check()
    plain = duo.table.with_options({key: "-1"})
    for number in (5, 6):
        write_arrow(plain, frame(plain, [(number, "a")]))
    duo.check()


@pytest.mark.parametrize("write_only", ["true", "false"])
def test_both_sides_continue_the_sequence_numbers_of_snapshots(duo: Duo, write_only: str) -> None:
    duo.lake.create(NAME, write__sequence_number_init_mode="snapshot", write_only=write_only)
    for number in range(1, 7):
        day = "ab"[number % 3 == 0]
        if number % 2:
            duo.lake.insert(NAME, (1, day), (number, day))
        else:
            duo.ask("write", rows=[["+I", 1, day], ["+I", number, day]])
        latest = duo.table.snapshots.latest()
        assert latest is not None
        files = scan(duo.table, latest).entries
        recorded = int((latest.properties or {})["sequence.generation.max-sequence-number"])
        assert recorded == max(e.file.max_sequence_number for e in files)
        assert recorded >= 2 * number - 2
        duo.check()
    duo.lake.call("compact('t')")
    duo.ask("write", rows=[["+I", 9, "b"]])
    duo.ask("compactTable", full=True)
    duo.lake.insert(NAME, (9, "a"))
    latest = duo.table.snapshots.latest()
    assert latest is not None
    assert int((latest.properties or {})["sequence.generation.max-sequence-number"]) == recorded + 2
    duo.check()


def test_paimon_goes_on_after_rows_were_renumbered(duo: Duo) -> None:
    evolving = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"}
    columns = {"id": "INT", "image": "BLOB", "name": "STRING"}
    fields = [DataField(i, n, parse_atomic(t)) for i, (n, t) in enumerate(columns.items())]
    duo.lake.catalog.create_table(Identifier.parse(NAME), new_schema(fields, options=evolving))

    def delete(*keys: int) -> None:
        for key in keys:
            plan = plan_select(with_all_rows(duo.table), columns=(), predicate=Comparison("=", "id", key))
            change_arrow(duo.table, deletions(plan), "DELETE")

    def same() -> list[list[Any]]:
        own = read_arrow(duo.table).to_pylist()
        plain = [[v.hex() if isinstance(v, bytes) else v for v in r.values()] for r in own]
        assert sorted(duo.ask("read")["rows"], key=str) == sorted(plain, key=str)
        return sorted(plain)

    write_arrow(duo.table, frame(duo.table, [(i, b"%d" % i, f"n{i}") for i in range(5)]))
    duo.ask("write", rows=[["+I", 10, "0a", "x"], ["+I", 11, None, "y"]])
    update(duo.table, lambda r: r["id"] == 2, name="changed")
    delete(1, 10)
    before = same()
    renumbering = duo.table.with_options({"data-evolution.compaction.rewrite-row-ids": "true"})
    execute_compaction(plan_compaction(renumbering), LocalRunner())
    assert same() == before
    files = [e.file for e in scan(duo.table, duo.table.snapshots.latest()).entries]
    assert [(f.first_row_id, f.row_count) for f in files] == [(7, 5), (7, 5)]
    duo.ask("write", rows=[["+I", 20, "0b", "z"]])
    update(duo.table, lambda r: r["id"] == 20, name="also")
    delete(0)
    assert len(same()) == len(before)
    execute_compaction(plan_compaction(renumbering), LocalRunner())
    duo.ask("expire", retain=1)
    assert len(same()) == len(before)


@pytest.mark.parametrize("codec", ["zstd", "snappy", "deflate", "bzip2", "xz", "null"])
def test_both_sides_write_manifests_with_a_codec(duo: Duo, codec: str) -> None:
    options = {"manifest__compression": codec, "manifest__merge_min_count": "3", "bucket": "-1"}
    duo.lake.create(NAME, deletion_vectors__enabled="true", **options)
    duo.ask("write", rows=[["+I", 0, "a"], ["+I", 0, "b"]])
    duo.take_turns(1, 2, 3, 4, 5, 6, 7)
    duo.lake.call("compact('t')")
    duo.check()
    duo.ask("compactTable", full=True)
    duo.take_turns(8, 9)
    duo.ask("expire", retain=2)
    duo.check()
    names = [p for p in Path(duo.table.path, "manifest").iterdir() if not p.name.startswith(".")]
    found = {AvroContainer(p.read_bytes(), max_block=1 << 24).codec for p in names}
    assert found == {"zstandard" if codec == "zstd" else codec}
    assert any(p.name.startswith("index-manifest-") for p in names)
