"""The cases: every case is a record, and all of them are products of a few tables.

Images, grids and gradients are made as in the tests, from random numbers seeded by the case's name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from tests import cases

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

HALVES = ("float16", "bfloat16")
DERIVATIVES = ("input", "grid", "both", "step", "double", "jvp")


@dataclass(frozen=True)
class Case:
    """One call to time.

    Attributes:
        shape: the image, (N, C, *spatial); channels first or last in memory as ``last`` says.
        operation: "sample" (`grid_sample`), "affine" (`affine_sample`: no grid in memory), "resize"
            (`interpolate`); "remap", "warpAffine" and "warpPerspective" (`gridsample.cv`);
            "map_coordinates", "affine_transform" and "zoom" (`gridsample.ndimage`); "skimage"
            (`gridsample.skimage.resize`).
        mode: "nearest", "linear", "cubic", "lanczos4", or "spline3" with its prefilter.
        boundary: as `padding_mode`; of "sample" only.
        grid: "rotation" (smooth), "noisy" (that, and up to two pixels of noise), "outside" (the
            rotation, shrunk so that three of four points are outside the image) or "random".
        direction: "forward"; "input", "grid" or "both": those gradients alone; "step": forward and
            both gradients; "double": the derivatives of both; "jvp": forward mode.
        dtype: of the image, and of a floating image's grid.
        last: whether the channels of a pixel are contiguous in memory.
        tensors: whether torch tensors are sampled; arrays otherwise.
        points: how many points a random grid has; as many as pixels if 0.
        factor: of "resize", "zoom" and "skimage".
    """

    shape: Shape
    operation: str = "sample"
    mode: str = "linear"
    grid: str = "rotation"
    direction: str = "forward"
    dtype: str = "float32"
    last: bool = False
    tensors: bool = False
    points: int = 0
    factor: float = 1.0
    boundary: str = "zeros"

    @property
    def rank(self) -> int:
        """How many spatial axes there are."""
        return len(self.shape) - 2

    @property
    def name(self) -> str:
        """A short name, the same in every run."""
        words = [self.operation, "x".join(map(str, self.shape))]
        words += ["channels-last"] * self.last + [self.dtype] * (self.dtype != "float32")
        words += [self.mode] + [self.boundary] * (self.boundary != "zeros")
        words += [f"x{self.factor:g}"] if self.factor != 1 else [self.grid]
        words += [f"{self.points} points"] * bool(self.points) + ["tensors"] * self.tensors
        return " ".join([*words, self.direction])

    @property
    def out(self) -> Shape:
        """The output's spatial shape."""
        if self.points:
            return (self.points,)
        return tuple(round(n * self.factor) for n in self.shape[2:])

    @property
    def real(self) -> str:
        """The type of the grid."""
        return self.dtype if self.dtype in ("float64", *HALVES) else "float32"

    def small(self) -> Case:
        """The same case with a few pixels, to check that it runs."""
        limit = {1: 64, 2: 12, 3: 7}[self.rank]
        spatial = (min(n, limit + i) for i, n in enumerate(self.shape[2:]))
        items, channels = min(self.shape[0], 2), min(self.shape[1], 16)
        return replace(self, shape=(items, channels, *spatial), points=min(self.points, 50))


@dataclass(frozen=True)
class Inputs:
    """The arrays of a case.

    bfloat16 is unknown to NumPy: there the numbers are float32, but exact in bfloat16.

    Attributes:
        image: (N, C, *spatial).
        grid: (N, *out, D).
        theta: (N, D, D + 1), the matrices of the rotation.
        upstream: (N, C, *out), of the image's dtype.
        d_image: a direction of the image's shape, for "double" and "jvp".
        d_grid: a direction of the grid's shape.
    """

    image: Array
    grid: Array
    theta: Array
    upstream: Array
    d_image: Array
    d_grid: Array


def make_inputs(case: Case) -> Inputs:
    """Make the arrays of a case, the same in every run."""
    rng = cases.generator(case.name)
    items, channels = case.shape[:2]
    out = (items, channels, *case.out)
    stored = case.dtype if case.dtype != "bfloat16" else "float32"
    real = case.real if case.real != "bfloat16" else "float32"

    def numbers(shape: Shape, dtype: str) -> Array:
        if np.dtype(dtype).kind == "u":
            return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)
        return exact_in_dtype(rng.random(shape, np.float32).astype(dtype), case)

    image, upstream = numbers(case.shape, stored), numbers(out, real)
    if case.last:
        image, upstream = channels_last(image), channels_last(upstream)
    grid = exact_in_dtype(make_grid(case, rng).astype(real), case)
    derived = case.direction in ("double", "jvp")
    return Inputs(
        image,
        grid,
        exact_in_dtype(matrices(case).astype(real), case),
        upstream,
        numbers(case.shape, stored) if derived else image,
        numbers(grid.shape, real) if derived else grid,
    )


def make_grid(case: Case, rng: np.random.Generator) -> Array:
    """The grid in float64, (N, *out, D)."""
    items, _, *spatial = case.shape
    if case.operation == "skimage":  # resizes, which needs none
        return np.zeros((items, *(1,) * case.rank, case.rank))
    if case.grid == "random" or case.points:
        return rng.uniform(-1, 1, (items, *case.out, case.rank))
    grid = cases.rotation(spatial, False, items)
    if case.grid == "noisy":
        grid += rng.uniform(-2, 2, grid.shape) * 2 / np.array(spatial[::-1])
    if case.grid == "outside":
        grid *= 4 ** (1 / case.rank)
    # Away from ties between pixels, where both sides of an edge are correct.
    return grid * 0.999


def matrices(case: Case) -> Array:
    """The rotation of `tests.cases.rotation`, and the same shrinking, as matrices (N, D, D + 1)."""
    corners = np.concatenate([np.zeros((1, case.rank)), np.eye(case.rank)])
    # A linear map is known by what it does to the axes' unit vectors.
    images = rotated(corners) * 0.999
    theta = np.concatenate([(images[1:] - images[0]).T, images[:1].T], axis=1)
    return np.repeat(theta[np.newaxis], case.shape[0], axis=0)


def rotated(points: Array, degrees: float = 30) -> Array:
    """`tests.cases.rotation` applied to points (..., D)."""
    points = points.copy()
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    for a in range(points.shape[-1] - 1):
        first, second = points[..., a].copy(), points[..., a + 1].copy()
        points[..., a] = cosine * first - sine * second
        points[..., a + 1] = sine * first + cosine * second
    return points


def exact_in_dtype(array: Array, case: Case) -> Array:
    """Round to numbers that bfloat16 can represent, if that is the case's dtype."""
    if case.dtype != "bfloat16":
        return array
    return (np.ascontiguousarray(array).view(np.uint32) & 0xFFFF0000).view(np.float32)


def channels_last(array: Array) -> Array:
    """The same (N, C, *spatial), with the channels of a pixel contiguous in memory."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)


def positions(case: Case, inputs: Inputs) -> Array:
    """The grid in pixels, float64, (N, *out, D)."""
    return cases.positions(inputs.grid, case.shape[2:], False)


def pixel_matrix(case: Case, inputs: Inputs) -> Array:
    """theta of the first item in pixels, in x, y, z: (D, D + 1), float64."""
    size = np.array(case.shape[:1:-1], float)
    middle, theta = (size - 1) / 2, inputs.theta[0].astype(float)
    linear = theta[:, :-1] * size[:, np.newaxis] / size
    shift = theta[:, -1] * size / 2 + middle - linear @ middle
    return np.concatenate([linear, shift[:, np.newaxis]], axis=1)


def perspective(case: Case, inputs: Inputs) -> Array:
    """The rotation in pixels, (3, 3), with the far end of each axis a little smaller."""
    return np.concatenate([pixel_matrix(case, inputs), [[2e-5, 1e-5, 1.0]]])


def touched(case: Case, inputs: Inputs) -> int:
    """Bytes of input, grid and output, and of the gradients that are computed, each once."""
    image, grid = math.prod(case.shape), inputs.grid.size
    out = inputs.upstream.size
    size, grid_item = item_size(case.dtype), item_size(case.real)
    has_grid = case.operation in ("sample", "remap", "map_coordinates")
    forward = size * (image + out) + grid_item * grid * has_grid
    extra = {
        "forward": 0,
        "input": size * image,
        "grid": grid_item * grid,
        "both": size * image + grid_item * grid,
        "step": size * (image + out) + grid_item * grid,
        "double": 2 * size * (image + out) + 3 * grid_item * grid,
        "jvp": size * image + grid_item * grid + size * out,
    }
    return forward + extra[case.direction]


def item_size(dtype: str) -> int:
    """Bytes of a number."""
    return 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize


def highest(dtype: str) -> int:
    """The largest number in an image of a case."""
    return {"uint8": 255, "uint16": 65535}.get(dtype, 1)


# The tables ---------------------------------------------------------------------------------------

PHOTO, FEATURES, LARGE = (1, 3, 1024, 1024), (8, 64, 128, 128), (1, 1, 2048, 2048)
BATCH, DEEP = (32, 3, 224, 224), (1, 256, 64, 64)
VOLUME, VOLUMES, FIELD = (1, 1, 128, 128, 128), (2, 16, 64, 64, 64), (1, 3, 96, 96, 96)
POINTS, SIGNAL, TINY = (1, 64, 64, 64), (16, 32, 65536), (1, 3, 4, 4)

PLANES = (PHOTO, FEATURES, LARGE, BATCH, DEEP)
SOLIDS = (VOLUME, VOLUMES, FIELD)
GRIDS = ("rotation", "noisy", "random")


def every_case() -> Iterator[Case]:
    """All cases; each table has the cases of some targets."""
    yield from forward()
    yield from backward()
    yield from tensors()
    yield from pictures()
    yield from fused()
    yield from scipy_names()
    yield from skimage_names()
    yield from resizing()


def forward() -> Iterator[Case]:
    """All combinations of shapes, grids and methods, and some single cases."""
    for shape in PLANES + SOLIDS:
        for grid in GRIDS:
            for mode in (
                ("nearest", "linear", "cubic") if shape in PLANES else ("nearest", "linear")
            ):
                yield Case(shape, mode=mode, grid=grid)
    for shape in (FEATURES, DEEP, VOLUMES):
        for mode in ("nearest", "linear"):
            yield Case(shape, mode=mode, last=True)
    for shape in (FEATURES, DEEP):
        yield Case(shape, mode="cubic", last=True)
    yield Case(FEATURES, grid="random", last=True)
    for mode in ("nearest", "linear", "cubic"):
        yield Case(POINTS, mode=mode, grid="random", points=100_000)
    for mode, grid in (
        ("linear", "noisy"),
        ("linear", "random"),
        ("nearest", "noisy"),
        ("cubic", "noisy"),
    ):
        yield Case(SIGNAL, mode=mode, grid=grid)
    for shape in (PHOTO, FEATURES, VOLUME):
        for mode in ("nearest", "linear"):
            for boundary in ("zeros", "border", "reflection"):
                yield Case(shape, mode=mode, grid="outside", boundary=boundary)
    for shape in (PHOTO, FEATURES, VOLUME):
        yield Case(shape, dtype="float64")
    yield Case(PHOTO, mode="cubic", dtype="float64")
    for tensor in (False, True):
        yield Case(TINY, tensors=tensor)


def backward() -> Iterator[Case]:
    """Gradients of arrays."""
    for shape in PLANES + SOLIDS:
        for grid in GRIDS:
            yield Case(shape, grid=grid, direction="both")
    for shape in (PHOTO, FEATURES, VOLUME):
        for direction in ("input", "grid"):
            yield Case(shape, direction=direction)
        yield Case(shape, mode="nearest", direction="input")
    for shape in (PHOTO, FEATURES):
        yield Case(shape, mode="cubic", direction="both")
    for shape in (FEATURES, DEEP, VOLUMES):
        yield Case(shape, direction="both", last=True)
    yield Case(POINTS, grid="random", points=100_000, direction="both")
    yield Case(SIGNAL, grid="noisy", direction="both")
    yield Case(PHOTO, direction="both", dtype="float64")


def tensors() -> Iterator[Case]:
    """Cases of tensors: half precision, second derivatives, forward mode, a training step."""
    for dtype in HALVES:
        for shape in (PHOTO, FEATURES, VOLUME):
            for direction in ("forward", "both"):
                yield Case(shape, direction=direction, dtype=dtype, tensors=True)
    for shape in ((4, 16, 128, 128), PHOTO, (1, 1, 96, 96, 96)):
        for direction in ("double", "jvp"):
            yield Case(shape, direction=direction, tensors=True)
    yield Case((4, 16, 128, 128), mode="cubic", direction="double", tensors=True)
    for shape in (PHOTO, (1, 1, 96, 96, 96), TINY):
        yield Case(shape, direction="step", tensors=True)


def pictures() -> Iterator[Case]:
    """Images (H, W, C), as in OpenCV and scikit-image."""
    gray = (1, 1, 1024, 1024)
    for mode in ("nearest", "linear", "cubic"):
        for dtype in ("uint8", "float32"):
            for grid in ("rotation", "random"):
                yield Case(PHOTO, mode=mode, grid=grid, dtype=dtype, last=True)
        yield Case(gray, mode=mode, dtype="uint8")
    for operation in ("remap", "warpAffine", "warpPerspective"):
        for mode in ("nearest", "linear", "cubic", "lanczos4"):
            for dtype in ("uint8", "uint16", "float32"):
                for shape in (PHOTO, gray):
                    yield Case(shape, operation, mode, dtype=dtype, last=shape == PHOTO)


def fused() -> Iterator[Case]:
    """Affine maps, which need no grid in memory."""
    for shape in (PHOTO, FEATURES, BATCH, VOLUME, FIELD):
        yield Case(shape, "affine")
    for shape in (PHOTO, VOLUME):
        yield Case(shape, "affine", "nearest")
        yield Case(shape, "affine", tensors=True)
        yield Case(shape, "affine", tensors=True, direction="step")


def scipy_names() -> Iterator[Case]:
    """Splines of order 0, 1 and 3, the prefilter included."""
    for shape, factor in (((1, 1, 1024, 1024), 1.3), (VOLUME, 1.2)):
        for mode in ("nearest", "linear", "spline3"):
            for operation in ("map_coordinates", "affine_transform"):
                yield Case(shape, operation, mode, dtype="float64")
            yield Case(shape, "zoom", mode, dtype="float64", factor=factor)
            for dtype in ("float32", "uint8"):
                yield Case(shape, "map_coordinates", mode, dtype=dtype)


def skimage_names() -> Iterator[Case]:
    """A volume to 200^3, and a picture."""
    yield Case((1, 1, 256, 256, 256), "skimage", "spline3", factor=200 / 256)
    for mode in ("linear", "spline3"):
        yield Case((1, 1, 1024, 1024), "skimage", mode, factor=1.3)


def resizing() -> Iterator[Case]:
    """A few of the cases of benchmarks.resize."""
    for factor in (0.5, 2.0):
        for mode in ("linear", "cubic"):
            yield Case(PHOTO, "resize", mode, factor=factor)
    yield Case(VOLUME, "resize", factor=0.5)


def chosen(pattern: str) -> list[Case]:
    """The cases whose name contains a pattern with wildcards, without duplicates."""
    wildcard = f"*{pattern}*"
    return [case for case in dict.fromkeys(every_case()) if fnmatchcase(case.name, wildcard)]
