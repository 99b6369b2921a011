"""Images that end along some axes, are extended along others, and continue along others."""

from __future__ import annotations

import itertools
from typing import Any

import cases
import jax
import numpy as np
import pytest
import torch
from oracles import assert_close

import gridsample
from gridsample.kernels import reference
from gridsample.kernels.reference import footprints, labels

Array = np.ndarray[Any, Any]
ENDS = (True, "edges", "centers", "continue")
PAIRS = list(itertools.product(ENDS, repeat=2))
CLOSE = 1e-12


def points(rank: int, count: int = 150) -> Array:
    """Points inside and outside along each axis, some at the ends of the image, one nowhere."""
    rng = np.random.default_rng(rank)
    grid = rng.uniform(-4, 9, (1, count, rank))
    grid[0, ::7] = rng.choice([-0.5, 0, 3.5, 4, 4.5], grid[0, ::7].shape)
    grid[0, 3, 0] = np.nan
    return grid


def boundaries_of(ends: tuple[Any, ...], *names: str) -> tuple[str, ...]:
    """Names of boundaries, or what goes with an end where intervals continue."""
    return tuple(
        "border" if end == "continue" else name for end, name in zip(ends, names, strict=True)
    )


def fill_of(ends: tuple[Any, ...], names: tuple[str, ...]) -> dict[str, Any]:
    """A fill value for each channel, if some point has it."""
    used = "constant" in names or any(end in ("edges", "centers") for end in ends)
    return {"fill_value": [7.0, -3.0]} if used else {}


def check_forward(ends: tuple[Any, ...], modes: Any, names: tuple[str, ...]) -> None:
    """Compare samples with the reference's; also of integers, and where channels are lanes."""
    rng = cases.generator("ends", *map(str, ends), modes)
    image, grid = cases.pixels(rng, (1, 2, *(5, 4, 3)[: len(ends)])), points(len(ends))
    fill = fill_of(ends, names)
    options: dict[str, Any] = {"coords": "pixel", "extrapolate": ends}
    call = image, grid, modes, names, False
    expected = reference.gather(*call, **options, fill=fill.get("fill_value", 0))
    result = gridsample.grid_sample(*call, **options, **fill)
    assert_close(result, expected, CLOSE)
    wide = np.repeat(np.moveaxis(image, 1, -1), 12, -1)
    fill = {name: np.repeat(values, 12) for name, values in fill.items()}
    result = gridsample.grid_sample(wide, grid, modes, names, channel_axis=-1, **options, **fill)
    assert_close(np.moveaxis(result[..., ::12], -1, 1), expected, CLOSE)


def check_gradients(ends: tuple[Any, ...], modes: Any, names: tuple[str, ...]) -> None:
    """Compare both gradients with the reference's, those of NumPy arrays and of tensors."""
    rng = cases.generator("gradients", *map(str, ends), modes)
    image, grid = cases.pixels(rng, (1, 2, *(5, 4, 3)[: len(ends)])), points(len(ends))
    fill = fill_of(ends, names)
    options: dict[str, Any] = {"coords": "pixel", "extrapolate": ends}
    upstream = cases.pixels(rng, (1, 2, grid.shape[1]))
    call = image, grid, modes, names, False
    expected = reference.gradients(upstream, *call, **options, fill=fill.get("fill_value", 0))
    result = gridsample.grid_sample_vjp(upstream, *call, **options, **fill)
    for actual, exact in zip(result, expected, strict=True):
        assert_close(actual, exact, 4 * CLOSE)
    tensors = [torch.tensor(array, requires_grad=True) for array in (image, grid)]
    sampled = gridsample.grid_sample(*tensors, modes, names, **options, **fill)
    of_tensors = torch.autograd.grad(sampled, tensors, torch.tensor(upstream))
    for actual, exact in zip(of_tensors, result, strict=True):
        assert_close(actual.numpy(), exact, CLOSE)


@pytest.mark.parametrize("ends", PAIRS)
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_each_pair_of_ends_is_the_reference(ends: tuple[Any, ...], mode: str) -> None:
    check_forward(ends, (mode,) * 2, boundaries_of(ends, "zeros", "zeros"))


@pytest.mark.covering
@pytest.mark.parametrize("ends", PAIRS)
@pytest.mark.parametrize("names", [("wrap", "mirror"), ("constant", "border"), ("dst1", "zeros")])
def test_gradients_of_each_pair_of_ends(ends: tuple[Any, ...], names: tuple[str, ...]) -> None:
    modes = tuple("linear" if end == "continue" else "cubic" for end in ends)
    check_forward(ends, modes, boundaries_of(ends, *names))
    check_gradients(ends, modes, boundaries_of(ends, *names))
    check_gradients(ends, ("linear",) * 2, boundaries_of(ends, *names))


@pytest.mark.parametrize(
    "ends", [("continue", True, "edges"), ("centers", "continue", True), (True, True, "centers")]
)
def test_three_axes(ends: tuple[Any, ...]) -> None:
    names = boundaries_of(ends, "zeros", "reflection", "zeros")
    check_forward(ends, ("linear", "nearest", "linear"), names)
    check_gradients(ends, ("linear",) * 3, names)


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32", "bool"])
@pytest.mark.parametrize("channels", [1, 2, 20])
def test_pixels_that_zeros_drop_are_0_beside_ends_with_a_fill_value(
    dtype: str, channels: int
) -> None:
    """Copied pixels, and labels, in each order of memory."""
    image = (np.arange(20 * channels).reshape(1, channels, 4, 5) % 90 + 1).astype(dtype)
    grid = points(2)
    grid = grid[~np.isnan(grid).any(-1)][None]
    fill = 1 if dtype == "bool" else 99
    options: Any = {"coords": "pixel", "extrapolate": (True, "edges")}
    expected = reference.gather(
        image.astype(float), grid, ("nearest",) * 2, ("zeros",) * 2, False, **options, fill=fill
    )
    assert (expected == 0).any() and (expected == fill).any()
    options["fill_value"] = fill
    for name in ("nearest", "label") if dtype != "float32" else ("nearest",):
        mode = (name, "nearest") if name == "label" else name
        result = gridsample.grid_sample(image, grid, mode, "zeros", **options)
        last = gridsample.grid_sample(
            np.moveaxis(image, 1, -1), grid, mode, "zeros", channel_axis=-1, **options
        )
        np.testing.assert_array_equal(np.moveaxis(last, -1, 1), result)
        if name == "nearest":
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", ["label", ("label", "nearest")])
def test_labels_beside_ends(mode: Any, antialias: bool) -> None:
    rng = cases.generator("ends", "labels")
    image, grid = rng.integers(0, 3, (1, 1, 6, 7)), rng.uniform(-3, 9, (1, 5, 6, 2))
    if antialias:
        grid = np.sort(np.sort(grid, 1), 2) / [1.5, 1.2]
    for ends in [(True, "edges"), ("centers", True), ("edges", "centers")]:
        vote = footprints.vote if antialias else labels.vote
        modes = (mode,) * 2 if isinstance(mode, str) else mode
        options: Any = {"coords": "pixel", "extrapolate": ends}
        expected = vote(image, grid, modes, ("zeros",) * 2, False, **options, fill=5)
        options |= {"antialias": antialias, "fill_value": 5}
        for convert in (np.asarray, torch.tensor):
            result = gridsample.grid_sample(convert(image), convert(grid), mode, "zeros", **options)
            np.testing.assert_array_equal(np.asarray(result), expected)


def test_footprints_beside_ends() -> None:
    rng = cases.generator("ends", "footprints")
    image = cases.pixels(rng, (1, 2, 9, 8))
    x, y = np.meshgrid(np.linspace(-5, 14, 7), np.linspace(-4, 12, 6))
    grid = np.stack([x + 0.3 * y, y], -1)[None]
    for ends in [(True, "edges"), ("centers", True)]:
        for names in [("wrap", "wrap"), ("zeros", "zeros")]:
            call = image, grid, ("linear", "cubic"), names, False
            options: Any = {"coords": "pixel", "extrapolate": ends}
            expected = footprints.gather(*call, **options, fill=2.5)
            options |= {"antialias": True, "fill_value": 2.5}
            assert_close(gridsample.grid_sample(*call, **options), expected, CLOSE)


@pytest.mark.parametrize("names", [("border", "wrap"), ("zeros", "border"), ("missing", "wrap")])
def test_missing_pixels_beside_ends(names: tuple[str, str]) -> None:
    """The mean is the quotient of plain samples, of the pixels that count and of their weights."""
    rng = cases.generator("ends", "missing")
    image, grid = cases.pixels(rng, (1, 1, 4, 5)), points(2)
    counts = rng.random(image.shape) > 0.3
    plain = tuple("zeros" if name == "missing" else name for name in names)
    options: Any = {"coords": "pixel", "extrapolate": (True, "edges")}
    outside = (grid[..., 1] < -0.5) | (grid[..., 1] > 3.5)
    # What is dropped is known to be 0 under "zeros", and counts.
    known = tuple("constant" if name == "zeros" else name for name in names)
    known = tuple("zeros" if name == "missing" else name for name in known)
    fills: Any = {"fill_value": 1} if "constant" in known else {}
    values = gridsample.grid_sample(
        np.where(counts, image, 0), grid, "linear", plain, coords="pixel"
    )
    share = gridsample.grid_sample(
        counts.astype(float), grid, "linear", known, coords="pixel", **fills
    )
    means = values / np.where(share > 1e-9, share, np.nan)
    expected = np.where(outside[:, None] | np.isnan(means), -9.0, means)
    result = gridsample.grid_sample(
        np.where(counts, image, np.nan),
        grid,
        "linear",
        names,
        missing="ignore",
        fill_value=-9,
        **options,
    )
    nowhere = np.isnan(grid).any(-1)[:, None]
    np.testing.assert_allclose(result[~nowhere], expected[~nowhere], rtol=1e-9, atol=1e-11)


def test_masks_beside_ends() -> None:
    image, grid = np.ones((1, 1, 4, 5)), points(2)
    options: Any = {"coords": "pixel", "extrapolate": ("continue", True)}
    _, mask = gridsample.grid_sample(image, grid, "linear", return_mask=True, **options)
    y = grid[..., 1]
    share = np.clip(np.minimum(y + 1, 4 - y), 0, 1)
    np.testing.assert_allclose(mask[:, 0], np.where(np.isnan(grid[..., 0]), 0, share), atol=1e-12)


def test_jax() -> None:
    rng = cases.generator("ends", "jax")
    image, grid = cases.pixels(rng, (1, 2, 5, 4)), points(2)
    call = ("linear", "cubic"), ("zeros", "wrap")
    options: Any = {"coords": "pixel", "extrapolate": ("edges", True), "fill_value": 2.5}
    expected = gridsample.grid_sample(image, grid, *call, **options)
    with jax.enable_x64(True):
        sample = jax.jit(lambda image, grid: gridsample.grid_sample(image, grid, *call, **options))
        assert_close(np.asarray(sample(image, grid)), expected, CLOSE)


def test_affine_maps_and_modules() -> None:
    rng = cases.generator("ends", "maps")
    image = torch.tensor(cases.pixels(rng, (1, 2, 5, 4)))
    theta = torch.tensor([[[1.5, 0.2, 0.1], [-0.3, 1.4, 0.0]]], dtype=torch.float64)
    size, ends = (1, 2, 6, 7), ("edges", True)
    options: Any = {"extrapolate": ends, "fill_value": 7}
    grid = gridsample.affine_grid(theta, size)
    expected = reference.gather(
        image.numpy(),
        grid.numpy(),
        ("linear",) * 2,
        ("border",) * 2,
        False,
        extrapolate=ends,
        fill=7,
    )
    by_map = gridsample.affine_sample(image, theta, size, "linear", "border", **options)
    module = gridsample.nn.GridSample("linear", "border", **options)
    assert_close(by_map.numpy(), expected, CLOSE)
    assert_close(module(image, grid).numpy(), expected, CLOSE)
    with pytest.raises(TypeError, match="extrapolate must be True, False or one of 'edges'"):
        gridsample.nn.GridSample(extrapolate=("edges", 3))
