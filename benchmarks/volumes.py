"""A volume that is larger than memory, rotated on a cluster: its reads, and the workers' memory.

    python -m benchmarks.volumes --size 768
    python -m benchmarks.volumes --size 2150  # 40 GB

The volume is a function of the index.  Each read of a chunk is counted, and the result is compared
with the function at some points of each chunk, but not stored.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gridsample.dask

Array = np.ndarray[Any, Any]
WAVES = (0.031, 0.023, 0.017)  # radians a pixel along z, y, x
POINTS = 1000


def wave(z: Array, y: Array, x: Array) -> Array:
    """The values of the volume at some positions."""
    return np.sin(WAVES[0] * z) + np.sin(WAVES[1] * y) * np.cos(WAVES[2] * x)


class Volume:
    """The volume as an array that notes each read in a file."""

    def __init__(self, size: int, log: str) -> None:
        self.shape, self.dtype, self.ndim = (size,) * 3, np.dtype(np.float32), 3
        self.log = log

    def __getitem__(self, box: tuple[slice, ...]) -> Array:
        append_line(self.log, " ".join(str(part.start) for part in box))
        z, y, x = np.ogrid[box]
        pixels = np.empty(np.broadcast_shapes(z.shape, y.shape, x.shape), np.float32)
        np.multiply(np.sin(WAVES[1] * y), np.cos(WAVES[2] * x), out=pixels, casting="same_kind")
        pixels += np.sin(WAVES[0] * z).astype(np.float32)
        return pixels


class Sink:
    """An array that compares what is stored with the rotated volume, at some points."""

    def __init__(self, size: int, matrix: Array, offset: Array, log: str) -> None:
        self.shape, self.dtype, self.ndim = (size,) * 3, np.dtype(np.float32), 3
        self.matrix, self.offset, self.log = matrix, offset, log

    def __setitem__(self, box: tuple[slice, ...], values: Array) -> None:
        rng = np.random.default_rng([part.start for part in box])
        indices = np.stack([rng.integers(0, n, POINTS) for n in values.shape])
        first = np.array([[part.start] for part in box])
        positions = self.matrix @ (indices + first) + self.offset[:, None]
        # Near the ends, the spline's boundary is not that of the wave.
        inside = ((positions > 20) & (positions < self.shape[0] - 21)).all(0)
        error = np.abs(values[tuple(indices)] - wave(*positions))[inside].max(initial=0.0)
        append_line(self.log, str(float(error)))


def append_line(log: str, line: str) -> None:
    """Append a line to a file in one write, so that lines of several processes stay separate."""
    with open(log, "ab", buffering=0) as file:
        file.write(f"{line}\n".encode())


class Memory(threading.Thread):
    """Watches the memory of processes: the greatest sum of their sizes at a time, in bytes."""

    def __init__(self, pids: Sequence[int]) -> None:
        super().__init__(daemon=True)
        self.pids, self.ended, self.most = pids, threading.Event(), 0

    def run(self) -> None:
        """Sample the memory every tenth of a second."""
        while not self.ended.wait(0.1):
            self.most = max(self.most, self.now())

    def now(self) -> int:
        """The present memory of the processes, in bytes."""
        page = os.sysconf("SC_PAGE_SIZE")
        lines = [Path(f"/proc/{pid}/statm").read_text().split() for pid in self.pids]
        return sum(int(line[1]) for line in lines) * page


def main() -> None:
    """Rotate a volume, and print time, memory, reads and errors."""
    import dask
    import dask.array as da
    import distributed

    parser = argparse.ArgumentParser(prog="python -m benchmarks.volumes")
    parser.add_argument("--size", type=int, default=768, help="the edge of the volume in pixels")
    parser.add_argument("--chunk", type=int, default=128, help="the edge of a chunk in pixels")
    parser.add_argument("--keep", type=int, default=128, help="chunks that are kept")
    parser.add_argument("--order", type=int, default=3, help="the order of the spline")
    parser.add_argument("--degrees", type=float, default=10)
    parser.add_argument("--axis", type=float, nargs=3, default=(1, 0, 0), metavar=("Z", "Y", "X"))
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    matrix = rotation(np.array(arguments.axis), np.deg2rad(arguments.degrees))
    centre = np.full(3, (arguments.size - 1) / 2)
    offset = centre - matrix @ centre
    with tempfile.TemporaryDirectory() as folder:
        reads, writes = f"{folder}/reads", f"{folder}/writes"
        volume = Volume(arguments.size, reads)
        source = da.from_array(volume, chunks=arguments.chunk, meta=np.empty((0,) * 3, np.float32))
        start = time.perf_counter()
        rotated = gridsample.dask.affine_transform(source, matrix, offset, order=arguments.order)
        print(f"{rotated.nbytes / 1e9:.1f} GB, {rotated.npartitions} chunks")
        print(f"graph: {time.perf_counter() - start:.1f} s")
        target = Sink(arguments.size, matrix, offset, writes)
        with (
            dask.config.set({"distributed.worker.memory.target": False}),
            distributed.LocalCluster(
                n_workers=arguments.workers,
                threads_per_worker=1,
                memory_limit=None,
                dashboard_address=None,
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            memory = Memory([*client.run(os.getpid).values()])
            idle = memory.now()
            memory.start()
            start = time.perf_counter()
            plan = gridsample.dask.store(
                rotated, target, keep=arguments.keep, progress=Report(start).update
            )
            seconds = time.perf_counter() - start
            memory.ended.set()
        counts = Counter(Path(reads).read_text().split("\n")[:-1])
        errors = [float(line) for line in Path(writes).read_text().split()]
        print(f"time: {seconds:.0f} s")
        print(f"memory of the workers: {memory.most / 1e9:.2f} GB, {idle / 1e9:.2f} before")
        total = sum(counts.values())
        print(f"reads: {total} of {len(counts)} chunks, {total / len(counts):.3f} each")
        print(f"reads that were planned: {plan.reads}")
        print(f"chunks written: {len(errors)}")
        print(f"greatest error at {POINTS} points of each: {max(errors):.1e}")


class Report:
    """Prints the progress at each tenth."""

    def __init__(self, start: float) -> None:
        self.start, self.tenth = start, 0

    def update(self, share: float) -> None:
        """Print the share if another tenth is done."""
        if int(share * 10) > self.tenth:
            self.tenth = int(share * 10)
            print(f"{share:.0%} after {time.perf_counter() - self.start:.0f} s", flush=True)


def rotation(axis: Array, angle: float) -> Array:
    """Return the matrix that turns about an axis by an angle in radians."""
    z, y, x = axis / np.linalg.norm(axis)
    cross = np.array([[0, -x, y], [x, 0, -z], [-y, z, 0]])
    matrix: Array = np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
    return matrix


if __name__ == "__main__":
    main()
