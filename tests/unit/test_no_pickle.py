"""No content of a table is ever executed as code."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_spark.errors import CorruptTableError
from paimon_spark.format.registry import for_name
from paimon_spark.fs.memory import InMemoryFileIO
from paimon_spark.spec.types import STRING, DataField, TypeRoot, atomic

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    p
    for p in (*(ROOT / "paimon_spark").rglob("*.py"), *(ROOT / "procedures").rglob("*.py"))
    if "testing" not in p.parts  # the kit for tests pickles what it made itself
)
MODULES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve", "joblib", "jsonpickle"}
CALLS = {"eval", "exec", "compile", "__import__"}
ARROW = {"PyExtensionType", "ExtensionType", "UnknownExtensionType", "register_extension_type", "deserialize"}
"""Names of pyarrow that run or register code for what a file says."""
BITS = {"deletion_vectors.py", "roaring.py", "roaring64_art.py", "bitmaps.py", "sketches.py", "sorted_rows.py"}
"""Modules whose `deserialize` is that of pyroaring or datasketches."""


def names(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {(node.module or "").split(".")[0], *(a.name for a in node.names)}
            found |= {"pyspark serializers"} if node.module == "pyspark.serializers" else set()
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.add(f"{node.func.id}()")
        elif isinstance(node, ast.Attribute):
            found.add(f".{node.attr}")
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_module_unpickles_or_evaluates(path: Path) -> None:
    found = names(ast.parse(path.read_text(encoding="utf-8")))
    wrong = (found & MODULES) | {c for c in CALLS if f"{c}()" in found} | (found & {"pyspark serializers"})
    wrong |= {n for n in ARROW if f".{n}" in found or n in found} - ({"deserialize"} if path.name in BITS else set())
    assert not wrong


class Trap:
    """Unpickling this is an error that nothing catches."""

    def __reduce__(self) -> tuple[object, ...]:
        return (pytest.exit, ("a file of a table was unpickled",))


BOMB = pickle.dumps(Trap())
EXTENSIONS = [
    b"arrow.py_extension_type",
    b"arrow.json",
    b"arrow.uuid",
    b"arrow.opaque",
    b"ray.data.arrow_tensor",
    b"pandas",
]


BUILT_IN = (b"arrow.json", b"arrow.uuid", b"arrow.opaque")
"""Types that Arrow itself knows; it checks what is said of them."""


@pytest.mark.parametrize("name", EXTENSIONS, ids=lambda n: n.decode())
@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_pickles_in_schemas_are_plain_columns_or_refused(name: bytes, kind: str) -> None:
    store = InMemoryFileIO()
    path = f"/t/bucket-0/f.{kind}"
    metadata = {b"ARROW:extension:name": name, b"ARROW:extension:metadata": BOMB, b"PARQUET:field_id": b"1"}
    schema = pa.schema([pa.field("id", pa.int32()), pa.field("v", pa.binary(), metadata=metadata)], {b"pandas": BOMB})
    table = pa.table([pa.array([1, 2], pa.int32()), pa.array([BOMB, b"x"], pa.binary())], schema=schema)
    out = pa.BufferOutputStream()
    if kind == "parquet":
        pq.write_table(table, out, store_schema=True)
    else:
        from pyarrow import orc

        orc.write_table(table, out)
    store.write(path, out.getvalue().to_pybytes())
    fields = (DataField(0, "id", atomic(TypeRoot.INT)), DataField(1, "v", atomic(TypeRoot.VARBINARY)))
    if kind == "parquet" and name in BUILT_IN:
        with pytest.raises(CorruptTableError):
            for_name(kind).open_reader(store, path, fields)
        return
    with for_name(kind).open_reader(store, path, fields) as reader:
        rows = [r for b in reader.batches() for r in b.to_pylist()]
    assert rows == [{"id": 1, "v": BOMB}, {"id": 2, "v": b"x"}]


def test_the_trap_works() -> None:
    with pytest.raises(pytest.exit.Exception):
        pickle.loads(BOMB)


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_a_pickle_in_place_of_a_file_is_refused(kind: str) -> None:
    store = InMemoryFileIO()
    store.write(f"/f.{kind}", BOMB)
    with pytest.raises(CorruptTableError):
        for_name(kind).open_reader(store, f"/f.{kind}", (DataField(0, "s", STRING),))
