"""Reprojected DataArrays: values, chunks, missing pixels, and what is stated about pixels."""

from __future__ import annotations

from typing import Any

import dask
import dask.array
import numpy as np
import pytest
import xarray

import gridsample
import gridsample.xarray
from gridsample import geo
from gridsample.geo import Raster, cell_statistics, corners, positions, warping
from gridsample.xarray import reproject

pyproj = pytest.importorskip("pyproj")

UTM = Raster("EPSG:32632", (10, 0, 500_000, 0, -10, 5_300_000), (90, 110))
GLOBE = Raster("EPSG:4326", (2, 0, -180, 0, -2, 90), (90, 180))
TARGETS = {
    "zones": (UTM, Raster("EPSG:3857", (16, 0, 1_001_700, 0, -16, 6_083_000), (80, 90))),
    "coarse": (UTM, Raster("EPSG:3857", (70, 0, 1_001_700, 0, -70, 6_083_000), (21, 23))),
    "pole": (GLOBE, Raster("EPSG:3413", (90_000, 0, -3e6, 0, -90_000, 3e6), (66, 67))),
    "antimeridian": (GLOBE, Raster("EPSG:3832", (90_000, 0, 1e6, 0, -90_000, 3e6), (60, 80))),
}


def raster(source: Raster, dtype: str = "float32", **attributes: Any) -> xarray.DataArray:
    """A smooth image with holes: NaN, or 0 in integers."""
    rng, shape = np.random.default_rng(4), source.shape
    y, x = np.indices(shape)
    values = 100 + 50 * np.sin(x / 9) * np.cos(y / 7) + rng.normal(size=(2, *shape))
    values[:, rng.random(shape) < 0.1] = np.nan if np.dtype(dtype).kind == "f" else 0
    a, _, c, _, e, f = source.transform
    places = {
        "band": [3, 4],
        "y": f + e * (np.arange(shape[0]) + 0.5),
        "x": c + a * (np.arange(shape[1]) + 0.5),
        "spatial_ref": ((), 0, {"crs_wkt": pyproj.CRS(source.crs).to_wkt()}),
    }
    return xarray.DataArray(values.astype(dtype), places, ("band", "y", "x"), attrs=attributes)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("method", ["nearest", "bilinear", "cubic", "average", "mode", 0.7])
def test_lazy_outputs_in_any_chunks_are_those_in_memory(name: str, method: str | float) -> None:
    source, target = TARGETS[name]
    dtype = "uint8" if method in ("mode", "nearest") else "float32"
    image = raster(source, dtype, nodata=0 if dtype == "uint8" else -7)
    whole = reproject(image, like=target, method=method)
    rng = np.random.default_rng(1)
    for _ in range(2):
        parts = {
            dim: int(rng.integers(1 if dim == "band" else 20, n + 1))
            for dim, n in image.sizes.items()
        }
        chunks = tuple(int(rng.integers(9, n)) for n in target.shape)
        lazy = reproject(image.chunk(parts), like=target, method=method, chunks=chunks)
        with dask.config.set(scheduler="synchronous"):
            np.testing.assert_array_equal(lazy.values, whole.values)
        assert lazy.chunks is not None and lazy.dtype == whole.dtype == image.dtype


@pytest.mark.parametrize("method", ["bilinear", "mode", "average"])
def test_bands_in_memory_are_parts_of_the_whole(method: str, monkeypatch: Any) -> None:
    source, target = TARGETS["coarse"]
    image = raster(source, "uint8" if method == "mode" else "float32")
    whole = reproject(image, like=target, method=method)
    for module in (warping, geo.cells):
        monkeypatch.setattr(module, "BAND", 3 * target.shape[1])
    np.testing.assert_array_equal(reproject(image, like=target, method=method), whole)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("method", ["sum", "max", "count"])
def test_statistics_of_areas(method: str, dtype: str) -> None:
    """They are those of `cell_statistics`, and sums that of the image."""
    source, target = TARGETS["coarse"]
    image = raster(source, dtype, nodata=0 if dtype == "uint8" else -7)
    values = image.values[None].astype("float64")
    values[values == (0 if dtype == "uint8" else -7)] = np.nan
    plan = corners(source, target)
    expected = cell_statistics(values, plan(), method, missing="ignore")[0]
    result = reproject(image, like=target, method=method)
    is_same = dtype == "float32" or method == "max"
    assert result.dtype == (dtype if is_same else "float64")
    assert ("nodata" in result.attrs) == is_same
    missing = 0 if dtype == "uint8" else -7
    if is_same and method != "count":
        expected = np.where(np.isnan(expected), missing, expected)
    np.testing.assert_allclose(result.values, expected, 1e-6)
    lazy = reproject(image.chunk(x=40, y=33), like=target, method=method, chunks=(10, 9))
    with dask.config.set(scheduler="synchronous"):
        np.testing.assert_array_equal(lazy.values, result.values)
    if method == "count":
        inside = (np.isfinite(values)).sum((2, 3))[0]
        whole = reproject(image, 3857, resolution=50, method=method).sum(("y", "x"))
        np.testing.assert_allclose(whole, inside, 1e-5)


def test_values_are_those_of_grid_sample_at_the_positions() -> None:
    source, target = TARGETS["zones"]
    image = raster(source)
    result = reproject(image, like=target, tolerance=0, min_weight=0.25)
    expected = gridsample.grid_sample(
        image.values[None],
        positions(source, target, 0)(),
        "linear",
        "border",
        coords="pixel",
        extrapolate="edges",
        fill_value=np.nan,
        missing="ignore",
        min_weight=0.25,
    )
    np.testing.assert_array_equal(result.values, expected[0])
    assert np.isnan(result).any() and np.isfinite(result).any()


def test_pixels_at_pixels_are_copied() -> None:
    """Positions that are whole numbers are exact, in single precision, too."""
    image = raster(UTM)
    np.testing.assert_array_equal(reproject(image, like=image), image)
    part = image.isel(y=slice(7, 60), x=slice(33, None))
    np.testing.assert_array_equal(reproject(image, like=part), part)


def test_the_precision_of_positions_follows_from_the_tolerance() -> None:
    source, target = TARGETS["zones"]
    image = raster(source)
    single, double = np.dtype("float32"), np.dtype("float64")
    for tolerance, dtype, expected in [
        (0.05, "float32", single),
        (0.05, "uint8", single),
        (0.05, "float64", double),
        (1e-5, "float32", double),
        (0, "float32", double),
    ]:
        assert positions(source, target, tolerance).dtype(np.dtype(dtype)) == expected
    for side, expected in [(16_384, single), (16_385, double)]:
        long = source._replace(shape=(10, side))
        assert positions(long, target).dtype(single) == expected
    plan = positions(source, target)
    near, exact = reproject(image, like=target), reproject(image, like=target, tolerance=1e-5)
    slope = 2 * float(np.ptp(image.values[np.isfinite(image.values)]))  # a pixel's, along x and y
    limit = slope * (0.01 * plan.tolerance + plan.error) + 1e-4
    assert 0 < np.nanmax(np.abs(near - exact)) < limit


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
@pytest.mark.parametrize("name", ["zones", "antimeridian"])
def test_nodata_counts_for_nothing(name: str, dtype: str) -> None:
    """A constant image with holes stays constant, and what is outside is nodata."""
    source, target = TARGETS[name]
    image = raster(source, dtype)
    missing = np.isnan(image) if image.dtype.kind == "f" else image == 0
    image = xarray.where(missing, 9, 50).astype(dtype).assign_coords(image.coords)
    image.attrs["_FillValue"] = 9
    for method in ("bilinear", "cubic", "lanczos", "average"):
        result = reproject(image, like=target, method=method)
        assert set(np.unique(np.rint(result.values))) <= {9.0, 50.0}
        assert (np.rint(result) == 50).mean() > 0.3
        assert result.attrs["_FillValue"] == 9
    beyond = target._replace(transform=(*target.transform[:2], 9e6, *target.transform[3:]))
    if name == "zones":
        assert (reproject(image, like=beyond) == 9).all()


def test_the_globe_has_no_seam() -> None:
    source, target = TARGETS["pole"]
    image = raster(source).isel(band=0)
    image[:] = 1.0
    for method in ("nearest", "bilinear", "cubic", "average"):
        result = reproject(image, like=target, method=method)
        np.testing.assert_allclose(result, 1, rtol=4 * np.finfo(np.float32).eps)
    rows = np.cos(np.radians(image.y))
    smooth = xarray.ones_like(image) * rows * np.cos(np.radians(image.x))
    result = reproject(smooth, like=target, method="cubic", tolerance=0)
    x, y = np.meshgrid(result.x, result.y)
    back = pyproj.Transformer.from_crs(target.crs, source.crs, always_xy=True)
    lon, lat = np.radians(back.transform(x, y))
    # The outermost row, of 89 degrees, continues up to the pole, and beyond it for its neighbours.
    error = np.abs(result.values - np.cos(lat) * np.cos(lon))
    assert error[np.degrees(lat) < 86].max() < 2e-3 and error.max() < np.cos(np.radians(89))


def test_what_is_stated_about_the_output() -> None:
    image = raster(UTM, "int16", units="m", _FillValue=0).rename("height")
    image = image.assign_coords(wavelength=("band", [0.5, 0.6]))
    result = reproject(image, 3857)
    assert result.name == "height" and result.dims == image.dims
    assert result.attrs == {"units": "m", "_FillValue": 0}
    assert result.wavelength.values.tolist() == [0.5, 0.6]
    assert pyproj.CRS(result.spatial_ref.attrs["crs_wkt"]) == pyproj.CRS(3857)
    c, a, _, f, _, e = map(float, result.spatial_ref.attrs["GeoTransform"].split())
    np.testing.assert_allclose([result.x[0], result.y[0]], [c + a / 2, f + e / 2])
    assert abs(np.hypot(*result.shape[1:]) - np.hypot(90, 110)) < 2
    # Back, to the pixels of the image: its own places and projection.
    again = reproject(result, like=image)
    np.testing.assert_array_equal(again.x, image.x)
    assert (
        result.transpose("x", "band", "y").dims
        == reproject(image.transpose("x", "band", "y"), 3857).dims
    )


def test_datasets() -> None:
    image = raster(UTM)
    both = xarray.Dataset({"a": image, "b": image.isel(band=0) * 2, "n": ("t", [1, 2])})
    result = reproject(both, "EPSG:3857", resolution=(20, 30))
    xarray.testing.assert_equal(result.a, reproject(image, "EPSG:3857", resolution=(20, 30)))
    assert result.n.values.tolist() == [1, 2] and "band" not in result.b.dims


def test_errors() -> None:
    image = raster(UTM)
    bare = image.drop_vars(["spatial_ref"])
    uneven = image.assign_coords(x=image.x**2)
    for arguments, options, error, message in [
        ((image.values, 3857), {}, TypeError, "image must be"),
        ((image,), {}, ValueError, "give the projection"),
        ((image, 3857), {"like": image}, ValueError, "either like"),
        ((image, 3857), {"method": "area"}, ValueError, "method must be one of nearest"),
        ((image, 3857), {"method": "mode", "antialias": False}, ValueError, "always averages"),
        ((image, 3857), {"resolution": 0}, ValueError, "resolution must be one or two positive"),
        ((bare, 3857), {}, ValueError, "projection of image is unknown"),
        ((uneven, 3857), {}, ValueError, "equidistant"),
        ((image.rename(x="column"), 3857), {}, ValueError, "dimensions y and x"),
        ((image.drop_vars(["x"]), 3857), {}, ValueError, "places of the pixels"),
    ]:
        with pytest.raises(error, match=message):
            reproject(*arguments, **options)


def test_positions_are_exact_far_along_a_long_raster() -> None:
    """Of 75902 x 45910 pixels in float32; positions in float32 would be off by 1/256 pixel."""
    shape, size = (45_910, 75_902), 1024

    def tile(block_info: Any) -> Any:
        (top, bottom), (left, right) = block_info[None]["array-location"]
        return np.add.outer(np.arange(bottom - top), np.arange(right - left)).astype(np.float32)

    chunks = dask.array.core.normalize_chunks(size, shape)
    pixels = dask.array.map_blocks(tile, chunks=chunks, dtype=np.float32)
    places = {
        "y": 6e6 - 10 * (np.arange(shape[0]) + 0.5),
        "x": 4e5 + 10 * (np.arange(shape[1]) + 0.5),
    }
    image = xarray.DataArray(pixels, places, ("y", "x"), attrs={"crs": "EPSG:32632"})
    source = Raster("EPSG:32632", (10.0, 0, 4e5, 0, -10.0, 6e6), shape)
    corner = 4e5 + 10 * 75_004.3, 6e6 - 10 * 45_108.4
    target = source._replace(transform=(7.3, 0, corner[0], 0, -7.3, corner[1]), shape=(40, 50))
    expected = (positions(source, target, 0)()[0] % size).sum(-1)
    result = reproject(image, like=target, tolerance=0, chunks=(40, 30))
    like = {dim: result[dim].values for dim in ("y", "x")}
    for lazy in (result, gridsample.xarray.resample(image, like)):
        values = lazy.compute(scheduler="synchronous").values
        np.testing.assert_allclose(values, expected, rtol=4 * np.finfo(np.float32).eps)
