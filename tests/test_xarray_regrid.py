"""`gridsample.xarray.regrid_conservative`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gridsample
from tests import cases

xarray = pytest.importorskip("xarray")
pytest.importorskip("dask")

regrid: Any = gridsample.xarray.regrid_conservative


def globe(n: int = 36, name: str = "heat") -> Any:
    rng = cases.generator("xarray regrid", n)
    lat, lon = 90 - 180 / n * (np.arange(n) + 0.5), 180 / n * (np.arange(2 * n) + 0.5)
    image = rng.normal(size=(n, 3, 2 * n))
    image[n // 4 : n // 2, 1, n // 3 : n // 2] = np.nan
    places = {"lat": lat, "time": np.arange(3), "lon": lon}
    return xarray.DataArray(image, places, name=name, attrs={"units": "K"})


def areas(lat: Any) -> Any:
    return np.cos(np.radians(lat))


def test_means_of_a_globe() -> None:
    heat = globe()
    target = {"lat": np.arange(-85.0, 90, 10), "lon": np.arange(-175.0, 180, 10)}
    result = regrid(heat, target)
    assert result.dims == heat.dims and result.name == "heat" and result.attrs == heat.attrs
    np.testing.assert_array_equal(result["lat"], target["lat"])
    # Cells of 2 x 2: the means of four, weighted by the areas of their rows.
    blocks = heat.transpose("time", "lat", "lon").values[:, ::-1].reshape(3, 18, 2, 36, 2)
    weights = areas(heat["lat"].values[::-1]).reshape(18, 2, 1, 1) * ~np.isnan(blocks)
    blocks = np.nan_to_num(blocks)
    with np.errstate(invalid="ignore"):
        wanted = (blocks * weights).sum((2, 4)) / weights.sum((2, 4))
    wanted = np.roll(wanted, 18, 2)
    np.testing.assert_allclose(result.transpose("time", "lat", "lon"), wanted, 1e-12, 1e-13)
    flat = regrid(heat, target, spherical=False).sel(lon=slice(0, None))
    simple = heat.isel(time=0).coarsen(lat=2, lon=2).mean().sel(lon=slice(0, 180))
    np.testing.assert_allclose(flat.isel(time=0), simple[::-1], 1e-12, 1e-13)


@pytest.mark.parametrize("skipna", [False, True])
def test_chunks_do_not_change_bits(skipna: bool) -> None:
    heat, rng = globe().astype(np.float32), cases.generator("regrid chunks", skipna)
    target = {"lat": np.linspace(80, -60, 13), "lon": np.linspace(-200, 130, 17)}
    options = {"skipna": skipna, "min_weight": 0.3}
    whole = regrid(heat, target, **options)
    for chunks in ({}, {"lat": 5, "lon": 11, "time": 2}, {"lat": 36, "lon": 1}):
        sizes = {"lat": int(rng.integers(1, 13)), "lon": int(rng.integers(1, 17))}
        lazy = regrid(heat.chunk(chunks), target, chunks=sizes if chunks else None, **options)
        assert lazy.chunks is not None
        xarray.testing.assert_identical(lazy.compute(), whole)


def test_lazy_results_read_what_they_need() -> None:
    import dask.array as da

    read = []

    def block(block_info: Any = None) -> Any:
        read.append(block_info[None]["chunk-location"])
        return np.ones((10, 10))

    data = da.map_blocks(block, chunks=((10,) * 18, (10,) * 36), dtype=float)
    places = {"lat": np.arange(-89.5, 90), "lon": np.arange(0.5, 360)}
    heat = xarray.DataArray(data, places, ["lat", "lon"])
    read.clear()
    result = regrid(heat, {"lat": np.arange(-88.0, 90, 4), "lon": np.arange(-178.0, 180, 4)})
    assert not read and result.chunks[0][0] == 3
    value = result.isel(lat=slice(0, 2), lon=slice(0, 2)).compute()
    np.testing.assert_allclose(value, 1)
    assert {*read} <= {(i, j) for i in (0, 1) for j in (18, 19)}


def test_datasets_and_bounds() -> None:
    heat = globe().isel(time=0, drop=True)
    data = xarray.Dataset(
        {"heat": heat, "zone": heat.mean("lon"), "count": heat.notnull().astype(int).sum("lat")},
        attrs={"title": "t"},
    )
    data["name"] = ("lat", np.array(["a"] * 36))
    data["scale"] = 3.0
    edges = np.array([-90.0, -30, 10, 90])
    target = xarray.Dataset(coords={"lat": [-60.0, -10, 50]})
    target["lat"].attrs["bounds"] = "lat_bnds"
    target["lat_bnds"] = (("lat", "two"), np.stack([edges[:-1], edges[1:]], 1))
    result = regrid(data, target)
    assert {*result.data_vars} == {"heat", "zone", "count", "scale"} and result.attrs[
        "title"
    ] == "t"
    np.testing.assert_array_equal(result["lat_bnds"], target["lat_bnds"])
    assert result["count"].dtype == data["count"].dtype  # it has no latitude
    cells = gridsample.CellOverlaps([np.linspace(90, -90, 37)], [edges], "latitude")
    wanted = gridsample.regrid_conservative(
        data["zone"].values[None, None], cells, missing="ignore"
    )
    np.testing.assert_array_equal(result["zone"], wanted[0, 0])
    # The cells of the result, as those of the source, give the total again.
    back = regrid(result, {"lat": [0.0, 1.0], "lat_b": ("lat_b", [-90.0, 89.9, 90])})
    area = np.diff(np.sin(np.radians(np.linspace(-90, 90, 37))))[::-1]
    total = (data["zone"].values * area).sum() / 2
    np.testing.assert_allclose(back["zone"][0], total, 1e-3)


def test_times_and_integers() -> None:
    hours = np.datetime64("2000-01-01T00:30") + np.arange(48) * np.timedelta64(1, "h")
    rain = xarray.DataArray(np.arange(48), {"time": hours})
    days = np.array(["2000-01-01T12", "2000-01-02T12"], "datetime64[ns]")
    result = regrid(rain, {"time": days})
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, [11.5, 35.5])
    assert regrid(rain, rain).identical(rain)


def test_errors() -> None:
    heat = globe()
    with pytest.raises(TypeError, match="DataArray or a Dataset, got ndarray"):
        regrid(heat.values, heat)
    with pytest.raises(ValueError, match="none of the coordinates"):
        regrid(heat, {"x": [1.0, 2.0]})
    with pytest.raises(ValueError, match="'lat' must be two centers or more"):
        regrid(heat, {"lat": [1.0]})
    with pytest.raises(TypeError, match="must be a Dataset"):
        regrid(heat, [1.0])
    with pytest.raises(TypeError, match="means are of numbers"):
        regrid(heat.astype(str), {"lat": [1.0, 2.0]})
