"""`gridsample warp` and `resize --mode label`, and the hint where labels are blended."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest

import gridsample
from gridsample import cli, io
from gridsample.io import Image
from gridsample.ops.resized_parts import resize_rows

nibabel = pytest.importorskip("nibabel")
tifffile = pytest.importorskip("tifffile")

HINT = (
    "gridsample: hint: the input looks like labels, which were blended; --mode label keeps them\n"
)
Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _inside_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*words: Any) -> int:
    return cli.main([str(word) for word in words])


def regions(dtype: Any = np.int16) -> Array:
    """A volume of labels on a background."""
    rng = cases.generator("regions")
    volume = np.zeros((4, 21, 24), dtype)
    volume[:, 3:, 4:] = np.kron(rng.integers(0, 60, (1, 6, 5)), np.ones((4, 3, 4), int))
    return volume


def save(array: Array, name: str) -> None:
    io.write(Image(array[..., np.newaxis], "NumPy", has_channel_axis=False), io.Path(name))


@pytest.mark.parametrize("suffix", ["npy", "nii", "tif"])
def test_warped_labels_are_input_labels(suffix: str, capsys: Any) -> None:
    labels = regions()
    save(labels if suffix != "tif" else labels[0], f"in.{suffix}")
    names = f"in.{suffix}", f"out.{suffix}"
    known = set(np.unique(labels).tolist())
    spatial = labels.ndim if suffix != "tif" else 2
    pixels = labels if suffix != "tif" else labels[0]
    for words, options in (([], {"antialias": True}), (["--no-antialias"], {})):
        assert run("resize", *names, "--scale", 0.5, "--mode", "label", "--force", *words) == 0
        result = io.read(io.Path(names[1])).array[..., 0]
        size = tuple(n // 2 for n in pixels.shape)
        expected = gridsample.interpolate(pixels[None, None], size, mode="label", **options)
        assert len(size) == spatial and np.array_equal(result, expected[0, 0])
    assert run("warp", *names, "--rotate", 20, "--mode", "label", "--force") == 0
    assert set(np.unique(io.read(io.Path(names[1])).array).tolist()) <= known
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_a_hint_where_labels_are_blended(capsys: Any) -> None:
    photo = cases.pixels(cases.generator("photo"), (40, 50), np.uint8)
    smooth = np.add.outer(np.arange(40), np.arange(50)).astype(np.uint8)
    images = {"labels.nii": regions(), "labels.npy": regions(np.uint8), "labels.tif": regions()[0]}
    for name, array in {**images, "photo.tif": photo, "smooth.npy": smooth}.items():
        save(array, name)
        out = f"out{io.Path(name).suffix}"
        output = HINT if name.startswith("labels") else ""
        for words in (["warp", "--rotate", 9], ["resize", "--scale", 2]):
            command = [words[0], name, out, *words[1:], "--force"]
            assert run(*command) == 0
            assert capsys.readouterr().err == output
            assert run(*command, "--mode", "nearest") == 0
            assert capsys.readouterr().err == ""
    save(regions(np.float32), "real.nii")
    assert run("resize", "real.nii", "out.nii", "--scale", 2, "--force") == 0
    assert capsys.readouterr().err == ""


def test_non_label_dtypes_are_rejected(capsys: Any) -> None:
    save(regions(np.float32), "real.nii")
    for command in ("warp", "resize"):
        words = ["--scale", 2, "--mode", "label"]
        assert run(command, "real.nii", "out.nii", *words) == 2
        assert "convert labels to an integer dtype" in capsys.readouterr().err
        assert not io.Path("out.nii").exists()


def test_alpha_does_not_affect_labels() -> None:
    pixels = cases.generator("alpha").integers(0, 4, (20, 22, 4), np.uint8)
    io.write(Image(pixels, "PNG", has_channel_axis=True), io.Path("in.png"))
    assert run("resize", "in.png", "out.png", "--scale", 0.5, "--mode", "label") == 0
    expected = gridsample.interpolate(
        pixels[None], (10, 11), mode="label", antialias=True, channel_axis=-1
    )
    assert np.array_equal(io.read(io.Path("out.png")).array, expected[0])
    assert run("warp", "in.png", "turned.png", "--rotate", 12, "--mode", "label") == 0
    assert set(np.unique(io.read(io.Path("turned.png")).array)) <= {0, 1, 2, 3}


def test_bands_of_rows_vote_as_the_full_image() -> None:
    image = cases.generator("bands").integers(0, 5, (37, 20, 1), np.uint8)
    options = {"mode": "label", "antialias": True}
    bands = [*resize_rows(lambda a, b: image[a:b], image.shape, (9, 7), rows=2, **options)]
    expected = gridsample.interpolate(image[None], (9, 7), channel_axis=-1, **options)
    assert np.array_equal(np.concatenate(bands), expected[0])
