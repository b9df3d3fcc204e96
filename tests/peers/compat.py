"""`make compat`: which kinds of tables each peer reads and writes, and whether both sides then read the same rows.

The matrix is printed and written to docs/compatibility-matrix.md. `make compat PEER_JAR=…` adds the release in a jar.
Exit code 1 means that rows differ somewhere.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paimon_spark.api.row_changes import deletions
from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.engine.compaction.compact import Strategy
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.redistribution.postpone_compact import execute_postponed, plan_postponed
from paimon_spark.engine.row_level import change_arrow
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.engine.select import plan_select
from paimon_spark.errors import PaimonError
from paimon_spark.spec.kinds import RowKind
from paimon_spark.spec.predicate import Comparison
from tests.peers import tables
from tests.peers.java_peer import RELEASES, try_steps
from tests.peers.tables import Kind

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/compatibility-matrix.md"
PYPAIMON = ROOT / ".venv-peers/bin/python"
SUM = {"merge-engine": "aggregation", "fields.big.aggregate-function": "sum", "fields.day.aggregate-function": "max"}
LOOKUP = {"changelog-producer": "lookup"}
FULL = {"changelog-producer": "full-compaction"}
VECTORS = {"deletion-vectors.enabled": "true"}
MARKED = {**VECTORS, "deletion-vectors.mark-deletes": "true"}
INDEXES = {
    "file-index.bloom-filter.columns": "name",
    "file-index.bitmap.columns": "flag",
    "file-index.bsi.columns": "big",
    "file-index.range-bitmap.columns": "day",
    "file-index.in-manifest-threshold": "1 kb",
}
EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
GROUPS = {
    "merge-engine": "partial-update",
    "fields.micros.sequence-group": "name,flag,tiny",
    "fields.day.sequence-group": "big,bytes",
}
MERGED = (
    Kind("pk_avro", ("id",), options={"bucket": "2", "file.format": "avro"}),
    Kind("pk_mod", ("id",), options={"bucket": "3", "bucket-function.type": "mod"}),
    Kind("partial_update", ("id",), options={"bucket": "2", **GROUPS}),
    Kind("aggregation", ("id",), options={"bucket": "2", **SUM}),
    Kind("first_row", ("id",), options={"bucket": "2", "merge-engine": "first-row"}),
    Kind("changelog_input", ("id",), options={"bucket": "2", "changelog-producer": "input"}),
    Kind("changelog_lookup", ("id",), options={"bucket": "2", "changelog-producer": "lookup"}),
    Kind("changelog_full", ("id",), options={"bucket": "2", "changelog-producer": "full-compaction"}),
    Kind("pk_vectors", ("id",), options={"bucket": "2", **VECTORS}),
    Kind("pk_vectors_orc", ("id",), options={"bucket": "1", "file.format": "orc", **VECTORS}),
    Kind("pk_vectors_lookup", ("part", "id"), ("part",), {"bucket": "1", **VECTORS, **LOOKUP}),
    Kind("pk_vectors_marked", ("id",), options={"bucket": "2", **MARKED}),
    Kind("pk_postponed", ("id",), options={"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}),
    Kind("pk_moving", ("id",), ("part",)),
    Kind("partial_update_dynamic", ("id",), options=GROUPS),
    Kind("partial_update_lookup", ("part", "id"), ("part",), {"bucket": "1", **GROUPS, **LOOKUP}),
    Kind("partial_update_vectors", ("id",), options={"bucket": "2", **GROUPS, **MARKED}),
    Kind("aggregation_dynamic", ("id",), options=SUM),
    Kind("aggregation_full", ("part", "id"), ("part",), {"bucket": "1", **SUM, **FULL}),
    Kind("aggregation_vectors_lookup", ("part", "id"), ("part",), {"bucket": "1", **SUM, **MARKED, **LOOKUP}),
    Kind("aggregation_marked", ("id",), options={**SUM, **MARKED}),
    Kind("first_row_lookup", ("part", "id"), ("part",), {"bucket": "1", "merge-engine": "first-row", **LOOKUP}),
    Kind("changelog_input_dynamic", ("id",), options={"changelog-producer": "input"}),
    Kind("pk_indexed", ("id",), options={"bucket": "2", **INDEXES}),
    Kind("append_indexed", options={"file.format": "orc", **INDEXES}),
    Kind("append_evolving", options=EVOLVING),
    Kind("append_blobs", options=EVOLVING, blobs=("bytes",)),
)
KINDS = (*tables.KINDS, *MERGED)
NO_DELETES = ("partial_update", "aggregation", "first_row", "append")
"""How the names of kinds begin whose merge engines, or bucket modes, take no deletes."""
HIDDEN = (
    "first_row",
    "pk_vectors",
    "pk_postponed",
    "partial_update_vectors",
    "aggregation_vectors",
    "aggregation_marked",
)
"""How the names of kinds begin whose rows are invisible until a compaction, which pypaimon leaves to others."""
UNCOMPACTED = ("append_evolving", "append_blobs")
"""Kinds that no compaction takes."""
DIRECTIONS = ("read what is written here", "write what is read here", "in turn")
YES, DIFFERS, REFUSED = "yes", "differs", "refused"


@dataclass(frozen=True, slots=True)
class Peer:
    """Another implementation: runs steps over a warehouse, one answer each."""

    name: str
    run: Callable[[Path, Sequence[Mapping[str, Any]]], list[dict[str, Any]]]

    def try_each(self, warehouse: Path, steps: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Run all steps; if the process dies, each one in a process of its own."""
        try:
            return self.run(warehouse, steps)
        except RuntimeError:
            return [self._alone(warehouse, step) for step in steps]

    def _alone(self, warehouse: Path, step: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self.run(warehouse, [step])[0]
        except RuntimeError as e:
            return {"error": str(e)}


def _pypaimon(warehouse: Path, steps: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [str(PYPAIMON), str(Path(__file__).with_name("pypaimon_peer.py")), str(warehouse)],
        input="\n".join(json.dumps(s) for s in steps),
        capture_output=True,
        text=True,
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(answers) != len(steps):
        raise RuntimeError(done.stderr[-500:])
    return answers


PEERS = (
    Peer("pypaimon 2.1", _pypaimon),
    *(Peer(f"Java {r}", lambda w, s, r=r: try_steps(w, s, r)) for r in RELEASES),  # type: ignore[misc]
)


def _release_of(jar: str) -> Iterator[Peer]:
    """Yield the peer that a jar holds, named by the release in the name of its file."""
    if jar:
        release = Path(jar).stem.rpartition("-")[2]
        yield Peer(f"Java {release}", lambda w, s: try_steps(w, s, jar=Path(jar)))


def fill(table: tables.Table, kind: Kind) -> None:
    """Write a history as this project does: rows, changes, deletes where the engine takes them, a compaction."""
    if kind in tables.KINDS:
        tables.fill(table, kind)
        return
    write_arrow(table, tables.arrow(table, [tables.row(i) for i in range(1, 41)]))
    write_arrow(table, tables.arrow(table, [tables.changed(i) for i in range(5, 15)]))
    if not kind.name.startswith(NO_DELETES):
        write_arrow(table, tables.arrow(table, [tables.row(i) for i in range(20, 25)], RowKind.DELETE))
    _compact(table, kind)
    write_arrow(table, tables.arrow(table, [tables.changed(3), tables.row(22), tables.row(50)]))


def _compact(table: tables.Table, kind: Kind) -> None:
    if kind.name == "pk_postponed":
        execute_postponed(plan_postponed(table, strategy=Strategy.FULL), None, LocalRunner())
    elif kind.name not in UNCOMPACTED:
        tables.compact(table)


def matrix(peer: Peer, kinds: Sequence[Kind], warehouse: Path) -> dict[str, tuple[str, str, str]]:
    """Return the outcome of each direction by kind."""
    reads = _read_here_written(peer, kinds, warehouse / "there_reads")
    writes = _written_there(peer, kinds, warehouse / "there_writes", filled=False)
    in_turn = _written_there(peer, kinds, warehouse / "in_turn", filled=True)
    return {k.name: (reads[k.name], writes[k.name], in_turn[k.name]) for k in kinds}


def _read_here_written(peer: Peer, kinds: Sequence[Kind], warehouse: Path) -> dict[str, str]:
    for kind in kinds:
        fill(tables.create(warehouse, kind), kind)
    return _agreement(peer, kinds, warehouse)


def _written_there(peer: Peer, kinds: Sequence[Kind], warehouse: Path, *, filled: bool) -> dict[str, str]:
    """Let the peer write into tables that are empty, or were filled here; then change them here once more."""
    for kind in kinds:
        table = tables.create(warehouse, kind)
        if filled:
            fill(table, kind)
    rows = [tables.changed(2), tables.row(60), tables.row(63)]
    text = [[tables.plain(v) for v in r] for r in rows]
    steps = [{"do": "write", "table": f"{tables.DATABASE}.{k.name}", "rows": text} for k in kinds]
    answers = peer.try_each(warehouse, steps)
    wrote = {k.name: "error" not in a for k, a in zip(kinds, answers, strict=True)}
    for kind in kinds:
        if wrote[kind.name] and kind.name.startswith(HIDDEN):
            _compact(_open(warehouse, kind), kind)
    outcome = dict.fromkeys(wrote, REFUSED)
    agreed = _agreement(peer, [k for k in kinds if wrote[k.name]], warehouse)
    outcome |= agreed
    if not filled:
        return outcome
    going_on = [k for k in kinds if agreed.get(k.name) == YES]
    for kind in going_on:
        _change_here(warehouse, kind)
    return outcome | _agreement(peer, going_on, warehouse)


def _change_here(warehouse: Path, kind: Kind) -> None:
    table = _open(warehouse, kind)
    write_arrow(table, tables.arrow(table, [tables.changed(60), tables.row(70)]))
    if kind.upserts and not kind.name.startswith(NO_DELETES):
        write_arrow(table, tables.arrow(table, [tables.row(63)], RowKind.DELETE))
    elif kind.name.startswith("append_marked"):
        change_arrow(table, deletions(plan_select(table, columns=(), predicate=Comparison("=", "id", 63))), "DELETE")
    _compact(_open(warehouse, kind), kind)


def _agreement(peer: Peer, kinds: Sequence[Kind], warehouse: Path) -> dict[str, str]:
    steps = [{"do": "read", "table": f"{tables.DATABASE}.{k.name}"} for k in kinds]
    answers = peer.try_each(warehouse, steps) if steps else []
    return {k.name: _compared(warehouse, k, a) for k, a in zip(kinds, answers, strict=True)}


def _compared(warehouse: Path, kind: Kind, answer: Mapping[str, Any]) -> str:
    try:
        here = tables.rows_of(_open(warehouse, kind))
    except PaimonError as e:
        return f"{DIFFERS}: {e}"
    if "error" in answer:
        return REFUSED
    return YES if here and tables.comparable(answer["rows"]) == here else DIFFERS


def _open(warehouse: Path, kind: Kind) -> tables.Table:
    return open_catalog({"warehouse": str(warehouse)}).load_table(tables.Identifier(tables.DATABASE, kind.name))


def page(found: Mapping[str, Mapping[str, tuple[str, str, str]]]) -> str:
    """Return the matrix as a page."""
    lines = [
        "# Compatibility matrix",
        "",
        "Each kind of table is written here and read by the peer; written by the peer and read here; and changed by both in turn.",
        "*yes*: both sides read the same rows. *refused*: the peer refuses it, or its reading API lacks it. Java's writers of the",
        "test choose no dynamic buckets; pypaimon has no partial updates; 0.9.0 has no postponed buckets, BLOBs or newer file indexes.",
        "Generated by `make compat PEER_JAR=…` with the jar of release 2.0.0. [Below](#kinds-of-tables) is what the kinds are.",
        "",
        "| kind | " + " | ".join(f"{peer}: {d}" for peer in found for d in DIRECTIONS) + " |",
        "|---|" + "---|" * (len(found) * len(DIRECTIONS)),
    ]
    names = dict.fromkeys(k for by_kind in found.values() for k in by_kind)
    lines += [f"| {k} | " + " | ".join(o for by_kind in found.values() for o in by_kind[k]) + " |" for k in names]
    return "\n".join([*lines, *_definitions(names)]) + "\n"


def _definitions(names: Collection[str]) -> list[str]:
    rows = [
        f"| {k.name} | {', '.join(k.keys)} | {', '.join(k.partitions)} | "
        + " ".join(f"`{name}={value}`" for name, value in k.options.items())
        + " |"
        for k in KINDS
        if k.name in names
    ]
    return ["", "## Kinds of tables", "", "| kind | primary key | partitions | options |", "|---|---|---|---|", *rows]


def main() -> int:
    """Print the matrix and write it to its page."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.compat", description=__doc__)
    parser.add_argument("--kind", action="append", choices=[k.name for k in KINDS], help="only this kind of table")
    parser.add_argument("--jar", default="", help="a jar of another release of Paimon")
    given = parser.parse_args()
    chosen = [k for k in KINDS if not given.kind or k.name in given.kind]
    found = {}
    for peer in (PEERS[0], *_release_of(given.jar), *PEERS[1:]):
        with tempfile.TemporaryDirectory(prefix="compat-") as directory:
            found[peer.name] = matrix(peer, chosen, Path(directory))
    text = page(found)
    sys.stdout.write(text)
    if not given.kind:
        PAGE.write_text(text, encoding="utf-8")
    return int(any(o.startswith(DIFFERS) for by_kind in found.values() for cells in by_kind.values() for o in cells))


if __name__ == "__main__":
    sys.exit(main())
