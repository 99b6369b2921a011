"""Plain calls of ordinary arrays are repeated before their arguments are looked at."""

from __future__ import annotations

import gc
import inspect
import weakref
from collections.abc import Callable
from typing import Any

import cases
import numpy as np
import pytest
import torch

import gridsample
from gridsample import torch_compat
from gridsample.kernels import sampling as sampling_kernels
from gridsample.kernels.run import Ready
from gridsample.ops import resizing, sampling

LIBRARIES: tuple[Callable[[Any], Any], ...] = (np.asarray, torch.as_tensor)
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"mode": "bicubic", "padding_mode": "border", "align_corners": True},
    {"mode": "nearest", "coords": "pixel", "threads": 1, "extrapolate": False},
    {"padding_mode": ("wrap", "zeros"), "prefilter": False, "max_samples": 16, "channel_axis": 1},
)

# All options of a plain call that have a default.
DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(gridsample.grid_sample).parameters.items()
    if name not in ("input", "grid", "out")
}


def arrays(of: Callable[[Any], Any], seed: Any = 0) -> tuple[Any, Any]:
    rng = cases.generator("shortcuts", seed)
    return of(rng.standard_normal((1, 2, 5, 7))), of(rng.uniform(-1.2, 1.2, (1, 4, 6, 2)))


def fails(*_: Any, **__: Any) -> Any:
    raise AssertionError("the shortcut was not taken")


@pytest.mark.parametrize("of", LIBRARIES)
@pytest.mark.parametrize("options", OPTIONS)
def test_repeated_calls_take_a_shortcut(
    of: Callable[[Any], Any], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With arrays by position and by name, and with other numbers than in the first call."""
    image, grid = arrays(of)
    other_image, other_grid = arrays(of, 1)
    expected, _ = gridsample.grid_sample(other_image, other_grid, return_mask=True, **options)
    gridsample.grid_sample(image, grid, **options)
    monkeypatch.setattr(sampling, "backend_of", fails)
    for result in (
        gridsample.grid_sample(other_image, other_grid, **options),
        gridsample.grid_sample(other_image, grid=other_grid, **options),
        gridsample.grid_sample(grid=other_grid, input=other_image, **options),
        gridsample.grid_sample(other_image, other_grid, fill_value=0, weights=None, **options),
        gridsample.grid_sample(other_image, other_grid, **{**DEFAULTS, **options}),
    ):
        np.testing.assert_array_equal(result, expected)
    with pytest.raises(AssertionError, match="not taken"):
        gridsample.grid_sample(image, grid, missing="ignore", **options)


@pytest.mark.parametrize("of", LIBRARIES)
def test_errors_of_prepared_calls_are_raised(
    of: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that an option of a wrong type raises, and those of torch's stand-ins."""
    image, grid = arrays(of)
    theta = of(np.array([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]))
    calls: list[Callable[[], Any]] = [
        lambda: gridsample.grid_sample(image, grid),
        lambda: gridsample.interpolate(image, 3),
    ]
    if of is np.asarray:
        calls += [lambda: gridsample.affine_sample(image, theta, (1, 2, 4, 6))]
    else:
        calls += [
            lambda: torch_compat.grid_sample(image, grid, align_corners=False),
            lambda: torch_compat.interpolate(image, 3),
        ]

    def broken(*_: Any) -> None:
        raise TypeError("planted")

    for call in calls:
        call()
        with monkeypatch.context() as patched:
            patched.setattr(Ready, "run", broken)
            with pytest.raises(TypeError, match="planted"):
                call()


@pytest.mark.parametrize("of", LIBRARIES)
def test_repeated_resizing_takes_a_shortcut(
    of: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with the size as a list, and with the usual axis of channels."""
    image, other = (arrays(of, k)[0] for k in range(2))
    expected = gridsample.interpolate(
        other, (3, 4), mode="bilinear", weights=of(np.ones((1, 1, 5, 7)))
    )
    gridsample.interpolate(image, (3, 4), mode="bilinear")
    monkeypatch.setattr(resizing, "backend_of", fails)
    for result in (
        gridsample.interpolate(other, (3, 4), mode="bilinear"),
        gridsample.interpolate(other, [3, 4], mode="bilinear", channel_axis=1),
        gridsample.interpolate(size=(3, 4), input=other, mode="bilinear"),
    ):
        np.testing.assert_allclose(result, expected, rtol=1e-14, atol=1e-14)
    with pytest.raises(AssertionError, match="not taken"):
        gridsample.interpolate(image, (3, 4), mode="bilinear", missing="ignore")


@pytest.mark.parametrize("of", LIBRARIES)
@pytest.mark.parametrize(
    ("first", "second", "error"),
    [
        ({"align_corners": True}, {"align_corners": 1}, "align_corners must be True or False"),
        ({"max_samples": 1, "antialias": True}, {"max_samples": True}, "max_samples must be an"),
        ({"threads": 1}, {"threads": 1.0}, "threads must be a positive integer"),
        ({"channel_axis": 1}, {"channel_axis": 1.0}, "channel_axis must be"),
        ({"extrapolate": True}, {"extrapolate": 1}, "extrapolate must be"),
    ],
)
def test_options_that_equal_others_are_still_wrong(
    of: Callable[[Any], Any], first: dict[str, Any], second: dict[str, Any], error: str
) -> None:
    """1 equals True, and 1.0 equals 1, but a call with one is not repeated for the other."""
    image, grid = arrays(of)
    gridsample.grid_sample(image, grid, **first)
    with pytest.raises((TypeError, ValueError), match=error):
        gridsample.grid_sample(image, grid, **second)


@pytest.mark.parametrize("of", LIBRARIES)
@pytest.mark.parametrize("name", ["weights", "coords", "padding_mode", "mode", "channel_axis"])
def test_no_array_is_kept(of: Callable[[Any], Any], name: str) -> None:
    """Neither weights nor an array that is an option by mistake."""
    image, grid = arrays(of)
    array = of(np.ones((1, 1, 5, 7)))
    seen = weakref.ref(array)
    try:
        gridsample.grid_sample(image, grid, **{name: array})
    except (TypeError, ValueError):
        assert name != "weights"
    del array
    gc.collect()
    assert seen() is None


# Calls that are given lists of names are not prepared, and have the same results.
LISTED = {"mode": ["bilinear", "bilinear"]}


@pytest.mark.parametrize("dtype", ["uint8", "float32", "int64"])
@pytest.mark.parametrize("fill", [1.5, -3, (0.25, 7.0), [300, -0.0], np.array([2.0, 1e-3]), np.nan])
def test_arrays_with_a_fill_value_take_a_shortcut(
    fill: Any, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with another fill value than in the first call."""
    rng = cases.generator("fill values", dtype)
    image, grid = cases.pixels(rng, (2, 2, 5, 7), dtype), rng.uniform(-1.5, 1.5, (2, 4, 6, 2))
    grid[0, 1, 2] = np.nan
    for options in ({"padding_mode": "constant"}, {"extrapolate": False}):
        expected = gridsample.grid_sample(image, grid, fill_value=fill, **options, **LISTED)
        gridsample.grid_sample(image, grid, fill_value=12.0, **options)
        with monkeypatch.context() as patched:
            patched.setattr(sampling, "sample", fails)
            result = gridsample.grid_sample(image, grid, fill_value=fill, **options)
        np.testing.assert_array_equal(result, expected, strict=True)
        zeros = gridsample.grid_sample(image, grid, fill_value=0.0, **options)
        np.testing.assert_array_equal(zeros, gridsample.grid_sample(image, grid, **options))


def test_fill_values_live_as_long_as_the_kernel_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels do not hold the interpreter's lock, so other threads may take freed memory."""
    image, grid = np.zeros((1, 2, 5, 37)), np.full((1, 3, 4, 2), 9.0)  # of no other test
    made, alive = list[Any](), list[bool]()
    make, run = sampling_kernels.fills_of_planes, Ready.run

    def noted(*arguments: Any) -> Any:
        values = make(*arguments)
        made.extend([weakref.ref(array) for array in values.values()])
        return values

    def checked(self: Ready, *addresses: int) -> None:
        run(self, *addresses)
        alive.append(all([reference() is not None for reference in made]))

    monkeypatch.setattr(sampling_kernels, "fills_of_planes", noted)
    monkeypatch.setattr(Ready, "run", checked)
    result = gridsample.grid_sample(image, grid, extrapolate=False, fill_value=2.5)
    assert (result == 2.5).all() and made and alive == [True]


def test_zeros_with_a_sign_are_fill_values_of_their_own() -> None:
    image, grid = np.zeros((1, 2, 5, 7)), np.full((1, 3, 4, 2), 9.0)
    for zero in (0.0, -0.0, 0.0):
        fill = [zero, 1.0]
        result = gridsample.grid_sample(image, grid, "nearest", "constant", fill_value=fill)
        assert (np.signbit(result[0, 0]) == np.signbit(zero)).all()


def test_wrong_fill_values_are_errors_also_of_repeated_calls() -> None:
    image, grid = arrays(np.asarray)
    for fill, error in (([1.0], ValueError), ("1", TypeError), (1j, TypeError)):
        gridsample.grid_sample(image, grid, padding_mode="constant", fill_value=1.5)
        with pytest.raises(error, match="fill_value"):
            gridsample.grid_sample(image, grid, padding_mode="constant", fill_value=fill)
    with pytest.raises(ValueError, match="has no effect"):
        gridsample.grid_sample(image, grid, fill_value=1.5)


@pytest.mark.parametrize("last", [False, True])
def test_results_are_stored_in_a_given_array(last: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    image, grid = arrays(np.asarray)
    axis = -1 if last else 1
    image = np.ascontiguousarray(np.moveaxis(image, 1, -1)) if last else image
    expected = gridsample.grid_sample(image, grid, channel_axis=axis)
    out = np.empty_like(expected)
    with monkeypatch.context() as patched:
        patched.setattr(sampling, "sample", fails)
        assert gridsample.grid_sample(image, grid, channel_axis=axis, out=out) is out
    np.testing.assert_array_equal(out, expected)
    spaced = np.zeros((*out.shape[:-1], 2 * out.shape[-1]))[..., ::2]
    gridsample.grid_sample(image, grid, channel_axis=axis, out=spaced)
    np.testing.assert_allclose(spaced, expected, rtol=1e-14, atol=1e-14)


def test_unsuitable_arrays_for_results_do_not_change() -> None:
    image, grid = np.zeros((1, 1, 4, 4)), np.zeros((1, 4, 4, 2))
    read_only = np.ones((1, 1, 4, 4))
    read_only.flags.writeable = False
    outs = [np.ones((1, 1, 4, 3)), np.ones((1, 1, 4, 4), "f4"), read_only, image]
    gridsample.grid_sample(image, grid, out=np.empty((1, 1, 4, 4)))
    for out in outs:
        before = out.copy()
        with pytest.raises((TypeError, ValueError)):
            gridsample.grid_sample(image, grid, out=out)
        np.testing.assert_array_equal(out, before)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.uint8])
@pytest.mark.parametrize("shrink", [1.0, 4.0, 40.0])
def test_antialiased_calls_take_a_shortcut(
    shrink: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the memory layouts, also where footprints are sampled in halved images."""
    rng = cases.generator("antialiased shortcuts", shrink)
    whole = torch.from_numpy(rng.uniform(0, 200, (2, 3, 50, 60))).to(dtype)
    columns, rows = np.meshgrid(np.linspace(-0.9, 0.9, 6), np.linspace(-0.9, 0.9, 5))
    grid = np.stack([columns, rows], -1) * [shrink / 10, shrink / 8] / 2
    # Points of several levels: footprints are longer to the right.
    grid = torch.from_numpy(np.stack([grid, grid * np.abs(columns)[..., np.newaxis]]))
    options: dict[str, Any] = {"antialias": True, "max_samples": 2}
    for image in (
        whole,
        whole[:1].expand(2, -1, -1, -1),
        whole.contiguous(memory_format=torch.channels_last),
        whole[:, :, ::2, 1::3],
    ):
        expected = gridsample.grid_sample(image, grid, **options, **LISTED)
        with monkeypatch.context() as patched:
            patched.setattr(sampling, "backend_of", fails)
            result = gridsample.grid_sample(image, grid, **options)
        assert torch.equal(result, expected)
        if dtype is torch.float64:
            array = gridsample.grid_sample(image.numpy(), grid.numpy(), **options)
            np.testing.assert_array_equal(array, expected)
