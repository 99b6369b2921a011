"""Footprints across the seam of an axis that wraps around, where positions jump by its period."""

from __future__ import annotations

import functools
from typing import Any

import cases
import dask.array as da
import jax
import numpy as np
import pytest
import torch
from oracles import assert_close

import gridsample
import gridsample.dask
from gridsample.kernels.reference import footprints

Array = np.ndarray[Any, Any]
UNITS = [("pixel", False), ("normalized", False), ("normalized", True), ("displacement", False)]
WRAPS = ("wrap", "border")


def around(coords: str, corners: bool, turn: float, out: tuple[int, int] = (5, 9)) -> Array:
    """A grid around an image of 12 x 31 pixels, whose positions along x are in it, after a turn."""
    y, x = np.meshgrid(*(np.arange(n, dtype=float) for n in out), indexing="ij")
    positions = np.stack([(3.4 * x + 1.3 * y + turn) % 31 - 0.5, 2.2 * y + 0.1 * x], -1)
    if coords == "displacement":
        return (positions - np.stack([x, y], -1))[None]
    if coords == "normalized":
        n = np.array([31, 12])
        positions = 2 * positions / (n - 1) - 1 if corners else (2 * positions + 1) / n - 1
    return positions[None]


@pytest.mark.parametrize(("coords", "corners"), UNITS)
def test_turns_change_nothing(coords: str, corners: bool) -> None:
    """The seam may be anywhere: between points of a row, of a column, or next to an edge."""
    image = cases.pixels(cases.generator("seams", coords), (1, 2, 12, 31))
    names: Any = "cubic", WRAPS, corners
    for turn in (0.0, 1.0, 3.3, 11.0, 24.6):
        grid, rolled = around(coords, corners, 0), around(coords, corners, turn)
        expected = gridsample.grid_sample(image, grid, *names, coords=coords, antialias=True)
        moved = np.roll(np.repeat(image, 10, -1), round(10 * turn), -1)  # exact: turns of pixels
        if turn == int(turn):
            result = gridsample.grid_sample(
                moved[..., ::10], rolled, *names, coords=coords, antialias=True
            )
            assert_close(result, expected, 1e-11)
        lengths = gridsample.footprint(
            rolled, (12, 31), corners, coords=coords, padding_mode=WRAPS
        ).lengths
        assert lengths.max() < 4


@pytest.mark.parametrize(("coords", "corners"), UNITS)
@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_each_library_is_the_reference(coords: str, corners: bool, library: str) -> None:
    rng = cases.generator("seams", "libraries", coords)
    image, grid = cases.pixels(rng, (1, 1, 12, 31)), around(coords, corners, 7.0)
    grid[0, 2, 3, 0], grid[0, 3, 5, 1] = np.nan, np.inf
    names: Any = ("linear", "linear"), WRAPS, corners
    upstream = cases.pixels(rng, (1, 1, 5, 9))
    upstream[0, 0, 2, 3] = 0
    options: Any = {"coords": coords, "antialias": True}
    expected = footprints.gather(image, grid, *names, coords=coords)
    by_image, by_grid = footprints.gradients(upstream, image, grid, *names, coords=coords)
    sample = functools.partial(gridsample.grid_sample, **options)
    if library == "numpy":
        result = sample(image, grid, *names)
        gradients = gridsample.grid_sample_vjp(upstream, image, grid, *names, **options)
    elif library == "torch":
        tensors = [torch.tensor(array, requires_grad=True) for array in (image, grid)]
        sampled = sample(*tensors, *names)
        result = sampled.detach().numpy()
        gradients = torch.autograd.grad(sampled, tensors, torch.tensor(upstream))
        with torch.no_grad():  # the composition that other devices and vmap take
            each = torch.func.vmap(lambda grid: sample(torch.tensor(image), grid, *names))
            assert_close(each(torch.tensor(grid)[None])[0].numpy(), expected, 1e-11)
    else:
        with jax.enable_x64(True):
            result, vjp = jax.vjp(lambda image, grid: sample(image, grid, *names), image, grid)
            gradients = vjp(jax.numpy.asarray(upstream))
    assert_close(np.asarray(result), expected, 1e-11)
    assert_close(np.asarray(gradients[0]), by_image, 1e-11)
    known = np.isfinite(grid).all(-1, keepdims=True)
    assert_close(np.asarray(gradients[1]) * known, np.where(known, by_grid, 0), 1e-10)


def test_large_steps_all_over_are_no_seam() -> None:
    """A plane of tiles: where a step is longer than half a tile, footprints are as long as it."""
    for step in (0.4, 0.5, 0.6, 1.0, 1.7):
        x = np.arange(8) * step * 16
        grid = x.reshape(1, 8, 1)
        lengths = gridsample.footprint(grid, (16,), coords="pixel", padding_mode="wrap").lengths
        np.testing.assert_allclose(lengths[0, 1:-1, 0], 16 * step)
        folded = gridsample.footprint(grid % 16, (16,), coords="pixel", padding_mode="wrap")
        assert folded.lengths.max() <= 8 + 1e-9


def test_other_boundaries_have_no_seam() -> None:
    grid = around("pixel", False, 0)
    plain = gridsample.footprint(grid, (12, 31), coords="pixel").lengths
    for name in ("border", "mirror", ("border", "wrap")):
        lengths = gridsample.footprint(grid, (12, 31), coords="pixel", padding_mode=name).lengths
        np.testing.assert_array_equal(lengths, plain)
    assert plain.max() > 14


@pytest.mark.parametrize("chunks", [(5, 9), (2, 4), (1, 1), (3, 2)])
def test_chunks_of_results_across_the_seam(chunks: tuple[int, int]) -> None:
    rng = cases.generator("seams", "chunks")
    image, grid = cases.pixels(rng, (1, 1, 12, 310)), around("pixel", False, 7.0)
    grid[..., 0] *= 10
    options: Any = {"coords": "pixel", "antialias": True, "max_samples": 64}
    expected = gridsample.grid_sample(image, grid, "linear", WRAPS, **options)
    lazy = da.from_array(image, chunks=(1, 1, 5, 31))
    result = gridsample.dask.grid_sample(lazy, grid, "linear", WRAPS, chunks=chunks, **options)
    np.testing.assert_array_equal(result.compute(), expected)

    def positions(x: Array, y: Array) -> tuple[Array, Array]:
        place = np.asarray(y).astype(int), np.asarray(x).astype(int)
        return grid[0, *place, 0], grid[0, *place, 1]

    def bounds(first: Any, last: Any) -> tuple[Array, Array]:
        part = grid[0, int(first[1]) : int(last[1]) + 1, int(first[0]) : int(last[0]) + 1]
        return part.min((0, 1)), part.max((0, 1))

    points = gridsample.dask.Points(positions, bounds)
    result = gridsample.dask.grid_sample(
        lazy, points, "linear", WRAPS, size=(5, 9), chunks=chunks, **options
    )
    assert_close(result.compute(), expected, 1e-12)
