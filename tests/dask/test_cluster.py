"""Chunked results on a cluster of processes: with spilling, and with a worker killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import zarr

import gridsample
import gridsample.dask

pytestmark = pytest.mark.slow


def created(block: Any) -> Any:
    """Pixels that a worker makes, so that the graph has none."""
    return np.random.default_rng(int(block.sum())).random(block.shape)


@contextmanager
def two_workers() -> Iterator[Any]:
    """A client of two workers, which write to disk what they hold beyond 15 MB."""
    distributed = pytest.importorskip("distributed")
    settings = {
        "distributed.worker.memory.target": 0.1,
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.pause": False,
        "distributed.worker.memory.terminate": False,
    }
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit="150MB", dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.filterwarnings("ignore")
def test_results_survive_spilling_and_a_lost_worker() -> None:
    distributed = pytest.importorskip("distributed")
    seeds = np.arange(48.0).reshape(1, 1, 6, 8).repeat(150, 2).repeat(150, 3)
    image = da.from_array(seeds, chunks=(1, 1, 150, 150)).map_blocks(created, dtype=float)
    theta = np.array([[[0.9, 0.3, -40.0], [-0.3, 0.9, 100.0]]])
    size, options = (1, 1, 900, 1200), {"coords": "pixel", "padding_mode": "wrap"}
    splines = gridsample.dask.affine_sample(image, theta, size, "spline3", **options)
    cubic = gridsample.dask.affine_sample(image, theta, size, "cubic", **options)
    in_memory = image.compute(scheduler="synchronous")
    expected = gridsample.affine_sample(in_memory, theta, size, "cubic", **options)
    fitted = gridsample.affine_sample(in_memory, theta, size, "spline3", **options)
    with two_workers() as client:
        np.testing.assert_array_equal(client.compute(cubic).result(), expected)
        future = client.compute(splines)
        seen = distributed.wait(
            [client.submit(int, 1, pure=False) for _ in range(2)]
        )  # both workers have begun
        assert len(seen.done) == 2
        pid = next(iter(client.run(os.getpid).values()))
        os.kill(pid, signal.SIGKILL)
        result = future.result()
    assert np.abs(result - fitted).max() < 1e-15


@pytest.mark.filterwarnings("ignore")
def test_a_result_is_stored_although_a_worker_is_killed(tmp_path: Path) -> None:
    seeds = np.arange(48.0).reshape(1, 1, 6, 8).repeat(150, 2).repeat(150, 3)
    image = da.from_array(seeds, chunks=(1, 1, 150, 150)).map_blocks(created, dtype=float)
    theta = np.array([[[0.9, 0.3, -40.0], [-0.3, 0.9, 100.0]]])
    size, options = (1, 1, 900, 1200), {"coords": "pixel", "padding_mode": "wrap"}
    result = gridsample.dask.affine_sample(image, theta, size, "cubic", **options)
    in_memory = image.compute(scheduler="synchronous")
    expected = gridsample.affine_sample(in_memory, theta, size, "cubic", **options)
    target = zarr.create_array(str(tmp_path), shape=size, chunks=(1, 1, 150, 150), dtype=float)
    killed: list[int] = []
    with two_workers() as client:

        def kill_worker(share: float) -> None:
            """Kill a worker once a third is stored, with what it keeps."""
            if share > 0.3 and not killed:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        plan = gridsample.dask.store(result, target, keep=12, progress=kill_worker)
    assert killed and plan.reads >= plan.inputs
    np.testing.assert_array_equal(target[...], expected)
