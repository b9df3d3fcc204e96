"""Sorting jobs of compactions, run in this process."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from paimon_spark.core.commit_message import CommitMessage
from paimon_spark.core.read.split_reader import read_split
from paimon_spark.core.write.table_writer import TableWriter
from paimon_spark.engine.redistribution.sort_compact import SortPlan


class LocalSorter:
    """Sorts by `first` and the columns of the plan, and lets something else happen before the commit."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None, first: tuple[str, ...] = ()) -> None:
        self.meanwhile, self.first = meanwhile, first
        self.plans: list[SortPlan] = []

    def rewrite_sorted(self, plan: SortPlan) -> list[CommitMessage]:
        self.plans.append(plan)
        parts = [b for s in plan.splits for b in read_split(plan.table, s)]
        by = (*self.first, *plan.columns)
        whole = pa.Table.from_batches(parts).sort_by([(c, "ascending") for c in by])
        bounds = np.linspace(0, whole.num_rows, plan.ranges + 1).astype(int)
        messages: list[CommitMessage] = []
        for start, end in itertools.pairwise(bounds):
            with TableWriter(plan.table, plan.write.info, fill_defaults=False) as writer:
                writer.write(whole.slice(start, end - start))
                messages += writer.finish()
        self.meanwhile()
        return messages
