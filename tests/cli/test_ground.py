"""`gridsample warp --crs`: GeoTIFFs in other coordinate systems."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import tifffile

from gridsample import cli, io

pyproj = pytest.importorskip("pyproj")
xarray = pytest.importorskip("xarray")

NODATA = -9999.0


def keys_of(code: int) -> tuple[int, ...]:
    """The GeoTIFF keys of a coordinate system."""
    kind, key = (2, 2048) if code == 4326 else (1, 3072)
    return (1, 1, 0, 3, 1024, 0, 1, kind, 1025, 0, 1, 1, key, 0, 1, code)


def write(path: Path, image: Any, code: int, corner: Any, size: float) -> None:
    """A GeoTIFF whose first pixel has a corner."""
    keys = keys_of(code)
    tags = [
        (33550, 12, 3, (size, size, 0.0), True),
        (33922, 12, 6, (0.0, 0.0, 0.0, *corner, 0.0), True),
        (34735, 3, len(keys), keys, True),
    ]
    tags.append((42113, 2, 6, b"-9999\0", True))
    tifffile.imwrite(path, image, extratags=tags, photometric="minisblack")


def heights(dtype: str = "float32") -> Any:
    y, x = np.mgrid[:90, :120]
    image = (200 * np.sin(x / 9) * np.cos(y / 7) + 300).astype(dtype)
    image[20:30, 40:50] = NODATA
    return image


def run(*words: Any) -> int:
    return cli.main([*map(str, words)])


def as_data_array(image: Any, code: int, corner: Any, size: float) -> Any:
    rows, columns = image.shape
    y, x = (
        corner[1] - size * (np.arange(rows) + 0.5),
        corner[0] + size * (np.arange(columns) + 0.5),
    )
    attributes = {"crs": f"EPSG:{code}", "_FillValue": NODATA}
    return xarray.DataArray(image, {"y": y, "x": x}, attrs=attributes)


@pytest.mark.parametrize(
    ("dtype", "mode", "options"),
    [
        ("float32", "bilinear", []),
        ("int16", "catmull-rom", []),
        pytest.param("int16", "nearest", [], marks=pytest.mark.slow),
        pytest.param("float32", "bilinear", ["--resolution", "100,80"], marks=pytest.mark.slow),
    ],
)
def test_pixels_and_tags_are_those_of_reproject(
    tmp_path: Path, dtype: str, mode: str, options: list[str]
) -> None:
    import gridsample.xarray

    corner, image = (500_000.0, 5_300_000.0), heights(dtype)
    write(tmp_path / "in.tif", image, 32632, corner, 20.0)
    options = options or ["--resolution", "30"]
    words = ["warp", tmp_path / "in.tif", tmp_path / "out.tif", "--crs", "EPSG:3857"]
    assert run(*words, "--mode", mode, *options) == 0
    resolution = tuple(map(float, options[1].split(",")))
    antialias = mode != "nearest" or None
    expected = gridsample.xarray.reproject(
        as_data_array(image, 32632, corner, 20.0),
        3857,
        resolution=resolution * (3 - len(resolution)) if len(resolution) == 1 else resolution,
        method={"catmull-rom": "cubic"}.get(mode, mode),
        antialias=antialias,
    )
    with tifffile.TiffFile(tmp_path / "out.tif") as file:
        tags = file.pages[0].tags
        result = file.asarray()
        assert tuple(tags[34735].value) == keys_of(3857) and tags[42113].value == "-9999"
        dx, dy, _ = tags[33550].value
        x, y = tags[33922].value[3:5]
    np.testing.assert_array_equal(result, expected)
    assert result.dtype == np.dtype(dtype) and (result == NODATA).any() and (result > 0).any()
    np.testing.assert_allclose((x + dx / 2, y - dy / 2), (expected.x[0], expected.y[0]))
    assert (dx, dy) == resolution * (2 // len(resolution))


@pytest.mark.parametrize(
    ("dtype", "statistic"), [("float32", "median"), ("int16", "sum"), ("int16", "0.9")]
)
def test_statistics_are_those_of_reproject(tmp_path: Path, dtype: str, statistic: str) -> None:
    import gridsample.xarray

    corner, image = (500_000.0, 5_300_000.0), heights(dtype)
    write(tmp_path / "in.tif", image, 32632, corner, 20.0)
    words = ["warp", tmp_path / "in.tif", tmp_path / "out.tif", "--crs", "EPSG:3857"]
    assert run(*words, "--resolution", "100", "--statistic", statistic) == 0
    method = 0.9 if statistic == "0.9" else statistic
    image = as_data_array(image, 32632, corner, 20.0)
    expected = gridsample.xarray.reproject(image, 3857, resolution=100, method=method)
    with tifffile.TiffFile(tmp_path / "out.tif") as file:
        result = file.asarray()
        assert (42113 in file.pages[0].tags) == (statistic != "sum")
    np.testing.assert_array_equal(result, expected)
    assert result.dtype == expected.dtype and (result > 0).any()


def test_like_another_coordinate_system(tmp_path: Path) -> None:
    image = heights()
    write(tmp_path / "in.tif", image, 32632, (500_000.0, 5_300_000.0), 20.0)
    write(tmp_path / "like.tif", np.zeros((50, 70), np.uint8), 4326, (9.0, 47.855), 0.0004)
    words = ["warp", tmp_path / "in.tif", tmp_path / "out.tif", "--like", tmp_path / "like.tif"]
    assert run(*words, "--mode", "nearest") == 0
    with tifffile.TiffFile(tmp_path / "out.tif") as file:
        result, tags = file.asarray(), file.pages[0].tags
        assert tuple(tags[34735].value) == keys_of(4326)
    transform = pyproj.Transformer.from_crs(4326, 32632, always_xy=True).transform
    rows, columns = np.mgrid[:50, :70] + 0.5
    x, y = transform(9 + 0.0004 * columns, 47.855 - 0.0004 * rows)
    j, i = (x - 500_000) / 20 - 0.5, (5_300_000 - y) / 20 - 0.5
    inside = (abs(j - 59.5) < 60) & (abs(i - 44.5) < 45)
    near = [np.rint(v).astype(int).clip(0, n) for v, n in ((i, 89), (j, 119))]
    wanted = np.where(inside, image[tuple(near)], NODATA)
    edge = np.minimum(abs(j % 1 - 0.5), abs(i % 1 - 0.5)) < 0.06  # between two pixels
    assert inside.any() and not inside.all()
    assert ((result == wanted) | edge).all()


def test_overviews_and_alpha(tmp_path: Path) -> None:
    """A reduced copy is resampled with its page; colours are weighted by alpha."""
    rng = np.random.default_rng(0)
    image = rng.integers(0, 255, (64, 96, 4), np.uint8)
    keys = keys_of(32632)
    tags = [
        (33550, 12, 3, (20.0, 20.0, 0.0), True),
        (33922, 12, 6, (0.0, 0.0, 0.0, 500_000.0, 5_300_000.0, 0.0), True),
        (34735, 3, len(keys), keys, True),
    ]
    options: dict[str, Any] = {"photometric": "rgb", "extrasamples": ["unassalpha"]}
    with tifffile.TiffWriter(tmp_path / "in.tif") as file:
        file.write(image, extratags=tags, **options)
        file.write(image[::2, ::2], subfiletype=1, **options)
    assert run("warp", tmp_path / "in.tif", tmp_path / "out.tif", "--crs", "EPSG:3857") == 0
    with io.pages(tmp_path / "out.tif") as pages:
        (first, colours), (second, _) = [(page.image, page.pixels()) for page in pages]
    assert second.is_overview and "geotiff" not in second.extras
    assert [abs(2 * n - m) <= 1 for n, m in zip(second.size, first.size, strict=True)] == [True] * 2
    assert first.extras["geotiff"].epsg == 3857
    outside = colours[..., 3] == 0
    assert outside.any() and not colours[outside].any()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--crs", "EPSG:nothing"], "no projection that pyproj knows"),
        (["--crs", "+proj=ortho +lat_0=45"], "has no EPSG code"),
        (["--crs", "EPSG:3857", "--rotate", "3"], "does not accept steps"),
        (["--crs", "EPSG:3857", "--padding", "mirror"], "does not accept --padding"),
        (["--resolution", "3"], "give --crs"),
        (["--crs", "EPSG:3857", "--resolution=-3"], "one or two positive numbers"),
        (["--crs", "EPSG:3857", "--resolution=1,2,3"], "one or two positive numbers"),
        (["--statistic", "min"], "in another coordinate system: give --crs"),
        (["--crs", "EPSG:3857", "--statistic", "mean"], "a number from 0 to 1"),
        (["--crs", "EPSG:3857", "--statistic", "1.5"], "accepted: average, min"),
        (["--crs", "EPSG:3857", "--statistic", "max", "--mode", "nearest"], "in place of --mode"),
    ],
)
def test_errors(tmp_path: Path, words: list[str], message: str, capsys: Any) -> None:
    write(tmp_path / "in.tif", heights(), 32632, (500_000.0, 5_300_000.0), 20.0)
    assert run("warp", tmp_path / "in.tif", tmp_path / "out.tif", *words) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "out.tif").exists()


def test_errors_of_files(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    write(tmp_path / "in.tif", heights(), 32632, (500_000.0, 5_300_000.0), 20.0)
    write(tmp_path / "own.tif", heights(), 32767, (500_000.0, 5_300_000.0), 20.0)
    PIL.Image.fromarray(np.zeros((4, 5, 3), np.uint8)).save(tmp_path / "plain.png")
    crs = ["--crs", "EPSG:3857"]
    for name, out, message in (
        (
            "plain.png",
            "out.png",
            "needs a GeoTIFF with a coordinate system; the input is PNG",
        ),
        ("own.tif", "out.tif", "the coordinate system of the input has no EPSG code"),
        ("in.tif", "out.png", "--crs writes GeoTIFFs"),
    ):
        assert run("warp", tmp_path / name, tmp_path / out, *crs) == 2
        assert message in capsys.readouterr().err and not (tmp_path / out).exists()
    monkeypatch.setitem(__import__("sys").modules, "pyproj", None)
    assert run("warp", tmp_path / "in.tif", tmp_path / "out.tif", *crs) == 2
    assert "pip install 'gridsample[geo]'" in capsys.readouterr().err
