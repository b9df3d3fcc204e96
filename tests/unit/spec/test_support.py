"""The lists of honoured and refused options, compared with the source code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path

import pytest

import paimon_spark
from paimon_spark.errors import OptionError
from paimon_spark.spec import features
from paimon_spark.spec.option_catalogue import find_option, known_options
from paimon_spark.spec.support import (
    ONLY_VALUES,
    PATTERN_KEYS,
    REFUSED,
    Scope,
    check_dynamic,
    honoured,
    scope_of,
    statuses,
)

ROOT = Path(__file__).parents[3]
PACKAGE = Path(paimon_spark.__file__).parent
ACCESSORS = {"get", "flag", "number", "number_or_none", "fraction", "memory", "memory_or_none", "duration_ms"}
ACCESSORS |= {"duration_ms_or_none", "names", "word", "pairs", "is_set", "raw", "_checked", "pop"}
OPTIONS = PACKAGE / "spec" / "options.py"
#: Modules that only judge stored options: which columns they name, which may change, which combine.
JUDGES = {
    PACKAGE / "spec" / name
    for name in ("option_catalogue.py", "support.py", "features.py", "schema_rules.py", "schema.py", "merge_rules.py")
}
#: Tuples and dicts of keys that are looked up one by one.
KEY_LISTS = {"TRAVEL_OPTIONS", "CHANGE_OPTIONS", "START_OPTIONS", "_KEY_OPTIONS", "_PATH"}


def test_what_is_listed_as_obeyed_is_what_the_source_reads() -> None:
    read = {name for name in _read_by_python() | _read_by_scala() if name not in REFUSED}
    assert read - set(honoured()) == set(), "read but not listed in spec/support.py"
    assert set(honoured()) - read == set(), "listed in spec/support.py but read nowhere"


def test_members_of_families_are_what_the_writers_read() -> None:
    read = {key for _, key in _keys_given_to_accessors(*_modules("format"))}
    found = {k for k in read if (o := find_option(k)) is not None and o.name in PATTERN_KEYS}
    assert found == {k for keys in PATTERN_KEYS.values() for k in keys}


def test_what_is_listed_as_refused_is_what_the_rules_refuse() -> None:
    judged = {key for table in (features._FLAGS, features._SETTINGS, features._WORDS) for key, *_ in table}
    others = {"fields.<col>.map.storage-layout", "global-index.external-path", "manifest.format"}
    assert (judged - set(honoured())) | others == REFUSED


def test_the_lists_name_options_of_the_catalogue_once() -> None:
    known = set(known_options())
    assert set(honoured()) <= known
    assert known >= REFUSED
    assert not set(honoured()) & REFUSED
    assert set(ONLY_VALUES) <= set(honoured())
    assert set(statuses()) == known


def _modules(*below: str) -> Iterator[tuple[Path, ast.Module]]:
    folders = [PACKAGE / b for b in below] or [PACKAGE, PACKAGE.parent / "procedures"]
    for folder in folders:
        for path in folder.rglob("*.py"):
            yield path, ast.parse(path.read_text(encoding="utf-8"))


def _read_by_python() -> set[str]:
    modules = dict(_modules())
    properties = _keys_of_properties(modules[OPTIONS])
    uses = {
        n.attr for p, tree in modules.items() if p != OPTIONS for n in ast.walk(tree) if isinstance(n, ast.Attribute)
    }
    used = _closed(properties, uses)
    found = {key for name in used for key in properties[name][0]}
    found |= {
        k for _, k in _keys_given_to_accessors(*((p, t) for p, t in modules.items() if p not in JUDGES | {OPTIONS}))
    }
    found |= {k for p, t in modules.items() if p not in JUDGES for k in _keys_in_lists(t)}
    names = set()
    for key in found:
        option = find_option(key)
        if option is not None and key in PATTERN_KEYS.get(option.name, (key,)):
            names.add(option.name)
    return names


def _keys_of_properties(tree: ast.Module) -> dict[str, tuple[set[str], set[str]]]:
    """Return of every method of CoreOptions the keys it reads and the attributes it uses."""
    (cls,) = (n for n in tree.body if isinstance(n, ast.ClassDef))
    found = {}
    for method in cls.body:
        if isinstance(method, ast.FunctionDef):
            keys = {k for _, k in _keys_given_to_accessors((OPTIONS, method))}
            found[method.name] = (keys, {n.attr for n in ast.walk(method) if isinstance(n, ast.Attribute)})
    return found


def _closed(properties: dict[str, tuple[set[str], set[str]]], uses: set[str]) -> set[str]:
    used, before = {n for n in properties if n in uses}, set[str]()
    while used != before:
        before = used
        used = used | {n for u in used for n in properties[u][1] if n in properties}
    return used


def _keys_given_to_accessors(*trees: tuple[Path, ast.AST]) -> Iterator[tuple[Path, str]]:
    for path, tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ACCESSORS:
                for arg in node.args[:1]:
                    if isinstance(arg, ast.Constant) and isinstance(arg.value, str) and _of_options(node.func.value):
                        yield path, arg.value
                    if isinstance(arg, ast.JoinedStr) and arg.values and _of_options(node.func.value):
                        yield path, "".join(v.value if isinstance(v, ast.Constant) else "x" for v in arg.values)


def _of_options(receiver: ast.expr) -> bool:
    """Return whether a call reads options: ``options.…``, ``self.…`` inside CoreOptions, ``CoreOptions(…).…``."""
    if isinstance(receiver, ast.Call):
        receiver = receiver.func
    name = (
        receiver.attr if isinstance(receiver, ast.Attribute) else receiver.id if isinstance(receiver, ast.Name) else ""
    )
    return name in ("options", "self", "given", "values", "CoreOptions") or isinstance(receiver, ast.Dict)


def _keys_in_lists(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(t, ast.Name) and t.id in KEY_LISTS for t in targets):
            yield from (n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str))


def _read_by_scala() -> set[str]:
    text = "".join(p.read_text(encoding="utf-8") for p in (PACKAGE / "bridge" / "scala").rglob("*.scala"))
    words = {w.removeprefix("spark.paimon.") for w in re.findall(r'"([\w.\-]+)"', text)}
    return words & {n for n, s in honoured().items() if s in (Scope.PROGRAM, Scope.CATALOG)}


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("write-bufer-size", "Did you mean 'write-buffer-size'"),
        ("header", "There is no table option 'header'"),
        ("lookup.async", "has no effect on Spark"),
        ("branch", "t$branch_b"),
        ("parquet.bloom.filter.enabled", "parquet.block.size"),
        ("warehouse", "one of the catalog"),
        ("write-only", "does not apply to SELECT"),
    ],
)
def test_keys_that_a_statement_cannot_give(key: str, says: str) -> None:
    with pytest.raises(OptionError) as e:
        check_dynamic(key, of="SELECT", scopes=(Scope.READ,))
    assert says in str(e.value)


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("replaceWhere", r"REPLACE WHERE"),
        ("mergeSchema", r"write\.merge-schema"),
        ("snapshot-id", r"scan\.snapshot-id"),
        ("whatever", r"sys\.config"),
    ],
)
def test_options_of_other_formats(key: str, hint: str) -> None:
    with pytest.raises(OptionError, match=hint):
        check_dynamic(key, of="INSERT", scopes=(Scope.WRITE,))


def test_keys_that_a_statement_can_give() -> None:
    assert check_dynamic("write.compaction-skip", of="INSERT", scopes=(Scope.WRITE,)).name == "write-only"
    assert check_dynamic("scan.snapshot-id", of="the session").name == "scan.snapshot-id"
    assert check_dynamic("merge-engine", of="INSERT", scopes=(Scope.WRITE,)).name == "merge-engine"
    assert scope_of("parquet.page.size") is Scope.WRITE
    assert scope_of("nothing.of.ours") is None


def test_the_page_is_current() -> None:
    made = run_path(str(ROOT / "docs" / "generate_options.py"))
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    assert page == made["render"](), "run: python docs/generate_options.py"
    assert all(f"`{name}`" in page for name in known_options())
