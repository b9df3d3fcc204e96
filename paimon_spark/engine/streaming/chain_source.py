"""Streaming reads of chain tables: the newest rows of both branches, then the changes of the delta branch.

The state of a chain is the newest partition of the snapshot branch, and the partitions of the delta branch after it.
Later partitions of the snapshot branch are merged from deltas that the stream has delivered.

(docs/spec/semantics.md, Y9)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo

from paimon_spark.core.metadata.scan_modes import scan_start
from paimon_spark.core.metadata_io import translate_io_errors
from paimon_spark.core.scan.chain_splits import BranchState, Selection, chain_splits
from paimon_spark.core.scan.pruning import matching_partitions
from paimon_spark.core.scan.splits import Split
from paimon_spark.core.table import Table
from paimon_spark.engine.chain_read import ChainTable, chain_deltas, is_chain_read, open_chain
from paimon_spark.engine.streaming.offset import StreamOffset
from paimon_spark.engine.streaming.source import SMALLEST, StreamSource, following, planned_once
from paimon_spark.errors import ConflictError, ErrorKind, NotFoundError, UnsupportedError
from paimon_spark.spec.chain_tables import ChainOrder
from paimon_spark.spec.predicate import Predicate, project
from paimon_spark.spec.privileges import Privilege
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.support import Scope, scope_of

_NO_DELTAS = 0
_ATTEMPTS = 10
_FULL_MODES = ("default", "latest-full", "full")


def open_source(table: Table, *, keep_kinds: bool = False) -> StreamSource:
    """Return a table as a stream.

    Raises:
        NotFoundError: the table is a chain table without its delta branch.
        UsageError: the delta branch of the chain table has other columns, or is not that of a chain table.
    """
    if not is_chain_read(table):
        return StreamSource(table, keep_kinds)
    deltas = chain_deltas(table)
    given = {k: v for k, v in table.options.values.items() if scope_of(k) is Scope.STREAM}
    return ChainStreamSource(deltas.with_options(given) if given else deltas, keep_kinds, main=table)


@dataclass(frozen=True)
class ChainStreamSource(StreamSource):
    """A chain table as a stream.

    Args:
        table: the delta branch, with the options of the stream.
        main: the chain table itself.
    """

    main: Table = field(kw_only=True)

    def check(self) -> None:
        """Check that the table can be read as a stream.

        Raises:
            NotFoundError: a branch does not exist.
            UsageError: the branches cannot be read together.
            UnsupportedError: a consumer is named, or another start than the newest rows.
            OptionError: an option is invalid.
            AccessDeniedError: the user does not have the privilege SELECT.
        """
        self.main.require(Privilege.SELECT)
        options = self.main.options
        mode = options.word("scan.mode").lower()
        start = scan_start(options).option
        named = "consumer-id" if options.get("consumer-id") else start
        if named is not None or mode not in _FULL_MODES:
            key = named or "scan.mode"
            raise UnsupportedError(
                f"The option '{key}' = '{options.get(key)}' does not apply to a stream of the chain table "
                f"{self.main.name}, which begins with the newest rows of both branches.",
                hint="Leave it out, or read one branch, such as `t$branch_delta`.",
            )
        open_chain(self.main)
        super().check()

    @translate_io_errors()
    def first_offset(self, local_zone: tzinfo | None = None) -> StreamOffset:
        """Return the position before the newest rows of both branches.

        Raises:
            ConflictError: the snapshot branch changes all the time.
        """
        del local_zone
        chain = open_chain(self.main)
        full = chain.snapshots.snapshot
        for _ in range(_ATTEMPTS):
            deltas, before = self.table.snapshots.latest(), full
            full = chain.snapshots.table.snapshots.latest()
            if _id(before) == _id(full):
                return StreamOffset(
                    snapshot_id=_NO_DELTAS if deltas is None else deltas.id,
                    scan_snapshot=True,
                    time_millis=None if deltas is None else deltas.time_millis,
                    full_snapshot_id=_id(full),
                    full_millis=None if full is None else full.time_millis,
                )
        raise ConflictError(
            f"The stream of table {self.main.name} cannot begin: its branch '{chain.snapshots.table.branch}' has got a "
            f"new snapshot {_ATTEMPTS} times since then.",
            hint="Start the query again.",
        )

    def _state(self, start: StreamOffset) -> tuple[Sequence[Split], StreamOffset]:
        self.main.require(Privilege.SELECT)
        deltas = None if start.snapshot_id == _NO_DELTAS else self._snapshot_or_changelog(start.snapshot_id)
        options = {}
        if self.table.options.deletion_vectors_enabled:
            options["deletion-vectors.merge-on-read"] = "true"  # as in `_state_table`
        chain = open_chain(self.main.with_options(options) if options else self.main)
        full = self._full_snapshot(chain, start)
        merged = self.main.options.flag("chain-table.streaming.merge-snapshot")
        manifests = [None if s is None else s.delta_manifest_list for s in (deltas, full)]
        key = (self.table.path, self.table.schema.id, *manifests, merged, self._buckets, self.keep_kinds)

        def plan() -> Iterable[Split]:
            states = BranchState(chain.snapshots.table, full), BranchState(chain.deltas.table, deltas)
            order = ChainOrder.of(chain.snapshots.table.schema, chain.snapshots.table.options)
            chains = list(order.newest(states[0].partitions(), states[1].partitions(), merged=merged))
            reader, wanted = chain.reader.with_options(SMALLEST), Selection(buckets=self._buckets)
            return chain_splits(reader, *states, chains, wanted, always_merge=self.keep_kinds)[0]

        end = (
            StreamOffset(snapshot_id=_NO_DELTAS + 1) if deltas is None else following(deltas, self._changelogs.producer)
        )
        return planned_once(key, plan), end

    def _full_snapshot(self, chain: ChainTable, start: StreamOffset) -> Snapshot | None:
        wanted = start.full_snapshot_id
        if wanted is None:
            return None
        branch = chain.snapshots.table
        found = branch.snapshots.find(wanted)
        if found is None or start.full_millis not in (None, found.time_millis):
            what = "has expired before it was read" if found is None else "is another one after a rollback"
            raise NotFoundError(
                f"The stream of table {self.main.name} cannot go on: snapshot {wanted} of its branch "
                f"'{branch.branch}' {what}.",
                hint="Start with a new checkpoint, which reads the table again.",
                kind=ErrorKind.SNAPSHOT_NOT_FOUND,
            )
        return found

    def _state_with(self, start: StreamOffset, splits: list[Split], predicate: Predicate) -> list[Split]:
        del start
        table = self.table
        condition = project(predicate, table.schema.partition_keys)
        kept = matching_partitions(table, {s.partition for s in splits}, condition)
        return [s for s in splits if s.partition in kept]


def _id(snapshot: Snapshot | None) -> int | None:
    return None if snapshot is None else snapshot.id
