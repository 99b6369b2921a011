"""Random paths through the world: in memory, in chunks of Dask, and into a store."""

from __future__ import annotations

from typing import Any

import dask.array as da
import hypothesis
import numpy as np
import pytest
import zarr
from hypothesis import strategies as st
from strategies import examples
from zarr.storage import MemoryStore

import gridsample
import gridsample.dask
import gridsample.zarr
from gridsample.io.image import FileError
from gridsample.world import BoundedTransform, Displacement, Lattice
from gridsample.zarr import Layout

Array = np.ndarray[Any, Any]


class Case:
    """A random image, where it is in the world, and a path to it."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.rank = rank = int(rng.integers(1, 4))
        self.spatial, self.out = self.shape(), self.shape()
        values = rng.normal(size=self.spatial) * 60 + 100
        self.image = values.clip(0, 250).astype(rng.choice(["float32", "float64", "uint8"]))
        # OME-Zarr has no matrices before version 0.6, only scales and translations.
        self.affine = np.diag([*rng.uniform(0.5, 2, rank), 1.0])
        self.affine[:rank, rank] = rng.normal(size=rank)
        self.like = Lattice(self.out, self.matrix(0.1))
        steps = [self.step() for _ in range(rng.integers(0, 4))]
        self.transform = steps[0] if len(steps) == 1 else steps
        self.mode = str(rng.choice(["linear", "cubic"]))

    def shape(self) -> tuple[int, ...]:
        return tuple(int(n) for n in self.rng.integers(1, (40, 18, 9)[self.rank - 1], self.rank))

    def matrix(self, amount: float) -> Array:
        matrix = np.diag([*self.rng.uniform(0.6, 1.8, self.rank), 1.0])
        matrix[: self.rank] += self.rng.normal(0, amount, (self.rank, self.rank + 1))
        return matrix

    def step(self) -> Any:
        """A matrix, a field or a function."""
        kind, rank, rng = self.rng.integers(3), self.rank, self.rng
        if kind == 0:
            return self.matrix(0.3)
        if kind == 1:
            vectors = rng.normal(0, 2, (*rng.integers(1, 6, rank), rank)).astype("float32")
            return Displacement(vectors, self.matrix(0.1) * [*[2.5] * rank, 1])
        size = float(rng.uniform(2, 9))
        return BoundedTransform(
            lambda points: points + np.sin(points / size), lambda low, high: (low - 1, high + 1)
        )

    def chunks(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(int(self.rng.integers(1, n + 1)) for n in shape)

    def stored(self) -> MemoryStore:
        """The image as OME-Zarr."""
        store = MemoryStore()
        group = zarr.open_group(store, mode="w")
        group.create_array("0", data=self.image, chunks=self.chunks(self.spatial))
        axes = [{"name": name, "type": "space"} for name in "zyx"[3 - self.rank :]]
        scale, shift = np.diag(self.affine)[:-1], self.affine[:-1, -1]
        steps = [
            {"type": "scale", "scale": scale.tolist()},
            {"type": "translation", "translation": shift.tolist()},
        ]
        datasets = [{"path": "0", "coordinateTransformations": steps}]
        record = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]}
        group.attrs["ome"] = record
        return store


@hypothesis.settings(max_examples=examples(60))
@hypothesis.given(st.integers(0, 2**32))
def test_paths_have_the_same_bits_in_memory_in_chunks_and_in_stores(seed: int) -> None:
    case = Case(seed)
    expected = gridsample.resample(case.image, case.affine, case.like, case.transform, case.mode)
    chunks = case.chunks(case.out)
    lazy = gridsample.dask.resample(
        da.from_array(case.image, chunks=case.chunks(case.spatial)),
        case.affine,
        case.like,
        case.transform,
        case.mode,
        chunks=chunks,
    )
    np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), expected)
    output = MemoryStore()
    gridsample.zarr.warp(
        case.stored(),
        output,
        like=case.like,
        transform=case.transform,
        mode=case.mode,
        layout=Layout(chunks),
    )
    np.testing.assert_array_equal(zarr.open_group(output, mode="r")["0"][...], expected)


def test_a_transform_is_a_matrix_a_field_or_any_function() -> None:
    image = np.arange(12.0).reshape(3, 4)
    store, half = MemoryStore(), np.array([[1, 0, 0.5], [0, 1, 0], [0, 0, 1]])
    zarr.create_array(store, data=image, chunks=(2, 2))
    for transform in (
        half,
        half.tolist(),
        Displacement(np.full((9, 9, 2), [0.5, 0.0]), np.eye(3)),
        lambda points: points + np.array([0.5, 0.0]),
    ):
        output = MemoryStore()
        gridsample.zarr.warp(store, output, transform=transform, padding_mode="border")
        expected = image + np.array([[2.0], [2.0], [0.0]])
        np.testing.assert_array_equal(zarr.open_group(output, mode="r")["0"][...], expected)


def test_chunks_of_unknown_and_of_unbounded_positions() -> None:
    vectors = np.array([0.5, 1, np.nan, 2, -np.inf, 1])[:, np.newaxis]
    unbounded = BoundedTransform(lambda points: points, lambda low, high: (-np.inf, np.inf))
    image, like = np.arange(6.0), ((6,), np.eye(2))
    for transform in (Displacement(vectors, np.eye(2)), unbounded):
        expected = gridsample.resample(image, np.eye(2), like, transform)
        lazy = gridsample.dask.resample(
            da.from_array(image, chunks=4), np.eye(2), like, transform, chunks=2
        )
        np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), expected)


def test_images_that_do_not_extend_end_at_the_edges_of_voxels() -> None:
    image, store, output = np.arange(6.0).reshape(2, 3), MemoryStore(), MemoryStore()
    zarr.create_array(store, data=image, chunks=(2, 2))
    like, options = ((2, 6), np.diag([1, 0.75, 1])), {"fill_value": -1, "extrapolate": False}
    expected = gridsample.resample(image, np.eye(3), like, padding_mode="border", **options)
    gridsample.zarr.warp(store, output, like=like, padding_mode="border", **options)
    np.testing.assert_array_equal(zarr.open_group(output, mode="r")["0"][...], expected)
    assert expected[0, 3] == 2  # at 2.25


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transform": [np.eye(4)]}, r"transform\[0\] must be"),
        ({"transform": np.stack([np.eye(3)] * 2)}, "must not be batches"),
        ({"like": ((3, 4), np.eye(4))}, r"like\[1\] must be a matrix"),
        ({"like": ((3,), np.eye(3))}, r"like\[0\] must have 2 entries"),
    ],
)
def test_paths_that_do_not_fit_are_errors(options: dict[str, Any], message: str) -> None:
    store = MemoryStore()
    zarr.create_array(store, data=np.zeros((3, 4)), chunks=(2, 2))
    with pytest.raises(ValueError, match=message):
        gridsample.zarr.warp(store, MemoryStore(), **options)


def test_an_output_that_was_interrupted_does_not_continue_with_a_function(tmp_path: Any) -> None:
    zarr.create_array(str(tmp_path / "in"), data=np.zeros((4, 4)), chunks=(2, 2))
    calls = []

    def function(points: Array) -> Array:
        calls.append(points.shape)
        if len(calls) == 3:
            raise OSError("the disk is full")
        return points

    options: dict[str, Any] = {"transform": function, "threads": 1}
    with pytest.raises(FileError, match="the disk is full"):
        gridsample.zarr.warp(tmp_path / "in", tmp_path / "out", **options)
    with pytest.raises(FileError, match="the unfinished result of another command"):
        gridsample.zarr.warp(tmp_path / "in", tmp_path / "out", **options)
    gridsample.zarr.warp(tmp_path / "in", tmp_path / "out", overwrite=True, **options)
