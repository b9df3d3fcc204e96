"""paimon-spark doctor: the findings as a table, as JSON, and as an HTML page with pictures."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark import connect
from paimon_spark.cli.main import main
from paimon_spark.engine.health.findings import size_text

BROWSER = next((b for b in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if b), None)
OPTIONS = {
    "bucket": "2",
    "write-only": "true",
    "num-sorted-run.compaction-trigger": "3",
    "tag.creation-period": "daily",
}


class Page(HTMLParser):
    """The elements of a page in order, each with its attributes and its text; void and unclosed ones are noticed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], str]] = []
        self.open: list[int] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), ""))
        if tag not in ("meta", "br"):
            self.open.append(len(self.elements) - 1)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.elements[self.open.pop()][0] == tag

    def handle_data(self, data: str) -> None:
        for at in self.open:
            name, attrs, text = self.elements[at]
            self.elements[at] = (name, attrs, text + data)

    def all(self, tag: str, kind: str | None = None) -> Iterator[tuple[dict[str, str | None], str]]:
        return ((a, text) for t, a, text in self.elements if t == tag and kind in (None, a.get("class")))

    def pictures(self) -> list[str | None]:
        return [a.get("aria-label") for a, _ in self.all("svg") if "aria-label" in a]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with findings, tags and a branch, whose names need escapes; and a sound table."""
    path = tmp_path_factory.mktemp("wh")
    catalog = connect(path)
    catalog.create_database("db")
    schema = pa.schema([("p", pa.string()), ("k", pa.int32())])
    table = catalog.create_table("db.t", schema, primary_key=["p", "k"], partition_by="p", options=OPTIONS)
    for i in range(8):
        table.append(pa.table({"p": ["<b>&", "x"], "k": pa.array([i, i], pa.int32())}))
        if i == 3:
            table.create_tag("a<b")
            table.compact()
    sound = catalog.create_table("db.sound", pa.schema([("k", pa.int32())]))
    sound.append(pa.table({"k": pa.array([1], pa.int32())}))
    return path


def doctor(warehouse: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["doctor", "--warehouse", str(warehouse), *arguments])
    return code, capsys.readouterr().out


def test_table_and_exit_codes(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = doctor(warehouse, capsys, "--table", "db.t")
    assert code == 0
    assert "LEVEL_0_FILES" in out
    assert doctor(warehouse, capsys, "--table", "db.t", "--fail-on", "warning")[0] == 1
    assert doctor(warehouse, capsys, "--table", "db.t", "--fail-on", "error", "--no-listing")[0] == 0
    assert doctor(warehouse, capsys, "--table", "db.sound", "--fail-on", "info")[0] == 0
    header, *rows = doctor(warehouse, capsys, "--table", "db.*", "--format", "tsv")[1].splitlines()
    assert header.split("\t")[:3] == ["table", "severity", "finding"]
    assert {r.split("\t")[0] for r in rows} == {"db.t"}
    assert len(doctor(warehouse, capsys, "--table", "db.*", "--format", "csv")[1].splitlines()) == len(rows) + 1
    assert main(["doctor", "--warehouse", str(warehouse), "--table", "db.nope"]) == 1


@pytest.mark.parametrize(
    "words",
    [
        ["doctor", "--table", "orders"],
        ["call", "history('orders')"],
        ["call", "compact('orders')", "--explain"],
        ["history", "--database", "default", "--table", "orders"],
        ["compact", "--database", "default", "--table", "orders", "--dry_run"],
    ],
)
def test_what_only_reads_creates_no_warehouse(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    warehouse = tmp_path / "missing"
    assert main([*words, "--warehouse", str(warehouse)]) == 1
    assert f"[INVALID_OPTION] The warehouse {warehouse} does not exist." in capsys.readouterr().err
    assert not warehouse.exists()
    warehouse.mkdir()
    assert main([*words, "--warehouse", str(warehouse)]) == 1
    assert not list(warehouse.iterdir())


def test_the_summary_goes_to_standard_error(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", "--warehouse", str(warehouse), "--table", "db.sound"])
    assert capsys.readouterr() == ("", "1 table examined: no findings\n")
    main(["doctor", "--warehouse", str(warehouse), "--table", "db.*"])
    assert re.fullmatch(r"2 tables examined: (\d+ \w+, )*\d+ \w+\n", capsys.readouterr().err)


def test_json(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[str, Any] = json.loads(doctor(warehouse, capsys, "--table", "db.*", "--format", "json")[1])
    tables = {t["table"]: t for t in found["tables"]}
    assert tables["db.sound"]["findings"] == []
    figures = tables["db.t"]["figures"]
    files = connect(warehouse).table("db.t").inspect("files")
    assert (figures["files"], figures["bytes"]) == (files.num_rows, sum(files["file_size_in_bytes"].to_pylist()))
    assert sum(figures["files_by_level"].values()) == files.num_rows
    assert (figures["partitions"], figures["tags"], figures["snapshot"]) == (2, 1, 9)


def test_the_html_page_shows_the_findings_of_the_json(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = doctor(warehouse, capsys, "--table", "db.t", "--format", "html")[1]
    page = Page(text)
    assert page.open == []
    assert not re.search(r"<script|<link|<img|url\(|(?<!xmlns=\")https?://", text)
    assert page.pictures() == [
        "Number of files by size",
        "Bytes by level of the largest buckets",
        "Snapshots and tags by commit time",
    ]
    badges = [t for a, t in page.all("span") if (a.get("class") or "").startswith("badge")]
    found = json.loads(doctor(warehouse, capsys, "--table", "db.t", "--format", "json")[1])["tables"][0]
    assert badges == [f["severity"] for f in found["findings"]]
    assert [t for _, t in page.all("code")] == [f["remedy"] for f in found["findings"] if f["remedy"]]
    shown = dict(zip((t for _, t in page.all("dt")), (t for _, t in page.all("dd")), strict=True))
    assert shown["files"] == f"{found['figures']['files']:,}"
    assert shown["bytes"] == size_text(found["figures"]["bytes"])


def test_figures_of_the_pictures(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = Page(doctor(warehouse, capsys, "--table", "db.t", "--format", "html")[1])
    titles = [t for _, t in page.all("title")][1:]
    files = connect(warehouse).table("db.t").inspect("files").to_pylist()
    counted = sum(int(t.split()[0]) for t in titles if " files of " in t)
    assert counted == len(files)
    levels = {f"level{f['level']}" for f in files}
    bars = {a["class"] for a, _ in page.all("rect") if (a.get("class") or "").startswith("level")}
    assert bars == levels
    assert sum("tag 'a<b'" in t for t in titles) == 1
    assert sum(t.startswith("snapshot") for t in titles) == len(connect(warehouse).table("db.t").snapshots())
    for attrs, _ in page.all("rect"):
        sizes = [float(attrs[k] or 0) for k in ("x", "y", "width", "height") if k in attrs]
        assert all(0 <= s <= 960 for s in sizes)


def test_page_of_a_database(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = Page(doctor(warehouse, capsys, "--table", "db.*", "--format", "html")[1])
    assert [a["id"] for a, _ in page.all("section")] == ["db.t", "db.sound"]
    assert [a["href"] for a, _ in page.all("a")] == ["#db.t", "#db.sound"]
    assert next(page.all("p", "sound"))[1] == "No finding: the table is sound."


@pytest.mark.parametrize(
    ("arguments", "examined"),
    [
        (("--database", "db"), "2 tables examined"),
        (("--table", "db.*"), "2 tables examined"),
        (("--database", "db", "--table", "t"), "1 table examined"),
    ],
)
def test_named_tables(
    warehouse: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], examined: str
) -> None:
    assert main(["doctor", "--warehouse", str(warehouse), *arguments]) == 0
    assert examined in capsys.readouterr().err


def test_no_table_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["doctor"])
    assert "--database db all tables of a database" in capsys.readouterr().err


def test_sizes_for_people() -> None:
    sizes = (0, 1023, 1024, 1536, 1 << 20, (1 << 30) - 1, 5 << 40)
    assert [size_text(s) for s in sizes] == ["0 B", "1023 B", "1 KiB", "1.5 KiB", "1 MiB", "1024 MiB", "5 TiB"]


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no browser: install chromium to see the page rendered")
def test_the_page_in_a_browser(warehouse: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    place, picture = tmp_path / "page.html", tmp_path / "page.png"
    place.write_text(doctor(warehouse, capsys, "--table", "db.t", "--format", "html")[1], encoding="utf-8")
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1100,1600"]
    dom = subprocess.run([*command, "--dump-dom", place.as_uri()], capture_output=True, text=True, timeout=120).stdout
    assert Page(dom.removeprefix("<!DOCTYPE html>")).pictures() == Page(place.read_text(encoding="utf-8")).pictures()
    subprocess.run([*command, f"--screenshot={picture}", place.as_uri()], capture_output=True, timeout=120, check=True)
    data = picture.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(data) > 20_000
