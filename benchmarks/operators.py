"""Times fused operators and plain versions of them, alternately: results and training steps.

    python -m benchmarks.operators                 every case, on one thread and on all cores
    python -m benchmarks.operators --threads 1 2   numbers of threads, each in its own process
    python -m benchmarks.operators --case lookup   cases whose name contains a text; * is wild
    python -m benchmarks.operators --seconds 0.5   how long to time a pair
    python -m benchmarks.operators --json FILE     also write the figures
    python -m benchmarks.operators --list          the cases

A plain version is what people write with torch: one sample of each point with `grid_sample`, all
pairs of correlations, one `scatter_add` for each corner.  Those of boxes and of deformable
convolution are torchvision's, if it is installed with its kernels.  A step is the result and the
gradients of all arrays.  A ratio is the plain version's time divided by ours.  Nothing is timed
before both agree in double precision, results to 1e-12 of the greatest, gradients to 1e-10.
The JSON file also has the peak memory of a step above that of the arrays, in bytes, of both.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks import pairs
from benchmarks.pairs import Disagreement, Row
from benchmarks.timing import extra_memory
from gridsample import operators

PROGRAM = "benchmarks.operators"
RESULTS, GRADIENTS = 1e-12, 1e-10  # the largest relative differences that are accepted
# Levels of the encoder of a detector for an image of 800 x 1066.
LEVELS = [(100, 134), (50, 67), (25, 34), (13, 17)]
TINY_LEVELS = [(6, 8), (3, 4)]


class Case(NamedTuple):
    """An operator and its plain version.

    Attributes:
        arrays: makes the arrays, tiny ones for tests.
        ours, plain: compute the result from the arrays.
        detached: the numbers of arrays without gradients.
        kinds: the calls that are timed.
    """

    arrays: Callable[[bool], list[Tensor]]
    ours: Callable[..., Tensor]
    plain: Callable[..., Tensor]
    detached: Sequence[int] = ()
    kinds: Sequence[str] = ("forward", "step")


# Deformable attention -----------------------------------------------------------------------------


def levels_of(value: Tensor) -> list[tuple[int, int]]:
    """The sizes of the levels whose pixels a value has."""
    return next(sizes for sizes in (LEVELS, TINY_LEVELS) if value.shape[1] == pixels(sizes))


def pixels(sizes: Sequence[tuple[int, int]]) -> int:
    """The number of pixels of all levels."""
    return sum(math.prod(size) for size in sizes)


def attention_arrays(queries: int) -> Callable[[bool], list[Tensor]]:
    """What makes a value, locations and weights; without a number, each pixel is a query.

    The points of a query are a few pixels from its own, as in encoders, or from a random one.
    """

    def arrays(tiny: bool) -> list[Tensor]:
        sizes, heads, width = (TINY_LEVELS, 2, 4) if tiny else (LEVELS, 8, 32)
        own = torch.cat([centres(size) for size in sizes])
        if queries:
            own = torch.rand(5 if tiny else queries, 2)
        count, extents = len(own), torch.tensor(sizes).flip(1)[:, None]
        moves = 3 * torch.randn(1, count, heads, len(sizes), 4, 2) / extents
        weights = torch.randn(1, count, heads, len(sizes) * 4).softmax(-1)
        value = torch.randn(1, pixels(sizes), heads, width)
        places = own[:, None, None, None] + moves
        return [value, places, weights.reshape(1, count, heads, len(sizes), 4)]

    return arrays


def centres(size: tuple[int, int]) -> Tensor:
    """The centres of the pixels of a level, (x, y) from 0 to 1."""
    rows, columns = ((torch.arange(n) + 0.5) / n for n in size)
    return torch.stack(torch.meshgrid(rows, columns, indexing="ij")[::-1], -1).reshape(-1, 2)


def attend(value: Tensor, places: Tensor, weights: Tensor) -> Tensor:
    """Our operator."""
    return operators.deformable_attention(value, levels_of(value), places, weights)


def attend_plainly(value: Tensor, places: Tensor, weights: Tensor) -> Tensor:
    """The plain version of mmcv and transformers."""
    sizes = levels_of(value)
    batch, _, heads, width = value.shape
    queries, grids, samples = places.shape[1], 2 * places - 1, []
    parts = value.split([math.prod(size) for size in sizes], 1)
    for level, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        image = part.flatten(2).transpose(1, 2).reshape(batch * heads, width, *size)
        grid = grids[:, :, :, level].transpose(1, 2).flatten(0, 1)
        samples.append(functional.grid_sample(image, grid, align_corners=False))
    factors = weights.transpose(1, 2).reshape(batch * heads, 1, queries, -1)
    result = (torch.stack(samples, -2).flatten(-2) * factors).sum(-1)
    return result.view(batch, heads * width, queries).transpose(1, 2)


# Correlation --------------------------------------------------------------------------------------


def lookup_arrays(channels: int, count: int) -> Callable[[bool], list[Tensor]]:
    """What makes two feature maps, and the positions of some lookups."""

    def arrays(tiny: bool) -> list[Tensor]:
        size, depth = ((16, 24), 8) if tiny else ((55, 128), channels)
        rows, columns = torch.meshgrid(*map(torch.arange, size), indexing="ij")
        moves = 3 * torch.randn(count, 1, 2, *size)
        return [*torch.randn(2, 1, depth, *size), torch.stack([columns, rows]) + moves]

    return arrays


def look_up(radius: int) -> Callable[..., Tensor]:
    """Our operator."""

    def result(first: Tensor, second: Tensor, positions: Tensor) -> Tensor:
        block = operators.CorrelationBlock(first, second, 4, radius)
        return torch.stack([block(places) for places in positions])

    return result


def look_up_plainly(radius: int) -> Callable[..., Tensor]:
    """RAFT's version, which computes the correlation of all pairs of pixels."""
    side = 2 * radius + 1

    def result(first: Tensor, second: Tensor, positions: Tensor) -> Tensor:
        (_, channels, height, width), volumes = first.shape, []
        volume = first.flatten(2).transpose(1, 2) @ second.flatten(2) / math.sqrt(channels)
        volume = volume.reshape(height * width, 1, height, width)
        for _ in range(4):
            volumes.append(volume)
            volume = functional.avg_pool2d(volume, 2)
        line = torch.linspace(-radius, radius, side, dtype=first.dtype)
        window = torch.stack(torch.meshgrid(line, line, indexing="ij"), -1)
        return torch.stack([windows(volumes, window, places) for places in positions])

    def windows(volumes: Sequence[Tensor], window: Tensor, places: Tensor) -> Tensor:
        height, width, parts = *places.shape[2:], []
        for level, volume in enumerate(volumes):
            points = places.permute(0, 2, 3, 1).reshape(-1, 1, 1, 2) / 2**level + window
            scale = torch.tensor([2 / (n - 1) for n in volume.shape[:1:-1]], dtype=points.dtype)
            samples = functional.grid_sample(volume, points * scale - 1, align_corners=True)
            parts.append(samples.view(1, height, width, -1))
        return torch.cat(parts, -1).permute(0, 3, 1, 2)

    return result


# Softmax splatting --------------------------------------------------------------------------------


def splat_arrays(tiny: bool) -> list[Tensor]:
    """An image, a smooth flow and a metric."""
    size, channels = ((12, 16), 3) if tiny else ((270, 480), 32)
    image, coarse, metric = (
        torch.randn(shape) for shape in ((1, channels, *size), (1, 2, 9, 13), (1, 1, *size))
    )
    flow = 12 * functional.interpolate(coarse, size, mode="bicubic", align_corners=True)
    return [image, flow, 3 * metric]


def splat_plainly(image: Tensor, flow: Tensor, metric: Tensor) -> Tensor:
    """Four corners, exponents relative to the greatest metric of each target."""
    _, channels, height, width = image.shape
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    x, y = (columns + flow[0, 0]).flatten(), (rows + flow[0, 1]).flatten()
    left, top, corners = x.detach().floor(), y.detach().floor(), []
    for across in (left, left + 1):
        for down in (top, top + 1):
            weight = (1 - (x - across).abs()) * (1 - (y - down).abs())
            inside = (across >= 0) & (across < width) & (down >= 0) & (down < height)
            index = down.clamp(0, height - 1) * width + across.clamp(0, width - 1)
            corners.append((index.long(), weight * inside))
    own, targets = metric.flatten(), image.new_full((height * width,), -math.inf)
    for index, weight in corners:
        seen = torch.where(weight > 0, own, -math.inf).detach()
        targets = targets.scatter_reduce(0, index, seen, "amax")
    values = torch.cat([image[0].flatten(1), torch.ones_like(own)[None]])
    sums = torch.zeros_like(values)
    for index, weight in corners:
        share = weight * (own - targets.clamp(min=-1e30)[index]).clamp(max=0).exp()
        sums = sums.scatter_add(1, index.expand(channels + 1, -1), values * share)
    total = sums[-1:]
    result = sums[:-1] / torch.where(total == 0, 1, total)
    return result.view(1, channels, height, width)


# torchvision's ------------------------------------------------------------------------------------


def box_arrays(tiny: bool) -> list[Tensor]:
    """Features and boxes."""
    channels, size, count = (4, 20, 3) if tiny else (256, 100, 200)
    begin = torch.rand(count, 2) * size * 3
    boxes = torch.cat([torch.zeros(count, 1), begin, begin + torch.rand(count, 2) * size], 1)
    return [torch.randn(1, channels, size, size), boxes]


def convolution_arrays(tiny: bool) -> list[Tensor]:
    """An image, offsets, masks and kernels."""
    channels, size = (4, 8) if tiny else (128, 64)
    return [
        torch.randn(1, channels, size, size),
        torch.randn(1, 18, size, size),
        torch.rand(1, 9, size, size),
        torch.randn(channels, channels, 3, 3) / (3 * math.sqrt(channels)),
    ]


def torchvision_cases() -> dict[str, Case]:
    """The cases that torchvision's kernels are compared with; none without them."""
    try:
        from torchvision import ops
        from torchvision.extension import _has_ops
    except (ImportError, RuntimeError):  # of another version of torch
        return {}
    if not _has_ops():
        return {}

    def align(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda image, boxes: function(image, boxes, (7, 7), 0.25, 2, True)

    def convolve(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda image, offset, mask, kernels: function(
            image, offset, kernels, None, 1, 1, 1, mask
        )

    boxes = align(operators.roi_align), align(ops.roi_align)
    kernels = convolve(operators.deform_conv2d), convolve(ops.deform_conv2d)
    return {
        "RoIAlign, 200 boxes, C 256": Case(box_arrays, *boxes, [1]),
        "deformable convolution v2, 64 x 64, C 128": Case(convolution_arrays, *kernels),
    }


CASES = {
    "attention, encoder of 800 x 1066": Case(attention_arrays(0), attend, attend_plainly),
    "attention, 300 queries": Case(attention_arrays(300), attend, attend_plainly),
    "lookup, C 256, radius 4, 12 lookups": Case(
        lookup_arrays(256, 12), look_up(4), look_up_plainly(4), [2], ["forward"]
    ),
    "lookup, C 128, radius 3, 12 lookups": Case(
        lookup_arrays(128, 12), look_up(3), look_up_plainly(3), [2], ["forward"]
    ),
    "lookup, C 256, radius 4, 4 lookups": Case(
        lookup_arrays(256, 4), look_up(4), look_up_plainly(4), [2], ["step"]
    ),
    "lookup, C 128, radius 3, 4 lookups": Case(
        lookup_arrays(128, 4), look_up(3), look_up_plainly(3), [2], ["step"]
    ),
    "soft splat, 270 x 480, C 32": Case(splat_arrays, operators.softmax_splat, splat_plainly),
}


# Measuring ----------------------------------------------------------------------------------------


class Steps:
    """The calls of one version of an operator.

    Attributes:
        function: computes the result.
        arrays: its arrays, of which those with gradients require them.
        upstream: the upstream gradient, which is random.
    """

    def __init__(self, case: Case, function: Callable[..., Tensor], arrays: list[Tensor]) -> None:
        self.function = function
        self.arrays = [
            array.clone().requires_grad_(k not in case.detached) for k, array in enumerate(arrays)
        ]
        self.upstream: Tensor | None = None

    def forward(self) -> Tensor:
        """Compute the result."""
        with torch.no_grad():
            return self.function(*self.arrays)

    def step(self) -> list[Tensor]:
        """Compute the result and the gradients; return both."""
        result = self.function(*self.arrays)
        if self.upstream is None:
            generator = torch.Generator().manual_seed(1)
            self.upstream = torch.randn(result.shape, generator=generator).to(result)
        leaves = [array for array in self.arrays if array.requires_grad]
        return [result.detach(), *torch.autograd.grad(result, leaves, self.upstream)]


def cases() -> dict[str, Case]:
    """All cases by name."""
    return CASES | torchvision_cases()


def check(case: Case, arrays: list[Tensor]) -> None:
    """Compare both versions in double precision.

    Raises:
        Disagreement: They differ by more than rounding.
    """
    wide = [array.double() for array in arrays]
    mine, theirs = (Steps(case, f, wide).step() for f in (case.ours, case.plain))
    for k, (own, other) in enumerate(zip(mine, theirs, strict=True)):
        difference = float((own - other).abs().max() / other.abs().max())
        if not difference <= (GRADIENTS if k else RESULTS):  # a NaN is no agreement
            kind = f"gradient {k}" if k else "the result"
            raise Disagreement(f"relative difference of {kind}: {difference:.2g}")


def measure(name: str, seconds: float) -> Iterator[Row]:
    """Yield the rows of an operator; equality comes first."""
    case = cases()[name]
    torch.manual_seed(0)
    arrays = case.arrays(False)
    check(case, arrays)
    mine, theirs = (Steps(case, function, arrays) for function in (case.ours, case.plain))
    if "forward" in case.kinds:
        yield {"kind": "forward", **pairs.timed(mine.forward, theirs.forward, seconds)}
    if "step" in case.kinds:
        peaks = {"bytes": extra_memory(mine.step), "plain_bytes": extra_memory(theirs.step)}
        yield {"kind": "step", **pairs.timed(mine.step, theirs.step, seconds), **peaks}


def main(words: Sequence[str] | None = None) -> int:
    """Run and print."""
    arguments = pairs.parser(PROGRAM, __doc__, seconds=4.0).parse_args(words)
    return pairs.run(PROGRAM, arguments, cases, measure)


if __name__ == "__main__":
    sys.exit(main())
