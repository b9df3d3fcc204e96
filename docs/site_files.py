"""A MkDocs hook that adds files outside `docs/` to the site: benchmark results, SQL scripts and CONTRIBUTING.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
CONTRIBUTING = "CONTRIBUTING.md"
SCRIPTS = ("guide", "examples")
LINKS = {
    "../benchmarks/results/": "results/",
    **{f"../sql/{directory}/": f"sql/{directory}/" for directory in SCRIPTS},
    f"../{CONTRIBUTING}": CONTRIBUTING,
}
"""Links that work in the repository, and what they are in the site."""


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the plots and tables, the scripts, and the page for contributors."""
    for found in sorted([*RESULTS.glob("*.svg"), *RESULTS.glob("*.txt")]):
        files.append(File.generated(config, f"results/{found.name}", abs_src_path=str(found)))
    for found in sorted(f for directory in SCRIPTS for f in (ROOT / "sql" / directory).iterdir() if f.is_file()):
        files.append(File.generated(config, found.relative_to(ROOT).as_posix(), abs_src_path=str(found)))
    files.append(File.generated(config, CONTRIBUTING, abs_src_path=str(ROOT / CONTRIBUTING)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Replace links of the repository by links of the site."""
    if page.file.src_uri == CONTRIBUTING:
        return markdown.replace("](docs/", "](")
    for link, target in LINKS.items():
        markdown = markdown.replace(link, target)
    return markdown
