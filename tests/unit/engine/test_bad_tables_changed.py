"""Writing to and maintaining damaged tables: a coded error, nothing new left behind, nothing of the table lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.core.manifest_cache import clear_cache
from paimon_spark.core.table import Table
from paimon_spark.engine.compaction.compact import execute_compaction, plan_compaction
from paimon_spark.engine.expiry.expire import ExpireConfig, execute_expire, plan_expire
from paimon_spark.engine.insert import write_arrow
from paimon_spark.engine.refs.tags import execute_tag, plan_create_tag
from paimon_spark.engine.rollback import execute_rollback, plan_rollback
from paimon_spark.engine.runner import LocalRunner
from paimon_spark.errors import EngineError, ErrorKind, PaimonError
from paimon_spark.format.arrow_types import to_arrow_schema
from paimon_spark.spec.identifier import Identifier
from paimon_spark.testing.tables import read_arrow
from tests.tables.plain import DATABASE, keys, rows_of, unpacked

SAMPLES = Path(__file__).parents[2] / "tables"
LATER = 4_102_444_800_000
Use = Callable[[Table], object]


def insert(table: Table) -> object:
    rows = [{"id": 100 + i, "v": "new"} for i in range(5)]
    return write_arrow(table, pa.Table.from_pylist(rows, schema=to_arrow_schema(table.schema.fields)))


def compact(table: Table) -> object:
    return execute_compaction(plan_compaction(table), LocalRunner())


def expire(table: Table) -> object:
    config = ExpireConfig(retain_max=1, retain_min=1, older_than_millis=LATER)
    return execute_expire(table, plan_expire(table, config, LATER))


def roll_back(table: Table) -> object:
    return execute_rollback(table, plan_rollback(table, snapshot_id=4))


def tag(table: Table) -> object:
    return execute_tag(table, plan_create_tag(table, "another", clock_millis=LATER))


def damage(path: Path, how: str) -> None:
    path.unlink()
    if how == "directory":
        path.mkdir()
    elif how == "garbage":
        path.write_bytes(b"\x93 garbage \x00" * 9)


CASES = [
    ("pk_compacted", "snapshot/snapshot-4", (compact, expire, tag, insert)),
    ("pk_compacted", "snapshot/snapshot-1", (expire,)),
    ("pk_compacted", "schema/schema-0", (insert, compact, expire, roll_back, tag)),
    ("pk_compacted", "tag/tag-before", (expire,)),
    ("pk_compacted", "base", (insert, compact, expire)),
    ("pk_dynamic", "index/index-*", (insert,)),
    ("pk_fixed", "bucket-0/data-*", (compact,)),
]


WAYS = [
    pytest.param(*case, how, id=f"{case[0]}-{case[1].split('/')[-1]}-{how}")
    for case in CASES
    for how in ("garbage", "directory", "missing")
    if how == "garbage"
    or (case[1] == "snapshot/snapshot-4" and how == "directory")
    or case[1] in ("base", "index/index-*", "bucket-0/data-*")
]
"""A snapshot, schema or tag whose file is missing, or is a directory, is none."""


@pytest.mark.parametrize(("name", "pattern", "uses", "how"), WAYS)
def test_nothing_is_changed(tmp_path: Path, name: str, pattern: str, uses: tuple[Use, ...], how: str) -> None:
    catalog = unpacked(SAMPLES / f"{name}.tar.gz", tmp_path / "warehouse")
    table = catalog.load_table(Identifier(DATABASE, name))
    before = keys(rows_of(read_arrow(table)))
    root = Path(table.path)
    shutil.copytree(root, tmp_path / "spare")
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    path = root / "manifest" / snapshot.base_manifest_list if pattern == "base" else sorted(root.glob(pattern))[0]
    damage(path, how)
    files = {p for p in root.rglob("*") if p.is_file()}
    for use in uses:
        clear_cache()
        with pytest.raises(PaimonError) as failed:
            use(catalog.load_table(Identifier(DATABASE, name)))
        assert failed.value.hint
        assert path.name in str(failed.value)
        assert {p for p in root.rglob("*") if p.is_file()} == files
    shutil.rmtree(root)
    shutil.copytree(tmp_path / "spare", root)
    clear_cache()
    assert keys(rows_of(read_arrow(table))) == before


def test_a_file_that_cannot_be_deleted_is_named(tmp_path: Path) -> None:
    catalog = unpacked(SAMPLES / "pk_compacted.tar.gz", tmp_path / "warehouse")
    table = catalog.load_table(Identifier(DATABASE, "pk_compacted"))
    before = keys(rows_of(read_arrow(table)))
    plan = plan_expire(table, ExpireConfig(retain_max=1, retain_min=1, older_than_millis=LATER), LATER)
    path = next(Path(a.path) for a in plan.files.data)
    path.unlink()
    path.mkdir()
    with pytest.raises(EngineError, match=path.name) as failed:
        expire(table)
    assert failed.value.kind is ErrorKind.ENVIRONMENT
    assert failed.value.hint
    path.rmdir()
    expire(table)
    assert keys(rows_of(read_arrow(table))) == before
