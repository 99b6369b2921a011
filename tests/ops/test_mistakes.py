"""Mistaken calls: what the errors suggest to people who know other libraries."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gridsample
from gridsample import cv, fields, skimage
from gridsample.messages.links import DROP_INS, FUNCTIONS, KEYWORDS

IMAGE, GRID = np.zeros((2, 3, 12, 16), np.float32), np.zeros((2, 5, 4, 2), np.float32)
MASK = np.ones((12, 16), np.float32)


@pytest.mark.parametrize("function", ["grid_sample", "interpolate"])
@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("photo.png", "input is 'photo.png', a str; accepted: arrays and tensors; read the file"),
        (Path("photo.png"), "a PosixPath; accepted"),
        (b"photo.png", "a bytes; accepted"),
        (None, "input is None; accepted: arrays and tensors"),
    ],
    ids=str,
)
def test_inputs_that_are_no_arrays_are_named(function: str, given: Any, text: str) -> None:
    with pytest.raises(TypeError, match=re.escape(text)):
        getattr(gridsample, function)(given, GRID if function == "grid_sample" else 8)


def test_pictures_of_pillow_are_named_with_their_conversion() -> None:
    picture = pytest.importorskip("PIL.Image").new("RGB", (64, 48))
    for call in (gridsample.interpolate, gridsample.grid_sample):
        with pytest.raises(
            TypeError, match=r"input is a PIL\.Image\.Image; .*np\.asarray\(input\)"
        ):
            call(picture, GRID)
    photo = np.asarray(picture)[None]
    assert gridsample.interpolate(photo, (6, 8), channel_axis=-1).shape == (1, 6, 8, 3)


@pytest.mark.parametrize("as_tensor", [False, True])
def test_an_image_in_place_of_the_grid_is_recognized(as_tensor: bool) -> None:
    volume, points = np.zeros((1, 2, 5, 6, 7)), np.zeros((1, 4, 4, 4, 3))
    convert = pytest.importorskip("torch").as_tensor if as_tensor else np.asarray
    for pair in ((IMAGE, GRID), (volume, points)):
        image, grid = map(convert, pair)
        with pytest.raises(ValueError, match="seem to be exchanged: the image comes first"):
            gridsample.grid_sample(grid, image)


@pytest.mark.parametrize(
    ("image", "size", "text"),
    [
        (MASK, 8, r"is given as input\[None, None\]"),
        (IMAGE[0], (6, 8), r"without a batch axis is given as input\[None\]"),
    ],
    ids=["(H, W)", "(C, H, W)"],
)
def test_images_without_a_batch_are_recognized(image: Any, size: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        gridsample.interpolate(image, size)


def test_interpolate_recognizes_a_photo() -> None:
    with pytest.warns(gridsample.MisuseWarning, match=r"input\[None\], with channel_axis=-1"):
        gridsample.interpolate(np.zeros((48, 64, 3), np.uint8), 8)
    torch = pytest.importorskip("torch")
    for features in (torch.zeros(48, 64, 3), torch.zeros(2, 64, 3, dtype=torch.uint8)):
        gridsample.interpolate(features, 8)  # a warning would be an error


@pytest.mark.parametrize("function", ["grid_sample", "interpolate"])
@pytest.mark.parametrize(
    ("weights", "cure"), [(MASK, "weights[None, None]"), (np.stack([MASK] * 2), "weights[:, None]")]
)
def test_masks_without_channels_are_recognized(function: str, weights: Any, cure: str) -> None:
    call = getattr(gridsample, function)
    second = GRID if function == "grid_sample" else 8
    with pytest.raises(ValueError, match=re.escape(f"; pass {cure}")):
        call(IMAGE, second, weights=weights)
    cured = eval(cure, {"weights": weights})
    assert call(IMAGE, second, weights=cured).shape[:2] == (2, 3)


@pytest.mark.parametrize("word", KEYWORDS)
def test_arguments_of_other_libraries_get_a_suggestion(word: str) -> None:
    name = KEYWORDS[word]
    suggested = []
    sampling = gridsample.grid_sample, gridsample.interpolate, gridsample.affine_sample
    for function in (fields.thin_plate,) if name == "smoothing" else sampling:
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{word}'") as raised:
            function(IMAGE, GRID, **{word: 1})
        suggested += re.findall("did you mean '(.*?)'", str(raised.value))
    assert name in suggested


def test_misspelt_arguments_get_a_suggestion() -> None:
    with pytest.raises(TypeError, match="did you mean 'padding_mode'"):
        gridsample.grid_sample(IMAGE, GRID, paddingmode="border")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"argument 'xyzzy'$"):
        gridsample.grid_sample(IMAGE, GRID, xyzzy=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("INTER_LINEAR", "linear"),
        ("INTER_CUBIC", "cubic"),
        ("INTER_NEAREST", "nearest"),
        ("INTER_LANCZOS4", "lanczos4"),
        ("Bilinear", "bilinear"),
    ],
)
def test_constants_of_opencv_get_the_method_that_they_mean(name: str, expected: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean '{expected}'"):
        gridsample.grid_sample(IMAGE, GRID, name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("BORDER_REFLECT_101", "mirror"),
        ("BORDER_REPLICATE", "border"),
        ("BORDER_CONSTANT", "constant"),
        ("BORDER_WRAP", "wrap"),
        ("BORDER_REFLECT", "symmetric"),
    ],
)
def test_boundaries_of_opencv_get_the_one_that_they_mean(name: str, expected: str) -> None:
    with pytest.raises(ValueError, match=f"is OpenCV's name; here it is '{expected}'"):
        gridsample.grid_sample(IMAGE, GRID, padding_mode=name)


def test_functions_of_other_libraries_get_a_suggestion() -> None:
    for name, function in FUNCTIONS.items():
        assert function in gridsample.__all__
        if name in vars(gridsample):
            continue  # a module of this name, which another test has loaded
        with pytest.raises(AttributeError, match=f"did you mean gridsample.{function}"):
            getattr(gridsample, name)
    for name, drop_in in DROP_INS.items():
        module, _, function = drop_in.removeprefix("gridsample.").partition(".")
        __import__(f"gridsample.{module}")
        assert hasattr(getattr(gridsample, module), function)
        if name in vars(gridsample):
            continue
        with pytest.raises(AttributeError, match=f"(or|did you mean) {drop_in}\\?$"):
            getattr(gridsample, name)
    assert not hasattr(gridsample, "__wrapped__") and not hasattr(gridsample, "xyzzy")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: gridsample.grid_sample(IMAGE, GRID, cv.INTER_CUBIC), "'cubic', which is 2 in Op"),  # type: ignore[arg-type]
        (lambda: gridsample.grid_sample(IMAGE, GRID, 9), r"got 9$"),  # type: ignore[arg-type]
        (lambda: gridsample.interpolate(IMAGE, 0.5), r"did you mean scale_factor=0\.5\?"),  # type: ignore[arg-type]
        (lambda: gridsample.interpolate(MASK[..., None], (6, 8)), r"\(H, W, C\) with channel_axis"),
        (lambda: gridsample.affine_grid(np.eye(3)[None], (2, 3, 6, 8)), r"pass theta\[:, :2\]"),
        (lambda: gridsample.resample(MASK, np.eye(3), (6, 8)), r"like must be \(shape, affine\)"),  # type: ignore[arg-type]
        (lambda: cv.resize(MASK, 64, 48), r"dsize must be \(width, height\), two integers, got 64"),  # type: ignore[arg-type]
        (lambda: cv.resize(MASK, (8, 8), interpolation="cubic"), "interpolation must be one of Op"),  # type: ignore[arg-type]
        (lambda: cv.remap(MASK, MASK, MASK, 1, None, "reflect"), "borderMode must be one of Op"),  # type: ignore[arg-type]
        (lambda: skimage.warp_polar(np.zeros((9, 9, 3))), "pass channel_axis=-1"),
    ],
)
def test_calls_as_in_other_libraries_are_answered(call: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        call()
