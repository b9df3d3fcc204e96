"""Pictures of a table as inline SVG: sizes of files, levels by bucket, and the snapshots in time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from html import escape

import numpy as np

from paimon_spark.core.metadata.refs import ProtectingRef, RefKind
from paimon_spark.engine.health.examined import Examined
from paimon_spark.engine.health.findings import size_text
from paimon_spark.engine.health.layout import SHOWN_LEVELS
from paimon_spark.spec.time_texts import time_text

WIDTH = 960
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 20, 16, 46
MOST_BUCKETS = 40
MOST_SNAPSHOTS = 400
_LANE = 34
_SIGNS = 16
"""Longer labels are cut."""


def _svg(height: int, label: str, body: Iterator[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(body)}</svg>'
    )


def _text(x: float, y: float, text: str, *, anchor: str = "middle", kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{escape(text)}</text>'


def _bar(x: float, y: float, width: float, height: float, kind: str, title: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{max(height, 0.5):.1f}" class="{kind}">'
        f"<title>{escape(title)}</title></rect>"
    )


def file_sizes(e: Examined) -> str:
    """Return a histogram of the file sizes, on a logarithmic axis, with the size that compaction aims at."""
    counts = e.layout.size_classes
    used = np.flatnonzero(counts)
    if not len(used):
        return ""
    target_class = int(np.frexp(float(e.target_size))[1])
    first, last = min(int(used[0]), target_class), max(int(used[-1]), target_class)
    height, most = 240, int(counts.max())
    step = (WIDTH - _LEFT - _RIGHT) / (last - first + 1)
    base = height - _BOTTOM

    def body() -> Iterator[str]:
        yield from _axis(base, most, "files")
        limit = int(np.frexp(float(max(e.layout.small_limit, 1)))[1])
        for n in range(first, last + 1):
            x, count = _LEFT + (n - first) * step, int(counts[n])
            low, high = size_text(1 << max(n - 1, 0)), size_text(1 << n)
            if count:
                tall = (base - _TOP) * count / most
                kind = "small" if n < limit else "fine"
                yield _bar(x + 2, base - tall, step - 4, tall, kind, f"{count:,} files of {low} to {high}")
            if last - first < 20 or (n - first) % 3 == 0:
                yield _text(x, base + 16, low, kind="tick")
        fraction = float(np.log2(e.target_size)) - (target_class - 1)
        x = _LEFT + (target_class - first + fraction) * step
        yield f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{base}" class="mark"/>'
        yield _text(x - 4, _TOP + 10, f"target {size_text(e.target_size)}", anchor="end", kind="note")
        yield _text((WIDTH + _LEFT) / 2, height - 8, "size of a file", kind="tick")

    return _svg(height, "Number of files by size", body())


def _axis(base: float, most: float, what: str, text: str = "") -> Iterator[str]:
    yield f'<line x1="{_LEFT}" y1="{base}" x2="{WIDTH - _RIGHT}" y2="{base}" class="axis"/>'
    yield _text(_LEFT - 8, _TOP + 10, text or f"{most:,.0f}", anchor="end", kind="tick")
    yield _text(_LEFT - 8, base, "0", anchor="end", kind="tick")
    yield _text(_LEFT - 8, (base + _TOP) / 2, what, anchor="end", kind="tick")


def levels_by_bucket(e: Examined) -> str:
    """Return the bytes by level of the largest buckets as stacked bars."""
    layout = e.layout
    if not len(layout.buckets):
        return ""
    order = np.argsort(-layout.size, kind="stable")[:MOST_BUCKETS].tolist()
    height, most = 280, int(layout.size[order].max())
    base = height - _BOTTOM - 24
    step = min((WIDTH - _LEFT - _RIGHT) / len(order), 60.0)

    def body() -> Iterator[str]:
        yield from _axis(base, most, "bytes", size_text(most))
        for n, at in enumerate(order):
            key, top = layout.buckets[at], float(base)
            place = e.table.partition_text(key.partition)
            name = f"{place + '/' if place else ''}{'postponed' if key.bucket < 0 else key.bucket}"
            for level in reversed(range(SHOWN_LEVELS)):
                size = int(layout.sizes_by_level[at, level])
                if size:
                    tall = (base - _TOP) * size / max(most, 1)
                    top -= tall
                    title = f"{name}, level {level}: {size_text(size)}; {int(layout.sorted_runs[at])} sorted runs"
                    yield _bar(_LEFT + n * step + 1, top, max(step - 3, 1), tall, f"level{level}", title)
            if len(order) <= 20:
                shown = name if len(name) <= _SIGNS else f"…{name[-_SIGNS:]}"
                x, y = _LEFT + n * step + step / 2, base + 12
                yield (
                    f'<text x="{x:.1f}" y="{y:.1f}" class="tick" text-anchor="end" '
                    f'transform="rotate(-35 {x:.1f} {y:.1f})">{escape(shown)}</text>'
                )
        if len(order) > 20:
            yield _text(
                _LEFT, base + 16, f"the {len(order)} largest buckets, largest first", anchor="start", kind="tick"
            )

    return _svg(height, "Bytes by level of the largest buckets", body())


def used_levels(e: Examined) -> list[int]:
    """Return the levels that have files, as the picture of levels shows them."""
    if not len(e.layout.buckets):
        return []
    return [int(n) for n in np.flatnonzero(e.layout.sizes_by_level.sum(axis=0))]


@dataclass(frozen=True, slots=True)
class _Lane:
    name: str
    refs: Sequence[ProtectingRef]


def timeline(e: Examined, zone: tzinfo = UTC) -> str:
    """Return the snapshots of each branch in time; tags stand above their snapshots."""
    lanes = [_Lane(b, [r for r in e.refs if r.branch == b]) for b in _branches(e)]
    times = [r.snapshot.time_millis for r in e.refs]
    if not times:
        return ""
    first, last = min(times), max(*times, min(times) + 1)
    height = _TOP + _LANE * len(lanes) + 36
    across = WIDTH - _LEFT - _RIGHT - 20

    def x_of(millis: int) -> float:
        return _LEFT + 10 + across * (millis - first) / (last - first)

    def body() -> Iterator[str]:
        for n, lane in enumerate(lanes):
            y = _TOP + 24 + n * _LANE
            shown = lane.name if len(lane.name) <= _SIGNS else f"{lane.name[: _SIGNS - 1]}…"
            yield _text(_LEFT - 8, y + 4, shown, anchor="end", kind="tick")
            yield f'<line x1="{_LEFT}" y1="{y}" x2="{WIDTH - _RIGHT}" y2="{y}" class="axis"/>'
            yield from (_mark(r, x_of(r.snapshot.time_millis), y, zone) for r in _thinned(lane.refs))
        y = _TOP + 24 + len(lanes) * _LANE
        yield _text(_LEFT, y + 4, time_text(first, zone), anchor="start", kind="tick")
        yield _text(WIDTH - _RIGHT, y + 4, time_text(last, zone), anchor="end", kind="tick")

    return _svg(height, "Snapshots and tags by commit time", body())


def _branches(e: Examined) -> list[str]:
    others = sorted({r.branch for r in e.refs} - {e.table.branch})
    return [e.table.branch, *others] if any(r.branch == e.table.branch for r in e.refs) else others


def _thinned(refs: Sequence[ProtectingRef]) -> Iterator[ProtectingRef]:
    """Yield tags, and of very many snapshots an even choice that has the newest."""
    tags = [r for r in refs if r.kind is RefKind.TAG]
    others = sorted((r for r in refs if r.kind is not RefKind.TAG), key=lambda r: r.snapshot.id)
    step = -(-len(others) // MOST_SNAPSHOTS) or 1
    yield from others[::-step][::-1]
    yield from tags[:MOST_SNAPSHOTS]


def _mark(ref: ProtectingRef, x: float, y: float, zone: tzinfo) -> str:
    s = ref.snapshot
    title = escape(f"{ref.label}: {s.operation or s.commit_kind}, {time_text(s.time_millis, zone)}")
    if ref.kind is RefKind.TAG:
        points = f"{x:.1f},{y - 5} {x - 5:.1f},{y - 15} {x + 5:.1f},{y - 15}"
        return f'<polygon points="{points}" class="tag"><title>{title}</title></polygon>'
    kind = "changelog" if ref.kind is RefKind.CHANGELOG else str(s.commit_kind).lower()
    return f'<circle cx="{x:.1f}" cy="{y}" r="4" class="{kind}"><title>{title}</title></circle>'
