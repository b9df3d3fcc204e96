"""The findings about tables as JSON, and as one HTML page without scripts and without anything from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, tzinfo
from html import escape
from importlib.resources import files
from typing import Any

from paimon_spark.core.metadata.refs import RefKind
from paimon_spark.engine.health.doctor import Diagnosis
from paimon_spark.engine.health.examined import Examined
from paimon_spark.engine.health.findings import Finding, Severity, size_text
from paimon_spark.engine.health.layout import SHOWN_LEVELS
from paimon_spark.engine.health.pictures import (
    file_sizes,
    levels_by_bucket,
    timeline,
    used_levels,
)
from paimon_spark.spec.time_texts import time_text

_COLOURS = (
    "#c0392b",
    "#d97a1c",
    "#c9a227",
    "#8aa63a",
    "#4f9d69",
    "#2f8f8b",
    "#3f77b5",
    "#5a5fb0",
    "#7d4fa3",
    "#8c8c8c",
)
_STYLE = "page.css"


def to_json(diagnoses: Iterable[Diagnosis], now: int) -> str:
    """Return findings, figures and time of an examination as JSON."""
    tables = [
        {"table": name_of(d), "figures": _figures(d), "findings": [f.to_plain() for f in d.findings]} for d in diagnoses
    ]
    return json.dumps({"examined_at": f"{time_text(now)} UTC", "tables": tables}, indent=2, ensure_ascii=False)


def name_of(diagnosis: Diagnosis) -> str:
    """Return the name of the table."""
    return diagnosis.examined.table.name if diagnosis.examined else diagnosis.findings[0].table


def _figures(diagnosis: Diagnosis) -> dict[str, Any]:
    e = diagnosis.examined
    if e is None:
        return {}
    layout = e.layout
    return {
        "snapshot": e.latest.id if e.latest else None,
        "files": int(layout.files.sum()),
        "bytes": int(layout.size.sum()),
        "rows": int(layout.rows.sum()),
        "partitions": len({key.partition for key in layout.buckets}),
        "buckets": len(layout.buckets),
        "manifests": len(e.metas),
        "snapshots": sum(r.kind is RefKind.SNAPSHOT for r in e.refs),
        "tags": sum(r.kind is RefKind.TAG for r in e.refs),
        "files_by_level": {str(n): int(c) for n, c in enumerate(layout.level_files.tolist()) if c},
    }


def to_html(diagnoses: Sequence[Diagnosis], now: int, zone: tzinfo = UTC) -> str:
    """Return the page about tables, those with the most urgent findings first."""
    ordered = sorted(diagnoses, key=_urgency)
    title = name_of(ordered[0]) if len(ordered) == 1 else f"{len(ordered)} tables"
    style = files("paimon_spark.engine.health").joinpath(_STYLE).read_text(encoding="utf-8")
    levels = "".join(f".level{n} {{ fill: {c}; }}" for n, c in enumerate(_COLOURS))
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Health of {escape(title)}</title><style>{style}{levels}</style></head><body><main>",
        f"<h1>Health of {escape(title)}</h1>",
        f'<p class="when">examined at {time_text(now, zone)} {escape(str(zone))}</p>',
        *(_overview(ordered) if len(ordered) > 1 else ()),
        *(part for d in ordered for part in _table(d, zone, alone=len(ordered) == 1)),
        "</main></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _urgency(diagnosis: Diagnosis) -> tuple[int, ...]:
    counts = _counts(diagnosis.findings)
    return (*(-counts[s] for s in Severity), -sum(f.gain_bytes for f in diagnosis.findings))


def _counts(findings: Iterable[Finding]) -> dict[Severity, int]:
    counts = dict.fromkeys(Severity, 0)
    for f in findings:
        counts[f.severity] += 1
    return counts


def _overview(diagnoses: Sequence[Diagnosis]) -> Iterator[str]:
    head = "".join(f'<th class="number">{s}</th>' for s in Severity)
    yield f'<table><tr><th>table</th>{head}<th class="number">files</th><th class="number">size</th></tr>'
    for d in diagnoses:
        counts, figures = _counts(d.findings), _figures(d)
        cells = "".join(f'<td class="number">{counts[s]}</td>' for s in Severity)
        count, size = (f"{figures['files']:,}", size_text(figures["bytes"])) if figures else ("", "")
        name = escape(name_of(d))
        yield (
            f'<tr><td><a href="#{name}">{name}</a></td>{cells}'
            f'<td class="number">{count}</td><td class="number">{size}</td></tr>'
        )
    yield "</table>"


def _table(d: Diagnosis, zone: tzinfo, *, alone: bool) -> Iterator[str]:
    name = escape(name_of(d))
    yield f'<section id="{name}">'
    if not alone:
        yield f"<h2>{name}</h2>"
    figures = _figures(d)
    shown = {k: v for k, v in figures.items() if isinstance(v, int)}
    if shown:
        texts = {k: size_text(v) if k == "bytes" else f"{v:,}" for k, v in shown.items()}
        yield f"<dl>{''.join(f'<div><dt>{k}</dt><dd>{v}</dd></div>' for k, v in texts.items())}</dl>"
    yield from _findings(d.findings)
    if d.examined is not None:
        yield from _pictures(d.examined, zone)
    yield "</section>"


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    if not findings:
        yield '<p class="sound">No finding: the table is sound.</p>'
        return
    yield '<table class="findings"><tr><th></th><th>finding</th><th class="number">gain</th></tr>'
    for f in findings:
        about = "about " if f.estimated else ""
        gains = [size_text(f.gain_bytes)] * bool(f.gain_bytes) + [f"{f.gain_files:,} files"] * bool(f.gain_files)
        remedy = f"<code>{escape(f.remedy)}</code>" if f.remedy else ""
        yield (
            f'<tr><td><span class="badge {f.severity}">{f.severity}</span></td>'
            f"<td><strong>{f.code}</strong><br>{escape(f.found)}{remedy}</td>"
            f'<td class="number">{about + "<br>".join(gains) if gains else ""}</td></tr>'
        )
    yield "</table>"


def _pictures(e: Examined, zone: tzinfo) -> Iterator[str]:
    sizes, levels, times = file_sizes(e), levels_by_bucket(e), timeline(e, zone)
    if sizes:
        legend = _legend((("small", "smaller than compaction considers small"), ("fine", "other")))
        yield f"<h3>Sizes of data files</h3><figure>{sizes}{legend}</figure>"
    if levels:
        names = {0: "level 0", SHOWN_LEVELS - 1: f"level {SHOWN_LEVELS - 1} and above"}
        legend = _legend([(f"level{n}", names.get(n, f"level {n}")) for n in used_levels(e)])
        yield f"<h3>Levels by bucket</h3><figure>{levels}{legend}</figure>"
    if times:
        kinds = ("append", "compact", "overwrite", "analyze", "changelog", "tag")
        legend = _legend([(kind, kind) for kind in kinds if f'class="{kind}"' in times])
        yield f"<h3>Snapshots and tags</h3><figure>{times}{legend}</figure>"


def _legend(items: Iterable[tuple[str, str]]) -> str:
    entries = "".join(
        f'<li><svg style="width:12px;min-width:12px;display:inline-block" viewBox="0 0 12 12">'
        f'<rect width="12" height="12" rx="3" class="{kind}"/></svg> {escape(text)}</li>'
        for kind, text in items
    )
    return f'<ul class="legend">{entries}</ul>'
