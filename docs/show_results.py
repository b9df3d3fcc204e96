"""A hook of MkDocs: results of the benchmarks, which live beside the pages and not among them, go into the site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results"
LINKED = "../benchmarks/results/"
SHOWN = "results/"


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add plots and tables to the files of the site."""
    for found in sorted([*RESULTS.glob("*.svg"), *RESULTS.glob("*.txt")]):
        files.append(File.generated(config, SHOWN + found.name, abs_src_path=str(found)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links to the results of benchmarks, which a repository resolves, to where the site has them."""
    return markdown.replace(LINKED, SHOWN)
