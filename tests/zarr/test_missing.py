"""Missing pixels of Zarr arrays that a number stands for: in attributes, or given by the caller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.storage import MemoryStore

import gridsample
import gridsample.zarr
from gridsample import cli
from gridsample.io.nodata import attribute_of, number_in

NUMBER = -9999
MATRIX = [[1.3, 0.1, 0.4], [-0.2, 0.9, 1.2], [0.0, 0.0, 1.0]]
THETA = np.array([[[0.9, -0.2, 1.2], [0.1, 1.3, 0.4]]])  # the same map of x, y


def source_of(dtype: str, attributes: Any, zarr_format: int = 3) -> tuple[Any, Any]:
    """A store, and its pixels with NaN where they are missing, (1, 1, H, W)."""
    rng, store = np.random.default_rng(7), MemoryStore()
    pixels = np.round(rng.random((13, 11)) * 100)
    missing = rng.random(pixels.shape) < 0.2
    zarr.create_array(
        store,
        data=np.where(missing, NUMBER, pixels).astype(dtype),
        chunks=(5, 4),
        attributes=attributes,
        zarr_format=zarr_format,  # type: ignore[arg-type]
    )
    return store, np.where(missing, np.nan, pixels).astype("float32")[None, None]


def level(store: Any, name: str = "0") -> Any:
    return zarr.open_group(store, mode="r")[name]


def with_number(result: Any, dtype: str) -> Any:
    rounded = np.rint(result) if dtype == "int16" else result
    return np.where(np.isnan(result), NUMBER, rounded).astype(dtype)[0, 0]


@pytest.mark.parametrize("dtype", ["int16", "float32"])
@pytest.mark.parametrize("missing", ["propagate", "ignore"])
def test_a_number_in_attributes_is_not_blended(dtype: str, missing: str) -> None:
    source, pixels = source_of(dtype, {"_FillValue": NUMBER})
    warped, resized = MemoryStore(), MemoryStore()
    gridsample.zarr.warp(source, warped, MATRIX, (9, 10), missing=missing)
    expected = gridsample.affine_sample(
        pixels, THETA, (1, 1, 9, 10), coords="pixel", missing=missing
    )
    np.testing.assert_array_equal(level(warped)[...], with_number(expected, dtype))
    assert level(warped).attrs["_FillValue"] == NUMBER
    gridsample.zarr.resize(source, resized, (7, 20), antialias=True, missing=missing)
    expected = gridsample.interpolate(
        pixels, (7, 20), mode="linear", antialias=True, missing=missing
    )
    np.testing.assert_allclose(level(resized)[...], with_number(expected, dtype), rtol=1e-6)


def test_means_of_half_precision_are_rounded_once() -> None:
    rng, source, output = np.random.default_rng(3), MemoryStore(), MemoryStore()
    pixels = (rng.random((20, 21)) * 200).astype("float16")
    pixels[rng.random(pixels.shape) < 0.2] = np.nan
    zarr.create_array(source, data=pixels, chunks=(6, 5))
    gridsample.zarr.resize(source, output, (13, 30), missing="ignore")
    expected = gridsample.interpolate(pixels[None, None], (13, 30), mode="linear", missing="ignore")
    np.testing.assert_array_equal(level(output)[...], expected[0, 0])


@pytest.mark.parametrize("dtype", ["int16", "float32"])
def test_levels_of_a_pyramid_have_the_number(dtype: str) -> None:
    source, pixels = source_of(dtype, {}, zarr_format=2)
    output = MemoryStore()
    gridsample.zarr.pyramid(source, output, levels=2, missing="ignore", nodata=NUMBER)
    means = np.nanmean(pixels[0, 0, :12, :10].reshape(6, 2, 5, 2), (1, 3))  # some are of a pixel
    np.testing.assert_allclose(
        level(output, "1")[:6, :5], with_number(means[None, None], dtype), rtol=1e-6
    )
    assert number_in(level(output, "1").attrs) == NUMBER


def test_a_number_is_copied_by_nearest_pixels_and_not_used_if_told_so() -> None:
    source, _ = source_of("int16", {"_FillValue": NUMBER})
    for options in ({"mode": "nearest"}, {"nodata": np.nan}):
        output = MemoryStore()
        gridsample.zarr.warp(source, output, MATRIX, (9, 10), **options)
        raw = zarr.open_array(source)[...][None, None]
        mode = options.get("mode", "linear")
        expected = gridsample.affine_sample(raw, THETA, (1, 1, 9, 10), mode, coords="pixel")
        np.testing.assert_array_equal(level(output)[...], expected[0, 0])


def test_integers_without_missing_pixels_are_filtered_as_in_memory() -> None:
    source, _ = source_of("int16", {})
    raw, output = zarr.open_array(source)[...][None, None], MemoryStore()
    gridsample.zarr.warp(source, output, MATRIX, (9, 10), "spline3", missing="ignore")
    expected = gridsample.affine_sample(
        raw, THETA, (1, 1, 9, 10), "spline3", coords="pixel", missing="ignore"
    )
    np.testing.assert_allclose(level(output)[...], expected[0, 0], atol=1)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"nodata": "none"}, TypeError, "nodata must be a number"),
        ({"nodata": 1e6}, ValueError, "cannot be stored"),
        ({"nodata": 0.5}, ValueError, "cannot be stored"),
        ({"missing": "ignore", "mode": "spline3"}, ValueError, "prefilter"),
    ],
)
def test_errors_write_nothing(options: Any, error: type[Exception], message: str) -> None:
    source, _ = source_of("int16", {"_FillValue": NUMBER})
    for function in (gridsample.zarr.warp, gridsample.zarr.resize):
        output = MemoryStore()
        with pytest.raises(error, match=message):
            function(source, output, size=(4, 5), **options)
        assert not list(output._store_dict)


def test_attributes_are_read_as_xarray_writes_them() -> None:
    for dtype, zarr_format in (("float32", 3), ("float32", 2), ("int16", 3)):
        attribute = attribute_of(NUMBER, np.dtype(dtype), zarr_format)
        assert number_in({"_FillValue": attribute}) == NUMBER
    assert isinstance(attribute_of(NUMBER, np.dtype("float32"), 3), str)
    for attributes in ({}, {"_FillValue": "x"}, {"_FillValue": None}, {"_FillValue": True}):
        assert number_in(attributes) is None


def test_commands_ignore_the_number(tmp_path: Path) -> None:
    source, pixels = source_of("int16", {})
    raw = zarr.open_array(source)[...]
    zarr.create_array(tmp_path / "in.zarr", data=raw, chunks=(5, 4))
    arguments = ["--size", "20x7", "--nodata", str(NUMBER)]
    inputs = [str(tmp_path / "in.zarr"), str(tmp_path / "out.zarr")]
    assert cli.main(["resize", *inputs, *arguments]) == 0
    expected = gridsample.interpolate(
        pixels, (7, 20), mode="linear", antialias=True, missing="ignore"
    )
    result = level(tmp_path / "out.zarr")
    np.testing.assert_allclose(result[...], with_number(expected, "int16"), rtol=1e-6)
    assert result.attrs["_FillValue"] == NUMBER


@pytest.mark.parametrize("number", [np.float64(1e20), 1e20, 10**20])
def test_the_type_of_the_number_does_not_matter(number: Any) -> None:
    source, output = MemoryStore(), MemoryStore()
    pixels = np.array([[1, 1e20, 3, 4]], "float32")
    zarr.create_array(source, data=pixels, chunks=(1, 4))
    shift = [[1, 0, 0], [0, 1, 0.5], [0, 0, 1]]
    options: dict[str, Any] = {"missing": "ignore", "padding_mode": "border", "nodata": number}
    gridsample.zarr.warp(source, output, shift, **options)
    np.testing.assert_array_equal(level(output)[...], [[1, 3, 3.5, 4]])


def test_integers_have_no_infinity() -> None:
    source, _ = source_of("int16", {"_FillValue": float("inf")})
    gridsample.zarr.warp(source, MemoryStore(), MATRIX)
    with pytest.raises(ValueError, match="nodata inf cannot be stored in pixels of dtype int16"):
        gridsample.zarr.warp(source, MemoryStore(), MATRIX, nodata=np.inf)
