"""A backend without kernels supports every public operation, as a model for further backends.

Tests of the public operations are run once more, with `toy_backend`'s arrays in NumPy's place.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import cases
import numpy as np
import pytest
import toy_backend
from oracles import assert_close
from toy_backend import Toy

import gridsample
from gridsample import backends, fields, operators
from gridsample.world import Displacement
from tests.fields import test_grids
from tests.ops import test_affine, test_options, test_resize, test_splat

MODULES = (test_affine, test_grids, test_options, test_resize, test_splat)


class Through:
    """`gridsample`, whose functions get a `Toy` for each array, and whose Toys become arrays."""

    def __init__(self) -> None:
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        member = getattr(gridsample, name)
        return self.wrapped(member) if inspect.isfunction(member) else member

    def wrapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        parameters = inspect.signature(function).parameters
        arrays = {"input", "grid", "values", "theta", "lattice", "grad_output"} & parameters.keys()

        def call(*positional: Any, **named: Any) -> Any:
            every = dict(zip(parameters, positional, strict=False)) | named
            toys = {
                key: Toy(value) if key in arrays and isinstance(value, np.ndarray) else value
                for key, value in every.items()
            }
            self.calls += any(isinstance(value, Toy) for value in toys.values())
            return as_arrays(function(**toys))

        return call


def as_arrays(values: Any) -> Any:
    """Toys as arrays."""
    if isinstance(values, tuple):
        return tuple(map(as_arrays, values))
    return values.numbers if isinstance(values, Toy) else values


@pytest.fixture(autouse=True)
def through(monkeypatch: pytest.MonkeyPatch) -> Iterator[Through]:
    known = dict(backends.LOADERS)
    backends.register("toy_backend", lambda: toy_backend.BACKEND)
    result = Through()
    for module in MODULES:
        monkeypatch.setattr(module, "gridsample", result)
    yield result
    backends.LOADERS.clear()
    backends.LOADERS.update(known)


# Each operation against NumPy's backend -----------------------------------------------------------


def pair(function: str, *arrays: Any, **options: Any) -> None:
    """A function's results for Toys match those for arrays."""
    call = getattr(gridsample, function)
    expected = call(*arrays, **options)
    toys = [Toy(array) if isinstance(array, np.ndarray) else array for array in arrays]
    result = call(*toys, **options)
    several = isinstance(expected, tuple)
    for mine, other in zip(
        result if several else (result,), expected if several else (expected,), strict=True
    ):
        assert (mine is None) == (other is None)
        if other is not None:
            assert type(mine) is Toy
            assert mine.dtype == other.dtype
            assert_close(mine.numbers, other, 1e-11 if other.dtype.itemsize > 4 else 1e-5)


METHODS = [
    ("linear", "zeros"),
    ("cubic", "reflection"),
    ("spline3", "mirror"),
    ("nearest", "constant"),
    (("catmull-rom", "spline4"), ("wrap", "antisymmetric")),
]


@pytest.mark.parametrize(
    ("mode", "boundary", "axis"),
    [
        pytest.param(*method, axis, marks=[pytest.mark.slow] * ((i + (axis == 1)) % 4 != 0))
        for i, method in enumerate(METHODS)
        for axis in (1, -1)
    ],
)
def test_every_sampling_function(mode: Any, boundary: Any, axis: int) -> None:
    rng = cases.generator("toy", str(mode))
    image, grid = cases.pixels(rng, (1, 2, 4, 5)), rng.uniform(-1.3, 1.3, (2, 3, 2, 2))
    values, theta = cases.pixels(rng, (2, 2, 3, 2)), rng.uniform(-1, 1, (2, 2, 3))
    if axis == -1:
        image, values = (np.moveaxis(array, 1, -1).copy() for array in (image, values))
    options = {"mode": mode, "padding_mode": boundary, "channel_axis": axis}
    size = (2, 2, 3, 2)
    pair("grid_sample", image, grid, **options, return_mask=True)
    pair("grid_sample_vjp", values, image, grid, **options)
    pair("grid_sample_vjp", values, image, grid, **options, need_grid=False)
    pair("affine_sample", image, theta, size, **options)
    pair("affine_sample_vjp", values, image, theta, size, **options)
    lattice = grid[:, :2]
    pair("lattice_grid", lattice, size)
    pair("lattice_sample", image, lattice, size, **options)
    pair("lattice_sample_vjp", values, image, lattice, size, **options)
    pair("grid_gradient", image, grid, **options)
    pair("grid_hessian", image, grid, **options)
    pair("splat", values, grid, (4, 5), **options, normalize="constant" not in boundary)
    pair("splat_count", grid, (4, 5), **options)
    fill = {"fill_value": (2.5, -1), "extrapolate": False}
    pair("grid_sample", image, grid, **options, **fill)


@pytest.mark.parametrize("boundary", ["zeros", "missing", ("missing", "constant")])
def test_missing_pixels_and_weights(boundary: Any) -> None:
    rng = cases.generator("toy", "missing", str(boundary))
    image, grid = cases.pixels(rng, (1, 2, 4, 5)), rng.uniform(-1.3, 1.3, (2, 3, 2))
    image[rng.random(image.shape) < 0.3] = np.nan
    values, theta = cases.pixels(rng, (2, 2, 3, 2)), rng.uniform(-1, 1, (2, 2, 3))
    options = {"padding_mode": boundary, "missing": "ignore", "min_weight": 0.1}
    pair("grid_sample", image, grid, **options, return_weight=True)
    pair("grid_sample_vjp", values[..., 0], image, grid, **options)
    pair("affine_sample", image, theta, (2, 2, 3, 2), **options)
    pair("affine_sample_vjp", values, image, theta, (2, 2, 3, 2), **options)
    pair("splat", image[..., 0, :3], grid[..., :1], 6, missing="ignore", normalize=True)
    pair("interpolate", image, (5, 3), mode="linear", missing="ignore", return_weight=True)
    integers = np.nan_to_num(image).astype(np.int16)
    weights = Toy(rng.random((1, 1, 4, 5)) < 0.5)
    call = gridsample.grid_sample
    result = call(Toy(integers), Toy(grid), padding_mode="missing", weights=weights)
    expected = call(integers, grid, padding_mode="missing", weights=weights.numbers)
    np.testing.assert_array_equal(result.numbers, expected)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32", "complex128"])
def test_every_dtype_category(dtype: str) -> None:
    rng = cases.generator("toy", dtype)
    image, grid = cases.pixels(rng, (2, 1, 6), dtype), rng.uniform(-1, 1, (1, 5, 1))
    for mode in ("linear", "spline3"):
        pair("grid_sample", image, grid, mode, "mirror")
        pair("splat", image, np.resize(grid, (1, 6, 1)), 4, mode, "mirror")
    pair("spline_filter", image, 3)
    pair("spline_filter", image, 5, "wrap", adjoint=True)
    pair("interpolate", image, 9, mode="cubic")


def test_grids_and_resizing() -> None:
    rng = cases.generator("toy", "rest")
    pair("affine_grid", rng.uniform(-1, 1, (2, 2, 3)), (2, 1, 3, 4), True)
    image = cases.pixels(rng, (1, 2, 4, 6))
    for mode, antialias in itertools.product(("linear", "area", "spline3"), (False, True)):
        pair("interpolate", image, (5, 3), mode=mode, antialias=antialias)
        upstream = cases.pixels(rng, (1, 2, 5, 3))
        pair("interpolate_vjp", upstream, image, (5, 3), mode=mode, antialias=antialias)
    cells = gridsample.CellOverlaps(
        [range(7), range(5)], [(7, 3, 1, 0), (-1, 0, 1.5, 2, 3, 5)], period=(None, 4)
    )
    pair("regrid_conservative", image, cells, return_weight=True)
    pair("regrid_conservative_vjp", upstream, image, cells, missing="ignore")


@pytest.mark.slow
def test_grids_of_every_rank() -> None:
    rng = cases.generator("toy", "fields")
    calls: dict[str, Callable[..., Any]] = {
        "compose": fields.compose,
        "compose_vjp": lambda f, g: fields.compose_vjp(g, f, g),
        "invert": lambda f, g: fields.invert(f, iterations=3, tolerance=1e-12)[:2],
        "invert_vjp": lambda f, g: fields.invert_vjp(g, f, g),
        "exp": lambda f, g: fields.exp(f, 2),
        "exp_vjp": lambda f, g: fields.exp_vjp(g, f, 2),
        "consistency": lambda f, g: fields.consistency(f, g).error,
        "jacobian": lambda f, g: fields.jacobian(f, "bicubic"),
        "determinant": lambda f, g: fields.jacobian_determinant(f),
        "regularity": lambda f, g: fields.regularity(f),
        "units": lambda f, g: fields.to_normalized(
            fields.to_displacement(fields.to_pixel(f, coords="displacement"), coords="pixel"),
            f.shape[1:-1],
            True,
            coords="displacement",
        ),
        "theta": lambda f, g: fields.theta_from_grid(f),
        "thin_plate": lambda f, g: fields.thin_plate(
            *(x.reshape(1, -1, x.shape[-1]) for x in (f, g))
        ).grid((3, 4, 2)[: f.shape[-1]]),
    }
    for spatial in ((5,), (3, 4), (2, 3, 2)):
        grids = [rng.uniform(-0.4, 0.4, (1, *spatial, len(spatial))) for _ in range(2)]
        for name, call in calls.items():
            expected, result = call(*grids), call(*map(Toy, grids))
            several = isinstance(expected, tuple)
            for mine, other in zip(
                result if several else (result,), expected if several else (expected,), strict=True
            ):
                assert type(mine) is Toy, name
                assert_close(mine.numbers, other, 1e-9)
    maps = rng.uniform(-0.1, 0.1, (2, 2, 3)) + np.eye(2, 3)
    arguments = (4, 5), (3, 2), True, "scipy"
    for convert in (fields.theta_from_matrix, fields.matrix_from_theta, fields.homography_grid):
        assert_close(as_arrays(convert(Toy(maps), *arguments)), convert(maps, *arguments), 1e-12)


def test_operators_are_composed() -> None:
    rng, sizes = cases.generator("toy", "operators"), [(3, 2), (1, 2)]
    images, upstream = rng.standard_normal((1, 8, 2, 3)), rng.standard_normal((1, 2, 2, 3))
    points, weights = rng.uniform(0, 1, (1, 2, 2, 2, 2, 2)), rng.uniform(0, 1, (1, 2, 2, 2, 2))
    picture, boxes = rng.standard_normal((2, 3, 4, 5)), np.array([[1, 0.5, 1, 3, 4.0]])
    calls: list[tuple[Callable[..., Any], list[Any]]] = [
        (
            lambda x, *rest: operators.deformable_attention(x, sizes, *rest),
            [images, points, weights],
        ),
        (
            lambda *arrays: operators.weighted_sum_vjp(*arrays, sizes, "bicubic", "mirror"),
            [upstream, images, points, weights],
        ),
        (lambda *arrays: operators.roi_align(*arrays, 2, sampling_ratio=2), [picture, boxes]),
        (
            lambda *arrays: operators.point_features(arrays[:2], arrays[2], [(0, 1), (2, 1)]),
            [picture, picture[:1], rng.uniform(-1, 1, (2, 4, 3))],
        ),
        (
            lambda *arrays: operators.deform_conv2d(*arrays, mask=arrays[1][:, :4]),
            [picture, rng.uniform(-1, 1, (2, 8, 3, 4)), rng.standard_normal((2, 3, 2, 2))],
        ),
        (
            lambda *arrays: operators.deform_sum2d(*arrays, 3, 3, remove_center=True),
            [picture, rng.uniform(-1, 1, (2, 1, 2, 16)), rng.uniform(0, 1, (2, 1, 2, 8))],
        ),
        (
            lambda *arrays: operators.correlation_lookup(*arrays, 1, 2),
            [picture, picture, rng.uniform(0, 4, (2, 2, 4, 5))],
        ),
        (
            lambda *arrays: operators.correlation_lookup_vjp(*arrays, 1, 2),
            [rng.standard_normal((2, 18, 4, 5)), picture, picture, rng.uniform(0, 4, (2, 2, 4, 5))],
        ),
        (
            lambda *arrays: operators.softmax_splat_vjp(*arrays, "linear"),
            [picture, picture, rng.uniform(-2, 2, (2, 2, 4, 5)), picture[:, :1] ** 2],
        ),
        (operators.apply_lut, [picture, picture[:1, :1, 0]]),
        (
            lambda *arrays: operators.apply_lut(*arrays, "tetrahedral"),
            [picture, picture[..., None]],
        ),
    ]
    for call, arrays in calls:
        expected, result = call(*arrays), as_arrays(call(*map(Toy, arrays)))
        several = isinstance(expected, tuple)
        pairs = zip(result, expected, strict=True) if several else [(result, expected)]
        for mine, other in pairs:
            assert_close(mine, other, 1e-12)


def test_resampling_in_millimetres() -> None:
    rng = cases.generator("toy", "worlds")
    image, upstream = rng.normal(size=(4, 5)), rng.normal(size=(3, 4))
    affine, other, matrix = (np.eye(3) + rng.uniform(-0.1, 0.1, (3, 3)) for _ in range(3))
    vectors = rng.uniform(-0.3, 0.3, (3, 4, 2))
    for matrices in (affine, other, matrix):
        matrices[2] = 0, 0, 1
    for transform, theirs in (
        (matrix, Toy(matrix)),
        (
            [matrix, Displacement(vectors, other)],
            [Toy(matrix), Displacement(Toy(vectors), Toy(other))],
        ),
    ):
        like = (3, 4), other
        arguments = Toy(image), Toy(affine), (like[0], Toy(other)), theirs
        expected = gridsample.resample(image, affine, like, transform, "cubic")
        assert_close(as_arrays(gridsample.resample(*arguments, "cubic")), expected, 1e-12)
        expected = gridsample.resample_vjp(upstream, image, affine, like, transform)
        assert_close(as_arrays(gridsample.resample_vjp(Toy(upstream), *arguments)), expected, 1e-12)


# The operations' own tests ------------------------------------------------------------------------


def runs() -> Iterator[Any]:
    """Tests of `MODULES` that take arrays through the operations, with all of their parameters."""
    for name, function in OWN:
        marks = [m for m in getattr(function, "pytestmark", []) if m.name == "parametrize"]
        choices = []
        for mark in marks:
            names = (
                [name.strip() for name in mark.args[0].split(",")]
                if isinstance(mark.args[0], str)
                else list(mark.args[0])
            )
            choices.append(
                [
                    dict(zip(names, row if len(names) > 1 else (row,), strict=True))
                    for row in mark.args[1]
                ]
            )
        for k, chosen in enumerate(itertools.product(*choices)):
            arguments = {key: value for part in chosen for key, value in part.items()}
            yield pytest.param(function, arguments, id=f"{name}-{k}")


OWN = [
    (name, getattr(module, name))
    for module, names in {
        test_splat: (
            "test_one_item_of_values_is_broadcast_to_every_grid",
            "test_displacement_fields_are_splatted_along_themselves",
            "test_counts_are_splats_of_ones_and_equal_values_are_kept",
            "test_dtypes_of_sums",
            "test_invalid_points_and_empty_arrays",
        ),
        test_options: (
            "test_a_complex_image_may_have_a_complex_fill",
            "test_a_zero_displacement_field_is_the_identity",
            "test_fill_values_in_worked_examples",
            "test_gradients_have_the_units_of_the_grid",
            "test_pixel_coordinates_start_at_the_centre_of_the_first_pixel",
            "test_masks_in_worked_examples",
            "test_the_mask_is_a_sample_of_ones",
            "test_the_image_ends_at_its_edges",
        ),
        test_affine: (
            "test_fill_and_extrapolate",
            "test_maps_of_pixels",
            "test_unneeded_gradients_are_not_computed",
        ),
        test_grids: ("test_affine_grid_matches_torch", "test_sizes_of_zero_make_empty_grids"),
        test_resize: (
            "test_modes_for_each_axis_are_in_x_y_z_order",
            "test_sizes_follow_torch",
        ),
    }.items()
    for name in names
]


@pytest.mark.filterwarnings("ignore:Since version 1.3.0")  # of torch's affine_grid
@pytest.mark.parametrize(("test", "parameters"), [*runs()])
def test_tests_of_operations_pass_with_the_toy_backend(
    test: Any, parameters: Any, through: Through
) -> None:
    test(**parameters)
    assert through.calls
