"""Results do not depend on the memory layout of arrays.

A shortcut for one layout, such as that of channels that come last, is easily right only for the
axes that its author thought of.  These tests try every order of the axes with every function.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import cases
import numpy as np
import oracles
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from layouts import SEEDS, STEPS, WRITABLE, Array, Layout, Shape, layouts, shapes
from scipy import ndimage as scipys
from strategies import examples

import gridsample
from gridsample import ndimage
from gridsample.backends.torch.filtering import prefilter_by_matrices

# Filters: every order of the axes, with every axis ------------------------------------------------


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("rank", [3, 2, 4])  # the first case is that of ordinary runs
@pytest.mark.parametrize("order", [3, 2, 4, 5])
def test_filters_run_along_their_axis_in_every_layout(rank: int, order: int) -> None:
    for shape in itertools.product(*[(n, 1) for n in (4, 3, 5, 2)[:rank]]):
        image = cases.pixels(cases.generator(shape), shape)
        expected = [scipys.spline_filter1d(image, order, axis) for axis in range(rank)]
        for axes in itertools.permutations(range(rank)):
            laid_out = Layout(axes, (1,) * rank).of(image)
            tensor = torch.from_numpy(laid_out)
            for axis in range(rank):
                of_tensor = gridsample.spline_filter(tensor, order, axes=axis)
                for result in (
                    ndimage.spline_filter1d(laid_out, order, axis),
                    gridsample.spline_filter(laid_out, order, axes=axis),
                    of_tensor.numpy(),
                    prefilter_by_matrices(tensor, order, ["mirror"], [axis], False).numpy(),
                ):
                    np.testing.assert_allclose(
                        result, expected[axis], rtol=0, atol=1e-12, err_msg=f"{shape, axes, axis}"
                    )


@pytest.mark.parametrize("library", STEPS)
@given(st.data(), SEEDS)
def test_filters_along_several_axes(library: str, data: st.DataObject, seed: int) -> None:
    """With a boundary for each axis, and their transposes."""
    rank = data.draw(st.integers(1, 5))
    image = cases.pixels(np.random.default_rng(seed), data.draw(shapes(rank)))
    laid_out = data.draw(layouts(rank, STEPS[library])).of(image)
    axes = data.draw(st.lists(st.integers(0, rank - 1), unique=True))
    boundaries = [data.draw(st.sampled_from(["mirror", "symmetric", "zeros"])) for _ in axes]
    order, adjoint = data.draw(st.integers(0, 7)), data.draw(st.booleans())

    expected = np.array(laid_out)
    for axis, boundary in zip(axes, boundaries, strict=True):  # each as the last one of a matrix
        lines = np.moveaxis(expected, axis, -1)
        rows = np.ascontiguousarray(lines).reshape(-1, lines.shape[-1])
        rows = gridsample.spline_filter(rows, order, boundary, 1, adjoint=adjoint)
        expected = np.moveaxis(rows.reshape(lines.shape), -1, axis)
    with oracles.unchanged(laid_out):
        source = torch.from_numpy(laid_out) if library == "torch" else laid_out
        result = gridsample.spline_filter(source, order, boundaries, axes, adjoint=adjoint)
    np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-12, atol=1e-12)


# gridsample.ndimage against SciPy -----------------------------------------------------------------


def each(names: Sequence[str], costly: Sequence[str]) -> pytest.MarkDecorator:
    """Every function with all orders and ranks, which is slow: each has kernels of its own.

    The ordinary run has cubic splines of volumes, but for functions that are ``costly``.
    """
    choices = [
        *[pytest.param(name, [3], [3], id=name) for name in names if name not in costly],
        *[
            pytest.param(name, range(6), range(1, 5), id=f"{name}-all", marks=pytest.mark.slow)
            for name in names
        ],
    ]
    return pytest.mark.parametrize(("name", "orders", "ranks"), choices)


# Modes of which SciPy's filter is exact, however short the lines are.
FILTERED = ("mirror", "constant", "grid-wrap")
SAMPLED = (*FILTERED, "nearest", "grid-constant", "wrap")


@st.composite
def calls(
    draw: st.DrawFn, name: str, image: Array, orders: Sequence[int]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments after the image of a function of `ndimage`, and its options."""
    rank, rng = image.ndim, np.random.default_rng(draw(SEEDS))
    filters = name.startswith("spline_filter")
    options = {
        "order": draw(st.sampled_from([n for n in orders if n > 1 or name != "spline_filter"])),
        "mode": draw(st.sampled_from(FILTERED if filters else SAMPLED)),
    }
    arguments: list[Any] = []
    match name:
        case "spline_filter1d":
            options["axis"] = draw(st.integers(-rank, rank - 1))
        case "map_coordinates":
            places = rng.uniform(-2, 7, (rank, *draw(shapes(draw(st.integers(1, 3))))))
            arguments = [draw(layouts(places.ndim)).of(places)]
        case "geometric_transform":
            permutation = rng.permutation(rank)
            arguments = [lambda at: tuple(at[axis] * 0.9 + 0.2 for axis in permutation)]
        case "affine_transform":
            matrix = np.eye(rank) + rng.normal(size=(rank, rank)) / 3
            arguments = [
                matrix.diagonal() if draw(st.booleans()) else matrix,
                rng.normal(size=rank),
            ]
        case "rotate":
            # A single pixel would stay exactly at both edges, but for rounding.
            longer = [a for a in range(rank) if image.shape[a] > 1]
            assume(len(longer) > 1)
            options["axes"] = axes = draw(st.permutations(longer))[:2]
            # The centre stays where it is, and rounding decides which of two pixels it copies.
            assume(options["order"] > 0 or all(image.shape[a] % 2 for a in axes))
            arguments = [rng.uniform(-90, 90)]
        case "shift":
            arguments = [rng.normal(size=rank)]
        case "zoom":
            arguments = [rng.uniform(0.5, 2, rank)]
    if not filters:
        options["cval"] = 1.7
    return arguments, options


def ranks_of(name: str, ranks: Sequence[int]) -> st.SearchStrategy[int]:
    """The ranks that are tested; programs that sample four axes at once take long to compile."""
    all_axes = name in ("map_coordinates", "geometric_transform", "affine_transform")
    least, most = 2 if name == "rotate" else 1, 3 if all_axes else 4
    return st.sampled_from([rank for rank in ranks if least <= rank <= most])


@each(ndimage.__all__, ["affine_transform", "geometric_transform"])
@settings(max_examples=examples(50))
@given(st.data(), SEEDS)
def test_ndimage_matches_scipy_in_every_layout(
    name: str, orders: Sequence[int], ranks: Sequence[int], data: st.DataObject, seed: int
) -> None:
    rank = data.draw(ranks_of(name, ranks))
    longest = 3 if name == "geometric_transform" else 6
    image = cases.pixels(np.random.default_rng(seed), data.draw(shapes(rank, longest)))
    laid_out = data.draw(layouts(rank)).of(image)
    arguments, options = data.draw(calls(name, laid_out, orders))
    with warnings.catch_warnings():  # SciPy's, about zooming to one pixel
        warnings.simplefilter("ignore")
        expected = getattr(scipys, name)(np.array(laid_out), *arguments, **options)
    output = None
    if data.draw(st.booleans()):
        output = data.draw(layouts(expected.ndim, WRITABLE)).of(np.zeros_like(expected))
        options["output"] = output
    with oracles.unchanged(laid_out):
        result = getattr(ndimage, name)(laid_out, *arguments, **options)
    assert output is None or np.shares_memory(result, output)
    np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-10)


@each(
    sorted({*ndimage.__all__} - {"geometric_transform"}),
    ["affine_transform", "rotate", "map_coordinates"],
)
@settings(max_examples=examples(50))
@given(st.data(), SEEDS)
def test_ndimage_of_tensors_in_every_layout(
    name: str, orders: Sequence[int], ranks: Sequence[int], data: st.DataObject, seed: int
) -> None:
    """Values are SciPy's; the gradient is that of contiguous tensors."""
    rng = np.random.default_rng(seed)
    rank = data.draw(ranks_of(name, ranks))
    image = data.draw(layouts(rank, STEPS["torch"])).of(cases.pixels(rng, data.draw(shapes(rank))))
    arguments, options = data.draw(calls(name, image, orders))
    arguments = [
        np.array(argument) if isinstance(argument, np.ndarray) else argument
        for argument in arguments
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = getattr(scipys, name)(np.array(image), *arguments, **options)
    upstream = data.draw(layouts(expected.ndim, STEPS["torch"])).of(
        cases.pixels(rng, expected.shape)
    )

    def results(image: Array, upstream: Array) -> tuple[Array, Array]:
        source = torch.from_numpy(image).requires_grad_()
        values = getattr(ndimage, name)(source, *arguments, **options)
        (gradient,) = torch.autograd.grad(values, source, torch.from_numpy(upstream))
        return values.detach().numpy(), gradient.numpy()

    result, gradient = results(image, upstream)
    _, desired = results(np.array(image, order="C"), np.array(upstream, order="C"))
    np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(gradient, desired, rtol=1e-10, atol=1e-10)


# All functions of images (N, C, *spatial): a layout changes nothing -------------------------------


@dataclass(frozen=True)
class Inputs:
    """Arrays that a function may take; channels are at ``channel_axis``.

    Attributes:
        image: (N, C, *spatial).
        holed: the same with missing pixels.
        grid: (N, *out, D), with as many axes of points as of pixels.
        values: (N, C, *out), the gradient upstream.
        theta: (N, D, D + 1), affine maps.
        along: the direction of a second derivative, of the image's shape.
        shift: the same, of the grid's shape.
    """

    image: Any
    holed: Any
    grid: Any
    values: Any
    theta: Any
    along: Any
    shift: Any
    spatial: Shape
    out: Shape
    options: dict[str, Any]

    def each(self, change: Callable[[Array], Any]) -> Inputs:
        """Change each array."""
        names = [field.name for field in fields(self) if field.type == "Any"]
        return replace(self, **{name: change(getattr(self, name)) for name in names})

    @property
    def size(self) -> Shape:
        """The shape of a result (N, C, *out)."""
        channels = self.values.shape[self.options["channel_axis"]]
        return (len(self.values), channels, *self.out)

    @property
    def axes(self) -> dict[str, int]:
        """The channel axis as an option."""
        return {"channel_axis": self.options["channel_axis"]}


def second_derivatives(x: Inputs) -> Any:
    """All derivatives of a product with the gradients of sampling."""
    image, grid, values = (
        tensor.detach().requires_grad_() for tensor in (x.image, x.grid, x.values)
    )
    sampled = gridsample.grid_sample(image, grid, **x.options)
    gradients = torch.autograd.grad(sampled, (image, grid), values, create_graph=True)
    return torch.autograd.grad(gradients, (image, grid, values), (x.along, x.shift))


FUNCTIONS: dict[str, Callable[[Inputs], Any]] = {
    "grid_sample": lambda x: gridsample.grid_sample(x.image, x.grid, **x.options),
    "grid_sample_vjp": lambda x: gridsample.grid_sample_vjp(x.values, x.image, x.grid, **x.options),
    "interpolate": lambda x: gridsample.interpolate(
        x.image, x.out, mode=x.options["mode"], **x.axes
    ),
    "interpolate_vjp": lambda x: gridsample.interpolate_vjp(
        x.values, x.image, x.out, mode=x.options["mode"], **x.axes
    ),
    "affine_sample": lambda x: gridsample.affine_sample(x.image, x.theta, x.size, **x.options),
    "affine_sample_vjp": lambda x: gridsample.affine_sample_vjp(
        x.values, x.image, x.theta, x.size, **x.options
    ),
    "lattice_grid": lambda x: gridsample.lattice_grid(x.grid, x.size, "spline3"),
    "lattice_sample": lambda x: gridsample.lattice_sample(
        x.image, x.grid, x.size, interpolation="spline3", **x.options
    ),
    "lattice_sample_vjp": lambda x: gridsample.lattice_sample_vjp(
        x.values, x.image, x.grid, x.size, interpolation="spline3", **x.options
    ),
    "splat": lambda x: gridsample.splat(x.values, x.grid, x.spatial, **x.options),
    "splat_count": lambda x: gridsample.splat_count(x.grid, x.spatial, mode=x.options["mode"]),
    "footprint": lambda x: gridsample.footprint(x.grid, x.spatial),
    "grid_gradient": lambda x: gridsample.grid_gradient(x.image, x.grid, **x.options),
    "grid_hessian": lambda x: gridsample.grid_hessian(x.image, x.grid, **x.options),
    "antialias": lambda x: gridsample.grid_sample_vjp(
        x.values, x.image, x.grid, antialias=True, **x.options | {"mode": "linear"}
    ),
    "missing": lambda x: gridsample.grid_sample_vjp(
        x.values, x.holed, x.grid, missing="ignore", **x.options | {"mode": "linear"}
    ),
    "displacements": lambda x: gridsample.grid_sample_vjp(
        x.values, x.image, x.grid, coords="displacement", **x.options
    ),
}


MODES = ("linear", "cubic", "spline3")


@st.composite
def inputs(
    draw: st.DrawFn, dtype: str, ranks: Sequence[int] = (1, 2, 3), modes: Sequence[str] = MODES
) -> Inputs:
    """Arrays of a dtype, C-contiguous."""
    rng, rank = np.random.default_rng(draw(SEEDS)), draw(st.sampled_from(ranks))
    items, channels = draw(st.integers(1, 2)), draw(st.sampled_from([1, 2, 3, 9]))
    spatial, out = draw(shapes(rank, 7)), draw(shapes(rank, 7))
    real = np.dtype(dtype).type().real.dtype
    axis = draw(st.sampled_from([1, -1]))

    def pixels(shape: Shape) -> Array:
        planes = cases.pixels(rng, (items, channels, *shape), dtype)
        return np.ascontiguousarray(np.moveaxis(planes, 1, axis))

    grid = rng.uniform(-1.2, 1.2, (items, *out, rank)).astype(real)
    theta = np.eye(rank, rank + 1) + rng.normal(size=(items, rank, rank + 1)) / 3
    image = pixels(spatial)
    return Inputs(
        image,
        np.where(image.real > 1, real.type(np.nan), image),
        grid,
        pixels(out),
        theta.astype(real),
        pixels(spatial),
        rng.normal(size=grid.shape).astype(real),
        spatial,
        out,
        {
            "mode": draw(st.sampled_from(modes)),
            "padding_mode": draw(st.sampled_from(cases.BOUNDARIES)),
            "channel_axis": axis,
        },
    )


def check(function: Callable[[Inputs], Any], library: str, x: Inputs, data: st.DataObject) -> None:
    """Compare a function of arrays in any layout with that of contiguous copies."""
    laid_out = x.each(lambda array: data.draw(layouts(array.ndim, STEPS[library])).of(array))
    contiguous = laid_out.each(lambda array: np.array(array, order="C"))
    if library == "torch":
        laid_out, contiguous = laid_out.each(torch.from_numpy), contiguous.each(torch.from_numpy)
    results, expected = (
        [np.asarray(array) for array in (created if isinstance(created, tuple) else (created,))]
        for created in (function(laid_out), function(contiguous))
    )
    for result, desired in zip(results, expected, strict=True):
        assert result.dtype == desired.dtype
        if desired.dtype.kind == "i":
            np.testing.assert_array_equal(result, desired)
            continue
        epsilon = np.finfo(desired.dtype).eps
        scale = 1e3 * epsilon * max(1.0, oracles.magnitude(desired))
        np.testing.assert_allclose(result, desired, rtol=0, atol=scale)


@pytest.mark.parametrize("library", STEPS)
@settings(max_examples=examples(24))
@given(st.data())
def test_linear_images_match_in_every_layout(library: str, data: st.DataObject) -> None:
    x = data.draw(inputs("float64", ranks=[2], modes=["linear"]))
    check(FUNCTIONS["grid_sample_vjp"], library, x, data)
    check(FUNCTIONS["interpolate"], library, x, data)


@pytest.mark.covering(ordinary=0)
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex64"])
@pytest.mark.parametrize("library", STEPS)
@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=3)  # an example may need programs of its own
@given(st.data())
def test_layouts_do_not_change_results(
    name: str, library: str, dtype: str, data: st.DataObject
) -> None:
    check(FUNCTIONS[name], library, data.draw(inputs(dtype)), data)


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(st.data())
def test_layouts_do_not_change_second_derivatives(data: st.DataObject) -> None:
    check(second_derivatives, "torch", data.draw(inputs("float64")), data)


@settings(max_examples=examples(40))
@given(st.data())
def test_out_arrays_may_have_any_layout(data: st.DataObject) -> None:
    x = data.draw(inputs("float64", ranks=[2], modes=["linear"]))
    expected = gridsample.grid_sample(x.image, x.grid, **x.options)
    out = data.draw(layouts(expected.ndim, WRITABLE)).of(np.zeros_like(expected))
    gridsample.grid_sample(x.image, x.grid, **x.options, out=out)
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)


# Arrays of another byte order, and at any address -------------------------------------------------


def swapped_field(array: Array) -> Array:
    """A field of records in another byte order, whose strides are no multiples of the item size."""
    return cases.field(array.astype(array.dtype.newbyteorder()))


FORMS: dict[str, Callable[[Array], Array]] = {
    "unaligned": cases.unaligned,
    "field": cases.field,
    "swapped": cases.LAYOUTS["byte-swapped"],
    "swapped field": swapped_field,
    "swapped reversed": lambda array: swapped_field(cases.reversed_axes(array)),
    "swapped rolled": lambda array: cases.rolled(swapped_field(array)),
    "swapped repeated": lambda array: cases.repeated(cases.LAYOUTS["byte-swapped"](array)),
}


@pytest.mark.covering
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "uint16", "int64", "complex64"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic", "lanczos4", "label"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("points", [4, 3000])  # a copy pays for many
@pytest.mark.parametrize("grids", [1, 2])
@pytest.mark.parametrize("antialias", [False, True])
def test_sampling_accepts_any_memory_layout(
    form: str, dtype: str, mode: str, weighted: bool, points: int, grids: int, antialias: bool
) -> None:
    rng, number = cases.generator(form, dtype, mode, points), np.dtype(dtype)
    integers = number.kind in "iu"
    mode = "cubic" if mode == "label" and not integers else mode
    real = np.float64 if dtype == "float64" else np.float32
    options: dict[str, Any] = {"mode": mode, "padding_mode": "reflection"}
    image = cases.pixels(rng, (2, 3, 41, 37), float if integers else dtype) * 40
    image = np.abs(image).astype(dtype) if integers else image
    if antialias:
        options["antialias"] = True
    elif weighted and mode != "label":
        options["weights"] = FORMS[form](rng.uniform(0.1, 2, (2, 1, 41, 37)).astype(real))
        if number.kind == "f":
            image[:, 1, 5:9] = np.nan
            options["missing"] = "ignore"
    grid = rng.uniform(-1.2, 1.2, (grids, points, 1, 2)).astype(real)
    grid = np.broadcast_to(grid, (2, *grid.shape[1:]))
    laid_out = FORMS[form](image)
    native = {name: np.array(x, real) for name, x in options.items() if name == "weights"}
    with oracles.unchanged(laid_out):
        result = gridsample.grid_sample(laid_out, grid, **options)
    expected = gridsample.grid_sample(np.array(laid_out, dtype), grid, **options | native)
    assert result.dtype == expected.dtype == number
    # Sums may be in another order, by which integers may round to the other side.
    slack = (mode != "label") if integers else min(1e4 * float(np.finfo(number).eps), 0.5)
    np.testing.assert_allclose(result, expected, rtol=0, atol=slack)
