"""The start of `gridsample.register`: the identity, or the best of several candidates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from registered import MAPS, SIDE, about_centre, error, images, moved, pixels, rotation

from benchmarks import registration as known
from gridsample import register
from gridsample.registration import search
from gridsample.registration.losses import LOSSES
from gridsample.registration.pyramid import Pair


def test_small_motions_need_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise AssertionError("the search began")

    monkeypatch.setattr(search, "candidates", fail)
    matrix = about_centre(rotation(2), (1.5, -1.0), (SIDE, SIDE))
    fixed, moving = images(matrix, SIDE, SIDE)
    assert error(register(fixed, moving, "rigid"), matrix) < 0.1


def cells(count: int, side: int, shift: tuple[float, float], seed: int) -> np.ndarray:
    """Cells around random points, the same for all seeds, whose values the seed draws."""
    points = np.random.default_rng(5).uniform(-0.3 * side, 1.3 * side, (count, 2))
    distances = ((pixels(side, side)[:, :, None] + shift - points) ** 2).sum(-1)
    return np.random.default_rng(seed).uniform(0, 1, count)[distances.argmin(-1)]


def test_candidates_include_those_at_which_edges_correlate() -> None:
    shift = (0.3 * SIDE, -0.2 * SIDE)
    fixed, moving = cells(60, SIDE, shift, seed=1), cells(60, SIDE, (0, 0), seed=2)
    images = [torch.tensor(image - image.mean())[None] for image in (fixed, moving)]
    known = torch.ones(SIDE, SIDE).double()
    level = Pair(images[0], known, images[1], known, (1.0, 1.0), (1.0, 1.0)).level(1.0)
    linear = list(search.rotations("rigid", 2, 15.0))

    def has_shift(loss: str) -> bool:
        matrices = list(search.candidates(level, linear, LOSSES[loss]))
        assert len(matrices) == 16
        places = [matrix[:2, 2] * SIDE / 2 for matrix in matrices]  # the frame's unit
        return any(np.abs(place.numpy() - shift).max() < 1 for place in places)

    assert has_shift("mi")
    assert not has_shift("ncc")


def test_overlaps_that_wrap_around_do_not_count() -> None:
    size, extent = (24, 20), (37, 33)
    rng = np.random.default_rng(0)
    fixed, moving = (torch.tensor(rng.normal(size=shape)) for shape in (size, extent))
    weight, known = torch.ones(size).double(), torch.tensor(rng.uniform(size=extent) > 0.1).double()
    min_pixels = 0.3 * weight.sum().item() + 0.5
    short = search.cyclic(size, extent, min_pixels)
    assert math.prod(short) < math.prod(a + b - 1 for a, b in zip(size, extent, strict=True))
    scores = []
    for shape in (short, [64, 64]):
        spectra = [
            search.spectra(image * share, share, shape)
            for image, share in ((fixed, weight), (moving, known))
        ]
        score = search.correlations(spectra[0].conj(), spectra[1], shape, min_pixels)
        lines = [torch.arange(1 - a, b) % n for a, b, n in zip(size, extent, shape, strict=True)]
        scores.append(score[lines[0][:, None], lines[1]])
    assert 0.1 < float((scores[1] != 0).double().mean()) < 0.9
    torch.testing.assert_close(scores[0], scores[1], rtol=0, atol=1e-9)


def test_the_canvas_holds_the_moving_image_under_every_map() -> None:
    pair = Pair(
        torch.zeros(1, 30, 30), torch.ones(30, 30), torch.zeros(1, 20, 40), torch.ones(20, 40),
        (1.0, 1.0), (1.0, 1.0),
    )  # fmt: skip
    level = pair.level(1.0)
    identity, turned = torch.eye(2).double(), torch.tensor([[0, -1], [1, 0]]).double()
    assert search.canvas(level, [identity]) == [20, 40]
    assert search.canvas(level, [turned]) == [40, 20]
    assert search.canvas(level, [identity, turned, identity * 0.8]) == [40, 50]
    diagonal = [torch.tensor(rotation(45))]
    assert search.canvas(level, diagonal) == [math.ceil(60 / math.sqrt(2))] * 2


@pytest.mark.slow
@pytest.mark.parametrize("model", ["rigid", "affine"])
def test_repetitive_textures_are_found(model: str) -> None:
    chosen = [case for case in known.hard_cases() if case.name == "brick large"]
    for case in chosen:
        fixed, moving = case.fixed[0, 0], case.moving[0, 0]
        shift = np.array([[1, 0, 0.15 * SIDE], [0, 1, 0.1 * SIDE], [0, 0, 1]])
        matrix = shift @ about_centre(rotation(17), (12.0, -21.0), fixed.shape)
        positions = moved(matrix, pixels(*fixed.shape))
        fixed = known.sampled(moving[None, None], positions)[0, 0]
        assert error(register(fixed, moving, model), matrix) < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["coins", "moon"])
def test_inverted_photos_are_found(name: str) -> None:
    for case in known.hard_cases():
        if case.name == f"{name} inverted":
            answer = known.gridsamples(case)
            assert answer.success
            assert case.errors(answer.field.astype(np.float64)).mean() < 0.5


@pytest.mark.covering
@pytest.mark.filterwarnings("ignore:register failed")  # after two steps
@pytest.mark.parametrize("model", ["affine", "homography", "displacement"])
@pytest.mark.parametrize("loss", ["mse", "l1", "ncc", "lncc", "mi"])
def test_results_do_not_depend_on_the_number_of_threads(model: str, loss: str) -> None:
    fixed, moving = images(MAPS["rigid"], 230, 190)  # more pixels than one thread adds up
    threads, results = torch.get_num_threads(), []
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            results.append(
                register(fixed, moving, model, loss, initial=MAPS["rigid"], levels=1, iterations=2)
            )
    finally:
        torch.set_num_threads(threads)
    np.testing.assert_array_equal(results[1].field, results[0].field)
    np.testing.assert_array_equal(results[1].history[-1].losses, results[0].history[-1].losses)


GOOD = np.random.default_rng(0).normal(size=(12, 12))


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((GOOD, GOOD[None]), {}, ValueError, "same number of axes"),
        ((GOOD[0], GOOD[0]), {}, ValueError, r"fixed must be \(H, W\)"),
        ((GOOD[None, None], np.zeros((1, 3, 12, 12))), {}, ValueError, "1 channels and moving 3"),
        ((np.zeros((2, 1, 12, 12)), np.zeros((3, 1, 12, 12))), {}, ValueError, "same N"),
        ((GOOD, GOOD[:, :4]), {}, ValueError, "moving is too small.*at least 5"),
        ((np.zeros((9, 9, 3)), np.zeros((9, 9, 3))), {}, ValueError, r"image\[None\]"),
        ((GOOD, GOOD * 0 + 3), {}, ValueError, r"moving is constant \(3\)"),
        ((GOOD * np.nan, GOOD), {}, ValueError, "fixed has no valid pixels"),
        ((GOOD * 1e300, GOOD), {}, ValueError, "infinite or beyond single precision"),
        ((GOOD + 1e9, GOOD), {}, ValueError, "varies by less than a millionth"),
        ((GOOD * 1e-30, GOOD), {}, ValueError, "differ too much in scale"),
        ((GOOD, GOOD), {"moving_spacing": (1e4, 1e4)}, ValueError, "spacings in the same units"),
        ((GOOD, GOOD), {"fixed_mask": GOOD * np.nan}, ValueError, "fixed_mask contains NaN"),
        ((GOOD, GOOD), {"smoothing": math.inf}, ValueError, "smoothing must be above 0 and finite"),
        ((GOOD, GOOD), {"progress": 3}, TypeError, "progress must be a function or None, got 3"),
        ((GOOD, GOOD * 1j), {}, TypeError, "moving must hold real numbers"),
        ((GOOD, GOOD), {"model": "warp"}, ValueError, "model.*translation.*velocity"),
        ((GOOD, GOOD), {"loss": "msd"}, ValueError, "loss.*mse.*mi"),
        ((GOOD, GOOD), {"loss": lambda w, f, m: 3.0}, TypeError, "must return a tensor"),
        ((GOOD, GOOD), {"loss": lambda w, f, m: f.mean()}, ValueError, "does not depend"),
        ((GOOD, GOOD), {"regularization": "l2"}, ValueError, "regularization.*bending"),
        ((GOOD, GOOD), {"weight": -1.0}, ValueError, "weight must be above 0"),
        ((GOOD, GOOD), {"initial": "centre"}, ValueError, "'search', 'identity' or a matrix"),
        ((GOOD, GOOD), {"initial": np.eye(4)}, ValueError, r"initial must be \(3, 3\)"),
        ((GOOD, GOOD), {"initial": np.zeros((3, 3))}, ValueError, "invertible"),
        ((GOOD, GOOD), {"fixed_mask": np.ones((3, 3))}, ValueError, r"fixed_mask must be \(12, 12"),
        ((GOOD, GOOD), {"spacing": (1.0,)}, ValueError, "spacing must be 2 positive"),
        (
            (GOOD, GOOD),
            {"initial": [[1, 0, 99], [0, 1, 0], [0, 0, 1]]},
            ValueError,
            "hardly overlap at the initial",
        ),
        ((GOOD, GOOD), {"mode": "nearest"}, ValueError, "mode 'nearest' has no gradient"),
        ((GOOD, GOOD), {"channel_axis": 2}, ValueError, "channel_axis must be 1 or -1"),
        ((GOOD, GOOD), {"iterations": 2.5}, TypeError, "iterations must be an integer"),
    ],
)
def test_invalid_images_and_options_are_rejected(
    arguments: Any, options: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        register(*arguments, **options)


@pytest.mark.parametrize(("scale", "offset"), [(1, 1e5), (200, 0), (1e-3, 5)])
def test_verdicts_do_not_depend_on_brightness_and_contrast(scale: float, offset: float) -> None:
    matrix = about_centre(rotation(2), (1.5, -1.0), (SIDE, SIDE))
    fixed, moving = images(matrix, SIDE, SIDE)
    for first, second in ((scale * fixed + offset, moving), (fixed, scale * moving + offset)):
        result = register(first, second, "rigid", "ncc")
        assert result.success
        assert 0.5 < result.relation <= 1
        assert error(result, matrix) < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("name", [known.PHOTOS[0], "volume"])
def test_known_warps_of_photos_and_a_volume(name: str) -> None:
    chosen = [case for case in known.accuracy_cases() if case.name.startswith(name)]
    assert len(chosen) >= 3
    for case in chosen:
        errors = case.errors(known.gridsamples(case).field.astype(np.float64))
        assert errors.mean() < case.limit, case.name
