"""Time the GPU kernels beside torch's, on a GPU.

    python -m benchmarks --device cuda                 every case, in a table
    python -m benchmarks --device cuda --only 3d       those with this in their name
    python -m benchmarks --device cuda --json FILE     write the figures there

Outputs are compared before anything is timed.  Contenders run in turn, timed by CUDA events; a
ratio is torch's time over ours.  "Of copy" is the share of the copy bandwidth, measured in the same
run, that the bytes a case has to touch once stand for.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Tensor = Any
Call = Callable[[], tuple[Tensor, ...]]

# What the ratios must reach: the geometric mean of a group, and each of its cases.
GOALS = {
    "forward": (1.5, 1.0),
    "backward": (2.0, None),
    "double backward": (10.0, None),
    "channels-last forward": (3.0, None),
    "channels-last backward": (3.0, None),
}
SHARE = 0.7  # of the copy bandwidth, in smooth large cases
LIMIT = 500  # seconds after which no case is begun


@dataclass(frozen=True)
class Case:
    """One call to time.

    Attributes:
        shape: the image, (N, C, *spatial).
        points: points of an item; as many as pixels, of a turned grid, if it is None.
        direction: "forward", "backward" (both gradients) or "double backward".
        mode: "nearest", "bilinear" or "bicubic".
        last: whether the channels of a pixel lie side by side.
        dtype: of the image and the grid.
        smooth: whether neighbours sample neighbours.
        deterministic: whether gradients are to be the same in every run.
    """

    shape: tuple[int, ...]
    points: int | None = None
    direction: str = "forward"
    mode: str = "bilinear"
    last: bool = False
    dtype: str = "float32"
    smooth: bool = True
    deterministic: bool = False

    @property
    def group(self) -> str:
        """The cases it is judged with."""
        return f"channels-last {self.direction}" if self.last else self.direction

    @property
    def name(self) -> str:
        """A short name, the same in every run."""
        size = "x".join(map(str, self.shape))
        where = f"{self.points} points" if self.points else "turned"
        parts = [size, where, self.mode, self.dtype, self.direction]
        parts += ["channels-last"] if self.last else []
        parts += [] if self.smooth else ["random"]
        return " ".join([*parts, "deterministic"] if self.deterministic else parts)

    @property
    def count(self) -> int:
        """Points of all items."""
        return self.shape[0] * (self.points or math.prod(self.shape[2:]))

    @property
    def bytes(self) -> int:
        """Input, grid and output touched once; with their gradients, twice."""
        size = 2 if self.dtype in ("float16", "bfloat16") else 4
        channels, pixels = self.shape[1], self.shape[0] * math.prod(self.shape[2:])
        # No more of an image can be touched than its points' taps.
        touched = min(pixels, self.count * 2 ** len(self.shape[2:]))
        once = channels * (touched + self.count) + self.count * len(self.shape[2:])
        return size * once * {"forward": 1, "backward": 2, "double backward": 4}[self.direction]


LARGE = (
    *((8, 64, 512, 512), (64, 64, 512, 512), (4, 32, 128, 128, 128), (32, 3, 1024, 1024)),
    (1, 1, 256, 256, 256),
)
POINTS = (
    Case((1, 1024, 64, 64), 10_000, smooth=False),
    Case((8, 256, 64, 64), 32_768, smooth=False),
    Case((3, 32, 512, 512), 4_000_000, smooth=False),
)


def every_case() -> Iterator[Case]:
    """All cases."""
    for shape in LARGE:
        yield Case(shape)
        yield Case(shape, smooth=False)
    yield from POINTS
    yield Case(LARGE[3], mode="nearest")
    yield Case(LARGE[3], mode="bicubic")
    yield Case(LARGE[0], dtype="float16")
    yield Case(LARGE[0], dtype="bfloat16")
    for shape in (LARGE[0], LARGE[2], LARGE[3], LARGE[4]):
        yield Case(shape, direction="backward")
        yield Case(shape, direction="backward", deterministic=True)
    for case in POINTS:
        yield Case(case.shape, case.points, "backward", smooth=False)
    yield Case(LARGE[3], direction="backward", mode="bicubic")
    for shape in ((4, 16, 256, 256), (1, 1, 96, 96, 96)):
        yield Case(shape, direction="double backward")
    for direction in ("forward", "backward"):
        for shape in (LARGE[0], LARGE[2]):
            yield Case(shape, direction=direction, last=True)
        for case in POINTS:
            yield Case(case.shape, case.points, direction, last=True, smooth=False)


def inputs(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    """Image, grid and upstream gradient, made on the GPU."""
    import torch

    generator = torch.Generator("cuda").manual_seed(len(case.name))
    make = {"device": "cuda", "dtype": getattr(torch, case.dtype)}
    items, channels, *spatial = case.shape
    out = [case.points] if case.points else spatial
    image = torch.rand(case.shape, generator=generator, **make)
    if case.smooth:
        rank = len(spatial)
        turn = torch.eye(rank, rank + 1, device="cuda").repeat(items, 1, 1)
        turn[:, :2, :2] = torch.tensor([[0.866, -0.5], [0.5, 0.866]], device="cuda")
        size = [items, 1, *spatial]
        grid = torch.nn.functional.affine_grid(turn, size, align_corners=False).to(make["dtype"])
    else:
        shape = (items, *out, len(spatial))
        grid = torch.rand(shape, generator=generator, **make) * 2 - 1
    upstream = torch.rand((items, channels, *out), generator=generator, **make)
    if case.last:
        image, upstream = (t.movedim(1, -1).contiguous().movedim(-1, 1) for t in (image, upstream))
    return image, grid.contiguous(), upstream


def call(case: Case, sample: Callable[[Tensor, Tensor], Tensor], *tensors: Tensor) -> Call:
    """The case with one of the two functions."""
    import torch

    image, grid, upstream = (tensor.detach() for tensor in tensors)
    if case.direction == "forward":
        return lambda: (sample(image, grid),)
    leaves = image.requires_grad_(), grid.requires_grad_()
    out = sample(*leaves)
    if case.direction == "backward":
        return lambda: torch.autograd.grad(out, leaves, upstream, retain_graph=True)
    upstream = upstream.requires_grad_()
    first = torch.autograd.grad(out, leaves, upstream, create_graph=True)
    directions = [torch.ones_like(one) for one in first]
    return lambda: torch.autograd.grad(first, (*leaves, upstream), directions, retain_graph=True)


def ours(case: Case) -> Callable[[Tensor, Tensor], Tensor]:
    """Our function."""
    import gridsample

    return lambda image, grid: gridsample.grid_sample(image, grid, case.mode)


def torchs(case: Case) -> Callable[[Tensor, Tensor], Tensor]:
    """Torch's function; it wants a grid of the image's rank."""
    import torch

    def sample(image: Tensor, grid: Tensor) -> Tensor:
        shape = grid.shape[1:-1]
        missing = image.dim() - grid.dim()
        grid = grid.reshape(grid.shape[0], *(1,) * missing, *grid.shape[1:])
        out = torch.nn.functional.grid_sample(image, grid, case.mode, align_corners=False)
        return out.reshape(*out.shape[:2], *shape)

    return sample


def agree(case: Case, mine: tuple[Tensor, ...], theirs: tuple[Tensor, ...]) -> float:
    """The greatest difference relative to the scale; an error where it is more than rounding.

    A point on a pixel's edge to rounding may be on either side: at most one in ten thousand.
    """
    slack = 2e-2 if case.dtype in ("float16", "bfloat16") else 1e-3
    worst = 0.0
    for a, b in zip(mine, theirs, strict=True):
        difference = (a.float() - b.float()).abs_() / b.abs().max().float()
        if (difference > slack).float().mean() > 1e-4:
            sys.exit(f"{case.name}: the results differ by up to {float(difference.max()):.2g}")
        worst = max(worst, float(difference.mean()))
    return worst


def milliseconds(function: Callable[[], Any]) -> float:
    """The time of one call, on the GPU."""
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    function()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end))


def interleave(a: Call, b: Call, seconds: float) -> tuple[list[float], list[float]]:
    """Times of two calls, in turn, for about so long."""
    times: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + seconds
    while len(times[0]) < 5 or (time.perf_counter() < end and len(times[0]) < 50):
        for function, spent in zip((a, b), times, strict=True):
            spent.append(milliseconds(function))
    return times


def copy_bandwidth() -> float:
    """Bytes a second that a copy of 1 GiB reads and writes."""
    import torch

    source = torch.ones(1 << 28, device="cuda")
    target = torch.empty_like(source)
    best = min(milliseconds(lambda: target.copy_(source)) for _ in range(20))
    return 2 * source.nbytes / best * 1e3


def measure(case: Case, seconds: float, bandwidth: float) -> dict[str, Any]:
    """One row of the table."""
    import torch

    tensors = inputs(case)
    theirs = call(case, torchs(case), *tensors)
    torch.use_deterministic_algorithms(case.deterministic)
    try:
        mine = call(case, ours(case), *tensors)
        if case.deterministic:
            theirs = mine_by_default(case, tensors)
        difference = agree(case, mine(), theirs())
        a, b = interleave(toggled(mine, case.deterministic), toggled(theirs, False), seconds)
    finally:
        torch.use_deterministic_algorithms(False)
    return {
        "case": case.name, "group": case.group, "ms": statistics.median(a),
        "other": "ours by default" if case.deterministic else "torch",
        "other_ms": statistics.median(b),
        "ratio": statistics.median(y / x for x, y in zip(a, b, strict=True)),
        "difference": difference,
        "share_of_copy": case.bytes / bandwidth / statistics.median(a) * 1e3,
        "large_and_smooth": case.smooth and case.points is None, "runs": len(a),
    }  # fmt: skip


def mine_by_default(case: Case, tensors: tuple[Tensor, ...]) -> Call:
    """What a deterministic case is compared with: torch has nothing like it."""
    return call(case, ours(case), *tensors)


def toggled(function: Call, deterministic: bool) -> Call:
    """A call with torch's switch turned so."""
    import torch

    def run() -> tuple[Tensor, ...]:
        torch.use_deterministic_algorithms(deterministic)
        return function()

    return run


def verdicts(rows: list[dict[str, Any]]) -> Iterator[str]:
    """What was to be shown, and what was."""
    for group, (mean, least) in GOALS.items():
        ratios = {
            row["case"]: row["ratio"]
            for row in rows
            if row["group"] == group and row["other"] == "torch"
        }
        if not ratios:
            continue
        found = math.exp(statistics.fmean(map(math.log, ratios.values())))
        slow = [name for name, ratio in ratios.items() if least is not None and ratio < least]
        yield f"{group}: mean {found:.2f}, to be {mean}; below {least}: {slow or 'none'}"
    fixed = [row["ratio"] for row in rows if row["other"] != "torch"]
    if fixed:
        yield f"deterministic: at most {1 / min(fixed):.2f} times the default's time, to be 3"
    short = [
        f"{row['case']} {row['share_of_copy']:.0%}"
        for row in rows
        if row["large_and_smooth"] and row["share_of_copy"] < SHARE and row["other"] == "torch"
    ]
    yield f"large and smooth below {SHARE:.0%} of copy: {short or 'none'}"


def main(only: str, seconds: float, target: Path | None) -> None:
    """Run and print."""
    import torch

    if not torch.cuda.is_available():
        sys.exit("No CUDA GPU is to be seen by torch: nothing was timed.")
    began, bandwidth = time.perf_counter(), copy_bandwidth()
    device = torch.cuda.get_device_name()
    print(f"{device}, copy {bandwidth / 1e9:.0f} GB/s, torch {torch.__version__}\n")
    print(f"{'case':76}{'ours ms':>10}{'other ms':>10}{'ratio':>7}{'of copy':>9}")
    rows: list[dict[str, Any]] = []
    for case in every_case():
        if only not in case.name:
            continue
        if time.perf_counter() - began > LIMIT:
            print(f"{case.name}: left out after {LIMIT} s")
            continue
        try:
            row = measure(case, min(seconds, 2.0), bandwidth)
        except RuntimeError as error:  # does not fit this GPU, or is more than this torch can
            print(f"{case.name}: {str(error).splitlines()[0]}")
            continue
        finally:
            torch.cuda.empty_cache()
        rows.append(row)
        print(
            f"{row['case']:76}{row['ms']:10.3f}{row['other_ms']:10.3f}{row['ratio']:7.2f}"
            f"{row['share_of_copy']:9.0%}",
            flush=True,
        )
    print("", *verdicts(rows), sep="\n")
    if target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        told = {"device": device, "copy_bytes_per_second": bandwidth, "torch": torch.__version__}
        target.write_text(json.dumps({**told, "rows": rows}, indent=1) + "\n")
