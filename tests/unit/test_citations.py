"""Sources cite the pages of the format, and pages name modules: each exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted([*(ROOT / "paimon_spark").rglob("*.py"), *(ROOT / "procedures").rglob("*.py")])
PAGES = ("index.md", "semantics.md", "storage.md")
_HEADING = re.compile(r"^#+ (?:Appendix )?([0-9A-Z][0-9.]*)\.? ", re.MULTILINE)
_RULE = re.compile(r"\*\*([A-Z][0-9]+)\*\*")
_CITATION = re.compile(r"\(docs/spec/[^)]*\)")
_PART = re.compile(r"docs/spec/(\w+\.md), (.+)")
_TARGET = re.compile(r"(?:sections? |appendix )?([A-Z]?[0-9]+(?:\.[0-9]+)?|[A-Z])(?:-([A-Z]?[0-9]+))?")
_MODULE = re.compile(r"`([\w./-]+\.(?:py|scala))`")
_NOT_OF_THE_TREE = {"program.py"}  # a user's own
_OTHER_SPELLING = re.compile(
    r"(?:storage|sql) spec\b|\(semantics|\bsemantics,? (?:section )?[A-Z]?[0-9]|\((?:storage|sql) [0-9]|[( ]R[0-9]+\)"
)


def targets_of(page: str) -> set[str]:
    """Return the numbers of the headings of a page and its rule ids."""
    text = (ROOT / "docs/spec" / page).read_text(encoding="utf-8")
    return {n.rstrip(".") for n in _HEADING.findall(text)} | set(_RULE.findall(text))


def expanded(target: str) -> list[str]:
    """Return the sections or rules that one item of a list of targets names; a range names all within."""
    m = _TARGET.fullmatch(target)
    assert m, f"'{target}' is neither a section nor a rule"
    first, last = m[1], m[2]
    if last is None:
        return [first]
    letter = first.rstrip("0123456789")
    assert letter == last.rstrip("0123456789"), f"'{target}' spans two letters"
    low, high = int(first.removeprefix(letter)), int(last.removeprefix(letter))
    assert low < high, f"'{target}' ends before it begins"
    return [f"{letter}{n}" for n in range(low, high + 1)]


def citations(text: str) -> list[tuple[str, str]]:
    """Return the page and the target of every citation in the texts of a source file."""
    found = []
    for citation in _CITATION.findall(text):
        for part in citation[1:-1].split("; "):
            m = _PART.fullmatch(part)
            assert m, f"'{part}' is no citation"
            found += [(m[1], t) for item in re.split(", | and ", m[2]) for t in expanded(item)]
    return found


def text_of(path: Path) -> str:
    """Return a source file with one blank for each white space: a citation may be broken into lines."""
    return " ".join(path.read_text(encoding="utf-8").split())


def test_a_citation_gives_its_pages_and_targets() -> None:
    text = "x (docs/spec/semantics.md, R1-R3, R9; docs/spec/storage.md, sections 4-5, 12.1 and 8, appendix A) y"
    semantics = [("semantics.md", t) for t in ("R1", "R2", "R3", "R9")]
    assert citations(text) == [*semantics, *(("storage.md", t) for t in ("4", "5", "12.1", "8", "A"))]


@pytest.mark.parametrize(
    "wrong", ["(docs/spec/storage.md)", "(docs/spec/storage.md, R9-R1)", "(docs/spec/storage.md, x)"]
)
def test_what_is_no_citation_is_told(wrong: str) -> None:
    with pytest.raises(AssertionError):
        citations(wrong)


def test_the_pages_have_sections_and_rules() -> None:
    assert sorted(p.name for p in (ROOT / "docs/spec").iterdir()) == list(PAGES)
    assert {"1", "1.2", "12.3", "14.2", "A"} <= targets_of("storage.md")
    assert {"0", "8.2", "18.1", "W5", "R13"} <= targets_of("semantics.md")


@pytest.mark.parametrize("page", PAGES)
def test_no_heading_and_no_rule_stands_twice(page: str) -> None:
    text = (ROOT / "docs/spec" / page).read_text(encoding="utf-8")
    headings, rules = _HEADING.findall(text), re.findall(r"^\* \*\*([A-Z][0-9]+)\*\*", text, re.MULTILINE)
    assert len(set(headings)) == len(headings)
    assert len(set(rules)) == len(rules)


def test_sources_cite_what_is_there() -> None:
    known = {page: targets_of(page) for page in PAGES}
    cited = [(path, page, target) for path in SOURCES for page, target in citations(text_of(path))]
    missing = [f"{p.relative_to(ROOT)}: {page}, {t}" for p, page, t in cited if t not in known.get(page, ())]
    assert missing == []
    assert len(cited) > 50


def test_sources_cite_in_one_spelling() -> None:
    other = []
    for path in SOURCES:
        text = text_of(path)
        rest = _CITATION.sub("", text)
        if "docs/spec" in rest or _OTHER_SPELLING.search(rest):
            other.append(str(path.relative_to(ROOT)))
    assert other == []


def test_pages_name_modules_that_exist() -> None:
    roots = [ROOT, ROOT / "paimon_spark", ROOT / "paimon_spark/cli"]
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    named = [(page, name) for page in pages for name in _MODULE.findall(page.read_text(encoding="utf-8"))]
    missing = [
        f"{page.relative_to(ROOT)}: {name}"
        for page, name in named
        if name not in _NOT_OF_THE_TREE and not any((root / name).is_file() for root in roots)
    ]
    assert missing == []
    assert len(named) > 50
