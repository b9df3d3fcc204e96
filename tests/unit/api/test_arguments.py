"""Arbitrary arguments of the public methods: they are accepted, or rejected with one ArgumentError."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark import SparkContext

import paimon_spark
from paimon_spark.api.arguments import RULES, millis, names, options
from paimon_spark.api.catalog import CatalogHandle
from paimon_spark.api.table import TableHandle
from paimon_spark.bridge.jars import source_hash, spark_version
from paimon_spark.catalog.filesystem import FileSystemCatalog
from paimon_spark.errors import ArgumentError, PaimonError
from paimon_spark.fs.local import LocalFileIO
from paimon_spark.testing.faults import FaultFileIO, Mode

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])
ROWS = pa.table({"id": [1, 2], "day": ["a", "b"]}, schema=SCHEMA)


class Awkward:
    """Says of itself that it is everything, and is nothing."""

    def __repr__(self) -> str:
        raise RuntimeError

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise TypeError("no stream")


STRANGE: list[Any] = [
    None, True, 0, 5, -1, 1.5, math.nan, 10**30, Decimal(1), b"x", "", " ", "no such", "a.b.c.d", "\0", "\ud800",
    "x" * 5000, [], [1], [None], ["id"], ["id", "id"], (), {}, {"a": 1}, {1: "a"}, {"bucket": object()}, object(),
    Awkward(), int, len, datetime(2020, 1, 1), datetime.max, date.min, timedelta(1), np.int64(3), np.array([1, 2]),
    Path("/tmp/x"), ROWS, ROWS.to_batches(), pa.schema([]), pa.array([1]), SCHEMA.field("id"), iter([1]), ...,
]  # fmt: skip

REQUIRED: dict[str, Any] = {
    "name": "d.t", "new_name": "d.other", "schema": SCHEMA, "data": ROWS, "system_name": "files", "target": 1,
    "filter": "id = 1", "database": "d",
}  # fmt: skip
LEFT_OUT = {"self", "requested_schema"}


def _methods(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_") and name != "load":
            yield name, method


METHODS = [(kind, name, method) for kind in (CatalogHandle, TableHandle) for name, method in _methods(kind)]
ARGUMENTS = [
    pytest.param(kind, name, p, id=f"{kind.__name__}.{name}({p})")
    for kind, name, method in METHODS
    for p in inspect.signature(method).parameters
    if p not in LEFT_OUT
]


@pytest.fixture
def catalog(tmp_path: Path) -> CatalogHandle:
    made = paimon_spark.connect(tmp_path / "w")
    made.create_database("d")
    return made


def _table(catalog: CatalogHandle, name: str = "d.t") -> TableHandle:
    """Return a new table with a few rows."""
    catalog.drop_table(name, ignore_if_not_exists=True)
    table = catalog.create_table(name, SCHEMA, primary_key="id", options={"bucket": 1})
    table.append(ROWS)
    return table


def _files(path: Path) -> dict[str, bytes]:
    return {str(f): f.read_bytes() for f in path.rglob("*") if f.is_file()}


@pytest.mark.parametrize(("kind", "method", "parameter"), ARGUMENTS)
def test_other_errors_do_not_come_out_and_ours_change_nothing(
    catalog: CatalogHandle, tmp_path: Path, kind: type, method: str, parameter: str
) -> None:
    table = _table(catalog)
    given = {p for k, m, f in METHODS if (k, m) == (kind, method) for p in inspect.signature(f).parameters}
    needed = {p: v for p, v in REQUIRED.items() if p in given}
    for value in STRANGE:
        target, before = table if kind is TableHandle else catalog, _files(tmp_path)
        try:
            getattr(target, method)(**{**needed, parameter: value})
        except PaimonError:
            assert _files(tmp_path) == before
        if not catalog.table_exists("d.t"):
            table = _table(catalog)


@pytest.mark.parametrize("parameter", ["warehouse", "options"])
def test_connecting_is_no_other(tmp_path: Path, parameter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for value in STRANGE:
        with suppress(PaimonError):
            assert isinstance(paimon_spark.connect(**{"warehouse": tmp_path, parameter: value}), CatalogHandle)


@pytest.fixture
def built_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the bridge jar be in the cache, and no JVM run."""
    monkeypatch.setenv("PAIMON_SPARK_CACHE", str(tmp_path))
    (tmp_path / f"paimon-spark-bridge-{spark_version()}-{source_hash()[:16]}.jar").touch()
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)


@pytest.mark.usefixtures("built_jar")
@pytest.mark.parametrize("parameter", ["builder", "catalog", "warehouse", "default_catalog", "s3_endpoint"])
def test_a_session_is_configured_or_not(parameter: str) -> None:
    class Builder:
        def config(self, key: str, value: str) -> Builder:
            assert isinstance(key, str)
            assert isinstance(value, str)
            return self

    for value in STRANGE:
        with suppress(ArgumentError):
            paimon_spark.configure(**{"builder": Builder(), parameter: value})


def test_every_argument_has_a_rule_or_is_checked_where_used() -> None:
    elsewhere = {"data", "keys", "schema"}
    for kind, name, method in METHODS:
        for parameter in set(inspect.signature(method).parameters) - LEFT_OUT - elsewhere:
            assert parameter in RULES, f"{kind.__name__}.{name}({parameter})"
            assert hasattr(method, "__wrapped__"), f"{kind.__name__}.{name}"


def test_an_error_names_the_argument_and_what_it_takes(catalog: CatalogHandle) -> None:
    table = _table(catalog)
    with pytest.raises(ArgumentError) as e:
        table.expire_snapshots(older_than="yesterday")
    assert str(e.value) == (
        "[INVALID_ARGUMENT] The argument 'older_than' is 'yesterday' (str). It takes a datetime, a date, a string such as "
        "'2026-01-31 12:00:00', or epoch milliseconds."
    )
    with pytest.raises(ArgumentError, match=r"'threads' is 0 \(int\). It takes an integer of at least 1"):
        table.compact(threads=0)
    with pytest.raises(ArgumentError, match=r"'filter' is 5 \(int\). It takes a string"):
        table.delete(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("keys", [None, (), [], "id", ["id"], ("id",), iter(["id"]), np.array(["id"])])
def test_keys_are_none_one_or_several(catalog: CatalogHandle, keys: Any) -> None:
    some = keys is not None and not (isinstance(keys, list | tuple) and not keys)
    table = catalog.create_table("d.k", SCHEMA, primary_key=keys)
    assert table.primary_key == (("id",) if some else ())


@pytest.mark.parametrize("columns", ["id", ["id"], ("id",), {"id": 1}.keys(), iter(["id"]), np.array(["id"])])
def test_columns_are_one_or_several(catalog: CatalogHandle, columns: Any) -> None:
    assert _table(catalog).to_arrow(columns).column_names == ["id"]


@dataclass
class BeforeData:
    """Runs something before a data file is opened for the first time."""

    run: Callable[[], object]
    opened: list[str] = field(default_factory=list)

    def choose(self, operation: str, path: str) -> Mode | None:
        if operation == "open_input":
            self.opened.append(path)
            if len(self.opened) == 1:
                self.run()
        return None


def test_a_read_that_starts_again_has_the_same_columns(tmp_path: Path) -> None:
    inner = LocalFileIO()
    other = CatalogHandle(FileSystemCatalog(str(tmp_path), {}, inner))
    other.create_database("d")
    table = _table(other)

    def compact() -> None:
        table.append(ROWS)
        table.compact()
        table.expire_snapshots(retain_max=1, retain_min=1)

    compacted = BeforeData(compact)
    reader = CatalogHandle(FileSystemCatalog(str(tmp_path), {}, FaultFileIO(inner, compacted))).table("d.t")
    assert reader.to_arrow(name for name in ("day", "id")).column_names == ["day", "id"]
    first, again = compacted.opened
    assert not inner.exists(first)
    assert inner.exists(again)


def test_a_moment_is_written_as_one_likes() -> None:
    expected = 1_767_225_600_000
    zone = timezone(timedelta(hours=2))
    for moment in (
        expected, np.int64(expected), date(2026, 1, 1), datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, 2, tzinfo=zone), "2026-01-01", "2026-01-01 00:00:00", "2026-01-01T00:00:00Z",
        "2026-01-01T02:00+02:00",
    ):  # fmt: skip
        assert millis(moment, "older_than") == expected, moment


def test_options_and_names_become_texts() -> None:
    assert options({"bucket": 2, "write-only": True, "x": "y", "f": 0.5}, "options") == {
        "bucket": "2", "write-only": "true", "x": "y", "f": "0.5"
    }  # fmt: skip
    assert names("id", "primary_key") == ("id",)


def test_a_table_is_expired_by_a_text(catalog: CatalogHandle) -> None:
    table = _table(catalog)
    table.append(ROWS)
    assert table.expire_snapshots(retain_min=1, older_than="2999-12-31").snapshots == 1


def test_unknown_arguments_are_named_with_the_method(catalog: CatalogHandle) -> None:
    with pytest.raises(TypeError, match=r"table_exists\(\) got an unexpected keyword argument 'tables'"):
        catalog.table_exists("t", tables=1)  # type: ignore[call-arg]
