"""Times the GPU kernels against torch's, on a GPU.

    python -m benchmarks --device cuda                 every case, in a table
    python -m benchmarks --device cuda --only 3d       cases whose name contains a text
    python -m benchmarks --device cuda --json FILE     also write the figures
    python -m benchmarks.gpu                           every case with tiny inputs in Triton's
                                                       interpreter, without a GPU; times mean
                                                       nothing

Outputs are compared before anything is timed.  Contenders take turns, timed by CUDA events.  A
ratio is torch's time divided by ours.  Antialiased cases have other contenders: plain sampling of
one sample of all points at a time and, for affine maps, plain sampling on a finer grid and a mean.
"Of copy" is the bandwidth at which a case touches each of its bytes once, as a share of the copy
bandwidth measured in the same run.  "Visits" are reads of pixels and additions to them; they limit
the cases with a low share and many visits.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
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
LIMIT = 500  # seconds after which no further case starts


@dataclass(frozen=True)
class Case:
    """One call to time.

    Attributes:
        shape: the image, (N, C, *spatial).
        points: points of an item; if None, a rotated grid of as many points as pixels.
        direction: "forward", "backward" (both gradients) or "double backward".
        mode: "nearest", "bilinear" or "bicubic".
        boundary: the padding mode.
        last: whether the channels of a pixel are contiguous in memory.
        dtype: of the image and the grid.
        smooth: whether neighbouring points sample neighbouring pixels; random points otherwise.
        deterministic: whether torch's deterministic algorithms are required.
        shrink: pixels per point along each axis; the case is antialiased if it is not 1.
        affine: whether the points are given by an affine map instead of a grid.
    """

    shape: tuple[int, ...]
    points: int | None = None
    direction: str = "forward"
    mode: str = "bilinear"
    boundary: str = "zeros"
    last: bool = False
    dtype: str = "float32"
    smooth: bool = True
    deterministic: bool = False
    shrink: int = 1
    affine: bool = False

    @property
    def group(self) -> str:
        """The name of the group in which the case counts."""
        if self.shrink > 1:
            return f"antialiased {self.direction}"
        if self.shape in SMALL:
            return f"small {self.direction}"
        return f"channels-last {self.direction}" if self.last else self.direction

    @property
    def name(self) -> str:
        """A short name, the same in every run."""
        size = "x".join(map(str, self.shape))
        points_text = f"{self.points} points" if self.points else "turned"
        parts = [size, points_text, self.mode, self.dtype, self.direction]
        parts += [] if self.boundary == "zeros" else [self.boundary]
        parts += ["channels-last"] if self.last else []
        parts += [] if self.smooth else ["random"]
        parts += [f"antialiased {self.shrink}:1"] if self.shrink > 1 else []
        parts += ["affine"] if self.affine else []
        return " ".join([*parts, "deterministic"] if self.deterministic else parts)

    @property
    def count(self) -> int:
        """The number of points of all items."""
        return self.shape[0] * (self.points or math.prod(self.out))

    @property
    def out(self) -> tuple[int, ...]:
        """The output's spatial shape, if there is no list of points."""
        return tuple(-(-n // self.shrink) for n in self.shape[2:])

    @property
    def visits(self) -> int:
        """The number of reads of pixels and additions to them, with every tap counted."""
        taps = {"nearest": 1, "bilinear": 2, "bicubic": 4}[self.mode] ** len(self.shape[2:])
        times = {"forward": 1, "backward": 2, "double backward": 3}[self.direction]
        samples = self.shrink ** len(self.shape[2:])
        return self.count * samples * self.shape[1] * taps * times

    @property
    def toy(self) -> Case:
        """The same case with few pixels, for an interpreter."""
        _, channels, *spatial = self.shape
        shape = (1, min(channels, 2), *(min(n, 4 if len(spatial) < 3 else 3) for n in spatial))
        return replace(self, shape=shape, points=self.points and 5, shrink=min(self.shrink, 2))

    @property
    def bytes(self) -> int:
        """Bytes of input, grid and output, and of their gradients, each once."""
        size = 2 if self.dtype in ("float16", "bfloat16") else 4
        channels, pixels = self.shape[1], self.shape[0] * math.prod(self.shape[2:])
        # No more pixels are read than the points have taps.
        touched = min(pixels, self.count * (2 * self.shrink) ** len(self.shape[2:]))
        grid = 0 if self.affine else self.count * len(self.shape[2:])
        once = channels * (touched + self.count) + grid
        return size * once * {"forward": 1, "backward": 2, "double backward": 4}[self.direction]


LARGE = (
    *((8, 64, 512, 512), (64, 64, 512, 512), (4, 32, 128, 128, 128), (32, 3, 1024, 1024)),
    (1, 1, 256, 256, 256),
)
# Calls so short that the host limits their speed.
SMALL = ((8, 16, 32, 32), (1, 1, 16, 16, 16))
SHRUNK = ((8, 3, 2048, 2048), (8, 64, 512, 512), (1, 1, 256, 256, 256))
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
    for shape in LARGE:
        yield Case(shape, direction="backward")
    for case in POINTS:
        yield replace(case, direction="backward")
    for shape in ((4, 16, 256, 256), (1, 1, 96, 96, 96), (8, 64, 128, 128)):
        yield Case(shape, direction="double backward")
    for case in POINTS[:2]:
        yield replace(case, direction="double backward")
    for direction in ("forward", "backward"):
        for shape in (LARGE[0], LARGE[2]):
            yield Case(shape, direction=direction, last=True)
        for case in POINTS:
            yield replace(case, direction=direction, last=True)
    for shape in (LARGE[0], *LARGE[2:]):
        yield Case(shape, direction="backward", deterministic=True)
    for case in POINTS:
        yield replace(case, direction="backward", deterministic=True)
    yield replace(POINTS[1], direction="backward", deterministic=True, last=True)
    for mode in ("nearest", "bicubic"):
        yield Case(LARGE[3], mode=mode)
    yield Case(LARGE[3], direction="backward", mode="bicubic")
    for boundary in ("border", "reflection"):
        yield Case(LARGE[0], boundary=boundary)
    for dtype in ("float16", "bfloat16"):
        yield Case(LARGE[0], dtype=dtype)
    for shape in SMALL:
        for direction in ("forward", "backward"):
            yield Case(shape, direction=direction)
    yield from antialiased()


def antialiased() -> Iterator[Case]:
    """Cases whose footprints have 4 samples along each side."""
    for shape in SHRUNK:
        for direction in ("forward", "backward"):
            yield Case(shape, direction=direction, shrink=4)
        yield Case(shape, shrink=4, affine=True)
    yield Case(SHRUNK[1], shrink=4, last=True)
    yield Case(SHRUNK[1], direction="backward", shrink=4, affine=True)
    yield Case(SHRUNK[1], direction="backward", shrink=4, deterministic=True)


def inputs(case: Case, device: str) -> tuple[Tensor, Tensor, Tensor]:
    """Image, grid and upstream gradient, made on the device."""
    import torch

    generator = torch.Generator(device).manual_seed(len(case.name))
    factory: dict[str, Any] = {"device": device, "dtype": getattr(torch, case.dtype)}
    items, channels, *spatial = case.shape
    out = [case.points] if case.points else spatial
    image = torch.rand(case.shape, generator=generator, **factory)
    if case.smooth:
        rank = len(spatial)
        theta = torch.eye(rank, rank + 1, device=device).repeat(items, 1, 1)
        theta[:, :2, :2] = torch.tensor([[0.866, -0.5], [0.5, 0.866]], device=device)
        size = [items, 1, *spatial]
        size[2:] = case.out
        grid = torch.nn.functional.affine_grid(theta, size, align_corners=False).to(
            factory["dtype"]
        )
        out = out if case.points else list(case.out)
        grid = theta.to(factory["dtype"]) if case.affine else grid
    else:
        shape = (items, *out, len(spatial))
        grid = torch.rand(shape, generator=generator, **factory) * 2 - 1
    upstream = torch.rand((items, channels, *out), generator=generator, **factory)
    if case.last:
        image, upstream = (t.movedim(1, -1).contiguous().movedim(-1, 1) for t in (image, upstream))
    return image, grid.contiguous(), upstream


def call(case: Case, sample: Callable[[Tensor, Tensor], Tensor], *tensors: Tensor) -> Call:
    """The call of a case with a sampling function."""
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
    directions = [torch.ones_like(derivative) for derivative in first]
    return lambda: torch.autograd.grad(first, (*leaves, upstream), directions, retain_graph=True)


def ours(case: Case, device: str) -> Callable[[Tensor, Tensor], Tensor]:
    """Our function; without a GPU, its kernels run in Triton's interpreter."""
    import gridsample

    if device == "cpu":
        return interpreted(case)
    options: dict[str, Any] = {"antialias": case.shrink > 1}
    if case.affine:
        size = (*case.shape[:2], *case.out)
        return lambda image, maps: gridsample.affine_sample(
            image, maps, size, case.mode, case.boundary, **options
        )
    if case.shrink > 1:
        return lambda image, grid: gridsample.grid_sample(
            image, grid, case.mode, case.boundary, **options
        )
    return lambda image, grid: gridsample.grid_sample(image, grid, case.mode, case.boundary)


def interpreted(case: Case) -> Callable[[Tensor, Tensor], Tensor]:
    """The operations that the backend applies to CUDA tensors, for tensors on the CPU."""
    import torch

    from gridsample.backends.torch import BACKEND, affine, cuda
    from gridsample.backends.torch.schemas import flat_options, options_of
    from gridsample.definitions.footprints import Footprint

    def under_maps(image: Tensor, maps: Tensor) -> Tensor:
        call = affine.call_of_maps(BACKEND, image, maps, case.out, options)
        return affine.sample(call._replace(on_gpu=True), image, maps)

    rank = len(case.shape) - 2
    names = (case.mode,) * rank, (case.boundary,) * rank
    arguments = (*names, False, (0,) * rank)
    if case.shrink > 1:
        options = options_of(*arguments)._replace(footprint=Footprint())
        if case.affine:
            return under_maps
        arguments = (*names, *flat_options(options)[2:])

    class Back(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, values: Tensor, image: Tensor, grid: Tensor) -> Any:
            ctx.save_for_backward(values, image, grid)
            return cuda.cuda_backward(values, image, grid, True, True, *arguments)

        @staticmethod
        def backward(ctx: Any, by_image: Tensor, by_grid: Tensor) -> Any:
            upstream = (by_image, by_grid, True, True, True)
            return cuda.cuda_double_backward(*ctx.saved_tensors, *upstream, *arguments)

    class Forth(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, image: Tensor, grid: Tensor) -> Any:
            ctx.save_for_backward(image, grid)
            return cuda.cuda_gather(image, grid, *arguments)

        @staticmethod
        def backward(ctx: Any, upstream: Tensor) -> Any:
            return Back.apply(upstream, *ctx.saved_tensors)

    return Forth.apply


def torchs(case: Case) -> Callable[[Tensor, Tensor], Tensor]:
    """Torch's function, which requires a grid of the image's rank."""
    import torch

    def sample(image: Tensor, grid: Tensor) -> Tensor:
        shape = grid.shape[1:-1]
        missing = image.dim() - grid.dim()
        grid = grid.reshape(grid.shape[0], *(1,) * missing, *grid.shape[1:])
        out = torch.nn.functional.grid_sample(image, grid, case.mode, case.boundary, False)
        return out.reshape(*out.shape[:2], *shape)

    return sample


def formulas(case: Case) -> Callable[[Tensor, Tensor], Tensor]:
    """Linear sampling by operations of torch, which can be differentiated twice.

    Torch's own function has no second derivatives.
    """
    import torch

    def sample(image: Tensor, grid: Tensor) -> Tensor:
        sizes = image.shape[:1:-1]
        steps = [math.prod(sizes[:axis]) for axis in range(len(sizes))]
        positions = [((grid[..., a] + 1) * n - 1) / 2 for a, n in enumerate(sizes)]
        bases = [position.detach().floor() for position in positions]
        pixels, total = image.flatten(2), image.new_zeros(())
        for corner in itertools.product((0, 1), repeat=len(sizes)):
            index, weight = torch.zeros_like(bases[0], dtype=torch.int64), torch.ones_like(bases[0])
            for position, base, last, size, step in zip(
                positions, bases, corner, sizes, steps, strict=True
            ):
                tap = base.long() + last
                share = position - base if last else 1 - (position - base)
                weight = weight * torch.where((tap >= 0) & (tap < size), share, 0)
                index = index + tap.clamp(0, size - 1) * step
            taps = index.flatten(1).unsqueeze(1).expand(-1, image.shape[1], -1)
            total = total + pixels.gather(2, taps) * weight.flatten(1).unsqueeze(1)
        return total.reshape(*image.shape[:2], *grid.shape[1:-1])

    return sample


def rival(case: Case, device: str) -> tuple[str, Callable[[Tensor, Tensor], Tensor]]:
    """The name and the function that a case is compared with."""
    if case.deterministic:
        return "ours by default", ours(case, device)
    if case.affine:
        return "finer grid", by_finer_grid(case, device)
    if case.shrink > 1:
        return "composite", by_single_samples(case, device)
    if case.direction == "double backward":
        return "torch", formulas(case)
    return "torch", torchs(case)


def by_single_samples(case: Case, device: str) -> Callable[[Tensor, Tensor], Tensor]:
    """Return antialiased sampling by plain sampling: one sample of all points at a time."""
    from gridsample.backends.torch.footprints import HalvedImage, TensorFootprints
    from gridsample.backends.torch.schemas import options_of
    from gridsample.definitions.footprints import Footprint

    sample_plainly, rank = ours(replace(case, shrink=1), device), len(case.shape) - 2
    options = options_of((case.mode,) * rank, (case.boundary,) * rank, False, (0,) * rank)
    options = options._replace(footprint=Footprint())

    def sample(image: Tensor, grid: Tensor) -> Tensor:
        footprints, images = TensorFootprints(grid, image.shape[2:], options), HalvedImage(image)
        total: Any = 0
        for subsample in footprints.samples():
            total = total + subsample.values(
                sample_plainly(images.at(subsample.spatial), subsample.grid)
            )
        return total

    return sample


def by_finer_grid(case: Case, device: str) -> Callable[[Tensor, Tensor], Tensor]:
    """Antialiased sampling under maps by plain sampling on a finer grid, and resizing by area."""
    import gridsample

    sample_plainly = ours(replace(case, shrink=1, affine=False), device)
    items, _, *out = (*case.shape[:2], *case.out)

    def sample(image: Tensor, maps: Tensor) -> Tensor:
        grid = gridsample.affine_grid(maps, (items, 1, *(case.shrink * n for n in out)))
        return gridsample.interpolate(sample_plainly(image, grid), tuple(out), mode="area")

    return sample


def agree(case: Case, mine: tuple[Tensor, ...], theirs: tuple[Tensor, ...]) -> float:
    """The largest mean difference, relative to the scale.

    Rounding can move a point across the edge of a pixel: one number in ten thousand may differ.

    Raises:
        RuntimeError: More numbers differ by more than rounding.
    """
    slack = 2e-2 if case.dtype in ("float16", "bfloat16") else 1e-3
    worst = 0.0
    for a, b in zip(mine, theirs, strict=True):
        difference = (a.float() - b.float()).abs_() / b.abs().max().float()
        if (difference > slack).float().mean() > 1e-4:
            raise RuntimeError(f"the results differ by up to {float(difference.max()):.2g}")
        worst = max(worst, float(difference.mean()))
    return worst


def milliseconds(function: Callable[[], Any], device: str) -> float:
    """The time of one call, measured by CUDA events on a GPU."""
    import torch

    if device == "cpu":
        start = time.perf_counter()
        function()
        return (time.perf_counter() - start) * 1e3
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    function()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end))


def interleave(a: Call, b: Call, seconds: float, device: str) -> tuple[list[float], list[float]]:
    """Times of two calls, which are made alternately for some seconds."""
    times: tuple[list[float], list[float]] = ([], [])
    end, least = time.perf_counter() + seconds, 5 if device == "cuda" else 1
    while len(times[0]) < least or (time.perf_counter() < end and len(times[0]) < 50):
        for function, spent in zip((a, b), times, strict=True):
            spent.append(milliseconds(function, device))
    return times


def copy_bandwidth(device: str) -> float:
    """The bandwidth of a copy of 1 GiB, in bytes read and written per second."""
    import torch

    source = torch.ones(1 << (28 if device == "cuda" else 16), device=device)
    target = torch.empty_like(source)
    best = min(milliseconds(lambda: target.copy_(source), device) for _ in range(20))
    return 2 * source.nbytes / best * 1e3


def measure(case: Case, seconds: float, bandwidth: float, device: str) -> dict[str, Any]:
    """One row of the table."""
    import torch

    tensors = inputs(case, device)
    name, rival_function = rival(case, device)
    theirs = call(case, rival_function, *tensors)
    try:
        torch.use_deterministic_algorithms(case.deterministic)
        mine = call(case, ours(case, device), *tensors)
        a_call, b_call = toggled(mine, case.deterministic), toggled(theirs, False)
        difference = agree(case, a_call(), b_call())
        own_times, rival_times = interleave(a_call, b_call, seconds, device)
    finally:
        torch.use_deterministic_algorithms(False)
    median = statistics.median(own_times)
    return {
        "case": case.name,
        "group": case.group,
        "ms": median,
        "other": name,
        "other_ms": statistics.median(rival_times),
        "ratio": statistics.median(y / x for x, y in zip(own_times, rival_times, strict=True)),
        "difference": difference,
        "share_of_copy": case.bytes / bandwidth / median * 1e3,
        "visits_per_second": case.visits / median * 1e3,
        "large_and_smooth": case.smooth and case.points is None and case.shape not in SMALL,
        "runs": len(own_times),
    }


def toggled(function: Call, deterministic: bool) -> Call:
    """A call that first sets torch's switch for deterministic algorithms."""
    import torch

    def run() -> tuple[Tensor, ...]:
        torch.use_deterministic_algorithms(deterministic)
        return function()

    return run


def verdicts(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Lines that compare the figures with the goals."""
    for group, (mean, least) in GOALS.items():
        ratios = {
            row["case"]: row["ratio"]
            for row in rows
            if row["group"] == group and row["other"] == "torch"
        }
        if not ratios:
            continue
        reached = math.exp(statistics.fmean(map(math.log, ratios.values())))
        slow = [name for name, ratio in ratios.items() if least is not None and ratio < least]
        yield f"{group}: mean {reached:.2f}, to be {mean}; below {least}: {slow or 'none'}"
    for other in ("composite", "finer grid"):
        ratios = {row["case"]: row["ratio"] for row in rows if row["other"] == other}
        if ratios:
            yield f"antialiased, {other}: at least {min(ratios.values()):.2f} times as fast"
    fixed = [row["ratio"] for row in rows if row["other"] == "ours by default"]
    if fixed:
        yield f"deterministic: at most {1 / min(fixed):.2f} times the default's time, to be 3"
    short = [
        f"{row['case']} {row['share_of_copy']:.0%}"
        for row in rows
        if row["large_and_smooth"] and row["share_of_copy"] < SHARE and row["other"] == "torch"
    ]
    yield f"large and smooth below {SHARE:.0%} of copy: {short or 'none'}"


def main(only: str, seconds: float, target: Path | None, device: str = "cuda") -> None:
    """Run and print; tiny cases on the "cpu"."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        sys.exit("No CUDA GPU is to be seen by torch: nothing was timed.")
    start, bandwidth = time.perf_counter(), copy_bandwidth(device)
    name = torch.cuda.get_device_name() if device == "cuda" else "no GPU, toys alone"
    print(f"{name}, copy {bandwidth / 1e9:.0f} GB/s, torch {torch.__version__}\n")
    print(f"{'case':76}{'ours ms':>10}{'other ms':>10}{'ratio':>7}{'of copy':>9}{'G visits/s':>12}")
    rows: list[dict[str, Any]] = []
    seen = set[Case]()  # of different cases, toys may be the same
    for full_case in every_case():
        case = full_case if device == "cuda" else full_case.toy
        if only not in full_case.name or case in seen:
            continue
        seen.add(case)
        if time.perf_counter() - start > LIMIT:
            print(f"{case.name}: left out after {LIMIT} s")
            continue
        try:
            row = measure(case, min(seconds, 1.0), bandwidth, device)
        except RuntimeError as error:  # out of memory, or not supported by this torch
            print(f"{case.name}: {str(error).splitlines()[0]}")
            continue
        finally:
            if device == "cuda":
                torch.cuda.empty_cache()
        rows.append(row)
        print(
            f"{row['case']:76}{row['ms']:10.3f}{row['other_ms']:10.3f}{row['ratio']:7.2f}"
            f"{row['share_of_copy']:9.0%}{row['visits_per_second'] / 1e9:12.1f}",
            flush=True,
        )
    print("", *verdicts(rows), sep="\n")
    if target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        contents = {"device": name, "copy_bytes_per_second": bandwidth, "torch": torch.__version__}
        target.write_text(json.dumps({**contents, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "", 0.0, None, "cpu")
