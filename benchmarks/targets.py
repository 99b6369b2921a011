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
    """The case that a row is of."""
    fields = dict(row["what"])
    return Case(**{**fields, "shape": tuple(fields["shape"])})


def ratio_of(peer: str) -> Value:
    """A peer's time over ours."""
    return lambda row: row["peers"].get(peer, {}).get("ratio")


def precision_of(peer: str) -> Value:
    """A peer's error over ours, to four digits; below half an ulp of the range is all the same."""
    ulp = 2.0**-24

    def value(row: Row) -> float | None:
        theirs = row["peers"].get(peer, {}).get("error")
        if not theirs or not row["error"]:
            return None
        return round(float(max(theirs["rms"], ulp) / max(row["error"]["rms"], ulp)), 4)

    return value


@dataclass(frozen=True)
class Target:
    """Numbers of some rows, and what they must be.

    Attributes:
        text: what it is about.
        value: the number of a row; None where it has none.
        where: which cases count.
        threads: "one", "all" or "" for both.
        mean: what their geometric mean must reach.
        worst: what each must reach.
        most: what none may exceed.
        unit: of the numbers.
    """

    text: str
    value: Value
    where: Callable[[Case], bool]
    threads: str = ""
    mean: float | None = None
    worst: float | None = None
    most: float | None = None
    unit: str = ""

    @property
    def wanted(self) -> str:
        """In words."""
        limits = (("mean >=", self.mean), ("each >=", self.worst), ("each <=", self.most))
        return ", ".join(
            f"{word} {limit:g}{self.unit}" for word, limit in limits if limit is not None
        )


@dataclass(frozen=True)
class Outcome:
    """What became of a target.

    Attributes:
        target: the target.
        values: name of a case, with its threads, and its number.
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
        """The case that is farthest from what is wanted, or least far beyond."""
        pick = min if self.target.most is None else max
        return pick(self.values.items(), key=lambda item: item[1])

    @property
    def short(self) -> dict[str, float]:
        """The cases that fall short by themselves."""
        low = -math.inf if self.target.worst is None else self.target.worst
        high = math.inf if self.target.most is None else self.target.most
        return {name: value for name, value in self.values.items() if not low <= value <= high}

    @property
    def reached(self) -> bool:
        """Whether all holds."""
        return not self.short and (self.target.mean is None or self.mean >= self.target.mean)


def geometric_mean(values: Iterable[float]) -> float:
    """Of positive numbers."""
    return math.exp(statistics.fmean(map(math.log, values)))


def sampled(case: Case) -> bool:
    """Plain sampling, in single or double precision, of more than a few points."""
    plain = case.operation == "sample" and case.dtype in ("float32", "float64")
    usual = case.shape != TINY and case.grid != "outside"
    return plain and usual and case.direction not in ("step", "double", "jvp")


def affine(case: Case) -> bool:
    """Sampling by a matrix; not its derivatives."""
    return case.operation == "affine" and case.direction == "forward"


def overhead(tensors: bool, direction: str) -> Callable[[Case], bool]:
    """Calls on 16 points."""
    return lambda case: (
        case.shape == TINY and case.tensors == tensors and case.direction == direction
    )


def microseconds(row: Row) -> float:
    """Our time."""
    return float(row["ms"] * 1e3)


TARGETS = (
    Target(
        "torch, forward, one thread",
        ratio_of("torch"),
        lambda case: sampled(case) and case.direction == "forward",
        threads="one", mean=3.5, worst=1.0,
    ),
    Target(
        "torch, gradients, one thread",
        ratio_of("torch"),
        lambda case: sampled(case) and case.direction in DERIVATIVES,
        threads="one", mean=3.2, worst=1.0,
    ),
    Target(
        "torch, three of four points outside, one thread",
        ratio_of("torch"),
        lambda case: case.grid == "outside",
        threads="one", mean=2.0, worst=1.0,
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
        mean=10.0, worst=6.0,
    ),
    Target(
        "torch, channels-last, C >= 16, one thread",
        ratio_of("torch"),
        lambda case: sampled(case) and case.last and case.shape[1] >= 16,
        threads="one", worst=4.0,
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
        mean=1.9, worst=1.0,
    ),
    Target(
        "OpenCV's remap, its error over ours",
        precision_of("OpenCV"),
        lambda case: case.operation == "remap",  # of the very same positions
        worst=1.0,
    ),
    Target(
        "JAX, compiled, forward, same threads",
        ratio_of("JAX"),
        lambda case: case.direction == "forward",
        mean=1.3, worst=1.0,
    ),
    Target(
        "JAX, compiled, gradients, same threads",
        ratio_of("JAX"),
        lambda case: case.direction != "forward",
        mean=5.0, worst=1.0,
    ),
    Target(
        "SciPy's map_coordinates, affine_transform and zoom, one thread",
        ratio_of("SciPy"),
        lambda case: case.operation in ("map_coordinates", "affine_transform", "zoom"),
        threads="one", mean=7.0, worst=4.0,
    ),
    Target(
        "scikit-image's resize of a volume to 200 x 200 x 200, one thread",
        ratio_of("scikit-image"),
        lambda case: case.operation == "skimage" and case.rank == 3,
        threads="one", worst=15.0,
    ),
    Target(
        "share of copy, 2048 x 2048 linear rotation, all cores",
        lambda row: float(row["share_of_copy"] * 100),
        lambda case: case == Case(LARGE),
        threads="all", worst=40.0, unit=" %",
    ),
    Target(
        "affine, 3-D, against affine_grid + grid_sample",
        ratio_of("torch"),
        lambda case: affine(case) and case.rank == 3,
        worst=5.0,
    ),
    Target(
        "affine, 2-D, against affine_grid + grid_sample",
        ratio_of("torch"),
        lambda case: affine(case) and case.rank == 2,
        worst=3.0,
    ),
    Target(
        "affine, memory beside the results",
        lambda row: None if row["extra_bytes"] is None else row["extra_bytes"] / 2**20,
        affine,
        most=1.0, unit=" MB",
    ),
    Target(
        "16 points, array",
        microseconds,
        overhead(False, "forward"),
        "one", most=12.0, unit=" us",
    ),
    Target(
        "16 points, tensor",
        microseconds,
        overhead(True, "forward"),
        "one", most=20.0, unit=" us",
    ),
    Target(
        "16 points, tensor, forward and backward",
        microseconds,
        overhead(True, "step"),
        "one", most=90.0, unit=" us",
    ),
)  # fmt: skip


def outcomes(rows: Sequence[Row], cores: int) -> Iterator[Outcome]:
    """What became of each target; with no values where no row counts."""
    for target in TARGETS:
        wanted = {"one": {1}, "all": {cores}, "": {1, cores}}[target.threads]
        values = {}
        for row in rows:
            if row["threads"] in wanted and target.where(case_of(row)):
                value = target.value(row)
                if value is not None:
                    values[f"{row['case']} ({row['threads']} t)"] = value
        yield Outcome(target, values)


def summary(rows: Sequence[Row], cores: int) -> Iterator[tuple[str, ...]]:
    """A line of cells for each target: what, wanted, reached, how many, mean, worst."""
    for outcome in outcomes(rows, cores):
        target = outcome.target
        if not outcome.values:
            yield (target.text, target.wanted, "not measured", "", "", "")
            continue
        name, value = outcome.worst
        count = f"{len(outcome.values)}" + f", {len(outcome.short)} short" * bool(outcome.short)
        yield (
            target.text, target.wanted, "yes" if outcome.reached else "NO", count,
            f"{outcome.mean:.2f}{target.unit}" if value > 0 else "",
            f"{value:.2f}{target.unit}: {name}",
        )  # fmt: skip


SUMMARY_HEAD = ("against", "wanted", "reached", "cases", "mean", "worst")


def peers_summary(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """For each peer and number of threads: cases, geometric mean, least and greatest ratio."""
    keys: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        for peer, figures in row["peers"].items():
            keys.setdefault((peer, row["threads"]), []).append(figures["ratio"])
    for (peer, threads), ratios in sorted(keys.items(), key=lambda item: (item[0][1], item[0][0])):
        yield (
            peer, f"{threads}", f"{len(ratios)}", f"{geometric_mean(ratios):.2f}",
            f"{min(ratios):.2f}", f"{max(ratios):.2f}",
        )  # fmt: skip


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
