"""Long footprints in chunks, and missing pixels with antialiasing."""

from __future__ import annotations

from typing import Any

import cases
import dask
import dask.array as da
import numpy as np
import pytest
from chunks import coordinates, divided, is_halved, options_of, picture

import gridsample
import gridsample.dask
from gridsample.chunked.blocks import sample_block
from gridsample.chunked.pixels import Pixels
from gridsample.chunked.regions import Region, sampling_of
from gridsample.definitions.boundaries import BOUNDARIES

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _in_this_thread() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


def steep_grid(coords: str, kind: str) -> Array:
    """Coordinates in an image of 300 by 400 pixels, (1, 40, 50, 2)."""
    y, x = np.indices((40, 50)).astype(np.float64)
    if kind == "everywhere":
        grid = np.stack([x * 20, y * 20], -1)
    else:
        grid = np.stack([x * 4, y * 4], -1)
        if kind != "nowhere":  # a point and its neighbours
            grid[17, 23] = np.nan if kind == "missing" else 390
    if coords == "normalized":
        grid = (2 * grid + 1) / (400, 300) - 1
    if coords == "displacement":
        grid -= np.stack([x, y], -1)
    return grid[np.newaxis].astype(np.float32)


@pytest.mark.parametrize("coords", ["normalized", "pixel", "displacement"])
@pytest.mark.parametrize("kind", ["everywhere", "point", "missing", "nowhere"])
def test_grids_with_too_long_footprints_are_rejected(coords: str, kind: str) -> None:
    rng = cases.generator("steep", coords, kind)
    image, grid = picture((300, 400), np.float32, rng), steep_grid(coords, kind)
    options: Any = {"coords": coords, "antialias": True, "padding_mode": "border"}
    source = da.from_array(image, chunks=(1, 1, 100, 100))
    lazy = da.from_array(grid, chunks=(1, 16, 16, 2))
    bounds = gridsample.dask.coordinate_bounds(lazy, coords=coords, antialias=True).compute()
    results = [
        gridsample.dask.grid_sample(source, grid, chunks=16, **options),
        gridsample.dask.grid_sample(source, lazy, bounds=bounds, **options),
    ]
    is_steep = kind in ("everywhere", "point")
    assert is_steep == is_halved(grid, image, options)
    for result in results:
        if is_steep:
            side = np.max(gridsample.footprint(grid, (300, 400), coords=coords).lengths)
            longest = "20" if kind == "everywhere" else f"{side:.4g}"
            with pytest.raises(ValueError, match=f"max_samples=16 .* {longest} pixels long; .* 64"):
                result.compute()
        else:
            expected = gridsample.grid_sample(image, grid, **options)
            np.testing.assert_array_equal(result.compute(), expected)


def test_chunks_without_long_footprints_are_computed() -> None:
    """A step between two points belongs to both; the points beyond these are not affected."""
    image = picture((300, 400), np.float32, cases.generator("beside"))
    grid = steep_grid("pixel", "nowhere")
    grid[:, :, 32:, 0] += 100
    expected = gridsample.grid_sample(image, grid, coords="pixel", antialias=True)
    source = da.from_array(image, chunks=(1, 1, 100, 100))
    result = gridsample.dask.grid_sample(
        source, grid, coords="pixel", antialias=True, chunks=((40,), (31, 2, 17))
    )
    for part in (slice(0, 31), slice(33, 50)):
        np.testing.assert_array_equal(result[..., part].compute(), expected[..., part])
    with pytest.raises(ValueError, match="54 pixels long"):
        result[..., 31].compute()


def test_long_footprints_of_labels_have_no_copies() -> None:
    image = picture((300, 400), np.uint8, cases.generator("labels"))
    source = da.from_array(image, chunks=(1, 1, 100, 100))
    grid = steep_grid("pixel", "everywhere")
    options: Any = {"mode": "label", "coords": "pixel", "antialias": True, "max_samples": 3}
    expected = gridsample.grid_sample(image, grid, **options)
    result = gridsample.dask.grid_sample(source, grid, chunks=16, **options)
    np.testing.assert_array_equal(result.compute(), expected)
    theta = np.array([[[20.0, 0, 0], [0, 20, 0]]])
    result = gridsample.dask.affine_sample(source, theta, (1, 2, 40, 50), chunks=16, **options)
    np.testing.assert_array_equal(result.compute(), expected)
    with pytest.raises(ValueError, match="max_samples=3"):  # masks are no labels
        gridsample.dask.grid_sample(source, grid, return_mask=True, **options)[1].compute()


@pytest.mark.covering
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("mode", ["linear", "cubic", "spline3"])
@pytest.mark.parametrize("boundary", ["zeros", "constant", "mirror", "wrap"])
@pytest.mark.parametrize("coords", ["normalized", "pixel"])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("most", [3, 16])
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "complex64"])
def test_maps_with_long_footprints_sample_halved_copies(
    rank: int, mode: str, boundary: str, coords: str, align_corners: bool, most: int, dtype: str
) -> None:
    spatial = ((901,), (301, 407), (90, 131, 77))[rank - 1]
    out = ((9,), (11, 13), (5, 7, 6))[rank - 1]
    rng = cases.generator("halved", rank, mode, boundary, coords, align_corners, most, dtype)
    theta = np.eye(rank, rank + 1) * 1.2 + rng.normal(0, 0.05, (rank, rank + 1))
    if coords == "pixel":
        theta[:, :rank] *= [[n / m] for n, m in zip(spatial[::-1], out[::-1], strict=True)]
    image, size = picture(spatial, dtype, rng), (2, 2, *out)
    maps = np.stack([theta, theta * np.nan])
    options = options_of(mode, boundary, coords, True, align_corners) | {"max_samples": most}
    expected = gridsample.affine_sample(image, maps, size, **options)
    source = da.from_array(image, chunks=((1,), (1, 1), *divided(spatial, rng)))
    result = gridsample.dask.affine_sample(source, maps, size, chunks=4, **options).compute()
    in_memory = gridsample.dask.affine_sample(source, maps, size, chunks=20, **options).compute()
    np.testing.assert_array_equal(result, in_memory)  # tiles agree with the whole
    rounding = 1 if dtype == "uint8" else 0 if dtype == "float64" else 2e-4
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=rounding)


def test_windows_have_no_halved_copies() -> None:
    """Even if a caller skips its checks, only the window's own pixels are read."""
    spatial = (1 << 20, 1 << 20)  # a copy would have 2**38 pixels
    call = sampling_of((1, 1, *spatial), (2, 2), coords="pixel", antialias=True)
    region = Region((((5, 9),), ((5, 9),)))

    class Threes(Pixels):
        def read(self, box: Any, out: Any) -> None:
            assert box[2:] == (slice(5, 9), slice(5, 9))
            out[...] = 3.0

    image = Threes((1, 1, *spatial), np.dtype(np.float32))
    theta = np.array([[[40.0, 0, 7], [0, 40, 7]]], np.float32)
    block = slice(0, 1), slice(0, 1)
    part = sample_block(call, block, theta, image, image.dtype, region=region)
    assert part.shape == (1, 1, 1, 1) and np.isfinite(part).all()


ODD = [name for name, boundary in BOUNDARIES.items() if boundary.odd and boundary.edge != 2]


@pytest.mark.covering
@pytest.mark.parametrize("boundary", ["zeros", "constant", "border", "wrap", "missing", *ODD])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("channel_axis", [1, -1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
@pytest.mark.parametrize("rule", ["missing", "weights", "mask", "weight", "edges"])
def test_means_without_a_kernel_match_numpy(
    boundary: str, antialias: bool, channel_axis: int, dtype: str, rule: str
) -> None:
    rng = cases.generator("means", boundary, antialias, channel_axis, dtype, rule)
    image, weights = picture((40, 50), dtype, rng), rng.random((1, 1, 40, 50))
    if dtype != "uint8":
        image[rng.random(image.shape) < 0.2] = np.nan
    chunks = (1, 2, 11, 17)
    if channel_axis == -1:
        image, weights = np.moveaxis(image, 1, -1).copy(), np.moveaxis(weights, 1, -1)
        chunks = (1, 11, 17, 2)
    options: Any = {
        "coords": "pixel",
        "padding_mode": boundary,
        "antialias": antialias,
        "channel_axis": channel_axis,
        "missing": "ignore",
    }
    options |= {
        "missing": {},
        "weights": {"weights": weights},
        "weight": {"return_weight": True},
        "mask": {"return_mask": True},
        "edges": {"extrapolate": "edges", "return_weight": True},
    }[rule]
    if boundary == "constant":
        options["fill_value"] = 7
    grid = coordinates((40, 50), (17, 26), "pixel", rng)
    expected = gridsample.grid_sample(image, grid, **options)
    source = da.from_array(image, chunks=chunks)
    results = gridsample.dask.grid_sample(source, grid, chunks=(6, 7), **options)
    results = results if isinstance(results, tuple) else (results,)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for result, each in zip(results, expected, strict=True):
        assert result.shape == each.shape and result.dtype == each.dtype
        # A chunk without missing pixels has no division.
        precision = {"float32": 1e-4, "float64": 1e-11, "uint8": 0}[dtype]
        np.testing.assert_allclose(result.compute(), each, rtol=1e-6, atol=precision)
