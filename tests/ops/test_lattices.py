"""`lattice_grid` against plain sums and SimpleITK, and `lattice_sample` against its grid."""

from __future__ import annotations

import itertools
from typing import Any

import cases
import fused_tensors
import jax
import numpy as np
import oracles
import pytest
import SimpleITK as sitk
import torch

import gridsample
from gridsample.backends.torch.resizing import resize, resize_by_matrices
from gridsample.definitions.control_points import ControlAxis
from gridsample.definitions.options import Resizing
from gridsample.ops import lattices

Array = np.ndarray[Any, Any]
NAMES = ["linear", "catmull-rom", "spline3"]
# Control points, outputs; points are near each other, far apart, and next to the ends.
POINTS, OUT = (3, 4, 5), (6, 9, 63)
GEOMETRIES = [{}, {"spacing": 6.5, "origin": -6.5}, {"spacing": (20, 3.25, 1.5), "origin": -0.5}]


def kernel(name: str, s: float) -> float:
    """The weight of a control point at a distance."""
    s = abs(s)
    if name == "linear":
        return max(0.0, 1 - s)
    if name == "spline3":
        return (4 - 6 * s**2 + 3 * s**3) / 6 if s < 1 else max(0.0, 2 - s) ** 3 / 6
    if s < 1:
        return 1.5 * s**3 - 2.5 * s**2 + 1
    return -0.5 * s**3 + 2.5 * s**2 - 4 * s + 2 if s < 2 else 0.0


def matrix(name: str, points: int, outputs: int, spacing: float, origin: float) -> Array:
    """The weights of all control points for all outputs, (outputs, points)."""
    weights = np.zeros((outputs, points))
    for i in range(outputs):
        q = (i - origin) / spacing
        for k in range(int(np.floor(q)) - 1, int(np.floor(q)) + 3):
            unit = np.zeros(points)
            if points == 1 or 0 <= k < points:
                unit[min(max(k, 0), points - 1)] = 1
            elif k < 0:  # on the line through the first two
                unit[:2] = 1 - k, k
            else:
                unit[-2:] = points - 1 - k, k - points + 2
            weights[i] += kernel(name, q - k) * unit
    return weights


def grid_by_sums(lattice: Array, out: tuple[int, ...], name: str, geometry: Any) -> Array:
    """What `lattice_grid` computes, by dense matrices."""
    rank, grid = len(out), lattice
    for k, n in enumerate(out):
        points = lattice.shape[1 + k]
        spacing, origin = ((n - 1) / max(points - 1, 1) or 1.0), 0.0
        if geometry:
            pair = [np.broadcast_to(geometry[key], rank) for key in ("spacing", "origin")]
            spacing, origin = (float(numbers[rank - 1 - k]) for numbers in pair)
        weights = matrix(name, points, n, spacing, origin)
        grid = np.moveaxis(np.tensordot(weights, grid, (1, 1 + k)), 0, 1 + k)
    return grid


def geometry_of(rank: int, geometry: dict[str, Any]) -> dict[str, Any]:
    return {k: v[:rank] if isinstance(v, tuple) else v for k, v in geometry.items()}


def call(
    rank: int, dtype: Any = "float64", items: int = 2, lattices: int = 2, channels: int = 2
) -> Any:
    """An image, a lattice whose points are inside and outside, and a size."""
    rng = cases.generator("lattice", rank, items, lattices)
    image = cases.pixels(rng, (items, channels, *(7, 9, 8)[:rank]), dtype)
    kind = dtype if np.dtype(dtype).kind == "f" else "float64"
    lattice = rng.uniform(-1.3, 1.3, (lattices, *POINTS[-rank:], rank)).astype(kind)
    return image, lattice, (lattices, 2, *OUT[-rank:])


@pytest.mark.covering
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_grids_match_sums(rank: int, name: Any, geometry: Any) -> None:
    _, lattice, size = call(rank)
    geometry = geometry_of(rank, geometry)
    grid = gridsample.lattice_grid(lattice, size, name, **geometry)
    expected = grid_by_sums(lattice, size[2:], name, geometry)
    np.testing.assert_allclose(grid, expected, rtol=0, atol=1e-13 * np.abs(expected).max())
    upstream = np.random.default_rng(0).normal(size=grid.shape)
    tensor = torch.from_numpy(lattice).requires_grad_()
    gridsample.lattice_grid(tensor, size, name, **geometry).backward(torch.from_numpy(upstream))
    products = (upstream * grid).sum(), (tensor.grad.numpy() * lattice).sum()
    np.testing.assert_allclose(*products, rtol=1e-11)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_have_the_bits_of_the_whole(dtype: Any) -> None:
    rng = np.random.default_rng(4)
    lattice = rng.normal(size=(1, 6, 9, 2)).astype(dtype)
    whole = gridsample.lattice_grid(lattice, (1, 1, 63, 150), spacing=16)
    for _ in range(20):
        (y, y_end), (x, x_end) = (sorted(rng.choice(n + 1, 2, replace=False)) for n in (63, 150))
        size = 1, 1, int(y_end - y), int(x_end - x)
        block = gridsample.lattice_grid(lattice, size, spacing=16, origin=(-x, -y))
        np.testing.assert_array_equal(block, whole[:, y:y_end, x:x_end])


@pytest.mark.parametrize("points", [1, 2, 3])
@pytest.mark.parametrize("outputs", [1, 2, 7])
def test_short_axes(points: int, outputs: int) -> None:
    lattice = np.random.default_rng(points).normal(size=(1, points, 2, 2))
    grid = gridsample.lattice_grid(lattice, (1, 1, outputs, 3))
    expected = grid_by_sums(lattice, (outputs, 3), "catmull-rom", {})
    np.testing.assert_allclose(grid, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_lattices_of_affine_maps_give_their_grids(name: Any) -> None:
    """Everywhere, also beyond the ends."""
    theta = np.random.default_rng(1).normal(size=(1, 3, 4))
    places = [np.arange(n) * 2.5 + 1 for n in (4, 3, 2)]
    index = np.stack(np.meshgrid(*places[::-1], indexing="ij")[::-1], -1)
    lattice = index @ theta[0, :, :3].T + theta[0, :, 3]
    grid = gridsample.lattice_grid(lattice[None], (1, 1, 9, 8, 15), name, spacing=2.5, origin=1)
    pixels = np.stack(np.meshgrid(*map(np.arange, (9, 8, 15)), indexing="ij")[::-1], -1)
    expected = pixels @ theta[0, :, :3].T + theta[0, :, 3]
    np.testing.assert_allclose(grid[0], expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_free_form_deformations_are_those_of_simpleitk() -> None:
    """Control points from one spacing before the first pixel on, as in FFD."""
    rng, size = np.random.default_rng(2), (13, 17)  # y, x
    offsets = rng.normal(size=(1, 7, 6, 2))
    transform = sitk.BSplineTransform(2, 3)
    transform.SetTransformDomainOrigin([0.0, 0.0])
    transform.SetTransformDomainPhysicalDimensions([size[1] - 1.0, size[0] - 1.0])
    transform.SetTransformDomainMeshSize([3, 4])
    transform.SetParameters(np.moveaxis(offsets[0], -1, 0).ravel().tolist())
    spacing = (size[1] - 1) / 3, (size[0] - 1) / 4
    grid = gridsample.lattice_grid(
        offsets, (1, 1, *size), "spline3", spacing=spacing, origin=[-step for step in spacing]
    )
    for y, x in itertools.product(range(0, 12, 3), range(0, 16, 5)):  # not on ITK's last edge
        moved = np.array(transform.TransformPoint([float(x), float(y)])) - [x, y]
        np.testing.assert_allclose(grid[0, y, x], moved, rtol=0, atol=1e-12)


@pytest.mark.covering
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic", "spline3", "label"])
@pytest.mark.parametrize("boundary", ["zeros", "reflection", "wrap"])
@pytest.mark.parametrize("coords", ["normalized", "pixel", "displacement"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "float16"])
@pytest.mark.parametrize("items", [(2, 2), (1, 2), (3, 1)])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("axis", [1, -1])
def test_samples_match_those_of_the_grid(
    rank: int, mode: Any, boundary: Any, coords: Any, dtype: Any, items: Any, name: Any,
    geometry: Any, axis: int,
) -> None:  # fmt: skip
    mode = "linear" if mode == "label" and dtype != "uint8" else mode
    # Nine channels are lanes of registers where they are neighbours.
    image, lattice, size = call(rank, dtype, *items, channels=9 if axis == -1 else 2)
    if coords != "normalized":
        lattice = lattice * 5 + 0.3
    options = {"mode": mode, "padding_mode": boundary, "coords": coords, "channel_axis": axis}
    geometry = geometry_of(rank, geometry)
    if axis == -1:
        image = np.ascontiguousarray(np.moveaxis(image, 1, -1))
    result = gridsample.lattice_sample(
        image, lattice, size, interpolation=name, **geometry, **options
    )
    wide = lattice.astype(np.float64)
    grid = gridsample.lattice_grid(wide, size, name, **geometry).astype(lattice.dtype)
    expected = gridsample.grid_sample(image, grid, **options)
    assert result.shape == expected.shape
    assert result.dtype == expected.dtype
    if mode in ("nearest", "label") or dtype == "uint8":  # values jump where positions round
        assert (result == expected).mean() > 0.99
        return
    # Positions of up to 70 pixels, each rounded a few times, between pixels of up to 2.
    atol = 1000 * np.finfo(dtype).eps * max(1, np.abs(image).max())
    np.testing.assert_allclose(result, expected, rtol=0, atol=atol)


def slow(out: Any) -> Any:
    return pytest.param(out, marks=pytest.mark.slow)


def no_grid(*_: Any) -> Any:
    raise AssertionError("a grid was made")


@pytest.mark.covering
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("out", [(3, 5, 65), (700,), slow((4, 600)), slow((3, 4, 9, 64))])
def test_no_grid_is_made(library: str, out: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results do not depend on the number of threads, nor do gradients."""
    rng, rank = np.random.default_rng(5), len(out)
    image = rng.normal(size=(2, 3, *(30, 20, 6, 5)[:rank]))
    lattice = rng.uniform(-1.2, 1.2, (1, *(2, 3, 2)[: rank - 1], 5, rank))
    size, values = (1, 3, *out), rng.normal(size=(2, 3, *out))
    grid = gridsample.lattice_grid(lattice, size, "spline3")
    expected = gridsample.grid_sample(image, grid), gridsample.grid_sample_vjp(values, image, grid)
    monkeypatch.setattr(lattices, "spread", no_grid)
    options: Any = {"interpolation": "spline3", "threads": 2}
    if library == "torch":
        leaves = fused_tensors.leaves([torch.from_numpy(image), torch.from_numpy(lattice)])
        result = gridsample.lattice_sample(*leaves, size, **options)
        result.backward(torch.from_numpy(values))
        result, gradients = result.detach().numpy(), [leaf.grad.numpy() for leaf in leaves]
    else:
        result = gridsample.lattice_sample(image, lattice, size, **options)
        gradients = gridsample.lattice_sample_vjp(values, image, lattice, size, **options)
    np.testing.assert_allclose(result, expected[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(gradients[0], expected[1][0], rtol=0, atol=1e-11)
    monkeypatch.undo()
    tensor = torch.from_numpy(lattice).requires_grad_()
    gridsample.lattice_grid(tensor, size, "spline3").backward(torch.from_numpy(expected[1][1]))
    np.testing.assert_allclose(gradients[1], tensor.grad, rtol=0, atol=1e-10)
    options["threads"] = 1
    again = gridsample.lattice_sample(image, lattice, size, **options)
    np.testing.assert_array_equal(again, result)


@pytest.mark.parametrize("name", NAMES)
def test_unknown_control_points(name: Any) -> None:
    """NaN makes as many coordinates unknown, with and without a grid."""
    image, lattice, size = call(2)
    lattice[0, 1, 2, 0] = np.nan
    result = gridsample.lattice_sample(image, lattice, size, interpolation=name)
    grid = gridsample.lattice_grid(lattice, size, name)
    assert np.isnan(grid).any()
    np.testing.assert_allclose(result, gridsample.grid_sample(image, grid), rtol=0, atol=1e-12)


def test_outputs_far_from_the_lattice() -> None:
    image, lattice, size = call(2)
    geometry: Any = {"spacing": 16, "origin": 1e6, "coords": "pixel", "padding_mode": "border"}
    result = gridsample.lattice_sample(image, lattice, size, **geometry)
    grid = gridsample.lattice_grid(lattice, size, spacing=16, origin=1e6)
    expected = gridsample.grid_sample(image, grid, "linear", "border", coords="pixel")
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-9)


def test_devices_without_kernels_multiply_by_matrices() -> None:
    rng = np.random.default_rng(6)
    axes = (ControlAxis("spline3", 4, 9, 3.0, 0.0), ControlAxis("linear", 3, 5, 2.0, 1.0))
    resizing = Resizing((9, 5), axes, False, False, (0.0, 0.0))
    points, values = (torch.from_numpy(rng.normal(size=(2, 3, *n))) for n in ((4, 3), (9, 5)))
    result = resize_by_matrices(points, resizing, False)
    fused_tensors.close(result, resize(points, resizing, False))
    back = resizing._replace(size=(4, 3))
    fused_tensors.close(resize_by_matrices(values, back, True), resize(values, back, True))


def test_missing_pixels_weights_and_footprints() -> None:
    image, lattice, size = call(2)
    image[0, 0, 2, 3] = np.nan
    grid = gridsample.lattice_grid(lattice, size)
    weights = np.random.default_rng(3).uniform(size=(1, 1, 7, 9))
    for options in (
        {"missing": "ignore", "return_weight": True},
        {"weights": weights, "padding_mode": "missing"},
        {"antialias": True, "padding_mode": "border"},
    ):
        result = gridsample.lattice_sample(image, lattice, size, **options)
        np.testing.assert_array_equal(result, gridsample.grid_sample(image, grid, **options))
    values = np.ones((2, 2, 9, 63))
    options = {"missing": "ignore", "weights": weights}
    gradients = gridsample.lattice_sample_vjp(values, image, lattice, size, **options)
    expected = gridsample.grid_sample_vjp(values, image, grid, **options)
    np.testing.assert_array_equal(gradients[0], expected[0])
    np.testing.assert_array_equal(gradients[2], expected[2])


@pytest.mark.covering
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("mode", ["linear", "cubic", "spline3"])
@pytest.mark.parametrize("items", [(2, 2), (1, 2), (2, 1)])
@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_slopes(rank: int, mode: Any, items: Any, name: Any) -> None:
    image, lattice, size = call(rank, "float64", *items)
    options: Any = {"mode": mode, "padding_mode": "border", "interpolation": name}
    rng = np.random.default_rng(rank)
    values = rng.normal(size=(max(items), *size[1:]))
    gradients = gridsample.lattice_sample_vjp(values, image, lattice, size, **options)
    for k, (gradient, array) in enumerate(zip(gradients, (image, lattice), strict=True)):
        assert gradient.shape == array.shape
        assert gradient.dtype == array.dtype
        direction = rng.normal(size=array.shape) * 1e-3  # few points cross a pixel's centre
        smooth = mode != "linear" or k == 0
        if not smooth:
            continue

        def loss(moved: Array, k: int = k) -> Any:
            both = [image, lattice]
            both[k] = moved
            return (gridsample.lattice_sample(*both, size, **options) * values).sum()

        slope = oracles.directional_difference(loss, array, direction)
        np.testing.assert_allclose(
            (gradient * direction).sum(), slope, rtol=1e-6, atol=1e-6 * np.abs(gradient).max()
        )
    alone = gridsample.lattice_sample_vjp(values, image, lattice, size, need_input=False, **options)
    assert alone[0] is None
    np.testing.assert_allclose(alone[1], gradients[1], rtol=0, atol=1e-10)


def tensors(rank: int = 2) -> list[Any]:
    image, lattice, _ = call(rank)
    return [torch.from_numpy(image), torch.from_numpy(lattice)]


SMOOTH = {"mode": "cubic", "padding_mode": "border", "interpolation": "spline3"}


def test_tensors_have_all_derivatives() -> None:
    size = (2, 1, 4, 19)

    def sample(image: Any, lattice: Any) -> Any:
        return gridsample.lattice_sample(image, lattice, size, **SMOOTH)

    def by_grid(image: Any, lattice: Any) -> Any:
        grid = gridsample.lattice_grid(lattice, size, "spline3")
        return gridsample.grid_sample(image, grid, "cubic", "border")

    fused_tensors.check_gradients(sample, by_grid, tensors())
    assert torch.autograd.gradcheck(sample, fused_tensors.leaves(tensors()), fast_mode=True)
    assert torch.autograd.gradgradcheck(sample, fused_tensors.leaves(tensors()), fast_mode=True)
    image, lattice = tensors()
    each = torch.func.vmap(lambda a, b: by_grid(a[None], b[None])[0])
    size = (1, 1, 4, 19)
    result = torch.func.vmap(lambda a, b: sample(a[None], b[None])[0])(image, lattice)
    fused_tensors.close(result, each(image, lattice))


@pytest.mark.slow
def test_compiled_programs() -> None:
    size = (2, 1, 4, 19)

    def sample(image: Any, lattice: Any) -> Any:
        return gridsample.lattice_sample(image, lattice, size, "linear")

    nodes = ["resize", "resize", "gather"]
    fused_tensors.check_compilers(sample, tensors(), nodes)


def test_jax_arrays() -> None:
    image, lattice, size = call(2, "float32")

    def loss(image: Any, lattice: Any) -> Any:
        return gridsample.lattice_sample(image, lattice, size, **SMOOTH).sum()

    gradients = jax.jit(jax.grad(loss, (0, 1)))(image, lattice)
    values = np.ones((2, 2, *size[2:]), np.float32)
    expected = gridsample.lattice_sample_vjp(values, image, lattice, size, **SMOOTH)
    for gradient, other in zip(gradients, expected, strict=True):
        scale = np.abs(other).max()
        np.testing.assert_allclose(gradient, other, rtol=0, atol=1e-4 * scale)


@pytest.mark.parametrize(
    ("shape", "size", "options", "message"),
    [
        ((1, 3, 3, 2), (2, 1, 5, 5), {}, "size has N = 2, but lattice has N = 1"),
        ((1, 3, 3, 3), (1, 1, 5, 5), {}, r"lattice must be \(N, \*points, 2\)"),
        ((1, 3, 2), (1, 1, 5, 5), {}, r"lattice must be \(N, \*points, 2\)"),
        ((1, 0, 3, 2), (1, 1, 5, 5), {}, "axes of one or more points"),
        ((1, 3, 3, 2), (1, 1, 0, 5), {}, "size must have at least one pixel"),
        ((1, 3, 3, 2), (1, 1, 5, 5), {"interpolation": "cubic"}, "interpolation 'cubic' is not"),
        ((1, 3, 3, 2), (1, 1, 5, 5), {"origin": 1}, "origin=1 needs a spacing"),
        ((1, 3, 3, 2), (1, 1, 5, 5), {"spacing": 0}, "spacing must be positive"),
        ((1, 3, 3, 2), (1, 1, 5, 5), {"spacing": (1, 2, 3)}, "one for each axis"),
        ((1, 3, 3, 2), (1, 1, 5, 5), {"spacing": np.nan}, "spacing must be a finite number"),
    ],
)
def test_wrong_arguments(shape: Any, size: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gridsample.lattice_grid(np.zeros(shape), size, **options)
    with pytest.raises(ValueError, match=message):
        gridsample.lattice_sample(np.zeros((1, 1, 4, 4)), np.zeros(shape), size, **options)


def test_wrong_types() -> None:
    with pytest.raises(TypeError, match="lattice has dtype int64"):
        gridsample.lattice_grid(np.zeros((1, 3, 1), int), (1, 1, 5))
    with pytest.raises(TypeError, match="spacing must be a number"):
        gridsample.lattice_grid(np.zeros((1, 3, 1)), (1, 1, 5), spacing="2")
