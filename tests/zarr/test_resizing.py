"""Resizing of Zarr stores: results match those of the full image for any chunks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import gridsample
import gridsample.zarr
from gridsample.io.omezarr import read_multiscale
from gridsample.zarr import Layout

Array = np.ndarray[Any, Any]
CASES = [
    ("linear", False, (17, 60)),
    ("linear", True, (17, 23)),
    ("cubic", True, (40, 13)),
    ("area", False, (11, 23)),
    ("spline3", False, (50, 33)),
    ("nearest", False, (50, 13)),
    ("label", True, (12, 15)),
]


@pytest.mark.covering
@pytest.mark.parametrize(("mode", "antialias", "size"), CASES)
@pytest.mark.parametrize("dtype", ["float64", "uint8"])
def test_chunks_match_the_full_result(
    mode: str, antialias: bool, size: tuple[int, int], dtype: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    image = rng.integers(0, 7 if mode == "label" else 250, (2, 31, 45)).astype(dtype)
    if mode == "label" and dtype == "float64":
        image = image.astype("int32")
    zarr.create_array(
        str(tmp_path / "in"), data=image, chunks=(2, 9, 8), dimension_names=["c", "y", "x"]
    )
    expected = gridsample.interpolate(image[None], size, mode=mode, antialias=antialias)[0]
    first = None
    for n, chunks in enumerate([(5, 7), (64, 64), (4, 64)]):
        out = tmp_path / f"out{n}"
        gridsample.zarr.resize(
            tmp_path / "in", out, size, mode, antialias=antialias, layout=Layout(chunks)
        )
        result = zarr.open(str(out))["0"][...]
        first = result if first is None else first
        tolerance = 1e-15 * 250 if mode == "spline3" and dtype == "float64" else 0
        np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance)
        np.testing.assert_allclose(result, first, rtol=0, atol=tolerance)


def test_positions_match_the_full_result(tmp_path: Path) -> None:
    zarr.create_array(str(tmp_path / "in"), data=np.zeros((8, 9), "u1"), chunks=(4, 4))
    gridsample.zarr.resize(tmp_path / "in", tmp_path / "out", (4, 3))
    affine = read_multiscale(tmp_path / "out").affines[0]
    assert affine.tolist() == [[2, 0, 0.5], [0, 3, 1], [0, 0, 1]]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"mode": "label", "size": (2, 2)}, TypeError),
        ({"size": (0, 2)}, ValueError),
        ({"size": (2,)}, ValueError),
        ({"size": (2, 2), "mode": "nearest", "align_corners": True}, ValueError),
    ],
)
def test_errors(options: dict[str, Any], error: type[Exception], tmp_path: Path) -> None:
    zarr.create_array(str(tmp_path / "in"), data=np.zeros((5, 6)), chunks=(2, 2))
    with pytest.raises(error):
        gridsample.zarr.resize(tmp_path / "in", tmp_path / "out", **options)
    assert [each.name for each in tmp_path.iterdir()] == ["in"]
