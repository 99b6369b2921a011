"""`gridsample warp --crs`, and `--like` a raster: Zarr stores in other coordinate systems."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import zarr

from gridsample import cli

pyproj = pytest.importorskip("pyproj")
xarray = pytest.importorskip("xarray")
pytest.importorskip("dask")

CORNER, SIZE, NODATA = (500_000.0, 5_300_000.0), 20.0, -9999


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*words: Any) -> int:
    return cli.main([str(word) for word in words])


def heights(dtype: str = "float32") -> Any:
    """Two bands with holes, as numbers that xarray does not decode."""
    y, x = np.mgrid[:90, :120]
    image = 200 * np.sin(x / 9) * np.cos(y / 7) + np.array([300, 900])[:, None, None]
    image[:, 20:30, 40:50] = NODATA
    places = {
        "band": [3, 4],
        "y": CORNER[1] - SIZE * (np.arange(90) + 0.5),
        "x": CORNER[0] + SIZE * (np.arange(120) + 0.5),
        "spatial_ref": ((), 0, {"crs_wkt": pyproj.CRS(32632).to_wkt()}),
    }
    attributes = {"units": "m", "_FillValue": np.dtype(dtype).type(NODATA).item()}
    return xarray.DataArray(image.astype(dtype), places, ("band", "y", "x"), "height", attributes)


def stored(image: Any, zarr_format: int, chunks: Any = (1, 40, 50), **encoding: Any) -> Any:
    """Write a store as xarray and rioxarray do."""
    image.encoding["grid_mapping"] = "spatial_ref"
    both = image.to_dataset().assign(count=("band", [7, 8])).assign_attrs(title="hills")
    options = {"encoding": {"height": {"chunks": chunks, **encoding}}, "zarr_format": zarr_format}
    both.to_zarr("in.zarr", mode="w", consolidated=zarr_format == 2, **options)
    return both


def opened(name: str = "out.zarr") -> Any:
    options: Any = {"mask_and_scale": False, "decode_coords": "all"}
    return xarray.open_zarr(name, consolidated=False, **options).load()


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    ("dtype", "words", "options"),
    [
        ("float32", [], {"method": "bilinear"}),
        ("int16", ["--mode", "catmull-rom", "--antialias"], {"method": "cubic", "antialias": True}),
        ("int16", ["--mode", "nearest"], {"method": "nearest"}),
        ("float32", ["--statistic", "max"], {"method": "max"}),
        ("int16", ["--statistic", "sum"], {"method": "sum"}),
        ("float32", ["--nodata", "0", "--chunks", "64x32"], {"method": "bilinear", "nodata": 0}),
    ],
)
def test_pixels_and_metadata_are_those_of_reproject(
    zarr_format: int, dtype: str, words: list[str], options: dict[str, Any]
) -> None:
    import gridsample.xarray

    image = heights(dtype)
    if "nodata" in options:
        image = image.where(image != NODATA, 0).assign_attrs(image.attrs)
    stored(image, zarr_format)
    out = ["--crs", "EPSG:3857", "--resolution", "45,40"]
    assert run("warp", "in.zarr", "out.zarr", *out, *words) == 0
    result = opened()
    options = {"antialias": True if options["method"] == "bilinear" else None} | options
    expected = gridsample.xarray.reproject(image, 3857, resolution=(45, 40), **options)
    np.testing.assert_array_equal(result.height.values, expected.values)
    for name in ("x", "y", "band"):
        np.testing.assert_array_equal(result[name], expected[name])
    assert pyproj.CRS(result.spatial_ref.attrs["crs_wkt"]) == pyproj.CRS(3857)
    assert result.height.dtype == expected.dtype and result.height.attrs["units"] == "m"
    number = np.nan if options["method"] == "sum" else options.get("nodata", NODATA)
    np.testing.assert_equal(result.height.attrs["_FillValue"], number)
    assert result["count"].values.tolist() == [7, 8] and result.attrs == {"title": "hills"}
    array: Any = zarr.open_group("out.zarr", mode="r")["height"]
    assert array.metadata.zarr_format == zarr_format
    assert array.chunks == ((1, 32, 64) if "--chunks" in words else (1, 40, 50))
    source: Any = zarr.open_group("in.zarr", mode="r")["height"]
    assert array.compressors == source.compressors


def test_shards_codecs_and_packed_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers are sampled as they are stored, and the attributes unpack them."""
    image = heights("int16").assign_attrs(scale_factor=0.5, add_offset=100.0)
    stored(image, 2)
    words = ["--crs", "EPSG:3857", "--chunks", "16x16", "--shards", "64x48", "--codec", "zstd:3"]
    assert run("warp", "in.zarr", "out.zarr", *words, "--zarr-format", "3", "--threads", "1") == 0
    array: Any = zarr.open_group("out.zarr", mode="r")["height"]
    assert (array.shards, array.chunks) == ((1, 48, 64), (1, 16, 16))
    assert array.metadata.zarr_format == 3 and "zstd" in str(array.compressors).lower()
    unpacked = xarray.open_zarr("out.zarr", consolidated=True).height
    known = opened().height != NODATA
    np.testing.assert_array_equal(unpacked.values[known], opened().height.values[known] * 0.5 + 100)
    assert np.isnan(unpacked.values[~known]).all() and 0.5 < known.mean() < 1
    files = 2 * -(-array.shape[1] // 48) * -(-array.shape[2] // 64) + 1  # that of "count"
    assert capsys.readouterr().out.endswith(f"in {files} files\n")


def test_like_a_store_and_like_a_geotiff() -> None:
    import gridsample.xarray

    image = heights()
    stored(image, 3)
    like = gridsample.xarray.reproject(image, 3857, resolution=70)
    like.to_dataset().to_zarr("like.zarr", consolidated=False)
    keys = (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 3857)
    left, top = float(like.x[0]) - 35, float(like.y[0]) + 35
    tags = [
        (33550, 12, 3, (70.0, 70.0, 0.0), True),
        (33922, 12, 6, (0.0, 0.0, 0.0, left, top, 0.0), True),
        (34735, 3, len(keys), keys, True),
    ]
    tifffile.imwrite("like.tif", like.values[0], extratags=tags, photometric="minisblack")
    expected = gridsample.xarray.reproject(image, like=like, antialias=True)
    for name in ("like.zarr", "like.tif"):
        assert run("warp", "in.zarr", "out.zarr", "--like", name, "--force") == 0
        np.testing.assert_array_equal(opened().height, expected)
        np.testing.assert_allclose(opened().x, like.x)


@pytest.mark.parametrize("kind", ["ome", "geozarr", "gdal"])
def test_places_that_other_writers_state(kind: str) -> None:
    """OME-Zarr with a projection among its attributes, GeoZarr's attributes, and GDAL's."""
    import gridsample.xarray

    image = heights()
    attributes: dict[str, Any] = {"_FillValue": NODATA} if kind != "ome" else {}
    names, group = ["band", "y", "x"], zarr.open_group("in.zarr", mode="w", zarr_format=2)
    wkt = image.spatial_ref.attrs["crs_wkt"]
    if kind == "ome":
        names = ["c", "y", "x"]
        first = [1, CORNER[1] - SIZE / 2, CORNER[0] + SIZE / 2]
        place: list[Any] = [
            {"type": "scale", "scale": [1, -SIZE, SIZE]},
            {"type": "translation", "translation": first},
        ]
        axes = [{"name": "c", "type": "channel"}, *({"name": n, "type": "space"} for n in "yx")]
        levels = [{"path": "0", "coordinateTransformations": place}]
        image_record: Any = {"version": "0.4", "axes": axes, "datasets": levels}
        group.attrs["multiscales"] = [image_record]
        group.attrs["crs"] = "EPSG:32632"
        image = image.drop_attrs(deep=False)
    elif kind == "geozarr":
        corner = [SIZE, 0, CORNER[0] + SIZE / 2, 0, -SIZE, CORNER[1] - SIZE / 2]
        stated = {"proj:code": "EPSG:32632", "spatial:registration": "node"}
        group.attrs.update({**stated, "spatial:transform": corner, "title": "hills"})
    else:
        names = ["band", "Y", "X"]
        attributes["_CRS"] = {"wkt": wkt}
        for name, line in zip(names[1:], (image.y, image.x), strict=True):
            places = group.create_array(
                name, data=line.values, attributes={"_ARRAY_DIMENSIONS": [name]}
            )
            assert places.ndim == 1
    attributes["_ARRAY_DIMENSIONS"] = names
    group.create_array(
        "0", data=image.values, chunks=(2, 40, 50), attributes=attributes, fill_value=None
    )
    assert run("warp", "in.zarr", "out.zarr", "--crs", "EPSG:3857", "--resolution", "30") == 0
    result = opened()
    name = "in" if kind == "ome" else "0"
    expected = gridsample.xarray.reproject(image, 3857, resolution=30)
    np.testing.assert_array_equal(result[name], expected)
    np.testing.assert_array_equal(result[names[-1]], expected.x)
    stale = ("_CRS", "crs", "proj:code", "spatial:transform")
    assert not {*stale} & {*result.attrs, *result[name].attrs}
    assert result.attrs.get("title") == ("hills" if kind == "geozarr" else None)


def test_finished_files_are_not_computed_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gridsample.zarr import rasters

    stored(heights(), 3)
    words = ["--crs", "EPSG:3857", "--chunks", "32x32"]
    assert run("warp", "in.zarr", "whole.zarr", *words) == 0
    capsys.readouterr()
    with monkeypatch.context() as patch:

        def stop(*arguments: Any) -> None:
            raise KeyboardInterrupt

        patch.setattr(rasters, "fill", stop)
        assert run("warp", "in.zarr", "out.zarr", *words) == 130
    unfinished = Path(".out.zarr.unfinished/store/height/c/0/1")
    unfinished.mkdir(parents=True)
    os.replace("whole.zarr/height/c/0/1/2", unfinished / "2")
    written = (unfinished / "2").stat().st_mtime_ns
    assert run("warp", "in.zarr", "out.zarr", *words[:2], "--chunks", "16x16") == 2
    assert "unfinished result of another command" in capsys.readouterr().err
    assert run("warp", "in.zarr", "out.zarr", *words) == 0
    assert "after 1 of an earlier run" in capsys.readouterr().out
    assert Path("out.zarr/height/c/0/1/2").stat().st_mtime_ns == written
    assert run("warp", "in.zarr", "whole.zarr", "--force", *words) == 0
    np.testing.assert_array_equal(opened().height, opened("whole.zarr").height)
    assert run("warp", "in.zarr", "out.zarr", *words) == 2
    assert "out.zarr exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--crs", "EPSG:3857", "--rotate", "3"], "steps such as --rotate"),
        (["--crs", "EPSG:3857", "--like", "in.zarr"], "does not accept --like"),
        (["--crs", "EPSG:3857", "--padding", "border"], "does not accept --padding"),
        (["--crs", "EPSG:1"], "no projection that pyproj knows"),
        (["--crs", "EPSG:3857", "--nodata", "1e9"], "cannot be stored in pixels of dtype int16"),
        (["--crs", "EPSG:3857", "--statistic", "max", "--mode", "nearest"], "in place of --mode"),
        (["--resolution", "30"], "in another coordinate system: give --crs"),
        (["--statistic", "max"], "in another coordinate system: give --crs"),
        (["--like", "in.zarr", "--resolution", "30"], "does not accept --resolution"),
    ],
)
def test_errors(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    stored(heights("int16"), 3)
    assert run("warp", "in.zarr", "out.zarr", *words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert sorted(path.name for path in Path().iterdir()) == ["in.zarr"]


def test_errors_of_stores(capsys: pytest.CaptureFixture[str]) -> None:
    zarr.create_array("plain.zarr", data=np.zeros((4, 5)))
    image = heights()
    stored(image.drop_vars("spatial_ref"), 3)
    image.coords.to_dataset().to_zarr("empty.zarr", consolidated=False)
    for name, out, message in (
        ("plain.zarr", "out.zarr", "the projection of the input is unknown"),
        ("in.zarr", "out.zarr", "the projection of the input is unknown"),
        ("empty.zarr", "out.zarr", "empty.zarr has no variable with the dimensions y and x"),
        ("in.zarr", "out.tif", "must end in .zarr"),
    ):
        if out == "out.tif":
            stored(image, 3)
        assert run("warp", name, out, "--crs", "EPSG:3857") == 2
        assert message in capsys.readouterr().err and not Path(out).exists()
