"""`gridsample warp` and `resize` of files with missing pixels: NaN, and nodata values."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridsample
from gridsample import cli

tifffile = pytest.importorskip("tifffile")

NODATA = 42113


@pytest.fixture(autouse=True)
def _inside_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*words: object) -> int:
    return cli.main([str(word) for word in words])


def heights(dtype: str, nodata: float) -> np.ndarray[Any, Any]:
    """A row-by-row ramp with two holes."""
    array = np.arange(63).reshape(7, 9).astype(dtype)
    array[2, 3] = array[4:6, 5:8] = nodata
    return array


def write(name: str, array: np.ndarray[Any, Any], nodata: float | None = None) -> None:
    text = b"" if nodata is None else f"{nodata}".encode() + b"\0"
    tags = [(NODATA, 2, len(text), text, True)] if text else []
    tifffile.imwrite(name, array, extratags=tags)


def tag(name: str) -> str | None:
    with tifffile.TiffFile(name) as file:
        result = file.pages[0].tags.get(NODATA)
        return None if result is None else str(result.value)


def as_planes(array: np.ndarray[Any, Any], nodata: float) -> np.ndarray[Any, Any]:
    return np.where(array == nodata, np.nan, array.astype(float))[None, None]


@pytest.mark.parametrize(
    ("dtype", "nodata"), [("int16", -9999), ("uint8", 255), ("float32", -9999), ("int32", -(2**31))]
)
@pytest.mark.parametrize("words", [("--size", "5x4", "--antialias"), ("--scale", 2)])
def test_resizing_honours_the_nodata_tag(dtype: str, nodata: int, words: Any) -> None:
    array = heights(dtype, nodata)
    write("in.tif", array, nodata)
    assert run("resize", "in.tif", "out.tif", *words) == 0
    size = (4, 5) if "--size" in words else (14, 18)
    expected = gridsample.interpolate(
        as_planes(array, nodata), size, mode="bilinear", antialias=len(words) > 2, missing="ignore"
    )[0, 0]
    expected = np.where(np.isnan(expected), nodata, expected)
    result = tifffile.imread("out.tif")
    assert result.dtype == array.dtype
    if dtype != "float32":
        expected = np.rint(expected)
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-5)
    assert tag("out.tif") == f"{nodata}"
    if size == (14, 18):
        assert (result == nodata).any()


def test_nodata_option_overrides_the_tag_and_applies_to_other_formats() -> None:
    array = heights("float32", -1)
    np.save("in.npy", array)
    assert run("resize", "in.npy", "out.tif", "--scale", 2, "--nodata", "-1") == 0
    assert tag("out.tif") == "-1"
    write("tagged.tif", array, -9999)
    assert run("resize", "tagged.tif", "again.tif", "--scale", 2, "--nodata", "-1") == 0
    np.testing.assert_array_equal(tifffile.imread("again.tif"), tifffile.imread("out.tif"))
    assert tag("again.tif") == "-1"


def test_nan_is_ignored_on_request() -> None:
    array = heights("float32", np.nan)
    np.save("in.npy", array)
    options: Any = {"size": (4, 5), "mode": "area"}
    for word, missing in (("ignore", "ignore"), ("propagate", "propagate")):
        words = "--size", "5x4", "--mode", "area", "--missing", word, "--force"
        assert run("resize", "in.npy", "out.npy", *words) == 0
        expected = gridsample.interpolate(array[None, None], **options, missing=missing)[0, 0]
        np.testing.assert_allclose(np.load("out.npy"), expected, rtol=1e-6)


def test_missing_pixels_propagate_on_request() -> None:
    array = heights("int16", -9999)
    write("in.tif", array, -9999)
    assert run("resize", "in.tif", "out.tif", "--scale", 2, "--missing", "propagate") == 0
    expected = gridsample.interpolate(as_planes(array, -9999), (14, 18), mode="bilinear")[0, 0]
    expected = np.where(np.isnan(expected), -9999, np.rint(expected))
    np.testing.assert_array_equal(tifffile.imread("out.tif"), expected)


@pytest.mark.parametrize("padding", ["zeros", "missing", "constant"])
def test_warping_honours_the_nodata_tag(padding: str) -> None:
    array = heights("int16", -9999)
    write("in.tif", array, -9999)
    fill = ("--fill", 7) if padding == "constant" else ()
    words = "--translate", "1.5,-0.25", "--padding", padding, *fill
    assert run("warp", "in.tif", "out.tif", *words) == 0
    grid = np.stack(np.meshgrid(np.arange(9) - 1.5, np.arange(7) + 0.25), -1)[None]
    value, weight = gridsample.grid_sample(
        as_planes(array, -9999),
        grid,
        padding_mode=padding,
        coords="pixel",
        missing="ignore",
        fill_value=7 if fill else 0,
        return_weight=True,
    )
    expected = np.where(weight > 0, np.rint(value), -9999)[0, 0]
    result = tifffile.imread("out.tif")
    np.testing.assert_array_equal(result, expected)
    assert (result == -9999).any() and tag("out.tif") == "-9999"


def test_nearest_copies_missing_pixels_too() -> None:
    array = heights("int16", -9999)
    write("in.tif", array, -9999)
    assert run("resize", "in.tif", "out.tif", "--scale", 2, "--mode", "nearest") == 0
    np.testing.assert_array_equal(
        tifffile.imread("out.tif"), array.repeat(2, axis=0).repeat(2, axis=1)
    )
    assert run("warp", "in.tif", "moved.tif", "--translate", "2,0", "--padding", "missing") == 0
    moved = tifffile.imread("moved.tif")
    np.testing.assert_array_equal(moved[:, 2:], array[:, :-2])
    assert (moved[:, :2] == -9999).all()


def test_antialiased_nearest_pixels_are_means_of_the_others(tmp_path: Path) -> None:
    """They are no copies, in files and in stores: the nodata value is not blended."""
    zarr = pytest.importorskip("zarr")
    array, folder = np.full((8, 8), 100, "int16"), tmp_path / "in.zarr"
    array[2:4, 3:6] = -9999
    write("in.tif", array, -9999)
    zarr.create_array(str(folder), data=array, attributes={"_FillValue": -9999})
    words = ("--scale", "0.25", "--size", "4x4", "--mode", "nearest", "--antialias")
    assert run("warp", "in.tif", "out.tif", *words) == run("warp", folder, "out.zarr", *words) == 0
    result = tifffile.imread("out.tif")
    assert {*np.unique(result).tolist()} == {-9999, 100}
    np.testing.assert_array_equal(zarr.open("out.zarr")["0"][...], result)


def test_nodata_outside_the_dtype_range_is_ignored() -> None:
    array = heights("uint8", 0)
    write("in.tif", array, -9999)
    write("bare.tif", array)
    for name in ("in", "bare"):
        assert run("resize", f"{name}.tif", f"{name}-out.tif", "--scale", 2) == 0
    np.testing.assert_array_equal(tifffile.imread("in-out.tif"), tifffile.imread("bare-out.tif"))
    assert (tag("in-out.tif"), tag("bare-out.tif")) == ("-9999", None)


def test_info_shows_the_nodata_value(capsys: pytest.CaptureFixture[str]) -> None:
    write("in.tif", heights("int16", -9999), -9999)
    assert run("info", "in.tif") == 0
    assert "nodata    -9999" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--nodata", "-1"), "--nodata -1 cannot be stored in pixels of dtype uint8"),
        (("--nodata", "none"), "expected a number, got 'none'"),
        (("--missing", "fill"), "'fill' is not known; accepted: propagate"),
        (("--nodata", "0", "--mode", "spline3"), "would prefilter the image"),
    ],
)
def test_invalid_options_are_rejected(
    words: Any, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write("in.tif", heights("uint8", 0))
    assert run("resize", "in.tif", "out.tif", "--scale", 2, *words) == 2
    assert message in capsys.readouterr().err


def test_alpha_is_not_combined_with_missing_pixels(capsys: pytest.CaptureFixture[str]) -> None:
    array = np.stack([heights("uint8", 0)] * 4, -1)
    tifffile.imwrite("in.tif", array, photometric="rgb", extrasamples=[2])
    words = "resize", "in.tif", "out.tif", "--scale", 2, "--nodata", 0
    assert run(*words) == 2
    assert "give --straight-alpha" in capsys.readouterr().err
    assert run(*words, "--straight-alpha") == 0
