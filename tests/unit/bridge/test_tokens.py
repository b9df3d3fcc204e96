"""The schema and the options with which a statement sees a table that was changed after it was analysed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from paimon_spark.bridge.tables import TableToken, at_token
from paimon_spark.core.table import Table
from paimon_spark.errors import ConflictError
from paimon_spark.spec.support import Scope
from paimon_spark.testing.tables import new_table

OLD = {"bucket": "1", "merge-engine": "first-row", "changelog-producer": "lookup"}


def changed(options: Mapping[str, str]) -> Table:
    """Return a table with other options at a second schema."""
    table = new_table({"k": "INT"}, primary_key=["k"], options=OLD)
    schema = replace(table.schema, id=1, options=dict(options))
    assert table.schema_store.try_create(schema)
    return Table.of(table.identifier, table.path, schema, table.file_io)


def token(snapshot: int | None = None) -> TableToken:
    return TableToken("db", "t", 0, snapshot=snapshot)


def test_options_that_were_altered_apply_to_the_newest_rows() -> None:
    newest = changed({**OLD, "changelog-producer": "none", "bucket": "2"})
    for use in (Scope.READ, Scope.STREAM, Scope.WRITE):
        found = at_token(newest, token(), use)
        assert found.schema.id == 0
        assert found.options.values == {**OLD, "changelog-producer": "none", "bucket": "2"}


def test_a_snapshot_is_read_by_its_own_options() -> None:
    newest = changed({**OLD, "changelog-producer": "none", "bucket": "2", "source.split.target-size": "1 mb"})
    asked = newest.with_options({"scan.mode": "latest-full"})
    found = at_token(asked, token(snapshot=1)).options.values
    assert found == {**OLD, "source.split.target-size": "1 mb", "scan.mode": "latest-full"}


def test_a_statement_outlives_no_replacement_if_it_writes() -> None:
    newest = changed({"bucket": "1"})
    assert at_token(newest, token()).options.values == OLD
    for late, use in ((token(), Scope.WRITE), (replace(token(), writes=True), Scope.READ)):
        with pytest.raises(ConflictError, match="another 'merge-engine'"):
            at_token(newest, late, use)
