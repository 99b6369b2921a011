"""Results that are stored column by column: correct, and with the scheduled reads."""

from __future__ import annotations

import itertools
import random
import weakref
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import zarr

import gridsample
import gridsample.dask
from gridsample.chunked.schedules import columns, schedule_of

Array = np.ndarray[Any, Any]
TURN = np.array([[[0.98, -0.17, 0.0, 9.0], [0.17, 0.98, 0.0, -5.0], [0.0, 0.0, 1.0, 0.0]]])


class Counting:
    """An array that counts reads of its chunks."""

    def __init__(self, array: Array) -> None:
        self.array, self.reads = array, 0
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

    def __getitem__(self, index: Any) -> Array:
        self.reads += 1
        return self.array[index]


@pytest.fixture(autouse=True)
def _in_this_thread() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


def turned(store: Counting, mode: str) -> Any:
    source = da.from_array(store, chunks=(1, 1, 10, 10, 10))
    result = gridsample.dask.affine_sample(source, TURN, store.shape, mode, coords="pixel")
    store.reads = 0  # dask looks for the kind of array
    return result * 2


@pytest.mark.parametrize("keep", [0, 8, 20, 1000])
def test_stored_results_match_and_reads_match_the_schedule(keep: int) -> None:
    store = Counting(np.random.default_rng(1).random((1, 1, 30, 40, 52)))
    result, target = turned(store, "cubic"), np.zeros(store.shape)
    shares: list[float] = []
    schedule = gridsample.dask.store(result, target, keep=keep, progress=shares.append)
    np.testing.assert_array_equal(target, result.compute())
    store.reads = 0
    again = gridsample.dask.store(result, target, keep=keep)
    assert again.reads == schedule.reads
    single = store.reads - schedule.reads  # chunks that a single chunk of the result needs
    assert 0 <= single <= 4
    assert shares == sorted(shares) and shares[-1] == 1.0
    if keep == 1000:
        assert schedule.reads == schedule.inputs
    if keep < 20:
        assert schedule.reads > schedule.inputs
    assert all(len(step.keeps) <= keep for step in schedule.steps)


@pytest.mark.parametrize("keep", [0, 8, 20, 1000])
def test_no_more_inputs_are_in_memory_than_the_schedule_says(keep: int) -> None:
    """Of those that several chunks of the result need; others are there for a task alone."""
    alive, most = [0], [0]

    def died() -> None:
        alive[0] -= 1

    def made(block: Array) -> Array:
        chunk = block + 0
        alive[0] += 1
        most[0] = max(most[0], alive[0])
        weakref.finalize(chunk, died)
        return chunk

    source = da.ones((1, 1, 30, 40, 52), chunks=(1, 1, 10, 10, 10))
    source = source.map_blocks(made, dtype=float, meta=np.empty((0,) * 5))
    result = gridsample.dask.affine_sample(source, TURN, source.shape, "cubic", coords="pixel")
    with dask.config.set(num_workers=2):
        plan = gridsample.dask.store(result, np.zeros(source.shape), keep=keep)
    assert alive[0] == 0
    assert most[0] <= plan.held + 1
    assert plan.held <= plan.inputs and (keep < 1000 or plan.held > 0.2 * plan.inputs)


def test_columns_take_fewer_reads_than_rows() -> None:
    """Each chunk of the result needs those beside it, as under a small rotation."""
    places = [*itertools.product(range(12), repeat=3)]
    needs = {
        place: frozenset(
            neighbour
            for neighbour in itertools.product(*(range(k - 1, k + 2) for k in place))
            if all(0 <= k < 12 for k in neighbour)
        )
        for place in places
    }
    random.Random(1).shuffle(places)
    schedule = schedule_of({place: needs[place] for place in places}, 140, 4)
    assert schedule.inputs == 12**3
    assert schedule.reads < 1.4 * schedule.inputs
    assert sorted(place for step in schedule.steps for place in step.chunks) == sorted(needs)
    held: frozenset[Any] = frozenset()
    for step in schedule.steps:
        needed_inputs = frozenset().union(*(needs[place] for place in step.chunks))
        assert needed_inputs <= held | step.reads and not held & step.reads
        assert step.keeps <= held | step.reads
        held = step.keeps
    assert not held


def test_columns_are_traversed_in_alternating_directions() -> None:
    order = columns([*itertools.product(range(4), range(6), range(4))], 2)
    assert order[:4] == [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1)]
    steps = [abs(a[1] - b[1]) for a, b in itertools.pairwise(order)]
    assert max(steps) == 1  # along the longest axis


def test_results_are_stored_in_zarr_arrays_whose_chunks_match(tmp_path: Any) -> None:
    store = Counting(np.random.default_rng(1).random((1, 1, 30, 40, 52)))
    result = turned(store, "linear")
    target = zarr.create_array(
        str(tmp_path / "out"), shape=store.shape, chunks=(1, 1, 5, 10, 10), dtype=float
    )
    gridsample.dask.store(result, target)
    np.testing.assert_array_equal(target[...], result.compute())
    odd = zarr.create_array(
        str(tmp_path / "odd"), shape=store.shape, chunks=(1, 1, 7, 10, 10), dtype=float
    )
    with pytest.raises(ValueError, match="multiples of the target's, 7 along axis 2"):
        gridsample.dask.store(result, odd)


def test_errors_name_the_argument() -> None:
    result = da.zeros((4, 4), chunks=2)
    with pytest.raises(TypeError, match="result must be a dask array, got ndarray"):
        gridsample.dask.store(np.zeros(3), np.zeros(3))
    with pytest.raises(ValueError, match=r"target must have the shape \(4, 4\), got \(4, 5\)"):
        gridsample.dask.store(result, np.zeros((4, 5)))
    with pytest.raises(ValueError, match="keep must be a number of inputs"):
        gridsample.dask.store(result, np.zeros((4, 4)), keep=-1)


def test_an_error_of_a_task_is_raised() -> None:
    def broken(block: Array) -> Array:
        raise OSError("disk")

    result = da.zeros((4, 4), chunks=2).map_blocks(broken, dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(OSError, match="disk"):
        gridsample.dask.store(result, np.zeros((4, 4)))


def test_the_prefilter_keeps_no_filtered_image() -> None:
    """A task filters what it samples, so the graph has the tasks of the image and of the result."""
    store = Counting(np.random.default_rng(1).random((1, 1, 30, 40, 52)))
    for mode in ("linear", "spline3"):
        (result,) = dask.optimize(turned(store, mode))
        sizes = {key for key in dict(result.__dask_graph__()) if isinstance(key, tuple)}
        assert len(sizes) == 3 * 3 * 4 * 6, mode  # an alias of each, also
