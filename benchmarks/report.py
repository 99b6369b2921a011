"""The report of a run: a page with tables, and charts.

``python -m benchmarks.report [FOLDER]`` writes it again from the figures in docs/benchmarks, or in
another folder, without measuring.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.cases import HALVES, TINY, Case
from benchmarks.measuring import Row
from benchmarks.record import Record, source
from benchmarks.targets import (
    PEERS_HEAD,
    SUMMARY_HEAD,
    case_of,
    geometric_mean,
    lines_of,
    outcomes,
    peers_summary,
    summary,
)


def heading(record: Record) -> Iterator[str]:
    """Lines with the machine, the versions and the bandwidth."""
    machine = record.machine
    yield (
        f"{machine['processor']}, {machine['cores']} cores, {machine['system']}, "
        f"Python {machine['python']}"
    )
    yield ", ".join(f"{name} {version}" for name, version in record.versions.items())
    for threads, speed in sorted(record.bandwidth.items()):
        yield f"A copy reads and writes {speed / 1e9:.1f} GB/s on {threads} thread(s)."


TABLE_HEAD = ("case", "threads", "ms", "of copy", "peers: ms, ratio", "error", "memory, MB")


def cells(row: Row) -> tuple[str, ...]:
    """The cells of a row of the table."""
    peers = [
        f"{name} {figures['ms']:.4g}, **{figures['ratio']:.2f}**"
        for name, figures in row["peers"].items()
    ]
    peers += [f"{name}: {why}" for name, why in {**row["left_out"], **row["differ"]}.items()]
    errors = {"": row["error"]} | {name: figures["error"] for name, figures in row["peers"].items()}
    memory = {"": row["extra_bytes"]}
    memory |= {name: figures.get("extra_bytes") for name, figures in row["peers"].items()}
    return (
        row["case"],
        str(row["threads"]),
        f"{row['ms']:.4g}",
        f"{row['share_of_copy']:.0%}",
        "; ".join(peers).replace("|", "/").replace("\n", " "),
        beside_ours(errors, lambda error: f"{error['rms']:.1e}"),
        beside_ours(memory, lambda number: f"{number / 1e6:.1f}"),
    )


def beside_ours(values: dict[str, Any], text: Callable[[Any], str]) -> str:
    """Our value and those of the peers with their names, without missing ones."""
    known = {name: text(value) for name, value in values.items() if value is not None}
    return ", ".join(f"{name} {value}".strip() for name, value in known.items())


def page(record: Record) -> str:
    """The page as Markdown."""
    rows, cores = list(record.rows.values()), record.machine["cores"]
    outdated = sum(row["source"] != source() for row in rows)
    lines = ["# Figures on the CPU", "", "Written by `python -m benchmarks`; see README.md.", ""]
    lines += [f"* {line}" for line in heading(record)]
    lines += [f"* {outdated} of {len(rows)} rows are of another state of the source."] * bool(
        outdated
    )
    lines += ["", "![Ratios](cpu.png)", "", "## Targets", ""]
    lines += [*lines_of(SUMMARY_HEAD, summary(rows, cores), True), ""]
    lines += ["## Missed targets", "", *short(rows, cores), "", "## Peers", ""]
    lines += [*lines_of(PEERS_HEAD, peers_summary(rows), True), "", "## Cases", ""]
    lines += [
        "A ratio is the peer's time divided by ours.  An error is the root mean square difference"
    ]
    lines += ["from float64, relative to the image's range.  Memory does not include the results."]
    lines += ["", *lines_of(TABLE_HEAD, map(cells, rows), True)]
    return "\n".join(lines) + "\n"


def short(rows: Sequence[Row], cores: int) -> Iterator[str]:
    """An item for each target that is not reached, and the cases that miss it, worst first."""
    for outcome in outcomes(rows, cores):
        cases = sorted(outcome.short.items(), key=lambda item: item[1])
        if outcome.values and not outcome.reached:
            named = "; ".join(f"{name} {value:.2f}" for name, value in cases)
            mean = f"mean {outcome.mean:.2f}" if outcome.target.mean is not None else ""
            yield f"* {outcome.target.text}: " + "; ".join(filter(None, (mean, named)))


GROUPS = {
    "arrays, forward": lambda case: case.direction == "forward",
    "arrays, gradients": lambda case: case.direction in ("input", "grid", "both"),
    "second derivatives, jvp": lambda case: case.direction in ("double", "jvp"),
    "training step": lambda case: case.direction == "step",
}
OPERATIONS = {
    "affine": "affine, no grid",
    "resize": "resizing",
    "remap": "OpenCV's names",
    "warpAffine": "OpenCV's names",
    "map_coordinates": "SciPy's names",
    "affine_transform": "SciPy's names",
    "zoom": "SciPy's names",
    "skimage": "scikit-image's names",
}


def group_of(case: Case) -> str:
    """The name of the chart's line that shows a case."""
    if case.operation in OPERATIONS:
        return OPERATIONS[case.operation]
    if case.shape == TINY:
        return "16 points"
    if case.dtype in HALVES:
        return "half precision"
    if case.last:
        return "channels-last" if case.shape[1] > 4 else "pictures (H, W, C)"
    if case.dtype == "uint8":
        return "pictures (H, W, C)"
    return next(name for name, holds in GROUPS.items() if holds(case))


TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)


class Line(NamedTuple):
    """A line of a chart: its name, the ratios on it, and their colour."""

    name: str
    ratios: list[float]
    color: str


def draw(panel: Any, lines: Sequence[Line]) -> None:
    """A dot for each ratio and a bar for their mean.  The axis reaches as far as the ratios do."""
    for y, line in enumerate(reversed(lines)):
        if line.ratios:
            at = [y] * len(line.ratios)
            panel.plot(line.ratios, at, "o", color=line.color, alpha=0.45, ms=5, mew=0)
            panel.plot([geometric_mean(line.ratios)], [y], "|", color="black", ms=13, mew=2)
    panel.axvline(1, color="black", lw=1)
    panel.set_xscale("log")
    panel.set_xlabel("peer's time / ours (right of 1 we are faster; bar: geometric mean)")
    panel.grid(axis="x", which="both", color="0.9")
    panel.set_axisbelow(True)
    low, high = panel.get_xlim()
    ticks = [tick for tick in TICKS if low <= tick <= high]
    panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.set_xticks([], minor=True)
    panel.set_yticks(range(len(lines)), [line.name for line in reversed(lines)])


def save(figure: Any, record: Record, peers: Sequence[str], path: Path) -> None:
    """Write a chart, with the machine and the versions below it."""
    named = ", ".join(f"{peer} {record.versions.get(peer, '')}".strip() for peer in peers)
    words = f"{record.machine['processor']}; {named}"
    figure.text(0.995, -0.005, words, ha="right", va="top", fontsize=7, color="0.35")
    figure.savefig(path, dpi=110, bbox_inches="tight")


def palette(peers: Sequence[str]) -> dict[str, str]:
    """A colour for each peer."""
    from matplotlib import rcParams

    return dict(zip(peers, rcParams["axes.prop_cycle"].by_key()["color"], strict=False))


def chart(record: Record, path: Path) -> None:
    """A dot for each ratio, on a line for each group and peer; a panel for each setting."""
    from matplotlib.figure import Figure

    rows = [row for row in record.rows.values() if row["peers"]]
    if not rows:
        return
    threads = sorted({row["threads"] for row in rows})
    pairs = sorted({(group_of(case_of(row)), peer) for row in rows for peer in row["peers"]})
    peers = sorted({peer for _, peer in pairs})
    colors = palette(peers)
    size = (5.6 * len(threads) + 2.4, 0.3 * len(pairs) + 1.9)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(threads), sharey=True, sharex=True, squeeze=False)[0]
    for panel, count in zip(panels, threads, strict=True):
        lines = [
            Line(f"{group} · {peer}", ratios_of(rows, count, group, peer), colors[peer])
            for group, peer in pairs
        ]
        draw(panel, lines)
        panel.set_title(f"{count} thread{'s' * (count > 1)}")
    figure.suptitle("gridsample against its peers, a dot for each case", fontsize=12)
    save(figure, record, peers, path)


def peer_lines(record: Record, threads: int = 1) -> list[Line]:
    """All ratios on a number of threads: a line for each peer, and two for torch."""
    ratios_by_name: dict[str, list[float]] = {}
    for row in record.rows.values():
        if row["threads"] != threads:
            continue
        direction = "forward" if case_of(row).direction == "forward" else "gradients"
        for peer, measured in row["peers"].items():
            name = f"torch, {direction}" if peer == "torch" else peer
            ratios_by_name.setdefault(name, []).append(measured["ratio"])
    colors = palette(sorted({name.split(",")[0] for name in ratios_by_name}))
    return [
        Line(f"{name} ({len(ratios)} cases)", ratios, colors[name.split(",")[0]])
        for name, ratios in sorted(ratios_by_name.items(), key=lambda pair: pair[0].lower())
    ]


def overview(record: Record, path: Path) -> None:
    """All ratios on one thread, on a line for each peer: the chart of README.md."""
    from matplotlib.figure import Figure

    lines = peer_lines(record)
    if not lines:
        return
    figure = Figure(figsize=(8, 0.34 * len(lines) + 1.1), layout="constrained")
    draw(figure.subplots(), lines)
    save(figure, record, sorted({line.name.split(" (")[0].split(",")[0] for line in lines}), path)


def ratios_of(rows: Sequence[Row], threads: int, group: str, peer: str) -> list[float]:
    """The ratios that one line of the chart shows."""
    return [
        row["peers"][peer]["ratio"]
        for row in rows
        if row["threads"] == threads and peer in row["peers"] and group_of(case_of(row)) == group
    ]


def keep(record: Record) -> None:
    """Write the page and the charts beside the figures."""
    record.path.with_suffix(".md").write_text(page(record))
    chart(record, record.path.with_suffix(".png"))
    overview(record, record.path.with_name("peers.png"))


if __name__ == "__main__":
    default = Path(__file__).parents[1] / "docs/benchmarks"
    path = Path(sys.argv[1] if len(sys.argv) > 1 else default) / "cpu.json"
    stored = Record(path, resume=False)
    stored.show(json.loads(path.read_text(encoding="utf-8")))
    keep(stored)
