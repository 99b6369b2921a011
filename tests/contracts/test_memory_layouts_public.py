"""Results do not depend on the memory layout of arrays: the public functions above sampling.

`test_memory_layouts.py` tries filters, sampling, and `gridsample.ndimage`.  Here are the others:
drop-ins, fields, cameras and volumes in millimetres.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import cases
import numpy as np
import oracles
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import SEEDS, STEPS, Array, Shape, layouts, shapes
from strategies import examples

import gridsample
from gridsample import cameras, cv, fields, medical, ndimage, operators, skimage
from tests.contracts import test_memory_layouts as others

LIBRARIES = ("numpy", "torch")


@dataclass(frozen=True)
class Arrays:
    """Makes the arguments of a function, of a size that it can have."""

    rng: np.random.Generator
    size: Shape

    def image(self, *before: int, dtype: str = "float64") -> Array:
        """Pixels, (*before, *size)."""
        return cases.pixels(self.rng, (*before, *self.size), dtype)

    def picture(self, dtype: str = "float64") -> Array:
        """Pixels (H, W, C), at least two along each of the first axes."""
        height, width, channels = self.size
        return cases.pixels(self.rng, (height + 1, width + 1, channels), dtype)

    def field(self) -> Array:
        """Smooth displacements (2, *size, 3), which can be inverted."""
        nodes = self.rng.uniform(-0.2, 0.2, (2, 3, 2, 2, 2))
        return np.moveaxis(gridsample.interpolate(nodes, self.size, mode="linear"), 1, -1).copy()

    def uniform(self, low: float, high: float, *shape: int, dtype: str = "float64") -> Array:
        """Uniformly distributed numbers."""
        return self.rng.uniform(low, high, shape).astype(dtype)

    def near(self, rows: int, columns: int, *before: int, spread: float = 0.1) -> Array:
        """Matrices near the identity; the last row of a square matrix is that of the identity."""
        matrix = np.zeros((*before, rows, columns)) + np.eye(rows, columns)
        last = rows - (rows == columns)
        matrix[..., :last, :] += self.rng.uniform(-spread, spread, (*before, last, columns))
        return matrix

    def intrinsics(self, *before: int) -> Array:
        """Intrinsics of cameras whose images have a few pixels."""
        matrix = np.array([[4.0, 0.1, 2.0], [0.0, 5.0, 2.5], [0.0, 0.0, 1.0]])
        return matrix + self.uniform(0, 0.1, *before, 3, 3) * (matrix != 0)

    def points(self, count: int) -> Array:
        """Points in front of a camera."""
        return self.uniform(-1, 1, count, 3) + np.array([0, 0, 3])


Make = Callable[[Arrays], Sequence[Array]]
LENS = np.array([0.1, -0.02, 0.001, 0.002])
FROM = cameras.equirectangular((4, 8))
SIZE = (4, 5, 6)
MATRICES = {(2, 3), (3, 3), (3, 4), (4, 4)}


def views(x: Arrays) -> list[Array]:
    """Points, images, features and two cameras."""
    features = x.uniform(-1, 1, 2, 3, 4, 5)
    return [x.points(7), x.image(2), features, x.intrinsics(2), x.near(4, 4, 2)]


def sums(x: Arrays) -> list[Array]:
    """The pixels of two levels, points and weights."""
    items, queries, heads = x.size
    shape = items, queries, heads, 2, 3
    pixels = x.uniform(-1, 1, items, 2 * 3 + 1, heads, 5)
    return [pixels, x.uniform(0, 1, *shape, 2), x.uniform(-1, 1, *shape)]


LEVELS = [(2, 3), (1, 1)]


LANDMARKS = np.array([[0.0, 0], [4, 1], [1, 3], [3, 4], [0, 2], [2, 2.5]])


def landmarks_for(targets: Any) -> Any:
    """Points of the library of their targets."""
    return LANDMARKS if isinstance(targets, np.ndarray) else torch.from_numpy(LANDMARKS)


def sweep(x: Arrays) -> list[Array]:
    """A reference, two sources, three cameras and depths."""
    items, channels = x.size[:2]
    reference = x.uniform(-1, 1, items, channels, 5, 6)
    sources = x.uniform(-1, 1, items, 2, channels, 5, 6)
    return [
        reference,
        sources,
        x.intrinsics(items, 3),
        x.near(4, 4, items, 3),
        np.array([2.0, 3.0]),
    ]


OPENCV: dict[str, tuple[Make, Callable[..., Any]]] = {
    "remap": (
        lambda x: [
            x.picture("uint8"),
            *(x.uniform(-2, 7, 5, 4, dtype="float32") for _ in range(2)),
        ],
        lambda image, across, down: cv.remap(image, across, down, cv.INTER_LINEAR),
    ),
    "convertMaps": (
        lambda x: [x.uniform(-2, 7, 5, 4, dtype="float32") for _ in range(2)],
        lambda across, down: cv.convertMaps(across, down, cv.CV_16SC2),
    ),
    "initUndistortRectifyMap": (
        lambda x: [x.near(3, 3), x.near(3, 3)],
        lambda camera, new: cv.initUndistortRectifyMap(
            camera, None, None, new, (5, 4), cv.CV_32FC1
        ),
    ),
    "pyrDown": (lambda x: [x.picture("uint8")], cv.pyrDown),
    "pyrUp": (lambda x: [x.picture("float32")], cv.pyrUp),
    "undistort": (
        lambda x: [x.picture("uint8"), x.intrinsics(), LENS],
        cv.undistort,
    ),
    "undistortPoints": (
        lambda x: [x.uniform(0, 5, 7, 2), x.intrinsics(), LENS],
        cv.undistortPoints,
    ),
    "warpAffine": (
        lambda x: [x.picture("float32"), x.near(2, 3)],
        lambda image, matrix: cv.warpAffine(image, matrix, (5, 4), flags=cv.INTER_CUBIC),
    ),
    "warpPerspective": (
        lambda x: [x.picture("uint8"), x.near(3, 3)],
        lambda image, matrix: cv.warpPerspective(image, matrix, (5, 4)),
    ),
    "warpPolar": (
        lambda x: [x.picture("uint8")],
        lambda image: cv.warpPolar(image, (6, 5), (2, 1), 3, cv.INTER_LINEAR),
    ),
    "resize": (
        lambda x: [x.picture("uint8")],
        lambda image: (
            cv.resize(image, (5, 3)),
            cv.resize(image, (3, 2), None, 0, 0, cv.INTER_AREA),
        ),
    ),
}

SKIMAGE: dict[str, tuple[Make, Callable[..., Any]]] = {
    "resize": (lambda x: [x.image()], lambda image: skimage.resize(image, (3, 4, 2), order=1)),
    "rescale": (lambda x: [x.image()], lambda image: skimage.rescale(image, 0.7, order=3)),
    "downscale_local_mean": (
        lambda x: [x.image()],
        lambda image: skimage.downscale_local_mean(image, (2, 3, 1)),
    ),
    "warp": (
        lambda x: [x.picture(), x.near(3, 3)],
        lambda image, matrix: skimage.warp(image, np.asarray(matrix), order=3),
    ),
    "rotate": (lambda x: [x.picture()], lambda image: skimage.rotate(image, 20, resize=True)),
    "swirl": (lambda x: [x.picture()], lambda image: skimage.swirl(image, radius=5)),
    "warp_polar": (
        lambda x: [x.picture()],
        lambda image: skimage.warp_polar(image, output_shape=(6, 5), channel_axis=-1),
    ),
}

MEDICAL: dict[str, tuple[Make, Callable[..., Any]]] = {
    "resample": (
        lambda x: [x.image(2)],
        lambda image: medical.resample(image, (3, 1, 1), (1.5, 1.3, 0.8)),
    ),
    "resample_data_or_seg_to_shape": (
        lambda x: [x.image(2)],
        lambda image: medical.resample_data_or_seg_to_shape(image, SIZE, (4, 1, 1), (1, 1, 1)),
    ),
}


def cells_of(image: Any) -> gridsample.CellOverlaps:
    """Overlaps with as many cells and one more along each axis, some of which are outside."""
    sizes = image.shape[:1:-1]
    return gridsample.CellOverlaps(
        [np.arange(n + 1) for n in sizes], [np.linspace(n, -1, n + 2) for n in sizes]
    )


WORLD: dict[str, tuple[Make, Callable[..., Any]]] = {
    "resample": (
        lambda x: [x.image(), x.near(4, 4), x.near(4, 4)],
        lambda image, affine, to: gridsample.resample(image, affine, (SIZE, to), mode="spline3"),
    ),
    "regrid_conservative": (
        lambda x: [x.image(2, 3)],
        lambda image: gridsample.regrid_conservative(image, cells_of(image)),
    ),
    "regrid_conservative_vjp": (
        lambda x: [x.uniform(-1, 1, 2, 3, *[n + 1 for n in x.size]), x.image(2, 3)],
        lambda values, image: gridsample.regrid_conservative_vjp(values, image, cells_of(image)),
    ),
    "resample_vjp": (
        lambda x: [x.uniform(-1, 1, *SIZE), x.image(), x.near(4, 4), x.near(4, 4)],
        lambda values, image, affine, to: gridsample.resample_vjp(
            values, image, affine, (SIZE, to), mode="spline3"
        ),
    ),
}

FIELDS: dict[str, tuple[Make, Callable[..., Any]]] = {
    "affine_grid": (
        lambda x: [x.near(3, 4, 2)],
        lambda theta: fields.affine_grid(theta, (2, 1, *SIZE)),
    ),
    "compose": (lambda x: [x.field(), x.field()], fields.compose),
    "compose_vjp": (lambda x: [x.field(), x.field(), x.field()], fields.compose_vjp),
    "consistency": (lambda x: [x.field(), x.field()], fields.consistency),
    "exp": (lambda x: [x.field()], lambda velocity: fields.exp(velocity, 2)),
    "exp_vjp": (
        lambda x: [x.field(), x.field()],
        lambda values, velocity: fields.exp_vjp(values, velocity, 2),
    ),
    "flow_warp": (lambda x: [x.image(2, 3), x.field()], fields.flow_warp),
    "homography_grid": (
        lambda x: [x.near(3, 3, 2)],
        lambda matrix: fields.homography_grid(matrix, (5, 6), (4, 3)),
    ),
    "invert": (lambda x: [x.field()], lambda field: fields.invert(field)[:2]),
    "invert_theta": (lambda x: [x.near(3, 4, 2)], fields.invert_theta),
    "invert_vjp": (lambda x: [x.field(), x.field(), x.field()], fields.invert_vjp),
    "jacobian": (lambda x: [x.field()], fields.jacobian),
    "jacobian_determinant": (lambda x: [x.field()], fields.jacobian_determinant),
    "matrix_from_theta": (
        lambda x: [x.near(3, 4, 2)],
        lambda theta: fields.matrix_from_theta(theta, SIZE, SIZE),
    ),
    "regularity": (lambda x: [x.field()], fields.regularity),
    "theta_from_grid": (
        lambda x: [fields.affine_grid(x.near(3, 4, 2), (2, 1, *SIZE))],
        fields.theta_from_grid,
    ),
    "theta_from_matrix": (
        lambda x: [x.near(4, 4, 2)],
        lambda matrix: fields.theta_from_matrix(matrix, SIZE, SIZE),
    ),
    "thin_plate": (
        # Landmarks that are broadcast may be on a line, where there is no spline.
        lambda x: [x.uniform(0, 5, 6, 2)],
        lambda targets: fields.thin_plate(landmarks_for(targets), targets).grid((4, 5)),
    ),
    "to_displacement": (lambda x: [x.field()], lambda grid: fields.to_displacement(grid, SIZE)),
    "to_normalized": (lambda x: [x.field()], lambda grid: fields.to_normalized(grid, SIZE)),
    "to_pixel": (lambda x: [x.field()], lambda grid: fields.to_pixel(grid, SIZE)),
}

CAMERAS: dict[str, tuple[Make, Callable[..., Any]]] = {
    "convert_panorama": (
        lambda x: [x.uniform(-1, 1, 2, 3, 4, 8)],
        lambda image: cameras.convert_panorama(image, FROM, cameras.cubemap(3)),
    ),
    "convert_panorama_vjp": (
        lambda x: [x.uniform(-1, 1, 2, 3, 6, 3, 3), x.uniform(-1, 1, 2, 3, 4, 8)],
        lambda values, image: cameras.convert_panorama_vjp(values, image, FROM, cameras.cubemap(3)),
    ),
    "distort_points": (lambda x: [x.uniform(-0.5, 0.5, 3, 7, 2), LENS], cameras.distort_points),
    "plane_sweep": (
        sweep,
        lambda reference, sources, k, poses, depths: cameras.plane_sweep(
            reference, sources, (k, poses), depths
        ),
    ),
    "plane_sweep_vjp": (
        lambda x: [x.uniform(-1, 1, *x.size[:2], 2, 5, 6), *sweep(x)],
        lambda values, reference, sources, k, poses, depths: cameras.plane_sweep_vjp(
            values, reference, sources, (k, poses), depths
        ),
    ),
    "project": (lambda x: [x.points(7), x.intrinsics(), x.near(4, 4)], cameras.project),
    "sample_views": (views, lambda *arrays: cameras.sample_views(*arrays)[:3]),
    "sample_views_vjp": (
        lambda x: [x.uniform(-1, 1, 7, 2, x.size[0]), x.uniform(-1, 1, 7, 2, 3), *views(x)],
        cameras.sample_views_vjp,
    ),
    "undistort_grid": (
        lambda x: [x.intrinsics(), LENS],
        lambda k, lens: cameras.undistort_grid((5, 6), k, lens),
    ),
    "undistort_points": (
        lambda x: [x.uniform(-0.5, 0.5, 3, 7, 2), LENS],
        cameras.undistort_points,
    ),
}

SUMS: dict[str, tuple[Make, Callable[..., Any]]] = {
    "apply_lut": (
        lambda x: [x.uniform(0, 1, 2, 3, 5, 4), x.uniform(0, 1, 2, *x.size, 4)],
        lambda image, table: operators.apply_lut(image, table, "tetrahedral"),
    ),
    "correlation_lookup": (
        lambda x: [x.image(2, 3), x.image(2, 3), x.uniform(0, 3, 2, 2, *x.size)],
        lambda *arrays: operators.correlation_lookup(*arrays, 1, 1),
    ),
    "correlation_lookup_vjp": (
        lambda x: [
            x.uniform(-1, 1, 2, 9, *x.size),
            x.image(2, 3),
            x.image(2, 3),
            x.uniform(0, 3, 2, 2, *x.size),
        ],
        lambda *arrays: operators.correlation_lookup_vjp(*arrays, 1, 1),
    ),
    "deform_conv2d": (
        lambda x: [
            x.uniform(-1, 1, 2, *x.size[:1], 4, 5),
            x.uniform(-1, 1, 2, 8, 3, 4),
            x.uniform(-1, 1, 2, *x.size[:1], 2, 2),
        ],
        operators.deform_conv2d,
    ),
    "deform_sum2d": (
        lambda x: [
            x.uniform(-1, 1, 2, 4, 5, *x.size[:1]),
            x.uniform(-1, 1, 2, 3, 4, 8),
            x.uniform(-1, 1, 2, 3, 4, 4),
        ],
        lambda *arrays: operators.deform_sum2d(*arrays, 2, 2),
    ),
    "deformable_attention": (
        sums,
        lambda value, *points: operators.deformable_attention(value, LEVELS, *points),
    ),
    "point_features": (
        lambda x: [x.uniform(-1, 1, 2, 3, *x.size), x.uniform(-1, 1, 2, 4, len(x.size))],
        lambda grid, points: operators.point_features([grid, grid[:1]], points),
    ),
    "ps_roi_align": (
        lambda x: [x.uniform(-1, 1, 2, 4, *x.size[1:]), x.uniform(0, 3, 4, 4)],
        lambda image, boxes: operators.ps_roi_align(image, [boxes[:1], boxes[1:]], 2),
    ),
    "roi_align": (
        lambda x: [x.uniform(-1, 1, 2, *x.size), x.uniform(0, 3, 4, 4)],
        lambda image, boxes: operators.roi_align(image, [boxes[:1], boxes[1:]], 2),
    ),
    "rotated_roi_align": (
        lambda x: [x.uniform(-1, 1, 1, *x.size), x.uniform(0, 3, 4, 5)],
        lambda image, boxes: operators.rotated_roi_align(image, [boxes], 2, 0.9, 2),
    ),
    "softmax_splat": (
        lambda x: [
            x.image(2, 3),
            x.uniform(-2, 2, 2, len(x.size), *x.size),
            x.uniform(-1, 1, 2, 1, *x.size),
        ],
        operators.softmax_splat,
    ),
    "softmax_splat_vjp": (
        lambda x: [
            x.image(2, 3),
            x.image(2, 3),
            x.uniform(-2, 2, 2, len(x.size), *x.size),
            x.uniform(0.5, 1, 2, 1, *x.size),
        ],
        lambda *arrays: operators.softmax_splat_vjp(*arrays, "linear"),
    ),
    "weighted_sum": (
        sums,
        lambda *arrays: operators.weighted_sum(*arrays, LEVELS, "bicubic", "mirror"),
    ),
    "weighted_sum_vjp": (
        lambda x: [x.uniform(-1, 1, *x.size, 5), *sums(x)],
        lambda *arrays: operators.weighted_sum_vjp(*arrays, LEVELS, coords="unit"),
    ),
}

TABLES = {
    cv: OPENCV,
    skimage: SKIMAGE,
    medical: MEDICAL,
    gridsample: WORLD,
    fields: FIELDS,
    cameras: CAMERAS,
    operators: SUMS,
}
CASES = {
    f"{module.__name__.removeprefix('gridsample.')}.{name}": case
    for module, table in TABLES.items()
    for name, case in table.items()
}
# Functions of sizes and angles, and those that build on others here: grids of `panorama_rays`, two
# of `undistort_grid`, arrays that `register` makes contiguous.
WITHOUT_ARRAYS = {
    "check_grid", "cubemap", "equirectangular", "explain", "flow_colours", "help", "identity_grid",
    "getRotationMatrix2D", "look", "optimal_intrinsics", "panorama_grid", "panorama_rays",
    "perspective", "register", "stereo_grids", "warmup",
}  # fmt: skip


def each_library() -> Iterator[Any]:
    """Every function with every library, one of which is in ordinary runs."""
    for number, name in enumerate(CASES):
        libraries = LIBRARIES[:1] if name.startswith("cv.") else LIBRARIES
        for library in libraries:
            slow = library != libraries[number % len(libraries)]
            yield pytest.param(name, library, marks=[pytest.mark.slow] if slow else [])


def test_every_public_function_is_tested() -> None:
    tried = {*others.FUNCTIONS, *ndimage.__all__, "spline_filter"}
    tried |= {name for table in TABLES.values() for name in table}
    public = {
        name
        for module in (*TABLES, ndimage)
        for name in module.__all__
        if inspect.isfunction(getattr(module, name))
    }
    assert public - tried == WITHOUT_ARRAYS


@pytest.mark.parametrize(("name", "library"), [*each_library()])
@settings(max_examples=examples(8))
@given(st.data(), SEEDS)
def test_layouts_do_not_change_results(
    name: str, library: str, data: st.DataObject, seed: int
) -> None:
    """Images and fields come in any layout; of matrices, no rows are the same."""
    make, call = CASES[name]
    arrays = make(Arrays(np.random.default_rng(seed), data.draw(shapes(3))))
    distinct = [step for step in STEPS[library] if step]
    laid_out = [
        data.draw(
            layouts(array.ndim, distinct if array.shape[-2:] in MATRICES else STEPS[library])
        ).of(array)
        for array in arrays
    ]
    contiguous = [np.array(array, order="C") for array in laid_out]
    with oracles.unchanged(*laid_out):
        actual, expected = (
            results(call(*(map(torch.from_numpy, some) if library == "torch" else some)))
            for some in (laid_out, contiguous)
        )
    for result, desired in zip(actual, expected, strict=True):
        assert result.dtype == desired.dtype
        if desired.dtype.kind in "biu":
            np.testing.assert_array_equal(result, desired)
            continue
        scale = max(1.0, oracles.magnitude(desired))
        np.testing.assert_allclose(
            result, desired, rtol=0, atol=1e4 * float(np.finfo(desired.dtype).eps) * scale
        )


def results(result: Any) -> list[Array]:
    """The arrays of a result."""
    return [np.asarray(array) for array in (result if isinstance(result, tuple) else (result,))]
