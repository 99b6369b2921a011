"""`gridsample warp --antialias`, and the hint where a warp skips pixels without it."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest

import gridsample
from gridsample import cli, warp

HINT = "gridsample: hint: the image shrinks by a factor of "


def run(*words: Any) -> int:
    return cli.main([str(word) for word in words])


@pytest.fixture
def photo(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> np.ndarray[Any, Any]:
    monkeypatch.chdir(tmp_path)
    image = cases.pixels(cases.generator("photo"), (64, 48, 3), np.uint8)
    np.save("photo.npy", image)
    return image


@pytest.mark.parametrize("command", ["warp", "resize"])
def test_a_shrunk_picture_is_averaged(
    command: str, photo: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--scale", 0.25, "--size", "12x16") if command == "warp" else ("--size", "12x16")
    for name, options in (
        ("mean", []),
        ("chosen", ["--antialias"]),
        ("plain", ["--no-antialias"]),
        ("copied", ["--mode", "nearest", "--no-antialias"]),
    ):
        assert run(command, "photo.npy", f"{name}.npy", *words, *options) == 0
    assert capsys.readouterr().err == ""
    blocks = photo.reshape(16, 4, 12, 4, 3).mean((1, 3))
    inner = np.s_[1:-1, 1:-1]
    mean, plain = (np.abs(np.load(f"{n}.npy") - blocks)[inner].mean() for n in ("mean", "plain"))
    assert mean < (0.5 if command == "warp" else 15) and plain > 20
    np.testing.assert_array_equal(np.load("mean.npy"), np.load("chosen.npy"))
    assert run(command, "photo.npy", "nearest.npy", *words, "--mode", "nearest") == 0
    expected = (
        f"{HINT}4, and pixels are skipped; --antialias averages over them, --mode label votes\n"
    )
    assert capsys.readouterr().err.endswith(expected)
    np.testing.assert_array_equal(np.load("nearest.npy"), np.load("copied.npy"))


def test_enlarged_pictures_are_not_antialiased(photo: Any) -> None:
    assert run("resize", "photo.npy", "large.npy", "--scale", 2, "--mode", "bicubic") == 0
    expected = gridsample.interpolate(photo[np.newaxis], (128, 96), mode="cubic", channel_axis=-1)
    np.testing.assert_array_equal(np.load("large.npy"), expected[0])


def test_a_grid_is_sampled_as_it_is(photo: Any, capsys: pytest.CaptureFixture[str]) -> None:
    grid = gridsample.identity_grid((1, 1, 16, 12))[0]
    np.save("grid.npy", grid)
    assert run("warp", "photo.npy", "plain.npy", "--grid", "grid.npy") == 0
    assert HINT in capsys.readouterr().err
    expected = gridsample.grid_sample(photo[np.newaxis], grid[np.newaxis], channel_axis=-1)
    np.testing.assert_array_equal(np.load("plain.npy"), expected[0])
    assert run("warp", "photo.npy", "mean.npy", "--grid", "grid.npy", "--antialias") == 0
    assert not np.array_equal(np.load("plain.npy"), np.load("mean.npy"))
    assert capsys.readouterr().err == ""


def test_the_labels_of_a_shrunk_segmentation_vote(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tissue = np.full((1, 1, 48, 40), 5, np.int16)
    tissue[..., 1::4, 1::4] = tissue[..., 2::4, 2::4] = 2  # what plain sampling would read
    np.save("tissue.npy", tissue[0, 0])
    arguments = ("--scale", 0.25, "--size", "10x12", "--mode", "label")
    assert run("warp", "tissue.npy", "votes.npy", *arguments) == 0
    assert run("warp", "tissue.npy", "plain.npy", *arguments, "--no-antialias") == 0
    assert capsys.readouterr().err == ""
    sampled, votes = np.load("plain.npy"), np.load("votes.npy")
    assert (sampled == 2).all() and votes.dtype == tissue.dtype
    assert (votes[1:-1, 1:-1] == 5).all()


def test_no_hint_for_slight_shrinking(photo: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("warp", "photo.npy", "same.npy", "--scale", 0.7, "--rotate", 20) == 0
    assert HINT not in capsys.readouterr().err


def test_bands_leave_no_seams(monkeypatch: pytest.MonkeyPatch) -> None:
    image = cases.pixels(cases.generator("bands"), (40, 30, 2))
    matrix = np.array([[3.1, 0.4, -2.0], [-0.3, 2.7, 1.0], [0, 0, 1]])

    def grid_at(rows: slice) -> Any:
        return warp.grid_band(matrix, rows, (30, 40), (10, 13), False)

    expected = gridsample.grid_sample(
        image[np.newaxis], grid_at(slice(0, 13))[np.newaxis], antialias=True, channel_axis=-1
    )[0]
    for points in (1, 30, 1 << 19):
        monkeypatch.setattr(warp, "_BAND_POINTS", points)
        result = warp.sample(image, grid_at, (13, 10), antialias=True)
        np.testing.assert_allclose(result, expected, rtol=1e-13)
