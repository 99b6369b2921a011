"""`gridsample panorama`: pictures are converted between all projections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gridsample import cameras, cli, io

Array = np.ndarray[Any, Any]
PANORAMA = cameras.equirectangular((32, 64))


def colour(projection: cameras.Projection, rotation: Any = None) -> Array:
    """A smooth function of directions as 8-bit pixels, (*spatial, 3)."""
    rays = cameras.panorama_rays(projection, rotation)[0]
    rays = rays / np.linalg.norm(rays, axis=-1, keepdims=True)
    result: Array = np.rint(127.5 + 120 * rays).astype(np.uint8)
    return result


def run(source: Path, out: Path, *words: Any) -> Array:
    assert cli.main(["panorama", str(source), str(out), "--force", *map(str, words)]) == 0
    return io.read(out).array.astype(int)


@pytest.fixture
def panorama(tmp_path: Path) -> Path:
    io.write(io.Image(colour(PANORAMA), "NumPy", True), tmp_path / "p.png")
    return tmp_path / "p.png"


def laid_out(faces: Array, layout: str) -> Array:
    front, right, back, left, up, down = faces
    if layout != "cross":
        return np.concatenate(faces, 1 if layout == "row" else 0)
    none = np.zeros_like(up)
    rows = [none, up, none, none], [left, front, right, back], [none, down, none, none]
    return np.concatenate([np.concatenate(row, 1) for row in rows])


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["cross", "row", "column"])
def test_cube_maps(layout: str, panorama: Path, tmp_path: Path) -> None:
    cube, back = tmp_path / "c.png", tmp_path / "b.png"
    result = run(panorama, cube, "--to", "cubemap", "--layout", layout, "--size", 12)
    expected = laid_out(colour(cameras.cubemap(12)), layout).astype(int)
    assert np.abs(result - expected).max() <= 2
    again = run(cube, back, "--from", "cubemap", "--to", "equirectangular", "--size", 64)
    assert again.shape == (32, 64, 3)
    assert np.abs(again - colour(PANORAMA)).max() <= 4
    rotated = run(
        cube, back, "--from", "cubemap", "--to", "cubemap", "--yaw", 90, "--layout", layout
    )
    turned = colour(cameras.cubemap(12), cameras.look(yaw=90))
    assert np.abs(rotated - laid_out(turned, layout)).max() <= 2


def test_a_view_round_trips_through_the_panorama(panorama: Path, tmp_path: Path) -> None:
    view, back = tmp_path / "v.png", tmp_path / "b.png"
    angles = "--yaw", -40, "--pitch", 20, "--roll", 10
    size = "--size", "24x18", "--fov", 70
    result = run(panorama, view, "--to", "perspective", *size, *angles)
    projection = cameras.perspective((18, 24), 70)
    rotation = cameras.look(-40, 20, 10)
    assert np.abs(result - colour(projection, rotation)).max() <= 2
    words = "--from", "perspective", "--from-fov", 70, "--to", "equirectangular", "--size", "64x32"
    placed = run(view, back, *words, *angles)
    seen = placed.any(-1)
    assert 0.05 < seen.mean() < 0.2
    assert np.abs(placed - colour(PANORAMA))[seen].max() <= 4
    wide = run(view, back, *words[:5], "perspective", "--fov", 30, "--yaw", 10, "--size", "9x9")
    expected = colour(cameras.perspective((9, 9), 30), rotation @ cameras.look(10))
    assert np.abs(wide - expected).max() <= 3


def test_output_sizes(panorama: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.png"
    assert run(panorama, out, "--to", "cubemap", "--layout", "row").shape == (20, 120, 3)
    assert run(panorama, out, "--to", "perspective").shape == (15, 20, 3)
    assert run(panorama, out, "--to", "equirectangular").shape == (32, 64, 3)
    assert run(panorama, out, "--to", "equirectangular", "--size", "30x10").shape == (10, 30, 3)


@pytest.mark.slow
def test_colours_of_transparent_pixels_do_not_bleed(tmp_path: Path) -> None:
    """The colours of transparent pixels do not bleed."""
    pixels = np.full((32, 64, 4), 200, np.uint8)
    pixels[:, :20] = 0, 255, 0, 0
    io.write(io.Image(pixels, "NumPy", True), tmp_path / "p.png")
    result = run(tmp_path / "p.png", tmp_path / "c.png", "--to", "cubemap", "--size", 12)
    shown = result[result[..., 3] > 20]
    assert np.abs(shown[:, :3] - 200).max() <= 3
    straight = run(tmp_path / "p.png", tmp_path / "c.png", "--to", "cubemap", "--straight-alpha")
    assert np.abs(straight[straight[..., 3] > 20][:, :3] - 200).max() > 20


def test_invalid_files_and_options_are_rejected(
    panorama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "volume.npy", np.zeros((5, 6, 7), np.uint8))
    for name, words, message in (
        ("p.png", ["--to", "cubemap", "--fov", "3"], "--fov has no meaning from"),
        ("p.png", ["--to", "perspective", "--layout", "row"], "--layout has no meaning"),
        ("p.png", ["--to", "perspective", "--fov", "180"], "fov must be between 0 and 180"),
        ("p.png", ["--to", "cubemap", "--size", "3x4"], "--size of cubemap is S, got 3x4"),
        ("p.png", ["--to", "perspective", "--size", "3"], "--size of perspective is WxH"),
        ("p.png", ["--from", "cubemap", "--to", "perspective"], "the input has 64x32 pixels"),
        ("p.png", ["--from", "perspective", "--to", "cubemap"], "needs --from-fov"),
        ("volume.npy", ["--to", "cubemap"], "volume.npy is a volume"),
        ("p.png", [], "give --to (see"),
        ("p.png", ["--to", "cubemap", "--mode", "x"], "--mode: 'x' is not known"),
    ):
        command = [str(tmp_path / name), str(tmp_path / "o.png"), *words]
        assert cli.main(["panorama", *command]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert len(error.splitlines()) == 1
    assert not (tmp_path / "o.png").exists()
