"""The rules of the house that no other tool checks."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import tomllib
from importlib import import_module
from pathlib import Path
from runpy import run_path

import pytest
import yaml

import paimon_spark
from paimon_spark import errors
from paimon_spark.errors import ErrorKind, PaimonError

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted([*(ROOT / "paimon_spark").rglob("*.py"), *(ROOT / "procedures").rglob("*.py")])
SCALA = sorted((ROOT / "paimon_spark/bridge/scala").rglob("*.scala"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
OWN_PACKAGES = ("paimon_spark", "procedures", "benchmarks")
MODULE_LINES = 600
FUNCTION_LINES = 50
SCALA_WIDTH = 120
"""As in .scalafmt.conf, which tells `make format` how to format the Scala sources."""
TEST_NAME_LENGTH = 60


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_modules_and_functions_stay_readable(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= MODULE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= FUNCTION_LINES, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", SCALA, ids=lambda p: p.name)
def test_scala_files_stay_readable(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MODULE_LINES
    assert [line for line in lines if len(line) > SCALA_WIDTH or line != line.rstrip()] == []


@pytest.mark.parametrize("path", [p for p in SOURCES if p.name == "__init__.py"], ids=lambda p: p.parent.name)
def test_package_files_hold_no_logic(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), "a package says what it is for"
    if path.parent.name != "paimon_spark":
        assert all(isinstance(n, ast.Expr | ast.ImportFrom | ast.Assign) for n in tree.body)


def test_names_of_tests_are_short() -> None:
    too_long = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in TESTS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and len(node.name) > TEST_NAME_LENGTH
    ]
    assert too_long == []


def _is_patch(call: ast.Call) -> bool:
    """Return whether a call replaces an attribute or an item, by pytest, by unittest or by itself."""
    match call.func:
        case ast.Name("setattr" | "delattr" | "patch"):
            return True
        case ast.Attribute(attr="setattr" | "delattr" | "setitem" | "delitem" | "patch"):
            return True
        case ast.Attribute(value=ast.Name("patch") | ast.Attribute(attr="patch")):
            return True
    return False


def _own_names(tree: ast.Module) -> set[str]:
    """Return the names in a module of modules, classes, functions and constants of the project."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OWN_PACKAGES:
            names |= {a.asname or a.name for a in node.names}
        elif isinstance(node, ast.Import):
            own = (a for a in node.names if a.name.split(".")[0] in OWN_PACKAGES)
            names |= {a.asname or a.name.split(".")[0] for a in own}
    return names


def _is_own(target: ast.expr, names: set[str]) -> bool:
    match target:
        case ast.Constant(str(path)):
            return path.split(".")[0] in OWN_PACKAGES
        case ast.Name(name):
            return name in names
        case ast.Attribute(value=value) | ast.Subscript(value=value):
            return _is_own(value, names)
        case ast.Call(func=ast.Name("type")):
            return True
    return False


def _patches_of_own_names(text: str) -> list[int]:
    """Return the lines of a test module that patch a name of the project."""
    tree = ast.parse(text)
    names = _own_names(tree)
    calls = (n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.args and _is_patch(n))
    return [call.lineno for call in calls if _is_own(call.args[0], names)]


def test_unit_tests_patch_nothing_of_the_project() -> None:
    unit = (p for p in TESTS if p.is_relative_to(ROOT / "tests/unit"))
    found = {f"{p.relative_to(ROOT)}": _patches_of_own_names(p.read_text(encoding="utf-8")) for p in unit}
    assert {path: lines for path, lines in found.items() if lines} == {}, (
        "pass the limit or the collaborator as a value"
    )


@pytest.mark.parametrize(
    ("patch", "own"),
    [
        ("monkeypatch.setattr(refs, '_THREADS', 1)", True),
        ("monkeypatch.setattr(refs.RefStore, 'tags', None)", True),
        ("monkeypatch.setattr('paimon_spark.fs.local.os.link', None)", True),
        ("monkeypatch.setattr(type(table.file_io), 'list', None)", True),
        ("patched.setitem(refs.KNOWN, 'k', 1)", True),
        ("setattr(refs, '_THREADS', 1)", True),
        ("patch.object(refs, '_THREADS', 1)", True),
        ("mock.patch('paimon_spark.core.metadata.refs._THREADS', 1)", True),
        ("monkeypatch.setattr('os.link', None)", False),
        ("monkeypatch.setattr(zipimport, '_read_directory', None)", False),
        ("monkeypatch.setenv('TZ', refs.ZONE)", False),
    ],
)
def test_patches_of_own_names_are_recognised(patch: str, own: bool) -> None:
    lines = _patches_of_own_names(f"import zipimport\nfrom paimon_spark.core.metadata import refs\n{patch}\n")
    assert lines == ([3] if own else [])


def test_public_names_are_sorted_and_exist() -> None:
    assert paimon_spark.__all__ == sorted(paimon_spark.__all__)
    assert all(getattr(paimon_spark, name) is not None for name in paimon_spark.__all__)


def _error_classes() -> list[type[PaimonError]]:
    classes = (c for _, c in inspect.getmembers(errors, inspect.isclass))
    return [c for c in classes if issubclass(c, PaimonError)]


def test_error_codes_are_unique_and_errors_live_in_one_module() -> None:
    assert len({kind.value for kind in ErrorKind}) == len(list(ErrorKind))
    assert all(kind.name == kind.value for kind in ErrorKind)
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and path.name != "errors.py":
                bases = {getattr(b, "id", "") for b in node.bases}
                assert not bases & {c.__name__ for c in _error_classes()}, f"{path}: {node.name}"


def test_the_error_tree_in_the_docstring_is_complete() -> None:
    for cls in _error_classes():
        assert cls.__name__ in (errors.__doc__ or "")


def test_every_error_code_is_documented() -> None:
    page = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    documented = re.findall(r"^## ([A-Z_]+)$", page, re.MULTILINE)
    assert documented == [kind.value for kind in ErrorKind]
    generator = run_path(str(ROOT / "docs/generate_errors.py"))
    assert page == generator["render"](), "run: python docs/generate_errors.py"


def test_entry_points_name_modules_that_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = project["entry-points"]["paimon_spark.procedures"]
    assert sorted(declared.values()) == sorted(
        f"procedures.{p.stem}" for p in (ROOT / "procedures").glob("*.py") if p.stem != "__init__"
    )
    for module in declared.values():
        import_module(module)


def test_the_oldest_releases_that_are_tested_are_those_required() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = dict(re.match(r"([\w.-]+)>=([\d.]+)", text).groups() for text in project["dependencies"])  # type: ignore[union-attr,misc]
    lines = (ROOT / "tests/oldest.txt").read_text(encoding="utf-8").splitlines()
    tested = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert {n: (v + ".0.0").split(".")[:3] for n, v in asked.items()} == {n: v.split(".") for n, v in tested.items()}


def test_shell_scripts_parse() -> None:
    for script in (ROOT / "docker/entrypoint.sh", ROOT / ".ci/run"):
        assert subprocess.run(["sh", "-n", script], check=False).returncode == 0
        assert script.stat().st_mode & 0o111, f"{script} is not executable"


def test_compose_file_starts_what_the_dockerfile_builds() -> None:
    compose = yaml.safe_load((ROOT / "docker/compose.yaml").read_text(encoding="utf-8"))
    for service in compose["services"].values():
        build = service["build"]
        assert (ROOT / "docker" / build["context"] / build["dockerfile"]).is_file()
        assert {v.split(":")[0] for v in service["volumes"]} <= set(compose["volumes"])


def test_dockerfile_copies_what_exists_and_runs_unprivileged() -> None:
    lines = (ROOT / "docker/Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line.strip() and not line.startswith("#")]
    known = {"FROM", "RUN", "ENV", "COPY", "USER", "WORKDIR", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD"}
    assert {step[0] for step in steps} <= known
    sources = [step[1].split()[0] for step in steps if step[0] == "COPY"]
    assert all(source.startswith("dist/") or (ROOT / source).exists() for source in sources)
    assert any(step[0] == "USER" and step[1] != "root" for step in steps)
    assert all(":" in step[1] for step in steps if step[0] == "FROM"), "a base image names its tag"


@pytest.mark.parametrize("name", sorted(p.name for p in (ROOT / "conf").glob("*.conf")))
def test_configuration_files_are_spark_properties(name: str) -> None:
    lines = (ROOT / "conf" / name).read_text(encoding="utf-8").splitlines()
    entries = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    assert entries
    assert all(len(entry) == 2 and entry[0].startswith("spark.") for entry in entries)


def test_links_of_the_documentation_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    missing = [
        f"{page.relative_to(ROOT)} -> {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert missing == []


def test_the_site_lists_every_page() -> None:
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if page not in site} == set()
