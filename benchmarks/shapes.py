"""Times `grid_sample` against torch's, interleaved, on typical shapes of real models.

    python -m benchmarks.shapes                 every shape, on one thread and on all cores
    python -m benchmarks.shapes --threads 1 2   numbers of threads, each in its own process
    python -m benchmarks.shapes --case RAFT     shapes whose name contains a text; * and ? are wild
    python -m benchmarks.shapes --json FILE     also write the figures
    python -m benchmarks.shapes --list          the shapes

Each shape is timed twice: forward, and as a step, which also computes the gradients of image and
grid through autograd.  A ratio is torch's time divided by ours; above 1, we are faster.  Nothing is
timed before outputs and gradients agree to rounding.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks import pairs
from benchmarks.pairs import Disagreement, Row
from tests import cases

PROGRAM = "benchmarks.shapes"

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Shape:
    """The sizes and options of a call.

    Attributes:
        use: the kind of model that makes the call.
        image: (N, C, *spatial).
        out: the points of an item: as many axes as the image has, a list, or stacks of images.
        grid: how the points are distributed, a name of `GRIDS`.
        padding: the boundary.
        corners: align_corners.
    """

    use: str
    image: tuple[int, ...]
    out: tuple[int, ...]
    grid: str
    padding: str = "zeros"
    corners: bool = False

    @property
    def name(self) -> str:
        """The use and the sizes."""
        sizes = "x".join(map(str, self.image)), "x".join(map(str, self.out))
        return f"{self.use}, {sizes[0]} at {sizes[1]}"

    @property
    def spatial(self) -> tuple[int, ...]:
        """The spatial shape of the image."""
        return self.image[2:]

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """The grid's shape for torch: with as many axes of points as the image."""
        rank = len(self.spatial)
        padded = (1,) * (rank - len(self.out)) + self.out
        first = math.prod(padded[: len(padded) - rank + 1])
        return (self.image[0], first, *padded[len(padded) - rank + 1 :], rank)

    def small(self) -> Shape:
        """The same shape with few pixels and points."""
        image = (*(min(n, 3) for n in self.image[:2]), *(min(n, 9) for n in self.spatial))
        return replace(self, image=image, out=tuple(min(n, 6) for n in self.out))


# Grids --------------------------------------------------------------------------------------------
# Each gives positions in pixels, (N, *out, D), x first.


def sizes_of(shape: Shape) -> Array:
    """The spatial sizes of the image, x first."""
    return np.array(shape.spatial[::-1], float)


def lattice(shape: Shape) -> Array:
    """The last axes of `out` spread evenly over the image, (*last, D)."""
    last = shape.out[-len(shape.spatial) :]
    axes = [(np.arange(m) + 0.5) * n / m - 0.5 for m, n in zip(last, shape.spatial, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij")[::-1], axis=-1)


def random(shape: Shape, rng: np.random.Generator) -> Array:
    """Random positions in the image, in random order."""
    return rng.random((shape.image[0], *shape.out, len(shape.spatial))) * sizes_of(shape) - 0.5


def affine(shape: Shape, rng: np.random.Generator) -> Array:
    """The image slightly rotated, stretched and shifted, differently for each item."""
    rank = len(shape.spatial)
    maps = np.eye(rank) + 0.15 * rng.standard_normal((shape.image[0], rank, rank))
    middle = (sizes_of(shape) - 1) / 2
    mapped = np.einsum("nij,...j->n...i", maps, lattice(shape) - middle)
    steps = 0.05 * rng.standard_normal((shape.image[0], rank)) * sizes_of(shape)
    return mapped + middle + steps.reshape(-1, *(1,) * rank, rank)


def flow(shape: Shape, rng: np.random.Generator) -> Array:
    """The image's own pixels under a smooth displacement of a few pixels."""
    pixels = lattice(shape)
    points = np.broadcast_to(pixels, (shape.image[0], *pixels.shape)).copy()
    phases = pixels * (2 * np.pi / sizes_of(shape))
    for item in points:
        for axis in range(len(shape.spatial)):
            frequency, phase = rng.integers(1, 4, len(shape.spatial)), rng.random() * 6
            item[..., axis] += 2.5 * np.sin(phases @ frequency + phase) + 0.3 * rng.random()
    return points


def window(shape: Shape, rng: np.random.Generator) -> Array:
    """In each image, the pixels around a random position."""
    axes = [np.arange(m) - (m - 1) / 2 for m in shape.out]
    offsets = np.stack(np.meshgrid(*axes, indexing="ij")[::-1], axis=-1)
    centres = rng.random((shape.image[0], *(1,) * len(axes), len(axes))) * sizes_of(shape)
    return centres - 0.5 + offsets


def queries(shape: Shape, rng: np.random.Generator) -> Array:
    """A few random points near each of many centres, which cover the image evenly."""
    count, points = shape.out
    columns = math.ceil(math.sqrt(count))
    indices = np.arange(count)
    centres = np.stack([indices % columns, indices // columns], axis=-1) + 0.5
    centres = centres * (sizes_of(shape) / columns) - 0.5
    offsets = 2 * rng.standard_normal((shape.image[0], count, points, 2))
    return centres[:, np.newaxis] + offsets


def boxes(shape: Shape, rng: np.random.Generator) -> Array:
    """Boxes of an image, (boxes, height, width), each sampled evenly."""
    shape_of_boxes = (shape.image[0], shape.out[0], 1, 1, 2)
    relative = (lattice(shape) + 0.5) / sizes_of(shape)  # from 0 to 1
    sides = (0.1 + 0.4 * rng.random(shape_of_boxes)) * sizes_of(shape)
    corner = rng.random(shape_of_boxes) * (sizes_of(shape) - sides)
    return corner + relative * sides - 0.5


def sweep(shape: Shape, rng: np.random.Generator) -> Array:
    """The image shifted by a disparity for each plane's depth, (planes, height, width)."""
    disparities = np.linspace(0.25, 0.01, shape.out[0])[:, np.newaxis, np.newaxis, np.newaxis]
    direction = np.array([1.0, 0.08]) + 0.05 * rng.standard_normal((shape.image[0], 1, 1, 1, 2))
    return lattice(shape) + disparities * direction * sizes_of(shape)


def rays(shape: Shape, rng: np.random.Generator) -> Array:
    """Points along straight lines through the image, (rays, samples)."""
    ends = rng.random((2, shape.image[0], shape.out[0], 1, len(shape.spatial)))
    fractions = ((np.arange(shape.out[1]) + 0.5) / shape.out[1])[:, np.newaxis]
    return (ends[0] + fractions * (ends[1] - ends[0])) * sizes_of(shape) - 0.5


GRIDS: dict[str, Callable[[Shape, np.random.Generator], Array]] = {
    points.__name__: points
    for points in (random, affine, flow, window, queries, boxes, sweep, rays)
}

SHAPES = [
    # Batches of small images.
    Shape("spatial transformer, digits", (64, 1, 28, 28), (28, 28), "affine"),
    Shape("spatial transformer, natural images", (128, 3, 32, 32), (32, 32), "affine"),
    Shape("spatial transformer, crops", (64, 3, 64, 64), (64, 64), "affine"),
    Shape("augmentation of a batch", (16, 3, 128, 128), (128, 128), "affine"),
    Shape("crops of region features", (300, 8, 28, 28), (14, 14), "affine"),
    Shape("points of region features", (300, 8, 28, 28), (7, 7), "affine"),
    # Optical flow: an image of correlations for each pixel.
    Shape("RAFT lookup, level 0", (1536, 1, 24, 32), (9, 9), "window", corners=True),
    Shape("RAFT lookup, level 2", (1536, 1, 6, 8), (9, 9), "window", corners=True),
    Shape("RAFT lookup, wide window", (1536, 1, 24, 32), (14, 14), "window", corners=True),
    Shape("RAFT lookup, more pixels", (6000, 1, 15, 20), (9, 9), "window", corners=True),
    Shape("lookup in tiny images", (40000, 1, 8, 8), (3, 3), "window", corners=True),
    # Deformable attention: heads are items, and each level is a call.
    Shape("deformable attention, level 0", (8, 32, 64, 64), (5440, 4), "queries"),
    Shape("deformable attention, level 1", (16, 16, 32, 32), (3400, 4), "queries"),
    Shape("deformable attention, level 3", (16, 16, 8, 8), (3400, 4), "queries"),
    Shape("deformable attention, decoder", (8, 32, 100, 134), (300, 4), "queries"),
    # Many channels, few points.
    Shape("descriptors of keypoints", (1, 256, 60, 80), (1000,), "random", corners=True),
    Shape("features of points", (1, 512, 32, 32), (100,), "random"),
    Shape("uncertain points of masks", (8, 256, 56, 56), (196,), "random"),
    Shape("features aligned with pixels", (2, 256, 128, 128), (5000,), "random", corners=True),
    # Textures and planes.
    Shape("texture lookup", (1, 3, 2048, 2048), (10000,), "random", "border"),
    Shape("neural texture", (1, 16, 512, 512), (256, 256), "affine", "border"),
    Shape("tri-planes", (3, 32, 256, 256), (65536,), "random"),
    Shape("tri-planes, along rays", (3, 32, 256, 256), (1024, 48), "rays"),
    Shape("lines of a factored grid", (3, 16, 128, 1), (65536,), "random", corners=True),
    Shape("plane sweep", (1, 32, 128, 160), (32, 128, 160), "sweep"),
    Shape("features of cameras", (6, 64, 32, 88), (10000,), "random"),
    Shape("features of views, along rays", (8, 32, 95, 126), (512, 64), "rays", corners=True),
    Shape("boxes of a feature map", (1, 256, 50, 68), (100, 7, 7), "boxes"),
    # Flow fields and video.
    Shape("warp by flow, 1/4", (2, 32, 96, 128), (96, 128), "flow", corners=True),
    Shape("warp by flow, 1/8", (2, 64, 48, 64), (48, 64), "flow", corners=True),
    Shape("flow composed with flow", (4, 2, 54, 120), (54, 120), "flow", "border"),
    Shape("video frame", (1, 3, 1080, 1920), (1080, 1920), "flow", "border"),
    # Volumes.
    Shape("volume under a map", (1, 1, 64, 64, 64), (64, 64, 64), "affine"),
    Shape("registration of scans", (1, 1, 128, 128, 128), (128, 128, 128), "flow", "border"),
    Shape("velocity composed", (1, 3, 80, 96, 80), (80, 96, 80), "flow", "border"),
    Shape("features of volumes", (2, 16, 48, 48, 48), (48, 48, 48), "affine"),
    Shape("voxel grid, points", (1, 8, 128, 128, 128), (100000,), "random", corners=True),
    Shape("voxel grid, along rays", (1, 8, 128, 128, 128), (1024, 96), "rays", corners=True),
]


# Measuring ----------------------------------------------------------------------------------------


def inputs(shape: Shape) -> tuple[Any, Any, Any]:
    """Image, grid and upstream gradient: float32 tensors."""
    import torch

    rng = cases.generator(shape.name)
    positions, sizes = GRIDS[shape.grid](shape, rng), sizes_of(shape)
    extent = sizes - 1 if shape.corners else sizes
    # On an axis of one pixel, align_corners maps every coordinate to that pixel.
    grid = (2 * positions + (0 if shape.corners else 1)) / np.maximum(extent, 1) - 1
    grid = grid.reshape(shape.grid_shape)
    image = rng.random(shape.image, dtype=np.float32)
    upstream = rng.random((*shape.image[:2], *shape.grid_shape[1:-1]), dtype=np.float32)
    return (
        torch.from_numpy(image),
        torch.from_numpy(grid.astype(np.float32)),
        torch.from_numpy(upstream),
    )


def compare(shape: Shape, name: str, mine: Any, theirs: Any) -> float:
    """The greatest difference, relative to the scale, without the accepted outliers.

    Positions are rounded by a few halves of an ulp of the image's size.  The grid's gradient jumps
    between pixels: as many numbers may be outliers as there are points that rounding can move to
    the next pixel, plus three.

    Raises:
        Disagreement: The difference is larger than rounding.
    """
    if mine.shape != theirs.shape:
        raise Disagreement(f"{name} has shape {tuple(theirs.shape)}, not {tuple(mine.shape)}")
    differences = ((mine - theirs).abs() / theirs.abs().max().clamp(min=1e-30)).flatten()
    ulps = max(shape.spatial) * 2.0**-22
    outliers = int((~(differences <= 1e-6 + 2 * ulps)).sum())  # a NaN is beyond
    allowed = 3 + 2 * ulps * differences.numel() if name == "the grid's gradient" else 0
    if outliers > allowed:
        raise Disagreement(
            f"{name}: {outliers} of {differences.numel()} differ, by up to {differences.max():.2g}"
        )
    return float(differences.sort().values[-1 - outliers])


def contenders(shape: Shape) -> tuple[dict[str, Any], dict[str, Any]]:
    """Our calls and torch's by kind; nothing has run yet."""
    import torch

    import gridsample

    image, grid, upstream = inputs(shape)
    leaves = image.clone().requires_grad_(), grid.clone().requires_grad_()

    def of(sample: Callable[..., Any]) -> dict[str, Any]:
        def forward(tensors: Sequence[Any] = (image, grid)) -> Any:
            return sample(*tensors, "bilinear", shape.padding, shape.corners)

        def step() -> Any:
            return torch.autograd.grad(forward(leaves), leaves, upstream)

        return {"forward": forward, "step": step}

    return of(gridsample.grid_sample), of(torch.nn.functional.grid_sample)


def agree(shape: Shape, ours: dict[str, Any], torchs: dict[str, Any]) -> float:
    """The greatest difference of outputs and gradients.

    Raises:
        Disagreement: The difference is larger than rounding.
    """
    mine = ours["forward"](), *ours["step"]()
    theirs = torchs["forward"](), *torchs["step"]()
    names = ("the output", "the image's gradient", "the grid's gradient")
    return max(compare(shape, *three) for three in zip(names, mine, theirs, strict=True))


def measure(name: str, seconds: float) -> Iterator[Row]:
    """Yield the rows of a shape."""
    shape = next(shape for shape in SHAPES if shape.name == name)
    ours, torchs = contenders(shape)
    difference = agree(shape, ours, torchs)
    for kind in ours:
        row = pairs.timed(ours[kind], torchs[kind], seconds)
        yield {"kind": kind, **row, "difference": difference}


def main(words: Sequence[str] | None = None) -> int:
    """Run and print."""
    arguments = pairs.parser(PROGRAM, __doc__, seconds=1.0).parse_args(words)
    return pairs.run(PROGRAM, arguments, lambda: [shape.name for shape in SHAPES], measure)


if __name__ == "__main__":
    sys.exit(main())
