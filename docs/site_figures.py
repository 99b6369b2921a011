"""The page with the figures of the benchmarks, made from their JSON files: tables and charts."""

from __future__ import annotations

import html
import json
import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import site_home

FOLDER = Path(__file__).parent / "benchmarks"
# The titles of files, in the order of the page; other files with ratios follow.
TITLES = {
    "cpu": "Sampling and resizing",
    "shapes": "Shapes of models",
    "models": "Training steps of models",
    "resize-1-thread": "Resizing",
    "antialiasing": "Antialiased warps",
    "cpu-intel": "Sampling and resizing on an Intel Xeon",
    "shapes-intel": "Shapes of models on an Intel Xeon",
    "gpu": "GPU",
}
# Files with fewer figures are listed case by case; cpu.md lists the others.
FEW = 200


class Figure(NamedTuple):
    """One comparison: a peer's time divided by ours."""

    case: str
    threads: int
    peer: str
    ms: float
    ratio: float


def figures(record: dict[str, Any]) -> Iterator[Figure]:
    """All comparisons of a file."""
    for row in record["rows"]:
        threads = row.get("threads", record.get("threads", 1))
        kind = f" ({row['kind']})" if "kind" in row else ""
        peers = row.get("peers", {row.get("peer", "torch"): row})
        for peer, result in peers.items():
            if result.get("ratio"):
                yield Figure(row["case"] + kind, threads, peer, row["ms"], result["ratio"])


def groups(comparisons: list[Figure]) -> dict[tuple[str, int], list[Figure]]:
    """Figures by peer and number of threads."""
    by: dict[tuple[str, int], list[Figure]] = {}
    for figure in comparisons:
        by.setdefault((figure.peer, figure.threads), []).append(figure)
    return dict(sorted(by.items(), key=lambda pair: (-len(pair[1]), pair[0])))


def summary(by: dict[tuple[str, int], list[Figure]]) -> str:
    """A table with a line for each peer and number of threads."""
    lines = ["| against | threads | cases | geometric mean | lowest | highest | at least as fast |"]
    lines.append("|---|--:|--:|--:|--:|--:|--:|")
    for (peer, threads), some in by.items():
        ratios = [figure.ratio for figure in some]
        mean, as_fast = statistics.geometric_mean(ratios), sum(ratio >= 1 for ratio in ratios)
        lines.append(
            f"| {peer} | {threads} | {len(some)} | {mean:.2f} | {min(ratios):.2f} "
            f"| {max(ratios):.2f} | {as_fast} of {len(some)} |"
        )
    return "\n".join(lines)


def ends(by: dict[tuple[str, int], list[Figure]]) -> tuple[int, int]:
    """The powers of two between which all ratios lie, and 1."""
    logarithms = [math.log2(figure.ratio) for some in by.values() for figure in some]
    return math.floor(min(0.0, *logarithms)), math.ceil(max(1.0, *logarithms))


def chart(title: str, by: dict[tuple[str, int], list[Figure]]) -> str:
    """A dot for each ratio, on a logarithmic axis, in a line for each peer and thread count.

    Places along the axis are percentages, so that letters and dots keep their size on a phone.
    """
    step, low_end, high_end, (low, high) = 44, 6, 94, ends(by)
    height = step * len(by) + 24

    def x(ratio: float) -> str:
        return f"{low_end + (high_end - low_end) * (math.log2(ratio) - low) / (high - low):.2f}%"

    label = html.escape(title)
    parts = [f'<svg class="chart" height="{height}" role="img" aria-label="{label}">']
    for k in range(low, high + 1):
        strong, place = ' class="one"' if k == 0 else "", x(2.0**k)
        parts.append(f'<line{strong} x1="{place}" x2="{place}" y1="0" y2="{height - 20}"/>')
        if k % 2 == 0 or high - low < 6:
            parts.append(f'<text x="{place}" y="{height - 6}" class="tick">{2.0**k:.3g}</text>')
    for i, ((peer, threads), some) in enumerate(by.items()):
        y = step * i + 30
        words = f"{html.escape(peer)}, {threads} thread{'s' * (threads > 1)}"
        parts.append(f'<text x="0" y="{y - 14}" class="name">{words}</text>')
        dots = (
            f'<circle cx="{x(figure.ratio)}" cy="{y}" r="3.5">'
            f"<title>{html.escape(figure.case)}: {figure.ratio:.2f}</title></circle>"
            for figure in some
        )
        parts.append("".join(dict.fromkeys(dots)))
        mean = x(statistics.geometric_mean(figure.ratio for figure in some))
        parts.append(f'<line class="mean" x1="{mean}" x2="{mean}" y1="{y - 9}" y2="{y + 9}"/>')
    return "".join([*parts, "</svg>"])


def listing(comparisons: list[Figure]) -> str:
    """A table with a line for each figure."""
    lines = ["| case | threads | against | ms | their time / ours |", "|---|--:|---|--:|--:|"]
    lines += (
        f"| {row.case} | {row.threads} | {row.peer} | {row.ms:.3g} | {row.ratio:.2f} |"
        for row in comparisons
    )
    return "\n".join(lines)


def measured_on(record: dict[str, Any]) -> str:
    """A sentence on the machine and the versions of a file."""
    machine, versions = record.get("machine"), record.get("versions", {})
    if not machine:
        return "The machine was not recorded."
    if isinstance(machine, dict):
        machine = ", ".join(
            f"{value} cores" if key == "cores" else f"Python {value}" if key == "python" else value
            for key, value in machine.items()
        )
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"Measured on {machine}; {listed}."


def intel() -> str:
    """The same on another machine, in a table."""
    here, there = site_home.lines(), site_home.lines("cpu-intel")
    rows = [
        "| geometric mean, one thread | AMD EPYC (Zen 4) | Intel Xeon (Emerald Rapids) |",
        "|---|--:|--:|",
    ]
    rows += (
        f"| {a.peer}: {a.what} | {site_home.short(a.mean)} | {site_home.short(b.mean)} |"
        for a, b in zip(here, there, strict=True)
    )
    return "\n".join(rows)


def page() -> str:
    """The page, in Markdown."""
    first = site_home.lines()[0]
    torch = f"**{site_home.short(first.mean)} times as fast as torch**"
    cpu = json.loads((FOLDER / "cpu.json").read_text(encoding="utf-8"))
    processor = cpu["machine"]["processor"].partition(" (")[0]
    parts = [
        "# How fast?",
        f"On one thread of an {processor}, {torch} in the forward pass: the geometric mean of "
        f"{len(first.ratios)} cases, from {min(first.ratios):.2f} to {max(first.ratios):.0f}.",
        site_home.chart(),
        "A bar ends at the geometric mean of the cases, each dot is a case, and those in "
        '<span class="slow">this colour</span> are slower than their peer. Results must agree '
        "before they are timed: [method and results](README.md), [all cases](cpu.md). This page is "
        "made from the JSON files in `docs/benchmarks` when the site is built. A ratio is a peer's "
        "time divided by `gridsample`'s.",
        intel(),
    ]
    names = sorted(
        (path.stem for path in FOLDER.glob("*.json")), key=lambda name: [*TITLES, name].index(name)
    )
    for name in names:
        record = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
        comparisons = list(figures(record))
        if not comparisons:
            continue
        title, by = TITLES.get(name, name), groups(comparisons)
        parts += [f"## {title}", measured_on(record), chart(title, by)]
        parts.append(summary(by))
        if len(comparisons) < FEW:
            parts += [f"### {title}: all {len(comparisons)} cases", listing(comparisons)]
        elif (FOLDER / f"{name}.md").exists():
            parts.append(f"[All cases]({name}.md)")
    return "\n\n".join(parts) + "\n"
