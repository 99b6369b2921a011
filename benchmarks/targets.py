"""The targets, as a table, and whether the rows of a run reach them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.cases import DERIVATIVES, HALVES, LARGE, TINY, Case
from benchmarks.measuring import Row
from benchmarks.peers import OPENCV_NAMES

Value = Callable[[Row], float | None]


def case_of(row: Row) -> Case:
    """The case of a row."""
    fields = dict(row["what"])
    return Case(**{**fields, "shape": tuple(fields["shape"])})


def ratio_of(peer: str) -> Value:
    """A function of a row: a peer's time over ours."""
    return lambda row: row["peers"].get(peer, {}).get("ratio")


def precision_of(peer: str) -> Value:
    """A function of a row: a peer's error over ours, where errors below half an ulp are equal."""
    ulp = 2.0**-24

    def value(row: Row) -> float | None:
        theirs = row["peers"].get(peer, {}).get("error")
        if not theirs or not row["error"]:
            return None
        return round(float(max(theirs["rms"], ulp) / max(row["error"]["rms"], ulp)), 4)

    return value


@dataclass(frozen=True)
class Target:
    """A requirement for a number of some rows.

    Attributes:
        text: a description.
        value: the number of a row; None where it has none.
        applies: whether a case counts.
        threads: "one", "all" or "" for both.
        mean: the least geometric mean.
        least: the least value.
        greatest: the largest value.
        unit: the unit of the numbers.
    """

    text: str
    value: Value
    applies: Callable[[Case], bool]
    threads: str = ""
    mean: float | None = None
    least: float | None = None
    greatest: float | None = None
    unit: str = ""

    @property
    def requirement(self) -> str:
        """The limits in words."""
        limits = (("mean >=", self.mean), ("each >=", self.least), ("each <=", self.greatest))
        return ", ".join(
            f"{word} {limit:g}{self.unit}" for word, limit in limits if limit is not None
        )


@dataclass(frozen=True)
class Outcome:
    """The measured values of a target.

    Attributes:
        target: the target.
        values: the numbers by case and number of threads.
    """

    target: Target
    values: dict[str, float]

    @property
    def mean(self) -> float:
        """The geometric mean of ratios; of amounts, which may be 0, the mean."""
        if self.target.unit:
            return statistics.fmean(self.values.values())
        return geometric_mean(self.values.values())

    @property
    def worst(self) -> tuple[str, float]:
        """The case with the worst value."""
        pick = min if self.target.greatest is None else max
        return pick(self.values.items(), key=lambda item: item[1])

    @property
    def short(self) -> dict[str, float]:
        """The cases beyond a limit for each value."""
        low = -math.inf if self.target.least is None else self.target.least
        high = math.inf if self.target.greatest is None else self.target.greatest
        return {name: value for name, value in self.values.items() if not low <= value <= high}

    @property
    def reached(self) -> bool:
        """Whether all limits are kept."""
        return not self.short and (self.target.mean is None or self.mean >= self.target.mean)


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean of positive numbers."""
    return math.exp(statistics.fmean(map(math.log, values)))


def sampled(case: Case) -> bool:
    """Whether a case is plain sampling of many points, in single or double precision."""
    samples = case.operation == "sample" and case.dtype in ("float32", "float64")
    usual = case.shape != TINY and case.grid != "outside"
    return samples and usual and case.direction not in ("step", "double", "jvp")


def affine(case: Case) -> bool:
    """Whether a case samples by a matrix, without derivatives."""
    return case.operation == "affine" and case.direction == "forward"


def overhead(tensors: bool, direction: str) -> Callable[[Case], bool]:
    """Whether a case samples 16 points, which takes the time of a call."""
    return lambda case: (
        case.shape == TINY and case.tensors == tensors and case.direction == direction
    )


def microseconds(row: Row) -> float:
    """Our time in microseconds."""
    return float(row["ms"] * 1e3)


TARGETS = (
    Target(
        "torch, forward, one thread",
        ratio_of("torch"),
        lambda case: sampled(case) and case.direction == "forward",
        threads="one", mean=3.5, least=1.0,
    ),
    Target(
        "torch, gradients, one thread",
        ratio_of("torch"),
        lambda case: sampled(case) and case.direction in DERIVATIVES,
        threads="one", mean=3.2, least=1.0,
    ),
    Target(
        "torch, three of four points outside, one thread",
        ratio_of("torch"),
        lambda case: case.grid == "outside",
        threads="one", mean=2.0, least=1.0,
    ),
    Target(
        "torch, batch of one, all cores",
        ratio_of("torch"),
        lambda case: sampled(case) and case.shape[0] == 1,
        threads="all", mean=4.0,
    ),
    Target(
        "torch, double backward",
        ratio_of("torch"),
        lambda case: case.direction == "double",
        mean=10.0, least=6.0,
    ),
    Target(
        "torch, channels-last, C >= 16, one thread",
        ratio_of("torch"),
        lambda case: sampled(case) and case.last and case.shape[1] >= 16,
        threads="one", least=4.0,
    ),
    Target(
        "torch, float16 and bfloat16",
        ratio_of("torch"),
        lambda case: case.dtype in HALVES,
        mean=4.0,
    ),
    Target(
        "OpenCV's remap, warpAffine and warpPerspective",
        ratio_of("OpenCV"),
        lambda case: case.operation in OPENCV_NAMES,
        mean=1.9, least=1.0,
    ),
    Target(
        "OpenCV's remap, its error over ours",
        precision_of("OpenCV"),
        lambda case: case.operation == "remap",  # at exactly the same positions
        least=1.0,
    ),
    Target(
        "JAX, compiled, forward, same threads",
        ratio_of("JAX"),
        lambda case: case.direction == "forward",
        mean=1.3, least=1.0,
    ),
    Target(
        "JAX, compiled, gradients, same threads",
        ratio_of("JAX"),
        lambda case: case.direction != "forward",
        mean=5.0, least=1.0,
    ),
    Target(
        "SciPy's map_coordinates, affine_transform and zoom, one thread",
        ratio_of("SciPy"),
        lambda case: case.operation in ("map_coordinates", "affine_transform", "zoom"),
        threads="one", mean=7.0, least=4.0,
    ),
    Target(
        "scikit-image's resize of a volume to 200 x 200 x 200, one thread",
        ratio_of("scikit-image"),
        lambda case: case.operation == "skimage" and case.rank == 3,
        threads="one", least=15.0,
    ),
    Target(
        "share of copy, 2048 x 2048 linear rotation, all cores",
        lambda row: float(row["share_of_copy"] * 100),
        lambda case: case == Case(LARGE),
        threads="all", least=40.0, unit=" %",
    ),
    Target(
        "affine, 3-D, against affine_grid + grid_sample",
        ratio_of("torch"),
        lambda case: affine(case) and case.rank == 3,
        least=5.0,
    ),
    Target(
        "affine, 2-D, against affine_grid + grid_sample",
        ratio_of("torch"),
        lambda case: affine(case) and case.rank == 2,
        least=3.0,
    ),
    Target(
        "affine, memory beside the results",
        lambda row: None if row["extra_bytes"] is None else row["extra_bytes"] / 2**20,
        affine,
        greatest=1.0, unit=" MB",
    ),
    Target(
        "16 points, array",
        microseconds,
        overhead(False, "forward"),
        "one", greatest=12.0, unit=" us",
    ),
    Target(
        "16 points, tensor",
        microseconds,
        overhead(True, "forward"),
        "one", greatest=20.0, unit=" us",
    ),
    Target(
        "16 points, tensor, forward and backward",
        microseconds,
        overhead(True, "step"),
        "one", greatest=90.0, unit=" us",
    ),
)  # fmt: skip


def outcomes(rows: Sequence[Row], cores: int) -> Iterator[Outcome]:
    """The outcome of each target, without values where no row counts."""
    for target in TARGETS:
        thread_counts = {"one": {1}, "all": {cores}, "": {1, cores}}[target.threads]
        values = {}
        for row in rows:
            if row["threads"] in thread_counts and target.applies(case_of(row)):
                value = target.value(row)
                if value is not None:
                    values[f"{row['case']} ({row['threads']} t)"] = value
        yield Outcome(target, values)


def summary(rows: Sequence[Row], cores: int) -> Iterator[tuple[str, ...]]:
    """The cells of a row for each target, as in `SUMMARY_HEAD`."""
    for outcome in outcomes(rows, cores):
        target = outcome.target
        if not outcome.values:
            yield (target.text, target.requirement, "not measured", "", "", "")
            continue
        name, value = outcome.worst
        count = f"{len(outcome.values)}" + f", {len(outcome.short)} short" * bool(outcome.short)
        yield (
            target.text,
            target.requirement,
            "yes" if outcome.reached else "NO",
            count,
            f"{outcome.mean:.2f}{target.unit}" if value > 0 else "",
            f"{value:.2f}{target.unit}: {name}",
        )


SUMMARY_HEAD = ("against", "wanted", "reached", "cases", "mean", "worst")


def peers_summary(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """For each peer and number of threads: cases, geometric mean, least and greatest ratio."""
    keys: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        for peer, figures in row["peers"].items():
            keys.setdefault((peer, row["threads"]), []).append(figures["ratio"])
    for (peer, threads), ratios in sorted(keys.items(), key=lambda item: (item[0][1], item[0][0])):
        yield (
            peer,
            f"{threads}",
            f"{len(ratios)}",
            f"{geometric_mean(ratios):.2f}",
            f"{min(ratios):.2f}",
            f"{max(ratios):.2f}",
        )


PEERS_HEAD = ("peer", "threads", "cases", "mean", "least", "greatest")


def lines_of(head: Sequence[str], rows: Iterable[Sequence[Any]], markdown: bool) -> Iterator[str]:
    """A table as lines of text."""
    table = [tuple(map(str, row)) for row in (head, *rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    for i, row in enumerate(table):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield "| " + " | ".join(cells) + " |" if markdown else "  ".join(cells).rstrip()
        if i == 0:
            rule = ["-" * width for width in widths]
            yield "| " + " | ".join(rule) + " |" if markdown else "  ".join(rule)
