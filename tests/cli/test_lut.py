"""`gridsample lut`: the colour table of a `.cube` file, applied to pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image as Pillow
from PIL import ImageFilter

from gridsample import cli, io
from gridsample.io.cube import read_cube
from gridsample.operators import apply_lut

PIXELS = np.random.default_rng(0).integers(0, 256, (9, 7, 4), np.uint8)
SIZE = 5
ENTRIES = np.random.default_rng(1).uniform(0, 1, (SIZE**3, 3)).round(6)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "look.cube"
    rows = "\n".join(" ".join(map(str, row)) for row in ENTRIES.tolist())
    path.write_text(f"LUT_3D_SIZE {SIZE}\n{rows}\n")
    return path


def run(*words: Any) -> int:
    return cli.main(["lut", *map(str, words)])


def looked_up(table: Path, pixels: Any, mode: str = "linear") -> Any:
    (cube,) = read_cube(table)
    return apply_lut(pixels[None], cube.table, mode, channel_axis=-1)[0]


def test_photos_and_modes(tmp_path: Path, table: Path) -> None:
    Pillow.fromarray(PIXELS[..., :3]).save(tmp_path / "a.png", dpi=(300, 300))
    Pillow.fromarray(PIXELS).save(tmp_path / "b.png")
    for mode in ("linear", "tetrahedral"):
        out = tmp_path / f"{mode}.png"
        assert run(tmp_path / "a.png", table, out, "--mode", mode) == 0
        np.testing.assert_array_equal(io.read(out).array, looked_up(table, PIXELS[..., :3], mode))
    theirs = Pillow.fromarray(PIXELS[..., :3]).filter(ImageFilter.Color3DLUT(SIZE, ENTRIES.ravel()))
    ours = io.read(tmp_path / "linear.png").array.astype(int)
    assert np.abs(ours - np.asarray(theirs)).max() <= 1
    with Pillow.open(tmp_path / "linear.png") as picture:
        assert picture.info["dpi"] == pytest.approx((300, 300), abs=0.01)
    # Several photos; opacity is kept.
    assert run(tmp_path / "a.png", table, tmp_path / "b.png", "--out", tmp_path / "all") == 0
    np.testing.assert_array_equal(io.read(tmp_path / "all/a.png").array, ours)
    result = io.read(tmp_path / "all/b.png").array
    np.testing.assert_array_equal(result[..., :3], ours)
    np.testing.assert_array_equal(result[..., 3], PIXELS[..., 3])


def test_pages_dtypes_and_bands(
    tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gridsample.cli.lut.BAND", 14)
    deep = PIXELS[..., :3].astype(np.uint16) * 257
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        file.write(deep, photometric="rgb")
        file.write(deep[:5] / np.float32(65535), photometric="rgb")
    assert run(tmp_path / "a.tif", table, tmp_path / "b.tif") == 0
    with io.pages(tmp_path / "b.tif") as (first, second):
        pixels = first.pixels()
        assert pixels.dtype == np.uint16 and second.image.array.dtype == np.float32
        np.testing.assert_array_equal(pixels, looked_up(table, deep))
        np.testing.assert_allclose(second.pixels() * 65535, pixels[:5], atol=0.6)


def test_colours_that_are_multiplied_by_opacity(tmp_path: Path, table: Path) -> None:
    straight = PIXELS / np.float32(255)
    straight[0, 0, 3] = 0
    stored = straight.copy()
    stored[..., :3] *= straight[..., 3:]
    tifffile.imwrite(tmp_path / "a.tif", stored, photometric="rgb", extrasamples=["assocalpha"])
    assert run(tmp_path / "a.tif", table, tmp_path / "b.tif") == 0
    expected = looked_up(table, straight[..., :3]) * straight[..., 3:]
    result = io.read(tmp_path / "b.tif").array
    np.testing.assert_allclose(result[..., :3], expected, atol=1e-5)
    np.testing.assert_array_equal(result[..., 3], straight[..., 3])


def test_curves_before_a_cube(tmp_path: Path, table: Path) -> None:
    Pillow.fromarray(PIXELS[..., :3]).save(tmp_path / "a.png")
    both = tmp_path / "both.cube"
    curves = "LUT_1D_SIZE 2\nLUT_1D_INPUT_RANGE 0 1\nLUT_3D_INPUT_RANGE 0 1\n"
    head, _, rows = table.read_text().partition("\n")
    both.write_text(f"{curves}{head}\n1 1 1\n0 0 0\n{rows}")
    assert run(tmp_path / "a.png", both, tmp_path / "b.png") == 0
    result = io.read(tmp_path / "b.png").array
    # The curves are negatives.
    np.testing.assert_array_equal(result, looked_up(table, 255 - PIXELS[..., :3]))


def test_errors(tmp_path: Path, table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photo, grey, mask = (tmp_path / name for name in ("photo.png", "grey.png", "mask.tif"))
    Pillow.fromarray(PIXELS[..., :3]).save(photo)
    Pillow.fromarray(PIXELS[..., 0]).save(grey)
    tifffile.imwrite(mask, PIXELS[..., :3] > 9, photometric="rgb")
    bad = tmp_path / "bad.cube"
    bad.write_text("LUT_3D_SIZE 2\n0 0 0\n")
    out = tmp_path / "out.tif"
    for words, message in (
        ((photo, out), "give one TABLE, a .cube file; got none"),
        ((photo, table, bad, out), "give one TABLE, a .cube file; got"),
        ((photo, table), "give OUTPUT"),
        ((photo, bad, out), "8 entries are expected, got 1"),
        ((photo, tmp_path / "no.cube", out), "No such file"),
        ((grey, table, out), "takes red, green and blue, but"),
        ((mask, table, out), "has dtype bool"),
        ((photo, table, out, "--mode", "tetrahedra"), "did you mean tetrahedral?"),
        ((photo, table, out, "--order", "1"), "did you mean --mode?"),
    ):
        assert run(*words) == 2
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1 and message in lines[0], lines
        assert not out.exists()
    assert cli.main(["grade"]) == 2
    assert "did you mean gridsample lut?" in capsys.readouterr().err
