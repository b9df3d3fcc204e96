"""`make compat`: which kinds of tables each peer reads and writes, and whether both sides then read the same rows.

The matrix is printed and written to docs/compatibility-matrix.md. Exit code 1 means that rows differ somewhere.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paimon_spark.api.row_changes import deletions
from paimon_spark.catalog.resolve import open_catalog
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.row_level import change_arrow
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
    Kind("pk_vectors", ("id",), options={"bucket": "2", "deletion-vectors.enabled": "true"}),
    Kind("pk_vectors_orc", ("id",), options={"bucket": "1", "deletion-vectors.enabled": "true", "file.format": "orc"}),
)
KINDS = (*tables.KINDS, *MERGED)
NO_DELETES = ("partial_update", "aggregation", "first_row")
HIDDEN = ("first_row", "pk_vectors", "pk_vectors_orc")
"""Kinds whose rows are invisible until a compaction, which pypaimon leaves to others."""
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


def fill(table: tables.Table, kind: Kind) -> None:
    """Write a history as this project does: rows, changes, deletes where the engine takes them, a compaction."""
    if kind in tables.KINDS:
        tables.fill(table, kind)
        return
    write_arrow(table, tables.arrow(table, [tables.row(i) for i in range(1, 41)]))
    write_arrow(table, tables.arrow(table, [tables.changed(i) for i in range(5, 15)]))
    if kind.name not in NO_DELETES:
        write_arrow(table, tables.arrow(table, [tables.row(i) for i in range(20, 25)], RowKind.DELETE))
    tables.compact(table)
    write_arrow(table, tables.arrow(table, [tables.changed(3), tables.row(22), tables.row(50)]))


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
        if wrote[kind.name] and kind.name in HIDDEN:
            tables.compact(_open(warehouse, kind))
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
    if kind.name not in NO_DELETES and kind.upserts:
        write_arrow(table, tables.arrow(table, [tables.row(63)], RowKind.DELETE))
    elif kind.name.startswith("append_marked"):
        change_arrow(table, deletions(plan_select(table, columns=(), predicate=Comparison("=", "id", 63))), "DELETE")
    tables.compact(_open(warehouse, kind))


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
        "*yes*: both sides read the same rows. *refused*: the peer does not do it; Java's writers of the test choose no dynamic",
        "buckets. Generated by `make compat`.",
        "",
        "| kind | " + " | ".join(f"{peer}: {d}" for peer in found for d in DIRECTIONS) + " |",
        "|---|" + "---|" * (len(found) * len(DIRECTIONS)),
    ]
    names = dict.fromkeys(k for by_kind in found.values() for k in by_kind)
    lines += [f"| {k} | " + " | ".join(o for by_kind in found.values() for o in by_kind[k]) + " |" for k in names]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print the matrix and write it to its page."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.compat", description=__doc__)
    parser.add_argument("--kind", action="append", choices=[k.name for k in KINDS], help="only this kind of table")
    given = parser.parse_args()
    chosen = [k for k in KINDS if not given.kind or k.name in given.kind]
    found = {}
    for peer in PEERS:
        with tempfile.TemporaryDirectory(prefix="compat-") as directory:
            found[peer.name] = matrix(peer, chosen, Path(directory))
    text = page(found)
    sys.stdout.write(text)
    if not given.kind:
        PAGE.write_text(text, encoding="utf-8")
    return int(any(o.startswith(DIFFERS) for by_kind in found.values() for cells in by_kind.values() for o in cells))


if __name__ == "__main__":
    sys.exit(main())
