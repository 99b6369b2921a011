"""The command line on Zarr stores, and stores after kill -9."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import gridsample
from gridsample import cli
from gridsample.io.omezarr import read_multiscale
from gridsample.io.rfc5 import write_transformations

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*words: Any) -> int:
    return cli.main([str(word) for word in words])


def stored(name: str, *shape: int, chunks: int = 8, dtype: str = "uint8", **options: Any) -> Array:
    image = np.random.default_rng(3).integers(0, 250, shape).astype(dtype)
    zarr.create_array(name, data=image, chunks=(chunks,) * len(shape), **options)
    return image


def read(name: str, level: int = 0) -> Array:
    return read_multiscale(name).arrays[level][...]


def test_zarr_warps_match_file_warps(capsys: pytest.CaptureFixture[str]) -> None:
    """The steps mean the same for a Zarr store as for an image file."""
    image = stored("in.zarr", 25, 33)
    np.save("in.npy", image)
    for words in (
        ["--rotate", "30", "--scale", "1.5", "--size", "40x20"],
        ["--affine", "1,0.1,-3,0.2,0.9,2", "--mode", "bicubic", "--padding", "reflection"],
        ["--translate", "2,-1", "--padding", "constant", "--fill", "7"],
        ["--shear", "20", "--antialias", "--mode", "nearest"],
    ):
        assert run("warp", "in.zarr", "out.zarr", "--force", "--chunks", "7x5", *words) == 0
        assert run("warp", "in.npy", "out.npy", "--force", *words) == 0
        # Grids of files are normalized: their positions are rounded in another way.
        difference = read("out.zarr").astype(int) - np.load("out.npy")
        assert np.abs(difference).max() <= 1 or "nearest" in words
        assert (difference != 0).mean() < 0.01
    assert "read " in capsys.readouterr().out


def test_volumes(capsys: pytest.CaptureFixture[str]) -> None:
    image = stored("in.zarr", 9, 12, 20, dtype="float32")
    words = ["--affine", "1,0,0,2,0,1,0,-1,0,0,1,3"]
    assert run("warp", "in.zarr", "out.zarr", *words, "--shards", "16x16x16") == 0
    expected = np.zeros_like(image)
    expected[3:, :-1, 2:] = image[:-3, 1:, :-2]
    np.testing.assert_array_equal(read("out.zarr"), expected)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("read ") and line.endswith("in 2 files")


def test_resize_and_pyramid(capsys: pytest.CaptureFixture[str]) -> None:
    image = stored("in.zarr", 21, 30)
    assert run("resize", "in.zarr", "half.zarr", "--scale", "0.5", "--antialias") == 0
    expected = gridsample.interpolate(image[None, None], (10, 15), mode="linear", antialias=True)
    np.testing.assert_array_equal(read("half.zarr"), expected[0, 0])
    words = ["--levels", "3", "--zarr-format", "2", "--chunks", "4x6"]
    assert run("pyramid", "in.zarr", "levels.zarr", *words) == 0
    pyramid = read_multiscale("levels.zarr")
    assert [array.shape for array in pyramid.arrays] == [(21, 30), (11, 15), (6, 8)]
    assert pyramid.arrays[0].chunks == (6, 4)
    capsys.readouterr()
    assert run("info", "levels.zarr") == 0
    text = capsys.readouterr().out
    assert "OME-Zarr, Zarr version 2" in text and "level 2   (6, 8), chunks (6, 4)" in text


def test_like_and_transform() -> None:
    image = stored("in.zarr", 10, 12, dtype="float64")
    assert run("pyramid", "in.zarr", "like.zarr", "--levels", "2") == 0
    shift = np.eye(3)
    shift[0, 2] = 2
    write_transformations("shift.zarr", [shift], [{"name": "y"}, {"name": "x"}])
    Path("shift.json").write_text(
        json.dumps({"type": "translation", "translation": [2, 0]}), encoding="utf-8"
    )
    expected = np.zeros_like(image)
    expected[:-2] = image[2:]
    for transform in ("shift.zarr", "shift.json"):
        words = ["--like", "like.zarr", "--transform", transform]
        assert run("warp", "in.zarr", "out.zarr", "--force", *words) == 0
        np.testing.assert_array_equal(read("out.zarr"), expected)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["warp", "in.zarr", "out.png"], "must end in .zarr"),
        (["warp", "in.zarr", "out.zarr", "--grid", "g.npy"], "--grid is not accepted for Zarr"),
        (["warp", "in.zarr", "out.zarr", "--fill", "3"], "requires --padding constant"),
        (["warp", "in.zarr", "out.zarr", "--size", "5x5x5"], "--size has 3 numbers"),
        (["warp", "in.zarr", "out.zarr", "--like", "in.zarr", "--rotate", "3"], "no steps"),
        (["warp", "in.zarr", "out.zarr", "--transform", "no.json"], "no.json: No such file"),
        (["resize", "in.zarr", "out.zarr", "--scale", "2", "--nodata", "0.5"], "cannot be stored"),
        (["warp", "p.npy", "out.npy", "--chunks", "3x3"], "--chunks is for Zarr stores"),
        (["pyramid", "p.npy", "out.zarr"], "no folder with a Zarr array"),
        (["pyramid", "in.zarr", "out.zarr", "--axes", "zyx"], "the array has 2 axes"),
        (["pyramid", "in.zarr", "no/out.zarr"], "there is no folder no"),
    ],
)
def test_errors(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    stored("in.zarr", 6, 7)
    np.save("p.npy", np.zeros((4, 4)))
    assert run(*words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert sorted(path.name for path in Path().iterdir()) == ["in.zarr", "p.npy"]


# Ended in the middle ------------------------------------------------------------------------------


def files(folder: Path) -> dict[str, bytes]:
    """The content of a store."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "gridsample", *words]


WARP = [
    "warp",
    "in.zarr",
    "out.zarr",
    "--rotate",
    "10",
    "--mode",
    "spline3",
    "--chunks",
    "16x16x16",
]


def test_finished_chunks_are_not_recomputed(capsys: pytest.CaptureFixture[str]) -> None:
    """A run that was ended is continued by the same command, and by no other."""
    stored("in.zarr", 40, 40, 40, chunks=16)
    assert run(*WARP) == 0
    first = capsys.readouterr().out
    expected = files(Path("out.zarr"))
    unfinished = Path(".out.zarr.unfinished")
    # As after kill -9: some chunks are missing, and one was being written.
    os.renames("out.zarr", unfinished / "store")
    chunks = sorted((unfinished / "store/0/c").rglob("*"))
    chunks = [path for path in chunks if path.is_file()]
    for path in chunks[:5]:
        path.unlink()
    chunks[0].with_suffix(".0123.partial").write_bytes(b"half")
    write_times = {path: path.stat().st_mtime_ns for path in chunks[5:]}
    assert run(*WARP) == 2
    assert "unfinished result of another command" in capsys.readouterr().err  # without its recipe
    recipe = recipe_of(WARP)
    (unfinished / "recipe.json").write_text(recipe, encoding="utf-8")
    assert run(*WARP[:4], "11", *WARP[5:]) == 2
    capsys.readouterr()
    assert run(*WARP) == 0
    assert files(Path("out.zarr")) == expected
    assert not unfinished.exists()
    for path, time_written in write_times.items():
        again = Path("out.zarr", path.relative_to(unfinished / "store"))
        assert again.stat().st_mtime_ns == time_written
    last = capsys.readouterr().out
    assert "in 27 files" in first and "in 5 files, after 22 of an earlier run" in last


def recipe_of(words: list[str]) -> str:
    """The recipe of a command, as it is stored while the command runs."""
    seen = []

    def look(*arguments: Any) -> None:
        seen.append(Path(".other.zarr.unfinished/recipe.json").read_text(encoding="utf-8"))
        raise KeyboardInterrupt

    from gridsample.zarr import layouts

    original, layouts.fill = layouts.fill, look
    try:
        assert run(words[0], words[1], "other.zarr", *words[3:]) == 130
    finally:
        layouts.fill = original
    return str(seen[0])


def wait_for_a_chunk(process: subprocess.Popen[str]) -> None:
    """Wait until a command has stored a chunk, or ends."""
    while process.poll() is None:
        with contextlib.suppress(OSError):  # of folders that are renamed
            if any(path.is_file() for path in Path(".out.zarr.unfinished").glob("store/**/c/**/*")):
                return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.001)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("kind", ["warp", "pyramid"])
def test_ten_kills_at_random_times(kind: str) -> None:
    """However often and whenever a command is killed, repeating it gives the same bytes."""
    stored("in.zarr", 128, 128, 128, chunks=32, shards=(64, 64, 64), dtype="uint16")
    words = {
        "warp": [*WARP, "--threads", "2"],
        "pyramid": ["pyramid", "in.zarr", "out.zarr", "--chunks", "16x16x16", "--threads", "2"],
    }[kind]
    began = time.monotonic()
    subprocess.run(command(*words), check=True, stdout=subprocess.DEVNULL)
    length = time.monotonic() - began
    expected = files(Path("out.zarr"))
    chance, kills, continued = random.Random(7), 0, 0
    while kills < 10:
        began = time.monotonic()
        process = subprocess.Popen(command(*words, "--force"), stdout=subprocess.PIPE, text=True)
        share = chance.uniform(0.1, 0.9)
        if kills % 2:  # not at the beginning, which takes longer where the rest is fast
            wait_for_a_chunk(process)
            share /= 8
        try:
            output, _ = process.communicate(timeout=share * length)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
            continue
        assert process.returncode == 0
        length = min(length, time.monotonic() - began)
        continued += "of an earlier run" in output
        assert files(Path("out.zarr")) == expected
    last = subprocess.run(command(*words, "--force"), check=True, capture_output=True, text=True)
    continued += "of an earlier run" in last.stdout
    assert files(Path("out.zarr")) == expected
    assert continued  # killed runs have stored chunks
    assert sorted(path.name for path in Path().iterdir()) == ["in.zarr", "out.zarr"]
