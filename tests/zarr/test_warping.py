"""Warps of Zarr stores: bit for bit those of the full image in memory, for any chunks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import gridsample
import gridsample.zarr
from gridsample.io.image import FileError
from gridsample.io.omezarr import read_multiscale
from gridsample.io.rfc5 import read_transformations, write_transformations
from gridsample.world import Displacement, Lattice
from gridsample.zarr import Layout

Array = np.ndarray[Any, Any]
AXES = tuple({"name": name, "type": "space", "unit": "micrometer"} for name in "zyx")


def noise(*shape: int, dtype: str = "float32") -> Array:
    rng = np.random.default_rng(5)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 200, shape).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


def turned(rank: int, degrees: float = 10.0, scale: float = 1.0) -> Array:
    """A rotation in the first two axes about the origin, followed by a shift."""
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    matrix = np.eye(rank + 1)
    matrix[:2, :2] = [[c, -s], [s, c]]
    matrix[:rank, rank] = np.linspace(1.5, -2.25, rank)
    matrix[:rank] *= scale
    return matrix


def in_memory(image: Array, matrix: Array, size: tuple[int, ...], **options: Any) -> Array:
    """The same warp of the full image."""
    rank = len(size)
    order = [*range(rank - 1, -1, -1), rank]
    theta = matrix[np.ix_(order, order)][None, :rank]
    planes = image.reshape(1, -1, *image.shape[image.ndim - rank :])
    result = gridsample.affine_sample(
        planes, theta, (1, planes.shape[1], *size), coords="pixel", **options
    )
    return result.reshape(*image.shape[: image.ndim - rank], *size)


CASES = [
    ("linear", "zeros", {}),
    ("nearest", "wrap", {}),
    ("cubic", "reflection", {}),
    ("lanczos3", "constant", {"fill_value": 3.5}),
    ("linear", "mirror", {"antialias": True}),
    ("cubic", "missing", {"missing": "ignore"}),
    ("linear", "border", {"extrapolate": "edges"}),
]


@pytest.mark.parametrize(("mode", "boundary", "options"), CASES)
def test_chunks_match_the_full_result_bit_for_bit(
    mode: str, boundary: str, options: dict[str, Any], tmp_path: Path
) -> None:
    image = noise(2, 31, 45)
    if "missing" in options:
        image[:, 10:14, 20:30] = np.nan
    zarr.create_array(
        str(tmp_path / "in"), data=image, chunks=(1, 8, 13), dimension_names=["c", "y", "x"]
    )
    matrix = turned(2, scale=1.7 if "antialias" in options else 1.0)
    expected = in_memory(image, matrix, (28, 50), mode=mode, padding_mode=boundary, **options)
    for n, layout in enumerate([Layout((9, 11)), Layout((2, 7, 5), (2, 14, 10)), Layout((28, 50))]):
        out = tmp_path / f"out{n}"
        traffic = gridsample.zarr.warp(
            tmp_path / "in",
            out,
            matrix,
            (28, 50),
            mode,
            boundary,
            layout=layout,
            threads=1 + n % 2,
            **options,
        )
        np.testing.assert_array_equal(zarr.open(str(out))["0"][...], expected)
        assert traffic.reads <= 2 * 4 * 4  # the cache holds every chunk


@pytest.mark.parametrize(("dtype", "mode"), [("uint8", "linear"), ("float64", "spline3")])
def test_long_footprints_sample_halved_copies(dtype: str, mode: str, tmp_path: Path) -> None:
    image, matrix = noise(301, 407, dtype=dtype), turned(2, scale=22.0)
    zarr.create_array(str(tmp_path / "in"), data=image, chunks=(50, 60))
    options: Any = {"mode": mode, "padding_mode": "mirror", "antialias": True}
    expected = in_memory(image, matrix, (16, 19), **options)
    for n, chunks in enumerate([(5, 7), (16, 19)]):
        out = tmp_path / f"out{n}"
        gridsample.zarr.warp(
            tmp_path / "in", out, matrix, (16, 19), layout=Layout(chunks), **options
        )
        result = zarr.open(str(out))["0"][...]
        np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["uint8", "float64", "complex64"])
def test_volumes_and_dtypes(dtype: str, tmp_path: Path) -> None:
    image = (
        noise(13, 17, 11, dtype="float32").astype("complex64")
        if dtype == "complex64"
        else noise(13, 17, 11, dtype=dtype)
    )
    zarr.create_array(str(tmp_path / "in"), data=image, chunks=(5, 5, 5), shards=(10, 10, 10))
    gridsample.zarr.warp(tmp_path / "in", tmp_path / "out", turned(3), mode="cubic")
    result = zarr.open(str(tmp_path / "out"))["0"]
    assert result.shards == (10, 10, 10) and result.dtype == image.dtype
    np.testing.assert_array_equal(
        result[...], in_memory(image, turned(3), image.shape, mode="cubic")
    )


def test_labels(tmp_path: Path) -> None:
    labels = np.random.default_rng(2).integers(0, 5, (21, 33)).astype("uint16")
    zarr.create_array(str(tmp_path / "in"), data=labels, chunks=(8, 8))
    gridsample.zarr.warp(tmp_path / "in", tmp_path / "out", turned(2), mode="label")
    expected = in_memory(labels, turned(2), labels.shape, mode="label")
    np.testing.assert_array_equal(zarr.open(str(tmp_path / "out"))["0"][...], expected)


@pytest.mark.parametrize("boundary", ["mirror", "wrap", "constant", "border"])
def test_splines_are_within_rounding(boundary: str, tmp_path: Path) -> None:
    image = noise(260, 130, dtype="float64")
    zarr.create_array(str(tmp_path / "in"), data=image, chunks=(50, 40))
    fill = {"fill_value": 2.0} if boundary == "constant" else {}
    gridsample.zarr.warp(
        tmp_path / "in", tmp_path / "out", turned(2), mode="spline3", padding_mode=boundary, **fill
    )
    expected = in_memory(
        image, turned(2), image.shape, mode="spline3", padding_mode=boundary, **fill
    )
    result = zarr.open(str(tmp_path / "out"))["0"][...]
    assert np.abs(result - expected).max() <= 1e-15 * np.ptp(image)


# The world ----------------------------------------------------------------------------------------


def stored_image(path: Path, image: Array, scale: list[float], shift: list[float]) -> Path:
    group = zarr.open_group(str(path), mode="w")
    group.create_array("0", data=image, chunks=(6,) * image.ndim)
    steps = [{"type": "scale", "scale": scale}, {"type": "translation", "translation": shift}]
    axes = AXES[3 - image.ndim :]
    dataset = {"path": "0", "coordinateTransformations": steps}
    group.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": [dataset]}]}
    return path


def test_like_and_transformations_match_resample(tmp_path: Path) -> None:
    image = noise(14, 19, 16, dtype="float64")
    other = np.zeros((10, 12, 20))
    source = stored_image(tmp_path / "in.zarr", image, [2.0, 0.5, 0.5], [1, 2, 3])
    like = stored_image(tmp_path / "like.zarr", other, [2.5, 0.75, 0.4], [1.5, 2.5, 2.5])
    rng = np.random.default_rng(3)
    field = Displacement(rng.normal(size=(5, 4, 4, 3)), np.diag([6.0, 3.0, 3.0, 1.0]))
    affine = turned(3, 3.0)
    for n, steps in enumerate([[], [affine], [affine, field, np.linalg.inv(affine)]]):
        path = tmp_path / f"steps{n}.zarr"
        read = []
        if steps:
            write_transformations(path, steps, AXES)
            read = read_transformations(path)
        out = tmp_path / f"out{n}.zarr"
        gridsample.zarr.warp(
            source, out, like=like, transform=read, mode="cubic", layout=Layout((4, 5, 6))
        )
        affines = [read_multiscale(each).spatial_affine() for each in (source, like)]
        expected = gridsample.resample(
            image, affines[0], (other.shape, affines[1]), steps or None, "cubic"
        )
        result = read_multiscale(out)
        np.testing.assert_array_equal(result.affines[0], affines[1])
        np.testing.assert_allclose(result.arrays[0][...], expected, rtol=0, atol=1e-12)
        # The same bits in one chunk.
        file_path = tmp_path / f"whole{n}.zarr"
        gridsample.zarr.warp(
            source, file_path, like=like, transform=read, mode="cubic", layout=Layout(other.shape)
        )
        np.testing.assert_array_equal(
            read_multiscale(file_path).arrays[0][...], result.arrays[0][...]
        )


def test_outputs_have_the_position_of_their_canvas(tmp_path: Path) -> None:
    source = stored_image(tmp_path / "in.zarr", noise(8, 9), [2.0, 0.5], [1, 2])
    moving = np.eye(3)
    moving[:2, 2] = [3, -1]
    gridsample.zarr.warp(source, tmp_path / "out", moving, (4, 5), voxels=moving)
    affine = read_multiscale(tmp_path / "out").affines[0]
    assert affine.tolist() == [[2, 0, 7], [0, 0.5, 1.5], [0, 0, 1]]


def test_a_field_with_long_footprints_is_an_error_beside_missing_vectors(tmp_path: Path) -> None:
    source = stored_image(tmp_path / "in.zarr", noise(60, 90), [1.0, 1.0], [0, 0])
    vectors = np.zeros((60, 90, 2))
    vectors[4, 6], vectors[40, 50] = np.nan, 70.0
    step, layout = Displacement(vectors, np.eye(3)), Layout((60, 90))
    options: Any = {"transform": [step], "antialias": True, "layout": layout}
    with pytest.raises(ValueError, match="max_samples=16"):
        gridsample.zarr.warp(source, tmp_path / "out", **options)
    gridsample.zarr.warp(source, tmp_path / "out", max_samples=64, overwrite=True, **options)


def test_rotated_voxels_are_written_as_rfc5(tmp_path: Path) -> None:
    """An output that is placed like a rotated image is rotated, too."""
    source = stored_image(tmp_path / "in.zarr", noise(8, 9), [1.0, 1.0], [0, 0])
    gridsample.zarr.warp(source, tmp_path / "out", voxels=turned(2))
    record = zarr.open(str(tmp_path / "out")).attrs["ome"]
    assert record["version"] == "0.6"
    again = read_multiscale(tmp_path / "out")
    np.testing.assert_array_equal(again.affines[0], turned(2))
    gridsample.zarr.warp(source, tmp_path / "third", like=tmp_path / "out", mode="linear")
    np.testing.assert_array_equal(read_multiscale(tmp_path / "third").affines[0], turned(2))


def test_units_of_like_are_those_of_the_image(tmp_path: Path) -> None:
    source = stored_image(tmp_path / "in.zarr", noise(3, 4), [1.0, 1.0], [0, 0])
    like = Lattice((3, 4), np.eye(3), units=("", "mile"))
    with pytest.raises(ValueError, match="like must have the units of the image, 'micrometer'"):
        gridsample.zarr.warp(source, tmp_path / "out", like=like)
    like = replace(like, affine=np.eye(3)[np.newaxis], units=("micrometer", ""))
    gridsample.zarr.warp(source, tmp_path / "out", like=like)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"matrix": np.eye(4)}, ValueError, "matrix must be a matrix of finite numbers"),
        ({"matrix": np.ones((3, 3))}, ValueError, "matrix must be affine"),
        ({"matrix": "x"}, TypeError, "matrix must be a matrix of real numbers"),
        ({"matrix": 1j * np.eye(3)}, TypeError, "matrix must be a matrix of real numbers"),
        ({"like": ((8, 9), [[1, 2], [3]])}, TypeError, "must be a matrix of real numbers"),
        ({"like": 5}, TypeError, "a Zarr store, its folder or its address is expected, got 5"),
        ({"transform": lambda points: points[..., :1]}, ValueError, "points of the shape"),
        ({"size": (3,)}, ValueError, "size must have 2 entries"),
        ({"size": (5.5, 4)}, TypeError, "size must be a sequence of integers"),
        ({"size": 5}, TypeError, "size must be a sequence of integers"),
        ({"mode": "label"}, TypeError, "label"),
        ({"mode": "cubicle"}, ValueError, "cubicle"),
        ({"matrix": np.eye(3), "transform": [np.eye(3)]}, ValueError, "either a matrix"),
        (
            {"matrix": np.diag([99.0, 99, 1]), "missing": "ignore", "antialias": True},
            ValueError,
            "longer than max_samples",
        ),
        ({"like": "nowhere"}, FileError, "there is no folder nowhere"),
        ({"voxels": turned(2), "layout": Layout(zarr_format=2)}, FileError, "rotated or sheared"),
        ({"layout": Layout((2, 2), (4, 4), 2)}, FileError, "shards need Zarr version 3"),
        ({"threads": 0}, ValueError, "threads must be at least 1"),
        ({"fill_value": [1.0, 2.0]}, ValueError, "fill_value must be one number"),
        ({"align_corner": True}, TypeError, "align_corner"),
        *(
            ({name: value}, TypeError, f"unexpected keyword argument '{name}'")
            for name, value in [
                ("real", np.float32),
                ("coords", "pixel"),
                ("lines", ()),
                ("channel_axis", -1),
                ("align_corners", True),
                ("return_mask", True),
                ("return_weight", True),
                ("weights", None),
            ]
        ),
    ],
)
def test_errors_come_before_anything_is_written(
    options: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    zarr.create_array(str(tmp_path / "in"), data=noise(5, 6), chunks=(2, 2))
    with pytest.raises(error, match=message):
        gridsample.zarr.warp(tmp_path / "in", tmp_path / "out", **options)
    assert [each.name for each in tmp_path.iterdir()] == ["in"]
