"""Bad input: one clear error that names the argument, what was given and what is accepted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gridsample

IMAGE = np.arange(2 * 3 * 5 * 7, dtype=np.float32).reshape(2, 3, 5, 7)
GRID = np.linspace(-1, 1, 2 * 4 * 6 * 2, dtype=np.float32).reshape(2, 4, 6, 2)
UPSTREAM = np.ones((2, 3, 4, 6), np.float32)
FROZEN = np.zeros((2, 3, 4, 6), np.float32)
FROZEN.flags.writeable = False


def arguments(**changes: Any) -> dict[str, Any]:
    return {"input": IMAGE, "grid": GRID, **changes}


CASES: list[tuple[str, dict[str, Any], type[Exception], list[str]]] = [
    # Shapes
    ("image rank 2", {"input": IMAGE[0, 0]}, ValueError, ["input", "3 to 10", "(5, 7)"]),
    ("image rank 11", {"input": IMAGE[(None,) * 7]}, ValueError, ["input", "3 to 10", "11"]),
    ("grid rank 1", {"grid": GRID[0, 0, 0]}, ValueError, ["grid", "(N, *out, 2)", "(2,)"]),
    ("grid of 3-D", {"grid": np.zeros((2, 4, 3))}, ValueError, ["grid", "x, y", "(2, 4, 3)"]),
    ("grid of 1-D", {"grid": np.zeros((2, 4, 1))}, ValueError, ["grid", "(2, 4, 1)"]),
    ("N differs", {"grid": np.zeros((3, 4, 2))}, ValueError, ["N = 2", "N = 3", "(3, 4, 2)"]),
    ("no pixels", {"input": IMAGE[:, :, :0]}, ValueError, ["input", "empty", "(2, 3, 0, 7)"]),
    ("last, no pixels", {"input": IMAGE[:, :0], "channel_axis": -1}, ValueError, ["empty"]),
    (
        "a photo",
        {"input": np.zeros((48, 64, 3))},
        ValueError,
        ["input", "(48, 64, 3)", "input[None]", "channel_axis=-1"],
    ),
    (
        "channels, no batch",
        {"input": np.zeros((3, 48, 64))},
        ValueError,
        ["(C, H, W)", "input[None]"],
    ),
    ("pixels only", {"input": np.zeros((48, 64))}, ValueError, ["(H, W)", "input[None, None]"]),
    ("a flow", {"grid": np.zeros((2, 2, 4, 6))}, ValueError, ["movedim(1, -1)", "np.moveaxis"]),
    # Types
    ("objects", {"input": IMAGE.astype(object)}, TypeError, ["input", "object", "float32"]),
    ("text", {"input": np.full((1, 1, 2, 2), "a")}, TypeError, ["input", "<U1", "uint8"]),
    ("dates", {"input": IMAGE.astype("M8[s]")}, TypeError, ["input", "datetime64"]),
    ("long double", {"input": IMAGE.astype(np.longdouble)}, TypeError, ["input", "float64"]),
    ("integer grid", {"grid": GRID.astype(int)}, TypeError, ["grid", "int64", "float32"]),
    ("complex grid", {"grid": GRID.astype(complex)}, TypeError, ["grid", "complex128"]),
    ("ragged", {"input": [[1.0], [1.0, 2.0]]}, ValueError, ["input"]),
    ("masked", {"input": np.ma.masked_array(IMAGE)}, TypeError, ["input", "mask", "filled"]),
    # Names
    ("mode", {"mode": "bilinaer"}, ValueError, ["mode 'bilinaer'", "did you mean 'bilinear'"]),
    ("unlike any mode", {"mode": "?"}, ValueError, ["mode '?'", "nearest", "cubic", "tricubic"]),
    ("mode of a number", {"mode": 1}, TypeError, ["mode", "1", "string"]),
    ("mode in a set", {"mode": {"linear"}}, TypeError, ["linear"]),
    ("too few modes", {"mode": ("linear",)}, ValueError, ["mode", "2 (x, y)", "got 1"]),
    ("too many modes", {"mode": ["linear"] * 3}, ValueError, ["mode", "2 (x, y)", "got 3"]),
    ("mixed modes", {"mode": ("linear", 3)}, TypeError, ["mode", "3"]),
    ("boundary", {"padding_mode": "zeroes"}, ValueError, ["padding_mode 'zeroes'", "'zeros'?"]),
    ("reflect", {"padding_mode": "reflect"}, ValueError, ["ambiguous", "NumPy", "'reflection'"]),
    ("SciPy's nearest", {"padding_mode": "nearest"}, ValueError, ["SciPy", "'border'"]),
    ("per axis", {"padding_mode": ("zeros", "wrop")}, ValueError, ["padding_mode 'wrop'"]),
    ("no flag", {"align_corners": "yes"}, TypeError, ["align_corners", "'yes'"]),
    ("channels", {"channel_axis": 2}, ValueError, ["channel_axis", "1", "-1", "2"]),
    ("channels' type", {"channel_axis": None}, ValueError, ["channel_axis", "None"]),
    # Threads
    ("-1 threads", {"threads": -1}, ValueError, ["threads", "at least 1", "-1"]),
    ("0 threads", {"threads": 0}, ValueError, ["threads", "at least 1", "0"]),
    ("threads' type", {"threads": "2"}, TypeError, ["threads", "'2'"]),
    ("True threads", {"threads": True}, TypeError, ["threads", "True"]),
]

OUTPUTS: list[tuple[str, Any, type[Exception], list[str]]] = [
    ("shape", np.zeros((2, 3, 4, 5), np.float32), ValueError, ["(2, 3, 4, 6)", "(2, 3, 4, 5)"]),
    ("dtype", np.zeros((2, 3, 4, 6)), ValueError, ["float32", "float64"]),
    ("list", [0.0], TypeError, ["out", "list"]),
    ("read-only", FROZEN, ValueError, ["out", "read-only"]),
    (
        "its own entries",
        np.broadcast_to(np.zeros(1, np.float32), (2, 3, 4, 6)).view(),
        ValueError,
        ["out"],
    ),
]


@pytest.mark.parametrize(
    ("changes", "error", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_invalid_arguments_are_rejected(
    changes: dict[str, Any], error: type[Exception], words: list[str]
) -> None:
    before = IMAGE.tobytes(), GRID.tobytes()
    calls = [lambda: gridsample.grid_sample(**arguments(**changes))]
    calls.append(lambda: gridsample.grid_sample_vjp(UPSTREAM, **arguments(**changes)))
    for call in calls:
        with pytest.raises(error) as caught:
            call()
        for word in words:
            assert word in str(caught.value)
        assert "\n" not in str(caught.value)
    assert (IMAGE.tobytes(), GRID.tobytes()) == before


@pytest.mark.parametrize(
    ("out", "error", "words"), [case[1:] for case in OUTPUTS], ids=[case[0] for case in OUTPUTS]
)
def test_invalid_out_arrays_are_rejected(
    out: Any, error: type[Exception], words: list[str]
) -> None:
    before = bytes(out) if isinstance(out, np.ndarray) else None
    with pytest.raises(error) as caught:
        gridsample.grid_sample(IMAGE, GRID, out=out)
    for word in words:
        assert word in str(caught.value)
    if before is not None:
        assert bytes(out) == before


def test_out_arrays_that_overlap_themselves_are_rejected() -> None:
    memory = np.zeros(3 * 4 * 6, np.float32)
    overlapping = np.lib.stride_tricks.as_strided(memory, (2, 3, 4, 6), (0, 96, 24, 4))
    with pytest.raises(ValueError, match="share memory"):
        gridsample.grid_sample(IMAGE, GRID, out=overlapping)


@pytest.mark.parametrize("name", ["input", "grid"])
def test_out_arrays_that_share_memory_with_inputs_are_rejected(name: str) -> None:
    memory = np.zeros(1000, np.float32)
    image = memory[:210].reshape(2, 3, 5, 7)[:, :, :4, :6]
    grid = memory[300:396].reshape(2, 4, 6, 2)
    start = 0 if name == "input" else 350
    out = memory[start : start + 144].reshape(2, 3, 4, 6)
    with pytest.raises(ValueError, match=f"out shares memory with {name}"):
        gridsample.grid_sample(image, grid, out=out)


def test_out_arrays_interleaved_with_inputs_are_accepted() -> None:
    memory = np.zeros((2, 3, 4, 12), np.float32)
    memory[..., ::2] = IMAGE[:, :, :4, :6]
    image, out = memory[..., ::2], memory[..., 1::2]
    expected = gridsample.grid_sample(image, GRID)
    assert gridsample.grid_sample(image, GRID, out=out) is out
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(image, IMAGE[:, :, :4, :6])


@pytest.mark.parametrize(
    ("upstream", "error", "words"),
    [
        (UPSTREAM[:1], ValueError, ["grad_output", "(2, 3, 4, 6)", "(1, 3, 4, 6)"]),
        (np.float32(1), ValueError, ["grad_output", "()"]),
        (UPSTREAM.astype(int), TypeError, ["grad_output", "int64", "float32"]),
        (UPSTREAM.astype(complex), TypeError, ["grad_output", "complex128", "real"]),
    ],
)
def test_invalid_upstream_gradients_are_rejected(
    upstream: Any, error: type[Exception], words: list[str]
) -> None:
    with pytest.raises(error) as caught:
        gridsample.grid_sample_vjp(upstream, IMAGE, GRID)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("dtype", ["uint8", "int64", "bool"])
def test_integer_images_have_grid_gradients_only(dtype: str) -> None:
    image = IMAGE.astype(dtype)
    with pytest.raises(TypeError, match=f"input has dtype {dtype}.*need_input=False"):
        gridsample.grid_sample_vjp(UPSTREAM, image, GRID)
    none, gradient = gridsample.grid_sample_vjp(UPSTREAM, image, GRID, need_input=False)
    assert none is None
    expected = gridsample.grid_sample_vjp(UPSTREAM, image.astype(np.float64), GRID)[1]
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-3)


def test_arrays_of_unsupported_libraries_are_named() -> None:
    class Array:
        """An array of a library without a backend."""

    Array.__module__ = "dask.array.core"
    with pytest.raises(TypeError, match=r"input is a dask\.array\.core\..*Array"):
        gridsample.grid_sample(Array(), GRID)
